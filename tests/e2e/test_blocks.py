"""The block list as admins and their files change it: GET and POST /v1/blocks, DELETE /v1/blocks/{entry}."""

import os
import re
import urllib.parse

import pytest
from harness import DOOR_PATHS, ServerDied, at_once, eventually, mint_name, problem, run
from resp import Peer, command


class Blocks:
    """The list of a server, as an admin sees it."""

    def __init__(self, server):
        self.server, self.client = server, server.connect()
        self.token = server.token(mint_name("admin"), "admin")
        self.path = server.data / "blocks"

    def add(self, entry):
        return self.client.post("/v1/blocks", {"entry": entry}, self.token)

    def remove(self, entry):
        return self.client.request("DELETE", f"/v1/blocks/{urllib.parse.quote(entry, safe='')}", None, self.token)

    def page(self, query=""):
        answer = self.client.get(f"/v1/blocks{query}", self.token)
        assert answer.status == 200, answer
        return answer.json()

    def all(self, limit=200):
        entries, cursor = [], None
        while True:
            page = self.page(f"?limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
            entries += [item["entry"] for item in page["items"]]
            cursor = page["next"]
            if cursor is None:
                return entries

    def replace(self, text):
        """As someone does who shares the file: written aside, moved into place."""
        aside = self.path.with_name("aside")
        aside.write_text(text)
        os.rename(aside, self.path)


@pytest.fixture
def blocks(own_server):
    mine = Blocks(own_server())
    yield mine
    mine.client.close()


def test_an_entry_is_added_listed_and_removed(blocks):
    assert blocks.page()["items"] == [] and not blocks.path.exists()
    answer = blocks.add("user ann")
    assert (answer.status, answer.json()) == (201, {"entry": "user ann"})
    assert blocks.path.read_text() == "user ann\n"
    assert blocks.path.stat().st_mode & 0o777 == 0o600
    page = blocks.page()
    assert (page["items"], page["next"]) == ([{"entry": "user ann"}], None)
    gone = blocks.remove("user ann")
    assert (gone.status, gone.body) == (204, b"")
    assert blocks.all() == [] and blocks.path.read_text() == ""


def test_the_same_entry_twice_is_there_once(blocks):
    assert blocks.add("ip 10.0.0.0/8").status == 201
    for same in ("ip 10.0.0.0/8", "ip  10.0.0.0/8", "ip ::ffff:10.0.0.0/104"):
        answer = blocks.add(same)
        assert (answer.status, answer.json()) == (200, {"entry": "ip 10.0.0.0/8"})
    assert blocks.all() == ["ip 10.0.0.0/8"] and blocks.path.read_text() == "ip 10.0.0.0/8\n"


@pytest.mark.parametrize("given,normal", [
    ("ip 10.0.0.1/32", "ip 10.0.0.1"), ("ip 2001:DB8:0:0::/32", "ip 2001:db8::/32"), ("ip ::/0", "ip ::/0"), ("user 张三", "user 张三"),
    ("user https://id.example:a/b", "user https://id.example:a/b"), ("user a+b%20c", "user a+b%20c"), ("user #1", "user #1"), ("user " + "x" * 64, "user " + "x" * 64)])
def test_entries_come_back_in_their_normal_form(blocks, given, normal):
    answer = blocks.add(given)
    assert (answer.status, answer.json()) == (201, {"entry": normal})
    assert blocks.all() == [normal]
    assert blocks.remove(given).status == 204
    problem(blocks.remove(normal), 404, "NO_SUCH_BLOCK")


@pytest.mark.parametrize("entry", ["", "ann", "user", "user ", "ip", "users ann", "user ann ", " user ann", "user ann # why", "user a\tb", "user a\nuser b",
                                   "user " + "x" * 65, "ip 10.0.0.1/8", "ip 10.0.0.256", "ip 10.0.0.0/33", "ip ::/129", "ip localhost", "ip 010.0.0.1", "ip 10.0.0.0/08"])
def test_what_is_no_entry_is_refused(blocks, entry):
    problem(blocks.add(entry), 400, "BAD_INPUT", "entry")
    assert not blocks.path.exists() and blocks.all() == []
    if entry:
        problem(blocks.remove(entry), 400, "BAD_INPUT", "entry")


@pytest.mark.parametrize("body", [None, {}, {"entry": None}, {"entry": 5}, {"entry": ["user ann"]}, {"entry": "user ann", "why": "spam"}, {"entry": "user a\u0000"}, [], b"{", b"user ann"])
def test_a_body_that_is_none_is_refused(blocks, body):
    problem(blocks.client.post("/v1/blocks", body, blocks.token), 400, "BAD_INPUT")
    assert not blocks.path.exists()


@pytest.mark.parametrize("path", ["user%2", "user%20%zz", "user%20%ff", "user%20%00", "user+ann", "ip%2010.0.0.1%2f8", "user%20" + "x" * 300])
def test_a_path_that_is_no_entry_is_refused(blocks, path):
    problem(blocks.client.request("DELETE", f"/v1/blocks/{path}", None, blocks.token), 400, "BAD_INPUT", "entry")


def test_a_slash_must_be_encoded(blocks):
    assert blocks.add("ip 10.0.0.0/8").status == 201
    problem(blocks.client.request("DELETE", "/v1/blocks/ip%2010.0.0.0/8", None, blocks.token), 404, "NO_SUCH_ROUTE")
    assert blocks.client.request("DELETE", "/v1/blocks/ip%2010.0.0.0%2f8", None, blocks.token).status == 204


def test_an_address_within_a_network_is_not_the_network(blocks):
    assert blocks.add("ip 10.0.0.0/8").status == 201
    problem(blocks.remove("ip 10.0.0.1"), 404, "NO_SUCH_BLOCK")
    problem(blocks.remove("ip 10.0.0.0/9"), 404, "NO_SUCH_BLOCK")
    assert blocks.all() == ["ip 10.0.0.0/8"]


def test_only_admins(blocks):
    """P8"""
    blocks.add("user ann")
    for token, status in ((None, 401), (blocks.server.token(mint_name("c")), 403), (blocks.server.token(mint_name("s"), "seller"), 403)):
        for method, path, body in (("GET", "/v1/blocks", None), ("POST", "/v1/blocks", {"entry": "user bob"}), ("DELETE", "/v1/blocks/user%20ann", None)):
            problem(blocks.client.request(method, path, body, token), status)
    assert blocks.all() == ["user ann"]


def test_an_admin_who_logged_in_may(own_server):
    server = own_server()
    assert run("admin", "create", "root", "--data", server.data, stdin="a long password\n").code == 0
    with server.connect() as client:
        token = client.post("/v1/login", {"username": "root", "password": "a long password"}).json()["token"]
        assert client.post("/v1/blocks", {"entry": "user ann"}, token).status == 201


def test_pages_are_in_order_of_arrival(blocks):
    entries = [f"user u{i}" for i in range(5)] + [f"ip 10.0.0.{i}" for i in range(4)]
    for entry in entries:
        assert blocks.add(entry).status == 201
    for limit in (1, 2, 4, 200):
        assert blocks.all(limit) == entries
    for bad in ("?limit=0", "?limit=201", "?limit=x", "?cursor=x", "?cursor=0", "?cursor=-1"):
        problem(blocks.client.get(f"/v1/blocks{bad}", blocks.token), 400, "BAD_INPUT")
    # Removing what a page has shown makes no later page miss anyone.
    first = blocks.page("?limit=4")
    for item in first["items"]:
        assert blocks.remove(item["entry"]).status == 204
    assert [item["entry"] for item in blocks.page(f"?limit=200&cursor={first['next']}")["items"]] == entries[4:]


def test_a_file_changed_by_hand_is_seen(blocks):
    blocks.replace("# ours\nuser ann # spam\nip 2001:DB8::/32\n")
    eventually(lambda: blocks.all() == ["user ann", "ip 2001:db8::/32"])
    with open(blocks.path, "a") as file:
        file.write("user bob\n")
    eventually(lambda: blocks.all() == ["user ann", "ip 2001:db8::/32", "user bob"])
    assert blocks.remove("user ann").status == 204
    assert blocks.path.read_text() == "# ours\nip 2001:DB8::/32\nuser bob\n"
    blocks.path.unlink()
    eventually(lambda: blocks.all() == [])
    assert "is gone" in blocks.server.log()


def test_rubbish_is_reported_by_line_and_costs_nothing_else(blocks):
    blocks.add("user ann")
    blocks.replace("user bob\nrubbish\nip 10.0.0.1/8\nuser cat\n")
    eventually(lambda: {"user bob", "user cat"} <= set(blocks.all()))
    assert "user ann" in blocks.all(), "a list with mistakes let someone go"
    log = blocks.server.log()
    assert "line 2: " in log and "line 3: " in log and "line 1: " not in log and "line 4: " not in log
    assert blocks.add("user dan").status == 201
    assert blocks.path.read_text() == "user bob\nrubbish\nip 10.0.0.1/8\nuser cat\nuser dan\n"
    blocks.replace("user bob\n")
    eventually(lambda: blocks.all() == ["user bob"])


def test_the_list_survives_kill_and_restart(blocks):
    assert blocks.add("user ann").status == 201
    blocks.server.restart(kill=True)
    blocks.client.close()
    assert blocks.all() == ["user ann"]
    assert blocks.remove("user ann").status == 204
    blocks.server.restart(kill=True)
    blocks.client.close()
    assert blocks.all() == []


def test_many_admins_at_once_lose_nothing(blocks):
    def work(number):
        with blocks.server.connect() as client:
            for i in range(10):
                assert client.post("/v1/blocks", {"entry": f"user w{number}-{i}"}, blocks.token).status == 201
                if i % 2:
                    assert client.request("DELETE", f"/v1/blocks/user%20w{number}-{i - 1}", None, blocks.token).status == 204
    at_once(*(lambda number=number: work(number) for number in range(6)))
    expected = {f"user w{number}-{i}" for number in range(6) for i in range(1, 10, 2)}
    assert set(blocks.all()) == expected and set(blocks.path.read_text().splitlines()) == expected


def test_the_option_names_another_file(own_server, tmp_path):
    path = tmp_path / "turned-away"
    path.write_text("user ann\n")
    server = own_server("--blocks", path)
    blocks = Blocks(server)
    assert blocks.all() == ["user ann"]
    assert blocks.add("user bob").status == 201
    assert path.read_text() == "user ann\nuser bob\n" and not blocks.path.exists()
    blocks.client.close()


def test_a_list_that_cannot_be_used_stops_the_start(own_server, tmp_path):
    for path in (tmp_path, tmp_path / "nowhere" / "blocks"):
        server = own_server("--blocks", path, start=False)
        with pytest.raises(ServerDied, match="block list"):
            server.start()


def test_a_list_that_cannot_be_written_is_as_it_was(blocks):
    blocks.add("user ann")
    (blocks.server.data / "blocks.new").mkdir()
    problem(blocks.add("user bob"), 500, "FAILED")
    problem(blocks.remove("user ann"), 500, "FAILED")
    assert blocks.all() == ["user ann"] and blocks.path.read_text() == "user ann\n"
    (blocks.server.data / "blocks.new").rmdir()
    assert blocks.add("user bob").status == 201


def test_a_blocked_address_is_refused_on_every_route_but_three(own_server):
    """Whatever it asks for, and whoever it says it is."""
    server = own_server("--proxies", "127.0.0.1")
    blocks = Blocks(server)
    assert blocks.add("ip 203.0.113.0/24").status == 201
    routes = [line.split() for line in run("routes").out.splitlines()]
    assert len(routes) > 20
    open_to_all = {"/healthz", "/readyz", "/metrics"}
    tokens = [None, "not.a.token", *(server.token(mint_name(role), role) for role in ("customer", "seller", "admin"))]
    with server.connect() as client:
        for method, pattern, _ in routes:
            path = re.sub(r"\{\w+\}", "1", pattern)
            for token in tokens:
                answer = client.request(method, path, None, token, headers={"X-Forwarded-For": "203.0.113.9"})
                if path in open_to_all:
                    assert answer.status == 200, (path, answer)
                elif path.endswith("/grabs") and token is None:
                    problem(answer, 401, "NOT_LOGGED_IN")  # the order of a grab's problems
                elif pattern.startswith(DOOR_PATHS):  # in its own words
                    assert answer.status == 403, (path, answer)
                else:
                    problem(answer, 403, "BLOCKED")
        for method, path in (("GET", "/v1/nothing"), ("DELETE", "/v1/sales")):
            problem(client.request(method, path, None, None, headers={"X-Forwarded-For": "203.0.113.9"}), 403, "BLOCKED")
        assert client.get("/v1/sales", headers={"X-Forwarded-For": "198.51.100.1"}).status == 200
    blocks.client.close()


def test_a_blocked_address_is_cut_off_in_the_redis_protocol(blocks):
    """One that stands hears it at its next command, in the place of its reply, and nothing behind it is run."""
    said = b"-BLOCKED the address is on the block list of this shop\r\n"
    with Peer(blocks.server) as standing, Peer(blocks.server) as idle:
        sale = standing.ask("SALE.CREATE", mint_name("sale"), 5)
        assert standing.ask("SALE.GRAB", sale, "ann")[0] == "WON" and idle.ask("PING") == "PONG"
        assert blocks.add("ip 127.0.0.0/8").status == 201
        standing.send(command("SALE.GRAB", sale, "bob") + command("SALE.GRAB", sale, "cat"))
        assert standing.rest() == said
        idle.send(b"PI")
        assert idle.rest() == said
    for _ in range(3):
        with Peer(blocks.server) as fresh:
            assert fresh.rest() == said  # before it has asked for anything
    blocks.replace("ip 127.0.0.2\nip 10.0.0.0/8\n")
    eventually(lambda: blocks.client.get("/v1/sales").status == 200)
    metrics = blocks.client.get("/metrics").body.decode()
    assert 'stampede_guard_refused_total{check="blocked_address"}' in metrics
    with Peer(blocks.server) as fresh:
        assert fresh.ask("SALE.LEFT", sale) == 4
        assert blocks.add("ip 127.0.0.3").status == 201  # another list, and not of this one
        assert fresh.ask("SALE.GRAB", sale, "bob")[0] == "WON"
    assert "blocked_address refused RESP " in blocks.server.log()


def test_a_blocked_address_may_not_say_who_it_is(own_server, tmp_path):
    accounts, path = tmp_path / "accounts", tmp_path / "turned-away"
    accounts.write_text("shop a-long-secret-of-the-shop\n")
    accounts.chmod(0o600)
    path.write_text("ip 127.0.0.1\n")
    server = own_server("--resp-accounts", accounts, "--blocks", path)
    with Peer(server) as peer:
        peer.send(command("AUTH", "shop", "a-long-secret-of-the-shop"))
        assert peer.rest().startswith(b"-BLOCKED ")
    path.write_text("")
    eventually(lambda: server.connect().get("/v1/sales").status == 200)
    with Peer(server) as peer:
        assert peer.ask("AUTH", "shop", "a-long-secret-of-the-shop") == "OK"
