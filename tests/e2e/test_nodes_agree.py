"""Two nodes of one shop tell the same of one buyer, one payment and one sale, whichever of them is asked."""

import re
import time

import pytest
from harness import Shop, at_once, beside, eventually
from line import hear, park, parked, taken
from nodes import Nodes
from provider import Provider


@pytest.fixture(scope="module")
def nodes():
    with Nodes() as nodes:
        for _ in range(2):
            nodes.start()
        yield nodes


@pytest.fixture(scope="module")
def ways(nodes):
    """A shop by each of two nodes, of one seller."""
    one, two = map(Shop, nodes.servers)
    two.seller, two.seller_token = one.seller, one.seller_token
    return one, two


@pytest.mark.parametrize("sells_out", [True, False], ids=["sold out", "timed out"])
def test_a_key_that_won_at_another_node_is_told_to_who_waits_in_line(ways, sells_out):
    """P7: ann stands in line at two and wins at one with the same key; two says neither SOLD_OUT nor LINE_TIMEOUT. Bob, whose key has won nothing, hears it."""
    one, two = ways
    line = {"rate_per_s": 1, "size": 100, "timeout_ms": 30000 if sells_out else 2000}
    sale = one.sale(stock=100, admission="line", line=line)["id"]
    taken(two, two.server, sale)
    first = [park(two.server, sale, two.buyer(f"first{i}")) for i in range(8)]
    ann, bob = (park(two.server, sale, two.buyer(name), key="k") for name in ("ann", "bob"))
    eventually(lambda: parked(two) >= 4)
    order = one.win(sale, "ann", key="k")
    if sells_out:
        eventually(lambda: one.act(sale, "stock", {"add": -one.counts(sale)[1]}).status == 200)
    heard = hear(ann)
    assert heard.status == 201 and heard.json()["order"] == order, heard
    assert hear(bob).code == ("SOLD_OUT" if sells_out else "LINE_TIMEOUT")
    for sock in (ann, bob, *first):
        sock.close()
    eventually(lambda: parked(two) == 0)


@pytest.fixture(scope="module")
def expired(nodes, ways):
    """(sale, its orders), of which nobody has paid in time: there are units for each of them."""
    sale = ways[0].sale(stock=30, price=7, currency="EUR", pay_within_s=1, late_payment="retake")["id"]
    orders = [ways[i % 2].win(sale, f"b{i}") for i in range(22)]
    eventually(lambda: ways[1].counts(sale) == (30, 30, 0, 0))
    return sale, orders


def test_of_two_late_payments_one_takes_the_units_and_none_is_refunded(nodes, ways, expired):
    """Another ref at each node, at once: the second has to hear that the order is paid, not to have the first undone."""
    provider, (sale, orders) = Provider(nodes.servers[0]), expired
    for order in orders[2:]:
        told = at_once(*(lambda way=way, ref=ref: way.patient(lambda: provider.tell(way.client, order, order["no"] + ref))[-1] for way, ref in zip(ways, "ab")))
        assert sorted((answer.status, answer.code or answer.json()["state"]) for answer in told) == [(200, "paid"), (409, "ALREADY_PAID")]
    assert ways[0].counts(sale)[2:] == (0, 20)


def test_a_late_payment_waits_for_one_that_has_taken_the_units_and_is_not_filed(nodes, ways, expired):
    """Where that one is taken back, as here, the units are this one's."""
    provider, (sale, orders), redis = Provider(nodes.servers[0]), expired, nodes.redis()
    no, key = orders[0]["no"], nodes.key(expired[0], "orders")
    line = redis.hget(key, no)
    redis.hset(key, no, re.sub(r"^3 (.* )0 (\S+)$", r"1 \g<1>5 \2other", line))
    with beside(lambda: provider.paid(ways[1].client, {**orders[0], "state": "expired"})) as (paid,):
        time.sleep(0.2)
        assert not paid.done(), paid.result()
        redis.hset(key, no, line)


def test_a_late_payment_of_an_order_that_redis_has_lost_waits_until_it_is_there(nodes, ways, expired):
    provider, (sale, orders) = Provider(nodes.servers[0]), expired
    nodes.redis().hdel(nodes.key(sale, "orders"), orders[1]["no"])
    provider.paid(ways[1].client, {**orders[1], "state": "expired"})


def test_what_a_seller_has_changed_at_one_node_a_look_at_another_tells(ways):
    """Terms, texts and state, at once: nobody waits until the other node has heard of it."""
    one, two = ways
    sale = one.sale(stock=50, price=10, currency="EUR", pay_within_s=600)["id"]
    for i in range(8):
        here, there = (one, two) if i % 2 else (two, one)
        assert here.change(sale, description=f"d{i}", pay_within_s=100 + i).status == 200
        seen = there.show(sale)
        assert (seen["description"], seen["pay_within_s"]) == (f"d{i}", 100 + i)
        assert here.change(sale, description=f"only{i}").status == 200
        assert there.show(sale)["description"] == f"only{i}"
        there.win(sale, f"b{i}")
        for verb, state in (("pause", "paused"), ("resume", "open")):
            assert here.act(sale, verb).status == 200
            assert there.show(sale)["state"] == state
        assert there.counts(sale) == here.counts(sale) == (50, 49 - i, i + 1, 0)
    assert two.act(sale, "close").status == 200
    assert one.show(sale)["state"] == "closed"
    nobody = one.sale(stock=5)["id"]
    two.show(nobody)
    assert one.act(nobody, "close").status == 200
    assert two.show(nobody)["state"] == "closed", "one that is over at once"


def test_an_order_of_a_sale_that_was_just_made_is_found_at_the_other_node():
    """With ack = gate it may stand in Redis only, in a sale that the other node has not heard of yet."""
    with Nodes("--ack", "gate") as nodes:
        one, two = map(Shop, (nodes.start(), nodes.start()))
        provider = Provider(two.server)
        for turn in range(20):
            sale = one.sale(stock=1, price=7, currency="EUR", pay_within_s=600)["id"]
            order = one.win(sale, "ann")
            if turn % 2:
                provider.paid(two.client, order)
            else:
                assert two.client.post(f"/v1/orders/{order['no']}/cancel", None, two.buyer("ann")).status == 200
        one.close()
        two.close()
