"""The guard in front of the gate: rates, login protection, block list, proxies. Every refusal is true, costs nothing and says when to come again."""

import concurrent.futures
import os
import signal
import time

import pytest

from harness import Shop, eventually
from wire import problem, request_bytes

QUIET = "user_grab_per_s=1,user_grab_burst=3"


def admin(server):
    return server.token("root", "admin")


def limits_put(server, **limits):
    with server.connect() as client:
        return client.request("PUT", "/v1/limits", limits, admin(server))


@pytest.fixture
def server(own_server):
    return own_server()


def test_limits_are_shown_changed_and_refused_when_wrong(server):
    with server.connect() as client:
        before = client.get("/v1/limits", admin(server)).json()
        assert before["ip_grab_per_s"] >= 1000, "one office behind one address can buy"
        changed = client.request("PUT", "/v1/limits", {"user_grab_per_s": 7, "user_grab_burst": 9}, admin(server))
        assert changed.status == 200 and changed.json() == before | {"user_grab_per_s": 7, "user_grab_burst": 9}
        assert client.get("/v1/limits", admin(server)).json() == changed.json()
        for wrong in ({"user_grab_per_s": -1}, {"user_grab_burst": 0}, {"nonsense": 1}, {"user_grab_per_s": "7"}, {"user_grab_per_s": 2**63}):
            problem(client.request("PUT", "/v1/limits", wrong, admin(server)), 400, "BAD_INPUT")
        assert client.get("/v1/limits", admin(server)).json() == changed.json()
        problem(client.get("/v1/limits", server.token("sam", "seller")), 403, "FORBIDDEN")


def test_a_user_beyond_the_rate_hears_429_and_others_do_not(server):
    shop = Shop(server)
    sale = shop.sale(stock=1000, grabs_per_buyer_max=1000)["id"]
    assert limits_put(server, user_grab_per_s=1, user_grab_burst=3).status == 200
    statuses = [shop.grab(sale, "fast").status for _ in range(8)]
    assert statuses[:3] == [201] * 3 and set(statuses[4:]) <= {429, 201} and statuses.count(429) >= 3
    refused = shop.grab(sale, "fast")
    if refused.status == 429:
        problem(refused, 429, "RATE_LIMITED")
        assert int(refused.headers["retry-after"]) >= 1
        assert "remaining=0" in refused.headers["ratelimit"]
    assert shop.grab(sale, "calm").status == 201
    sold = shop.show(sale)["sold"]
    assert sold == statuses.count(201) + 1 + (refused.status == 201), "a refusal takes nothing"


def test_an_address_beyond_the_rate_hears_429_whatever_its_users(server):
    shop = Shop(server)
    sale = shop.sale(stock=1000)["id"]
    assert limits_put(server, ip_grab_per_s=1, ip_grab_burst=5).status == 200
    statuses = [shop.grab(sale, f"user-{i}").status for i in range(12)]
    assert statuses[:5] == [201] * 5 and statuses.count(429) >= 5


def test_bad_input_and_no_login_come_before_the_rate(server):
    """api.md: first that applies."""
    shop = Shop(server)
    sale = shop.sale()["id"]
    assert limits_put(server, ip_grab_per_s=1, ip_grab_burst=1).status == 200
    for _ in range(5):
        problem(shop.grab(sale, "ann", units=0), 400, "BAD_INPUT")
        problem(shop.client.post(f"/v1/sales/{sale}/grabs"), 401, "NOT_LOGGED_IN")
    assert shop.grab(sale, "ann").status == 201


def test_limits_of_the_configuration_count_and_sighup_changes_them(own_server, tmp_path):
    conf = tmp_path / "s.conf"
    conf.write_text("limits = user_grab_per_s=1, user_grab_burst=2\n")
    server = own_server("--config", str(conf))
    shop = Shop(server)
    sale = shop.sale(stock=100, grabs_per_buyer_max=100)["id"]
    assert [shop.grab(sale, "ann").status for _ in range(4)].count(429) >= 1
    conf.write_text("limits = user_grab_per_s=0\n")
    os.kill(server.pid, signal.SIGHUP)
    eventually(lambda: [shop.grab(sale, "ann").status for _ in range(4)] == [201] * 4)
    conf.write_text("limits = nonsense=1\n")
    os.kill(server.pid, signal.SIGHUP)
    time.sleep(0.3)
    assert shop.grab(sale, "ann").status == 201


def test_x_forwarded_for_counts_only_from_a_proxy(own_server):
    """P8: anybody can write the header."""
    for proxies, counts in (("", False), ("127.0.0.1", True), ("10.0.0.0/8", False)):
        server = own_server("--proxies", proxies)
        shop = Shop(server)
        sale = shop.sale(stock=1000)["id"]
        assert limits_put(server, ip_grab_per_s=1, ip_grab_burst=2).status == 200
        statuses = []
        for i in range(8):
            headers = {"X-Forwarded-For": f"198.51.100.{i}"}
            statuses.append(shop.client.request("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i}"), headers=headers).status)
        assert (429 not in statuses) == counts, (proxies, statuses)
        if counts:  # what stands left of the proxy's own entry is the client's writing
            spoofed = [shop.client.request("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"s{i}"),
                                           headers={"X-Forwarded-For": f"203.0.113.{i}, 198.51.100.99"}).status for i in range(6)]
            assert 429 in spoofed


def test_ten_tries_a_minute_and_no_more(server):
    """P8: guessing is slow, and an unknown account behaves as a known one."""
    shop = Shop(server)
    with server.connect() as client:
        assert client.post("/v1/users", {"username": "known", "password": "the right one", "role": "customer"}).status == 201
        for name in ("known", "unknown"):
            answers = [client.post("/v1/login", {"username": name, "password": f"guess {i}"}) for i in range(25)]
            tried = [answer for answer in answers if answer.status == 401]
            assert 1 <= len(tried) <= 10, len(tried)
            refused = [answer for answer in answers if answer.status != 401]
            for answer in refused:
                problem(answer, 429, "TOO_MANY_TRIES")
                assert int(answer.headers["retry-after"]) >= 1
        assert client.post("/v1/users", {"username": "other", "password": "the right one", "role": "customer"}).status == 201
        assert client.post("/v1/login", {"username": "other", "password": "the right one"}).status == 200
    sale = shop.sale()["id"]
    assert shop.grab(sale, "ann").status == 201


def test_an_owner_elsewhere_gets_in_while_somebody_guesses(own_server):
    server = own_server("--proxies", "127.0.0.1")
    with server.connect() as client:
        assert client.post("/v1/users", {"username": "owner", "password": "the right one", "role": "customer"}).status == 201
        guesser, home = {"X-Forwarded-For": "203.0.113.7"}, {"X-Forwarded-For": "198.51.100.1"}
        for i in range(12):
            client.request("POST", "/v1/login", {"username": "owner", "password": f"guess {i}"}, headers=guesser)
        assert client.request("POST", "/v1/login", {"username": "owner", "password": "the right one"}, headers=home).status == 200


def test_the_blocked_are_turned_away_at_once_and_let_in_again(server):
    shop = Shop(server)
    sale = shop.sale(stock=100)["id"]
    shop.win(sale, "before")
    with server.connect() as client:
        assert client.post("/v1/blocks", {"entry": "user mallory"}, admin(server)).status == 201
        problem(shop.grab(sale, "mallory"), 403, "BLOCKED")
        problem(client.get("/v1/orders", server.token("mallory")), 403, "BLOCKED")
        assert shop.grab(sale, "Mallory").status == 201
        assert client.request("DELETE", "/v1/blocks/user%20mallory", None, admin(server)).status == 204
        assert shop.grab(sale, "mallory").status == 201


def test_a_block_list_changed_by_hand_is_taken_up(own_server):
    server = own_server("--proxies", "127.0.0.1")
    shop = Shop(server)
    sale = shop.sale(stock=100)["id"]
    path = server.data / "blocks"
    fresh = path.with_name("blocks.new")
    fresh.write_text("ip 203.0.113.0/24\nuser eve\n")
    fresh.rename(path)

    def grab(buyer, address):
        return shop.client.request("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(buyer), headers={"X-Forwarded-For": address})

    eventually(lambda: grab("eve", "198.51.100.1").status == 403)
    problem(grab("ann", "203.0.113.9"), 403, "BLOCKED")
    assert grab("ann", "198.51.100.1").status == 201


def test_connections_of_one_address_are_bounded(own_server):
    server = own_server("--limits", "connections_per_ip=20")
    socks = [server.raw() for _ in range(20)]
    try:
        for sock in socks:  # each has been taken in once it is answered
            sock.sendall(request_bytes("GET", "/healthz"))
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        with server.raw() as one_more:
            one_more.sendall(request_bytes("GET", "/healthz"))
            data = one_more.recv(4096)
            assert data == b"" or data.startswith(b"HTTP/1.1 503")
    finally:
        for sock in socks:
            sock.close()

    def served():
        try:
            with server.connect() as client:
                return client.get("/healthz").status == 200
        except (AssertionError, OSError):
            return False

    eventually(served)


def test_every_check_is_counted(server):
    shop = Shop(server)
    sale = shop.sale(stock=100)["id"]
    assert limits_put(server, user_grab_per_s=1, user_grab_burst=1).status == 200
    for _ in range(4):
        shop.grab(sale, "ann")
    text = shop.client.get("/metrics").body.decode()
    for check in ("blocked_address", "blocked_user", "rate", "shed", "breaker"):
        assert f'stampede_guard_refused_total{{check="{check}"}}' in text
    assert 'stampede_guard_refused_total{check="rate"} 0' not in text


def test_the_crowd_is_not_limited_by_default(server):
    """One office behind one address: 2,000 buyers at once."""
    shop = Shop(server)
    sale = shop.sale(stock=500)["id"]

    def buy(i):
        with server.connect() as client:
            return client.post(f"/v1/sales/{sale}/grabs", None, server.token(f"office-{i}")).status

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        statuses = list(pool.map(buy, range(2000)))
    assert statuses.count(201) == 500 and statuses.count(409) == 1500
