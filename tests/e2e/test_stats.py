"""GET /v1/sales/{sale}/stats: what the server counted is what the client counted."""

import collections
import datetime
import random
import time

import pytest
from harness import Shop, crowd, eventually, mint_name, problem, request_bytes, time_text, unhurried
from provider import Provider


def stats(shop, sale, query="", token=None):
    answer = shop.client.get(f"/v1/sales/{sale}/stats{query}", token or shop.seller_token)
    assert answer.status == 200, answer
    return answer.json()


def told(answers):
    """As a client counts: a win asked again with its key is the order it had."""
    words, orders = collections.Counter(), set()
    for answer in answers:
        if answer.status != 201:
            words[answer.code] += 1
        elif answer.json()["order"]["no"] in orders:
            words["REPEATED"] += 1
        else:
            orders.add(answer.json()["order"]["no"])
            words["WON"] += 1
    return words


def sums(series):
    return [sum(second[name] for second in series) for name in ("requests", "wins", "refusals")]


def at_ms(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def test_a_sale_nobody_has_asked_for_has_empty_numbers(shop):
    sale = shop.sale(stock=5)
    seen = stats(shop, sale["id"])
    assert set(seen) == {"sale", "verdicts", "since", "sold_out_at", "time_to_sell_out_ms", "orders", "holds", "latency_us", "series", "now"}
    assert {**seen["sale"], "now": None} == {**sale, "now": None}
    assert seen["verdicts"] == {} and seen["sold_out_at"] is None and seen["time_to_sell_out_ms"] is None
    assert seen["orders"] == {state: {"orders": 0, "units": 0} for state in ("held", "paid", "cancelled", "expired", "refund_due")}
    assert seen["holds"] == {"made": 0, "converted": 0, "returned_units": 0}
    assert seen["latency_us"] is None
    assert len(seen["series"]) == 60 and sums(seen["series"]) == [0, 0, 0]
    assert time_text(-600) < seen["since"] <= seen["now"]


def test_a_mixed_crowd_is_counted_as_it_counts_itself(own_server):
    """Every kind of answer, from every check on the way, over several reactors at once; for two sales that do not mix."""
    server = own_server("--reactors", "3", "--limits", "user_grab_per_s=1,user_grab_burst=12")
    shop = Shop(server)
    sales = [shop.sale(stock=150, units_per_grab_max=2, grabs_per_buyer_max=2)["id"], shop.sale(stock=40)["id"]]
    blocked = mint_name("blocked")
    assert shop.client.post("/v1/blocks", {"entry": f"user {blocked}"}, shop.admin_token).status == 201
    dice, requests, of = random.Random(4), [], []
    for i in range(3000):
        sale = dice.choice(sales)
        kind = dice.choices(["plain", "keyed", "greedy", "bad", "nobody", "seller", "blocked", "fast", "unknown"], [60, 10, 5, 4, 4, 3, 4, 6, 4])[0]
        buyer = {"blocked": blocked, "fast": "fast", "keyed": f"keyed-{i % 40}"}.get(kind, f"buyer-{dice.randrange(800)}")
        body = {"greedy": {"units": 3}, "bad": {"units": 0}, "keyed": {"units": 1}}.get(kind, {"units": dice.randint(1, 2)})
        token = {"nobody": None, "seller": shop.seller_token}.get(kind, shop.buyer(buyer))
        requests.append(request_bytes("POST", f"/v1/sales/{'999999' if kind == 'unknown' else sale}/grabs", body, token, "key" if kind == "keyed" else None))
        of.append(None if kind == "unknown" else sale)
    began = time.monotonic()
    answers = crowd(server, requests, 200)
    for sale in sales:
        mine = told(answer for answer, its in zip(answers, of) if its == sale)
        seen = stats(shop, sale, "?seconds=3600")
        assert seen["verdicts"] == dict(mine)
        refused = sum(count for word, count in mine.items() if word not in ("WON", "REPEATED"))
        assert sums(seen["series"]) == [sum(mine.values()), mine["WON"], refused]
        assert 0 < seen["latency_us"]["p50"] <= seen["latency_us"]["p99"] <= seen["latency_us"]["p999"] < (time.monotonic() - began) * 2e6
        assert time.monotonic() - began < 1800, "longer than the series"
        assert seen["orders"]["paid"]["orders"] == mine["WON"] and seen["orders"]["paid"]["units"] == seen["sale"]["sold"]
    everything = told(answers)
    assert {"WON", "REPEATED", "SOLD_OUT", "ALREADY_WON", "OVER_LIMIT", "BAD_INPUT", "NOT_LOGGED_IN", "FORBIDDEN", "BLOCKED", "RATE_LIMITED",
            "NO_SUCH_SALE"} <= set(everything), "the crowd was not mixed"
    shop.close()


def test_those_in_line_are_counted_too(own_server):
    """LINE_TIMEOUT and BUSY are answers as well."""
    server = own_server("--reactors", "2")
    shop = Shop(server)

    def all_at_once(_):
        """Where they do not come at once, the line is not full."""
        sale = shop.sale(stock=100, admission="line", line={"rate_per_s": 20, "size": 30, "timeout_ms": 600})["id"]
        requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"buyer-{i}")) for i in range(60)]
        mine = told(crowd(server, requests, 60))
        assert {"WON", "LINE_TIMEOUT", "BUSY"} <= set(mine), mine
        return sale, mine
    sale, mine = unhurried(all_at_once, *[0.5] * 5)
    assert stats(shop, sale)["verdicts"] == dict(mine)
    shop.close()


def test_a_sale_that_is_over_still_has_its_numbers(shop):
    sale = shop.sale(stock=2)["id"]
    for buyer in "abc":
        shop.grab(sale, buyer)
    assert shop.act(sale, "close").status == 200
    problem(shop.grab(sale, "d"), 409, "CLOSED")
    eventually(lambda: shop.client.get(f"/v1/sales/{sale}/live", shop.seller_token).status == 204)  # memory has let go of it
    problem(shop.grab(sale, "e"), 409, "CLOSED")
    seen = stats(shop, sale)
    assert seen["verdicts"] == {"WON": 2, "SOLD_OUT": 1, "CLOSED": 2} and seen["sale"]["state"] == "closed"


def test_the_series_is_dense_ends_now_and_has_the_length_asked_for(shop):
    sale = shop.sale()["id"]
    for seconds in (1, 2, 59, 3600):
        series = stats(shop, sale, f"?seconds={seconds}")["series"]
        times = [at_ms(second["at"]) for second in series]
        assert len(series) == seconds and times == list(range(times[0], times[0] + seconds * 1000, 1000))
        assert abs(times[-1] - time.time() * 1000) < 60000
    for wrong in ("0", "3601", "-1", "x", "1.5", "", "99999999999999999999"):
        problem(shop.client.get(f"/v1/sales/{sale}/stats?seconds={wrong}", shop.seller_token), 400, "BAD_INPUT", "seconds")


def test_seconds_are_told_apart(shop):
    sale = shop.sale(stock=100)["id"]
    for i in range(3):
        shop.win(sale, f"early-{i}")
    time.sleep(2.1)
    for i in range(5):
        shop.win(sale, f"late-{i}")
    wins = [second["wins"] for second in stats(shop, sale, "?seconds=30")["series"]]
    assert sum(wins) == 8 and 0 in wins[wins.index(next(filter(None, wins))):], wins


def test_the_time_to_sell_out_is_that_of_the_last_unit_and_survives_a_restart(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=3)
    opened = at_ms(sale["opens_at"])
    for buyer in "ab":
        shop.win(sale["id"], buyer)
        assert stats(shop, sale["id"])["sold_out_at"] is None
    time.sleep(0.3)
    order = shop.win(sale["id"], "c")
    seen = stats(shop, sale["id"])
    assert seen["sold_out_at"] == order["won_at"] and seen["time_to_sell_out_ms"] == at_ms(order["won_at"]) - opened >= 300
    problem(shop.grab(sale["id"], "d"), 409, "SOLD_OUT")
    assert shop.act(sale["id"], "stock", {"add": 1}).status == 200
    shop.win(sale["id"], "e")
    assert stats(shop, sale["id"])["sold_out_at"] == order["won_at"], "the first time counts"
    before = stats(shop, sale["id"])
    server.restart(kill=True)
    shop = Shop(server, shop.seller)
    after = stats(shop, sale["id"])
    kept = ("sold_out_at", "time_to_sell_out_ms", "orders", "holds")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert before["verdicts"] == {"WON": 4, "SOLD_OUT": 1} and after["verdicts"] == {"WON": 4}, "refusals are counted since the start, wins are remembered"
    assert after["since"] > before["since"]
    shop.close()


def test_withdrawing_what_is_left_is_not_selling_out(shop):
    sale = shop.sale(stock=3)["id"]
    shop.win(sale, "ann")
    assert shop.act(sale, "stock", {"add": -2}).status == 200
    seen = stats(shop, sale)
    assert seen["sale"]["state"] == "sold_out" and seen["sold_out_at"] is None


@pytest.mark.parametrize("late", ["retake", "refund"])
def test_what_became_of_holds_is_counted_by_state(shop, server, late):
    """Ten holds of two units: three paid, two cancelled, five expired; then one late payment of each kind."""
    provider = Provider(server)

    def in_time(pay_within_s):
        sale = shop.sale(stock=20, units_per_grab_max=2, pay_within_s=pay_within_s, late_payment=late, price=100, currency="EUR")["id"]
        orders = [shop.win(sale, f"buyer-{i}", units=2) for i in range(10)]
        seen = stats(shop, sale)
        assert seen["orders"]["held"] == {"orders": 10, "units": 20} and seen["sold_out_at"] == orders[-1]["won_at"]
        for order in orders[:3]:
            provider.paid(shop.client, order)
        for order in orders[3:5]:
            assert shop.client.post(f"/v1/orders/{order['no']}/cancel", None, shop.buyer(order["buyer"])).status == 200
        return sale, orders
    sale, orders = unhurried(in_time, 2, 10, 40)
    eventually(lambda: stats(shop, sale)["orders"]["expired"]["orders"] == 5, 20)
    seen = stats(shop, sale)
    assert {state: tuple(row.values()) for state, row in seen["orders"].items()} == {
        "held": (0, 0), "paid": (3, 6), "cancelled": (2, 4), "expired": (5, 10), "refund_due": (0, 0)}
    assert seen["holds"] == {"made": 10, "converted": 3, "returned_units": 14}
    provider.tell(shop.client, orders[3])
    provider.tell(shop.client, orders[9])
    seen = stats(shop, sale)
    expected = {"held": (0, 0), "paid": (4, 8), "cancelled": (1, 2), "expired": (4, 8), "refund_due": (1, 2)}
    if late == "refund":
        expected |= {"paid": (3, 6), "refund_due": (2, 4)}
    assert {state: tuple(row.values()) for state, row in seen["orders"].items()} == expected
    assert seen["holds"] == {"made": 10, "converted": 4 if late == "retake" else 3, "returned_units": 14}
    assert sum(row["orders"] for row in seen["orders"].values()) == 10


def test_others_do_not_see_the_numbers(shop):
    sale = shop.sale()["id"]
    path, client = f"/v1/sales/{sale}/stats", shop.client
    problem(client.get(path), 401)
    problem(client.get(path, shop.buyer("ann")), 403)
    problem(client.get(path, shop.server.token(mint_name("seller"), "seller")), 404, "NO_SUCH_SALE")
    problem(client.get("/v1/sales/999999/stats", shop.seller_token), 404, "NO_SUCH_SALE")
    assert stats(shop, sale, token=shop.admin_token)["verdicts"] == {}
