"""Bad input: a clear 4xx that names the field, and nothing changed (P1, P9)."""

import json

import pytest
from harness import mint_name, problem

# The table of promises.md as it stands in JSON. What is a number in JSON has its value; what is none has None.
NUMBERS = {"-1": -1, "0": 0, "2147483647": 2 ** 31 - 1, "2147483649": 2 ** 31 + 1, "2147483648": 2 ** 31, "4294967295": 2 ** 32 - 1,
           "4294967296": 2 ** 32, "4294967297": 2 ** 32 + 1, "9223372036854775807": 2 ** 63 - 1, "9223372036854775808": 2 ** 63,
           "9223372036854775809": 2 ** 63 + 1, "18446744073709551616": 2 ** 64, "18446744073709551617": 2 ** 64 + 1,
           "99999999999999999999": 10 ** 20 - 1, "-9223372036854775808": -2 ** 63, "-9223372036854775809": -2 ** 63 - 1,
           "+5": None, "0x5": None, "": None, "05": None, "5.0": None, "5.5": None, "1e1": None, "1E400": None, "-": None, ".5": None, "NaN": None,
           "Infinity": None, "'5'": None, '"5"': None, '""': None, "true": None, "[5]": None, "{}": None, "5 5": None}

# Inside these bounds a value is good. units and add meet limits of the sale instead, which are verdicts of their own.
BOUNDS = {"tokens_max": (1, 10 ** 9), "admit_max": (1, 10 ** 9), "stock": (0, 10 ** 9), "price": (0, 10 ** 12), "units_per_grab_max": (1, 10 ** 9), "grabs_per_buyer_max": (1, 10 ** 6),
          "pay_within_s": (1, 31536000)}


def is_json(text):
    """Whether a text is a JSON value that a reader can hold: only then can the problem name the field."""
    try:
        value = json.loads(text, parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return False
    return value != float("inf") and "\0" not in str(value)


def refused(answer, text, field):
    problem(answer, 400, "BAD_INPUT", field if is_json(text) else None)


def sale_list(shop):
    return shop.listed(f"/v1/sales?seller={shop.seller}")


@pytest.mark.parametrize("text", NUMBERS, ids=repr)
@pytest.mark.parametrize("field", BOUNDS)
def test_every_number_against_every_field_of_a_new_sale(shop, field, text):
    value, (low, high) = NUMBERS[text], BOUNDS[field]
    base = {"stock": "1", "price": "1", "currency": '"EUR"'}
    base[field] = text
    name = mint_name("sale")
    body = f'{{"name":"{name}",' + ",".join(f'"{key}":{item}' for key, item in base.items()) + "}"
    answer = shop.client.post("/v1/sales", body.encode(), shop.seller_token)
    if value is not None and low <= value <= high and not (field == "stock" and value == 0):
        assert answer.status == 201, answer
        assert answer.json()["offered" if field == "stock" else field] == value
        assert [item["name"] for item in sale_list(shop)] == [name]
    elif field == "stock" and value == 0 and answer.status == 201:
        assert answer.json()["state"] == "sold_out", "nothing to sell, yet not sold out"
    else:
        refused(answer, text, field)
        assert sale_list(shop) == []


@pytest.mark.parametrize("text", NUMBERS, ids=repr)
def test_every_number_as_units_of_a_grab(shop, text):
    """api.md: 0, negative, fractional and beyond 32 bits are BAD_INPUT; what fits 32 bits meets the limit of the sale."""
    sale = shop.sale(stock=10)["id"]
    answer = shop.client.post(f"/v1/sales/{sale}/grabs", f'{{"units":{text}}}'.encode(), shop.buyer("ann"))
    value = NUMBERS[text]
    if value is not None and 1 <= value <= 2 ** 32 - 1:
        problem(answer, 409, "OVER_LIMIT")
    else:
        refused(answer, text, "units")
    assert shop.counts(sale) == (10, 10, 0, 0)
    assert shop.listed("/v1/orders", shop.seller_token) == []


@pytest.mark.parametrize("text", NUMBERS, ids=repr)
def test_every_number_as_an_addition_of_stock(shop, text):
    """P1: an addition beyond what fits is refused as input or as not available; it never wraps."""
    sale = shop.sale(stock=10)["id"]
    answer = shop.act(sale, "stock", f'{{"add":{text}}}'.encode())
    value = NUMBERS[text]
    if value == -1:
        assert answer.status == 200, answer
        assert shop.counts(sale) == (9, 9, 0, 0)
        return
    if value is not None and abs(value) < 2 ** 63 and value != 0:
        assert (answer.status, answer.code) in ((409, "NOT_AVAILABLE"), (400, "BAD_INPUT")), answer
    elif value == 0:
        assert answer.status in (200, 400), answer
    else:
        refused(answer, text, "add")
    assert shop.counts(sale) == (10, 10, 0, 0)


@pytest.mark.parametrize("text", NUMBERS, ids=repr)
@pytest.mark.parametrize("field", [name for name in BOUNDS if name != "stock"])
def test_every_number_against_every_field_of_a_change(shop, field, text):
    sale = shop.sale(opens_at="2100-01-01T00:00:00Z", price=1, currency="EUR")["id"]
    before = shop.show(sale)
    answer = shop.client.patch(f"/v1/sales/{sale}", f'{{"{field}":{text}}}'.encode(), shop.seller_token)
    value, (low, high) = NUMBERS[text], BOUNDS[field]
    after = shop.show(sale)
    if value is not None and low <= value <= high:
        assert answer.status == 200 and after[field] == value, answer
    else:
        refused(answer, text, field)
        assert {**after, "now": 0} == {**before, "now": 0}


def test_a_price_whose_amount_no_reader_could_hold_is_refused(shop):
    """price × units_per_grab_max stays exact in every JSON reader, or the sale is refused."""
    answer = shop.client.post("/v1/sales", {"name": mint_name("sale"), "stock": 10 ** 9, "price": 10 ** 12, "currency": "EUR", "units_per_grab_max": 10 ** 9},
                              shop.seller_token)
    problem(answer, 400, "BAD_INPUT")
    assert sale_list(shop) == []


WRONG_TYPES = [("name", 5), ("name", None), ("name", ["x"]), ("name", {}), ("name", True), ("stock", None), ("description", 5), ("description", []),
               ("currency", 5), ("currency", []), ("opens_at", 1700000000), ("opens_at", []), ("closes_at", 1700000000), ("closes_at", {}),
               ("admission", 1), ("admission", []), ("admission", True), ("late_payment", 1), ("late_payment", None), ("late_payment", True),
               ("line", 1), ("line", []), ("line", True), ("line", {}), ("line", {"rate_per_s": 1}),
               ("line", {"rate_per_s": 1, "size": 1, "timeout_ms": 1, "name": "x"}), ("line", {"rate_per_s": "1", "size": 1, "timeout_ms": 1}),
               ("line", {"rate_per_s": 1, "size": None, "timeout_ms": 1}), ("line", {"rate_per_s": 1, "size": 1.5, "timeout_ms": 1})]


@pytest.mark.parametrize("field,value", WRONG_TYPES, ids=str)
def test_a_wrong_type_names_its_field(shop, field, value):
    body = {"name": mint_name("sale"), "stock": 1, field: value}
    problem(shop.client.post("/v1/sales", body, shop.seller_token), 400, "BAD_INPUT", field)
    assert sale_list(shop) == []


BAD_VALUES = [("name", ""), ("name", "n" * 129), ("name", "é" * 65), ("name", "nul\0"), ("name", "line\nbreak"), ("name", "\x1b[2J"), ("description", "d" * 2001),
              ("description", "nul\0"), ("description", "\x07"), ("currency", ""), ("currency", "EU"), ("currency", "EURO"), ("currency", "E\0R"),
              ("admission", "tokens"), ("admission", "line"), ("admission", "Open"), ("line", ""), ("line", "l" * 33), ("line", "two words"), ("line", "dot.ted"), ("line", "é"),
              ("line", {"rate_per_s": 0, "size": 1, "timeout_ms": 1}), ("line", {"rate_per_s": 1, "size": -1, "timeout_ms": 1}),
              ("line", {"rate_per_s": 1, "size": 1, "timeout_ms": 2 ** 64}), ("line", {"rate_per_s": 10 ** 7, "size": 1, "timeout_ms": 1}),
              ("admission", ""), ("late_payment", ""), ("late_payment", "Retake"), ("late_payment", "keep"), ("opens_at", ""), ("opens_at", "now"), ("opens_at", "2030-01-01"),
              ("opens_at", "2030-01-01T00:00:00"), ("opens_at", "2030-13-01T00:00:00Z"), ("opens_at", "2030-02-30T00:00:00Z"), ("opens_at", "2029-02-29T00:00:00Z"),
              ("opens_at", "2030-01-01T24:00:00Z"), ("opens_at", "2030-01-01T00:60:00Z"), ("opens_at", "2030-01-01T00:00:00.Z"),
              ("opens_at", "2030-01-01T00:00:00+25:00"), ("opens_at", "2030-01-01T00:00:00Z "), ("opens_at", " 2030-01-01T00:00:00Z"),
              ("opens_at", "1969-12-31T23:59:59Z"), ("opens_at", "99999-01-01T00:00:00Z"), ("opens_at", "-2030-01-01T00:00:00Z"),
              ("opens_at", "9999-12-31T23:59:59-10:00"), ("closes_at", "2030-00-00T00:00:00Z"), ("closes_at", "x" * 5000)]


@pytest.mark.parametrize("field,value", BAD_VALUES, ids=lambda v: ascii(v)[:40])
def test_a_value_that_may_not_be_names_its_field(shop, field, value):
    body = {"name": mint_name("sale"), "stock": 1, field: value}
    named = field if is_json(json.dumps(value)) else None
    problem(shop.client.post("/v1/sales", body, shop.seller_token), 400, "BAD_INPUT", named)
    assert sale_list(shop) == []
    sale = shop.sale(opens_at="2100-01-01T00:00:00Z")
    problem(shop.change(sale["id"], **{field: value}), 400, "BAD_INPUT", named)
    assert {**shop.show(sale["id"]), "now": 0} == {**sale, "now": 0}


@pytest.mark.parametrize("opens,closes", [("2030-01-01T00:00:00Z", "2029-01-01T00:00:00Z"), ("2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z"),
                                          (None, "2001-01-01T00:00:00Z")], ids=["before", "equal", "past"])
def test_a_sale_that_closes_before_it_opens_is_refused(shop, opens, closes):
    body = {"name": mint_name("sale"), "stock": 1, "closes_at": closes}
    if opens:
        body["opens_at"] = opens
    problem(shop.client.post("/v1/sales", body, shop.seller_token), 400, "BAD_INPUT", "closes_at")
    assert sale_list(shop) == []


@pytest.mark.parametrize("field", ["x", "Name", "stock ", "id", "seller", "lines", "token_max", "tokens_given", "late_payment", "", "__proto__", "name\0"])
def test_an_unknown_field_is_an_error(shop, field):
    problem(shop.client.post("/v1/sales", {"name": mint_name("sale"), "stock": 1, field: 1}, shop.seller_token), 400, "BAD_INPUT",
            field if is_json(json.dumps(field)) and field else None)
    assert sale_list(shop) == []


def test_an_unknown_field_of_a_grab_is_an_error(shop):
    sale = shop.sale()["id"]
    problem(shop.client.post(f"/v1/sales/{sale}/grabs", {"units": 1, "quantity": 1}, shop.buyer("ann")), 400, "BAD_INPUT", "quantity")
    problem(shop.act(sale, "stock", {"add": 1, "sub": 1}), 400, "BAD_INPUT", "sub")
    assert shop.counts(sale) == (10, 10, 0, 0)


MALFORMED = {"nothing closed": b'{"name":"x","stock":1', "trailing comma": b'{"name":"x","stock":1,}', "two values": b'{"name":"x","stock":1}{}',
             "rubbish after": b'{"name":"x","stock":1} x', "single quotes": b"{'name':'x','stock':1}", "comment": b'{"name":"x",/*c*/"stock":1}',
             "a list": b'[{"name":"x","stock":1}]', "a text": b'"x"', "a number": b"5", "null": b"null", "only spaces": b"   ", "NUL after": b'{"name":"x","stock":1}\0',
             "NUL before": b'\0{"name":"x","stock":1}', "byte order mark": b'\xef\xbb\xbf{"name":"x","stock":1}', "UTF-16": '{"name":"x","stock":1}'.encode("utf-16"),
             "duplicate": b'{"name":"x","stock":1,"stock":2}', "duplicate escaped": b'{"name":"x","stock":1,"\\u0073tock":2}',
             "overlong": b'{"name":"\xc0\xaf","stock":1}', "surrogate bytes": b'{"name":"\xed\xa0\x80","stock":1}', "lone surrogate": b'{"name":"\\ud800","stock":1}',
             "invalid UTF-8": b'{"name":"\xff","stock":1}', "cut UTF-8": b'{"name":"\xe4\xb8","stock":1}', "beyond Unicode": b'{"name":"\xf5\x80\x80\x80","stock":1}',
             "raw newline": b'{"name":"a\nb","stock":1}', "bad escape": b'{"name":"\\x41","stock":1}', "deep": b'{"name":' + b"[" * 20000 + b"]" * 20000 + b"}",
             "deep objects": b'{"a":' * 8000 + b"1" + b"}" * 8000, "colons": b'{"name"::"x"}', "no key": b'{:"x"}', "form": b"name=x&stock=1"}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_body_that_is_not_an_object_of_json_is_refused(shop, name):
    problem(shop.client.post("/v1/sales", MALFORMED[name], shop.seller_token), 400, "BAD_INPUT")
    assert sale_list(shop) == []
    assert shop.client.get("/healthz").status == 200


@pytest.mark.parametrize("name", ["duplicate", "invalid UTF-8", "lone surrogate", "two values"])
def test_the_same_is_so_for_every_route_with_a_body(shop, name):
    bodies = {"duplicate": b'{"units":1,"units":2,"add":1,"add":2,"username":"a","username":"b"}', "invalid UTF-8": b'{"\xff":1}', "lone surrogate": b'{"\\udfff":1}',
              "two values": b"{} {}"}
    sale = shop.sale()["id"]
    for method, path, token in (("POST", f"/v1/sales/{sale}/grabs", shop.buyer("ann")), ("POST", f"/v1/sales/{sale}/stock", shop.seller_token),
                                ("PATCH", f"/v1/sales/{sale}", shop.seller_token), ("POST", "/v1/users", None), ("POST", "/v1/login", None),
                                ("POST", f"/v1/sales/{sale}/pause", shop.seller_token)):
        problem(shop.client.request(method, path, bodies[name], token), 400, "BAD_INPUT")
    assert shop.counts(sale) == (10, 10, 0, 0) and shop.show(sale)["state"] == "open"


@pytest.mark.parametrize("missing", ["name", "stock"])
def test_a_missing_field_is_named(shop, missing):
    body = {"name": mint_name("sale"), "stock": 1}
    del body[missing]
    problem(shop.client.post("/v1/sales", body, shop.seller_token), 400, "BAD_INPUT", missing)
    problem(shop.client.post("/v1/sales", None, shop.seller_token), 400, "BAD_INPUT")
    assert sale_list(shop) == []


def test_an_addition_without_a_number_is_refused(shop):
    sale = shop.sale()["id"]
    for body in (None, {}, {"add": None}):
        problem(shop.act(sale, "stock", body), 400, "BAD_INPUT", "add")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "multipart/form-data; boundary=x", "json", "application/jsonx",
                                  "text/json", ""])
def test_a_body_of_another_media_type_is_415(shop, kind):
    answer = shop.client.post("/v1/sales", json.dumps({"name": mint_name("sale"), "stock": 1}).encode(), shop.seller_token, headers={"Content-Type": kind})
    problem(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
    assert sale_list(shop) == []


def test_a_body_without_a_media_type_is_415_or_taken_as_json(shop):
    answer = shop.client.post("/v1/sales", b"not json", shop.seller_token, headers={"Content-Type": None})
    problem(answer, (400, 415))
    assert sale_list(shop) == []


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/json;charset=\"utf-8\""])
def test_json_is_taken_however_its_type_is_spelled(shop, kind):
    answer = shop.client.post("/v1/sales", json.dumps({"name": mint_name("sale"), "stock": 1}).encode(), shop.seller_token, headers={"Content-Type": kind})
    assert answer.status == 201, answer


@pytest.mark.parametrize("method,path,allowed", [("DELETE", "/v1/sales", {"GET", "POST"}), ("PUT", "/v1/sales/1", {"GET", "PATCH"}), ("GET", "/v1/login", {"POST"}),
                                                 ("GET", "/v1/sales/1/grabs", {"POST"}), ("POST", "/v1/orders", {"GET"}), ("DELETE", "/v1/orders/1", {"GET"}),
                                                 ("POST", "/healthz", {"GET"}), ("GET", "/v1/users", {"POST"}), ("PATCH", "/v1/sales/1/pause", {"POST"})])
def test_a_wrong_method_is_405_and_says_which_are_right(shop, method, path, allowed):
    answer = shop.client.request(method, path, None, shop.admin_token)
    problem(answer, 405, "METHOD_NOT_ALLOWED")
    said = {word.strip() for word in answer.headers["allow"].split(",")}
    assert allowed <= said <= allowed | {"HEAD", "OPTIONS"}, said


@pytest.mark.parametrize("path", ["/x", "/v1", "/v1/", "/v2/sales", "/v1/sale", "/v1/sales/", "/v1/sales//", "//v1/sales", "/v1//sales", "/V1/sales", "/v1/sales/1/", "/v1/sales/1/grab",
                                  "/v1/sales/1/grabs/", "/v1/sales/../sales", "/v1/./sales", "/v1/%73ales", "/v1/sales/1/2/3", "/healthz/", "/healthz%00", "/etc/passwd",
                                  "/../../etc/passwd", "/v1/orders/1/cancel/", "/v1/payments/1", "/v1/sales/1/tokens/1", "/v1/sales;x", "/" + "a" * 3000])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_route_is_404(shop, method, path):
    answer = shop.client.request(method, path, None, shop.admin_token)
    body = problem(answer, (404, 414))
    assert len(answer.body) < 4000
    assert body["code"] in ("NO_SUCH_ROUTE", "URI_TOO_LONG", "NO_SUCH_SALE", "NO_SUCH_ORDER")


@pytest.mark.parametrize("method", ["get", "FOO", "BREW", "PROPFIND", "TRACE", "OPTIONS", "CONNECT", "PRI"])
def test_a_method_nobody_knows_is_refused(shop, method):
    """P8: no strange word reaches a handler."""
    with shop.server.connect() as client:
        client.send(f"{method} /v1/sales HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        assert client.receive().status in (400, 404, 405, 501)


def test_problems_never_echo_what_could_hurt(shop):
    """A problem that quotes a field's name writes it as JSON, not as it came."""
    answer = shop.client.post("/v1/sales", b'{"name":"x","stock":1,"\\"<script>\\u0001\\n":1}', shop.seller_token)
    problem(answer, 400, "BAD_INPUT")
    assert b"\x01" not in answer.body and answer.headers.get("x-content-type-options", "nosniff") == "nosniff"
