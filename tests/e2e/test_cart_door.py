"""The cart door: PUT /shop/cart/add {goods_id,event_id} with a login, behind the line of the sale, answered in an envelope."""

import time

import pytest
from harness import Shop, crowd, eventually, mint_name, request_bytes, time_text, unhurried

PATH = "/shop/cart/add"


class Cart:
    """An event with goods in it, and people who put them into their cart."""

    def __init__(self, shop):
        self.shop = shop
        self.event = self.make_event()

    def make_event(self, name=None, shop=None):
        shop = shop or self.shop
        answer = shop.client.post("/v1/events", {"name": name or mint_name("event"), "opens_at": time_text(3600)}, shop.seller_token)
        assert answer.status == 201, answer
        return answer.json()

    def goods(self, stock=1, event=None, **more):
        return self.shop.sale(stock=stock, event=(event or self.event)["id"], **more)

    def add(self, goods, event, buyer="ann", **more):
        token = more.pop("token", self.shop.buyer(buyer) if buyer else None)
        return self.shop.client.request("PUT", PATH, {"goods_id": goods, "event_id": event}, token, **more)


@pytest.fixture
def cart(shop):
    return Cart(shop)


def envelope(answer, status, code, msg=None):
    assert answer.status == status and answer.headers["content-type"] == "application/json", answer
    body = answer.json()
    assert list(body) == ["code", "data", "msg"] and body["data"] is None, body
    assert body["code"] == code and (msg is None or body["msg"] == msg), body
    return body


def test_won_then_bought_already_then_no_stock(cart):
    goods = cart.goods()
    envelope(cart.add(goods["id"], cart.event["id"]), 200, 0, "ok")
    envelope(cart.add(goods["id"], cart.event["id"]), 200, 1002, "already bought")
    envelope(cart.add(goods["id"], cart.event["id"], "bob"), 200, 1001, "no stock")
    orders = cart.shop.listed(f"/v1/orders?sale={goods['id']}", cart.shop.seller_token)
    assert [order["buyer"] for order in orders] == ["ann"]


@pytest.mark.parametrize("goods_by", ["id", "number", "name"])
@pytest.mark.parametrize("event_by", ["id", "number", "name"])
def test_goods_and_event_are_ids_or_names(cart, goods_by, event_by):
    goods = cart.goods(stock=2)
    other = cart.goods(stock=2)
    given = {"id": lambda thing: thing["id"], "number": lambda thing: int(thing["id"]), "name": lambda thing: thing["name"]}
    for buyer in ("ann", "bob"):  # the second finds what the first has looked up
        envelope(cart.add(given[goods_by](goods), given[event_by](cart.event), buyer), 200, 0, "ok")
    assert cart.shop.counts(goods["id"])[1] == 0 and cart.shop.counts(other["id"])[1] == 2


def test_goods_of_another_event_are_a_bad_request(cart):
    other = cart.make_event()
    goods = cart.goods(event=other)
    loose = cart.shop.sale(stock=1)
    envelope(cart.add(goods["id"], cart.event["id"]), 400, 400, "bad request")
    envelope(cart.add(goods["name"], cart.event["id"]), 404, 404, "no such goods")
    envelope(cart.add(goods["id"], cart.event["name"]), 404, 404, "no such goods")
    envelope(cart.add(goods["name"], cart.event["name"]), 404, 404, "no such goods")
    envelope(cart.add(loose["id"], cart.event["id"]), 400, 400, "bad request")
    assert cart.shop.counts(goods["id"])[1] == 1 and cart.shop.counts(loose["id"])[1] == 1


@pytest.mark.parametrize("goods", ["999999999", 999999999, "no such thing", 0, "18446744073709551616"])
def test_unknown_goods(cart, goods):
    envelope(cart.add(goods, cart.event["id"]), 404, 404, "no such goods")


def test_of_events_of_one_name_the_one_with_goods_that_are_on_sale_is_meant(cart):
    name = mint_name("event")
    events = [cart.make_event(name) for _ in range(3)]
    goods = mint_name("goods")
    old = cart.goods(event=events[0], name=goods)
    assert cart.shop.act(old["id"], "close").status == 200
    other = Cart(Shop(cart.shop.server))
    now = other.shop.sale(stock=1, event=other.make_event(name)["id"], name=goods)
    envelope(cart.add(goods, name), 200, 0)
    assert other.shop.counts(now["id"])[1] == 0
    other.shop.close()


def test_a_name_that_changes_is_asked_for_anew(cart):
    first = cart.goods(stock=5, opens_at=time_text(-1))
    old, new = first["name"], mint_name("goods")
    envelope(cart.add(old, cart.event["id"]), 200, 0)
    assert cart.shop.change(first["id"], name=new).status == 200
    eventually(lambda: cart.add(old, cart.event["id"], "bob").json()["code"] == 404, 20, 0.4)
    envelope(cart.add(new, cart.event["id"], "cat"), 200, 0)


@pytest.mark.parametrize("body", [None, b"", b"{", b"[]", b"null", {"goods_id": 1}, {"event_id": 1}, {"goods_id": None, "event_id": 1}, {"goods_id": -1, "event_id": 1},
                                  {"goods_id": 1.5, "event_id": 1}, {"goods_id": "", "event_id": 1}, {"goods_id": True, "event_id": 1}, {"goods_id": [1], "event_id": 1},
                                  {"goods_id": "x" * 129, "event_id": 1}, {"goods_id": "a\nb", "event_id": 1}, b'{"goods_id":1,"goods_id":2,"event_id":1}',
                                  b'{"goods_id":99999999999999999999999,"event_id":1}', {"goods_id": 1, "event_id": 1, "quantity": -100}])
def test_what_is_no_question_is_a_bad_request(cart, body):
    envelope(cart.shop.client.request("PUT", PATH, body, cart.shop.buyer("ann")), 400, 400, "bad request")


def test_a_body_that_is_not_json_is_a_bad_request(cart):
    answer = cart.shop.client.request("PUT", PATH, b"goods_id=1&event_id=1", cart.shop.buyer("ann"), headers={"Content-Type": "text/plain"})
    envelope(answer, 400, 400, "bad request")


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8"])
def test_json_is_read_whatever_it_calls_itself(cart, kind):
    goods = cart.goods()
    envelope(cart.add(goods["id"], cart.event["id"], headers={"Content-Type": kind}), 200, 0, "ok")


def test_who_is_not_logged_in_needs_a_login(cart):
    goods = cart.goods()
    for token in (None, "rubbish", cart.shop.server.token("ann", exp=int(time.time()) - 10)):
        envelope(cart.add(goods["id"], cart.event["id"], buyer=None, token=token), 401, 401, "need login")
    assert envelope(cart.add(goods["id"], cart.event["id"], token=cart.shop.seller_token), 403, 403)["msg"] != "blocked"
    assert cart.shop.counts(goods["id"])[1] == 1


def test_who_is_blocked_is_told(cart):
    goods, name = cart.goods(), mint_name("rogue")
    assert cart.shop.client.post("/v1/blocks", {"entry": f"user {name}"}, cart.shop.admin_token).status == 201
    envelope(cart.add(goods["id"], cart.event["id"], name), 403, 403, "blocked")


def test_before_and_after_the_sale(cart):
    upcoming, paused, closed = cart.goods(opens_at=time_text(60)), cart.goods(), cart.goods()
    assert cart.shop.act(paused["id"], "pause").status == 200 and cart.shop.act(closed["id"], "close").status == 200
    envelope(cart.add(upcoming["id"], cart.event["id"]), 200, 1005, "not open yet")
    envelope(cart.add(paused["id"], cart.event["id"]), 200, 1006, "sale paused")
    envelope(cart.add(closed["id"], cart.event["id"]), 200, 1004, "sale closed")
    eventually(lambda: envelope(cart.add(closed["id"], cart.event["id"]), 200, 1004, "sale closed"))


def test_a_sale_without_logins_is_not_sold_here(cart):
    """It knows no buyers: nobody could be refused as one who has bought already."""
    goods = cart.goods(stock=5, admission="open")
    envelope(cart.add(goods["id"], cart.event["id"]), 404, 404, "no such goods")
    assert cart.shop.counts(goods["id"])[1] == 5


def test_a_key_asked_again_is_the_same_answer(cart):
    goods = cart.goods(stock=3)
    for _ in range(3):
        envelope(cart.add(goods["id"], cart.event["id"], key="k"), 200, 0, "ok")
    by_name = cart.goods(stock=3)
    for _ in range(2):
        envelope(cart.add(by_name["name"], cart.event["name"], key="k"), 200, 0, "ok")
    assert cart.shop.counts(goods["id"])[1] == 2 and cart.shop.counts(by_name["id"])[1] == 2


def test_behind_the_line_the_crowd_is_let_through_or_times_out_and_takes_nothing_then(cart):
    """At a fixed rate; who waits longer than the time-out is told 1003 and has taken nothing. The connection is kept."""

    def all_at_once(_):
        goods = cart.goods(stock=100, admission="line", line={"rate_per_s": 5, "size": 100, "timeout_ms": 1000})
        requests = [request_bytes("PUT", PATH, {"goods_id": goods["id"], "event_id": cart.event["id"]}, cart.shop.server.token(mint_name("b"))) for _ in range(40)]
        answers = crowd(cart.shop.server, requests, 40)
        codes = [envelope(answer, 200, answer.json()["code"])["code"] for answer in answers]
        assert set(codes) == {0, 1003} and codes.count(0) <= 15, codes
        return goods, answers, codes
    goods, answers, codes = unhurried(all_at_once, *[1] * 4)
    assert all(answer.json()["msg"] == "request timeout" for answer in answers if answer.json()["code"] == 1003)
    assert all(answer.headers.get("connection", "") != "close" for answer in answers)
    assert cart.shop.counts(goods["id"])[3] == codes.count(0)


def test_a_full_line_is_busy(cart):
    goods = cart.goods(stock=100, admission="line", line={"rate_per_s": 1, "size": 3, "timeout_ms": 1500})
    requests = [request_bytes("PUT", PATH, {"goods_id": goods["name"], "event_id": cart.event["name"]}, cart.shop.server.token(mint_name("b"))) for _ in range(30)]
    answers = crowd(cart.shop.server, requests, 30)
    busy = [answer for answer in answers if answer.status == 503]
    assert len(busy) >= 20 and all(envelope(answer, 503, 503, "busy") and "retry-after" in answer.headers for answer in busy)
    assert {answer.json()["code"] for answer in answers if answer.status == 200} <= {0, 1003}


def test_exactly_the_stock_is_sold_to_a_crowd_by_name(cart):
    goods = cart.goods(stock=20)
    requests = [request_bytes("PUT", PATH, {"goods_id": goods["name"], "event_id": cart.event["name"]}, cart.shop.server.token(f"c{i % 60}")) for i in range(240)]
    codes = [answer.json()["code"] for answer in crowd(cart.shop.server, requests, 48)]
    assert codes.count(0) == 20 and set(codes) <= {0, 1001, 1002}
    orders = cart.shop.listed(f"/v1/orders?sale={goods['id']}", cart.shop.seller_token)
    assert len({order["buyer"] for order in orders}) == len(orders) == 20


def test_too_many_requests_of_one_user(own_server):
    server = own_server("--limits", "user_grab_per_s=1,user_grab_burst=2")
    cart = Cart(Shop(server))
    goods = cart.goods(stock=9)

    def within_a_second(_):
        buyer = mint_name("b")
        codes = [cart.add(goods["id"], cart.event["id"], buyer).json()["code"] for _ in range(4)]
        assert codes == [0, 1002, 429, 429]
    unhurried(within_a_second, *[0.9] * 5)
    cart.shop.close()


def test_an_open_breaker_is_503_in_the_envelope(own_server):
    """An answer that took 1 ms is called slow here, and the disk takes 20."""
    server = own_server("--breaker-slow-ms", "1", "--breaker-share-percent", "1", "--breaker-open-ms", "60000",
                        prefix=["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=20000"])
    cart = Cart(Shop(server))
    goods = cart.goods(stock=1000)

    def opened():
        answer = cart.add(goods["id"], cart.event["id"], mint_name("b"))
        return answer if answer.status == 503 else None
    envelope(eventually(opened, 60, 0), 503, 503, "busy")
    cart.shop.close()


def test_a_door_that_is_shut_is_not_there(own_server):
    server = own_server("--door-cart", "off")
    cart = Cart(Shop(server))
    goods = cart.goods()
    answer = cart.add(goods["id"], cart.event["id"])
    assert answer.status == 404 and answer.code == "NO_SUCH_ROUTE"
    assert cart.shop.counts(goods["id"])[1] == 1
    cart.shop.close()


def test_what_is_no_route_and_a_body_too_large_are_answered_in_the_envelope(server):
    with server.connect() as client:
        for path in ("/shop", "/shop/", "/shop/cart", "/shop/cart/add/more"):
            envelope(client.request("PUT", path, {}), 404, 404)
        wrong = client.post(PATH, {})
        envelope(wrong, 405, 405)
        assert wrong.headers["allow"] == "PUT"
        large = client.request("PUT", PATH, b"x" * 65537)
        envelope(large, 413, 413)
        assert large.headers["connection"] == "close"
    with server.connect() as client:
        assert client.get("/shopping").code == "NO_SUCH_ROUTE", "a path that only begins alike is no door's"
