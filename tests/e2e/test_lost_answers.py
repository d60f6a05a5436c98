"""Redis has done what it was asked, and its answer is lost: nothing is done twice, nobody is told what nobody can know, and no unit is lost."""

import time

import pytest
import resp
from gate_scripts import SCRIPTS, Gate
from harness import Shop, eventually, problem
from nodes import PREFIX, Nodes
from redis_wire import RedisWire

CONNECTED_S = 1.2  # a connection that was good for so long is made again at once
KEYS = ("state", "buyers", "orders", "keys", "tokens", "holds", "log")


@pytest.fixture
def nodes():
    with Nodes() as made:
        yield made


def counts(nodes, sale):
    """offered, available, held and sold, as Redis has them and as the ledger has them, once the two agree and nothing is under way."""
    def agreed():
        peek = Gate(nodes.redis()).run("peek", [nodes.key(sale, name) for name in KEYS], nodes.own.lineage(), "")
        row = nodes.ledger().sale(sale)
        there = tuple(row[name] for name in ("offered", "available", "held", "sold"))
        settled = not nodes.ledger().rows("SELECT id FROM errands") and nodes.redis().xlen(nodes.key(sale, "log")) == 0
        return settled and peek[0] == "DONE" and tuple(map(int, peek[9:13])) == there and there
    return eventually(agreed, 30)


@pytest.mark.parametrize("units", [3, 6])
def test_what_a_seller_withdraws_is_withdrawn_once_also_where_the_sale_is_built_anew_meanwhile(nodes, units):
    """Half of what there is, and more than half: asked once more, more than there is left."""
    with RedisWire(nodes.own) as wire:
        nodes.gate = wire.url
        shop = Shop(nodes.start())
        sale = shop.sale(stock=10)["id"]
        time.sleep(CONNECTED_S)
        lost = wire.lose(b"$2\r\n-%d\r\n" % units, lambda: nodes.redis().hdel(nodes.key(sale, "state"), "counts"))
        answer = shop.act(sale, "stock", {"add": -units})
        assert lost.is_set()
        assert answer.status == 200 or answer.code == "OUTCOME_UNKNOWN", answer
        eventually(lambda: nodes.ledger().sale(sale)["epoch"] == 2, 30)
        assert counts(nodes, sale) == (10 - units, 10 - units, 0, 0)
        assert nodes.reconcile().code == 0


def test_who_may_have_won_does_not_hear_that_the_log_is_full():
    """Nobody files what stands in it, as if the ledger were away: its time has not come."""
    with Nodes("--stream-max", 100) as nodes, RedisWire(nodes.own) as wire:
        nodes.gate = wire.url
        shop = Shop(nodes.start())
        sale = shop.sale(stock=10)["id"]
        shop.act(sale, "warm")
        for i in range(100):
            nodes.redis().xadd(nodes.key(sale, "log"), {"kind": "none"}, id=f"{10 ** 13}-{i + 1}")
        time.sleep(CONNECTED_S)
        problem(shop.grab(sale, "ann", key="k"), 503, "BUSY")
        lost = wire.lose(b"\r\nbob\r\n")
        problem(shop.grab(sale, "bob", key="k"), 503, "OUTCOME_UNKNOWN")
        assert lost.is_set()
        nodes.redis().delete(nodes.key(sale, "log"))
        eventually(lambda: shop.grab(sale, "bob", key="k").status == 201, 20)
        assert shop.counts(sale) == (10, 9, 0, 1)


def test_a_win_that_the_ledger_refuses_goes_also_where_another_was_asked_for(nodes):
    """Redis gives ann a second order, whose node dies; asked again it names that one. The ledger has another: she hears of that, and the units come back."""
    shop = Shop(nodes.start())
    sale = shop.sale(stock=5)["id"]
    order = shop.win(sale, "ann")
    assert counts(nodes, sale) == (5, 4, 0, 1)
    redis, keys = nodes.redis(), [nodes.key(sale, name) for name in KEYS]
    redis.set(f"{PREFIX}lock:sale:{sale}", "somebody", px=600_000)  # so that it is not built anew, which would mend it as well
    redis.hdel(nodes.key(sale, "buyers"), "ann")
    assert Gate(redis).run("grab", keys, nodes.own.lineage(), 1, str(10 ** 15), "ann", "", "", "1", "0", "")[0] == "WON"
    redis.delete(nodes.key(sale, "log"))
    answer = shop.grab(sale, "ann")
    problem(answer, 409, "ALREADY_WON")
    assert answer.json()["order"]["no"] == order["no"]
    eventually(lambda: not redis.hexists(nodes.key(sale, "orders"), str(10 ** 15)), 20)
    eventually(lambda: shop.counts(sale) == (5, 4, 0, 1), 20)
    assert nodes.ledger().sale(sale)["epoch"] == 1


def test_a_redis_that_dies_while_hundreds_of_ends_are_told_is_noticed_and_filled_again(nodes):
    """By a node that is alone: it tells what it can, and comes to what would let it tell the rest."""
    count = 600
    nodes.redis().set(f"{PREFIX}lock:expiry", "somebody", px=600_000)
    with RedisWire(nodes.own) as wire:
        nodes.gate = wire.url
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=count, pay_within_s=1)["id"]
        with resp.Peer(server) as peer:
            for first in range(0, count, 100):
                assert {word for word, _ in peer.grabs(sale, [f"b{i}" for i in range(first, first + 100)])} <= {"WON", "UNSURE"}
        time.sleep(1.1)  # all of them are due
        expire = nodes.redis().script_load((SCRIPTS / "expire.lua").read_text())
        killed = wire.lose(expire.encode(), nodes.own.kill)
        nodes.redis().delete(f"{PREFIX}lock:expiry")
        assert killed.wait(30)
        assert 256 < len(nodes.ledger().rows("SELECT id FROM errands")) < count
        nodes.own.start()
        eventually(lambda: nodes.ledger().sale(sale)["orders_expired"] == count, 60)
        assert counts(nodes, sale) == (count, count, 0, 0)
        assert shop.counts(sale) == (count, count, 0, 0)
