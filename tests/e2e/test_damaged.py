"""What somebody has written into a sale in Redis: no node sells by it, and the sale is built anew from the ledger."""

import pytest
from gate_scripts import KEYS
from harness import Shop, eventually, problem
from nodes import Nodes
from test_keeper import settled


@pytest.fixture
def nodes():
    with Nodes() as made:
        yield made


def test_what_cannot_be_read_of_a_buyer_has_the_sale_built_anew(nodes):
    shop = Shop(nodes.start())
    sale = shop.sale(stock=5)["id"]
    order = shop.win(sale, "ann")["no"]
    nodes.redis().hset(nodes.key(sale, "buyers"), mapping={"bob": "garbage", "ann": "garbage"})
    assert eventually(lambda: (got := shop.grab(sale, "bob", key="k")).status == 201 and got, 20)
    answer = shop.grab(sale, "ann")
    problem(answer, 409, "ALREADY_WON")
    assert answer.json()["order"]["no"] == order and shop.counts(sale) == (5, 3, 0, 2)
    assert "what stands in Redis cannot be read, and is built anew" in nodes.servers[0].log()


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_somebody_writes_over_has_the_sale_built_anew(nodes, name):
    """Whoever asks meanwhile hears that nothing is known, or waits; nothing is lost and nothing given twice."""
    shops = [Shop(nodes.start()) for _ in range(2)]
    sale = shops[0].sale(stock=9, pay_within_s=600)["id"]
    orders = {buyer: shops[0].win(sale, buyer, key=f"k-{buyer}") for buyer in ("ann", "bob")}
    nodes.redis().set(nodes.key(sale, name), "x")
    assert shops[1].client.post(f"/v1/orders/{orders['bob']['no']}/cancel", None, shops[1].buyer("bob")).status == 200
    got = {buyer: eventually(lambda buyer=buyer: (answer := shops[1].grab(sale, buyer, key=f"k-{buyer}")).status == 201 and answer, 20).json()["order"] for buyer in ("cat", "ann")}
    assert got["ann"]["no"] == orders["ann"]["no"]
    problem(shops[0].grab(sale, "ann"), 409, "ALREADY_WON")
    eventually(lambda: settled(nodes, sale))
    assert shops[0].counts(sale) == shops[1].counts(sale) == (9, 7, 2, 0)
    assert nodes.reconcile().code == 0
    assert f"{nodes.key(sale, name)} has another kind of value" in "".join(server.log() for server in nodes.servers)


def test_an_order_that_cannot_be_read_ends_as_the_ledger_has_it(nodes):
    """The gate cannot be told of a cancel there: it is built anew by and by, and has the units back."""
    shop = Shop(nodes.start())
    sale = shop.sale(stock=9, pay_within_s=600)["id"]
    orders = [shop.win(sale, buyer)["no"] for buyer in ("ann", "bob")]
    nodes.redis().hset(nodes.key(sale, "orders"), orders[0], "garbage")
    nodes.redis().hset(nodes.key(sale, "buyers"), "bob", "garbage")
    for no, buyer in zip(orders, ("ann", "bob")):
        assert shop.client.post(f"/v1/orders/{no}/cancel", None, shop.buyer(buyer)).json()["state"] == "cancelled"
    eventually(lambda: settled(nodes, sale) and shop.counts(sale) == (9, 9, 0, 0), 30)
    assert nodes.reconcile().code == 0
