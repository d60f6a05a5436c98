"""The numbers: what it costs to count an answer, and what a thousand watchers cost a sale."""

import select
import socket
import statistics
import threading
import time

import crowd
import servers
import table

WATCHERS = 1_000
CONNECTIONS = 256
TOKENS_PER_S = 100_000
COUNT_NS_MAX = 100  # one percent of a grab that takes 10 us
CPU_SHARE_MAX = 0.05
THROUGHPUT_MIN = 0.95


def count(bench):
    """ns to count one answer, of a sale alone and of a hundred in turn."""
    bench.say("numbers: counting")
    rows = [row.split("\t") for row in servers.run([bench.program("counts_bench")], 120).splitlines()]
    return [table.Figure(f"numbers, counting an answer, {sales} sales in turn", float(ns), "ns", f"<= {COUNT_NS_MAX}",
                         float(ns) <= COUNT_NS_MAX) for sales, ns in rows]


class Watchers:
    """Connections that watch a sale and read all they get, on a thread of their own."""

    def __init__(self, server, sale, token):
        request = f"GET /v1/sales/{sale}/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        self.ears, self.sockets, self.events, self.lost = select.epoll(), {}, 0, 0
        for _ in range(WATCHERS):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            one.sendall(request)
            one.setblocking(False)
            self.sockets[one.fileno()] = one
            self.ears.register(one, select.EPOLLIN)
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        while not self.stopped.is_set():
            for fd, _ in self.ears.poll(0.2):
                text = self.sockets[fd].recv(65536)
                self.events += text.count(b"data: ")
                if not text:
                    self.lost += 1
                    self.ears.unregister(fd)

    def close(self):
        self.stopped.set()
        self.thread.join()
        for one in self.sockets.values():
            one.close()
        self.ears.close()


def idle_cpu(server, seconds):
    """Share of one core that the server takes while nobody grabs."""
    before, began_s = server.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return (server.cpu_s() - before) / (time.monotonic() - began_s)


def watchers(bench):
    """CPU of a server with a thousand watchers and nobody else; and the same crowd with and without them."""
    bench.say(f"numbers: {WATCHERS:,} watchers")
    server = servers.Stampede(bench.binary, bench.folder("numbers-live"), 2)
    got = {"watched": [], "not watched": []}
    shares = {"watched": [], "not watched": []}
    try:
        server.start()
        tokens = crowd.Tokens(bench.program("mint"), server.keys(), bench.folder("numbers-tokens"))
        tokens.have(TOKENS_PER_S * bench.seconds)
        seller = tokens.one("seller", "seller")
        sale = server.sale_create(seller, "watched", 1)
        server.call("POST", f"/v1/sales/{sale}/grabs", tokens.one("customer", "winner"))
        for nth in range(bench.rounds):
            for name in got if nth % 2 == 0 else reversed(got):
                people = Watchers(server, sale, seller) if name == "watched" else None
                try:
                    shares[name].append(idle_cpu(server, 2 + bench.seconds))
                    # The crowd shares the machine with whoever reads the events: the server's own CPU tells them apart.
                    one = crowd.drive(server, tokens, tokens.count, sale, CONNECTIONS, 1, bench.seconds)
                    got[name].append(one | {"per_s": one["requests"] / one["seconds"]})
                finally:
                    if people is not None:
                        people.close()
                if people is not None and (people.lost or people.events < WATCHERS * bench.seconds):
                    raise servers.BenchError(f"{people.lost} watchers were cut off, {people.events} events came")
                bench.say(f"  {name}: {shares[name][-1]:.4f} of a core idle, {got[name][-1]['per_s']:.0f} requests/s, "
                          f"{got[name][-1]['cpu_us']:.2f} us of CPU")
    finally:
        server.stop()
    more = statistics.median(shares["watched"]) - statistics.median(shares["not watched"])
    cpu, per_s = (statistics.median(a[field] / b[field] for a, b in zip(got["watched"], got["not watched"]))
                  for field in ("cpu_us", "per_s"))
    return [table.Figure(f"numbers, {WATCHERS:,} watchers, share of a core", more, "cores", f"<= {CPU_SHARE_MAX}",
                         more <= CPU_SHARE_MAX),
            table.Figure(f"numbers, sold-out grab with {WATCHERS:,} watchers against none, CPU", cpu, "x", "<= 1.05", cpu <= 1.05),
            table.Figure(f"numbers, sold-out grab with {WATCHERS:,} watchers against none, requests/s", per_s, "x",
                         f">= {THROUGHPUT_MIN}", per_s >= THROUGHPUT_MIN)]


PARTS = {"numbers count": count, "numbers watchers": watchers}
