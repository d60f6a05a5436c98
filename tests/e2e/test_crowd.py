"""A crowd at the gate: exactly as many winners as pieces (P1, P2, P4, P7).

Runs with any binary named by STAMPEDE_BINARY, also a slow one under ThreadSanitizer."""

import collections
import re
import threading
import time

import pytest
from harness import Shop, beside, crowd, eventually, request_bytes


def settle(server, shop, sale):
    """Stops the server after the clerk is through; the orders of the sale as SQLite has them."""
    shop.listed("/v1/orders", shop.admin_token)
    shop.close()
    server.stop()
    audit = server.audit()
    assert audit.code == 0, audit
    return server.ledger().orders(sale)


def told(answers):
    return collections.Counter("WON" if answer.status == 201 else answer.code for answer in answers)


def test_a_thousand_buyers_and_a_hundred_pieces(own_server):
    """P1, P2, P4: exactly 100 winners, all different, and the same 100 in SQLite."""
    server = own_server("--reactors", "4")
    shop = Shop(server)
    sale = shop.sale(stock=100)["id"]
    requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, server.token(f"buyer-{i}")) for i in range(1000)]
    answers = crowd(server, requests, 500)
    assert told(answers) == {"WON": 100, "SOLD_OUT": 900}
    orders = [answer.json()["order"] for answer in answers if answer.status == 201]
    winners = {order["buyer"] for order in orders}
    assert len(winners) == 100 == len({order["no"] for order in orders})
    for i, answer in enumerate(answers):
        if answer.status == 201:
            assert answer.json()["order"]["buyer"] == f"buyer-{i}", "someone got another's answer"
    assert shop.counts(sale) == (100, 0, 0, 100)
    assert shop.show(sale)["state"] == "sold_out"
    rows = settle(server, shop, sale)
    assert {(str(row["no"]), row["buyer"], row["units"]) for row in rows} == {(order["no"], order["buyer"], order["units"]) for order in orders}


def test_everyone_asks_again_and_again(own_server):
    """P2, P7: 200 buyers ask 10 times each, half of them with a key; nobody gets more than the sale allows."""
    server = own_server("--reactors", "4")
    shop = Shop(server)
    sale = shop.sale(stock=150, grabs_per_buyer_max=2, units_per_grab_max=2)["id"]
    requests = []
    for i in range(2000):
        buyer = i % 200
        key = f"key-{i // 200 % 3}" if buyer % 2 else None
        requests.append(request_bytes("POST", f"/v1/sales/{sale}/grabs", {"units": 1}, shop.buyer(f"buyer-{buyer}"), key))
    answers = crowd(server, requests, 300)
    words = told(answers)
    assert set(words) <= {"WON", "ALREADY_WON", "SOLD_OUT"}, words
    numbers = {answer.json()["order"]["no"]: answer.json()["order"] for answer in answers if answer.status == 201}
    assert len(numbers) == 150, "not every piece found a buyer" if len(numbers) < 150 else "oversold"
    per_buyer = collections.Counter(order["buyer"] for order in numbers.values())
    assert max(per_buyer.values()) <= 2
    for answer in answers:
        if answer.code == "ALREADY_WON":
            assert answer.json()["order"]["no"] in numbers, "an order nobody was told of"
    rows = settle(server, shop, sale)
    assert {str(row["no"]) for row in rows} == set(numbers)


def test_units_of_different_sizes_fill_the_stock_exactly(own_server):
    """P1: never undersold. While one piece is left, who asks for one wins."""
    server = own_server("--reactors", "4")
    shop = Shop(server)
    sale = shop.sale(stock=500, units_per_grab_max=5)["id"]
    requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", {"units": 1 + i % 5}, shop.buyer(f"buyer-{i}")) for i in range(600)]
    answers = crowd(server, requests, 200)
    sold = sum(answer.json()["order"]["units"] for answer in answers if answer.status == 201)
    offered, available, _, counted = shop.counts(sale)
    assert sold == counted and available == 500 - sold
    assert available < 5, "units were left though somebody asked for as many"
    for i in range(available):
        shop.win(sale, f"last-{i}")
    assert shop.grab(sale, "too late").code == "SOLD_OUT"
    rows = settle(server, shop, sale)
    assert sum(row["units"] for row in rows) == 500


def test_an_open_sale_numbers_its_claims_without_gaps_in_stock(own_server):
    """P1: 300 without a login, 50 pieces."""
    server = own_server("--reactors", "4")
    shop = Shop(server)
    sale = shop.sale(stock=50, admission="open")["id"]
    answers = crowd(server, [request_bytes("POST", f"/v1/sales/{sale}/grabs")] * 300, 150)
    assert told(answers) == {"WON": 50, "SOLD_OUT": 250}
    assert len({answer.json()["order"]["buyer"] for answer in answers if answer.status == 201}) == 50
    assert len(settle(server, shop, sale)) == 50


def test_a_seller_who_changes_everything_meanwhile_breaks_nothing(own_server):
    """P1: stock added and withdrawn, pauses and changes between the grabs of a crowd."""
    server = own_server("--reactors", "4")
    shop = Shop(server)
    sale = shop.sale(stock=50)["id"]
    requests, kinds = [], []
    for i in range(1500):
        kind = {7: "add", 17: "withdraw", 27: "pause", 29: "resume", 37: "change", 41: "list", 43: "show"}.get(i % 47, "grab")
        kinds.append(kind)
        if kind == "grab":
            requests.append(request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"buyer-{i}")))
        elif kind in ("add", "withdraw"):
            requests.append(request_bytes("POST", f"/v1/sales/{sale}/stock", {"add": 10 if kind == "add" else -3}, shop.seller_token))
        elif kind in ("pause", "resume"):
            requests.append(request_bytes("POST", f"/v1/sales/{sale}/{kind}", None, shop.seller_token))
        elif kind == "change":
            requests.append(request_bytes("PATCH", f"/v1/sales/{sale}", {"description": f"text {i}"}, shop.seller_token))
        elif kind == "list":
            requests.append(request_bytes("GET", f"/v1/orders?sale={sale}&limit=5", None, shop.seller_token))
        else:
            requests.append(request_bytes("GET", f"/v1/sales/{sale}"))
    answers = crowd(server, requests, 60)
    won = offered = 0
    for kind, answer in zip(kinds, answers):
        assert answer.status < 500, (kind, answer)
        if kind == "grab":
            assert answer.status == 201 or answer.code in ("SOLD_OUT", "PAUSED"), answer
            won += answer.status == 201
        elif kind in ("add", "withdraw"):
            assert answer.status == 200 or answer.code == "NOT_AVAILABLE", answer
            offered += (10 if kind == "add" else -3) if answer.status == 200 else 0
        elif kind == "show":
            seen = answer.json()
            assert seen["offered"] == seen["available"] + seen["held"] + seen["sold"], seen
    assert won > 0
    assert shop.counts(sale) == (50 + offered, 50 + offered - won, 0, won)
    assert len(settle(server, shop, sale)) == won


@pytest.mark.parametrize("reactors", [1, 2, 8])
def test_the_number_of_reactors_makes_no_difference(own_server, reactors):
    server = own_server("--reactors", str(reactors))
    shop = Shop(server)
    sale = shop.sale(stock=30)["id"]
    answers = crowd(server, [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i}")) for i in range(100)], 50)
    assert told(answers) == {"WON": 30, "SOLD_OUT": 70}
    shop.close()


def orders_in_memory(shop):
    return int(re.search(r"^stampede_orders (\d+)", shop.client.get("/metrics").body.decode(), re.MULTILINE).group(1))


def won_by_all(server, requests, connections, seconds_max=60):
    """All have won in the end: a slow machine may tell some of them BUSY, and they ask again. Memory that is never given back tells
    them so for ever."""
    until = time.monotonic() + seconds_max
    while requests and time.monotonic() < until:
        answers = crowd(server, requests, connections)
        assert set(told(answers)) <= {"WON", "BUSY"}, told(answers)
        requests = [request for request, answer in zip(requests, answers) if answer.status != 201]
        if requests:
            time.sleep(0.5)
    return not requests


@pytest.mark.local
def test_a_sale_that_is_over_makes_room_while_another_keeps_selling(own_server):
    """P9 and P1: memory is capped, and what is over is let go of also when the selling never pauses; else buyers would hear BUSY, though there
    is stock, for the sake of sales long closed."""
    server = own_server("--orders-max", "9000")
    shop = Shop(server)
    steady = shop.sale()["id"]
    over, answers = threading.Event(), []

    def decide_on():
        """Decisions without an end, and without an order: a seller who changes a text again and again."""
        with server.connect() as client:
            while not over.is_set():
                client.send(request_bytes("PATCH", f"/v1/sales/{steady}", {"description": "text"}, shop.seller_token) * 10)
                for _ in range(10):
                    answers.append(client.receive().status)
                    assert answers[-1] in (200, 503)  # of a machine that cannot keep up

    with beside(decide_on, until=over):
        for round_number in range(3):
            decided = answers.count(200)
            sale = shop.sale(stock=4000, grabs_per_buyer_max=4000)["id"]
            requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i % 20}")) for i in range(4000)]
            assert won_by_all(server, requests, 20), f"round {round_number}"
            assert shop.act(sale, "close").status == 200
            full = orders_in_memory(shop)
            eventually(lambda before=full: orders_in_memory(shop) < before - 2000, seconds=10)
            eventually(lambda before=decided: answers.count(200) > before + 10)
    shop.close()
