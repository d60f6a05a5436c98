"""Holds: with pay_within_s a win waits for its payment; it ends once, and what it held is on sale again at once (P1, P2, P6)."""

import datetime
import time

import pytest
from harness import Server, Shop, crowd, eventually, mint_name, problem, request_bytes, unhurried
from provider import Provider

ENDED = ("paid", "cancelled", "expired", "refund_due")


def ms(text):
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def state(shop, order):
    return shop.order(order["no"]).json()["state"]


def expires(shop, order):
    eventually(lambda: state(shop, order) == "expired", pause=0.01)
    return {**order, "state": "expired"}


def cancel(shop, order, token=None, reason=None):
    body = None if reason is None else {"reason": reason}
    return shop.client.post(f"/v1/orders/{order['no']}/cancel", body, token or shop.buyer(order["buyer"]))


def cancelled(shop, order, **more):
    answer = cancel(shop, order, **more)
    assert (answer.status, answer.json()) == (200, {**order, "state": "cancelled"}), answer
    return answer.json()


# Expiry.

def test_a_hold_lasts_as_long_as_the_sale_says(shop):
    sale = shop.sale(pay_within_s=90)["id"]
    order = shop.win(sale, "ann")
    assert ms(order["pay_by"]) - ms(order["won_at"]) == 90_000
    assert shop.change(sale, pay_within_s=7).status == 200
    later = shop.win(sale, "bob")
    assert ms(later["pay_by"]) - ms(later["won_at"]) == 7_000
    assert shop.order(order["no"]).json() == order, "a change of the terms moved a deadline that was told"


def test_what_expires_is_sold_to_someone_else_at_once(shop):
    """P1, P2, P6: the unit is back, the sale is open again, the buyer may try again, and nobody has two."""
    def taken(pay_within_s):
        sale = shop.sale(stock=1, pay_within_s=pay_within_s)["id"]
        order = shop.win(sale, "ann", key="first")
        assert shop.show(sale)["state"] == "sold_out"
        problem(shop.grab(sale, "bob"), 409, "SOLD_OUT")
        problem(shop.grab(sale, "ann"), 409, "ALREADY_WON")
        return sale, order
    sale, order = unhurried(taken)
    lapsed = expires(shop, order)
    assert shop.order(order["no"]).json() == lapsed
    assert shop.counts(sale) == (1, 1, 0, 0)
    assert shop.show(sale)["state"] == "open"

    def taken_again(pay_within_s):
        assert shop.change(sale, pay_within_s=pay_within_s).status == 200
        other = eventually(lambda: (got := shop.grab(sale, "bob")).status == 201 and got).json()["order"]
        assert other["no"] != order["no"] and shop.counts(sale) == (1, 0, 1, 0)
        problem(shop.grab(sale, "ann"), 409, "SOLD_OUT")
        assert shop.win(sale, "ann", key="first") == lapsed, "P7: the same key, the same order"
        return other
    other = unhurried(taken_again)
    expires(shop, other)
    assert shop.change(sale, pay_within_s=3600).status == 200
    assert shop.win(sale, "ann", key="second")["no"] not in (order["no"], other["no"])
    assert shop.counts(sale) == (1, 0, 1, 0)


def test_nothing_expires_before_its_time_nor_long_after(shop, server):
    """Of a hundred holds, by the ledger's own times."""
    sale = shop.sale(stock=100, pay_within_s=1)["id"]
    for i in range(100):
        shop.win(sale, f"buyer-{i}")
    eventually(lambda: shop.counts(sale) == (100, 100, 0, 0))
    assert len(shop.listed(f"/v1/orders?sale={sale}&state=expired", shop.seller_token)) == 100
    rows = server.ledger().orders(sale)
    late = [row["ended_ms"] - row["pay_by_ms"] for row in rows]
    assert min(late) >= 0, "a hold ended before its time"
    assert max(late) < 20000, f"a hold ended {max(late)} ms late"


def test_holds_expire_while_nobody_asks_anything(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=3, pay_within_s=1)["id"]
    shop.win(sale, "ann")
    shop.close()
    eventually(lambda: [row["state"] for row in server.ledger().orders(sale)] == [3], seconds=10)
    assert server.ledger().sale(sale)["available"] == 3


def test_the_order_of_ends_is_the_order_of_deadlines(shop, server):
    """A long hold in front does not keep a short one behind it."""
    sale = shop.sale(stock=9, pay_within_s=3600)["id"]
    long = shop.win(sale, "ann")
    shop.change(sale, pay_within_s=1)
    short = shop.win(sale, "bob")
    expires(shop, short)
    assert state(shop, long) == "held"
    assert shop.counts(sale) == (9, 8, 1, 0)


def test_a_closed_and_a_paused_sale_get_their_units_back_too(shop):
    for verb, after in (("pause", "paused"), ("close", "closed")):
        def stopped(pay_within_s, verb=verb):
            sale = shop.sale(stock=4, pay_within_s=pay_within_s, units_per_grab_max=4)["id"]
            order = shop.win(sale, "ann", units=4)
            assert shop.act(sale, verb).status == 200
            assert shop.counts(sale) == (4, 0, 4, 0)
            return sale, order
        sale, order = unhurried(stopped)
        expires(shop, order)
        assert shop.counts(sale) == (4, 4, 0, 0)
        assert shop.show(sale)["state"] == after


def test_a_paid_order_does_not_expire(shop, server):
    def paid_in_time(pay_within_s):
        sale = shop.sale(pay_within_s=pay_within_s)["id"]
        order, other = shop.win(sale, "ann"), shop.win(sale, "bob")
        Provider(server).paid(shop.client, order)
        return sale, order, other
    sale, order, other = unhurried(paid_in_time)
    expires(shop, other)
    time.sleep(0.1)
    assert state(shop, order) == "paid"
    assert shop.counts(sale) == (10, 9, 0, 1)


def test_a_hold_expires_over_a_restart(own_server):
    """P6: deadlines are rebuilt at start; what fell due meanwhile ends at once, what did not stays."""
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=5, pay_within_s=1)["id"]
    due = shop.win(sale, "ann")
    shop.change(sale, pay_within_s=3600)
    stays = shop.win(sale, "bob")
    for kill in (True, False):
        shop.close()
        server.restart(kill=kill)
        shop = Shop(server, shop.seller)
        expires(shop, due)
        assert shop.order(stays["no"]).json() == stays
        assert shop.counts(sale) == (5, 4, 1, 0)
    shop.close()
    server.stop()
    audit = server.audit()
    assert audit.code == 0, audit


def test_thousands_of_holds_expire_at_once_and_the_server_answers_meanwhile(own_server):
    """P1 at every look; what comes back is sold again, to the last unit and no further."""
    count = 3000
    server = own_server("--reactors", "1")
    shop = Shop(server)
    sale = shop.sale(stock=count, pay_within_s=2)["id"]
    tokens = [server.token(f"buyer-{i}") for i in range(count)]
    first = crowd(server, [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, token) for token in tokens], 50)
    assert {answer.status for answer in first} == {201}
    shop.change(sale, pay_within_s=3600)
    looks = []
    eventually(lambda: looks.append(shop.counts(sale)) or looks[-1] == (count, count, 0, 0), seconds=30, pause=0.001)
    again = crowd(server, [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, token) for token in tokens + tokens[:50]], 50)
    assert sorted(answer.status for answer in again) == count * [201] + 50 * [409]
    assert shop.counts(sale) == (count, 0, count, 0)
    shop.close()
    server.stop()
    audit = server.audit()
    assert audit.code == 0, audit


def test_a_line_goes_on_when_units_come_back(own_server):
    """Those who come after the sold-out notice wait as ever, and win what has come back."""
    server = own_server()
    shop = Shop(server)
    def taken(pay_within_s):
        sale = shop.sale(stock=1, pay_within_s=pay_within_s, admission="line", line={"rate_per_s": 100, "size": 100, "timeout_ms": 30000})["id"]
        order = shop.win(sale, "ann")
        problem(shop.grab(sale, "bob"), 409, "SOLD_OUT")
        return sale, order
    sale, order = unhurried(taken)
    expires(shop, order)
    assert shop.win(sale, "bob")["state"] == "held"
    shop.close()


def test_a_purchase_token_that_won_what_expired_stays_spent(shop):
    sale = shop.sale(stock=2, pay_within_s=1, admission="token")["id"]
    token = shop.purchase_token(sale, "ann")
    expires(shop, shop.win(sale, "ann", purchase=token))
    problem(shop.grab(sale, "ann", purchase=token), 403, "TOKEN_INVALID")
    assert shop.win(sale, "ann", purchase=shop.purchase_token(sale, "ann"))["state"] == "held"


def test_a_draining_server_ends_while_holds_are_due():
    with Server() as server:
        shop = Shop(server)
        sale = shop.sale(stock=500, pay_within_s=1)["id"]
        for i in range(200):
            shop.win(sale, f"buyer-{i}")
        shop.close()
        server.stop()
        audit = server.audit()
        assert audit.code == 0, audit
        server.start()


# Cancel.

def test_a_buyer_cancels_and_the_unit_is_back(shop):
    sale = shop.sale(stock=1, pay_within_s=600)["id"]
    order = shop.win(sale, "ann", key="k")
    assert shop.show(sale)["state"] == "sold_out"
    gone = cancelled(shop, order)
    assert shop.counts(sale) == (1, 1, 0, 0) and shop.show(sale)["state"] == "open"
    assert shop.order(order["no"]).json() == gone
    assert shop.win(sale, "ann", key="k") == gone, "P7: the same key, the same order"
    again = shop.win(sale, "ann")
    assert again["no"] != order["no"]
    problem(shop.grab(sale, "ann"), 409, "ALREADY_WON")
    problem(cancel(shop, order), 409, "NOT_HELD")
    assert state(shop, again) == "held"


@pytest.mark.parametrize("actor", ["buyer", "seller", "admin"])
def test_a_reason_is_kept_with_who_gave_it(shop, server, actor):
    sale = shop.sale(pay_within_s=600)["id"]
    order = shop.win(sale, mint_name("buyer"))
    token = {"buyer": None, "seller": shop.seller_token, "admin": shop.admin_token}[actor]
    reason = "wrong 价格 \"again\""
    cancelled(shop, order, token=token, reason=reason)
    shop.listed(f"/v1/orders?sale={sale}", shop.seller_token)  # waits for the clerk
    row = server.ledger().orders(sale)[0]
    assert (row["reason"], row["canceller"]) == (reason, {"buyer": 1, "seller": 2, "admin": 3}[actor])


@pytest.mark.parametrize("actor", ["seller", "admin"])
def test_who_cancels_for_someone_else_says_why(shop, actor):
    sale = shop.sale(pay_within_s=600)["id"]
    order = shop.win(sale, "ann")
    token = {"seller": shop.seller_token, "admin": shop.admin_token}[actor]
    for body in (None, {}, {"reason": ""}, {"reason": None}, {"reason": 5}, {"reason": "x" * 201}, {"reason": "a\nb"}, {"reason": "ok", "more": 1}):
        problem(shop.client.post(f"/v1/orders/{order['no']}/cancel", body, token), 400, "BAD_INPUT")
    assert shop.order(order["no"]).json() == order
    cancelled(shop, order, token=token, reason="x" * 200)


def test_nobody_else_cancels_and_does_not_learn_that_it_is_there(shop, server):
    """P8"""
    sale = shop.sale(pay_within_s=600)["id"]
    order = shop.win(sale, "ann")
    for token in (shop.buyer("bob"), server.token(mint_name("seller"), "seller"), server.token(order["buyer"], "seller"), server.token(shop.seller)):
        problem(cancel(shop, order, token, "because"), 404, "NO_SUCH_ORDER")
    problem(shop.client.post(f"/v1/orders/{order['no']}/cancel"), 401)
    assert shop.order(order["no"]).json() == order


def test_an_order_that_is_not_there_is_not_cancelled(shop):
    shop.sale(pay_within_s=600)
    for number in ("0", "999999999", "18446744073709551616", "-1", "abc", "01", "1"):
        for token in (shop.buyer("ann"), shop.admin_token):
            problem(shop.client.post(f"/v1/orders/{number}/cancel", {"reason": "x"}, token), 404, "NO_SUCH_ORDER")


def test_only_what_is_held_can_be_cancelled(shop, server):
    at_once = shop.win(shop.sale()["id"], "ann")

    def paid_in_time(pay_within_s):
        sale = shop.sale(pay_within_s=pay_within_s)["id"]
        paid, lapsed = shop.win(sale, "ann"), shop.win(sale, "bob")
        Provider(server).paid(shop.client, paid)
        return sale, paid, lapsed
    sale, paid, lapsed = unhurried(paid_in_time)
    expires(shop, lapsed)
    due = shop.sale(pay_within_s=600)["id"]
    due_order = shop.win(due, "ann")
    cancelled(shop, due_order)
    Provider(server).paid(shop.client, due_order, state="refund_due")
    counts = shop.counts(sale), shop.counts(due)
    for order in (at_once, paid, lapsed, due_order):
        for token, reason in ((None, None), (shop.seller_token, "x"), (shop.admin_token, "x")):
            problem(cancel(shop, order, token, reason), 409, "NOT_HELD")
    assert (shop.counts(sale), shop.counts(due)) == counts


def test_twenty_cancels_at_once_return_the_unit_once(shop, server):
    sale = shop.sale(stock=5, pay_within_s=600, units_per_grab_max=3)["id"]
    order = shop.win(sale, "ann", units=3)
    answers = crowd(server, [request_bytes("POST", f"/v1/orders/{order['no']}/cancel", None, shop.buyer("ann")) for _ in range(20)], 20)
    assert sorted(answer.status for answer in answers) == [200] + 19 * [409]
    assert shop.counts(sale) == (5, 5, 0, 0)


def test_a_payment_and_a_cancel_at_once_agree(shop, server):
    """P6: either the payment was first and the cancel is told so, or the cancel was first and the money is due back."""
    provider, seen = Provider(server), set()
    for i in range(30):
        sale = shop.sale(stock=1, pay_within_s=600)["id"]
        order = shop.win(sale, f"buyer-{i}")
        both = [request_bytes("POST", f"/v1/orders/{order['no']}/cancel", None, shop.buyer(order["buyer"])), provider.request(order)]
        answers = crowd(server, both if i % 2 else both[::-1], 2)
        undone, paid = answers if i % 2 else answers[::-1]
        assert paid.status == 200, paid
        if undone.status == 200:
            assert (state(shop, order), paid.json()["state"]) == ("refund_due", "refund_due")
            assert shop.counts(sale) == (1, 1, 0, 0)
        else:
            problem(undone, 409, "NOT_HELD")
            assert (state(shop, order), paid.json()["state"]) == ("paid", "paid")
            assert shop.counts(sale) == (1, 0, 0, 1)
        seen.add(undone.status)
    assert seen <= {200, 409}


def test_one_buyer_who_gives_back_does_not_fill_the_memory_of_all(own_server):
    """P9: a returned order is kept while its sale is open, so a buyer has a bound of them, also after a restart."""
    server = own_server("--orders-max", "40")
    shop = Shop(server)
    sale = shop.sale(stock=1, pay_within_s=600)["id"]
    for _ in range(16):
        cancelled(shop, shop.win(sale, "eve"))
    problem(shop.grab(sale, "eve"), 409, "TOO_MANY_RETURNS")
    server.kill()
    server.start()
    shop = Shop(server)
    problem(shop.grab(sale, "eve"), 409, "TOO_MANY_RETURNS")
    shop.win(sale, "ann")
    problem(shop.grab(sale, "eve"), 409, "TOO_MANY_RETURNS")
    problem(shop.grab(sale, "bob"), 409, "SOLD_OUT")
    for i in range(20):
        shop.win(shop.sale(stock=1)["id"], "eve")
    shop.close()


def test_cancels_of_sales_that_memory_has_let_go_of(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(pay_within_s=600)["id"]
    order = cancelled(shop, shop.win(sale, "ann"))
    shop.act(sale, "close")
    in_memory = "stampede_sales 0"
    eventually(lambda: in_memory in shop.client.get("/metrics").body.decode())
    for token, reason in ((None, None), (shop.seller_token, "x"), (shop.admin_token, "x")):
        problem(cancel(shop, order, token, reason), 409, "NOT_HELD")
    for token in (shop.buyer("bob"), server.token(mint_name("seller"), "seller")):
        problem(cancel(shop, order, token, "x"), 404, "NO_SUCH_ORDER")
    shop.close()


# Lists.

@pytest.fixture
def five(shop, server):
    """A sale with an order in each state, in order of number."""
    sale = shop.sale(stock=20, pay_within_s=1, price=3, currency="EUR")["id"]
    lapsed = shop.win(sale, "expired")
    shop.change(sale, pay_within_s=3600)
    expires(shop, lapsed)
    orders = {name: shop.win(sale, name) for name in ("paid", "cancelled", "refund_due", "held")}
    Provider(server).paid(shop.client, orders["paid"])
    cancelled(shop, orders["cancelled"])
    cancelled(shop, orders["refund_due"])
    Provider(server).paid(shop.client, orders["refund_due"], state="refund_due")
    assert shop.counts(sale) == (20, 18, 1, 1)
    return sale, {name: shop.order(order["no"]).json() for name, order in {"expired": lapsed, **orders}.items()}


def test_orders_are_listed_by_state(shop, five):
    sale, orders = five
    for name, order in orders.items():
        assert order["state"] == name
        assert shop.listed(f"/v1/orders?sale={sale}&state={name}", shop.seller_token, limit=1) == [order]
        assert shop.listed(f"/v1/orders?state={name}&sale={sale}", shop.buyer(name)) == [order]
    problem(shop.client.get("/v1/orders?state=lost", shop.seller_token), 400, "BAD_INPUT", "state")
    problem(shop.client.get("/v1/orders?state=", shop.seller_token), 400, "BAD_INPUT", "state")


def test_orders_are_listed_by_buyer(shop, server, five):
    sale, orders = five
    for token in (shop.seller_token, shop.admin_token):
        assert shop.listed(f"/v1/orders?sale={sale}&buyer=paid", token) == [orders["paid"]]
        assert shop.listed(f"/v1/orders?sale={sale}&buyer=paid&state=held", token) == []
        assert shop.listed(f"/v1/orders?sale={sale}&buyer=nobody", token) == []
    other = server.token(mint_name("seller"), "seller")
    assert shop.listed("/v1/orders?buyer=paid", other) == [], "P8: only of one's own sales"
    assert shop.listed(f"/v1/orders?sale={sale}&buyer=paid", shop.buyer("paid")) == [orders["paid"]]
    problem(shop.client.get("/v1/orders?buyer=held", shop.buyer("paid")), 400, "BAD_INPUT", "buyer")
    problem(shop.client.get(f"/v1/orders?buyer={'x' * 65}", shop.seller_token), 400, "BAD_INPUT", "buyer")
    problem(shop.client.get("/v1/orders?buyer=%ff", shop.seller_token), 400, "BAD_INPUT", "buyer")


def test_orders_are_listed_by_time(shop):
    sale = shop.sale(stock=9, grabs_per_buyer_max=9)["id"]
    orders = []
    for _ in range(4):
        orders.append(shop.win(sale, "ann"))
        time.sleep(0.01)
    times = [order["won_at"] for order in orders]
    assert len(set(times)) == 4

    def found(*span):
        return shop.listed("&".join((f"/v1/orders?sale={sale}", *span)), shop.seller_token, limit=2)
    assert found(f"from={times[1]}") == orders[:0:-1], "from is inclusive"
    assert found(f"to={times[1]}") == orders[:1], "to is not"
    assert found(f"from={times[1]}", f"to={times[3]}") == orders[2:0:-1]
    assert found(f"from={times[1]}", f"to={times[1]}") == []
    assert found("from=1970-01-01T00:00:00Z") == orders[::-1]
    assert found("to=1970-01-01T00:00:00Z") == []
    assert found("to=9999-12-31T23:59:59.999Z") == orders[::-1]
    assert found(f"from={times[0].replace('Z', '%2B00:00')}", "state=paid", "buyer=ann") == orders[::-1]


@pytest.mark.parametrize("query,field", [("from=", "from"), ("to=yesterday", "to"), ("from=2026-01-31", "from"), ("from=1700000000", "from"),
                                         ("to=2026-02-30T00:00:00Z", "to"), ("from=2026-01-31T00:00:00", "from"), ("from=2026-01-31T00:00:00%2", "from"),
                                         ("from=2027-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from"), ("from=2026-01-31T00:00:00Z&from=2026-01-31T00:00:00Z", "from")])
def test_a_span_of_time_that_is_none_is_refused(shop, query, field):
    problem(shop.client.get(f"/v1/orders?{query}", shop.seller_token), 400, "BAD_INPUT", field)


def test_a_refund_for_an_order_that_memory_has_let_go_of_is_seen_at_once(own_server):
    """Who has heard of the refund never reads the state before it, though the clerk takes its time."""
    server = own_server("--clerk-pause-ms", "1000")
    shop, provider = Shop(server), Provider(server)
    sale = shop.sale(stock=1, pay_within_s=1, price=100, currency="EUR")["id"]
    order = shop.win(sale, "ann", key="once")
    eventually(lambda: shop.order(order["no"]).json()["state"] == "expired")
    shop.act(sale, "close")
    eventually(lambda: "\nstampede_sales 0\n" in shop.client.get("/metrics").body.decode())
    other = shop.sale(stock=5)["id"]
    for i in range(3):
        shop.win(other, f"buyer-{i}")  # the clerk begins to file this, and then rests
    provider.paid(shop.client, order, state="refund_due")
    assert shop.order(order["no"]).json()["state"] == "refund_due"
    assert shop.win(sale, "ann", key="once")["state"] == "refund_due"
    shop.close()
