"""The line: parked connections are let through in order at a fixed rate, and nobody who waited in vain takes stock."""

import os
import re
import signal
import time

import pytest

from harness import Shop, eventually, time_text, unhurried
from line import LINE, SLOW, grabs, hear, outcomes, park, parked, place_of, state_of, taken, waiting
from wire import problem


@pytest.fixture
def server(own_server):
    return own_server("--config", "/dev/null")


def test_those_in_line_are_let_through_in_order_and_none_early(own_server):
    """One reactor, so that the order of sending is the order of arrival."""
    server = own_server("--reactors", "1")
    shop = Shop(server)
    sale = shop.sale(stock=1000, admission="line", line=LINE)["id"]
    began = time.monotonic()
    socks = []
    for i in range(40):
        socks.append(park(server, sale, shop.buyer(f"b{i:03}")))
        time.sleep(0.002)
    answers = [hear(sock) for sock in socks]
    took = time.monotonic() - began
    assert {answer.status for answer in answers} == {201}
    assert took >= 39 / 50 * 0.98, f"40 were let through in {took:.2f} s at 50 a second"
    numbers = [int(answer.json()["order"]["no"]) for answer in answers]
    assert numbers == sorted(numbers), "arrival order"
    for sock in socks:
        sock.close()


def test_a_full_line_is_busy_and_a_long_wait_ends_in_504(server):
    shop = Shop(server)

    def all_at_once(_):
        """Where they do not come at once, the line is not full."""
        sale = shop.sale(stock=1000, admission="line", line={"rate_per_s": 1, "size": 5, "timeout_ms": 700})["id"]
        answers = [hear(sock) for sock in [park(server, sale, shop.buyer(f"b{i}")) for i in range(10)]]
        statuses = [answer.status for answer in answers]
        assert statuses.count(503) >= 4 and 504 in statuses
        return sale, answers, statuses
    sale, answers, statuses = unhurried(all_at_once, *[0.5] * 5)
    for answer in answers:
        if answer.status == 504:
            problem(answer, 504, "LINE_TIMEOUT")
    assert shop.show(sale)["sold"] == statuses.count(201), "who timed out takes no stock"
    assert waiting(shop) == 0


def test_when_stock_is_gone_everyone_waiting_is_told(server):
    shop = Shop(server)
    sale = shop.sale(stock=2, admission="line", line={"rate_per_s": 5, "size": 100, "timeout_ms": 60000})["id"]
    socks = [park(server, sale, shop.buyer(f"b{i}")) for i in range(30)]
    answers = [hear(sock) for sock in socks]
    assert [answer.status for answer in answers].count(201) == 2
    assert [answer.status for answer in answers].count(409) == 28
    assert waiting(shop) == 0


def test_whoever_leaves_the_line_takes_nothing(server):
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", line={"rate_per_s": 2, "size": 100, "timeout_ms": 60000})["id"]
    socks = [park(server, sale, shop.buyer(f"b{i}")) for i in range(20)]
    eventually(lambda: waiting(shop) >= 15)
    for sock in socks[3:]:
        sock.close()
    answers = [hear(sock) for sock in socks[:3]]
    assert {answer.status for answer in answers} == {201}
    eventually(lambda: waiting(shop) == 0)
    assert 3 <= shop.show(sale)["sold"] <= 8, "a few may have been let through before they left"


def test_what_is_known_is_told_without_waiting(server):
    """P7: a win asked again with its key does not stand in line again; neither does a plain refusal."""
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", line={"rate_per_s": 1, "size": 100, "timeout_ms": 60000})["id"]
    first = shop.grab(sale, "ann", key="k1")
    assert first.status == 201
    with park(server, sale, shop.buyer("slow")), park(server, sale, shop.buyer("slower")):
        began = time.monotonic()
        again = shop.grab(sale, "ann", key="k1")
        assert again.status == 201 and again.json()["order"] == first.json()["order"]
        problem(shop.grab(sale, "ann"), 409, "ALREADY_WON")
        problem(shop.grab(sale, "bob", units=2), 409, "OVER_LIMIT")
        assert time.monotonic() - began < 30


def test_pausing_tells_those_in_line(server):
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", line={"rate_per_s": 1, "size": 100, "timeout_ms": 60000})["id"]
    socks = [park(server, sale, shop.buyer(f"b{i}")) for i in range(6)]
    eventually(lambda: waiting(shop) >= 4)
    shop.act(sale, "pause")
    answers = [hear(sock) for sock in socks]
    assert {answer.status for answer in answers} <= {201, 409}
    assert any(answer.code == "PAUSED" for answer in answers if answer.status == 409)
    assert waiting(shop) == 0


def test_a_line_is_declared_by_name_in_the_configuration(own_server, tmp_path):
    conf = tmp_path / "s.conf"
    conf.write_text("line.front.rate = 100\nline.front.size = 50\nline.front.timeout_ms = 5000\n")
    server = own_server("--config", str(conf))
    shop = Shop(server)
    sale = shop.sale(stock=10, admission="line", line="front")
    assert sale["line"] == "front"
    assert shop.grab(sale["id"], "ann").status == 201
    answer = shop.client.post("/v1/sales", {"name": "other", "stock": 1, "admission": "line", "line": "nowhere"}, shop.seller_token)
    problem(answer, 400, "BAD_INPUT", "line")


def test_stopping_answers_those_in_line(server):
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", line={"rate_per_s": 1, "size": 100, "timeout_ms": 60000})["id"]
    socks = [park(server, sale, shop.buyer(f"b{i}")) for i in range(10)]
    eventually(lambda: waiting(shop) >= 8)
    shop.close()
    server.stop()
    for sock in socks:
        assert hear(sock).status in (201, 503)
        sock.close()


def test_a_refusal_of_one_does_not_empty_the_line_of_others(server):
    """P1: only when nothing at all is left are those in line told so."""
    shop = Shop(server)
    sale = shop.sale(stock=6, units_per_grab_max=50, admission="line", line={"rate_per_s": 2, "size": 100, "timeout_ms": 60000})["id"]
    socks = [park(server, sale, shop.buyer(f"b{i}")) for i in range(4)]
    problem(shop.grab(sale, "greedy", units=50), 409, "SOLD_OUT")
    answers = [hear(sock) for sock in socks]
    assert {answer.status for answer in answers} == {201}, answers
    assert shop.show(sale)["sold"] == 4


def test_a_full_line_of_one_sale_leaves_the_others_alone(server):
    """Refusals by a line are no failures: they open no breaker."""
    shop = Shop(server)
    lined = shop.sale(stock=100, admission="line", line={"rate_per_s": 1, "size": 1, "timeout_ms": 500})["id"]
    plain = shop.sale(stock=100)["id"]
    socks = [park(server, lined, shop.buyer(f"b{i}")) for i in range(40)]
    assert {hear(sock).status for sock in socks} <= {201, 503, 504}
    assert [shop.grab(plain, f"calm-{i}").status for i in range(5)] == [201] * 5


def test_who_left_with_much_said_takes_nothing(server):
    """A peer that sends far ahead and leaves is noticed in line, too."""
    shop = Shop(server)
    sale = shop.sale(stock=10, admission="line", line={"rate_per_s": 2, "size": 100, "timeout_ms": 60000})["id"]
    first = [park(server, sale, shop.buyer(f"first-{i}")) for i in range(3)]
    eventually(lambda: waiting(shop) + grabs(shop, "WON") >= 3)  # two reactors read as they come to it
    for i in range(3):
        with park(server, sale, shop.buyer(f"gone-{i}")) as sock:
            sock.sendall(b"POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + b" " * 50000)
            time.sleep(0.05)
    assert {hear(sock).status for sock in first} == {201}
    eventually(lambda: waiting(shop) == 0)
    assert shop.show(sale)["sold"] == 3


def test_who_is_blocked_while_in_line_wins_nothing(server):
    shop = Shop(server)
    sale = shop.sale(stock=10, admission="line", line={"rate_per_s": 1, "size": 100, "timeout_ms": 60000})["id"]
    socks = [park(server, sale, shop.buyer(name)) for name in ("a", "b")]
    eventually(lambda: waiting(shop) == 1)  # two reactors read as they come to it
    socks.append(park(server, sale, shop.buyer("mallory")))
    eventually(lambda: waiting(shop) + grabs(shop, "WON") >= 3)
    assert shop.client.post("/v1/blocks", {"entry": "user mallory"}, server.token("root", "admin")).status == 201
    assert [hear(sock).status for sock in socks] == [201, 201, 403]
    assert grabs(shop, "BLOCKED") == 1 and grabs(shop, "WON") == 2
    # Who is turned away before the line is the guard's to count, and no grab.
    problem(shop.client.post(f"/v1/sales/{sale}/grabs", None, shop.buyer("mallory")), 403, "BLOCKED")
    assert grabs(shop, "BLOCKED") == 1


def test_one_account_takes_no_more_slots_than_its_limit(server):
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", line=SLOW)["id"]
    taken(shop, server, sale)
    greedy = [park(server, sale, shop.buyer("greedy"), key=f"k{i}" if i % 2 else None) for i in range(20)]
    eventually(lambda: grabs(shop, "BUSY") == 19)
    assert waiting(shop) == 1
    ann = park(server, sale, shop.buyer("ann"))
    answers = [hear(sock) for sock in greedy]
    assert sorted(answer.status for answer in answers) == [201] + [503] * 19
    for answer in answers:
        if answer.status == 503:
            refusal = problem(answer, 503, "BUSY")
            assert "in this line already" in refusal["detail"] and int(answer.headers["retry-after"]) >= 1
    assert hear(ann).status == 201
    assert outcomes(shop, "twice") == 19 and outcomes(shop, "admitted") == 3
    assert shop.show(sale)["sold"] == 3


def test_who_reaches_his_limit_is_told_at_once_and_eats_no_slot(own_server):
    """One reactor, so that the order of sending is the order of arrival."""
    server = own_server("--reactors", "1")
    shop = Shop(server)
    sale = shop.sale(stock=100, grabs_per_buyer_max=2, admission="line", line=SLOW)["id"]
    first = hear(park(server, sale, shop.buyer("ann")))
    assert first.status == 201
    again = [park(server, sale, shop.buyer("ann"), key=key) for key in (None, "k")]
    eventually(lambda: waiting(shop) == 2)
    problem(shop.grab(sale, "ann"), 503, "BUSY")
    repeat = park(server, sale, shop.buyer("ann"), key="k")
    eventually(lambda: parked(shop) == 3)
    bob = park(server, sale, shop.buyer("bob"))
    answers = [hear(sock) for sock in again]
    assert answers[0].status == 201
    for answer in (answers[1], hear(repeat)):
        assert problem(answer, 409, "ALREADY_WON")["order"] == answers[0].json()["order"]
    assert hear(bob).status == 201
    assert outcomes(shop, "served") == 2 and outcomes(shop, "admitted") == 3, "one for each win"


def test_the_same_key_in_line_waits_and_gets_the_same_answer(server):
    """P7, while the first is in flight: neither refused nor let through twice."""
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", line=SLOW)["id"]
    taken(shop, server, sale)
    socks = [park(server, sale, shop.buyer("ann"), key="k") for _ in range(5)]
    eventually(lambda: parked(shop) == 5)
    assert waiting(shop) == 1
    answers = [hear(sock) for sock in socks]
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json()["order"]["no"] for answer in answers}) == 1
    assert shop.show(sale)["sold"] == 2
    assert outcomes(shop, "repeated") == 4 and parked(shop) == 0


def test_the_same_key_keeps_the_place_of_a_lost_connection(own_server):
    server = own_server("--reactors", "1")
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", line=SLOW)["id"]
    taken(shop, server, sale)
    lost = park(server, sale, shop.buyer("ann"), key="k")
    eventually(lambda: waiting(shop) == 1)
    bob = park(server, sale, shop.buyer("bob"))
    eventually(lambda: waiting(shop) == 2)
    again = park(server, sale, shop.buyer("ann"), key="k")
    eventually(lambda: parked(shop) == 3 or waiting(shop) < 2)
    lost.close()
    first, second = hear(again), hear(bob)
    assert (first.status, second.status) == (201, 201)
    assert int(first.json()["order"]["no"]) < int(second.json()["order"]["no"])
    assert shop.show(sale)["sold"] == 3


def test_the_same_key_waits_no_longer_than_the_first(server):
    shop = Shop(server)

    def before_the_next_slot(_):
        sale = shop.sale(stock=100, admission="line", line={"rate_per_s": 1, "size": 100, "timeout_ms": 600})["id"]
        before = grabs(shop, "LINE_TIMEOUT"), outcomes(shop, "timed_out")
        taken(shop, server, sale)
        for sock in [park(server, sale, shop.buyer("ann"), key="k") for _ in range(3)]:
            problem(hear(sock), 504, "LINE_TIMEOUT")
        assert (grabs(shop, "LINE_TIMEOUT"), outcomes(shop, "timed_out")) == (before[0] + 3, before[1] + 3)
        assert shop.show(sale)["sold"] == 1
    unhurried(before_the_next_slot, *[0.3] * 5)


def test_past_admit_max_the_same_key_in_line_is_still_the_same_grab(server):
    """P7: the first was admitted; a repeat is no other request, and is told BUSY only where it could take something of its own."""
    shop = Shop(server)
    sale = shop.sale(stock=10, admission="line", admit_max=2, grabs_per_buyer_max=2, line=SLOW)["id"]
    taken(shop, server, sale)
    first = park(server, sale, shop.buyer("ann"), key="k")
    eventually(lambda: parked(shop) == 1)
    problem(hear(park(server, sale, shop.buyer("bob"), key="k")), 503, "BUSY")
    problem(hear(park(server, sale, shop.buyer("ann"), key="other")), 503, "BUSY")
    again = park(server, sale, shop.buyer("ann"), key="k")
    answers = [hear(first), hear(again)]
    assert [answer.status for answer in answers] == [201, 201]
    assert answers[0].json()["order"] == answers[1].json()["order"]
    assert shop.show(sale)["sold"] == 2


def test_past_admit_max_the_same_key_takes_over_from_a_lost_connection(own_server):
    """The place among those admitted comes back with the first, and is the repeat's if nobody else has taken it."""
    server = own_server("--reactors", "1")
    shop = Shop(server)
    sale = shop.sale(stock=10, admission="line", admit_max=3, line={**SLOW, "rate_per_s": 1})["id"]
    taken(shop, server, sale)
    front = park(server, sale, shop.buyer("front"))
    eventually(lambda: parked(shop) == 1)
    first = park(server, sale, shop.buyer("ann"), key="k")
    eventually(lambda: parked(shop) == 2)
    again = park(server, sale, shop.buyer("ann"), key="k")
    eventually(lambda: parked(shop) == 3 or shop.show(sale)["sold"] > 1)
    first.close()
    assert hear(again).status == 201 and hear(front).status == 201
    problem(hear(park(server, sale, shop.buyer("bob"))), 503, "BUSY")
    assert shop.show(sale)["sold"] == 3


def test_the_same_key_with_another_body_is_another_grab(server):
    shop = Shop(server)
    sale = shop.sale(stock=100, units_per_grab_max=5, grabs_per_buyer_max=2, admission="line", line=LINE)["id"]
    taken(shop, server, sale)
    first = park(server, sale, shop.buyer("ann"), key="k")
    eventually(lambda: parked(shop) == 0)
    assert hear(first).status == 201
    problem(hear(park(server, sale, shop.buyer("ann"), key="k", body={"units": 2})), 422, "KEY_REUSED")


def test_when_the_time_is_over_all_hear_so_at_once(server):
    """Forty in a line of one a second: were they told in their slots, the last would hear after forty seconds."""
    shop = Shop(server)
    admitted = 0

    def in_line(closes_in_s):
        nonlocal admitted
        admitted = outcomes(shop, "admitted")
        sale = shop.sale(stock=100, closes_at=time_text(closes_in_s), admission="line", line=SLOW)["id"]
        socks = [park(server, sale, shop.buyer(f"b{i}")) for i in range(40)]
        eventually(lambda: waiting(shop) >= 30 or shop.show(sale)["state"] == "closed")
        path = place_of(shop, sale, "page")
        assert state_of(shop, path, "page") == "waiting"
        return socks, path
    socks, path = unhurried(in_line, 3, 15, 45)
    answers = [hear(sock) for sock in socks]
    for answer in answers:
        assert answer.status == 201 or problem(answer, 409, "CLOSED")
    place = shop.client.get(path, shop.buyer("page"))  # a sale that is over leaves memory, and then answers for itself
    assert place.status == 200 and place.json()["state"] == "closed" or problem(place, 409, "CLOSED")
    assert waiting(shop) == 0
    assert outcomes(shop, "closed") >= 30 and outcomes(shop, "admitted") - admitted < 30, "told in their slots"
    assert grabs(shop, "CLOSED") >= 29


def test_when_the_rest_is_withdrawn_all_are_told_sold_out(server):
    shop = Shop(server)
    sale = shop.sale(stock=50, admission="line", line=SLOW)["id"]
    socks = [park(server, sale, shop.buyer(f"b{i}")) for i in range(30)]
    eventually(lambda: waiting(shop) >= 20)
    path = place_of(shop, sale, "page")
    while (left := shop.show(sale)["available"]) > 0:  # some may win meanwhile
        shop.act(sale, "stock", {"add": -left})
    answers = [hear(sock) for sock in socks]
    for answer in answers:
        assert answer.status == 201 or problem(answer, 409, "SOLD_OUT")
    assert state_of(shop, path, "page") == "sold_out"
    assert waiting(shop) == 0 and outcomes(shop, "sold_out") >= 20
    assert grabs(shop, "SOLD_OUT") >= 19


def test_answers_of_the_line_are_counted_like_any_other(server):
    shop = Shop(server)
    sale = shop.sale(stock=3, admission="line", line={"rate_per_s": 5, "size": 2, "timeout_ms": 60000})["id"]
    socks = [park(server, sale, shop.buyer(f"b{i}")) for i in range(12)]
    answers = [hear(sock) for sock in socks]
    told = [("WON" if answer.status == 201 else answer.code) for answer in answers]
    for verdict in ("WON", "BUSY", "SOLD_OUT"):
        assert grabs(shop, verdict) == told.count(verdict), verdict
    assert outcomes(shop, "full") == told.count("BUSY") > 0
    assert sum(outcomes(shop, word) for word in ("admitted", "full", "sold_out")) == 12


def log_has(server, *words):
    return any(all(word in line for word in words) for line in server.log_path.read_text().splitlines())


def test_a_line_that_is_declared_no_more_is_said_to_be(own_server, tmp_path):
    """Its sale's buyers hear why they cannot win, its operator what to do, at SIGHUP and at the next start."""
    conf = tmp_path / "s.conf"
    declared = "line.front.rate = 100\n"
    conf.write_text(declared)
    server = own_server("--config", str(conf))
    shop = Shop(server)
    sale = shop.sale(stock=10, admission="line", line="front")["id"]
    assert shop.grab(sale, "ann").status == 201

    conf.write_text("line.back.rate = 100\n")
    os.kill(server.pid, signal.SIGHUP)
    eventually(lambda: log_has(server, f"sale {sale} ", "line front", "line.front.rate"))
    for answer in (shop.grab(sale, "bob"), shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer("bob"))):
        refusal = problem(answer, 503, "BUSY")
        assert "not declared" in refusal["detail"] and int(answer.headers["retry-after"]) > 1
    problem(shop.grab(sale, "ann"), 409, "ALREADY_WON")
    named = {"name": "other", "stock": 1, "admission": "line", "line": "front"}
    problem(shop.client.post("/v1/sales", named, shop.seller_token), 400, "BAD_INPUT", "line")
    assert shop.sale(stock=1, admission="line", line="back")["line"] == "back"

    warned = len(re.findall(f"sale {sale} ", server.log_path.read_text()))
    server.restart()
    assert len(re.findall(f"sale {sale} ", server.log_path.read_text())) > warned
    conf.write_text(declared)
    os.kill(server.pid, signal.SIGHUP)
    shop = Shop(server, shop.seller)
    eventually(lambda: shop.grab(sale, "bob").status in (201, 409))
    assert shop.show(sale)["sold"] == 2
