"""Purchase tokens and admit_max: not forged, not lent, not used twice, not after a restart; never more than were allowed (P1, P3, P7, P8)."""

import base64
import hashlib
import hmac
import random
import struct
import time

import pytest
from harness import Shop, at_once, eventually, mint_name, problem, time_text, unhurried

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@pytest.fixture
def sale(shop):
    """A running sale of 5 for those with a token, at most 2 each."""
    return shop.sale(stock=5, admission="token", grabs_per_buyer_max=2, units_per_grab_max=2)["id"]


def ask(shop, sale, buyer):
    return shop.client.post(f"/v1/sales/{sale}/tokens", None, shop.buyer(buyer))


def invalid(answer):
    return problem(answer, 403, "TOKEN_INVALID")


# Handing out.

def test_a_token_is_what_api_says(shop, sale):
    answer = ask(shop, sale, "ann")
    assert answer.status == 201, answer
    given = answer.json()
    assert {"token", "expires_at"} <= set(given) <= {"token", "expires_at", "now"}
    assert 40 < len(given["token"]) <= 160 and set(given["token"]) <= set(LETTERS)
    assert time_text(590) < given["expires_at"] < time_text(610), "600 s is the default"


def test_a_token_comes_before_the_sale_opens_and_wins_when_it_has(shop):
    def comes_before(opens_in_s):
        sale = shop.sale(stock=1, admission="token", opens_at=time_text(opens_in_s))["id"]
        token = shop.purchase_token(sale, "ann")
        problem(shop.grab(sale, "ann", purchase=token), 409, "NOT_OPEN")
        return sale, token
    sale, token = unhurried(comes_before)
    eventually(lambda: shop.show(sale)["state"] == "open")
    assert shop.grab(sale, "ann", purchase=token).status == 201


def test_nobody_gets_a_token_where_there_is_none(shop, sale):
    problem(ask(shop, "999999999", "ann"), 404, "NO_SUCH_SALE")
    problem(ask(shop, "x", "ann"), 404, "NO_SUCH_SALE")
    problem(ask(shop, shop.sale()["id"], "ann"), 409, "NO_TOKENS_NEEDED")
    problem(ask(shop, shop.sale(admission="open")["id"], "ann"), 409, "NO_TOKENS_NEEDED")
    line = shop.sale(admission="line", line={"rate_per_s": 1, "size": 1, "timeout_ms": 1})["id"]
    problem(ask(shop, line, "ann"), 409, "NO_TOKENS_NEEDED")
    problem(shop.client.post(f"/v1/sales/{sale}/tokens", None, None), 401, "NOT_LOGGED_IN")
    problem(shop.client.post(f"/v1/sales/{sale}/tokens", None, shop.seller_token), 403, "FORBIDDEN")
    problem(shop.client.post(f"/v1/sales/{sale}/tokens", {"units": 1}, shop.buyer("ann")), 400, "BAD_INPUT", "units")


def test_a_closed_sale_hands_out_none(shop, sale):
    shop.act(sale, "close")
    problem(ask(shop, sale, "ann"), 409, "CLOSED")
    gone = shop.sale(stock=1, admission="token", opens_at=time_text(-60), closes_at=time_text(0.5))["id"]
    eventually(lambda: shop.show(gone)["state"] == "closed")
    problem(ask(shop, gone, "ann"), 409, "CLOSED")


def test_a_sold_out_sale_hands_out_none(shop):
    sale = shop.sale(stock=1, admission="token", grabs_per_buyer_max=2)["id"]
    bob = shop.purchase_token(sale, "bob")
    shop.win(sale, "ann", purchase=shop.purchase_token(sale, "ann"))
    for buyer in ("ann", "bob", "cat"):
        problem(ask(shop, sale, buyer), 409, "SOLD_OUT")
    shop.act(sale, "stock", {"add": 1})
    assert ask(shop, sale, "cat").status == 201
    shop.win(sale, "bob", purchase=bob)


def test_who_has_won_all_they_may_needs_no_token(shop):
    sale = shop.sale(stock=5, admission="token")["id"]
    order = shop.win(sale, "ann", purchase=shop.purchase_token(sale, "ann"))
    assert problem(ask(shop, sale, "ann"), 409, "ALREADY_WON")["order"] == order


def test_tokens_max_is_never_passed(shop):
    sale = shop.sale(stock=50, admission="token", tokens_max=3)["id"]
    assert shop.show(sale)["tokens_max"] == 3
    for buyer in ("ann", "bob", "cat"):
        assert ask(shop, sale, buyer).status == 201
    problem(ask(shop, sale, "dan"), 409, "NO_TOKENS_LEFT")
    assert ask(shop, sale, "ann").status == 201, "she has one already: that is no other"
    shop.win(sale, "ann", purchase=shop.purchase_token(sale, "ann"))
    problem(ask(shop, sale, "dan"), 409, "NO_TOKENS_LEFT")


def test_more_tokens_can_be_given_while_a_sale_is_open(shop):
    """Else what comes back from those who did not buy could be sold to nobody."""
    sale = shop.sale(stock=2, admission="token", tokens_max=2, pay_within_s=600)["id"]
    orders = [shop.win(sale, buyer, purchase=shop.purchase_token(sale, buyer))["no"] for buyer in ("ann", "bob")]
    assert shop.client.post(f"/v1/orders/{orders[0]}/cancel", {}, shop.buyer("ann")).status == 200
    problem(ask(shop, sale, "cat"), 409, "NO_TOKENS_LEFT")
    for fewer in (1, 0):
        assert shop.client.patch(f"/v1/sales/{sale}", {"tokens_max": fewer}, shop.seller_token).status in (400, 409)
    assert shop.client.patch(f"/v1/sales/{sale}", {"tokens_max": 3}, shop.seller_token).json()["tokens_max"] == 3
    shop.win(sale, "cat", purchase=shop.purchase_token(sale, "cat"))
    problem(ask(shop, sale, "dan"), 409, "SOLD_OUT")
    assert shop.client.patch(f"/v1/sales/{sale}", {"tokens_max": None}, shop.seller_token).json()["tokens_max"] is None
    problem(shop.client.patch(f"/v1/sales/{sale}", {"tokens_max": 1000}, shop.seller_token), 409, "SALE_OPEN", "tokens_max (more)")


def test_one_customer_does_not_use_up_the_tokens(shop):
    sale = shop.sale(stock=50, admission="token", tokens_max=3, grabs_per_buyer_max=2)["id"]
    for _ in range(50):
        assert ask(shop, sale, "mallory").status == 201
    shop.win(sale, "mallory", purchase=shop.purchase_token(sale, "mallory"))
    for _ in range(50):
        assert ask(shop, sale, "mallory").status == 201
    shop.win(sale, "mallory", purchase=shop.purchase_token(sale, "mallory"))
    for _ in range(50):
        problem(ask(shop, sale, "mallory"), 409, "ALREADY_WON")
    assert ask(shop, sale, "ann").status == 201
    problem(ask(shop, sale, "bob"), 409, "NO_TOKENS_LEFT")


def test_a_crowd_gets_exactly_tokens_max(shop):
    sale = shop.sale(stock=100, admission="token", tokens_max=20)["id"]
    answers = []

    def rush(number):
        with shop.server.connect() as client:
            for n in range(10):
                name = f"crowd-{number}-{n}"
                answers.append(client.post(f"/v1/sales/{sale}/tokens", None, shop.server.token(name)).status)

    at_once(*(lambda n=n: rush(n) for n in range(8)))
    assert sorted(answers) == [201] * 20 + [409] * 60


# Using.

def test_a_grab_without_one_is_refused(shop, sale):
    before = shop.counts(sale)
    problem(shop.grab(sale, "ann"), 403, "TOKEN_REQUIRED")
    problem(shop.grab(sale, "ann", units=99), 403, "TOKEN_REQUIRED")
    problem(shop.client.post(f"/v1/sales/{sale}/grabs", {"token": None}, shop.buyer("ann")), 403, "TOKEN_REQUIRED")
    assert shop.counts(sale) == before


def test_a_token_wins_once(shop, sale):
    token = shop.purchase_token(sale, "ann")
    assert shop.win(sale, "ann", purchase=token)["buyer"] == "ann"
    invalid(shop.grab(sale, "ann", purchase=token))
    again = shop.purchase_token(sale, "ann")
    invalid(shop.grab(sale, "ann", purchase=token))
    shop.win(sale, "ann", purchase=again)
    assert shop.counts(sale) == (5, 3, 0, 2)


def test_a_refusal_leaves_it_usable(shop, sale):
    token = shop.purchase_token(sale, "ann")
    problem(shop.grab(sale, "ann", units=3, purchase=token), 409, "OVER_LIMIT")
    shop.act(sale, "pause")
    problem(shop.grab(sale, "ann", purchase=token), 409, "PAUSED")
    shop.act(sale, "resume")
    shop.act(sale, "stock", {"add": -4})
    problem(shop.grab(sale, "ann", units=2, purchase=token), 409, "SOLD_OUT")
    shop.win(sale, "ann", purchase=token)


def test_all_texts_of_one_token_are_spent_together(shop, sale):
    """Asked again it has another expiry and so another text; it is still one token."""
    texts = []
    while len(set(texts)) < 3:
        texts.append(shop.purchase_token(sale, "ann"))
        time.sleep(0.002)
    shop.win(sale, "ann", purchase=texts[1])
    for text in texts:
        invalid(shop.grab(sale, "ann", purchase=text))


def test_a_token_cannot_be_lent_or_carried_elsewhere(shop, sale):
    other = shop.sale(stock=5, admission="token")["id"]
    token = shop.purchase_token(sale, "ann")
    shop.purchase_token(sale, "bob")
    shop.purchase_token(other, "ann")
    for buyer in ("bob", "Ann", "an", "ann2", "cat"):
        invalid(shop.grab(sale, buyer, purchase=token))
    invalid(shop.grab(other, "ann", purchase=token))
    assert shop.counts(sale)[1] == 5 and shop.counts(other)[1] == 5
    shop.win(sale, "ann", purchase=token)


def test_sales_without_tokens_take_no_notice_of_one(shop, sale):
    token = shop.purchase_token(sale, "ann")
    plain = shop.sale()["id"]
    shop.win(plain, "ann", purchase=token)
    shop.win(plain, "bob", purchase="rubbish")
    shop.win(sale, "ann", purchase=token)


def forgeries(token, server):
    """Everything one could make of a token without the key, and some things one could make with it."""
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    text = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=").decode()  # noqa: E731
    assert text(raw) == token and len(raw) == 53
    dice = random.Random(1)
    yield from (token[:n] for n in range(len(token)))
    yield from (token + tail for tail in ("=", "==", "A", "AAAA", " ", "\u00e9", token))
    yield from (head + token for head in ("A", " ", "Bearer "))
    yield from (token.swapcase(), token[::-1], token.replace("-", "+").replace("_", "/") + "!", "null", "0", "{}", "x" * 160, "x" * 1024, "é" * 40)
    for at in range(len(raw)):
        yield text(raw[:at] + bytes([raw[at] ^ 1 << dice.randrange(8)]) + raw[at + 1:])
    later = struct.pack("<Q", struct.unpack("<Q", raw[5:13])[0] + 10 ** 9)
    yield text(raw[:5] + later + raw[13:])
    yield text(raw[:21] + bytes(32))
    for key in (server.signing_key()[1], b"", b"stampede purchase token"):
        body = raw[:21] + struct.pack("<Q", 1) + b"ann"
        yield text(raw[:21] + hmac.new(key, body, hashlib.sha256).digest())
        yield text(raw[:21] + hmac.new(key, raw[:21], hashlib.sha256).digest())
    yield server.token("ann")


def test_a_forged_token_is_refused(shop, sale):
    token = shop.purchase_token(sale, "ann")
    seen = set()
    for text in forgeries(token, shop.server):
        if text == token or len(text.encode()) > 1024:
            continue
        seen.add(text)
        invalid(shop.client.post(f"/v1/sales/{sale}/grabs", {"token": text}, shop.buyer("ann")))
    assert len(seen) > 130
    assert shop.counts(sale)[1] == 5
    shop.win(sale, "ann", purchase=token)


@pytest.mark.parametrize("value", ["x" * 1025, "x" * 60000, 1, True, [], {}, "nul\0", "line\nbreak"], ids=lambda v: ascii(v)[:20])
def test_what_is_no_text_of_a_token_is_bad_input(shop, sale, value):
    answer = shop.client.post(f"/v1/sales/{sale}/grabs", {"token": value}, shop.buyer("ann"))
    problem(answer, 400, "BAD_INPUT", None if value == "nul\0" else "token")


def test_an_expired_token_is_refused_and_renewed_for_nothing(own_server):
    server = own_server("--token-purchase-ttl-s", "3")
    shop = Shop(server)
    sale = shop.sale(stock=5, admission="token", tokens_max=1)["id"]
    token = shop.purchase_token(sale, "ann")
    time.sleep(3.1)
    invalid(shop.grab(sale, "ann", purchase=token))
    problem(ask(shop, sale, "bob"), 409, "NO_TOKENS_LEFT")
    eventually(lambda: shop.grab(sale, "ann", purchase=shop.purchase_token(sale, "ann")).status == 201)
    invalid(shop.grab(sale, "ann", purchase=token))
    shop.close()


def test_the_order_of_problems_is_that_of_api(shop):
    def asked_before(opens_in_s):
        sale = shop.sale(stock=1, admission="token", opens_at=time_text(opens_in_s))["id"]
        token = shop.purchase_token(sale, "ann")
        problem(shop.grab(sale, "ann", units=0), 400, "BAD_INPUT")
        problem(shop.client.post(f"/v1/sales/{sale}/grabs", {"token": "x"}, None), 401)
        problem(shop.grab(sale, "ann", purchase="x"), 409, "NOT_OPEN")
        return sale, token
    sale, token = unhurried(asked_before, 0.8, 5, 25)
    eventually(lambda: shop.show(sale)["state"] == "open")
    problem(shop.grab(sale, "ann", units=9), 403, "TOKEN_REQUIRED")
    invalid(shop.grab(sale, "ann", units=9, purchase="x"))
    problem(shop.grab(sale, "ann", units=9, purchase=token), 409, "OVER_LIMIT")
    shop.act(sale, "pause")
    problem(shop.grab(sale, "ann", purchase="x"), 409, "PAUSED")
    shop.act(sale, "resume")
    shop.win(sale, "ann", purchase=token)
    problem(shop.grab(sale, "bob"), 403, "TOKEN_REQUIRED")
    invalid(shop.grab(sale, "bob", purchase="x"))
    shop.act(sale, "close")
    problem(shop.grab(sale, "bob", purchase="x"), 409, "CLOSED")


def test_a_sold_out_sale_tells_a_good_token_so(shop):
    sale = shop.sale(stock=1, admission="token")["id"]
    ann, bob = shop.purchase_token(sale, "ann"), shop.purchase_token(sale, "bob")
    shop.win(sale, "ann", purchase=ann)
    problem(shop.grab(sale, "bob", purchase=bob), 409, "SOLD_OUT")


# P7: a win asked again.

def test_a_key_finds_its_win_before_the_token_is_looked_at(shop, sale):
    token = shop.purchase_token(sale, "ann")
    order = shop.win(sale, "ann", key="k", purchase=token)
    for purchase in (token, None, "rubbish", shop.purchase_token(sale, "ann")):
        answer = shop.grab(sale, "ann", key="k", purchase=purchase)
        assert answer.status == 201 and answer.json()["order"] == order, answer
    problem(shop.grab(sale, "ann", units=2, key="k"), 422, "KEY_REUSED")
    assert shop.counts(sale) == (5, 4, 0, 1)
    shop.act(sale, "close")
    assert shop.grab(sale, "ann", key="k").json()["order"] == order


# After a restart.

@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
def test_tokens_stay_given_and_spent_after_a_restart(own_server, kill):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=9, admission="token", tokens_max=3, grabs_per_buyer_max=2)["id"]
    ann, bob = shop.purchase_token(sale, "ann"), shop.purchase_token(sale, "bob")
    order = shop.win(sale, "ann", key="k", purchase=ann)
    seller = shop.seller
    for _ in range(2):
        shop.close()
        server.restart(kill=kill)
        shop = Shop(server, seller)
        invalid(shop.grab(sale, "ann", purchase=ann))
        invalid(shop.grab(sale, "bob", purchase=ann))
        assert shop.grab(sale, "ann", key="k").json()["order"] == order
        assert ask(shop, sale, "bob").status == 201
    assert ask(shop, sale, "cat").status == 201
    problem(ask(shop, sale, "dan"), 409, "NO_TOKENS_LEFT")
    problem(ask(shop, sale, "ann"), 409, "NO_TOKENS_LEFT")
    shop.win(sale, "bob", purchase=bob)
    shop.close()
    server.restart(kill=kill)
    shop = Shop(server, seller)
    invalid(shop.grab(sale, "bob", purchase=bob))
    assert shop.counts(sale) == (9, 7, 0, 2)
    shop.close()
    server.stop()
    rows = server.ledger().rows("SELECT buyer, spent FROM tokens ORDER BY nonce")
    assert [(row["buyer"], row["spent"] != 0) for row in rows] == [("ann", True), ("bob", True), ("cat", False)]
    assert server.audit().code == 0


def test_a_token_of_another_server_is_refused(own_server, shop, sale):
    """Two servers with the same sale and customer, but keys of their own."""
    other = own_server()
    there = Shop(other)
    for _ in range(int(sale)):
        last = there.sale(stock=5, admission="token")["id"]
    assert last == sale
    invalid(shop.grab(sale, "ann", purchase=there.purchase_token(sale, "ann")))
    there.close()


# admit_max.

def test_admit_max_lets_so_many_past_and_tells_the_rest_the_truth(shop):
    sale = shop.sale(stock=10, admit_max=3)["id"]
    for buyer in ("ann", "bob", "cat"):
        shop.win(sale, buyer)
    for buyer in ("dan", "eve"):
        answer = shop.grab(sale, buyer)
        problem(answer, 503, "BUSY")
        assert answer.headers.get("retry-after")
    assert shop.counts(sale) == (10, 7, 0, 3)
    shop.act(sale, "stock", {"add": -7})
    problem(shop.grab(sale, "eve"), 409, "SOLD_OUT")
    problem(shop.grab(sale, "ann"), 409, "ALREADY_WON")
    shop.act(sale, "close")
    problem(shop.grab(sale, "eve"), 409, "CLOSED")


def test_admit_max_does_not_count_those_who_come_too_early_or_again(shop):
    def too_early(opens_in_s):
        sale = shop.sale(stock=10, admit_max=2, opens_at=time_text(opens_in_s))["id"]
        for _ in range(5):
            problem(shop.grab(sale, "early"), 409, "NOT_OPEN")
        return sale
    sale = unhurried(too_early)
    eventually(lambda: shop.show(sale)["state"] == "open")
    order = shop.win(sale, "ann", key="k")
    for _ in range(5):
        assert shop.grab(sale, "ann", key="k").json()["order"] == order
    shop.act(sale, "pause")
    for _ in range(5):
        problem(shop.grab(sale, "bob"), 409, "PAUSED")
    shop.act(sale, "resume")
    shop.win(sale, "bob")
    problem(shop.grab(sale, "cat"), 503, "BUSY")
    assert shop.grab(sale, "ann", key="k").json()["order"] == order


def test_admit_max_after_a_restart_counts_those_who_won(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=10, admit_max=3)["id"]
    shop.win(sale, "ann")
    for _ in range(2):
        problem(shop.grab(sale, "ann"), 409, "ALREADY_WON")  # which uses nothing up: nobody burns what others may have
    shop.win(sale, "bob")
    seller = shop.seller
    shop.close()
    server.restart(kill=True)
    shop = Shop(server, seller)
    shop.win(sale, "cat")
    problem(shop.grab(sale, "dan"), 503, "BUSY")
    shop.close()
    server.restart()
    shop = Shop(server, seller)
    problem(shop.grab(sale, "dan"), 503, "BUSY")
    assert shop.counts(sale) == (10, 7, 0, 3)
    shop.close()


def test_of_a_crowd_exactly_admit_max_win(shop):
    sale = shop.sale(stock=100, admit_max=25)["id"]
    answers = []

    def rush(number):
        with shop.server.connect() as client:
            for n in range(20):
                answers.append(client.post(f"/v1/sales/{sale}/grabs", None, shop.server.token(mint_name(f"rush-{number}"))).status)

    at_once(*(lambda n=n: rush(n) for n in range(6)))
    assert sorted(answers) == [201] * 25 + [503] * 95
    assert shop.counts(sale) == (100, 75, 0, 25)


def test_tokens_and_admit_max_together(shop):
    sale = shop.sale(stock=10, admission="token", admit_max=1)["id"]
    ann, bob = shop.purchase_token(sale, "ann"), shop.purchase_token(sale, "bob")
    for _ in range(3):
        problem(shop.grab(sale, "ann"), 403, "TOKEN_REQUIRED")
        invalid(shop.grab(sale, "ann", purchase=bob))
    shop.win(sale, "bob", purchase=bob)
    problem(shop.grab(sale, "ann", purchase=ann), 503, "BUSY")
    invalid(shop.grab(sale, "bob", purchase=bob))


# The terms of a line.

def test_a_line_is_kept_as_numbers_or_as_a_name(own_server, tmp_path):
    conf = tmp_path / "lines.conf"
    conf.write_text("line.hall.rate = 10\nline.hall.size = 20\nline.hall.timeout_ms = 3000\n")
    shop = Shop(own_server("--config", str(conf)))
    numbers = {"rate_per_s": 100, "size": 5000, "timeout_ms": 30000}
    sale = shop.sale(admission="line", line=numbers)
    assert sale["admission"] == "line" and sale["line"] == numbers
    assert shop.change(sale["id"], line="hall").json()["line"] == "hall"
    assert shop.change(sale["id"], line=numbers).json()["line"] == numbers
    problem(shop.change(sale["id"], line=None), 400, "BAD_INPUT", "line")
    plain = shop.sale(line="hall", opens_at="2100-01-01T00:00:00Z")
    assert shop.change(plain["id"], line=None).json()["line"] is None
    problem(shop.change(plain["id"], admission="line"), 400, "BAD_INPUT", "line")
    answer = shop.change(plain["id"], admission="line", line=numbers)
    assert answer.status == 200 and answer.json()["line"] == numbers, answer
