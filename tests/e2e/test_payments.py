"""Payments: signed, idempotent, of the right amount, however late, often or out of order they come (P1, P6)."""

import json
import signal
import time

import pytest
from harness import Shop, crowd, eventually, mint_name, problem, unhurried
from provider import Provider, secret_make, secrets_of, sign
from test_bad_input import NUMBERS, is_json

TERMS = {"stock": 5, "price": 700, "currency": "EUR", "pay_within_s": 3600, "units_per_grab_max": 2}


@pytest.fixture
def provider(server):
    return Provider(server)


def held(shop, units=2, **terms):
    """A sale and an order held in it."""
    sale = shop.sale(**{**TERMS, **terms})["id"]
    order = shop.win(sale, mint_name("buyer"), units=units)
    assert order["state"] == "held"
    return sale, order


def expired(shop, **terms):
    """A sale and an order whose hold has expired in it."""
    sale, order = held(shop, pay_within_s=1, **terms)
    return sale, eventually(lambda: state_is(shop, order, "expired"))


def state_is(shop, order, state):
    found = shop.order(order["no"]).json()
    return found if found["state"] == state else None


def test_a_held_order_becomes_paid(shop, provider):
    sale, order = held(shop)
    assert shop.counts(sale) == (5, 3, 2, 0)
    paid = provider.paid(shop.client, order)
    assert shop.counts(sale) == (5, 3, 0, 2)
    assert shop.order(order["no"]).json() == paid
    assert shop.listed(f"/v1/orders?sale={sale}&state=paid", shop.seller_token) == [paid]
    assert shop.listed(f"/v1/orders?sale={sale}&state=held", shop.seller_token) == []
    problem(shop.grab(sale, order["buyer"]), 409, "ALREADY_WON")


def test_the_same_payment_again_gets_the_same_answer(shop, provider):
    sale, order = held(shop)
    paid = provider.paid(shop.client, order, "pay-1")
    body = provider.body(order["no"], order["amount"], "pay-1")
    for signing in ({}, {"message_id": "other"}, {"timestamp": int(time.time()) - 100}):
        answer = provider.send(shop.client, body, **signing)
        assert (answer.status, answer.json()) == (200, paid), answer
    assert shop.counts(sale) == (5, 3, 0, 2)


def test_a_hundred_duplicates_at_once_are_one_payment(shop, provider, server):
    sale, order = held(shop)
    answers = crowd(server, [provider.request(order, "pay-1") for _ in range(100)], 100)
    assert {answer.status for answer in answers} == {200}
    assert {answer.body for answer in answers} == {json.dumps({**order, "state": "paid"}, separators=(",", ":")).encode()}
    assert shop.counts(sale) == (5, 3, 0, 2)
    assert shop.listed(f"/v1/orders?sale={sale}", shop.seller_token) == [{**order, "state": "paid"}]


def test_a_hundred_payments_of_different_names_are_one_payment(shop, provider, server):
    """P6: the order has one payment; everybody else is told to give the money back."""
    sale, order = held(shop)
    answers = crowd(server, [provider.request(order, f"pay-{i}") for i in range(100)], 100)
    assert sorted(answer.status for answer in answers) == [200] + 99 * [409]
    for answer in answers:
        if answer.status == 409:
            assert problem(answer, 409, "ALREADY_PAID")["order"] == {**order, "state": "paid"}
    winner = next(i for i, answer in enumerate(answers) if answer.status == 200)
    provider.paid(shop.client, order, f"pay-{winner}")
    assert shop.counts(sale) == (5, 3, 0, 2)


def test_another_payment_of_a_paid_order_is_refused(shop, provider):
    sale, order = held(shop)
    paid = provider.paid(shop.client, order, "pay-1")
    assert problem(provider.tell(shop.client, order, "pay-2"), 409, "ALREADY_PAID")["order"] == paid
    provider.paid(shop.client, order, "pay-1")
    assert shop.counts(sale) == (5, 3, 0, 2)


def test_an_order_that_was_paid_at_once_takes_no_payment(shop, provider):
    sale = shop.sale(price=700, currency="EUR")["id"]
    order = shop.win(sale, "ann")
    assert order["state"] == "paid"
    problem(provider.tell(shop.client, order), 409, "ALREADY_PAID")


def test_a_failed_payment_changes_nothing_and_the_next_may_succeed(shop, provider):
    sale, order = held(shop)
    for ref in ("pay-1", "pay-1", "pay-2"):
        answer = provider.tell(shop.client, order, ref, status="failed")
        assert (answer.status, answer.json()) == (200, order), answer
    assert shop.counts(sale) == (5, 3, 2, 0)
    paid = provider.paid(shop.client, order, "pay-1")
    answer = provider.tell(shop.client, order, "pay-1", status="failed")  # out of order: what was first comes last
    assert (answer.status, answer.json()) == (200, paid), answer
    assert shop.counts(sale) == (5, 3, 0, 2)


@pytest.mark.parametrize("amount", [0, 1, 700, 1399, 1401, 14000, 2 ** 63 - 1, None])
def test_a_wrong_amount_leaves_the_order_held(shop, provider, amount):
    sale, order = held(shop)
    assert order["amount"] == 1400
    assert problem(provider.tell(shop.client, order, amount=amount), 409, "AMOUNT_MISMATCH")["order"] == order
    assert shop.counts(sale) == (5, 3, 2, 0)
    provider.paid(shop.client, order)
    problem(provider.tell(shop.client, order, amount=amount), 409, "AMOUNT_MISMATCH")


@pytest.mark.parametrize("amount", [0, None])
def test_an_order_without_a_price_takes_nothing_as_its_amount(shop, provider, amount):
    sale, order = held(shop, price=None, currency=None)
    assert order["amount"] is None
    problem(provider.tell(shop.client, order, amount=1), 409, "AMOUNT_MISMATCH")
    answer = provider.tell(shop.client, order, amount=amount)
    assert (answer.status, answer.json()["state"]) == (200, "paid"), answer


@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_an_order_nobody_has_is_not_there(shop, provider, status):
    sale, order = held(shop)
    numbers = ["0", "999999999", "18446744073709551615", "18446744073709551616", "-1", "abc", f" {order['no']}", f"0{order['no']}", f"{order['no']}.0",
               str(int(order["no"]) - 1)]  # the last is the number of a decision that is no win
    for number in numbers:
        problem(provider.send(shop.client, provider.body(number, 1400, "pay-1", status)), 404, "NO_SUCH_ORDER")
    assert shop.counts(sale) == (5, 3, 2, 0)


# Forgery.

def without(name):
    return lambda provider, body: {**provider.headers(body), name: None}


def with_value(name, value):
    return lambda provider, body: {**provider.headers(body), name: value}


FORGED = {
    "no headers": (lambda provider, body: {}, "webhook-id"),
    "no id": (without("webhook-id"), "webhook-id"),
    "no timestamp": (without("webhook-timestamp"), "webhook-timestamp"),
    "no signature": (without("webhook-signature"), "webhook-signature"),
    "empty signature": (with_value("webhook-signature", ""), "webhook-signature"),
    "other secret": (lambda provider, body: provider.headers(body, secret=secret_make()), "webhook-signature"),
    "other body": (lambda provider, body: provider.headers(body + b" "), "webhook-signature"),
    "other id": (with_value("webhook-id", "msg_2"), "webhook-signature"),
    "other time": (with_value("webhook-timestamp", str(int(time.time()) - 7)), "webhook-signature"),
    "too old": (lambda provider, body: provider.headers(body, timestamp=int(time.time()) - 302), "too old"),
    "too new": (lambda provider, body: provider.headers(body, timestamp=int(time.time()) + 302), "future"),
    "milliseconds": (lambda provider, body: provider.headers(body, timestamp=int(time.time() * 1000)), "seconds"),
    "long ago": (lambda provider, body: provider.headers(body, timestamp=0), "too old"),
    "a time that is no number": (lambda provider, body: provider.headers(body, timestamp="now"), "seconds"),
    "a time beyond 64 bits": (lambda provider, body: provider.headers(body, timestamp=2 ** 64), "seconds"),
    "a negative time": (lambda provider, body: provider.headers(body, timestamp="-5"), "seconds"),
    "a full stop in the id": (lambda provider, body: provider.headers(body, message_id="msg.1"), "webhook-id"),
    "a long id": (lambda provider, body: provider.headers(body, message_id="x" * 129), "webhook-id"),
    "hexadecimal": (with_value("webhook-signature", "v1," + 64 * "a"), "webhook-signature"),
    "another version": (lambda provider, body: {name: value.replace("v1,", "v2,") for name, value in provider.headers(body).items()}, "v1"),
    "cut": (lambda provider, body: {name: value[:-1] if name == "webhook-signature" else value for name, value in provider.headers(body).items()}, "v1"),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_payment_is_refused_and_told_what_is_wrong(shop, provider, how):
    sale, order = held(shop)
    forge, word = FORGED[how]
    body = provider.body(order["no"], order["amount"], "pay-1")
    problem(shop.client.post("/v1/payments", body, headers=forge(provider, body)), 401, "BAD_SIGNATURE", word)
    assert shop.order(order["no"]).json() == order
    assert shop.counts(sale) == (5, 3, 2, 0)


@pytest.mark.parametrize("actor", ["buyer", "seller", "admin"])
def test_a_login_is_no_signature(shop, provider, actor):
    """P8: not even an admin can say that something was paid."""
    sale, order = held(shop)
    token = {"buyer": shop.buyer(order["buyer"]), "seller": shop.seller_token, "admin": shop.admin_token}[actor]
    body = provider.body(order["no"], order["amount"], "pay-1")
    problem(shop.client.post("/v1/payments", body, token), 401, "BAD_SIGNATURE")
    assert shop.order(order["no"]).json() == order


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"null", b'{"order":5}'], ids=repr)
def test_who_did_not_sign_does_not_learn_what_a_good_body_is(shop, provider, body):
    problem(shop.client.post("/v1/payments", body, headers=provider.headers(b"x")), 401, "BAD_SIGNATURE")
    problem(provider.send(shop.client, body), 400, "BAD_INPUT")


def test_a_message_sent_again_changes_nothing_and_with_another_body_is_refused(shop, provider):
    _, order = held(shop)
    _, other = held(shop)
    body = provider.body(order["no"], order["amount"], "pay-1")
    headers = provider.headers(body)
    answers = [shop.client.post("/v1/payments", body, headers=headers) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3 and len({answer.body for answer in answers}) == 1
    problem(shop.client.post("/v1/payments", provider.body(other["no"], other["amount"], "pay-1"), headers=headers), 401, "BAD_SIGNATURE")
    assert shop.order(other["no"]).json() == other


def test_any_signature_of_the_header_may_be_the_right_one(shop, provider):
    _, order = held(shop)
    body = provider.body(order["no"], order["amount"], "pay-1")
    headers = provider.headers(body)
    wrong = sign(secret_make(), headers["webhook-id"], headers["webhook-timestamp"], body)
    headers["webhook-signature"] = f"{wrong} v1a,xyz {headers['webhook-signature']} {wrong}"
    assert shop.client.post("/v1/payments", body, headers=headers).status == 200


def test_a_payment_of_more_than_four_kilobytes_is_not_even_hashed(shop, provider):
    problem(provider.send(shop.client, b" " * 4097), 413, "BODY_TOO_LARGE")
    problem(provider.send(shop.client, b" " * 4096), 400, "BAD_INPUT")


def test_a_flood_of_forged_payments_meets_the_limit_of_its_address(own_server):
    server = own_server("--limits", "ip_write_per_s=1,ip_write_burst=20,user_write_per_s=0")
    shop, provider = Shop(server), Provider(server)
    codes = [shop.client.post("/v1/payments", b"{}", headers=provider.headers(b"forged")).code for _ in range(60)]
    assert codes[0] == "BAD_SIGNATURE" and codes.count("RATE_LIMITED") > 20, codes
    answer = shop.client.post("/v1/payments", b"{}")
    assert answer.status == 401 or int(answer.headers["retry-after"]) >= 1
    shop.close()


# What is in a payment.

@pytest.mark.parametrize("text", NUMBERS, ids=repr)
def test_every_number_as_the_amount(shop, provider, text):
    sale, order = held(shop)
    answer = provider.send(shop.client, f'{{"order":"{order["no"]}","amount":{text},"payment_ref":"p","status":"succeeded"}}'.encode())
    value = NUMBERS[text]
    if value is not None and 0 <= value < 2 ** 63:
        problem(answer, 409, "AMOUNT_MISMATCH")
    else:
        problem(answer, 400, "BAD_INPUT", "amount" if is_json(text) else None)
    assert shop.counts(sale) == (5, 3, 2, 0)


@pytest.mark.parametrize("text", [*NUMBERS, "null"], ids=repr)
def test_an_order_is_named_by_a_text(shop, provider, text):
    answer = provider.send(shop.client, f'{{"order":{text},"amount":1400,"payment_ref":"p","status":"succeeded"}}'.encode())
    if text == '"5"':
        problem(answer, (404, 409))
    else:
        readable = is_json(text) and abs(NUMBERS.get(text) or 0) < 2 ** 63
        problem(answer, 400, "BAD_INPUT", "order" if readable else None)


GOOD = {"order": "1", "amount": 1, "payment_ref": "p", "status": "succeeded"}
BAD = [({"payment_ref": ""}, "payment_ref"), ({"payment_ref": "x" * 65}, "payment_ref"), ({"payment_ref": 5}, "payment_ref"), ({"payment_ref": None}, "payment_ref"),
       ({"payment_ref": "a\nb"}, "payment_ref"), ({"payment_ref": "a\0b"}, None), ({"status": "paid"}, "status"), ({"status": ""}, "status"),
       ({"status": True}, "status"), ({"status": "SUCCEEDED"}, "status"), ({"order": ""}, "order"), ({"order": "x" * 30}, "order"),
       ({"currency": "EUR"}, "currency"), ({"amount": 1.5}, "amount")]


@pytest.mark.parametrize("change,field", BAD, ids=lambda v: str(v)[:30])
def test_a_body_that_is_not_a_payment_is_refused(shop, provider, change, field):
    problem(provider.send(shop.client, json.dumps({**GOOD, **change}).encode()), 400, "BAD_INPUT", field)


@pytest.mark.parametrize("field", GOOD)
def test_every_field_is_needed(shop, provider, field):
    body = {name: value for name, value in GOOD.items() if name != field}
    problem(provider.send(shop.client, json.dumps(body).encode()), 400, "BAD_INPUT", field)


def test_the_longest_name_of_a_payment_is_kept(shop, provider):
    _, order = held(shop)
    longest = "ü" * 32
    provider.paid(shop.client, order, longest)
    provider.paid(shop.client, order, longest)
    problem(provider.tell(shop.client, order, longest[:-1] + "u"), 409, "ALREADY_PAID")


# Too late.

def test_a_late_payment_takes_the_units_again(shop, provider):
    sale, order = expired(shop)
    assert shop.counts(sale) == (5, 5, 0, 0)
    paid = provider.paid(shop.client, order)
    assert shop.counts(sale) == (5, 3, 0, 2)
    assert provider.paid(shop.client, order) == paid
    problem(provider.tell(shop.client, order, "pay-other"), 409, "ALREADY_PAID")
    problem(shop.grab(sale, order["buyer"]), 409, "ALREADY_WON")
    assert shop.counts(sale) == (5, 3, 0, 2)


def refund_stays(shop, provider, sale, order):
    """refund_due for good: the same payment changes nothing, another is refused, nothing is taken."""
    counts = shop.counts(sale)
    due = provider.paid(shop.client, order, state="refund_due")
    assert provider.paid(shop.client, order, state="refund_due") == due
    problem(provider.tell(shop.client, order, "pay-other"), 409, "ALREADY_PAID")
    problem(provider.tell(shop.client, order, amount=1), 409, "AMOUNT_MISMATCH")
    answer = provider.tell(shop.client, order, status="failed")
    assert (answer.status, answer.json()) == (200, due), answer
    assert shop.order(order["no"]).json() == due
    assert shop.counts(sale) == counts
    assert shop.listed(f"/v1/orders?sale={sale}&state=refund_due", shop.seller_token) == [due]


def test_a_late_payment_for_units_that_are_gone_is_due_back(shop, provider):
    sale, order = expired(shop, stock=2)
    shop.change(sale, pay_within_s=3600)
    shop.win(sale, "quicker", units=1)
    refund_stays(shop, provider, sale, order)


def test_a_late_payment_is_due_back_where_the_sale_says_so(shop, provider):
    sale, order = expired(shop, late_payment="refund")
    refund_stays(shop, provider, sale, order)


def test_a_late_payment_after_the_close_is_due_back(shop, provider):
    sale, order = expired(shop)
    other = shop.win(sale, "keeper")  # keeps the sale in memory until it expires, too
    assert shop.act(sale, "close").status == 200
    due = provider.paid(shop.client, order, state="refund_due")
    assert provider.paid(shop.client, order, state="refund_due") == due
    eventually(lambda: state_is(shop, other, "expired"))
    assert shop.counts(sale) == (5, 5, 0, 0)


def test_a_late_payment_of_a_buyer_who_bought_again_is_due_back(shop, provider):
    """P2: the limit holds also for what comes late."""
    sale, order = expired(shop)
    shop.change(sale, pay_within_s=3600)
    again = shop.win(sale, order["buyer"])
    refund_stays(shop, provider, sale, order)
    provider.paid(shop.client, again)


def test_a_payment_for_a_cancelled_order_is_due_back(shop, provider):
    sale, order = held(shop)
    assert shop.client.post(f"/v1/orders/{order['no']}/cancel", None, shop.buyer(order["buyer"])).status == 200
    refund_stays(shop, provider, sale, {**order, "state": "cancelled"})


def test_a_failed_payment_of_an_expired_order_leaves_it_expired(shop, provider):
    sale, order = expired(shop)
    answer = provider.tell(shop.client, order, status="failed")
    assert (answer.status, answer.json()) == (200, order), answer


def test_late_payments_of_everybody_take_what_is_there_and_no_more(shop, provider, server):
    """P1: ten expired orders, four units left: four are retaken, six are due back."""
    sale = shop.sale(stock=10, price=5, currency="EUR", pay_within_s=1)["id"]
    orders = [shop.win(sale, f"buyer-{i}") for i in range(10)]
    eventually(lambda: shop.counts(sale) == (10, 10, 0, 0))
    assert shop.act(sale, "stock", {"add": -6}).status == 200
    answers = crowd(server, [provider.request(order) for order in orders for _ in range(3)], 30)
    states = [answers[3 * i].json()["state"] for i in range(10)]
    for i in range(10):
        assert {answer.body for answer in answers[3 * i:3 * i + 3]} == {answers[3 * i].body}
    assert sorted(states) == 4 * ["paid"] + 6 * ["refund_due"]
    assert shop.counts(sale) == (4, 0, 0, 4)
    assert shop.show(sale)["state"] == "sold_out"


def in_memory(shop):
    text = shop.client.get("/metrics").body.decode()
    return int(float(next(line.split()[1] for line in text.splitlines() if line.startswith("stampede_sales "))))


def test_payments_for_sales_that_memory_has_let_go_of(own_server):
    """Closed, filed and forgotten: the ledger answers, and says the same thing ever after."""
    server = own_server()
    shop, provider = Shop(server), Provider(server)

    def in_time(pay_within_s):
        for earlier in shop.listed(f"/v1/sales?seller={shop.seller}"):
            shop.act(earlier["id"], "close")
        sale = shop.sale(**{**TERMS, "pay_within_s": pay_within_s, "stock": 20})["id"]
        orders = [shop.win(sale, f"buyer-{i}", units=2) for i in range(4)]
        paid = provider.paid(shop.client, orders[0])
        cancelled = shop.client.post(f"/v1/orders/{orders[1]['no']}/cancel", None, shop.buyer("buyer-1"))
        assert cancelled.status == 200, cancelled
        return sale, orders, paid, cancelled.json()
    sale, orders, paid, cancelled = unhurried(in_time)
    lapsed = eventually(lambda: state_is(shop, orders[2], "expired"))
    eventually(lambda: state_is(shop, orders[3], "expired"))
    assert shop.act(sale, "close").status == 200
    eventually(lambda: in_memory(shop) == 0)

    assert provider.paid(shop.client, orders[0]) == paid
    problem(provider.tell(shop.client, paid, "pay-other"), 409, "ALREADY_PAID")
    problem(provider.tell(shop.client, lapsed, amount=1), 409, "AMOUNT_MISMATCH")
    answer = provider.tell(shop.client, lapsed, status="failed")
    assert (answer.status, answer.json()) == (200, lapsed), answer
    refund_stays(shop, provider, sale, cancelled)
    provider.paid(shop.client, lapsed, state="refund_due")
    problem(provider.tell(shop.client, lapsed, "pay-other"), 409, "ALREADY_PAID")
    for number in (str(int(orders[0]["no"]) - 1), "1"):  # decisions that are no wins
        problem(provider.send(shop.client, provider.body(number, 1400, "p")), 404, "NO_SUCH_ORDER")

    answers = crowd(server, [provider.request(orders[3], f"pay-{i % 2}") for i in range(40)], 40)
    assert {answer.status for answer in answers} == {200, 409}
    assert {answer.json()["state"] for answer in answers if answer.status == 200} == {"refund_due"}
    winners = {i % 2 for i, answer in enumerate(answers) if answer.status == 200}
    assert len(winners) == 1, "two payments were taken for one order"
    shop.close()
    server.restart()
    shop = Shop(server, shop.seller)
    assert provider.paid(shop.client, lapsed, state="refund_due")
    provider.paid(shop.client, {**orders[3], "state": "expired"}, f"pay-{winners.pop()}", state="refund_due")
    assert shop.counts(sale) == (20, 18, 0, 2)
    shop.close()
    server.stop()
    audit = server.audit()
    assert audit.code == 0, audit


# Secrets.

def test_the_first_start_makes_one_secret_for_its_owner_alone(own_server):
    server = own_server()
    path = server.data / "payment_keys"
    assert path.stat().st_mode & 0o7777 == 0o600
    made = secrets_of(server.data)
    assert len(made) == 1
    server.restart()
    assert secrets_of(server.data) == made
    assert made[0] not in server.log(10 ** 7), "a secret stands in the log"


def accepted(server, secret):
    """Whether a payment signed so is looked at: for an order nobody has."""
    with server.connect() as client:
        answer = Provider(server, secret).send(client, Provider(server, secret).body("999999", 1, "p"))
        assert answer.code in ("NO_SUCH_ORDER", "BAD_SIGNATURE"), answer
        return answer.code == "NO_SUCH_ORDER"


def hang_up(server, words):
    """SIGHUP, and what the log says after it."""
    before = len(server.log(10 ** 7))
    server.process.send_signal(signal.SIGHUP)
    return eventually(lambda: text if words in (text := server.log(10 ** 7)[before:]) else None)


def test_secrets_rotate_without_a_restart(own_server):
    server = own_server()
    path, old, new = server.data / "payment_keys", secrets_of(server.data)[0], secret_make(64)
    assert accepted(server, old) and not accepted(server, new)
    path.write_text(f"# both\n{old}\n{new}\n")
    hang_up(server, "reloaded")
    assert accepted(server, old) and accepted(server, new)
    path.write_text(f"{new}\n")
    hang_up(server, "reloaded")
    assert not accepted(server, old) and accepted(server, new)
    for text, line in (("", "there is none"), (f"{old}\n\nwhsec_short\n", "line 3"), (f"{old} {new}\n", "line 1"), ("rubbish", "line 1")):
        path.write_text(text)
        said = hang_up(server, "reloaded")
        assert line in said and "rubbish" not in said and "short" not in said, said
        assert not accepted(server, old) and accepted(server, new)
    path.write_text(f"{old}\n")
    path.chmod(0o644)
    assert "0644" in hang_up(server, "reloaded")
    assert not accepted(server, old) and accepted(server, new)
    assert old not in server.log(10 ** 7) and new not in server.log(10 ** 7), "a secret stands in the log"


def test_secrets_may_come_from_the_environment(own_server):
    secret = secret_make(24)
    server = own_server(env={"STAMPEDE_PAYMENT_KEYS_TEXT": secret})
    assert not (server.data / "payment_keys").exists()
    assert accepted(server, secret) and not accepted(server, secret_make())


def test_the_tolerance_is_an_option(own_server):
    server = own_server("--payment-tolerance-s", "5", "--payment-keys", "/nonexistent/secrets", start=False)
    with pytest.raises(AssertionError, match="not ready"):
        server.start()
    server = own_server("--payment-tolerance-s", "60")
    with server.connect() as client:
        provider = Provider(server)
        body = provider.body("999999", 1, "p")
        problem(provider.send(client, body, timestamp=int(time.time()) - 40), 404)
        problem(provider.send(client, body, timestamp=int(time.time()) - 80), 401, "BAD_SIGNATURE", "too old")
