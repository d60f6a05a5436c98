"""The number of a node is its own as long as it is renewed: no two make orders under one, whoever sleeps, and nobody waits for longer than that takes."""

import re
import signal
import threading
import time

from harness import Shop, at_once, eventually, problem
from nodes import PREFIX, Nodes
from redis_servers import RedisCluster

LEASE_S = 15.5  # a number that was not renewed for so long is free


def test_a_number_is_of_one_node():
    with Nodes() as nodes:
        one = nodes.start("--node", "7")
        two = nodes.make("--node", "7")
        two.start_unready()
        assert two.wait(60) == 1
        assert "another node has the number 7" in two.log()
        nodes.servers.remove(two)
        chosen = nodes.start()
        assert "this is node " in chosen.log()
        one.kill()  # its number is free once the lease that it left behind has ended
        one.start()
        assert nodes.redis().get(f"{PREFIX}node:7")


def knocking(server, seller, sale, name, ended):
    """What one heard who grabs for a new buyer again and again: (buyer, answer)."""
    shop, heard = Shop(server, seller), []
    while not ended.is_set():
        buyer = f"{name}{len(heard)}"
        heard.append((buyer, shop.grab(sale, buyer)))
    return heard


def test_a_node_that_slept_while_another_took_its_number_gives_none():
    """P3: with ack = gate an order number that was told to two buyers would be the order of one of them. Two sales whose orders may have one number."""
    with Nodes("--ack", "gate") as nodes:
        sleeper, heir = nodes.start("--node", "5"), nodes.make("--node", "5")
        shop = Shop(sleeper)
        sales = [shop.sale(stock=100000)["id"] for _ in range(17)]
        sale, other = sales[0], sales[16]
        shop.win(sale, "ann")
        sleeper.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(LEASE_S)
            heir.start()
        finally:
            ended = threading.Event()
            threading.Timer(1, sleeper.process.send_signal, (signal.SIGCONT,)).start()
        threading.Timer(6, ended.set).start()
        heard = at_once(lambda: knocking(sleeper, shop.seller, sale, "a", ended), lambda: knocking(sleeper, shop.seller, sale, "b", ended),
                        lambda: knocking(heir, shop.seller, other, "c", ended), lambda: knocking(heir, shop.seller, other, "d", ended))
        told = {(buyer, answer.json()["order"]["no"]) for side in heard for buyer, answer in side if answer.status == 201}
        assert len({no for _, no in told}) == len(told), "one number was told to two"
        eventually(lambda: told <= {(row["buyer"], str(row["no"])) for number in (sale, other) for row in nodes.ledger().orders(number)}, 20)
        assert not any(buyer[0] in "ab" for buyer, _ in told) and any(buyer[0] in "cd" for buyer, _ in told)
        assert {(answer.status, answer.code) for side in heard[:2] for _, answer in side} == {(503, "BUSY")}
        assert all(answer.headers.get("retry-after") for side in heard[:2] for _, answer in side)
        ready = shop.client.get("/readyz")
        assert ready.status == 503 and "number" in ready.json()["detail"], ready
        assert "the number 5 of this node has been taken by another" in sleeper.log()
        problem(shop.act(sale, "stock", {"add": -1}), 503, "BUSY")
        heir.stop()  # which gives the number back
        eventually(lambda: shop.client.get("/readyz").status == 200)
        no = shop.win(sale, "bob")["no"]
        assert int(no) > max(int(told_no) for _, told_no in told)
        assert nodes.reconcile().code == 0


def test_a_node_that_slept_goes_on_under_a_number_of_its_own():
    """One that kept its number renews it before the first order; one that chose it takes another where it is gone."""
    with Nodes("--ack", "gate") as nodes:
        fixed, chosen = nodes.start("--node", "5"), nodes.start()
        number = re.search(r"this is node (\d+)", chosen.log()).group(1)
        shop, other = Shop(fixed), Shop(chosen)
        sale = shop.sale(stock=1000)["id"]
        for server in (fixed, chosen):
            server.process.send_signal(signal.SIGSTOP)
        time.sleep(LEASE_S)
        nodes.redis().set(f"{PREFIX}node:{number}", "another", px=60000)
        for server in (fixed, chosen):
            server.process.send_signal(signal.SIGCONT)
        for side in (shop, other):
            first = side.grab(sale, "first")
            assert first.status in (200, 201, 409) or first.code == "BUSY", first
            eventually(lambda side=side: side.client.get("/readyz").status == 200, 5)
        orders = [int(side.win(sale, buyer)["no"]) >> 12 & 1023 for side, buyer in ((shop, "ann"), (other, "bob"))]
        assert orders[0] == 5 and orders[1] not in (5, int(number))
        assert "the number 5 is this node's again" in fixed.log() and f"the number {number} of this node has been taken by another (another)" in chosen.log()


def test_a_redis_that_was_away_for_longer_than_a_number_lasts_sells_at_once_when_it_is_back():
    with Nodes() as nodes:
        shops = [Shop(nodes.start("--node", "5")), Shop(nodes.start())]
        sale = shops[0].sale(stock=1000)["id"]
        nodes.own.pause()
        time.sleep(LEASE_S)
        for shop in shops:
            problem(shop.grab(sale, "ann"), 503, "BUSY")
        nodes.own.resume()
        back = time.monotonic()
        for number, shop in enumerate(shops):
            eventually(lambda number=number, shop=shop: shop.grab(sale, f"b{number}").status in (200, 201), 10)
        assert time.monotonic() - back < 5


def number_of(server):
    return re.findall(r"this is node (\d+)", server.log())[-1]


def test_a_node_whose_number_was_on_a_master_that_is_gone_takes_another():
    """The master has no replica: sales on the others go on."""
    with RedisCluster(replicas=0, cluster_require_full_coverage="no") as servers, Nodes(gate=servers.url) as nodes:
        node = nodes.start()
        shop, number = Shop(node), number_of(node)
        lost = servers.master_of(f"{PREFIX}node:{number}")
        sales = [shop.sale(stock=1000)["id"] for _ in range(12)]
        other = next(sale for sale in sales if servers.master_of(nodes.key(sale, "state")) is not lost)
        lost.kill()
        time.sleep(LEASE_S)
        eventually(lambda: shop.grab(other, "ann").status in (200, 201), 10)
        assert number_of(node) != number and servers.master_of(f"{PREFIX}node:{number_of(node)}") is not lost
        assert int(shop.win(other, "bob")["no"]) >> 12 & 1023 == int(number_of(node))
        lost.start()
