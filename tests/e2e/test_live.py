"""GET /v1/sales/{sale}/live: server-sent events, one a second, for as many as like to watch."""

import json
import pathlib
import selectors
import socket
import subprocess
import time

import pytest
from harness import Shop, crowd, eventually, mint_name, problem, request_bytes, unhurried


class Stream:
    """One watcher over a plain socket: the head, and the events that have come so far."""

    def __init__(self, server, sale, token, receive_bytes=None, wrap=None):
        self.sock = socket.socket()
        if receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.sock.settimeout(60)
        self.sock.connect((server.host, server.port))
        if wrap:
            self.sock = wrap(self.sock)
        self.sock.sendall(request_bytes("GET", f"/v1/sales/{sale}/live", token=token))
        self.text, self.ended = b"", False

    def read(self):
        """More bytes, or the end."""
        try:
            piece = self.sock.recv(65536)
        except ConnectionResetError:
            piece = b""
        self.text += piece
        self.ended = self.ended or not piece
        return bool(piece)

    def head(self):
        while b"\r\n\r\n" not in self.text:
            assert self.read(), self.text
        return self.text.split(b"\r\n\r\n", 1)[0].decode().lower()

    def blocks(self):
        """What came after the head, in whole blocks: [[(field, value)]]."""
        body = self.text.partition(b"\r\n\r\n")[2].decode()
        return [[tuple(line.split(": ", 1)) for line in block.split("\n")] for block in body.split("\n\n")[:-1]]

    def events(self):
        """[(name, data)]; the name of a plain event is message."""
        found = [dict(block) for block in self.blocks()]
        return [(block.get("event", "message"), json.loads(block["data"])) for block in found if "data" in block]

    def wait(self, count=1, seconds=60):
        """Until so many events have come."""
        end = time.monotonic() + seconds
        while len(self.events()) < count:
            assert time.monotonic() < end and self.read(), f"{self.events()} ended={self.ended}"
        return self.events()

    def wait_end(self, seconds=60):
        end = time.monotonic() + seconds
        while self.read():
            assert time.monotonic() < end, f"the stream goes on: {self.events()[-1:]}"
        return self.events()

    def close(self):
        self.sock.close()


@pytest.fixture
def streams():
    opened = []

    def make(*arguments, **more):
        opened.append(Stream(*arguments, **more))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def test_the_first_event_comes_at_once_and_then_one_a_second(shop, streams):
    sale = shop.sale(stock=3)["id"]
    shop.win(sale, "ann")
    problem(shop.grab(sale, "ann"), 409, "ALREADY_WON")
    stream = streams(shop.server, sale, shop.seller_token)
    head = stream.head()
    assert head.startswith("http/1.1 200 ") and "content-type: text/event-stream" in head and "cache-control: no-store" in head
    assert "content-length" not in head and "connection: close" in head
    began = time.monotonic()
    events = stream.wait(4)
    assert time.monotonic() - began >= 2, "more than one a second"
    assert {name for name, _ in events} == {"message"}
    first = events[0][1]
    assert {name: first[name] for name in ("sale", "state", "offered", "available", "held", "sold")} == {
        "sale": sale, "state": "open", "offered": 3, "available": 2, "held": 0, "sold": 1}
    assert first["verdicts"] == {"WON": 1, "ALREADY_WON": 1}
    assert set(first["second"]) == {"at", "requests", "wins", "refusals"}
    assert first["latency_us"] is None, "nothing was answered since the event before: there is none"
    times = [event["now"] for _, event in events]
    assert times == sorted(set(times))
    assert [event["second"]["at"] for _, event in events] == sorted({event["second"]["at"] for _, event in events}), "each has a second of its own"
    fields = {field for block in stream.blocks() for field, *_ in block}
    assert "retry" in fields and "" in {field.rstrip(" ").partition(":")[0] for field in fields}, "no retry, or no comment"


def test_what_happens_is_seen_and_every_second_is_told_once(shop, streams):
    """The seconds of a stream that is watched throughout add up to what was answered."""
    sale = shop.sale(stock=30)["id"]
    stream = streams(shop.server, sale, shop.seller_token)
    stream.wait(2)
    for i in range(50):
        shop.grab(sale, f"buyer-{i}")
        if i % 10 == 0:
            time.sleep(0.3)
    last = stream.wait(len(stream.events()) + 3)[-1][1]
    assert last["state"] == "sold_out" and last["verdicts"] == {"WON": 30, "SOLD_OUT": 20}
    latencies = [event["latency_us"] for _, event in stream.events() if event["latency_us"]]
    assert latencies and all(0 < one["p50"] <= one["p90"] <= one["p99"] <= one["p999"] < 60_000_000 for one in latencies)
    seconds = [event["second"] for _, event in stream.events()]
    assert [sum(second[name] for second in seconds) for name in ("requests", "wins", "refusals")] == [50, 30, 20]


def test_only_its_seller_and_admins_may_watch(shop):
    sale = shop.sale()["id"]
    path, client = f"/v1/sales/{sale}/live", shop.client
    problem(client.get(path), 401)
    problem(client.get(path, shop.buyer("ann")), 403)
    problem(client.get(path, shop.server.token(mint_name("seller"), "seller")), 404, "NO_SUCH_SALE")
    problem(client.get("/v1/sales/999999/live", shop.seller_token), 404, "NO_SUCH_SALE")
    assert client.get(path, shop.admin_token).status == 200


def test_head_says_what_get_would_and_ends(shop):
    sale = shop.sale()["id"]
    answer = shop.client.request("HEAD", f"/v1/sales/{sale}/live", token=shop.seller_token)
    assert answer.status == 200 and answer.headers["content-type"] == "text/event-stream" and answer.body == b""


def test_a_sale_that_closes_ends_its_streams_and_asks_nobody_back(shop, streams):
    sale = shop.sale(stock=2)["id"]
    stream = streams(shop.server, sale, shop.seller_token)
    stream.wait(1)
    assert shop.act(sale, "close").status == 200
    events = stream.wait_end()
    assert events[-1][0] == "end" and events[-1][1]["reason"] == "closed" and events[-1][1]["sale"] == sale
    assert shop.client.get(f"/v1/sales/{sale}/live", shop.seller_token).status == 204, "204 tells a client not to come again"
    problem(shop.client.get(f"/v1/sales/{sale}/live", shop.server.token(mint_name("seller"), "seller")), 404, "NO_SUCH_SALE")


def test_logging_out_ends_the_stream_within_seconds(shop, streams):
    sale = shop.sale()["id"]
    token, other = shop.server.token(shop.seller, "seller"), shop.server.token(shop.seller, "seller")
    stream, stays = streams(shop.server, sale, token), streams(shop.server, sale, other)
    stream.wait(1)
    assert shop.client.post("/v1/logout", None, token).status == 204
    events = stream.wait_end()
    assert events[-1] == ("end", {**events[-1][1], "reason": "logged_out"})
    stays.wait(len(stays.events()) + 2)


def test_a_login_that_expires_ends_the_stream(shop, streams):
    sale = shop.sale()["id"]
    def watching(span_s):
        stream = streams(shop.server, sale, shop.server.token(shop.seller, "seller", exp=int(time.time()) + 1 + span_s))
        assert stream.head().startswith("http/1.1 200 "), stream.text
        return stream
    assert unhurried(watching).wait_end()[-1][1]["reason"] == "logged_out"


def test_whoever_comes_onto_the_block_list_sees_no_more(own_server, streams):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale()["id"]
    stream = streams(server, sale, shop.seller_token)
    stream.wait(1)
    assert shop.client.post("/v1/blocks", {"entry": f"user {shop.seller}"}, shop.admin_token).status == 201
    assert stream.wait_end()[-1][1]["reason"] == "logged_out"
    shop.close()


def test_a_watcher_who_does_not_read_is_cut_off_and_the_others_are_not(own_server, streams):
    """P9: what waits for a watcher is bounded, here and in the system."""
    server = own_server("--reactors", "1")
    shop = Shop(server)
    sale = shop.sale(stock=1)["id"]
    for i in range(3):
        shop.grab(sale, f"buyer-{i}")
    reads = streams(server, sale, shop.seller_token)
    idle = [streams(server, sale, shop.seller_token, receive_bytes=1) for _ in range(5)]
    reads.wait(1)

    def held():
        text = shop.client.get("/metrics").body.decode()
        return int(next(line for line in text.splitlines() if line.startswith("stampede_watchers ")).split()[1])
    assert eventually(lambda: held() == 6)
    end = time.monotonic() + 90
    while held() > 1:
        reads.wait(len(reads.events()) + 1)
        assert time.monotonic() < end, f"{held()} are held still"
    assert not reads.ended
    for one in idle:
        one.wait_end()
    reads.wait(len(reads.events()) + 2)
    shop.close()


def test_a_watcher_who_leaves_is_forgotten(own_server, streams):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale()["id"]
    for _ in range(20):
        streams(server, sale, shop.seller_token).wait(1)
    for _ in range(20):
        left = streams(server, sale, shop.seller_token)
        left.wait(1)
        left.close()
    eventually(lambda: "\nstampede_watchers 20\n" in shop.client.get("/metrics").body.decode())
    shop.close()


def test_stopping_ends_every_stream_with_a_word(own_server, streams):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale()["id"]
    watching = [streams(server, sale, shop.seller_token) for _ in range(10)]
    for one in watching:
        one.wait(1)
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 50, "streams held up the stop"
    for one in watching:
        assert one.wait_end()[-1][1]["reason"] == "stopping"
    shop.close()


def test_what_a_watcher_sends_is_not_answered(shop, streams):
    sale = shop.sale()["id"]
    stream = streams(shop.server, sale, shop.seller_token)
    stream.wait(1)
    stream.sock.sendall(request_bytes("GET", "/healthz") * 3)
    stream.wait(len(stream.events()) + 2)
    assert stream.text.count(b"HTTP/1.1") == 1


def test_a_thousand_watch_while_a_crowd_buys(own_server):
    """Every watcher gets every event it is owed; every grab is answered."""
    server = own_server("--reactors", "2")
    shop = Shop(server)
    sale = shop.sale(stock=500)["id"]
    request = request_bytes("GET", f"/v1/sales/{sale}/live", token=shop.seller_token)
    selector, seen, socks = selectors.DefaultSelector(), {}, []
    try:
        for _ in range(1000):
            sock = server.raw(60)
            sock.sendall(request)
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ)
            seen[sock] = bytearray()
            socks.append(sock)
        grabs = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, server.token(f"buyer-{i}")) for i in range(2000)]
        answers = crowd(server, grabs, 50)
        assert sum(answer.status == 201 for answer in answers) == 500

        def sold_out(data):
            return b'"SOLD_OUT":1500' in data and b'"WON":500' in data
        end = time.monotonic() + 60
        while not all(map(sold_out, seen.values())):
            assert time.monotonic() < end, f"{sum(map(sold_out, seen.values()))} of 1000 know how it ended"
            for ready, _ in selector.select(1):
                piece = ready.fileobj.recv(1 << 20)
                assert piece, "a watcher who reads was cut off"
                seen[ready.fileobj] += piece
    finally:
        for sock in socks:
            sock.close()
        selector.close()
    shop.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj",
                    "/CN=localhost", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return pathlib.Path(cert), pathlib.Path(key)


def test_streams_work_over_tls(own_server, streams, certificate):
    import ssl
    server = own_server("--tls-cert", certificate[0], "--tls-key", certificate[1], tls=True)
    context = ssl.create_default_context(cafile=certificate[0])
    context.check_hostname = False
    with socket.create_connection((server.host, server.port)) as plain, context.wrap_socket(plain) as sock:
        sock.sendall(request_bytes("POST", "/v1/sales", {"name": "tls", "stock": 1}, server.token("seller", "seller")))
        text = b""
        while b'"now"' not in text:
            text += sock.recv(65536)
        sale = json.loads(text.partition(b"\r\n\r\n")[2])["id"]
    stream = streams(server, sale, server.token("seller", "seller"), wrap=context.wrap_socket)
    stream.wait(3)
    server.stop()
    assert stream.wait_end()[-1][1]["reason"] == "stopping"
