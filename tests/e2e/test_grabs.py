"""Grabs: who wins, who is refused and why, and asking twice (P1, P2, P3, P7, P12)."""

import time

import pytest
from harness import Shop, crowd, eventually, mint_name, problem, request_bytes, time_text, unhurried

ORDER = {"no", "sale", "buyer", "units", "amount", "state", "won_at", "pay_by"}


def already(answer):
    """The order that ALREADY_WON names."""
    return problem(answer, 409, "ALREADY_WON")["order"]


# A win.

def test_a_win_is_an_order_as_api_says(shop):
    sale = shop.sale(stock=3, price=250, currency="EUR", units_per_grab_max=2)["id"]
    ann = mint_name("ann")
    answer = shop.grab(sale, ann, units=2)
    assert answer.status == 201 and {"order"} <= set(answer.json()) <= {"order", "now"}, answer
    order = answer.json()["order"]
    assert set(order) == ORDER
    assert isinstance(order["no"], str) and isinstance(order["sale"], str)
    expected = {"sale": sale, "buyer": ann, "units": 2, "amount": 500, "state": "paid", "pay_by": None}
    assert {name: order[name] for name in expected} == expected
    assert time_text(-60) < order["won_at"] < time_text(1)
    assert shop.counts(sale) == (3, 1, 0, 2)


def test_a_sale_without_a_price_has_orders_without_an_amount(shop):
    sale = shop.sale()["id"]
    assert shop.win(sale, "ann")["amount"] is None


def test_a_price_of_nothing_is_an_amount_of_nothing(shop):
    sale = shop.sale(price=0, currency="EUR")["id"]
    assert shop.win(sale, "ann")["amount"] == 0


@pytest.mark.parametrize("body", [None, {}, {"units": 1}], ids=str)
def test_units_are_one_unless_said(shop, body):
    sale = shop.sale()["id"]
    answer = shop.client.post(f"/v1/sales/{sale}/grabs", body, shop.buyer("ann"))
    assert answer.status == 201 and answer.json()["order"]["units"] == 1, answer


def test_a_time_to_pay_makes_a_win_a_hold(shop):
    """P1: held counts as taken."""
    sale = shop.sale(stock=2, pay_within_s=90)["id"]
    order = shop.win(sale, "ann")
    assert order["state"] == "held"
    won, pay_by = order["won_at"], order["pay_by"]
    assert pay_by is not None and pay_by > won and won[-5:] == pay_by[-5:], "pay_by is not won_at and 90 s"
    assert shop.counts(sale) == (2, 1, 1, 0)
    shop.win(sale, "bob")
    problem(shop.grab(sale, "cat"), 409, "SOLD_OUT")
    assert shop.counts(sale) == (2, 0, 2, 0)


def test_order_numbers_rise_and_never_repeat(shop):
    sale = shop.sale(stock=50)["id"]
    numbers = [int(shop.win(sale, f"buyer-{i}")["no"]) for i in range(50)]
    assert numbers == sorted(set(numbers))


def test_an_order_keeps_the_amount_of_its_moment(shop):
    sale = shop.sale(stock=5, opens_at=time_text(3600), price=100, currency="EUR")["id"]
    assert shop.change(sale, price=300).status == 200
    assert shop.change(sale, opens_at=time_text(0)).status == 200
    eventually(lambda: shop.show(sale)["state"] == "open")  # by the server's clock, which may be a moment behind
    assert shop.win(sale, "ann")["amount"] == 300


# Refusals, and which comes first.

def test_refusals_follow_their_precedence(shop):
    """api.md: problems of a grab, first that applies. Each row undoes the problem of the row before."""
    ann, bob = mint_name("ann"), mint_name("bob")

    def asked_before(opens_in_s):
        sale = shop.sale(stock=2, opens_at=time_text(opens_in_s), units_per_grab_max=2)["id"]
        problem(shop.client.post(f"/v1/sales/{sale}/grabs", {"units": 0}), 400, "BAD_INPUT", "units")
        problem(shop.client.post("/v1/sales/999999/grabs", {"units": 0}, shop.buyer(ann)), 400, "BAD_INPUT", "units")
        problem(shop.grab(sale), 401)
        problem(shop.grab("999999", ann, units=9), 404, "NO_SUCH_SALE")
        assert shop.act(sale, "pause").status == 200
        problem(shop.grab(sale, ann, units=9), 409, "NOT_OPEN")
        return sale
    sale = unhurried(asked_before, 0.8, 5, 25)
    eventually(lambda: shop.grab(sale, ann, units=9).code != "NOT_OPEN")
    problem(shop.grab(sale, ann, units=9), 409, "PAUSED")
    assert shop.act(sale, "resume").status == 200
    problem(shop.grab(sale, ann, units=9), 409, "OVER_LIMIT")
    order = shop.win(sale, ann, units=1)
    problem(shop.grab(sale, ann, units=9), 409, "OVER_LIMIT")
    assert already(shop.grab(sale, ann, units=2)) == order
    problem(shop.grab(sale, bob, units=2), 409, "SOLD_OUT")
    shop.win(sale, bob)
    assert already(shop.grab(sale, ann)) == order, "a buyer who holds something hears ALREADY_WON also when all is gone"
    problem(shop.grab(sale, mint_name("cat"), units=2), 409, "SOLD_OUT")
    problem(shop.grab(sale, mint_name("cat"), units=3), 409, "OVER_LIMIT")
    assert shop.act(sale, "pause").status == 200
    problem(shop.grab(sale, ann), 409, "PAUSED")
    assert shop.act(sale, "close").status == 200
    problem(shop.grab(sale, ann), 409, "CLOSED")
    problem(shop.grab(sale, bob, units=9), 409, "CLOSED")


def test_a_sold_out_sale_that_is_paused_or_closed_says_so(shop):
    """The quick refusal without a lock must not change the order of problems."""
    sale = shop.sale(stock=1)["id"]
    shop.win(sale, "ann")
    problem(shop.grab(sale, "bob"), 409, "SOLD_OUT")
    problem(shop.grab(sale, "bob", units=2), 409, "OVER_LIMIT")
    shop.act(sale, "pause")
    problem(shop.grab(sale, "bob"), 409, "PAUSED")
    shop.act(sale, "close")
    problem(shop.grab(sale, "bob"), 409, "CLOSED")


def test_fewer_left_than_asked_takes_nothing(shop):
    """P1: not a part of it either; who asks for less still wins."""
    sale = shop.sale(stock=3, units_per_grab_max=5)["id"]
    problem(shop.grab(sale, "ann", units=4), 409, "SOLD_OUT")
    assert shop.counts(sale) == (3, 3, 0, 0)
    shop.win(sale, "ann", units=3)
    assert shop.counts(sale) == (3, 0, 0, 3)


@pytest.mark.parametrize("grabs", [1, 2, 5])
def test_a_buyer_gets_as_many_orders_as_the_sale_allows(shop, grabs):
    """P2"""
    sale = shop.sale(stock=50, grabs_per_buyer_max=grabs, units_per_grab_max=2)["id"]
    orders = [shop.win(sale, "ann", units=1 + i % 2) for i in range(grabs)]
    for _ in range(3):
        assert already(shop.grab(sale, "ann")) == orders[-1], "the order told is not the newest"
    assert len({order["no"] for order in orders}) == grabs
    shop.win(sale, "bob")


def test_units_up_to_the_limit_win_and_beyond_are_refused(shop):
    sale = shop.sale(stock=100, units_per_grab_max=7)["id"]
    problem(shop.grab(sale, "ann", units=8), 409, "OVER_LIMIT")
    problem(shop.grab(sale, "ann", units=2 ** 31 - 1), 409, "OVER_LIMIT")
    assert shop.win(sale, "ann", units=7)["units"] == 7
    assert shop.counts(sale) == (100, 93, 0, 7)


def test_the_window_opens_and_closes_on_time(shop):
    """P12: never early, never late, by the server's own now."""
    def watched(span_s):
        begin = time.time()
        sale = shop.sale(stock=10 ** 6, opens_at=time_text(span_s), closes_at=time_text(2.4 * span_s))
        seen = []
        while time.time() < begin + 3.2 * span_s:
            code = shop.grab(sale["id"], f"b{len(seen)}")
            seen.append((shop.show(sale["id"])["now"], "WON" if code.status == 201 else code.code, code))
        words = [word for _, word, _ in seen]
        assert set(words) == {"NOT_OPEN", "WON", "CLOSED"}, set(words)
        return sale, seen, words
    sale, seen, words = unhurried(watched, 0.5, 3, 10)
    assert words == sorted(words, key=["NOT_OPEN", "WON", "CLOSED"].index), "the states are out of order"
    for now, word, answer in seen:
        if word == "WON":
            assert sale["opens_at"] <= answer.json()["order"]["won_at"] < sale["closes_at"]
        elif word == "NOT_OPEN":
            assert now <= time_text(0)
        else:
            assert now >= sale["closes_at"]


@pytest.mark.parametrize("name", ["a", "é" * 32, "x" * 15, "x" * 16, "x" * 17, "x" * 31, "x" * 32, "x" * 33, "x" * 63, "x" * 64, "Ann", "ann"])
def test_buyers_of_every_length_of_name_are_told_apart(shop, name):
    """P2: names sit in cells of 16, 32 and 64 bytes; none may lose its last letter."""
    sale = shop.sale(stock=10)["id"]
    order = shop.win(sale, name)
    assert order["buyer"] == name
    shop.win(sale, name[:-1] + "!")
    assert already(shop.grab(sale, name)) == order
    assert shop.order(order["no"], shop.buyer(name)).json() == order
    assert shop.listed(f"/v1/orders?sale={sale}", shop.buyer(name)) == [order]


# Asking twice.

@pytest.mark.parametrize("key", ["k", "a" * 64, "with spaces and , ; \"quotes\"", "0", "x" * 15, "x" * 16, "x" * 17, "x" * 33])
def test_the_same_key_gets_the_same_answer(shop, key):
    """P7"""
    sale = shop.sale(stock=5, grabs_per_buyer_max=3)["id"]
    first = shop.grab(sale, "ann", key=key)
    assert first.status == 201
    for _ in range(3):
        again = shop.grab(sale, "ann", key=key)
        assert (again.status, again.json()["order"]) == (201, first.json()["order"]), again
    assert shop.counts(sale) == (5, 4, 0, 1)


def test_units_left_out_and_one_unit_are_the_same_body(shop):
    """P7: a request means the same whether it spells the default or not."""
    sale = shop.sale()["id"]
    order = shop.win(sale, "ann", key="k")
    assert shop.win(sale, "ann", units=1, key="k") == order


def test_the_same_key_with_another_body_is_refused(shop):
    sale = shop.sale(stock=10, units_per_grab_max=3, grabs_per_buyer_max=3)["id"]
    shop.win(sale, "ann", units=2, key="k")
    problem(shop.grab(sale, "ann", units=1, key="k"), 422, "KEY_REUSED")
    problem(shop.grab(sale, "ann", key="k"), 422, "KEY_REUSED")
    problem(shop.grab(sale, "ann", units=9, key="k"), 422, "KEY_REUSED")
    assert shop.counts(sale) == (10, 8, 0, 2)


def test_a_key_belongs_to_a_buyer_and_a_sale(shop):
    one, two = shop.sale(grabs_per_buyer_max=2)["id"], shop.sale()["id"]
    orders = [shop.win(one, "ann", key="k"), shop.win(one, "bob", key="k"), shop.win(two, "ann", key="k"), shop.win(one, "ann", key="K")]
    assert len({order["no"] for order in orders}) == 4


@pytest.mark.parametrize("key,status", [("a" * 64, 201), ("a" * 65, 400), ("é" * 32, 201), ("é" * 33, 400), ("a" * 1000, 400)],
                         ids=["64", "65", "64 of UTF-8", "66 of UTF-8", "1000"])
def test_a_key_has_at_most_64_bytes(shop, key, status):
    sale = shop.sale()["id"]
    answer = shop.grab(sale, "ann", key=key)
    if status == 400:
        problem(answer, 400, "BAD_INPUT", "Idempotency-Key")
        assert shop.counts(sale)[3] == 0
    else:
        assert answer.status in (201, 400), answer
        assert key[0] != "a" or answer.status == 201
        assert shop.server.alive()


def test_a_key_that_is_not_text_does_no_harm(shop):
    """Keys are stored as text: bytes that are none are refused or kept, never half."""
    sale = shop.sale()["id"]
    with shop.server.connect() as client:
        client.send(b"POST /v1/sales/%s/grabs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: \xff\xfe\x80\r\nContent-Length: 0\r\n\r\n"
                    % (sale.encode(), shop.buyer("ann").encode()))
        problem(client.receive(), 400)
    assert shop.counts(sale) == (10, 10, 0, 0)
    assert shop.listed(f"/v1/orders?sale={sale}", shop.seller_token) == []


def test_two_keys_in_one_request_are_refused(shop):
    sale = shop.sale()["id"]
    with shop.server.connect() as client:
        client.send(b"POST /v1/sales/%s/grabs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 0\r\n\r\n"
                    % (sale.encode(), shop.buyer("ann").encode()))
        problem(client.receive(), 400)
    assert shop.counts(sale) == (10, 10, 0, 0)


def test_a_refusal_is_not_remembered(shop):
    """P7: only wins are; a refusal is decided anew."""
    sale = shop.sale(stock=1)["id"]
    shop.win(sale, "ann")
    problem(shop.grab(sale, "bob", key="k"), 409, "SOLD_OUT")
    shop.act(sale, "stock", {"add": 1})
    shop.win(sale, "bob", key="k")


def test_a_win_is_repeated_whatever_became_of_the_sale(shop):
    """P7: the key is looked up before the state of the sale and the limits."""
    sale = shop.sale(stock=1)["id"]
    order = shop.win(sale, "ann", key="k")
    assert already(shop.grab(sale, "ann", key="other")) == order
    assert already(shop.grab(sale, "ann")) == order
    assert shop.win(sale, "ann", key="k") == order
    shop.act(sale, "pause")
    assert shop.win(sale, "ann", key="k") == order
    shop.act(sale, "close")
    assert shop.win(sale, "ann", key="k") == order
    for _ in range(4):
        time.sleep(0.4)
        assert shop.win(sale, "ann", key="k") == order, "memory let go of the sale and the key with it"
        problem(shop.grab(sale, "ann", units=1, key="other"), 409, "CLOSED")


def test_a_key_of_a_closed_sale_with_another_body_is_still_refused(shop):
    sale = shop.sale(stock=9, units_per_grab_max=3)["id"]
    shop.win(sale, "ann", units=2, key="k")
    shop.act(sale, "close")
    for pause in (0, 1.5):
        time.sleep(pause)
        problem(shop.grab(sale, "ann", units=1, key="k"), 422, "KEY_REUSED")


def test_a_key_outlives_a_past_closing_time(shop):
    def won_before(closes_in_s):
        sale = shop.sale(stock=1, closes_at=time_text(closes_in_s))["id"]
        return sale, shop.win(sale, "ann", key="k")
    sale, order = unhurried(won_before, 0.5, 5, 25)
    eventually(lambda: shop.show(sale)["state"] == "closed")
    assert shop.win(sale, "ann", key="k") == order
    problem(shop.grab(sale, "ann", key="j"), 409, "CLOSED")


@pytest.mark.parametrize("grabs", [1, 100])
def test_the_same_key_at_the_same_time_is_one_order(shop, server, grabs):
    """P7: while the first is in flight the second waits and gets the same answer."""
    sale = shop.sale(stock=1000, grabs_per_buyer_max=grabs)["id"]
    buyers = [mint_name("ann") for _ in range(5)]
    requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(buyers[i % 5]), "same") for i in range(200)]
    answers = crowd(server, requests, 50)
    assert {answer.status for answer in answers} == {201}, answers
    assert len({answer.json()["order"]["no"] for answer in answers}) == 5
    assert shop.counts(sale) == (1000, 995, 0, 5)


def test_the_same_buyer_at_the_same_time_wins_once(shop, server):
    """P2, and P3: every "already yours" names an order that is there."""
    sale = shop.sale(stock=1000)["id"]
    ann = mint_name("ann")
    answers = crowd(server, [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(ann))] * 200, 100)
    won = [answer.json()["order"] for answer in answers if answer.status == 201]
    assert len(won) == 1
    assert all(already(answer) == won[0] for answer in answers if answer.status != 201)
    assert shop.counts(sale) == (1000, 999, 0, 1)


# Sales open to anyone.

def test_an_open_admission_makes_every_request_a_new_buyer(shop):
    sale = shop.sale(stock=4, admission="open")["id"]
    orders = [shop.win(sale) for _ in range(4)]
    assert len({order["buyer"] for order in orders}) == 4 == len({order["no"] for order in orders})
    problem(shop.grab(sale), 409, "SOLD_OUT")
    assert shop.counts(sale) == (4, 0, 0, 4)


def test_an_open_admission_with_a_key_finds_its_order_again(shop):
    """P7"""
    sale = shop.sale(stock=9, admission="open", units_per_grab_max=2)["id"]
    first = shop.win(sale, key="mine")
    assert shop.win(sale, key="mine") == first
    assert shop.win(sale, key="other")["no"] != first["no"]
    problem(shop.grab(sale, units=2, key="mine"), 422, "KEY_REUSED")
    assert shop.counts(sale) == (9, 7, 0, 2)


def test_long_keys_of_an_open_admission_are_different_buyers(shop):
    """P1: who brings a key of their own is a buyer of their own, also when keys differ only at their end."""
    sale = shop.sale(stock=9, admission="open")["id"]
    orders = [shop.win(sale, key="k" * 60 + end) for end in ("aaaa", "aaab", "aaba", "")]
    assert len({order["no"] for order in orders}) == 4
    assert shop.win(sale, key="k" * 60 + "aaab") == orders[1]
    assert shop.counts(sale) == (9, 5, 0, 4)


def test_a_claim_number_is_not_given_twice(shop):
    """A key that looks like a claim number is not mistaken for the buyer of that number."""
    sale = shop.sale(stock=9, admission="open")["id"]
    orders = [shop.win(sale), shop.win(sale, key="2"), shop.win(sale), shop.win(sale, key="claim:4"), shop.win(sale)]
    assert len({order["no"] for order in orders}) == len({order["buyer"] for order in orders}) == 5


def test_an_open_admission_is_open_also_with_a_login(shop):
    sale = shop.sale(stock=3, admission="open")["id"]
    assert shop.grab(sale, "ann").status == 201
    assert shop.grab(sale, "ann").status == 201, "each request is a new buyer"


# Restart.

@pytest.mark.parametrize("kill", [False, True], ids=["sigterm", "kill-9"])
def test_wins_keys_and_limits_outlive_a_restart(own_server, kill):
    """P3, P5, P7"""
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=20, grabs_per_buyer_max=2, units_per_grab_max=3, price=7, currency="EUR", pay_within_s=600)["id"]
    open_sale = shop.sale(stock=20, admission="open")["id"]
    closed = shop.sale(stock=20)["id"]
    orders = [shop.win(sale, "ann", units=3, key="k1"), shop.win(sale, "ann", units=1, key="k2"), shop.win(sale, "bob", units=2)]
    claims = [shop.win(open_sale), shop.win(open_sale, key="mine")]
    gone = shop.win(closed, "ann", key="k")
    shop.act(closed, "close")
    counts = [shop.counts(one) for one in (sale, open_sale, closed)]
    shop.close()
    for _ in range(2):
        server.restart(kill)
        shop.close()
        assert [shop.counts(one) for one in (sale, open_sale, closed)] == counts
        for order in [*orders, *claims, gone]:
            assert shop.order(order["no"]).json() == order
        assert shop.win(sale, "ann", units=3, key="k1") == orders[0]
        assert shop.win(sale, "ann", units=1, key="k2") == orders[1]
        problem(shop.grab(sale, "ann", units=2, key="k2"), 422, "KEY_REUSED")
        assert already(shop.grab(sale, "ann", units=1)) == orders[1]
        assert shop.win(open_sale, key="mine") == claims[1]
        assert shop.win(closed, "ann", key="k") == gone
        problem(shop.grab(closed, "bob"), 409, "CLOSED")
    fresh = shop.win(sale, "cat")
    assert int(fresh["no"]) > max(int(order["no"]) for order in [*orders, *claims, gone])
    assert shop.win(open_sale)["buyer"] not in [claim["buyer"] for claim in claims]
    shop.close()
    server.stop()
    assert server.audit().code == 0
    rows = server.ledger().orders()
    assert [row["no"] for row in rows] == sorted(int(order["no"]) for order in [*orders, *claims, gone]) + [row["no"] for row in rows[-2:]]
