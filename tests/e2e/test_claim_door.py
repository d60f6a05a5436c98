"""The claim door: GET and POST /luck/{sale} and /luck. The first to come win and are numbered from 1, the rest are numbered on."""

import concurrent.futures
import re
import signal
import subprocess

import pytest
from harness import Shop, answers_in, crowd, eventually, read_to_end, request_bytes, time_text, unhurried

ANSWER = re.compile(rb'\{"won":(true|false),"claim":(\d+)\} *\n')


def claims(answers):
    """(winners, losers) by their numbers; every answer is a 200 of one length."""
    sides = {True: [], False: []}
    for answer in answers:
        assert answer.status == 200 and ANSWER.fullmatch(answer.body), answer
        assert answer.headers["cache-control"] == "no-store", answer
        seen = answer.json()
        sides[seen["won"]].append(seen["claim"])
    assert len({len(answer.body) for answer in answers}) == 1, "ab counts an answer of another length as failed"
    return sorted(sides[True]), sorted(sides[False])


def claim(shop, sale, **more):
    return shop.client.get(f"/luck/{sale}", **more)


def stats(shop, sale):
    answer = shop.client.get(f"/v1/sales/{sale}/stats", shop.seller_token)
    assert answer.status == 200, answer
    return answer.json()


@pytest.mark.parametrize("flags", [[], ["-k"]], ids=["HTTP/1.0", "HTTP/1.0 keep-alive"])
def test_ab_on_a_sale_of_ten_finds_ten_winners_and_no_failed_request(shop, flags):
    sale = shop.sale(stock=10, admission="open")["id"]
    done = subprocess.run(["ab", *flags, "-v", "4", "-c", "20", "-n", "100", f"http://{shop.server.host}:{shop.server.port}/luck/{sale}"],
                          capture_output=True, timeout=120)
    text = done.stdout.decode()
    assert done.returncode == 0, text + done.stderr.decode()
    assert re.search(r"^Complete requests: +100$", text, re.M) and re.search(r"^Failed requests: +0$", text, re.M), text
    assert "Non-2xx" not in text, text
    if flags:
        assert re.search(r"^Keep-Alive requests: +100$", text, re.M), text
    told = [(won == "true", int(number)) for won, number in re.findall(r'\{"won":(true|false),"claim":(\d+)\}', text)]
    assert sorted(number for won, number in told if won) == list(range(1, 11))
    assert sorted(number for won, number in told if not won) == list(range(11, 101))
    assert shop.counts(sale) == (10, 0, 0, 10)
    listed = shop.listed(f"/v1/orders?sale={sale}", shop.seller_token)
    assert sorted(order["buyer"] for order in listed) == sorted(f"claim:{n}" for n in range(1, 11))
    assert stats(shop, sale)["verdicts"] == {"WON": 10, "SOLD_OUT": 90}


def test_a_crowd_is_numbered_without_gap_or_repeat(shop):
    sale = shop.sale(stock=25, admission="open")["id"]
    methods = ("GET", "POST")
    answers = crowd(shop.server, [request_bytes(methods[i % 2], f"/luck/{sale}") for i in range(400)], 64)
    assert claims(answers) == (list(range(1, 26)), list(range(26, 401)))


def test_losers_are_above_whoever_may_still_win(shop):
    """One who comes too early has a number that no winner gets."""
    def too_early(opens_in_s):
        sale = shop.sale(stock=3, admission="open", opens_at=time_text(opens_in_s))["id"]
        assert claims([claim(shop, sale) for _ in range(2)]) == ([], [4, 5])
        return sale
    sale = unhurried(too_early)
    eventually(lambda: shop.show(sale)["state"] == "open", 20)
    assert claims([claim(shop, sale) for _ in range(5)]) == ([1, 2, 3], [6, 7])


def test_paused_and_closed_is_lost_and_resumed_is_not(shop):
    sale = shop.sale(stock=2, admission="open")["id"]
    assert claims([claim(shop, sale)]) == ([1], [])
    assert shop.act(sale, "pause").status == 200
    assert claims([claim(shop, sale)]) == ([], [3])
    assert shop.act(sale, "resume").status == 200
    assert claims([claim(shop, sale)]) == ([2], [])
    assert shop.act(sale, "close").status == 200
    assert claims([claim(shop, sale)]) == ([], [4])


def test_stock_that_comes_back_can_be_won(shop):
    sale = shop.sale(stock=1, admission="open")["id"]
    assert claims([claim(shop, sale), claim(shop, sale)]) == ([1], [2])
    assert shop.act(sale, "stock", {"add": 2}).status == 200
    winners, losers = claims([claim(shop, sale) for _ in range(4)])
    assert winners == [2, 3] and losers == [4, 5]


def test_a_closed_sale_that_nobody_lost_has_no_number_to_go_on_from(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=2, admission="open")["id"]
    assert claims([claim(shop, sale)]) == ([1], [])
    assert shop.act(sale, "close").status == 200
    shop.close()
    server.restart()
    shop = Shop(server, shop.seller)
    eventually(lambda: claims([claim(shop, sale)]) == ([], [0]), 20)
    shop.close()


def test_after_a_restart_winners_keep_their_numbers_and_losers_are_numbered_from_above_them(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=3, admission="open")["id"]
    assert claims([claim(shop, sale) for _ in range(2)]) == ([1, 2], [])
    shop.close()
    server.restart(kill=True)
    shop = Shop(server, shop.seller)
    assert claims([claim(shop, sale) for _ in range(3)]) == ([3], [4, 5])
    shop.close()
    server.restart(kill=True)
    shop = Shop(server, shop.seller)
    assert claims([claim(shop, sale) for _ in range(2)]) == ([], [4, 5])
    assert sorted(order["buyer"] for order in shop.listed(f"/v1/orders?sale={sale}", shop.seller_token)) == ["claim:1", "claim:2", "claim:3"]
    shop.close()


def test_the_number_told_is_the_number_kept(shop):
    """Who claims at the same time as others grab natively is numbered among them."""
    sale = shop.sale(stock=4, admission="open")["id"]
    first = shop.win(sale)["buyer"]
    assert first == "claim:1" and claim(shop, sale).json() == {"won": True, "claim": 2}
    assert shop.win(sale, key="k")["buyer"] == "key:k"
    assert claim(shop, sale).json() == {"won": True, "claim": 4}


def test_a_claim_asked_again_with_its_key_is_the_same_claim(shop):
    sale = shop.sale(stock=3, admission="open")["id"]
    assert claim(shop, sale).json()["claim"] == 1
    for _ in range(3):
        assert claim(shop, sale, key="mine").json() == {"won": True, "claim": 2}
    assert claim(shop, sale).json()["claim"] == 3
    assert shop.act(sale, "close").status == 200
    assert claim(shop, sale, key="mine").json() == {"won": True, "claim": 2}
    assert claim(shop, sale, key="other").json()["won"] is False
    assert shop.counts(sale) == (3, 0, 0, 3)


def test_a_login_makes_no_difference(shop):
    sale = shop.sale(stock=3, admission="open")["id"]
    assert claims([claim(shop, sale, token=token) for token in (shop.buyer("ann"), shop.buyer("ann"), shop.seller_token, "rubbish")]) == ([1, 2, 3], [4])


def test_whatever_stands_in_query_and_body_takes_one(shop):
    sale = shop.sale(stock=3, admission="open", units_per_grab_max=3)["id"]
    assert claims([shop.client.get(f"/luck/{sale}?units=-100&quantity=99999999999999999999"), shop.client.post(f"/luck/{sale}", {"units": 3}),
                   shop.client.post(f"/luck/{sale}", b"units=0", headers={"Content-Type": "application/x-www-form-urlencoded"})]) == ([1, 2, 3], [])


def test_head_takes_nothing(shop):
    """Whoever looks a link over before people click it asks with HEAD."""
    sale = shop.sale(stock=1, admission="open")["id"]
    answer = shop.client.request("HEAD", f"/luck/{sale}")
    assert answer.status == 405 and answer.headers["allow"] == "GET, POST" and answer.body == b"", answer
    assert shop.counts(sale) == (1, 1, 0, 0)


@pytest.mark.parametrize("version,connection,kept", [("1.0", None, False), ("1.0", "keep-alive", True), ("1.1", None, True), ("1.1", "close", False)])
def test_old_clients_are_served_with_and_without_keep_alive(shop, version, connection, kept):
    sale = shop.sale(stock=2, admission="open")["id"]
    head = f"GET /luck/{sale} HTTP/{version}\r\n" + ("Host: x\r\n" if version == "1.1" else "") + (f"Connection: {connection}\r\n" if connection else "")
    with shop.server.raw() as sock:
        sock.sendall(head.encode() + b"\r\n")
        data, end = read_to_end(sock, 1.5 if kept else 10)
        assert claims(answers_in(data)) == ([1], []) and end == (None if kept else "closed")
        if kept:
            sock.sendall(head.encode() + b"\r\n")
            assert claims(answers_in(read_to_end(sock, 1.5)[0])) == ([2], [])


@pytest.mark.parametrize("sale", ["0", "999999999", "18446744073709551616", "-1", "abc", "%31", "1.0"])
def test_no_such_sale(shop, sale):
    answer = claim(shop, sale)
    assert answer.status == 404 and answer.json()["code"] == "NO_SUCH_SALE" and answer.json()["won"] is False, answer


@pytest.mark.parametrize("admission", ["login", "token", "line"])
def test_a_sale_that_is_not_open_to_everyone_is_not_here(shop, admission):
    more = {"line": {"rate_per_s": 100, "size": 10, "timeout_ms": 1000}} if admission == "line" else {}
    sale = shop.sale(stock=1, admission=admission, **more)["id"]
    for token in (None, shop.buyer("ann")):
        answer = claim(shop, sale, token=token)
        assert answer.status == 404 and answer.json()["code"] == "NO_SUCH_SALE", answer
    assert shop.counts(sale) == (1, 1, 0, 0)


@pytest.mark.parametrize("admission", ["login", "open"])
def test_a_sale_that_is_over_is_here_only_if_it_was_open_to_everyone(own_server, admission):
    """One that never was is no lost claim: it could not be won here."""
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=2, admission=admission)["id"]
    assert shop.act(sale, "close").status == 200
    shop.close()
    server.restart()  # and memory has it no more
    shop = Shop(server, shop.seller)
    for more in ({}, {"key": "again"}, {}):
        answer = claim(shop, sale, **more)
        if admission == "open":
            assert claims([answer]) == ([], [0])
        else:
            assert answer.status == 404 and answer.json()["code"] == "NO_SUCH_SALE" and answer.json()["won"] is False, answer
    shop.close()


def test_luck_without_a_number_is_the_sale_the_operator_names(own_server, tmp_path):
    conf = tmp_path / "conf"
    conf.write_text("door_luck_sale = 0\n")
    server = own_server("--config", conf)
    shop = Shop(server)
    answer = shop.client.get("/luck")
    assert answer.status == 404 and answer.json()["code"] == "NO_SUCH_SALE", answer
    sales = [shop.sale(stock=1, admission="open")["id"] for _ in range(2)]
    for sale in sales:
        conf.write_text(f"door_luck_sale = {sale}\n")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: shop.client.get("/luck").status == 200 and shop.counts(sale)[1] == 0)
    assert shop.client.post("/luck").json()["won"] is False
    shop.close()


def test_a_door_that_is_shut_is_not_there(own_server):
    server = own_server("--door-claim", "off")
    shop = Shop(server)
    sale = shop.sale(stock=1, admission="open")["id"]
    for path in (f"/luck/{sale}", "/luck"):
        answer = shop.client.get(path)
        assert answer.status == 404 and answer.code == "NO_SUCH_ROUTE", answer
    assert shop.counts(sale) == (1, 1, 0, 0)
    shop.close()


def test_refusals_of_the_guard_have_their_status_in_the_words_of_the_door(own_server):
    server = own_server("--limits", "ip_grab_per_s=1,ip_grab_burst=3")
    shop = Shop(server)
    sale = shop.sale(stock=2, admission="open")["id"]
    answers = [claim(shop, sale) for _ in range(5)]
    assert claims(answers[:3]) == ([1, 2], [3])
    for answer in answers[3:]:
        assert answer.status == 429 and answer.json()["won"] is False and answer.json()["code"] == "RATE_LIMITED", answer
        assert int(answer.headers["retry-after"]) >= 1 and answer.headers["cache-control"] == "no-store"
    assert shop.client.post("/v1/blocks", {"entry": "ip 127.0.0.1"}, shop.admin_token).status == 201
    answer = claim(shop, sale)
    assert answer.status == 403 and answer.json()["code"] == "BLOCKED", answer
    shop.close()


def test_admit_max_is_busy_and_takes_nothing(shop):
    sale = shop.sale(stock=5, admission="open", admit_max=2)["id"]
    answers = [claim(shop, sale) for _ in range(4)]
    assert claims(answers[:2]) == ([1, 2], [])
    for answer in answers[2:]:
        assert answer.status == 503 and answer.json()["code"] == "BUSY" and "retry-after" in answer.headers, answer
    assert shop.counts(sale)[3] == 2


def test_losing_costs_no_disk(shop):
    sale = shop.sale(stock=1, admission="open")["id"]
    assert claims([claim(shop, sale)]) == ([1], [])

    def commits():
        return int(re.search(r"^stampede_commit_seconds_count (\d+)$", shop.client.get("/metrics").body.decode(), re.M).group(1))
    before = commits()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: crowd(shop.server, [request_bytes("GET", f"/luck/{sale}")] * 200, 4), range(4)))
    assert commits() == before
    assert stats(shop, sale)["verdicts"] == {"WON": 1, "SOLD_OUT": 800}


def test_what_is_no_route_and_a_body_too_large_are_answered_as_refusals(server):
    with server.connect() as client:
        answers = [client.get("/luck/1/2"), client.request("PUT", "/luck"), client.request("DELETE", "/luck/1"), client.post("/luck/1", b"x" * 65537)]
    seen = [(answer.status, answer.json()["code"]) for answer in answers]
    assert seen == [(404, "NO_SUCH_ROUTE"), (405, "METHOD_NOT_ALLOWED"), (405, "METHOD_NOT_ALLOWED"), (413, "BODY_TOO_LARGE")]
    for answer in answers:
        assert list(answer.json()) == ["won", "code", "detail"] and answer.json()["won"] is False, answer
        assert answer.headers["content-type"] == "application/json" and answer.headers["cache-control"] == "no-store", answer
        assert answer.headers.get("allow") == ("GET, POST" if answer.status == 405 else None), answer
