"""When a sale that has not opened comes into Redis: a while before it opens, or as soon as somebody has something to say to it."""

import time

import pytest
from gate_scripts import KEYS, NUMBERS, Gate
from harness import Shop, eventually, time_text
from knocking import Pulse
from nodes import Nodes

ROUNDS_S = 2.5  # every sale is looked at once a second
ASKED_S = 3.5  # and kept there for three seconds after somebody asked for it
ERRAND_SALE = 5


@pytest.fixture
def nodes():
    with Nodes("--warm-before-s", "600") as made:
        yield made


def in_redis(nodes, sale):
    """Its terms and counts there; None where it is not."""
    peek = Gate(nodes.redis()).run("peek", [nodes.key(sale, name) for name in KEYS], nodes.own.lineage(), "")
    return dict(zip(NUMBERS, map(int, peek[8:]))) if peek[0] == "DONE" else None


def forget(nodes, *sales):
    """Redis loses them, and only them, when nobody has asked for them for a while."""
    eventually(lambda: not nodes.ledger().rows("SELECT id FROM errands"))
    time.sleep(ASKED_S)
    for sale in sales:
        nodes.redis().delete(*(nodes.key(sale, name) for name in KEYS))


def cold(nodes, shop, count=1):
    """Sales that open so late that nobody puts them into Redis by himself."""
    sales = [shop.sale(stock=3, opens_at=time_text(7200))["id"] for _ in range(count)]
    for sale in sales:
        assert shop.act(sale, "warm").status == 200 and in_redis(nodes, sale)
    forget(nodes, *sales)
    time.sleep(ROUNDS_S)
    assert not any(in_redis(nodes, sale) for sale in sales)
    return sales


def test_a_change_puts_a_sale_into_redis_as_it_then_is(nodes):
    shop = Shop(nodes.start())
    [sale] = cold(nodes, shop)
    with Pulse() as pulse:
        answer = shop.change(sale, price=500, currency="EUR")
    assert answer.status == 200, answer
    assert in_redis(nodes, sale) or pulse.stood_still_s > 0, "its seller was told before it was there"
    seen = eventually(lambda: in_redis(nodes, sale))
    assert (seen["price"], seen["offered"], seen["available"]) == (500, 3, 3)


def test_a_change_that_its_node_did_not_live_to_tell_puts_a_sale_into_redis(nodes):
    shop = Shop(nodes.start())
    [sale] = cold(nodes, shop)
    nodes.ledger().change("UPDATE sales SET price = 700 WHERE id = ?", (int(sale),))
    nodes.ledger().change("INSERT INTO errands (kind, sale, epoch, order_no, units, made_ms) SELECT ?, id, epoch, 0, 0, 1 FROM sales WHERE id = ?",
                          (ERRAND_SALE, int(sale)))
    assert eventually(lambda: in_redis(nodes, sale))["price"] == 700
    eventually(lambda: not nodes.ledger().rows("SELECT id FROM errands"))


def test_a_sale_whose_opening_is_moved_near_is_put_into_redis_by_itself(nodes):
    """Also when Redis has lost it since: its seller says nothing more."""
    shop = Shop(nodes.start())
    near, far = cold(nodes, shop, 2)
    assert shop.change(near, opens_at=time_text(300)).status == 200
    assert shop.change(far, opens_at=time_text(5000)).status == 200
    eventually(lambda: in_redis(nodes, near) and in_redis(nodes, far))
    shop.close()
    forget(nodes, near, far)
    eventually(lambda: in_redis(nodes, near))
    time.sleep(ROUNDS_S)
    assert not in_redis(nodes, far)
