"""A line of thousands: parked connections are let through in order and in time, and leave nothing behind when they go.

One process holds all connections and sends on them one after the other, so that there is an order of arrival to speak of."""

import collections
import datetime
import os
import pathlib
import resource
import selectors
import time

import pytest
from harness import Shop, eventually
from wire import answer_take, problem, request_bytes

# Requests that reach two reactors within this time of each other may come to the line in either order: each reactor reads its own sockets, and
# one may be waiting for a core while the other reads. A single reactor reads in the order in which they came.
SWAP_S = {1: 0.0, 2: 1.0}
# Sending all takes about a second, so that a swap of that size is small beside it.
SENT_PER_S = 5000
# The clocks of orders count milliseconds.
CLOCK_S = 0.005


@pytest.fixture(autouse=True)
def descriptors():
    """As many as this process may have, for itself and for the server it starts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def server(own_server):
    return own_server("--reactors", "2", "--limits", "connections_per_ip=0")


def metric(shop, name):
    text = shop.client.get("/metrics").body.decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))


def descriptors_of(server):
    return len(os.listdir(pathlib.Path("/proc") / str(server.pid) / "fd"))


class Queue:
    """Connections that each make one grab. sent and heard have wall-clock times, by place in the order of sending."""

    def __init__(self, server, sale, count):
        self.requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, server.token(f"b{i:04}")) for i in range(count)]
        self.selector = selectors.DefaultSelector()
        self.socks, self.buffers = [], [bytearray() for _ in range(count)]
        self.sent, self.heard, self.answers = [0.0] * count, [0.0] * count, [None] * count
        for i in range(count):
            sock = server.raw(30)
            sock.setblocking(False)
            self.socks.append(sock)
            self.selector.register(sock, selectors.EVENT_READ, i)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for i, sock in enumerate(self.socks):
            if sock is not None:
                self.leave(i)
        self.selector.close()

    def send(self):
        began = time.monotonic()
        for i, request in enumerate(self.requests):
            if i % 50 == 0:
                time.sleep(max(0.0, began + i / SENT_PER_S - time.monotonic()))
            self.sent[i] = time.time()
            assert self.socks[i].send(request) == len(request), "a small request did not fit a socket's buffer"

    def leave(self, i):
        self.selector.unregister(self.socks[i])
        self.socks[i].close()
        self.socks[i] = None

    def hear(self, seconds):
        """Until everyone still here has an answer; they stay connected."""
        end = time.monotonic() + seconds
        missing = sum(sock is not None and self.answers[i] is None for i, sock in enumerate(self.socks))
        while missing:
            assert time.monotonic() < end, f"{missing} answers missing after {seconds} s"
            for ready, _ in self.selector.select(1):
                i = ready.data
                piece = self.socks[i].recv(65536)
                assert piece, f"connection {i} was closed without an answer"
                self.buffers[i] += piece
                answer = answer_take(self.buffers[i])
                if answer is not None:
                    assert self.answers[i] is None, f"two answers to request {i}"
                    self.answers[i], self.heard[i] = answer, time.time()
                    missing -= 1

    def told(self):
        return collections.Counter("WON" if answer.status == 201 else answer.code for answer in self.answers if answer)

    def winners(self):
        """Places in the order of sending, by order number."""
        won = [i for i, answer in enumerate(self.answers) if answer and answer.status == 201]
        for i in won:
            assert self.order(i)["buyer"] == f"b{i:04}", "someone got another's answer"
        return sorted(won, key=lambda i: int(self.order(i)["no"]))

    def order(self, i):
        return self.answers[i].json()["order"]

    def won_at(self, i):
        return datetime.datetime.fromisoformat(self.order(i)["won_at"].replace("Z", "+00:00")).timestamp()


def in_order(queue, winners, swap_s):
    """Nobody goes before somebody who was sent so much earlier. Closer neighbours may swap: see SWAP_S."""
    latest = 0.0
    for i in winners:
        assert latest - queue.sent[i] <= swap_s, f"{i} went after one who came {latest - queue.sent[i]:.3f} s later"
        latest = max(latest, queue.sent[i])


def none_early(queue, winners, rate):
    """The k-th goes (k - 1) / rate after the first was sent, or later."""
    began = min(queue.sent)
    for k, at in enumerate(sorted(map(queue.won_at, winners))):
        assert at >= began + k / rate - CLOCK_S, f"number {k} went {at - began:.3f} s after the first came, at {rate} a second"


@pytest.mark.parametrize("reactors", SWAP_S)
def test_five_thousand_in_line_for_three_thousand_pieces(own_server, reactors):
    """Order is order of arrival, as far as one sender can show it: the requests leave one after the other. One reactor keeps them exactly so;
    where two read them, those sent within a tenth of a second of each other may swap. Nobody is early, exactly 3,000 win, and when the last piece is gone
    the other 2,000 hear so at once and do not wait for the two seconds that letting them through would take."""
    server = own_server("--reactors", reactors, "--limits", "connections_per_ip=0")
    shop = Shop(server)
    sale = shop.sale(stock=3000, admission="line", line={"rate_per_s": 1000, "size": 5000, "timeout_ms": 60000})["id"]
    with Queue(server, sale, 5000) as queue:
        queue.send()
        assert queue.sent[-1] - queue.sent[0] < 20, "too slow to make a line"
        queue.hear(60)
        assert queue.told() == {"WON": 3000, "SOLD_OUT": 2000}
        winners = queue.winners()
        in_order(queue, winners, SWAP_S[reactors])
        none_early(queue, winners, 1000)
        losers = sorted(set(range(5000)) - set(winners))
        for i in losers:
            problem(queue.answers[i], 409, "SOLD_OUT")
        latest = max(queue.sent[i] for i in winners)
        assert latest - queue.sent[losers[0]] <= SWAP_S[reactors], f"{losers[0]} came early enough to win"
        last_won = max(map(queue.won_at, winners))
        late = max(queue.heard) - last_won
        assert late < 30, f"the last one heard {late:.2f} s after the stock was gone"
        assert metric(shop, "stampede_line_waiting") == 0
        assert shop.counts(sale) == (3000, 0, 0, 3000)
    shop.close()


def test_two_thousand_wait_in_vain(server):
    """Who has waited a second hears LINE_TIMEOUT, not before and not long after, and takes no stock."""
    shop = Shop(server)
    sale = shop.sale(stock=2000, admission="line", line={"rate_per_s": 100, "size": 2000, "timeout_ms": 1000})["id"]
    with Queue(server, sale, 2000) as queue:
        queue.send()
        queue.hear(60)
        told, winners = queue.told(), queue.winners()
        assert set(told) == {"WON", "LINE_TIMEOUT"}, told
        none_early(queue, winners, 100)
        in_order(queue, winners, SWAP_S[2])
        span = max(queue.heard) - queue.sent[0]  # who is read late waits from then on
        assert 10 <= told["WON"] <= span * 100 + 20, f"{told} in {span:.2f} s at 100 a second"
        for i in winners:
            assert queue.won_at(i) - queue.sent[i] < 5, f"{i} won after {queue.won_at(i) - queue.sent[i]:.3f} s"
        for i in set(range(2000)) - set(winners):
            problem(queue.answers[i], 504, "LINE_TIMEOUT")
            waited = queue.heard[i] - queue.sent[i]
            assert 0.995 <= waited < 30, f"{i} heard of the time-out after {waited:.3f} s"
        assert metric(shop, "stampede_line_waiting") == 0
        assert shop.counts(sale)[3] == told["WON"]
    shop.close()


def test_nineteen_hundred_vanish(server):
    """Those who stay are served in their order and at no other's cost. The first 60 stay, which is six seconds of the line: time enough
    for the others to go before it is their turn. So whatever is sold was sold to somebody who heard of it."""
    shop = Shop(server)
    sale = shop.sale(stock=2000, admission="line", line={"rate_per_s": 10, "size": 2000, "timeout_ms": 60000})["id"]
    shop.client.get("/healthz")
    before = descriptors_of(server)
    stay = {*range(60), *range(60 + 45, 2000, 48)}
    assert len(stay) == 100
    with Queue(server, sale, 2000) as queue:
        queue.send()
        eventually(lambda: metric(shop, "stampede_line_waiting") >= 1900, seconds=20, pause=0.01)
        for i in set(range(2000)) - stay:
            queue.leave(i)
        eventually(lambda: metric(shop, "stampede_line_waiting") <= 100, seconds=20, pause=0.01)
        queue.hear(60)
        assert queue.told() == {"WON": 100}
        winners = queue.winners()
        none_early(queue, winners, 10)
        in_order(queue, winners, SWAP_S[2])
        assert metric(shop, "stampede_line_waiting") == 0
        assert shop.counts(sale) == (2000, 1900, 0, 100)
    eventually(lambda: descriptors_of(server) <= before)
    shop.close()


def test_a_line_that_everyone_leaves_keeps_no_memory(server):
    """Two thousand come and go, again and again: neither descriptors nor memory grow from one time to the next."""
    shop = Shop(server)
    shop.client.get("/healthz")
    before, memory_kb = descriptors_of(server), []
    for _ in range(4):
        sale = shop.sale(stock=10, admission="line", line={"rate_per_s": 1, "size": 2000, "timeout_ms": 60000})["id"]
        with Queue(server, sale, 2000) as queue:
            queue.send()
            eventually(lambda: metric(shop, "stampede_line_waiting") >= 1900, seconds=20, pause=0.02)
        eventually(lambda: metric(shop, "stampede_line_waiting") == 0, pause=0.02)
        eventually(lambda: descriptors_of(server) <= before, pause=0.02)
        memory_kb.append(server.memory_kb())
    assert memory_kb[-1] - memory_kb[1] < 64 << 10, f"{memory_kb} kB"
    shop.close()
