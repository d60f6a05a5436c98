"""Defects of systems that sell by queue, cart, token or link, each as a test that would find it here."""

import base64
import json
import os

import pytest
from harness import Shop, crowd, eventually, mint_name, problem, request_bytes, time_text, unhurried
from resp import Error, Peer

QUANTITIES = ["-100", "-1", "0", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551616", "99999999999999999999", "1.5", "1e2", '"1"', '"ten"', "null", "true", "[1]",
              "{}", "+5", "0x5", "05", ""]


def event_of(shop):
    answer = shop.client.post("/v1/events", {"name": mint_name("event"), "opens_at": time_text(3600)}, shop.seller_token)
    assert answer.status == 201, answer
    return answer.json()["id"]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_quantity_of_minus_100_was_accepted_and_added_stock(shop, quantity):
    sale = shop.sale(stock=10, units_per_grab_max=5, grabs_per_buyer_max=10)["id"]
    body = b'{"units":' + quantity.encode() + b"}"
    problem(shop.client.post(f"/v1/sales/{sale}/grabs", body, shop.buyer("ann")), 400, "BAD_INPUT")
    assert shop.counts(sale) == (10, 10, 0, 0)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_quantity_of_minus_100_was_accepted_and_added_stock_by_the_doors(shop, quantity):
    """The cart takes no quantity, the claim looks at none: each sells one or nothing."""
    event = event_of(shop)
    goods = shop.sale(stock=10, event=event, units_per_grab_max=5)["id"]
    for name in ("quantity", "num", "units", "count"):
        body = f'{{"goods_id":{goods},"event_id":{event},"{name}":{quantity}}}'.encode()
        answer = shop.client.request("PUT", "/shop/cart/add", body, shop.buyer("ann"))
        assert answer.status == 400 and answer.json()["code"] == 400, answer
    assert shop.counts(goods) == (10, 10, 0, 0)
    luck = shop.sale(stock=10, admission="open", units_per_grab_max=5)["id"]
    answer = shop.client.post(f"/luck/{luck}", b'{"units":' + quantity.encode() + b"}")
    assert answer.status == 200 and answer.json() == {"won": True, "claim": 1}, answer
    assert shop.counts(luck) == (10, 9, 0, 1)


@pytest.mark.parametrize("admission", ["login", "line"])
def test_one_script_sold_twice_to_the_same_user(shop, admission):
    """At once, by the native interface and by the cart."""
    event = event_of(shop)
    line = {"line": {"rate_per_s": 1000, "size": 1000, "timeout_ms": 10000}} if admission == "line" else {}
    sale = shop.sale(stock=50, event=event, admission=admission, **line)["id"]
    token = shop.buyer("ann")
    requests = [request_bytes("PUT", "/shop/cart/add", {"goods_id": sale, "event_id": event}, token) if i % 2 else request_bytes("POST", f"/v1/sales/{sale}/grabs", None, token)
                for i in range(60)]
    answers = crowd(shop.server, requests, 30)
    won = [answer for answer in answers if answer.status == 201 or answer.json().get("code") == 0]
    assert len(won) == 1 and shop.counts(sale) == (50, 49, 0, 1)


def test_memory_stock_was_burnt_before_the_repeat_check(shop):
    """One buyer's three tries emptied a sale of three for everyone."""
    event = event_of(shop)
    sale = shop.sale(stock=3, event=event)["id"]

    def add(buyer):
        return shop.client.request("PUT", "/shop/cart/add", {"goods_id": sale, "event_id": event}, shop.buyer(buyer)).json()["code"]
    assert [add("ann") for _ in range(6)] == [0] + [1002] * 5
    assert shop.counts(sale) == (3, 2, 0, 1)
    assert [add("bob"), add("cat"), add("dan")] == [0, 0, 1001]


def test_a_token_made_of_user_product_and_time_could_be_guessed(shop):
    """Asked for anew it stays the same token of one buyer; others look nothing like it, and no changed bit of it is let in."""
    sale = shop.sale(stock=5, admission="token")["id"]
    tokens = [shop.purchase_token(sale, buyer) for buyer in ("ann", "bob")]
    parts = [token.split(".") for token in tokens]
    assert parts[0][-1] != parts[1][-1] and len(parts[0][-1]) >= 22, "a signature of 128 bits or more"
    text = tokens[0]
    for at in range(0, len(text), max(1, len(text) // 40)):
        other = "A" if text[at] != "A" else "B"
        problem(shop.grab(sale, "ann", purchase=text[:at] + other + text[at + 1:]), 403, "TOKEN_INVALID")
    for guess in (f"ann:{sale}", f"ann.{sale}.{parts[0][-1]}", base64.urlsafe_b64encode(json.dumps({"user": "ann", "sale": sale}).encode()).decode(), ""):
        assert shop.grab(sale, "ann", purchase=guess).status in (400, 403)
    assert shop.counts(sale) == (5, 5, 0, 0)
    assert shop.grab(sale, "ann", purchase=text).status == 201


def test_a_token_could_be_used_by_someone_else(shop):
    sale, other = (shop.sale(stock=5, admission="token", grabs_per_buyer_max=5)["id"] for _ in range(2))
    token = shop.purchase_token(sale, "ann")
    problem(shop.grab(sale, "bob", purchase=token), 403, "TOKEN_INVALID")
    problem(shop.grab(other, "ann", purchase=token), 403, "TOKEN_INVALID")
    assert shop.grab(sale, "ann", purchase=token).status == 201
    problem(shop.grab(sale, "ann", purchase=token), 403, "TOKEN_INVALID")
    assert shop.counts(sale)[3] == 1 and shop.counts(other)[3] == 0


def test_a_full_queue_was_ignored_after_the_connection_had_been_taken_over(shop):
    """The buyer never got an answer. Here everybody does, by the native interface and by the cart, and the connection goes on."""
    event = event_of(shop)
    sale = shop.sale(stock=100, event=event, admission="line", line={"rate_per_s": 1, "size": 2, "timeout_ms": 1500})["id"]
    tokens = [shop.server.token(mint_name("b")) for _ in range(40)]
    requests = [request_bytes("PUT", "/shop/cart/add", {"goods_id": sale, "event_id": event}, token) if i % 2 else request_bytes("POST", f"/v1/sales/{sale}/grabs", None, token)
                for i, token in enumerate(tokens)]
    answers = crowd(shop.server, requests, 40, seconds_max=60)
    busy = [answer for answer in answers if answer.status == 503]
    assert all(answer is not None for answer in answers) and len(busy) >= 30
    assert all("retry-after" in answer.headers and answer.headers.get("connection", "") != "close" for answer in busy)
    with shop.server.connect() as client:
        for _ in range(2):  # asked again on the same connection
            assert client.request("PUT", "/shop/cart/add", {"goods_id": sale, "event_id": event}, tokens[0]).status in (200, 503)


def test_a_sold_out_flag_stayed_set_after_stock_came_back(shop):
    """Pieces left, and nobody could buy: after a cancelled order, an expired hold and more stock, by grab, cart and link."""
    event = event_of(shop)

    def add(buyer):
        return shop.client.request("PUT", "/shop/cart/add", {"goods_id": sale, "event_id": event}, shop.buyer(buyer)).json()["code"]

    def held_by_bob(pay_within_s):
        nonlocal sale
        sale = shop.sale(stock=1, event=event, pay_within_s=pay_within_s)["id"]
        order = shop.win(sale, "ann")["no"]
        assert add("bob") == 1001 and shop.show(sale)["state"] == "sold_out"
        assert shop.client.post(f"/v1/orders/{order}/cancel", None, shop.buyer("ann")).status == 200
        assert add("bob") == 0 and add("cat") == 1001
    sale = None
    unhurried(held_by_bob, 2, 6, 20)
    eventually(lambda: shop.show(sale)["state"] == "open", 20)
    assert shop.change(sale, pay_within_s=600).status == 200
    assert add("cat") == 0 and add("dan") == 1001
    assert shop.act(sale, "stock", {"add": 1}).status == 200
    assert shop.grab(sale, "dan").status == 201
    luck = shop.sale(stock=1, admission="open")["id"]
    assert [shop.client.get(f"/luck/{luck}").json()["won"] for _ in range(2)] == [True, False]
    assert shop.act(luck, "stock", {"add": 1}).status == 200
    assert [shop.client.get(f"/luck/{luck}").json()["won"] for _ in range(2)] == [True, False]


def test_starting_the_server_flushed_the_cache(own_server):
    server = own_server()
    shop = Shop(server)
    sale, luck = shop.sale(stock=3)["id"], shop.sale(stock=2, admission="open")["id"]
    shop.win(sale, "ann")
    assert shop.client.get(f"/luck/{luck}").json() == {"won": True, "claim": 1}
    kept = {name: (server.data / name).read_bytes() for name in os.listdir(server.data) if name in ("keys", "payment_keys")}
    for kill in (False, True, False):
        shop.close()
        server.restart(kill=kill)
        shop = Shop(server, shop.seller)
        assert shop.counts(sale) == (3, 2, 0, 1) and shop.counts(luck) == (2, 1, 0, 1)
        problem(shop.grab(sale, "ann"), 409, "ALREADY_WON")
    assert shop.client.get(f"/luck/{luck}").json() == {"won": True, "claim": 2}
    assert kept and kept == {name: (server.data / name).read_bytes() for name in kept}
    shop.close()


@pytest.mark.parametrize("path", ["/test/flush", "/flush", "/debug/pprof/", "/debug/vars", "/server-status", "/luck/", "/shop/cart/flush"])
def test_flush_and_profiling_pages_stood_open_on_the_public_port(shop, path):
    sale = shop.sale(stock=1)["id"]
    for method in ("GET", "POST", "DELETE"):
        assert shop.client.request(method, path).status in (404, 405), path
    assert shop.counts(sale) == (1, 1, 0, 0)


def test_a_pipeline_over_several_sales_failed_with_crossslot(own_server):
    """Their keys were in different slots of the cache, and a script may touch only one."""
    with Peer(own_server()) as peer:
        names = [mint_name(word) for word in ("air", "{rail}", "{air}:1", "stock:7", "order-7", "\u7968", "a b") for _ in range(5)]
        got = peer.pipeline([("SALE.CREATE", name, 2) for name in names])
        assert not [reply for reply in got if isinstance(reply, Error)], got
        got = peer.pipeline([words for name in names for words in (("SALE.GRAB", name, "ann"), ("SECKILL", "bob", name, 1), ("SALE.LEFT", name))])
        assert [reply[0] if isinstance(reply, list) else reply for reply in got] == ["WON", 1, 0] * len(names)


@pytest.mark.parametrize("kill", [False, True])
def test_after_the_cache_restarted_every_grab_failed(own_server, kill):
    """The script that sold was gone with the cache (NOSCRIPT), and the stock with it."""
    server = own_server()
    with Peer(server) as peer:
        peer.ask("SALE.CREATE", "tickets", 5)
        assert peer.ask("SECKILL", "ann", "tickets", 1) == 1
        assert peer.ask("SALE.GRAB", "tickets", "bob")[0] == "WON"
    server.restart(kill=kill)
    with Peer(server) as peer:
        got = peer.pipeline([("SECKILL", "cat", "tickets", 1), ("SALE.GRAB", "tickets", "dan"), ("SECKILL", "ann", "tickets", 1), ("SALE.LEFT", "tickets")])
        assert got[0] == 1 and got[1][0] == "WON" and got[2:] == [0, 1], got
