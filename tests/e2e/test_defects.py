"""Defects of the coupon and product systems that this server replaces, a test each, named after the defect. Those of their queues are in
test_defects_queue.py, those of the Redis protocol with its own tests."""

import base64
import contextlib
import hashlib
import hmac
import json
import re

import pytest
from coupon import PASSWORD, Coupons, coupons_path, grab_bytes, nothing, says
from harness import ROOT, Shop, base64url, crowd, eventually, keys_of, mint_name, problem, run

CREATE_FAILED = "Create failed. Maybe (username,coupon name) duplicates"


@pytest.fixture
def door(server):
    mine = Coupons(server)
    yield mine
    mine.close()
    assert server.alive(), f"the server has ended\n{server.log()}"
    server.check_log()


class Stand:
    """A seller with one coupon and a customer, registered at the door."""

    def __init__(self, door, amount=3):
        self.door, self.coupon = door, mint_name("coupon")
        self.seller, self.customer = mint_name("s")[:20], mint_name("c")[:20]
        self.seller_token, self.token = door.enter(self.seller, "saler"), door.enter(self.customer)
        says(door.create(self.seller_token, self.seller, self.coupon, amount), 201, "")

    def grab(self, token=None):
        return self.door.grab(token or self.token, self.seller, self.coupon)

    def left(self):
        return self.door.list(self.token, self.seller).json()["data"][0]["left"]

    def sale(self):
        return self.door.client.get(f"/v1/sales?seller={self.seller}").json()["items"][0]["id"]


def test_a_script_sold_twice_to_the_same_user(door, server):
    stand = Stand(door, 20)
    answers = crowd(server, [grab_bytes(stand.token, stand.seller, stand.coupon)] * 60, 30)
    assert sorted(answer.status for answer in answers) == [201] + [204] * 59
    assert stand.left() == 19


def test_a_script_that_died_between_its_two_writes_lost_a_piece_for_good(own_server):
    """Killed in the middle of a crowd: every piece is either somebody's or still to be had."""
    server = own_server()
    door = Coupons(server)
    stand = Stand(door, 40)
    sale = stand.sale()
    tokens = [server.token(f"buyer-{n}") for n in range(60)]
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(contextlib.closing(server.raw())) for _ in range(20)]
        for sock, token in zip(socks, tokens):
            sock.sendall(grab_bytes(token, stand.seller, stand.coupon))
        server.kill()
    door.client.close()
    server.start()
    crowd(server, [grab_bytes(token, stand.seller, stand.coupon) for token in tokens], 20)
    assert stand.left() == 0
    door.close()
    server.stop()
    orders = server.ledger().orders(sale)
    assert len(orders) == 40 and len({order["buyer"] for order in orders}) == 40
    assert server.audit().code == 0


@pytest.mark.local
def test_won_was_sent_before_anything_was_durable(own_server):
    """A killed process lost every order in its channel."""
    server = own_server()
    door = Coupons(server)
    stand = Stand(door, 500)
    tokens = {f"buyer-{n}": server.token(f"buyer-{n}") for n in range(300)}
    with server.ledger().locked():
        answers = crowd(server, [grab_bytes(token, stand.seller, stand.coupon) for token in tokens.values()], 50)
        server.kill()
    assert {answer.status for answer in answers} == {201}
    assert server.ledger().orders() == [], "the ledger had them already: this test shows nothing"
    door.client.close()
    server.start()
    assert stand.left() == 200
    for token in list(tokens.values())[::20]:
        nothing(stand.grab(token))
    door.close()
    server.stop()
    assert {order["buyer"] for order in server.ledger().orders()} == set(tokens)


@pytest.mark.local
def test_the_consumer_logged_a_failed_insert_and_went_on(own_server):
    """Memory and database drifted apart."""
    server = own_server()
    door = Coupons(server)
    stand = Stand(door, 100)
    sale = stand.sale()
    with server.ledger().locked():
        tokens = [server.token(f"buyer-{n}") for n in range(50)]
        answers = crowd(server, [grab_bytes(token, stand.seller, stand.coupon) for token in tokens], 10)
        assert {answer.status for answer in answers} == {201}
        assert server.ledger().orders(sale) == []
    eventually(lambda: len(server.ledger().orders(sale)) == 50, 60)
    row = server.ledger().sale(sale)
    assert (row["available"], row["sold"]) == (50, 50) and stand.left() == 50
    door.close()
    server.stop()
    assert server.audit().code == 0


def test_a_sold_out_flag_stayed_set_after_stock_came_back(door, server):
    stand = Stand(door, 1)
    other = server.token(mint_name("other"))
    says(stand.grab(), 201, "")
    nothing(stand.grab(other))
    assert door.client.post(f"/v1/sales/{stand.sale()}/stock", {"add": 1}, stand.seller_token).status == 200
    assert stand.left() == 1
    says(stand.grab(other), 201, "")
    nothing(stand.grab(server.token(mint_name("third"))))


def test_a_sold_out_flag_stayed_set_after_an_order_was_cancelled(server):
    shop = Shop(server)
    sale = shop.sale(stock=1, pay_within_s=1000)["id"]
    order = shop.win(sale, "first")["no"]
    problem(shop.grab(sale, "second"), 409, "SOLD_OUT")
    assert shop.client.post(f"/v1/orders/{order}/cancel", None, shop.buyer("first")).status == 200
    shop.win(sale, "second")
    shop.close()


def test_passwords_were_md5(door, server):
    stand = Stand(door)
    rows = server.ledger().rows("SELECT username, password_hash FROM users WHERE username IN (?, ?)", stand.seller, stand.customer)
    hashes = [row["password_hash"] for row in rows]
    assert len(set(hashes)) == 2, "the same password has the same hash: no salt"
    for text in hashes:
        assert re.match(r"\$argon2id\$v=19\$m=\d{5},t=\d+,p=\d+\$", text), text


def test_the_password_hash_travelled_inside_the_jwt(door, server):
    stand = Stand(door)
    secret = server.ledger().rows("SELECT password_hash FROM users WHERE username = ?", stand.customer)[0]["password_hash"]
    part = stand.token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert set(claims) == {"iss", "aud", "sub", "role", "iat", "nbf", "exp", "jti", "username", "kind"}
    text = json.dumps(claims)
    assert secret not in text and PASSWORD not in claims.values() and hashlib.md5(PASSWORD.encode()).hexdigest() not in text


def test_the_signing_key_stood_in_the_source(own_server):
    """Each data folder has a key of its own, which nobody else can read; the source has none."""
    first, second = own_server(), own_server()
    keys = [keys_of(server.data)[0][1] for server in (first, second)]
    assert keys[0] != keys[1] and min(map(len, keys)) >= 64
    assert (first.data / "keys").stat().st_mode & 0o077 == 0
    foreign = second.token("ann")
    with first.connect() as client:
        problem(client.get("/v1/orders", foreign), 401, "NOT_LOGGED_IN")
    for path in (ROOT / "src").rglob("*.[ch]"):
        assert not re.search(r'"[0-9a-fA-F]{64,}"', path.read_text()), f"{path} has what looks like a key"


def test_coupon_names_were_global(door):
    """Two sellers with the same coupon name shared one stock."""
    first, second = Stand(door, 1), Stand(door, 2)
    second.coupon = first.coupon
    says(door.create(second.seller_token, second.seller, first.coupon, 1), 201, "")
    says(door.grab(first.token, first.seller, first.coupon), 201, "")
    nothing(door.grab(second.token, first.seller, first.coupon))
    says(door.grab(second.token, second.seller, first.coupon), 201, "")
    nothing(door.grab(first.token, second.seller, first.coupon))
    left = {row["name"]: row["left"] for row in door.everything(first.token, second.seller)}
    assert left[first.coupon] == 0 and sorted(left.values()) == [0, 2]


@pytest.mark.local
def test_the_request_path_asked_the_database_for_the_user_on_every_query(own_server):
    """A grab works while nobody can read the database, of which a list says that it is busy."""
    server = own_server()
    door = Coupons(server)
    stand = Stand(door, 50)
    tokens = [server.token(f"buyer-{n}") for n in range(60)]
    assert stand.left() == 50
    with server.ledger().unreadable():
        answers = crowd(server, [grab_bytes(token, stand.seller, stand.coupon) for token in tokens], 20)
        says(door.grab(stand.seller_token, stand.seller, stand.coupon), 401, "Sellers aren't allowed to get coupons.")
        listed = door.list(stand.token, stand.seller)
        assert listed.status == 503 and listed.json()["errMsg"], f"the database could be read: this test shows nothing: {listed}"
    assert sorted(answer.status for answer in answers) == [201] * 50 + [204] * 10
    door.close()


def test_test_flush_emptied_the_cache_and_profiling_pages_stood_open(door):
    stand = Stand(door)
    paths = ["/test/flush", "/api/test/flush", "/flush", "/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/actuator", "/admin", "/server-status", "/swagger"]
    for path in paths:
        for method in ("GET", "POST", "DELETE"):
            answer = door.client.request(method, path, token=stand.token)
            assert answer.status == 404, (method, path, answer)
    known = [line.split()[1] for line in run("routes").out.splitlines()]
    assert not [path for path in known if re.search(r"flush|pprof|debug|test(?!$)|reset", path)]
    assert stand.left() == 3
    says(stand.grab(), 201, "")


def test_starting_the_server_flushed_the_cache(own_server):
    """And after the cache had restarted every grab failed until the server was restarted, too."""
    server = own_server()
    door = Coupons(server)
    stand = Stand(door, 3)
    says(stand.grab(), 201, "")
    for n, kill in enumerate((True, False)):
        server.restart(kill=kill)
        door.client.close()
        assert stand.left() == 2 - n
        nothing(stand.grab())
        says(stand.grab(server.token(f"late-{kill}")), 201, "")
    assert stand.left() == 0
    door.close()


def test_a_coupon_with_a_quote_in_its_name_rewrote_other_rows(door, server):
    stand = Stand(door, 5)
    name = "x' OR 'a'='a"
    nothing(door.grab(stand.token, stand.seller, name))
    nothing(door.grab(stand.token, name, stand.coupon))
    says(door.ask("GET", coupons_path(name), None, stand.token), 400, "Record not found.", data=[])
    says(door.create(stand.seller_token, stand.seller, name, 2, 1, "'; DROP TABLE sales; --"), 201, "")
    says(door.grab(stand.token, stand.seller, name), 201, "")
    assert {row["name"]: row["left"] for row in door.everything(stand.token, stand.seller)} == {stand.coupon: 5, name: 1}
    says(door.login(name, name), 401, "Password mismatched.", kind="")
    says(door.login(stand.customer, "' OR '1'='1"), 401, "Password mismatched.", kind="")


def test_an_empty_user_name_logged_in_as_the_first_user_of_the_table(door):
    Stand(door)
    for body in ({"username": "", "password": PASSWORD}, {"password": PASSWORD}, {"username": None, "password": PASSWORD}, {"username": "", "password": ""}, {}):
        answer = door.ask("POST", "/api/auth", body)
        says(answer, 401, "Password mismatched.", kind="")
        assert "authorization" not in answer.headers
    says(door.register(""), 400, "User name too short.")


@pytest.mark.parametrize("changes", [{"amount": 0}, {"amount": -1}, {"amount": -2 ** 31}, {"name": ""}, {"stock": -1}, {"amount": 2 ** 31}], ids=str)
def test_amount_0_and_negative_and_an_empty_name_were_accepted(door, changes):
    stand = Stand(door)
    fields = {"name": "new", "amount": 1, "stock": 1, **changes}
    says(door.create(stand.seller_token, stand.seller, **fields), 400, CREATE_FAILED)
    assert [row["name"] for row in door.everything(stand.token, stand.seller)] == [stand.coupon]
    nothing(door.grab(stand.token, stand.seller, "new"))


def test_a_negative_stock_sold_without_limit(server):
    shop = Shop(server)
    sale = shop.sale(stock=2)["id"]
    problem(shop.act(sale, "stock", {"add": -3}), 409, "NOT_AVAILABLE")
    assert shop.act(sale, "stock", {"add": -2}).status == 200
    problem(shop.grab(sale, "ann"), 409, "SOLD_OUT")
    problem(shop.client.post("/v1/sales", {"name": mint_name("sale"), "stock": -1}, shop.seller_token), 400, "BAD_INPUT", "stock")
    assert shop.counts(sale) == (0, 0, 0, 0)
    shop.close()


def test_a_failed_login_told_which_role_the_name_has(door):
    stand = Stand(door)
    answers = [door.login(name, "wrong") for name in (stand.seller, stand.customer, mint_name("x")[:20])]
    for answer in answers:
        says(answer, 401, "Password mismatched.", kind="")
    shown = [{name: value for name, value in answer.headers.items() if name not in ("date", "ratelimit")} for answer in answers]
    assert shown[0] == shown[1] == shown[2]


@pytest.mark.parametrize("alg,digest", [("HS512", hashlib.sha512), ("HS384", hashlib.sha384), ("none", None), ("None", None), ("RS256", hashlib.sha256), ("hs256", hashlib.sha256)])
def test_a_token_whose_algorithm_was_changed_to_another_hmac_passed(door, server, alg, digest):
    """Even signed with the right key."""
    stand = Stand(door)
    kid, key = server.signing_key()
    header = base64url(json.dumps({"alg": alg, "typ": "JWT", "kid": kid}, separators=(",", ":")).encode())
    signed = header + "." + stand.token.split(".")[1]
    forged = [signed + ".", signed + "." + stand.token.split(".")[2]]
    if digest is not None:
        forged.append(signed + "." + base64url(hmac.new(key, signed.encode(), digest).digest()))
    for token in forged:
        says(stand.grab(token), 401, "Not Authorized.")
        problem(door.client.get("/v1/orders", token), 401, "NOT_LOGGED_IN")
    assert stand.left() == 3
