"""The line: parked connections are let through in order at a fixed rate, and nobody who waited in vain takes stock."""

import time

import pytest

from harness import Shop, eventually
from wire import answer_take, problem, request_bytes

LINE = {"rate_per_s": 50, "size": 100, "timeout_ms": 30000}


@pytest.fixture
def server(own_server):
    return own_server("--config", "/dev/null")


def park(server, sale, token, key=None):
    sock = server.raw(60)
    sock.sendall(request_bytes("POST", f"/v1/sales/{sale}/grabs", None, token, key=key))
    return sock


def hear(sock, seconds=30):
    sock.settimeout(seconds)
    data = bytearray()
    while True:
        answer = answer_take(data)
        if answer is not None:
            return answer
        piece = sock.recv(65536)
        assert piece, "closed without an answer"
        data += piece


def waiting(shop):
    text = shop.client.get("/metrics").body.decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("stampede_line_waiting ")))


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
    sale = shop.sale(stock=1000, admission="line", line={"rate_per_s": 1, "size": 5, "timeout_ms": 700})["id"]
    socks = [park(server, sale, shop.buyer(f"b{i}")) for i in range(10)]
    answers = [hear(sock) for sock in socks]
    statuses = [answer.status for answer in answers]
    assert statuses.count(503) >= 4 and 504 in statuses
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
        assert time.monotonic() - began < 10


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


def test_a_place_is_polled_until_it_is_worth_a_token(server):
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", line={"rate_per_s": 20, "size": 100, "timeout_ms": 60000})["id"]
    token = shop.buyer("ann")
    place = shop.client.post(f"/v1/sales/{sale}/line", None, token)
    assert place.status in (200, 201), place
    assert shop.client.post(f"/v1/sales/{sale}/line", None, token).json()["place"] == place.json()["place"]
    path = f"/v1/sales/{sale}/line/{place.json()['place']}"
    problem(shop.client.get(path, shop.buyer("bob")), 404, "NO_SUCH_PLACE")
    eventually(lambda: shop.client.get(path, token).json()["state"] == "admitted")
    admitted = shop.client.get(path, token).json()
    won = shop.client.post(f"/v1/sales/{sale}/grabs", {"token": admitted["token"]}, token)
    assert won.status == 201
    problem(shop.client.post(f"/v1/sales/{sale}/grabs", {"token": admitted["token"]}, shop.buyer("bob")), 403, "TOKEN_INVALID")


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
    socks = [park(server, sale, shop.buyer(name)) for name in ("a", "b", "mallory")]
    eventually(lambda: waiting(shop) >= 2)
    assert shop.client.post("/v1/blocks", {"entry": "user mallory"}, server.token("root", "admin")).status == 201
    assert [hear(sock).status for sock in socks] == [201, 201, 403]
