"""The guard in front of the gate: rates, login protection, block list, proxies. Every refusal is true, costs nothing and says when to come again."""

import concurrent.futures
import os
import signal
import time

import pytest

from harness import Shop, eventually
from wire import problem, request_bytes


def admin(server):
    return server.token("root", "admin")


CHECKS = ("connections", "blocked_address", "rate_ip", "rate_global", "blocked_user", "rate_user", "shed", "breaker", "login", "token", "admit", "line")


def limits_put_on(client, server, **limits):
    return client.request("PUT", "/v1/limits", limits, admin(server))


def limits_put(server, **limits):
    with server.connect() as client:
        return limits_put_on(client, server, **limits)


def metric(server, sample):
    with server.connect() as client:
        text = client.get("/metrics").body.decode()
    found = [line for line in text.splitlines() if line.startswith(sample + " ")]
    assert len(found) == 1, sample
    return float(found[0].rsplit(" ", 1)[1])


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


def test_bad_input_and_no_login_come_before_the_rate_of_a_user(server):
    """api.md: first that applies."""
    shop = Shop(server)
    sale = shop.sale()["id"]
    assert limits_put(server, user_grab_per_s=1, user_grab_burst=1).status == 200
    for _ in range(5):
        problem(shop.grab(sale, "ann", units=0), 400, "BAD_INPUT")
        problem(shop.client.post(f"/v1/sales/{sale}/grabs"), 401, "NOT_LOGGED_IN")
    assert shop.grab(sale, "ann").status == 201


def test_bad_input_and_no_login_come_before_what_is_said_to_an_address(server):
    """api.md: first that applies."""
    shop = Shop(server)
    sale = shop.sale()["id"]
    unclaimed = shop.sale(admission="open", name="no login")["id"]
    assert limits_put(server, ip_grab_per_s=1, ip_grab_burst=1).status == 200
    assert shop.grab(sale, "ann").status == 201
    for _ in range(5):
        problem(shop.grab(sale, "ann", units=0), 400, "BAD_INPUT")
        problem(shop.client.post(f"/v1/sales/{sale}/grabs"), 401, "NOT_LOGGED_IN")
        problem(shop.grab(sale, "ann"), 429, "RATE_LIMITED")
        problem(shop.client.post(f"/v1/sales/{unclaimed}/grabs"), 429, "RATE_LIMITED")


def from_address(server, address, method, path, token=None, body=None):
    with server.connect() as client:
        return client.request(method, path, body, token, headers={"X-Forwarded-For": address})


# Each is refused by something else than the guard, and none of them is free.
USELESS = {"a forged login": ("GET", "/v1/orders", "not.a.token", 401),
           "a forged login of a grab": ("POST", "/v1/sales/1/grabs", "not.a.token", 401),
           "an expired login": ("GET", "/v1/orders", "expired", 401),
           "no login": ("GET", "/v1/orders", None, 401),
           "the wrong role": ("POST", "/v1/sales", "customer", 403),
           "a forged login for the limits": ("PUT", "/v1/limits", "not.a.token", 401),
           "the wrong role for the limits": ("GET", "/v1/limits", "customer", 403),
           "no route": ("GET", "/v1/nothing", None, 404),
           "no such method": ("DELETE", "/v1/sales", None, 405),
           "no such sale": ("GET", "/v1/sales/999999", None, 404)}


@pytest.mark.parametrize("what", USELESS)
def test_a_flood_of_what_is_refused_is_charged_to_its_address(own_server, what):
    server = own_server("--proxies", "127.0.0.1")
    shop = Shop(server)
    sale = shop.sale(stock=10)["id"]
    changes = {f"ip_{kind}_{number}": 3 if number == "burst" else 1 for kind in ("grab", "query", "write") for number in ("per_s", "burst")}
    assert limits_put(server, **changes).status == 200
    method, path, who, status = USELESS[what]
    token = {"customer": server.token("cat"), "expired": server.token("cat", exp=int(time.time()) - 10)}.get(who, who)
    answers = [from_address(server, "203.0.113.7", method, path, token) for _ in range(12)]
    assert [answer.status for answer in answers[:3]] == [status] * 3
    refused = [answer for answer in answers if answer.status == 429]
    assert len(refused) >= 6
    for answer in refused:
        problem(answer, 429, "RATE_LIMITED")
        assert int(answer.headers["retry-after"]) >= 1
    # Somebody elsewhere is served meanwhile.
    assert from_address(server, "198.51.100.1", "POST", f"/v1/sales/{sale}/grabs", shop.buyer("ann")).status == 201
    assert from_address(server, "198.51.100.1", "GET", "/v1/orders", shop.buyer("ann")).status == 200


def test_bytes_that_are_no_request_are_charged_to_their_address(server):
    assert limits_put(server, ip_query_per_s=1, ip_query_burst=3).status == 200
    heads = []
    for _ in range(8):
        with server.raw() as sock:
            sock.sendall(b"rubbish\r\n\r\n")
            heads.append(sock.recv(4096).split(b"\r\n")[0])
    assert all(b" 400 " in head for head in heads[:3]) and sum(b" 429 " in head for head in heads) >= 3, heads


def test_a_refused_user_does_not_use_up_what_the_address_has(server):
    shop = Shop(server)
    sale = shop.sale(stock=100, grabs_per_buyer_max=100)["id"]
    assert limits_put(server, user_grab_per_s=1, user_grab_burst=1, ip_grab_per_s=1, ip_grab_burst=20, global_grab_per_s=1, global_grab_burst=20).status == 200
    statuses = [shop.grab(sale, "program").status for _ in range(60)]
    assert statuses.count(429) >= 40
    assert [shop.grab(sale, f"person-{i}").status for i in range(10)] == [201] * 10


def test_a_raised_limit_counts_at_once_for_who_was_just_refused(own_server):
    server = own_server("--reactors", "1")
    shop = Shop(server)
    sale = shop.sale(stock=100, grabs_per_buyer_max=100)["id"]
    for _ in range(5):
        assert limits_put(server, user_grab_per_s=1, user_grab_burst=1).status == 200
        answers = [shop.grab(sale, "ann") for _ in range(6)]
        assert answers[-1].status == 429 and int(answers[-1].headers["retry-after"]) == 1 and "remaining=0" in answers[-1].headers["ratelimit"]
        assert shop.client.get("/v1/orders", shop.buyer("ann")).status == 200, "another class"
        assert shop.grab(sale, "bob").status in (201, 429)
        assert limits_put(server, user_grab_per_s=0).status == 200
        assert shop.grab(sale, "ann").status == 201
    wait_s = int(answers[-1].headers["retry-after"])
    assert limits_put(server, user_grab_per_s=1, user_grab_burst=1).status == 200
    while shop.grab(sale, "ann").status != 429:
        pass
    time.sleep(wait_s + 0.1)
    assert shop.grab(sale, "ann").status == 201, "Retry-After told the truth"


def test_who_set_a_limit_too_low_can_take_it_back(server):
    """The limits are not limited, for those they are for; the block list counts there as everywhere."""
    lowest = {name: 1 for name in limits_put(server).json() if name.startswith(("ip_", "global_", "user_"))}
    assert limits_put(server, **lowest).status == 200
    with server.connect() as client:
        assert 429 in [client.get("/v1/sales").status for _ in range(5)]
        for _ in range(20):
            assert client.get("/v1/limits", admin(server)).status == 200
        assert client.request("PUT", "/v1/limits", {"ip_query_per_s": 0, "global_query_per_s": 0}, admin(server)).status == 200
        assert [client.get("/v1/sales").status for _ in range(5)] == [200] * 5
        assert client.request("PUT", "/v1/limits", {"ip_write_per_s": 0, "global_write_per_s": 0, "user_write_per_s": 0}, admin(server)).status == 200
        assert client.post("/v1/blocks", {"entry": "user root"}, admin(server)).status == 201
        problem(client.get("/v1/limits", admin(server)), 403, "BLOCKED")


def test_admins_who_change_limits_at_once_lose_nothing_of_each_other(server):
    names = [name for name in limits_put(server).json() if name.startswith(("user_", "ip_"))]

    def count_up(name):
        with server.connect() as client:
            return all(client.request("PUT", "/v1/limits", {name: 1_000_000 + i}, admin(server)).json()[name] == 1_000_000 + i for i in range(40))

    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        assert all(pool.map(count_up, names))
    now = limits_put(server).json()
    assert {name: now[name] for name in names} == {name: 1_000_039 for name in names}


KINDS = {"grab": ("POST", "/v1/sales/{sale}/grabs"), "query": ("GET", "/v1/orders"), "login": ("POST", "/v1/login"), "register": ("POST", "/v1/users"),
         "write": ("POST", "/v1/sales/{sale}/tokens")}
RATES = [(scope, kind) for scope in ("ip", "global", "user") for kind in KINDS if not (scope == "user" and kind in ("login", "register"))]


def test_there_is_no_limit_that_nothing_proves(server):
    limits = limits_put(server).json()
    assert set(limits) == {f"{scope}_{kind}_{number}" for scope, kind in RATES for number in ("per_s", "burst")} | {"connections_per_ip"}


@pytest.mark.parametrize("scope,kind", RATES)
def test_every_limit_refuses_and_is_counted(server, scope, kind):
    shop = Shop(server)
    sale = shop.sale(stock=100, grabs_per_buyer_max=100)["id"]
    assert limits_put(server, **{f"{scope}_{kind}_per_s": 1, f"{scope}_{kind}_burst": 2}).status == 200
    method, path = KINDS[kind]
    bodies = {"login": {"username": "nobody", "password": "whatever it is"}, "register": {"username": "x", "password": "short", "role": "customer"}}
    body = bodies.get(kind)
    token = None if body else shop.buyer("ann")
    answers, refused = [], []
    while len(refused) < 3 and len(answers) < 200:  # who is slow has more to ask for
        answers.append(shop.client.request(method, path.format(sale=sale), body, token))
        refused = [answer for answer in answers if answer.code == "RATE_LIMITED"]
    assert len(refused) == 3 and not any(answer.code == "RATE_LIMITED" for answer in answers[:2]), answers
    assert metric(server, f'stampede_guard_refused_total{{check="rate_{scope}"}}') == len(refused)


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
    before = limits_put(server).json()
    conf.write_text("limits = ip_grab_per_s=7, nonsense=1\nlog_level = debug\n")
    os.kill(server.pid, signal.SIGHUP)
    eventually(lambda: "not reloaded" in server.log())
    assert "nonsense" in server.log() and "line 1" in server.log()
    assert limits_put(server).json() == before and shop.grab(sale, "ann").status == 201
    # What was refused was not kept either: the old text again is no change.
    conf.write_text("limits = user_grab_per_s=0\n")
    os.kill(server.pid, signal.SIGHUP)
    eventually(lambda: "reloaded: 0 options changed" in server.log())


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


def test_x_forwarded_for_in_several_lines_is_one_list(own_server):
    """P8: a proxy may add a line of its own; who is blocked must not get past by what the next one wrote."""
    server = own_server("--proxies", "127.0.0.1,10.0.0.1")
    shop = Shop(server)
    assert shop.client.post("/v1/blocks", {"entry": "ip 9.9.9.9"}, shop.admin_token).status == 201

    def ask(*lines):
        with server.raw() as sock:
            head = "".join(f"X-Forwarded-For: {line}\r\nAccept: */*\r\n" for line in lines)
            sock.sendall(f"GET /v1/sales HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n".encode())
            return int(sock.makefile("rb").readline().split()[1])

    assert ask("9.9.9.9, 10.0.0.1") == 403 and ask("8.8.8.8, 10.0.0.1") == 200
    assert ask("9.9.9.9", "10.0.0.1") == 403 and ask("8.8.8.8", "10.0.0.1") == 200
    assert ask("10.0.0.1", "10.0.0.1", "9.9.9.9", "10.0.0.1", "10.0.0.1") == 403
    assert ask("9.9.9.9", "8.8.8.8", "10.0.0.1") == 200, "what stands left of the client is its own writing"
    assert ask("8.8.8.8", "9.9.9.9") == 403


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


def test_every_check_is_counted_and_logged(own_server):
    """Each row of the list that a client can make refuse, once; the rest are there with 0."""
    server = own_server("--proxies", "127.0.0.2", "--log-level", "debug")
    shop = Shop(server)
    tokened = shop.sale(stock=5, admission="token")["id"]
    capped = shop.sale(stock=5, admit_max=1)["id"]
    lined = shop.sale(stock=5, admission="line", line={"rate_per_s": 1, "size": 1, "timeout_ms": 50})["id"]
    problem(shop.grab(tokened, "ann"), 403, "TOKEN_REQUIRED")
    problem(shop.grab(tokened, "ann", purchase="rubbish"), 403, "TOKEN_INVALID")
    shop.win(capped, "ann")
    problem(shop.grab(capped, "bob"), 503, "BUSY")
    while shop.grab(lined, "ann", key="k").status != 504:
        lined = shop.sale(stock=5, admission="line", line={"rate_per_s": 1, "size": 1, "timeout_ms": 50})["id"]
        assert shop.grab(lined, "first").status == 201
    for _ in range(12):
        shop.client.post("/v1/login", {"username": "nobody", "password": "whatever it is"})
    assert limits_put(server, user_grab_per_s=1, user_grab_burst=1).status == 200
    for _ in range(4):
        shop.grab(capped, "cat")
    assert shop.client.post("/v1/blocks", {"entry": "user dan"}, admin(server)).status == 201
    problem(shop.grab(capped, "dan"), 403, "BLOCKED")
    assert limits_put(server, connections_per_ip=1).status == 200
    with server.raw() as more:
        assert more.recv(100)[:12] in (b"HTTP/1.1 503", b"")
    assert limits_put_on(shop.client, server, connections_per_ip=0).status == 200
    counts = {check: metric(server, f'stampede_guard_refused_total{{check="{check}"}}') for check in CHECKS}
    refusing = {"connections", "blocked_user", "rate_user", "login", "token", "admit", "line"}
    assert {check for check, count in counts.items() if count} == refusing, counts
    assert counts["token"] == 2 and counts["blocked_user"] == 1 and counts["connections"] >= 1
    log = server.log(1 << 20)
    for check in refusing:
        line = next(line for line in log.splitlines() if f"{check} refused " in line)
        assert "from 127.0.0.1" in line and "since the start" in line
    assert 'blocked_user refused POST /v1/sales/{sale}/grabs from 127.0.0.1, user \\"dan\\"' in log
    for name in ("breaker_opened", "breaker_refused", "shed_refused"):
        for kind in KINDS:
            assert metric(server, f'stampede_{name}_total{{class="{kind}"}}') == 0


def test_a_flood_has_few_lines_in_the_log(server):
    assert limits_put(server, ip_query_per_s=1, ip_query_burst=1).status == 200
    with server.connect() as client:
        for _ in range(200):
            client.get("/v1/sales")
    assert 1 <= server.log(1 << 20).count("rate_ip refused GET /v1/sales from 127.0.0.1") <= 5


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
