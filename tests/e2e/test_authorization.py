"""Every route × everyone, generated from the route table of the binary (P8).

`stampede routes` prints METHOD PATH ROLES a line. A route is closed unless its row opens it to a role; what belongs to someone
is looked up together with its owner, so a stranger's thing is not there."""

import re

import pytest
import yaml
from harness import DOOR_PATHS, ROOT, Shop, mint_name, problem, run, time_text
from provider import Provider
from resp import Peer



@pytest.fixture(scope="module")
def server_flags():
    return ["--demo-payments", "on"]  # the only route that is not there by itself


ACTORS = ["nobody", "customer", "other customer", "seller", "other seller", "admin"]
WORDS = {"anyone", "customer", "seller", "admin", "admitted", "signed"}


def routes_read():
    done = run("routes")
    assert done.code == 0, done
    rows = []
    for line in done.out.splitlines():
        method, path, roles = line.split()
        rows.append((method, path, frozenset(roles.split(","))))
    return rows


# The table is read once, when the tests are collected: each row becomes a test for each actor.
ALL_ROUTES = routes_read()
# Doors speak as their clients expect; what each says to whom stands in the tests of the doors.
DOORS = [row for row in ALL_ROUTES if row[1].startswith(DOOR_PATHS)]
ROUTES = [row for row in ALL_ROUTES if row not in DOORS]


def plain(path):
    """A path without the names of its parameters."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def test_the_table_holds_every_route_of_this_release():
    expected = {("POST", "/v1/users"), ("POST", "/v1/login"), ("POST", "/v1/logout"), ("POST", "/v1/sales"), ("GET", "/v1/sales"), ("GET", "/v1/sales/{}"),
                ("PATCH", "/v1/sales/{}"), ("POST", "/v1/sales/{}/stock"), ("POST", "/v1/sales/{}/pause"), ("POST", "/v1/sales/{}/resume"),
                ("POST", "/v1/sales/{}/close"), ("POST", "/v1/sales/{}/warm"), ("POST", "/v1/sales/{}/grabs"), ("GET", "/v1/orders"), ("GET", "/v1/orders/{}"), ("GET", "/v1/blocks"),
                ("POST", "/v1/orders/{}/cancel"), ("POST", "/v1/payments"), ("GET", "/v1/webhook"), ("PUT", "/v1/webhook"), ("DELETE", "/v1/webhook"),
                ("POST", "/v1/webhook/test"), ("GET", "/v1/webhook/deliveries"), ("POST", "/v1/webhook/deliveries/retry"),
                ("POST", "/v1/webhook/deliveries/{}/retry"), ("DELETE", "/v1/webhook/deliveries"), ("DELETE", "/v1/webhook/deliveries/{}"),
                ("POST", "/v1/blocks"), ("DELETE", "/v1/blocks/{}"), ("POST", "/v1/sales/{}/tokens"), ("POST", "/v1/sales/{}/line"),
                ("GET", "/v1/sales/{}/line/{}"), ("DELETE", "/v1/sales/{}/line/{}"), ("GET", "/v1/limits"), ("PUT", "/v1/limits"), ("GET", "/healthz"),
                ("GET", "/v1/sales/{}/stats"), ("GET", "/v1/sales/{}/live"), ("POST", "/v1/events"), ("GET", "/v1/events"), ("GET", "/v1/events/{}"),
                ("PATCH", "/v1/events/{}"), ("POST", "/v1/events/{}/subscribe"), ("DELETE", "/v1/events/{}/subscribe"),
                ("GET", "/v1/nodes"), ("GET", "/v1/log"), ("GET", "/v1/webhooks"),
                ("GET", "/readyz"), ("GET", "/metrics"), ("GET", "/openapi.yaml"), ("POST", "/v1/orders/{}/demo_payment"), ("GET", "/pages.json"), ("GET", "/assets/{}"),
                ("GET", "/"), ("GET", "/s/{}"), ("GET", "/orders"), ("GET", "/pay/{}"), ("GET", "/login"), ("GET", "/register"), ("GET", "/console"), ("GET", "/console/{}"),
                ("GET", "/console/{}/{}")}
    found = [(method, plain(path)) for method, path, _ in ROUTES]
    assert set(found) == expected
    assert len(found) == len(set(found))
    assert all(roles and roles <= WORDS for _, _, roles in ROUTES)


def test_the_table_opens_what_api_opens():
    """The rows themselves, against the column "who" of api.md."""
    seller, everyone = {"seller", "admin"}, {"customer", "seller", "admin"}
    expected = {("POST", "/v1/logout"): everyone, ("POST", "/v1/sales"): seller, ("PATCH", "/v1/sales/{}"): seller, ("POST", "/v1/sales/{}/stock"): seller,
                ("POST", "/v1/sales/{}/pause"): seller, ("POST", "/v1/sales/{}/resume"): seller, ("POST", "/v1/sales/{}/close"): seller, ("POST", "/v1/sales/{}/warm"): seller,
                ("GET", "/v1/orders"): everyone, ("GET", "/v1/orders/{}"): everyone, ("POST", "/v1/orders/{}/cancel"): everyone, ("POST", "/v1/payments"): {"anyone", "signed"},
                ("POST", "/v1/sales/{}/grabs"): {"admitted"}, ("GET", "/v1/webhook"): seller, ("PUT", "/v1/webhook"): seller,
                ("DELETE", "/v1/webhook"): seller, ("POST", "/v1/webhook/test"): seller, ("GET", "/v1/webhook/deliveries"): seller,
                ("POST", "/v1/webhook/deliveries/retry"): seller, ("POST", "/v1/webhook/deliveries/{}/retry"): seller,
                ("DELETE", "/v1/webhook/deliveries"): seller, ("DELETE", "/v1/webhook/deliveries/{}"): seller,
                ("GET", "/v1/blocks"): {"admin"}, ("POST", "/v1/blocks"): {"admin"}, ("DELETE", "/v1/blocks/{}"): {"admin"},
                ("POST", "/v1/sales/{}/tokens"): {"customer"}, ("POST", "/v1/sales/{}/line"): {"customer"}, ("GET", "/v1/sales/{}/line/{}"): {"customer"},
                ("DELETE", "/v1/sales/{}/line/{}"): {"customer"}, ("GET", "/v1/sales/{}/stats"): seller, ("GET", "/v1/sales/{}/live"): seller,
                ("POST", "/v1/events"): seller, ("PATCH", "/v1/events/{}"): seller, ("POST", "/v1/events/{}/subscribe"): {"customer"},
                ("DELETE", "/v1/events/{}/subscribe"): {"customer"}, ("POST", "/v1/orders/{}/demo_payment"): {"customer"}, ("GET", "/v1/limits"): {"admin"}, ("PUT", "/v1/limits"): {"admin"},
                ("GET", "/v1/nodes"): {"admin"}, ("GET", "/v1/log"): {"admin"}, ("GET", "/v1/webhooks"): {"admin"}}
    for method, path, roles in ROUTES:
        assert roles == expected.get((method, plain(path)), {"anyone"}), (method, path, roles)


def test_the_doors_open_what_their_interfaces_open():
    everyone = {"customer", "seller", "admin"}
    expected = {("POST", "/api/users"): {"anyone"}, ("POST", "/api/auth"): {"anyone"}, ("POST", "/api/auth/logout"): everyone,
                ("POST", "/api/users/{}/coupons"): {"seller"}, ("GET", "/api/users/{}/coupons"): everyone, ("PATCH", "/api/users/{}/coupons/{}"): {"customer"},
                ("GET", "/luck/{}"): {"admitted"}, ("POST", "/luck/{}"): {"admitted"}, ("GET", "/luck"): {"admitted"}, ("POST", "/luck"): {"admitted"},
                ("PUT", "/shop/cart/add"): {"customer"}}
    assert {(method, plain(path)): set(roles) for method, path, roles in DOORS} == expected
    assert len(DOORS) == len(expected)


DESCRIPTION = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())
OPERATIONS = {(verb.upper(), plain(path)): operation for path, item in DESCRIPTION["paths"].items() for verb, operation in item.items() if verb != "parameters"}


def resolved(node):
    while "$ref" in node:
        ref, node = node["$ref"], DESCRIPTION
        for part in ref.removeprefix("#/").split("/"):
            node = node[part]
    return node


def members(schema):
    """The names that an object of this schema may have; None where it may have any."""
    schema = resolved(schema)
    names = [set(schema.get("properties", {})), *map(members, schema.get("allOf", []))]
    return None if schema.get("additionalProperties") or None in names else set().union(*names)


def described(method, path, answer):
    """The description lists the status, and every member of the answer."""
    listed = OPERATIONS[(method, plain(path))]["responses"]
    assert str(answer.status) in listed, f"{method} {path}: only {[*listed]} are described: {answer!r}"
    kind = answer.headers.get("content-type", "").split(";")[0]
    content = resolved(listed[str(answer.status)]).get("content", {})
    assert not content or kind in content, f"{method} {path}: {kind} is not described: {answer!r}"
    names = members(content[kind]["schema"]) if kind.endswith("json") and content else None
    assert names is None or set(answer.json()) <= names, f"{method} {path}: only {names} are described: {answer!r}"


class Stage:
    """A sale and an order in it, made for one request, so that no request spoils another."""

    def __init__(self, server):
        self.shop = Shop(server)
        self.customer = mint_name("customer")
        self.sale = self.shop.sale(stock=5, pay_within_s=3600)["id"]
        self.order = self.shop.win(self.sale, self.customer)["no"]
        self.tokens = {"nobody": None, "customer": self.shop.buyer(self.customer), "other customer": server.token(mint_name("customer")),
                       "seller": self.shop.seller_token, "other seller": server.token(mint_name("seller"), "seller"), "admin": self.shop.admin_token}

    def path(self, path):
        if "/blocks/" in path:
            blocked = mint_name("blocked")
            assert self.shop.client.post("/v1/blocks", {"entry": f"user {blocked}"}, self.shop.admin_token).status == 201
            return f"/v1/blocks/user%20{blocked}"
        number = self.order if "/orders/" in path else self.sale
        if "/events/" in path:
            made = self.shop.client.post("/v1/events", {"name": "event", "opens_at": time_text(60)}, self.shop.seller_token)
            assert made.status == 201, made
            number = made.json()["id"]
        return re.sub(r"\{[^}]*\}", number, path)

    def body(self, method, path):
        bodies = {("POST", "/v1/users"): {"username": mint_name("user"), "password": "long enough", "role": "customer"},
                  ("POST", "/v1/login"): {"username": mint_name("nobody"), "password": "long enough"},
                  ("POST", "/v1/sales"): {"name": mint_name("sale"), "stock": 1}, ("PATCH", "/v1/sales/{}"): {"description": "changed"},
                  ("POST", "/v1/sales/{}/stock"): {"add": 3}, ("POST", "/v1/orders/{}/cancel"): {"reason": "a test"},
                  ("POST", "/v1/orders/{}/demo_payment"): {"status": "succeeded"},
                  ("POST", "/v1/payments"): {"order": self.order, "amount": None, "payment_ref": "p", "status": "succeeded"},
                  ("PUT", "/v1/webhook"): {"url": "https://example.com/"},
                  ("POST", "/v1/events"): {"name": "event", "opens_at": time_text(60)}, ("PATCH", "/v1/events/{}"): {"name": "changed"},
                  ("POST", "/v1/blocks"): {"entry": f"user {mint_name('blocked')}"}}
        return bodies.get((method, plain(path)))

    def look(self):
        return {**self.shop.show(self.sale), "now": None}


def expected_statuses(method, path, roles, actor):
    """What may be answered. None as a word for "anything that is neither a refusal nor a failure"."""
    role = actor.split()[-1]
    route = (method, plain(path))
    if "admitted" in roles:  # a sale for those logged in, in which the customer has an order already
        return {"nobody": {401}, "customer": {409}, "other customer": {201}}.get(actor, {403})
    if "signed" in roles:  # whoever asks: a login is no signature
        return {401}
    if route == ("GET", "/assets/{}"):  # no number is one
        return {404}
    if "anyone" in roles:
        return {401} if route == ("POST", "/v1/login") else {200, 201}
    if actor == "nobody":
        return {401}
    if role not in roles:
        return {403}
    if route in (("POST", "/v1/sales/{}/tokens"), ("POST", "/v1/sales/{}/line")):  # the sale has neither
        return {409}
    if "/line/{}" in route[1]:  # nobody has a place in a sale without a line
        return {404}
    if route[1].startswith("/v1/webhook") and route[1] != "/v1/webhooks":  # nobody here has one before they put it
        return {("PUT", "/v1/webhook"): {200}, ("GET", "/v1/webhook/deliveries"): {200}, ("POST", "/v1/webhook/deliveries/retry"): {202},
                ("DELETE", "/v1/webhook/deliveries"): {200}}.get(route, {404})
    if route[1] == "/v1/events/{}/subscribe":  # an event is everyone's to wait for
        return {204}
    if actor.startswith("other") and "{" in path:
        return {404}
    if route == ("POST", "/v1/sales/{}/resume"):
        return {409}
    return {200, 201, 204}


@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.parametrize("method,path,roles", ROUTES, ids=lambda v: v if isinstance(v, str) else "")
def test_a_route_answers_those_it_is_open_to_and_nobody_else(server, method, path, roles, actor):
    stage = Stage(server)
    before = stage.look()
    answer = stage.shop.client.request(method, stage.path(path), stage.body(method, path), stage.tokens[actor])
    described(method, path, answer)
    expected = expected_statuses(method, path, roles, actor)
    assert answer.status in expected, f"{actor}: expected {expected}, got {answer!r}"
    if answer.status >= 400:
        problem(answer, answer.status)
        assert stage.look() == before, "refused, and yet something changed"
        if answer.status == 401 and plain(path) != "/v1/login":
            assert "bearer" in answer.headers.get("www-authenticate", "").lower(), "RFC 9110: a 401 says how to log in"
    if method == "GET" and plain(path) == "/v1/orders" and answer.status == 200:
        numbers = {item["no"] for item in answer.json()["items"]}
        assert (stage.order in numbers) == (actor in ("customer", "seller", "admin")), f"{actor} sees {numbers}"
    stage.shop.close()


@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.parametrize("method,path,roles", DOORS, ids=lambda v: v if isinstance(v, str) else "")
def test_a_door_lets_in_those_it_is_open_to_and_nobody_else(server, method, path, roles, actor):
    stage = Stage(server)
    before = stage.look()
    answer = stage.shop.client.request(method, stage.path(path), None, stage.tokens[actor])
    described(method, path, answer)
    if not roles & {"anyone", "admitted", actor.split()[-1]}:
        assert answer.status in (401, 403), f"{actor}: {answer!r}"
        assert stage.look() == before, "refused, and yet something changed"
    else:
        assert answer.status < 500 and answer.status != 403, f"{actor}: {answer!r}"
    stage.shop.close()


@pytest.mark.parametrize("actor", ["nobody", "customer", "other seller"])
def test_a_closed_route_says_no_before_it_reads_the_body(server, actor):
    """P8: who may not enter does not learn what a good body would be."""
    stage = Stage(server)
    for method, path, body in (("PATCH", f"/v1/sales/{stage.sale}", b"{"), ("POST", f"/v1/sales/{stage.sale}/stock", b"{")):
        answer = stage.shop.client.request(method, path, body, stage.tokens[actor])
        assert answer.status in ({"nobody": (401,), "customer": (403,), "other seller": (404, 400)}[actor]), answer


def nothings(described, *way):
    """Where a word has no value, as the half of a sentence that a comma has parted."""
    if isinstance(described, dict):
        return [one for word, value in described.items() for one in ([(*way, word)] if value is None else nothings(value, *way, word))]
    return [one for nth, value in enumerate(described) for one in nothings(value, *way, nth)] if isinstance(described, list) else []


def openapi_routes(text):
    described = yaml.safe_load(text)
    assert described["openapi"].startswith("3.1") and nothings(described) == []
    verbs = {"get", "post", "patch", "put", "delete"}
    return described, {(verb.upper(), plain(path)) for path, item in described["paths"].items() for verb in item if verb in verbs}


def test_openapi_lists_exactly_these_routes(server):
    with server.connect() as client:
        answer = client.get("/openapi.yaml")
    assert answer.status == 200 and "yaml" in answer.headers["content-type"], answer
    assert answer.body == (ROOT / "docs" / "openapi.yaml").read_bytes(), "the binary serves another description than docs/ has"
    described, found = openapi_routes(answer.body)
    assert found == {(method, plain(path)) for method, path, _ in ALL_ROUTES}
    assert described["info"]["version"] in run("version").out


def test_openapi_resolves_and_knows_every_field(server):
    """Every $ref leads somewhere, and what the server answers is what the description names."""
    with server.connect() as client:
        text = client.get("/openapi.yaml").body
    described, _ = openapi_routes(text)
    refs = set(re.findall(r"\$ref:\s*['\"]?#/([^'\"\s}]+)", text.decode()))
    for ref in refs:
        node = described
        for part in ref.split("/"):
            assert part in node, f"#/{ref} leads nowhere"
            node = node[part]
    schemas = described["components"]["schemas"]
    stage = Stage(server)
    sale, order = stage.shop.show(stage.sale), stage.shop.order(stage.order).json()
    assert any(set(schema.get("properties", {})) == set(sale) for schema in schemas.values()), "no schema has the fields of a sale"
    assert any(set(schema.get("properties", {})) == set(order) for schema in schemas.values()), "no schema has the fields of an order"
    stage.shop.close()


@pytest.mark.parametrize("method,path,roles", ALL_ROUTES, ids=lambda v: v if isinstance(v, str) else "")
def test_what_is_answered_to_bad_bodies_and_to_the_blocked_is_described(server, method, path, roles):
    stage = Stage(server)
    banned = mint_name("banned")
    assert stage.shop.client.post("/v1/blocks", {"entry": f"user {banned}"}, stage.shop.admin_token).status == 201
    token = next((stage.tokens[role] for role in ("customer", "seller", "admin") if role in roles), None)
    bodies = [({"no_such_field": 1}, {}), (b"{}", {"Content-Type": "text/plain"}), (b"{", {})]
    if method != "GET":
        bodies.append((b"[" * 65537, {}))
    for body, headers in bodies:
        described(method, path, stage.shop.client.request(method, stage.path(path), body, token, headers=headers))
    for role in ("customer", "seller", "admin"):
        described(method, path, stage.shop.client.request(method, stage.path(path), None, server.token(banned, role)))
    stage.shop.close()


def test_what_sales_and_payments_object_to_is_described(server):
    """A status that was not listed, and an order that no schema had."""
    stage = Stage(server)
    answer = stage.shop.client.post("/v1/sales", {"name": mint_name("sale"), "stock": 1, "event": "999999"}, stage.shop.seller_token)
    problem(answer, 404, "NO_SUCH_EVENT")
    described("POST", "/v1/sales", answer)
    order, provider = stage.shop.order(stage.order).json(), Provider(server)
    answer = provider.tell(stage.shop.client, order, amount=1)
    assert problem(answer, 409, "AMOUNT_MISMATCH")["order"] == order
    described("POST", "/v1/payments", answer)
    provider.paid(stage.shop.client, order)
    for path, answer in (("/v1/payments", provider.tell(stage.shop.client, order, ref="another")), ("/v1/orders/{order}/demo_payment", stage.shop.client.post(
            f"/v1/orders/{stage.order}/demo_payment", {"status": "succeeded"}, stage.tokens["customer"]))):
        assert problem(answer, 409, "ALREADY_PAID")["order"]["no"] == stage.order
        described("POST", path, answer)
    stage.shop.close()


def test_nobody_becomes_the_seller_of_the_sales_of_an_account_that_is_gone(own_server, tmp_path):
    path = tmp_path / "accounts"
    path.write_text("shop a-long-password-of-shop\nother a-long-password-of-other\n")
    path.chmod(0o600)
    server = own_server("--resp-accounts", path)

    def register(name):
        with server.connect() as client:
            return client.post("/v1/users", {"username": name, "password": "correct horse", "role": "seller"})

    with Peer(server) as shop:
        assert shop.ask("AUTH", "shop", "a-long-password-of-shop") == "OK"
        shop.ask("SALE.CREATE", mint_name("a"), 5)
    path.write_text("third a-long-password-of-third\n")
    server.restart()
    problem(register("shop"), 409, "USERNAME_TAKEN")
    problem(register("default"), 409, "USERNAME_TAKEN")
    problem(register("other"), 409, "USERNAME_TAKEN")
    assert register("fourth").status == 201
