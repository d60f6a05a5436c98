"""Nodes behind nginx are restarted one after the other, and no buyer is told of it; and what a server does for that when it is told to stop."""

import collections
import contextlib
import itertools
import pathlib
import re
import signal
import socket
import threading
import time

from fronts import From, Front
from harness import ROOT, Client, Shop, beside, mint_name, problem, request_bytes
from nodes import Nodes
from ports import free_port
from resp import Peer, command

HANDS = 8
ROUNDS = 2
LEAVE_S = int(re.search(r"#define HTTP_LEAVE_MS_MAX (\d+)", pathlib.Path(ROOT, "src/bounds.h").read_text()).group(1)) / 1000


class Hands:
    """Buyers through nginx, each a new one, by a few connections that stay open; what was not 201, and when it was asked."""

    def __init__(self, front, node, sale):
        self.front, self.node, self.sale = front, node, sale
        self.over, self.numbers = threading.Event(), itertools.count()
        self.began = time.monotonic()
        self.told, self.wrong = collections.Counter(), []

    def run(self, n):
        with From(self.front, f"127.0.1.{n + 1}") as client:
            while not self.over.is_set():
                asked = time.monotonic() - self.began
                answer = client.post(f"/v1/sales/{self.sale}/grabs", None, self.node.token(f"b{next(self.numbers)}"))
                self.told[answer.status] += 1
                if answer.status != 201:
                    self.wrong.append((round(asked, 3), answer.status, answer.code))
                time.sleep(0.001 * (n + 1))

    def buy(self):
        return beside(*(lambda n=n: self.run(n) for n in range(HANDS)), until=self.over)


def test_buyers_see_nothing_of_nodes_that_are_restarted_one_by_one(tmp_path):
    with Nodes("--proxies", "127.0.0.1") as nodes:
        for _ in range(2):
            nodes.make().port_wanted = free_port()
        one, two = (server.start() for server in nodes.servers)
        front = Front(one, tmp_path, rate=10000, others=[two]).start()
        try:
            hands = Hands(front, one, Shop(one).sale(stock=1000000)["id"])
            stops = []
            with hands.buy():
                time.sleep(1)
                for server in [one, two] * ROUNDS:
                    stops.append(round(time.monotonic() - hands.began, 3))
                    server.restart()
                    while server.connect().get("/readyz").status != 200:
                        time.sleep(0.05)
        finally:
            front.stop()
    assert not hands.wrong, (len(hands.wrong), hands.wrong[:20], hands.told, stops)
    assert hands.told[201] > 100 * len(stops), hands.told


def test_nginx_is_done_with_a_node_before_the_node_is():
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    upstream = re.search(r"upstream stampede \{.*?\n    \}", text, re.S).group(0)
    idle_s = float(re.search(r"keepalive_timeout ([\d.]+)s;", upstream).group(1))
    alone_s = {float(found) for found in re.findall(r"fail_timeout=([\d.]+)s;", upstream)}
    # nginx counts whole seconds there: it may take one more.
    assert idle_s < LEAVE_S and max(alone_s) + 1 < LEAVE_S and len(alone_s) == 1


def closes(answer, status):
    assert answer.status == status and answer.headers.get("connection", "").lower() == "close", answer
    return answer


def test_a_server_behind_a_proxy_takes_its_leave(own_server):
    """Whoever has a connection, or makes one, is answered meanwhile, and told that this was the last answer on it."""
    server = own_server("--proxies", "127.0.0.1", "--drain-ms-max", 600000)
    with contextlib.ExitStack() as stack:
        shop = Shop(server)
        sale = shop.sale(stock=100)["id"]
        idle = [stack.enter_context(Client(server)) for _ in range(10)]
        silent = stack.enter_context(Client(server))
        for client in (*idle, silent):
            assert client.get("/readyz").status == 200
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        with Client(server) as late:
            while (ready := late.get("/readyz")).status == 200:
                time.sleep(0.01)
            problem(closes(ready, 503), 503, "NOT_READY")
            closes(late.post(f"/v1/sales/{sale}/grabs", None, shop.buyer("late")), 201)
        for n, client in enumerate(idle):
            client.send(request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{n}")))
            closes(client.receive(), 201)
            assert client.sock.recv(1) == b"", "it is open, and nobody said so"
            time.sleep(0.05)
        assert silent.sock.recv(1) == b""
        assert time.monotonic() - began > LEAVE_S - 0.5, "one that is silent is not waited for"
        assert server.wait(30) == 0
        shop.close()
    assert len(server.ledger().orders(sale)) == 11


def connected_until_closed(server, stack):
    """Connections made one after the other until there is nobody to connect to, and when."""
    made = []
    with contextlib.suppress(OSError):
        while True:
            client = stack.enter_context(Client(server))
            client.sock = socket.create_connection(("127.0.0.1", server.port), 0.3)
            client.sock.settimeout(30)
            made.append((client, time.monotonic()))
            time.sleep(0.01)
    return made


def test_a_request_on_a_connection_that_a_proxy_has_just_made_is_waited_for(own_server):
    """Also where it comes a fifth of a second later, when nobody can connect any more. On a machine that stands still in that moment nothing is shown."""
    for _ in range(5):
        server = own_server("--proxies", "127.0.0.1", "--drain-ms-max", 3000)
        with contextlib.ExitStack() as stack:
            shop = Shop(server)
            sale = shop.sale(stock=1000)["id"]
            server.process.send_signal(signal.SIGTERM)
            last = connected_until_closed(server, stack)[-20:]
            late_s = 0
            for n, (client, at) in enumerate(last):
                time.sleep(max(0, at + 0.2 - time.monotonic()))
                client.send(request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{n}")))
                late_s = max(late_s, time.monotonic() - at)
            if late_s > 0.8:
                server.wait(30)
                continue
            for client, _ in last:
                closes(client.receive(), 201)
            assert server.wait(30) == 0
            return
    raise AssertionError("the machine stood still five times")


def test_a_server_that_is_told_twice_to_stop_takes_none(own_server):
    server = own_server("--proxies", "127.0.0.1", "--drain-ms-max", 600000)
    with server.connect() as client:
        client.get("/readyz")
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        while client.get("/readyz").status == 200:
            time.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    assert server.wait(30) == 0
    assert time.monotonic() - began < LEAVE_S


def test_a_server_that_no_proxy_has_asked_takes_none(own_server):
    """Ctrl-C beside an open browser."""
    for flags in ([], ["--proxies", "192.0.2.1"]):
        server = own_server(*flags, "--drain-ms-max", 600000)
        with server.connect() as client:
            client.get("/readyz")
            began = time.monotonic()
            server.stop()
            assert time.monotonic() - began < LEAVE_S
    server = own_server("--proxies", "127.0.0.1", "--drain-ms-max", 600000)
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < LEAVE_S


def test_what_had_come_by_the_time_of_a_stop_is_answered(own_server):
    """On a connection that was idle, on one that nobody had taken yet, and by the Redis protocol."""
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=100)["id"]
    with contextlib.ExitStack() as stack:
        idle, fresh = ([stack.enter_context(Client(server)) for _ in range(10)] for _ in range(2))
        peers = [stack.enter_context(Peer(server)) for _ in range(10)]
        name = mint_name("resp")
        peers[0].ask("SALE.CREATE", name, 100)
        for client in idle:
            client.get("/readyz")
        for peer in peers:
            assert peer.ask("PING") == "PONG"
        server.process.send_signal(signal.SIGSTOP)
        for n, client in enumerate(idle + fresh):
            client.send(request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{n}")))
        for n, peer in enumerate(peers):
            peer.send(command("SALE.GRAB", name, f"u{n}"))
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGCONT)
        for client in idle + fresh:
            assert client.receive().status == 201
        for peer in peers:
            assert peer.reply()[0] == "WON"
        assert server.wait(30) == 0
    shop.close()
