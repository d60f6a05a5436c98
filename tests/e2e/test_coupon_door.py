"""The coupon door: every row of the published interface, literally, and the course's load test."""

import base64
import json
import shutil
import subprocess
import time
import urllib.parse

import pytest
from coupon import PASSWORD, Coupons, coupons_path, grab_bytes, nothing, says
from harness import Shop, crowd, eventually, mint_name, request_bytes

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BAD_BODY = "Only receive JSON format."
INSERT_FAILED = "Insert user failed. Maybe user name duplicates."
CREATE_FAILED = "Create failed. Maybe (username,coupon name) duplicates"


def short(prefix):
    """A name of at most 20 characters that nobody had before."""
    return mint_name(prefix)[:20]


@pytest.fixture
def door(server):
    mine = Coupons(server)
    yield mine
    mine.close()
    assert server.alive(), f"the server has ended\n{server.log()}"
    server.check_log()


class People:
    """Those that most tests need, registered once for the module."""

    def __init__(self, server):
        door = Coupons(server)
        self.seller, self.other_seller, self.customer, self.other_customer = (short(word) for word in ("sal", "oth", "cus", "mer"))
        self.seller_token = door.enter(self.seller, "saler")
        self.other_seller_token = door.enter(self.other_seller, "saler")
        self.token = door.enter(self.customer)
        self.other_token = door.enter(self.other_customer)
        door.close()


@pytest.fixture(scope="module")
def people(server):
    return People(server)


# Registering.

@pytest.mark.parametrize("body,message", [
    (b"", BAD_BODY), (b"{", BAD_BODY), (b"[]", BAD_BODY), (b"null", BAD_BODY), (b"hello", BAD_BODY), (b'{"username":1,"password":"p","kind":"customer"}', BAD_BODY),
    (b'{"username":"a","username":"b","password":"p","kind":"customer"}', BAD_BODY),
    ({}, "User name too short."), ({"username": "", "password": "", "kind": ""}, "User name too short."), ({"username": None}, "User name too short."),
    ({"username": "u"}, "Password too short."), ({"username": "u", "password": "", "kind": "nobody"}, "Password too short."),
    ({"username": "u" * 21, "password": ""}, "Password too short."),
    ({"username": "u", "password": "p"}, "Empty field of kind."), ({"username": "u", "password": "p", "kind": ""}, "Empty field of kind."),
    ({"username": "u", "password": "p", "kind": "seller"}, "Unexpected value of kind, seller"),
    ({"username": "u", "password": "p", "kind": "admin"}, "Unexpected value of kind, admin"),
    ({"username": "u", "password": "p", "kind": 'x"y'}, 'Unexpected value of kind, x"y'),
    ({"username": "u" * 21, "password": "p", "kind": "other"}, "Unexpected value of kind, other"),
    ({"username": "u" * 21, "password": "p", "kind": "customer"}, INSERT_FAILED), ({"username": "u" * 1000, "password": "p", "kind": "customer"}, INSERT_FAILED),
    ({"username": "a b", "password": "p", "kind": "customer"}, INSERT_FAILED), ({"username": "a\nb", "password": "p", "kind": "saler"}, INSERT_FAILED),
    ({"username": "u", "password": "p" * 5000, "kind": "customer"}, INSERT_FAILED)], ids=lambda v: str(v)[:40])
def test_registering_objects_in_the_published_order(door, body, message):
    says(door.ask("POST", "/api/users", body), 400, message)


def test_registering_takes_names_of_20_characters_and_any_password_once(door, server):
    for name in (short("a"), "b" * 14 + mint_name("")[-6:], "优惠券买家" + mint_name("")[-10:]):
        assert len(name) <= 20
        says(door.register(name, password="p"), 201, "")
        says(door.register(name, "saler", password="q"), 400, INSERT_FAILED)
        row = server.ledger().rows("SELECT role, password_hash FROM users WHERE username = ?", name)[0]
        assert row["role"] == 1 and row["password_hash"].startswith("$argon2id$")


@pytest.mark.parametrize("path", ["/api/users", "/api/users/"])
@pytest.mark.parametrize("headers", [FORM, {"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"}])
def test_registering_by_a_form_and_with_a_slash(door, path, headers):
    name = short("form")
    body = urllib.parse.urlencode({"username": name, "password": "p w+d&=", "kind": "saler", "submit": "Send"}).encode()
    says(door.ask("POST", path, body, **headers), 201, "")
    says(door.ask("POST", path, body, **headers), 400, INSERT_FAILED)
    says(door.ask("POST", path, b"", **headers), 400, "User name too short.")
    says(door.ask("POST", path, b"username=%zz", **headers), 400, BAD_BODY)
    assert door.login(name, "p w+d&=").json() == {"kind": "saler", "errMsg": ""}


def test_json_is_read_whatever_it_is_called_and_unknown_fields_are_passed_over(door):
    for type_named in ("application/json; charset=utf-8", "text/plain", FORM["Content-Type"]):
        body = json.dumps({"username": short("json"), "password": "p", "kind": "customer", "email": "a@b", "more": [1, {}]}).encode()
        says(door.ask("POST", "/api/users", b" \r\n" + body, **{"Content-Type": type_named}), 201, "")
    says(door.ask("POST", "/api/users", b"username=u&password=p&kind=customer", **{"Content-Type": "text/plain"}), 400, BAD_BODY)


# Logging in and out.

def claims_in(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


@pytest.mark.parametrize("kind", ["customer", "saler"])
@pytest.mark.parametrize("path", ["/api/auth", "/api/auth/"])
def test_logging_in_answers_the_kind_and_a_token_of_one_hour(door, kind, path):
    name = short("log")
    says(door.register(name, kind), 201, "")
    answer = door.ask("POST", path, {"username": name, "password": PASSWORD})
    assert answer.status == 200 and answer.json() == {"kind": kind, "errMsg": ""}, answer
    header = answer.headers["authorization"].split(".")[0]
    assert json.loads(base64.urlsafe_b64decode(header + "=="))["alg"] == "HS256"
    claims = claims_in(answer.headers["authorization"])
    assert claims["username"] == name and claims["kind"] == kind and claims["exp"] - claims["iat"] == 3600, claims
    form = door.ask("POST", path, urllib.parse.urlencode({"username": name, "password": PASSWORD}).encode(), **FORM)
    assert form.status == 200 and form.json()["kind"] == kind and form.headers["authorization"], form


@pytest.mark.parametrize("ttl_s,lives_s", [(60, 60), (86400, 3600)])
def test_the_token_lives_an_hour_or_less_where_the_operator_says_so(own_server, ttl_s, lives_s):
    server = own_server("--token-ttl-s", ttl_s)
    claims = claims_in(Coupons(server).enter("ann"))
    assert claims["exp"] - claims["iat"] == lives_s


@pytest.mark.parametrize("body,status,message", [
    ({"username": "KNOWN", "password": "wrong"}, 401, "Password mismatched."), ({"username": "nobody", "password": "wrong"}, 401, "Password mismatched."),
    ({"username": "KNOWN", "password": ""}, 401, "Password mismatched."), ({"username": "KNOWN"}, 401, "Password mismatched."),
    ({"username": "", "password": ""}, 401, "Password mismatched."), ({}, 401, "Password mismatched."),
    ({"username": "x" * 5000, "password": "wrong"}, 401, "Password mismatched."), ({"username": "KNOWN", "password": "x" * 5000}, 401, "Password mismatched."),
    (b"", 400, BAD_BODY), (b"{", 400, BAD_BODY), (b'{"username":{},"password":"p"}', 400, BAD_BODY)], ids=lambda v: str(v)[:40])
def test_a_login_that_fails_says_no_more_than_that(door, people, body, status, message):
    if isinstance(body, dict) and body.get("username") == "KNOWN":
        body = {**body, "username": people.seller}
    answer = door.ask("POST", "/api/auth", body)
    says(answer, status, message, kind="")
    assert "authorization" not in answer.headers


def test_logging_out_ends_the_token(door):
    name = short("out")
    token, other = door.enter(name), door.login(name).headers["authorization"]
    says(door.ask("POST", "/api/auth/logout", None, token), 200, "log out.")
    says(door.ask("POST", "/api/auth/logout", None, token), 401, "Not Authorized.")
    says(door.list(token, name), 401, "Not Authorized.")
    assert door.client.get("/v1/orders", token).status == 401
    nothing(door.list(other, name))
    says(door.ask("POST", "/api/auth/logout/", None, other), 200, "log out.")


def test_the_token_stands_bare_or_after_bearer_and_is_good_on_native_routes(door, people):
    for token in (people.token, f"Bearer {people.token}", f"bearer {people.token}"):
        assert door.list(token, people.customer).status in (200, 204)
    assert door.client.get("/v1/orders", people.token).status == 200
    bare = door.client.request("GET", "/v1/orders", headers={"Authorization": people.token})
    assert bare.status == 401 and bare.code == "NOT_LOGGED_IN", "a native route wants the word Bearer"
    native = door.client.post("/v1/login", {"username": people.customer, "password": PASSWORD})
    assert native.status == 200, "a short password is one everywhere"
    assert door.list(native.json()["token"], people.customer).status in (200, 204)


ROUTES = [("POST", "/api/auth/logout"), ("POST", "/api/users/some/coupons"), ("GET", "/api/users/some/coupons"), ("PATCH", "/api/users/some/coupons/one")]


@pytest.mark.parametrize("method,path", ROUTES)
def test_without_a_token_or_with_an_expired_one_nobody_enters(door, server, people, method, path):
    says(door.ask(method, path), 401, "Not Authorized.")
    for token in ("x", "Bearer", "Bearer x", "a.b.c", people.token[:-2], people.token + "x", " "):
        says(door.ask(method, path, None, token), 401, "Not Authorized.")
    past = int(time.time()) - 7200
    for role in ("customer", "seller"):
        expired = server.token("ann", role, iat=past, nbf=past, exp=past + 3600, username="ann", kind=role)
        for token in (expired, f"Bearer {expired}"):
            says(door.ask(method, path, None, token), 401, "Authorization has expired.")


# Creating coupons.

def test_a_seller_makes_coupons_and_their_list_shows_them(door, people):
    name = mint_name("coupon")
    says(door.create(people.seller_token, people.seller, name, 20, 50, "half price"), 201, "")
    row = [row for row in door.everything(people.token, people.seller) if row["name"] == name]
    assert row == [{"name": name, "stock": 50, "description": "half price", "amount": 20, "left": 20}]
    says(door.create(people.seller_token, people.seller, name, 20, 50, ""), 400, CREATE_FAILED)
    says(door.create(people.seller_token, people.seller, mint_name("coupon"), description=""), 201, "")
    says(door.create(people.seller_token, people.seller, mint_name("coupon"), description="of two\r\nlines"), 201, "")
    assert "of two\nlines" in [row["description"] for row in door.everything(people.token, people.seller)]
    sales = door.client.get(f"/v1/sales?seller={people.seller}&limit=200").json()["items"]
    sale = [sale for sale in sales if sale["name"] == name][0]
    assert (sale["price"], sale["offered"], sale["units_per_grab_max"], sale["grabs_per_buyer_max"]) == (50, 20, 1, 1)


def test_a_form_makes_a_coupon(door, people):
    name = mint_name("of a form") + " 50% + more"
    body = urllib.parse.urlencode({"name": name, "amount": 3, "stock": 7, "description": "a\r\nb".replace("\r", "")}).encode()
    for path in (coupons_path(people.other_seller) + "/",):
        says(door.ask("POST", path, body, people.other_seller_token, **FORM), 201, "")
    row = [row for row in door.everything(people.token, people.other_seller) if row["name"] == name]
    assert row == [{"name": name, "stock": 7, "description": "a\nb", "amount": 3, "left": 3}]
    says(door.grab(people.token, people.other_seller, name), 201, "")
    says(door.ask("POST", coupons_path(people.other_seller), b"name=bare&amount=1", people.other_seller_token, **FORM), 201, "")
    assert {"name": "bare", "stock": 0, "description": "", "amount": 1, "left": 1} in door.everything(people.token, people.other_seller)
    for wrong in (b"name=n&amount=many&stock=1", b"name=n&amount=1.5&stock=1", b"name=n&amount=&stock=1"):
        says(door.ask("POST", coupons_path(people.other_seller), wrong, people.other_seller_token, **FORM), 400, BAD_BODY)
    for wrong in (b"name=n&amount=-1&stock=1", b"name=n&amount=99999999999999999999&stock=1", b"amount=1&stock=1"):
        says(door.ask("POST", coupons_path(people.other_seller), wrong, people.other_seller_token, **FORM), 400, CREATE_FAILED)


@pytest.mark.parametrize("changes,message", [
    ({"amount": "20"}, BAD_BODY), ({"amount": 1.5}, BAD_BODY), ({"amount": []}, BAD_BODY), ({"amount": True}, BAD_BODY), ({"stock": "x"}, BAD_BODY), ({"name": 7}, BAD_BODY),
    ({"description": 7}, BAD_BODY), ({"amount": 10 ** 30}, BAD_BODY),
    ({"amount": 0}, CREATE_FAILED), ({"amount": -100}, CREATE_FAILED), ({"amount": None}, CREATE_FAILED), ({"amount": 10 ** 12}, CREATE_FAILED),
    ({"amount": 2 ** 63 - 1}, CREATE_FAILED), ({"stock": -1}, CREATE_FAILED), ({"stock": 10 ** 15}, CREATE_FAILED), ({"name": ""}, CREATE_FAILED),
    ({"name": None}, CREATE_FAILED), ({"name": "n" * 129}, CREATE_FAILED), ({"name": "a\nb"}, CREATE_FAILED), ({"description": "d" * 2001}, CREATE_FAILED)],
    ids=lambda v: str(v)[:40])
def test_a_coupon_that_cannot_be_is_not_made(door, people, changes, message):
    before = door.everything(people.token, people.other_seller)
    body = {"name": mint_name("bad"), "amount": 1, "stock": 1, "description": "", **changes}
    says(door.ask("POST", coupons_path(people.other_seller), body, people.other_seller_token), 400, message)
    assert door.everything(people.token, people.other_seller) == before


def test_only_a_seller_makes_coupons_and_only_for_themself(door, people, server):
    for path in (coupons_path(people.seller), coupons_path(people.customer)):
        says(door.ask("POST", path, b"{", people.token), 401, "Only sellers can create coupons.")
    for name in (people.other_seller, people.customer, "nobody", "%zz", people.seller + "x"):
        says(door.ask("POST", f"/api/users/{name}/coupons", b"{", people.seller_token), 401, "Cannot create coupons for other users.")
    for body in (None, b"", b"{", b"[]", b"plain"):
        says(door.ask("POST", coupons_path(people.seller), body, people.seller_token), 400, BAD_BODY)
    assert door.create(server.token("root", "admin"), people.seller, "x").status == 401


# Grabbing and lists.

def test_a_customer_gets_a_coupon_once_until_none_is_left(door, people):
    name = mint_name("few")
    says(door.create(people.seller_token, people.seller, name, 1, 5, "d"), 201, "")
    says(door.grab(people.seller_token, people.seller, name), 401, "Sellers aren't allowed to get coupons.")
    says(door.grab(people.seller_token, people.other_seller, "there is none"), 401, "Sellers aren't allowed to get coupons.")
    says(door.grab(people.token, people.seller, name), 201, "")
    nothing(door.grab(people.token, people.seller, name))
    nothing(door.grab(people.other_token, people.seller, name))
    for seller, coupon in ((people.seller, "no such"), (people.other_seller, name), (people.customer, name), ("nobody", name), (people.seller, "n" * 200), ("s" * 200, name)):
        nothing(door.grab(people.other_token, seller, coupon))
    for path in (f"/api/users/{people.seller}/coupons/%zz", f"/api/users/%ff/coupons/{name}", f"/api/users/{people.seller}/coupons/{name}%00"):
        nothing(door.ask("PATCH", path, None, people.other_token))
    row = [row for row in door.everything(people.other_token, people.seller) if row["name"] == name]
    assert row == [{"name": name, "stock": 5, "description": "d", "amount": 1, "left": 0}]
    assert {"name": name, "stock": 5, "description": "d"} in door.everything(people.token, people.customer)
    assert name not in [row["name"] for row in door.everything(people.other_token, people.other_customer)]


@pytest.mark.parametrize("coupon", ["优惠券 1", "50%", "a/b", "a+b c", "?page=2", "x' OR 'a'='a", "..", "é\u0301"])
def test_names_in_paths_are_decoded(door, people, coupon):
    name = f"{coupon} {mint_name('')}"
    says(door.create(people.seller_token, people.seller, name, 2), 201, "")
    says(door.grab(people.token, people.seller, name), 201, "")
    says(door.ask("PATCH", coupons_path(people.seller, name) + "/", None, people.other_token), 201, "")


def test_what_the_seller_has_closed_or_memory_has_let_go_of_is_not_to_be_had(own_server):
    server = own_server()
    door, people, name = Coupons(server), People(server), "over"
    says(door.create(people.seller_token, people.seller, name, 5), 201, "")
    sale = [sale for sale in door.client.get(f"/v1/sales?seller={people.seller}&limit=200").json()["items"] if sale["name"] == name][0]["id"]
    act = lambda verb: door.client.post(f"/v1/sales/{sale}/{verb}", None, people.seller_token)  # noqa: E731
    assert act("pause").status == 200
    nothing(door.grab(people.token, people.seller, name))
    assert act("resume").status == 200
    says(door.grab(people.token, people.seller, name), 201, "")
    assert act("close").status == 200
    nothing(door.grab(people.other_token, people.seller, name))
    for restart in (False, True):  # a server that starts anew does not load what is over
        if restart:
            eventually(lambda: server.ledger().sale(sale)["closed"])
            server.restart()
            door.client.close()
        nothing(door.grab(people.token, people.seller, name))
        nothing(door.grab(people.other_token, people.seller, name))
    row = [row for row in door.everything(people.token, people.seller) if row["name"] == name][0]
    assert (row["amount"], row["left"]) == (5, 4)
    says(door.create(people.seller_token, people.seller, name, 5), 400, CREATE_FAILED)
    door.close()


def test_a_sale_that_knows_no_buyers_is_not_to_be_had(door, people, server):
    """One customer could get it again and again, and would not find it in their list."""
    name = mint_name("anyone")
    made = Shop(server).patient(lambda: door.client.post("/v1/sales", {"name": name, "stock": 2, "admission": "open"}, people.seller_token))[-1]
    assert made.status == 201, made
    nothing(door.grab(people.token, people.seller, name))
    assert [row["left"] for row in door.everything(people.token, people.seller) if row["name"] == name] == [2]


def test_left_is_exact_at_the_moment_of_the_answer(door, people, server):
    seller = short("exact")
    seller_token = door.enter(seller, "saler")
    says(door.create(seller_token, seller, "one", 30), 201, "")
    for n in range(30):
        says(door.grab(server.token(f"exact-{n}"), seller, "one"), 201, "")
        assert door.list(people.token, seller).json()["data"][0]["left"] == 29 - n


def test_lists_have_twenty_rows_a_page(door, people, server):
    seller, buyer = short("pages"), short("many")
    seller_token, token = door.enter(seller, "saler"), door.enter(buyer)
    nothing(door.list(token, seller))
    nothing(door.list(seller_token, seller))
    nothing(door.list(token, buyer))
    for n in range(45):
        says(door.create(seller_token, seller, f"c{n}", 10, n), 201, "")
        says(door.grab(token, seller, f"c{n}"), 201, "")
    for asker, name, row in ((token, seller, lambda n: {"name": f"c{n}", "stock": n, "description": "a coupon", "amount": 10, "left": 9}),
                             (seller_token, seller, lambda n: {"name": f"c{n}", "stock": n, "description": "a coupon", "amount": 10, "left": 9}),
                             (token, buyer, lambda n: {"name": f"c{n}", "stock": n, "description": "a coupon"})):
        pages = {page: [row(n) for n in numbers] for page, numbers in ((1, range(20)), (2, range(20, 40)), (3, range(40, 45)))}
        for page, rows in pages.items():
            says(door.list(asker, name, page), 200, "", data=rows)
        for page in (None, 0, -1, -99999999999, "000", 1, "01"):
            says(door.list(asker, name, page), 200, "", data=pages[1])
        for page in (4, 5, 10 ** 18, 10 ** 30, "0004"):
            nothing(door.list(asker, name, page))
        for page in ("", "x", "1.5", "1x", "%zz", "--1", "1&page=2"):
            says(door.list(asker, name, page), 400, "Wrong format of page.", data=[])
    says(door.list(people.token, buyer), 401, "Cannot check other customer.", data=[])
    says(door.list(seller_token, buyer), 401, "Cannot check other customer.", data=[])
    for unknown in ("nobody", "n" * 300, "%ff"):
        says(door.ask("GET", f"/api/users/{unknown}/coupons", None, people.token), 400, "Record not found.", data=[])
    head = door.client.request("HEAD", coupons_path(seller), headers={"Authorization": token})
    assert head.status == 200 and head.body == b"", head


def test_a_coupon_whose_hold_has_ended_is_no_longer_in_the_customers_list(door, people, server):
    """Sales made natively are coupons too."""
    name = mint_name("held")
    made = door.client.post("/v1/sales", {"name": name, "stock": 1, "price": 9, "pay_within_s": 1000}, people.seller_token)
    assert made.status == 201, made
    says(door.grab(people.token, people.seller, name), 201, "")
    nothing(door.grab(people.other_token, people.seller, name))
    mine = lambda: [row["name"] for row in door.everything(people.token, people.customer)]  # noqa: E731
    assert name in mine()
    order = door.client.get(f"/v1/orders?sale={made.json()['id']}", people.token).json()["items"][0]["no"]
    assert door.client.post(f"/v1/orders/{order}/cancel", None, people.token).status == 200
    assert name not in mine()
    says(door.grab(people.other_token, people.seller, name), 201, "")


# The guard before it, and the switch.

def test_the_guard_speaks_in_the_doors_envelope(own_server):
    server = own_server("--limits", "user_grab_per_s=1,user_grab_burst=1,ip_register_per_s=1,ip_register_burst=2,ip_login_per_s=1,ip_login_burst=2")
    door = Coupons(server)
    token = door.enter("ann")
    door.grab(token, "sam", "one")
    for answer in (door.grab(token, "sam", "one"), [door.register("bob") for _ in range(4)][-1]):
        assert answer.status == 429 and int(answer.headers["retry-after"]) >= 1, answer
        assert list(answer.json()) == ["errMsg"] and answer.json()["errMsg"], answer
    answer = [door.login("ann") for _ in range(4)][-1]
    assert answer.status == 429 and answer.json()["kind"] == "" and answer.json()["errMsg"], answer
    admin = server.token("root", "admin")
    assert door.client.post("/v1/blocks", {"entry": "user ann"}, admin).status == 201
    answer = door.list(token, "ann")
    assert answer.status == 403 and list(answer.json()) == ["errMsg"] and answer.json()["errMsg"], answer
    door.close()


def test_guessing_passwords_is_slowed_down_here_too(own_server):
    door = Coupons(own_server())
    door.enter("ann")
    answers = [door.login("ann", "guess") for _ in range(40)]
    assert {answer.status for answer in answers} == {401, 429}, "guessing goes on for ever"
    refused = [answer for answer in answers if answer.status == 429][0]
    assert set(refused.json()) == {"kind", "errMsg"} and refused.json()["kind"] == "" and refused.json()["errMsg"], refused
    assert "retry-after" in refused.headers
    door.close()


@pytest.mark.local
def test_a_busy_server_says_so_in_the_doors_envelope(own_server):
    server = own_server("--space-mb-min", str(1 << 20))
    door = Coupons(server)
    seller, token = door.enter("sam", "saler"), door.enter("ann")
    answer = door.create(seller, "sam", "one")
    assert answer.status == 503 and list(answer.json()) == ["errMsg"] and answer.json()["errMsg"] and "retry-after" in answer.headers, answer
    nothing(door.grab(token, "sam", "one"))
    door.close()


def test_the_door_can_be_shut(own_server):
    server = own_server("--door-coupon", "off")
    with server.connect() as client:
        for method, path in (*ROUTES, ("POST", "/api/users"), ("POST", "/api/auth")):
            answer = client.request(method, path, {} if method == "POST" else None)
            assert answer.status == 404 and answer.code == "NO_SUCH_ROUTE", answer
        assert client.get("/v1/sales").status == 200


def test_curl_is_a_client(server):
    """A program nobody here wrote, with its own idea of a form."""
    curl = shutil.which("curl")
    assert curl, "curl is not installed: make deps G=test"
    base = f"http://127.0.0.1:{server.port}"
    seller, buyer = short("curlsal"), short("curlcus")

    def run(*arguments):
        done = subprocess.run([curl, "-s", "-i", "--max-time", "30", *arguments], capture_output=True, timeout=60, check=True)
        head, _, body = done.stdout.decode().partition("\r\n\r\n")
        lines = head.split("\r\n")
        return int(lines[0].split()[1]), dict((k.lower(), v) for k, v in (line.split(": ", 1) for line in lines[1:])), body

    def json_post(path, fields, *more):
        return run("-X", "POST", base + path, "-H", "Content-Type: application/json", "-d", json.dumps(fields), *more)

    assert json_post("/api/users", {"username": seller, "password": "1", "kind": "saler"})[0] == 201
    assert run(base + "/api/users/", "-d", f"username={buyer}", "-d", "password=2", "-d", "kind=customer")[0] == 201
    status, headers, body = json_post("/api/auth", {"username": seller, "password": "1"})
    assert status == 200 and json.loads(body) == {"kind": "saler", "errMsg": ""}
    seller_token = "Authorization: " + headers["authorization"]
    status, headers, body = run(base + "/api/auth", "--data-urlencode", f"username={buyer}", "--data-urlencode", "password=2")
    assert status == 200 and json.loads(body)["kind"] == "customer"
    token = "Authorization: " + headers["authorization"]
    assert json_post(f"/api/users/{seller}/coupons", {"name": "c 1", "amount": 1, "stock": 8, "description": ""}, "-H", seller_token)[0] == 201
    status, _, body = run("-X", "PATCH", base + f"/api/users/{seller}/coupons/c%201", "-H", token)
    assert (status, json.loads(body)) == (201, {"errMsg": ""})
    assert run("-X", "PATCH", base + f"/api/users/{seller}/coupons/c%201", "-H", token)[::2] == (204, "")
    status, _, body = run(base + f"/api/users/{seller}/coupons?page=1", "-H", token)
    assert (status, json.loads(body)["data"]) == (200, [{"name": "c 1", "stock": 8, "description": "", "amount": 1, "left": 0}])
    assert run("-X", "POST", base + "/api/auth/logout", "-H", token)[::2] == (200, '{"errMsg":"log out."}')
    assert run(base + f"/api/users/{buyer}/coupons", "-H", token)[0] == 401


def test_the_courses_load_test(own_server):
    """200 customers, 5 sellers with 10 coupons of 20 pieces each; every customer tries every coupon, all at once."""
    server = own_server()
    sellers, customers = [f"seller{n}" for n in range(5)], [f"customer{n}" for n in range(200)]
    kinds = {**{name: "saler" for name in sellers}, **{name: "customer" for name in customers}}

    def post(path, fields, token=None):
        return request_bytes("POST", path, fields, headers={"Authorization": token} if token else None)

    made = crowd(server, [post("/api/users", {"username": name, "password": name, "kind": kind}) for name, kind in kinds.items()], 50)
    assert {answer.status for answer in made} == {201}
    entered = crowd(server, [post("/api/auth", {"username": name, "password": name}) for name in kinds], 50)
    assert {answer.status for answer in entered} == {200}
    tokens = {name: answer.headers["authorization"] for name, answer in zip(kinds, entered)}
    coupons = [(seller, f"coupon{n}") for seller in sellers for n in range(10)]
    done = crowd(server, [post(coupons_path(seller), {"name": name, "amount": 20, "stock": 1, "description": ""}, tokens[seller]) for seller, name in coupons], 50)
    assert {answer.status for answer in done} == {201}

    tries = [(customer, *coupons[(n * 7 + i) % 50]) for i in range(50) for n, customer in enumerate(customers)]
    answers = crowd(server, [grab_bytes(tokens[customer], seller, coupon) for customer, seller, coupon in tries], 200)
    assert {answer.status for answer in answers} == {201, 204}
    won = [entry for entry, answer in zip(tries, answers) if answer.status == 201]
    assert len(won) == 1000 and len(set(won)) == 1000

    door = Coupons(server)
    for seller in sellers:
        rows = door.everything(tokens["customer0"], seller)
        assert [(row["name"], row["amount"], row["left"]) for row in sorted(rows, key=lambda row: row["name"])] == [(f"coupon{n}", 20, 0) for n in range(10)]
    for customer in customers[:10]:
        assert sorted(row["name"] for row in door.everything(tokens[customer], customer)) == sorted(coupon for who, _, coupon in won if who == customer)
    door.close()
    server.stop()
    rows = server.ledger().rows("SELECT o.buyer, s.seller, s.name FROM orders AS o JOIN sales AS s ON s.id = o.sale")
    assert sorted((row["buyer"], row["seller"], row["name"]) for row in rows) == sorted(won)
    audit = server.audit()
    assert audit.code == 0, audit


def test_what_is_no_route_and_a_body_too_large_have_an_errmsg(door):
    answers = [door.ask("GET", "/api"), door.ask("GET", "/api/nothing"), door.ask("PUT", "/api/users", {}),
               door.ask("DELETE", coupons_path("a"), token="x"), door.ask("POST", "/api/users", b"x" * 65537)]
    assert [(answer.status, answer.headers.get("allow")) for answer in answers] == [
        (404, None), (404, None), (405, "POST"), (405, "GET, HEAD, POST"), (413, None)]
    for answer in answers:
        assert answer.headers["content-type"] == "application/json" and list(answer.json()) == ["errMsg"] and answer.json()["errMsg"], answer
