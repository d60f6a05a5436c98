"""Sales: made, shown, changed, stocked, paused, resumed, closed (P1, P3, P8)."""

import re
import time

import pytest
from harness import Shop, eventually, mint_name, problem, request_bytes, time_text, unhurried

FIELDS = {"id", "seller", "name", "description", "price", "currency", "state", "offered", "available", "held", "sold", "units_per_grab_max",
          "grabs_per_buyer_max", "opens_at", "closes_at", "pay_within_s", "late_payment", "admission", "tokens_max", "admit_max", "line", "event", "now"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def without_now(sale):
    return {name: value for name, value in sale.items() if name != "now"}


def test_a_sale_of_defaults_is_what_api_says(shop):
    before = time_text(-1)
    name = mint_name("sale")
    answer = shop.client.post("/v1/sales", {"name": name, "stock": 7}, shop.seller_token)
    assert answer.status == 201, answer
    assert answer.headers["content-type"].startswith("application/json")
    sale = answer.json()
    assert set(sale) == FIELDS
    assert isinstance(sale["id"], str) and sale["id"]
    expected = {"seller": shop.seller, "name": name, "price": None, "currency": None, "state": "open", "offered": 7, "available": 7,
                "held": 0, "sold": 0, "units_per_grab_max": 1, "grabs_per_buyer_max": 1, "closes_at": None, "pay_within_s": None, "late_payment": "retake", "event": None,
                "admission": "login", "tokens_max": None, "admit_max": None, "line": None}
    assert {field: sale[field] for field in expected} == expected
    assert sale["description"] in (None, "")
    assert TIME.fullmatch(sale["opens_at"]) and TIME.fullmatch(sale["now"])
    assert before <= sale["opens_at"] <= sale["now"] <= time_text(1)
    assert without_now(shop.show(sale["id"])) == without_now(sale)


def test_a_sale_keeps_everything_it_was_given(shop):
    given = {"name": mint_name("卖 \"品\""), "description": "two\nlines\tand \\ 😀 </script>", "price": 1999, "currency": "EUR",
             "units_per_grab_max": 4, "grabs_per_buyer_max": 3, "opens_at": "2001-02-03T04:05:06.789Z", "closes_at": "2999-12-31T23:59:59.999Z",
             "pay_within_s": 900, "late_payment": "refund", "admission": "line", "tokens_max": 77, "admit_max": 88, "line": {"rate_per_s": 5, "size": 6, "timeout_ms": 7}}
    sale = shop.sale(stock=12, **given)
    assert {field: sale[field] for field in given} == given
    assert without_now(shop.show(sale["id"])) == without_now(sale)


@pytest.mark.parametrize("given,meant", [("2030-01-01T00:00:00Z", "2030-01-01T00:00:00.000Z"), ("2030-01-01T02:30:00+02:30", "2030-01-01T00:00:00.000Z"),
                                         ("2029-12-31T20:00:00.5-04:00", "2030-01-01T00:00:00.500Z"),
                                         ("2028-02-29T12:00:00.123456789Z", "2028-02-29T12:00:00.123Z")])
def test_times_of_any_offset_are_shown_in_utc(shop, given, meant):
    sale = shop.sale(opens_at=given)
    assert (sale["opens_at"], sale["state"]) == (meant, "upcoming")


@pytest.mark.parametrize("field,value", [("name", "n"), ("name", "é" * 64), ("stock", 1), ("stock", 10 ** 9), ("description", ""), ("description", "d" * 2000),
                                         ("price", 0), ("price", 10 ** 12), ("units_per_grab_max", 1), ("grabs_per_buyer_max", 10 ** 6),
                                         ("pay_within_s", 1), ("pay_within_s", 31536000), ("currency", "JPY"), ("late_payment", "retake"), ("late_payment", "refund")], ids=lambda v: str(v)[:12])
def test_values_at_the_bounds_are_taken(shop, field, value):
    body = {"name": mint_name("sale"), "stock": 1, field: value}
    answer = shop.client.post("/v1/sales", body, shop.seller_token)
    assert answer.status == 201, answer
    assert answer.json()["offered" if field == "stock" else field] == value


def test_a_name_is_taken_once_per_seller_also_after_the_close(shop, server):
    """A name belongs to its seller's sale for good; another seller may use it."""
    name = mint_name("sale")
    first = shop.sale(name=name)
    problem(shop.client.post("/v1/sales", {"name": name, "stock": 1}, shop.seller_token), 409, "NAME_TAKEN")
    assert shop.act(first["id"], "close").status == 200
    problem(shop.client.post("/v1/sales", {"name": name, "stock": 1}, shop.seller_token), 409, "NAME_TAKEN")
    other = shop.client.post("/v1/sales", {"name": name, "stock": 1}, server.token(mint_name("seller"), "seller"))
    assert other.status == 201 and other.json()["id"] != first["id"]
    assert shop.sale(name=name.upper())["name"] == name.upper()


def test_one_seller_cannot_take_the_places_of_all(own_server):
    server = own_server("--sales-per-seller-max", 3)
    greedy, other = Shop(server), Shop(server)
    sales = [greedy.sale(opens_at=time_text(3600))["id"], greedy.sale()["id"], greedy.sale()["id"]]
    body = {"name": mint_name("sale"), "stock": 1}
    refused = greedy.client.post("/v1/sales", body, greedy.seller_token)
    assert "close one" in problem(refused, 409, "TOO_MANY_SALES")["detail"]
    other.sale()
    for _ in range(3):
        assert other.client.post("/v1/sales", {"name": mint_name("sale"), "stock": 1}, other.admin_token).status == 201
    problem(other.client.post("/v1/sales", body, other.admin_token), 409, "TOO_MANY_SALES")
    greedy.close()
    server.restart(kill=True)
    problem(greedy.client.post("/v1/sales", body, greedy.seller_token), 409, "TOO_MANY_SALES")
    assert greedy.act(sales[0], "close").status == 200
    assert greedy.client.post("/v1/sales", body, greedy.seller_token).status == 201
    greedy.win(sales[1], "ann")
    greedy.close()
    other.close()


def test_an_admin_may_sell(shop):
    answer = shop.client.post("/v1/sales", {"name": mint_name("sale"), "stock": 1}, shop.admin_token)
    assert answer.status == 201, answer


@pytest.mark.parametrize("path", ["0", "999999", "18446744073709551615", "18446744073709551616", "99999999999999999999", "-1", "+1", "01", "1.0",
                                  "abc", "%31", "0x1", " 1".replace(" ", "%20"), "1%00"])
def test_a_sale_that_is_not_there_is_404(shop, path):
    problem(shop.client.get(f"/v1/sales/{path}"), 404)
    for verb in ("pause", "resume", "close"):
        problem(shop.client.post(f"/v1/sales/{path}/{verb}", None, shop.seller_token), 404)
    problem(shop.client.post(f"/v1/sales/{path}/stock", {"add": 1}, shop.seller_token), 404)
    problem(shop.client.patch(f"/v1/sales/{path}", {"name": "x"}, shop.seller_token), 404)
    problem(shop.client.post(f"/v1/sales/{path}/grabs", None, shop.buyer("ann")), 404)


def test_no_such_sale_has_its_own_code(shop):
    problem(shop.client.get("/v1/sales/123456789"), 404, "NO_SUCH_SALE")
    problem(shop.client.post("/v1/sales/123456789/pause", None, shop.seller_token), 404, "NO_SUCH_SALE")
    problem(shop.grab("123456789", "ann"), 404, "NO_SUCH_SALE")


# What a sale's tag and its time say.

def test_the_etag_is_weak_and_ignores_now(shop):
    sale = shop.sale()["id"]
    first = shop.client.get(f"/v1/sales/{sale}")
    tag = first.headers["etag"]
    assert tag.startswith('W/"') and tag.endswith('"')
    time.sleep(0.02)
    second = shop.client.get(f"/v1/sales/{sale}")
    assert second.headers["etag"] == tag
    assert second.json()["now"] > first.json()["now"], "now stands still"


@pytest.mark.parametrize("shape", ["{}", "*", '"other", {}', "{}, W/\"other\"", "{strong}"])
def test_if_none_match_gets_304_without_a_body(shop, shape):
    sale = shop.sale()["id"]
    tag = shop.client.get(f"/v1/sales/{sale}").headers["etag"]
    answer = shop.client.get(f"/v1/sales/{sale}", headers={"If-None-Match": shape.format(tag, strong=tag[2:])})
    assert answer.status == 304 and answer.body == b"", answer
    assert answer.headers.get("etag") == tag
    assert shop.client.get("/healthz").status == 200, "the connection is out of step after a 304"


@pytest.mark.parametrize("change", ["grab", "stock", "pause", "close", "name", "description"])
def test_every_change_changes_the_etag(shop, change):
    sale = shop.sale()["id"]
    tag = shop.client.get(f"/v1/sales/{sale}").headers["etag"]
    if change == "grab":
        shop.win(sale, "ann")
    elif change == "stock":
        assert shop.act(sale, "stock", {"add": 1}).status == 200
    elif change in ("pause", "close"):
        assert shop.act(sale, change).status == 200
    else:
        assert shop.change(sale, **{change: mint_name("new")}).status == 200
    answer = shop.client.get(f"/v1/sales/{sale}", headers={"If-None-Match": tag})
    assert answer.status == 200 and answer.headers["etag"] != tag, answer


def test_the_etag_changes_when_time_opens_the_sale(shop):
    def seen_before(opens_in_s):
        sale = shop.sale(opens_at=time_text(opens_in_s))["id"]
        answer = shop.client.get(f"/v1/sales/{sale}")
        assert answer.json()["state"] == "upcoming", answer
        return sale, answer.headers["etag"]
    sale, tag = unhurried(seen_before, 0.5, 5, 25)
    answer = eventually(lambda: (got := shop.client.get(f"/v1/sales/{sale}", headers={"If-None-Match": tag})).status == 200 and got)
    assert answer.json()["state"] == "open", answer


def test_now_is_in_every_answer_about_a_sale(shop):
    sale = shop.sale()["id"]
    answers = [shop.client.get(f"/v1/sales/{sale}"), shop.change(sale, description="d"), shop.act(sale, "stock", {"add": 1}), shop.act(sale, "pause"),
               shop.act(sale, "resume"), shop.act(sale, "close")]
    times = [answer.json()["now"] for answer in answers]
    assert all(TIME.fullmatch(text) for text in times)
    assert times == sorted(times), "P12: time went back"
    for item in shop.client.get(f"/v1/sales?seller={shop.seller}").json()["items"]:
        assert TIME.fullmatch(item["now"])


# Changes.

def test_an_upcoming_sale_may_change_wholly(shop):
    sale = shop.sale(opens_at="2100-01-01T00:00:00Z", price=5, currency="EUR")["id"]
    fields = {"name": mint_name("new"), "description": "new", "price": 7, "currency": "USD", "units_per_grab_max": 3, "grabs_per_buyer_max": 2,
              "opens_at": "2101-01-01T00:00:00.000Z", "closes_at": "2102-01-01T00:00:00.000Z", "pay_within_s": 60, "late_payment": "refund", "admission": "token",
              "tokens_max": 5, "admit_max": 6, "line": {"rate_per_s": 9, "size": 8, "timeout_ms": 7}}
    answer = shop.change(sale, **fields)
    assert answer.status == 200, answer
    assert {name: answer.json()[name] for name in fields} == fields
    assert without_now(shop.show(sale)) == without_now(answer.json())


@pytest.mark.parametrize("field,value", [("price", 6), ("currency", "USD"), ("units_per_grab_max", 2), ("grabs_per_buyer_max", 2), ("opens_at", "2000-01-01T00:00:00Z"),
                                         ("opens_at", "2050-01-01T00:00:00Z"), ("admission", "open"), ("admission", "token"), ("closes_at", "2090-01-01T00:00:00Z"),
                                         ("tokens_max", 5), ("admit_max", 5), ("late_payment", "refund")])
def test_an_open_sale_keeps_what_buyers_rely_on(shop, field, value):
    sale = shop.sale(price=5, currency="EUR", closes_at="2099-01-01T00:00:00Z")
    problem(shop.change(sale["id"], **{field: value}), 409, "SALE_OPEN")
    assert without_now(shop.show(sale["id"])) == without_now(sale)


def test_an_open_sale_may_change_what_harms_nobody(shop):
    sale = shop.sale(price=5, currency="EUR", closes_at="2099-01-01T00:00:00Z")["id"]
    fields = {"name": mint_name("new"), "description": "new", "closes_at": "2099-01-02T00:00:00.000Z", "pay_within_s": 60,
              "line": {"rate_per_s": 1, "size": 2, "timeout_ms": 3}}
    answer = shop.change(sale, **fields)
    assert answer.status == 200, answer
    assert {name: answer.json()[name] for name in fields} == fields


def test_one_forbidden_field_spoils_the_whole_change(shop):
    sale = shop.sale(price=5, currency="EUR")
    problem(shop.change(sale["id"], description="new", price=6), 409, "SALE_OPEN")
    assert without_now(shop.show(sale["id"])) == without_now(sale)


def test_stock_is_no_field_of_a_change(shop):
    sale = shop.sale(opens_at="2100-01-01T00:00:00Z")["id"]
    problem(shop.change(sale, stock=5), 400, "BAD_INPUT", "stock")
    for field in ("id", "seller", "state", "offered", "available", "now"):
        problem(shop.change(sale, **{field: "1"}), 400, "BAD_INPUT", field)


def test_an_empty_change_changes_nothing(shop):
    sale = shop.sale()
    answer = shop.change(sale["id"])
    assert answer.status == 200 and without_now(answer.json()) == without_now(sale)


def test_a_closed_sale_changes_no_more(shop):
    sale = shop.sale()["id"]
    closed = shop.act(sale, "close").json()
    for answer in (shop.change(sale, description="new"), shop.act(sale, "stock", {"add": 1}), shop.act(sale, "pause"), shop.act(sale, "resume"),
                   shop.act(sale, "close")):
        problem(answer, 409, "CLOSED")
    assert without_now(shop.show(sale)) == without_now(closed)


def test_a_sale_past_its_time_is_closed_without_anyone_closing_it(shop):
    sale = shop.sale(opens_at="2001-01-01T00:00:00Z", closes_at=time_text(0.4))["id"]
    eventually(lambda: shop.show(sale)["state"] == "closed")
    problem(shop.grab(sale, "ann"), 409, "CLOSED")
    problem(shop.change(sale, closes_at="2100-01-01T00:00:00Z"), 409, "CLOSED")


def test_a_name_may_be_kept_but_not_taken_from_another_sale(shop):
    first, second = shop.sale(), shop.sale()
    assert shop.change(first["id"], name=first["name"]).status == 200
    problem(shop.change(first["id"], name=second["name"]), 409, "NAME_TAKEN")
    assert shop.show(first["id"])["name"] == first["name"]
    fresh = mint_name("sale")
    assert shop.change(first["id"], name=fresh).status == 200
    problem(shop.client.post("/v1/sales", {"name": fresh, "stock": 1}, shop.seller_token), 409, "NAME_TAKEN")


def test_a_change_cannot_turn_time_around(shop):
    sale = shop.sale(opens_at="2100-01-01T00:00:00Z", closes_at="2101-01-01T00:00:00Z")
    problem(shop.change(sale["id"], opens_at="2101-01-01T00:00:00Z"), 400, "BAD_INPUT", "closes_at")
    problem(shop.change(sale["id"], closes_at="2099-01-01T00:00:00Z"), 400, "BAD_INPUT", "closes_at")
    assert without_now(shop.show(sale["id"])) == without_now(sale)


# Stock.

@pytest.mark.parametrize("add,after", [(5, (15, 12, 0, 3)), (-7, (3, 0, 0, 3)), (-1, (9, 6, 0, 3)), (10 ** 9 - 10, (10 ** 9, 10 ** 9 - 3, 0, 3))])
def test_stock_is_added_and_withdrawn_exactly(shop, add, after):
    """P1"""
    sale = shop.sale(stock=10)["id"]
    for i in range(3):
        shop.win(sale, f"buyer-{i}")
    answer = shop.act(sale, "stock", {"add": add})
    assert answer.status == 200, answer
    assert tuple(answer.json()[name] for name in ("offered", "available", "held", "sold")) == after
    assert shop.counts(sale) == after


@pytest.mark.parametrize("add", [-8, -10, -10 ** 9, 10 ** 9 - 9, 10 ** 9])
def test_what_is_not_available_cannot_be_withdrawn(shop, add):
    """P1: nor can more be offered than 10⁹."""
    sale = shop.sale(stock=10)["id"]
    for i in range(3):
        shop.win(sale, f"buyer-{i}")
    problem(shop.act(sale, "stock", {"add": add}), 409, "NOT_AVAILABLE")
    assert shop.counts(sale) == (10, 7, 0, 3)


def test_new_stock_reopens_a_sold_out_sale(shop):
    """P1: never undersold."""
    sale = shop.sale(stock=1)["id"]
    shop.win(sale, "ann")
    assert shop.show(sale)["state"] == "sold_out"
    problem(shop.grab(sale, "bob"), 409, "SOLD_OUT")
    assert shop.act(sale, "stock", {"add": 1}).json()["state"] == "open"
    shop.win(sale, "bob")
    problem(shop.grab(sale, "cat"), 409, "SOLD_OUT")
    assert shop.counts(sale) == (2, 0, 0, 2)


# Switches.

def test_pause_and_resume_stop_and_start_the_selling(shop):
    sale = shop.sale()["id"]
    problem(shop.act(sale, "resume"), 409, "NOT_PAUSED")
    answer = shop.act(sale, "pause")
    assert answer.status == 200 and answer.json()["state"] == "paused", answer
    problem(shop.act(sale, "pause"), 409, "PAUSED")
    problem(shop.grab(sale, "ann"), 409, "PAUSED")
    answer = shop.act(sale, "resume", {})
    assert answer.status == 200 and answer.json()["state"] == "open", answer
    shop.win(sale, "ann")


def test_a_close_is_for_good_and_keeps_orders(shop):
    sale = shop.sale()["id"]
    order = shop.win(sale, "ann")
    answer = shop.act(sale, "close")
    assert answer.status == 200 and answer.json()["state"] == "closed", answer
    problem(shop.grab(sale, "bob"), 409, "CLOSED")
    assert shop.order(order["no"], shop.buyer("ann")).json() == order
    assert shop.counts(sale) == (10, 9, 0, 1)


@pytest.mark.parametrize("verb", ["pause", "resume", "close"])
@pytest.mark.parametrize("body", [{"x": 1}, [], "text", 5], ids=str)
def test_a_switch_takes_no_fields(shop, verb, body):
    sale = shop.sale()["id"]
    problem(shop.act(sale, verb, body), 400, "BAD_INPUT")
    assert shop.show(sale)["state"] == "open"


def test_a_paused_upcoming_sale_does_not_open(shop):
    sale = shop.sale(opens_at=time_text(0.4))["id"]
    assert shop.act(sale, "pause").status == 200
    eventually(lambda: shop.grab(sale, "ann").code != "NOT_OPEN")
    problem(shop.grab(sale, "ann"), 409, "PAUSED")


# Ownership.

def test_another_seller_cannot_touch_a_sale(shop, server):
    """P8: ownership is part of the look-up, so a stranger's sale does not exist."""
    sale = shop.sale()
    stranger = server.token(mint_name("seller"), "seller")
    problem(shop.client.patch(f"/v1/sales/{sale['id']}", {"description": "mine"}, stranger), 404, "NO_SUCH_SALE")
    problem(shop.act(sale["id"], "stock", {"add": 5}, stranger), 404, "NO_SUCH_SALE")
    for verb in ("pause", "resume", "close"):
        problem(shop.act(sale["id"], verb, None, stranger), 404, "NO_SUCH_SALE")
    assert without_now(shop.show(sale["id"])) == without_now(sale)


def test_an_admin_may_manage_every_sale(shop):
    sale = shop.sale()["id"]
    assert shop.client.patch(f"/v1/sales/{sale}", {"description": "d"}, shop.admin_token).status == 200
    assert shop.act(sale, "stock", {"add": 5}, shop.admin_token).status == 200
    for verb in ("pause", "resume", "close"):
        assert shop.act(sale, verb, None, shop.admin_token).status == 200
    assert shop.show(sale)["seller"] == shop.seller


@pytest.mark.parametrize("kill", [False, True], ids=["sigterm", "kill-9"])
def test_every_change_outlives_a_restart(own_server, kill):
    """P3 and P5"""
    server = own_server()
    shop = Shop(server)
    changed, paused, closed, stocked = (shop.sale(description="before", price=5, currency="EUR")["id"] for _ in range(4))
    upcoming = shop.sale(opens_at="2100-01-01T00:00:00Z", admission="open", pay_within_s=5, units_per_grab_max=4)["id"]
    shop.change(changed, description="after", closes_at="2100-01-01T00:00:00Z")
    shop.act(paused, "pause")
    shop.win(closed, "ann")
    shop.act(closed, "close")
    shop.win(stocked, "ann")
    shop.act(stocked, "stock", {"add": -4})
    before = [without_now(shop.show(sale)) for sale in (changed, paused, closed, stocked, upcoming)]
    shop.close()
    server.restart(kill)
    assert [without_now(shop.show(sale)) for sale in (changed, paused, closed, stocked, upcoming)] == before
    assert int(shop.sale()["id"]) not in map(int, (changed, paused, closed, stocked, upcoming))
    server.stop()
    audit = server.audit()
    assert audit.code == 0, audit


@pytest.mark.local
def test_one_long_sale_does_not_stand_in_the_way_of_thousands_of_short_ones(own_server):
    """P9: a seller hears BUSY when too many sales are open, not because one of long ago still is: 16,500 more come and go beside it."""
    server = own_server(segment_mb=64)
    shop = Shop(server)
    long_sale = shop.sale(stock=3)["id"]
    shop.win(long_sale, "ann")
    refused = 0
    for first in range(0, 16500, 250):
        body = {"stock": 1, "opens_at": time_text(-1), "closes_at": time_text(0.5)}
        shop.client.send(b"".join(request_bytes("POST", "/v1/sales", {"name": f"short {first + i}", **body}, shop.seller_token) for i in range(250)))
        refused += sum(shop.client.receive().status != 201 for _ in range(250))
    if refused:
        time.sleep(1)
        assert shop.client.post("/v1/sales", {"name": "one more", "stock": 1}, shop.seller_token).status == 201, f"{refused} refused, and it goes on"
    assert shop.counts(long_sale) == (3, 2, 0, 1)
    shop.win(long_sale, "bob")
    shop.close()
    server.restart(kill=True)
    assert shop.counts(long_sale) == (3, 1, 0, 2)
    shop.sale()
    shop.close()
