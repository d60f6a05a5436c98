"""Terms of a sale on nodes: buyers may rely on them from the first order on, and no change of them keeps a sale from being built."""

import time

import pytest
from harness import Shop, eventually, problem, time_text
from nodes import Nodes


@pytest.fixture
def nodes():
    with Nodes() as made:
        yield made


def filed(nodes, sale):
    eventually(lambda: nodes.redis().xlen(nodes.key(sale, "log")) == 0)


def test_orders_from_before_the_terms_changed_do_not_keep_a_sale_from_being_built(nodes):
    shop = Shop(nodes.start())
    sale = shop.sale(stock=10, price=500, currency="EUR", grabs_per_buyer_max=2, pay_within_s=600)["id"]
    first, second = shop.win(sale, "ann"), shop.win(sale, "ann")
    filed(nodes, sale)
    nodes.ledger().change("UPDATE sales SET price = 900, grabs_per_buyer_max = 1 WHERE id = ?", (int(sale),))
    nodes.redis().flushall()
    assert eventually(lambda: (answer := shop.grab(sale, "bob")).status == 201 and answer).json()["order"]["amount"] == 900
    assert shop.grab(sale, "ann").json()["code"] == "ALREADY_WON"
    assert shop.client.post(f"/v1/orders/{first['no']}/cancel", {}, shop.buyer("ann")).status == 200
    assert shop.client.get(f"/v1/orders/{second['no']}", shop.buyer("ann")).json()["amount"] == 500


def test_terms_stand_from_the_first_order_on_whatever_time_it_is(nodes):
    shop = Shop(nodes.start())
    sale = shop.sale(stock=10, price=500, currency="EUR")["id"]
    shop.win(sale, "ann")
    filed(nodes, sale)
    nodes.ledger().change("UPDATE sales SET opens_ms = ? WHERE id = ?", (int(time.time() * 1000) + 600_000, int(sale)))
    problem(shop.change(sale, price=900), 409, "SALE_OPEN")
    assert shop.change(sale, name="still mine to name").status == 200


def test_a_sale_that_is_given_more_time_stays_in_redis(nodes):
    """Also where a node has found it over a moment before."""
    shop = Shop(nodes.start())
    sale = shop.sale(stock=10, closes_at=time_text(600))["id"]
    shop.win(sale, "ann")
    filed(nodes, sale)
    keys = [nodes.key(sale, name) for name in ("state", "buyers", "orders")]
    assert [nodes.redis().pexpire(key, 3_600_000) for key in keys] == [True] * 3
    assert shop.change(sale, closes_at=time_text(1200)).status == 200
    eventually(lambda: [nodes.redis().pttl(key) for key in keys] == [-1] * 3)
