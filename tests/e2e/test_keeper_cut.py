"""A node whose keeper cannot do its work for now, and others that can: what is to be done for all of them is done, and everybody hears of it."""

import time

import pytest
from harness import Shop, eventually
from nodes import PREFIX, Nodes
from receiver import CALM, metric
from redis_servers import commands_during
from relay import Relay

JOBS = ("expiry", "warm", "courier", "publisher")
LOCK_S = 6


@pytest.fixture
def nodes():
    with Nodes(*CALM) as made:
        made.flags += ["--publish", f"redis://127.0.0.1:{made.own.port}/merchant"]
        yield made


@pytest.fixture
def relay(nodes):
    """On the way to the database."""
    with Relay(int(nodes.database.split(":")[2].split("/")[0])) as made:
        yield made


def start_behind(relay, nodes):
    """A node that reaches the database by the relay."""
    direct = nodes.database
    nodes.database = direct.replace(f":{relay.port_there}/", f":{relay.port}/")
    server = nodes.start()
    nodes.database = direct
    return server


def owns(server):
    return {job for job in JOBS if metric(server, f"stampede_owns_{job}")}


def owns_all(server):
    return owns(server) == {*JOBS}


def held(shop):
    sale = shop.sale(stock=3, pay_within_s=1)["id"]
    for i in range(3):
        shop.win(sale, f"buyer{i}")
    return sale


def test_a_node_without_the_ledger_leaves_its_jobs_to_one_that_has_it(nodes, relay):
    cut_off = start_behind(relay, nodes)
    eventually(lambda: owns_all(cut_off))
    well = nodes.start()
    shop = Shop(well)
    relay.cut()
    sale = held(shop)
    eventually(lambda: shop.counts(sale) == (3, 3, 0, 0), LOCK_S + 20)
    eventually(lambda: owns_all(well), LOCK_S + 20)
    eventually(lambda: not owns(cut_off))
    assert "expiry is left to other nodes" in cut_off.log()
    # It asks for none of them until it can do them, and then for those that are nobody's.
    relay.mend()
    eventually(lambda: metric(cut_off, "stampede_ledger_up"))
    well.stop()
    eventually(lambda: owns_all(cut_off), LOCK_S + 20)


def test_while_no_node_has_the_ledger_nobody_has_a_job_or_asks_for_one(nodes, relay):
    one, two = start_behind(relay, nodes), start_behind(relay, nodes)
    eventually(lambda: owns(one) | owns(two) == {*JOBS})
    shop = Shop(one)
    sale = held(shop)
    relay.cut()
    eventually(lambda: not nodes.redis().keys(f"{PREFIX}lock:*"), LOCK_S + 20)
    eventually(lambda: not owns(one) | owns(two))
    asked = [line for line in commands_during(nodes.own, lambda: time.sleep(1.5)) if f"{PREFIX}lock:" in line]
    assert not asked, asked
    relay.mend()
    eventually(lambda: shop.counts(sale) == (3, 3, 0, 0), 20)
    eventually(lambda: owns(one) | owns(two) == {*JOBS}, 20)


def test_while_a_large_sale_is_built_a_node_hears_of_logouts_and_changes(nodes):
    """Either node may be the one that builds it, and hears from the other; the way to Redis is slow for what is loaded, until both have heard."""
    orders = 20_000
    with Relay(nodes.own.port) as slow:
        nodes.gate = f"redis://127.0.0.1:{slow.port}"
        servers = [nodes.start(), nodes.start()]
        shops = [Shop(server) for server in servers]
        small, large = [shop.sale(stock=5)["id"] for shop in shops], shops[0].sale(stock=orders + 10)["id"]
        nodes.sold_before(large, orders)
        tokens = [server.token("ann") for server in servers]
        for shop, token in zip(shops, reversed(tokens), strict=True):
            assert shop.client.get("/v1/orders", token).status == 200
        slow.slow = b"chunk", 0.2
        nodes.redis().delete(nodes.key(large, "state"))
        lock = f"{PREFIX}lock:sale:{large}"
        eventually(lambda: nodes.redis().exists(nodes.key(large, "orders")) and nodes.redis().exists(lock))
        for shop, token, sale in zip(shops, tokens, small, strict=True):
            assert shop.client.post("/v1/logout", None, token).status == 204
            assert shop.act(sale, "pause").status == 200
        for shop, token, sale in zip(shops, reversed(tokens), reversed(small), strict=True):
            eventually(lambda shop=shop, token=token: shop.client.get("/v1/orders", token).status == 401)
            eventually(lambda shop=shop, sale=sale: shop.show(sale)["state"] == "paused")
        assert nodes.redis().exists(lock), "they heard of it when it was built"
        slow.slow = None
        eventually(lambda: shops[1].grab(large, "bob").status == 201)
        assert shops[0].counts(large) == shops[1].counts(large) == (orders + 10, 9, 0, orders + 1)
