"""What somebody has written into a sale in Redis: no node sells by it, and the sale is built anew from the ledger."""

import struct

import pytest
from gate_scripts import KEYS
from harness import Shop, eventually, mint_name, problem
from nodes import PREFIX, Nodes
from test_keeper import settled

LAST_ID = f"{2 ** 64 - 1}-{2 ** 64 - 1}"


@pytest.fixture
def nodes():
    with Nodes() as made:
        yield made


def written_over(name):
    return lambda redis, key, orders: redis.set(key(name), "x")


def state(field, value):
    return lambda redis, key, orders: redis.hset(key("state"), field, value)


def order_changed(line):
    return lambda redis, key, orders: redis.hset(key("orders"), orders["ann"], line(redis.hget(key("orders"), orders["ann"])))


DAMAGE = {
    **{f"{name} of another kind": written_over(name) for name in KEYS},
    "terms cut": state("terms", "x"),
    "terms that are none": state("terms", b"\xff" * 400),
    "counts cut": state("counts", "x"),
    "counts beyond all bounds": state("counts", "x" * 56),
    "counts that are no numbers": state("counts", struct.pack(">7d", *[float("nan")] * 7)),
    "counts that do not add up": state("counts", struct.pack(">7d", 1, 9, 9, 2, 0, 2, 0)),
    "no counts": lambda redis, key, orders: redis.hdel(key("state"), "counts"),
    "no orders": lambda redis, key, orders: redis.delete(key("orders")),
    "an order that cannot be read": order_changed(lambda line: "garbage"),
    "an order that cannot be read to its end": order_changed(lambda line: "0 1 garbage"),
    "an order that is too long": order_changed(lambda line: line + "x"),
    "a key that names another's order": lambda redis, key, orders: redis.hset(key("keys"), "ann\0k-ann", orders["bob"]),
    "a key that names no order": lambda redis, key, orders: redis.hset(key("keys"), "ann\0k-ann", "garbage"),
    "a buyer who cannot be read": lambda redis, key, orders: redis.hset(key("buyers"), "ann", "garbage"),
    "a buyer who has another's order": lambda redis, key, orders: redis.hset(key("buyers"), "ann", f"1 0 {orders['bob']}"),
    "a log that takes no more": lambda redis, key, orders: redis.xadd(key("log"), {"a": "b"}, id=LAST_ID),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_sale_that_somebody_has_written_into_is_built_anew(nodes, damage):
    """Whoever asks meanwhile hears that nothing is known, or waits; nothing is lost, nothing given twice and nobody told of another's. Other sales go on."""
    shops = [Shop(nodes.start()) for _ in range(2)]
    sale, other = shops[0].sale(stock=9, pay_within_s=600)["id"], shops[0].sale(stock=99)["id"]
    orders = {buyer: shops[0].win(sale, buyer, key=f"k-{buyer}")["no"] for buyer in ("ann", "bob")}
    eventually(lambda: settled(nodes, sale))
    DAMAGE[damage](nodes.redis(), lambda name: nodes.key(sale, name), orders)
    for shop in shops:
        assert shop.grab(other, mint_name("buyer")).status == 201
    answer = eventually(lambda: (got := shops[0].grab(sale, "ann")).status != 503 and got, 20)
    problem(answer, 409, "ALREADY_WON")
    assert answer.json()["order"]["no"] == orders["ann"]
    for buyer in ("ann", "cat", "dan"):
        answer = eventually(lambda buyer=buyer: (got := shops[1].grab(sale, buyer, key=f"k-{buyer}")).status != 503 and got, 20)
        assert answer.status == 201 and answer.json()["order"]["buyer"] == buyer, answer
        assert orders.setdefault(buyer, answer.json()["order"]["no"]) == answer.json()["order"]["no"]
    assert shops[1].client.post(f"/v1/orders/{orders['bob']}/cancel", None, shops[1].buyer("bob")).status == 200
    eventually(lambda: settled(nodes, sale))
    assert shops[0].counts(sale) == shops[1].counts(sale) == (9, 6, 3, 0)
    for shop in shops:
        assert shop.grab(other, mint_name("buyer")).status == 201
    assert shops[0].counts(other) == (99, 95, 0, 4) and nodes.reconcile().code == 0
    assert "what stands in Redis cannot be used" in "".join(server.log() for server in nodes.servers)


def test_a_token_tells_nobody_of_another_buyers_order(nodes):
    shop = Shop(nodes.start())
    sale = shop.sale(stock=9, admission="token")["id"]
    orders = {buyer: shop.win(sale, buyer, purchase=shop.purchase_token(sale, buyer))["no"] for buyer in ("ann", "bob")}
    nodes.redis().hset(nodes.key(sale, "buyers"), "ann", f"1 0 {orders['bob']}")
    answer = eventually(lambda: (got := shop.client.post(f"/v1/sales/{sale}/tokens", None, shop.buyer("ann"))).status != 503 and got, 20)
    problem(answer, 409, "ALREADY_WON")
    assert answer.json()["order"]["no"] == orders["ann"]


def test_what_was_cancelled_meanwhile_is_cancelled_in_the_gate_that_is_built(nodes):
    shop = Shop(nodes.start())
    sale = shop.sale(stock=9, pay_within_s=600)["id"]
    orders = [shop.win(sale, buyer)["no"] for buyer in ("ann", "bob", "cat")]
    nodes.redis().hset(nodes.key(sale, "orders"), orders[0], "garbage")
    nodes.redis().hset(nodes.key(sale, "buyers"), "bob", "garbage")
    nodes.redis().set(nodes.key(sale, "holds"), "x")
    for no, buyer in zip(orders, ("ann", "bob", "cat")):
        assert shop.client.post(f"/v1/orders/{no}/cancel", None, shop.buyer(buyer)).json()["state"] == "cancelled"
    eventually(lambda: settled(nodes, sale) and shop.counts(sale) == (9, 9, 0, 0), 30)
    assert nodes.reconcile().code == 0


@pytest.mark.parametrize("ack", ["gate", "ledger"])
def test_where_the_log_takes_no_more_nobody_wins_what_is_not_counted(ack):
    with Nodes("--ack", ack) as nodes:
        shop = Shop(nodes.start())
        sale = shop.sale(stock=9)["id"]
        shop.win(sale, "first")
        eventually(lambda: settled(nodes, sale))
        nodes.redis().xadd(nodes.key(sale, "log"), {"a": "b"}, id=LAST_ID)
        answers = {buyer: eventually(lambda buyer=buyer: (got := shop.grab(sale, buyer, key="k")).status != 503 and got, 20) for buyer in map(str, range(20))}
        won = {"first", *(buyer for buyer, answer in answers.items() if answer.status == 201)}
        assert len(won) == 9 and eventually(lambda: settled(nodes, sale)) and shop.counts(sale) == (9, 0, 0, 9)
        assert {row["buyer"] for row in nodes.ledger().orders(sale)} == won


def test_what_nodes_have_among_themselves_is_made_anew_where_somebody_has_written_over_it(nodes):
    """Their numbers, their jobs, what they tell of themselves and of logins."""
    shops = [Shop(nodes.start()) for _ in range(2)]
    redis, sale = nodes.redis(), shops[0].sale(stock=20, pay_within_s=1)["id"]
    shops[0].win(sale, "ann")
    eventually(lambda: redis.exists(f"{PREFIX}lock:expiry") and len(redis.keys(f"{PREFIX}node:*")) == 2 and redis.exists(f"{PREFIX}nodes"))
    keys = {f"{PREFIX}lock:expiry": "string", f"{PREFIX}nodes": "hash", f"{PREFIX}{{logins}}": "stream", **dict.fromkeys(redis.keys(f"{PREFIX}node:*"), "string")}
    for nth, (key, kind) in enumerate(keys.items()):
        redis.delete(key)
        redis.rpush(key, "x") if kind == "string" and nth % 2 == 0 else redis.set(key, "x")
    eventually(lambda: shops[0].counts(sale) == (20, 20, 0, 0), 30)
    for i in range(3):
        for shop in shops:
            eventually(lambda shop=shop, i=i: shop.grab(sale, f"buyer-{i}-{id(shop)}").status == 201, 30)
    assert shops[0].client.post("/v1/login", {"username": "nobody", "password": "wrong horse"}).status == 401
    eventually(lambda: {key: redis.type(key) for key in keys if not key.startswith(f"{PREFIX}node:")} == {key: kind for key, kind in keys.items() if not key.startswith(f"{PREFIX}node:")})
    eventually(lambda: all(shop.client.get("/readyz").status == 200 for shop in shops))
