"""deploy/nginx.conf with a real nginx in front of a real server: TLS, whose address counts, and what nginx itself refuses."""

import concurrent.futures
import re
import shutil
import socket
import subprocess
import threading

import pytest
from fronts import From, Front
from harness import Server, Shop, mint_name, problem
from ports import free_port
from wire import answer_take

# As in the file.
BURST, CONNECTIONS = 100, 100


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    """A rate that no test meets; but few reads from one address, by us."""
    with Server("--proxies", "127.0.0.1", "--limits", "ip_query_per_s=1,ip_query_burst=5") as server:
        one = Front(server, tmp_path_factory.mktemp("nginx"), rate=10000)
        try:
            yield one.start()
        finally:
            one.stop()


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """The numbers of the file."""
    with Server("--proxies", "127.0.0.1") as server:
        one = Front(server, tmp_path_factory.mktemp("nginx"))
        try:
            yield one.start()
        finally:
            one.stop()


def test_nginx_finds_no_fault_in_the_file(front):
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    done = subprocess.run([nginx, "-t", "-p", front.folder, "-c", front.folder / "nginx.conf"], capture_output=True, timeout=60)
    assert done.returncode == 0 and b"[warn]" not in done.stderr, done.stderr


def test_a_whole_sale_goes_through_nginx_and_tls(front):
    with From(front, "127.0.0.21") as client:
        seller, ann, bob = (front.server.token(mint_name(name), role) for name, role in (("s", "seller"), ("ann", "customer"), ("bob", "customer")))
        sale = client.post("/v1/sales", {"name": mint_name("sale"), "stock": 1}, seller).json()["id"]
        won = client.post(f"/v1/sales/{sale}/grabs", None, ann, key="k")
        assert won.status == 201, won
        again = client.post(f"/v1/sales/{sale}/grabs", None, ann, key="k")
        assert (again.status, again.json()["order"]) == (201, won.json()["order"])
        problem(client.post(f"/v1/sales/{sale}/grabs", None, bob), 409, "SOLD_OUT")
        problem(client.post(f"/v1/sales/{sale}/grabs", {"units": -100}, bob), 400, "BAD_INPUT")
        problem(client.post(f"/v1/sales/{sale}/grabs"), 401, "NOT_LOGGED_IN")


def test_plain_http_is_sent_to_https(front):
    with socket.create_connection((front.host, front.plain_port), 10) as sock:
        sock.sendall(b"GET /v1/sales?limit=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        head = b""
        while piece := sock.recv(65536):
            head += piece
    assert head.startswith(b"HTTP/1.1 301 ") and b"Location: https://localhost/v1/sales?limit=1\r\n" in head, head


def test_connections_to_us_are_kept_open(front):
    """Many requests on many connections of clients, few connections to the server."""
    shop = Shop(front.server)
    sale = shop.sale(stock=1, admission="open")["id"]

    def opened():
        text = shop.client.get("/metrics").body.decode()
        return int(re.search(r"^stampede_connections_accepted_total (\d+)$", text, re.M).group(1))
    before = opened()
    for _ in range(50):
        with From(front, "127.0.0.22") as client:
            assert client.post(f"/v1/sales/{sale}/grabs").status in (201, 409)
    assert opened() - before <= 4
    shop.close()


def test_the_clients_address_reaches_our_rate_limits(front):
    """Five reads at once from one address, of which 127.0.0.1 (nginx) is none; another address has five of its own."""
    for source in ("127.0.0.31", "127.0.0.32"):
        with From(front, source) as client:
            statuses = [client.get("/v1/sales?limit=1").status for _ in range(8)]
            assert statuses[:5] == [200] * 5 and statuses[-1] == 429, (source, statuses)


def test_a_spoofed_forwarded_for_buys_no_fresh_allowance(front):
    with From(front, "127.0.0.33") as client:
        statuses = [client.get("/v1/sales?limit=1", headers={"X-Forwarded-For": f"192.0.2.{i}"}).status for i in range(8)]
        assert statuses[:5] == [200] * 5 and statuses[-1] == 429, statuses


def test_the_clients_address_reaches_our_block_list(front):
    shop = Shop(front.server)
    assert shop.client.post("/v1/blocks", {"entry": "ip 127.0.0.41"}, shop.admin_token).status == 201
    with From(front, "127.0.0.41") as client:
        problem(client.get("/v1/sales?limit=1"), 403, "BLOCKED")
        problem(client.get("/v1/sales?limit=1", headers={"X-Forwarded-For": "127.0.0.42"}), 403, "BLOCKED")
    with From(front, "127.0.0.42") as client:
        assert client.get("/v1/sales?limit=1").status == 200
        # Nor does claiming to be somebody who is blocked do anything.
        assert client.get("/v1/sales?limit=1", headers={"X-Forwarded-For": "127.0.0.41"}).status == 200
    shop.close()


def test_the_numbers_of_the_operator_are_not_for_everyone(front):
    with From(front, "127.0.0.51") as client:
        problem(client.get("/metrics"), 403, "FORBIDDEN")
    with From(front, "127.0.0.1") as client:
        assert client.get("/metrics").status == 200


def test_limit_req_refuses_one_address_and_serves_the_next(strict):
    def flood(source):
        with From(strict, source) as client:
            return [client.get("/healthz") for _ in range(BURST)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [answer for answers in pool.map(flood, ["127.0.0.61"] * 8) for answer in answers]
    refused = [answer for answer in answers if answer.status == 429]
    assert refused and {answer.status for answer in answers} == {200, 429}
    assert len(answers) - len(refused) >= BURST
    assert problem(refused[0], 429, "RATE_LIMITED") and refused[0].headers["retry-after"] == "1"
    with From(strict, "127.0.0.62") as client:
        assert client.get("/healthz").status == 200


DOORS = {"/api/users": ["errMsg"], "/api/auth": ["kind", "errMsg"], "/luck": ["won", "code", "detail"], "/luck/1": ["won", "code", "detail"], "/shop/cart/add": ["code", "data", "msg"]}


def refusal_of_door(answer, status, path):
    """In the words of the door, as we would say it ourselves."""
    assert answer.status == status and answer.headers["content-type"] == "application/json" and "retry-after" in answer.headers, answer
    assert list(answer.json()) == DOORS[path], answer
    return answer.json()


def test_limit_req_speaks_to_the_clients_of_doors_in_their_words(strict):
    def flood(_):
        with From(strict, "127.0.0.63") as client:
            return [(path, client.get(path)) for _ in range(BURST // len(DOORS)) for path in DOORS]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        refused = {path: answer for answers in pool.map(flood, range(8)) for path, answer in answers if answer.status == 429}
    said = {path: refusal_of_door(refused[path], 429, path) for path in DOORS}
    assert said["/luck"]["won"] is False and said["/shop/cart/add"] == {"code": 429, "data": None, "msg": "too many requests"}, said


REFUSED = {
    "a body too large": (413, b"Content-Type: application/json\r\nContent-Length: 65537\r\n\r\n"),
    "a head too large": (431, b"X-Large: " + b"x" * 9000 + b"\r\n\r\n"),
    "no header": (400, b"Content-Length: x\r\n\r\n"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("path", ["/v1/login", "/apis", "/api/auth/", "/api/nothing", *DOORS])
def test_what_nginx_does_not_pass_on_it_refuses_as_we_would(front, path, what):
    """To the byte: clients need not know who stands in front."""
    status, rest = REFUSED[what]

    def said(sock):
        with sock:
            sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n".encode() + rest)
            got, answer = bytearray(), None
            while answer is None and (piece := sock.recv(65536)):
                got += piece
                answer = answer_take(got)
        return answer
    through, direct = said(front.raw(source="127.0.0.91")), said(front.server.raw())
    assert through.status == direct.status == status, through
    assert through.body == direct.body and through.headers["server"] == "nginx" and "server" not in direct.headers
    for header in ("content-type", "cache-control"):
        assert through.headers.get(header) == direct.headers.get(header), header


def test_limit_conn_refuses_connections_beyond_those_of_one_address(front):
    """Nearly all wait in the line for as long as it takes, so that all are there at once."""
    shop = Shop(front.server)
    sale = shop.sale(stock=1000, admission="line", line={"rate_per_s": 1, "size": 1000, "timeout_ms": 5000})["id"]
    clients = [From(front, "127.0.0.71") for _ in range(CONNECTIONS + 30)]

    def grab(client):
        return client.post(f"/v1/sales/{sale}/grabs", None, front.server.token(mint_name("b")))

    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        answers = list(pool.map(grab, clients))
    for client in clients:
        client.close()
    shop.close()
    refused = [answer for answer in answers if answer.status == 429]
    assert 10 <= len(refused) <= 30 and {answer.status for answer in answers} == {201, 429, 504}, answers


def test_a_server_that_is_away_is_told_as_outcome_unknown(own_server, tmp_path):
    server = own_server("--proxies", "127.0.0.1", port=free_port())
    one = Front(server, tmp_path).start()
    try:
        with From(one, "127.0.0.81") as client:
            assert client.get("/healthz").status == 200
            server.stop()
            body = problem(client.post("/v1/sales/1/grabs", None, "t"), 503, "OUTCOME_UNKNOWN")
            assert "Idempotency-Key" in body["detail"]
            said = {path: refusal_of_door(client.post(path), 503, path) for path in DOORS}
            assert said["/luck"]["won"] is None and said["/shop/cart/add"]["code"] == 503, said
            assert said["/api/auth"] == {"kind": "", **said["/api/users"]}, said
            server.start()
            assert client.get("/healthz").status == 200
    finally:
        one.stop()


def test_buyers_are_spread_over_several_nodes_and_each_keeps_to_one(own_server, tmp_path):
    nodes = [own_server("--proxies", "127.0.0.1") for _ in range(2)]
    one = Front(nodes[0], tmp_path, rate=10000, others=nodes[1:]).start()
    try:
        # Two that share nothing tell who was asked: a token of the first is nobody's on the second.
        homes = []
        for i in range(40):
            with From(one, "127.0.0.92") as client:
                token = nodes[0].token(f"buyer-{i}")
                homes.append({client.get("/v1/orders", token).status for _ in range(3)})
        assert all(len(home) == 1 for home in homes), "a buyer was sent to and fro"
        assert {200, 401} == set.union(*homes), homes
    finally:
        one.stop()


def test_a_node_that_is_gone_costs_nobody_a_purchase(own_server, tmp_path):
    """What did not reach it goes to the other one, POST too."""
    nodes = [own_server("--proxies", "127.0.0.1", port=free_port()) for _ in range(2)]
    one = Front(nodes[0], tmp_path, rate=10000, others=nodes[1:]).start()
    try:
        shop = Shop(nodes[0])
        sale = shop.sale(stock=100)["id"]
        nodes[1].stop()  # and not one failed request has told nginx so before
        for i in range(30):
            with From(one, "127.0.0.93") as client:
                assert client.post(f"/v1/sales/{sale}/grabs", None, nodes[0].token(f"buyer-{i}")).status == 201
        assert shop.counts(sale)[3] == 30
        shop.close()
    finally:
        one.stop()


class Dying:
    """A node that dies over every request: it reads one, counts it, and is gone without an answer."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self.socket.getsockname()
        self.asked = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            with peer:
                self.asked.append(peer.recv(65536).split(b" ")[0].decode())


@pytest.mark.parametrize("method,path", [("GET", "/luck/1"), ("GET", "/luck"), ("PUT", "/shop/cart/add"), ("POST", "/v1/sales/1/grabs"), ("POST", "/api/users"), ("PATCH", "/api/users/s/coupons/c")])
def test_what_may_have_bought_something_is_never_sent_twice(tmp_path, method, path):
    nodes = [Dying(), Dying()]
    one = Front(nodes[0], tmp_path, rate=10000, others=nodes[1:]).start()
    try:
        with From(one, "127.0.0.94") as client:
            answer = client.request(method, path)
        assert answer.status == 503 and "Idempotency-Key" in answer.body.decode(), answer
        assert [*nodes[0].asked, *nodes[1].asked] == [method]
    finally:
        one.stop()
        for node in nodes:
            node.socket.close()
