"""The guard: what its checks cost a grab, what a refusal costs instead of one, and whether the line keeps its pace."""

import os
import select
import shutil
import socket
import statistics
import time

import crowd
import servers
import table

BLOCKS = 1_000_000
CONNECTIONS = 256
# Shedding and the breaker have no switch: they run on both sides.
LIMITS_ALL = servers.LIMITS_WIDE + ",global_grab_per_s=10000000,global_grab_burst=10000000"
LIMITS_NONE = "ip_grab_per_s=0,user_grab_per_s=0,global_grab_per_s=0"
# A burst of two: the winner of the only unit, and the one who is blocked.
LIMITS_TINY_IP = LIMITS_ALL + ",ip_grab_per_s=1,ip_grab_burst=2"
LIMITS_TINY_USER = LIMITS_ALL + ",user_grab_per_s=1,user_grab_burst=1"
THROUGHPUT_MIN = 0.9
CPU_MAX = 1.1
# What is sought is smaller than what the machine does between two long turns: short ones, and three times as many rounds.
DUEL_TURN_S = 1
DUEL_ROUNDS = 3

LINE_WAITERS = 3_000
LINE_RATE_PER_S = 500
LINE_TIMEOUT_MS = 4_000
LINE_ANSWER_S_MAX = 30
OFF_BY_MAX = 0.02


def blocks_write(path):
    """A block list of people and addresses that are none of the crowd."""
    with open(path, "w", encoding="ascii") as file:
        for n in range(BLOCKS // 2):
            file.write(f"user u{n}\nip 10.{n >> 16}.{n >> 8 & 255}.{n & 255}\n")


class Side:
    """A server with some of the checks, and a sale of it that is sold out. All sides share a key, so one file of tokens
    serves all."""

    def __init__(self, bench, name, limits, blocks, keys):
        self.name = name
        self.blocks = blocks
        self.server = servers.Stampede(bench.binary, bench.folder(f"guard-{name}"), 1, limits=limits)
        self.keys = keys
        self.sale_sold_out = None
        self.sales = 0

    def start(self):
        os.makedirs(self.server.data)
        if self.keys is not None:
            shutil.copy(self.keys, self.server.keys())
        if self.blocks:
            blocks_write(os.path.join(self.server.data, "blocks"))
        self.server.start()

    def prepare(self, tokens, seller):
        self.sale_sold_out = self.server.sale_create(seller, "sold out", 1)
        self.expect(tokens, "winner", 201, '"no"')
        if self.blocks:
            self.expect(tokens, f"u{BLOCKS // 2 - 1}", 403, "BLOCKED")

    def expect(self, tokens, buyer, status, word):
        got, text = self.server.call("POST", f"/v1/sales/{self.sale_sold_out}/grabs", tokens.one("customer", buyer))
        if got != status or word not in text:
            raise servers.BenchError(f"a grab answered {got}, not {status} with {word}: {text}")

    def turn(self, tokens, sale, counter, refused, others_max=0, buyers=None):
        """One turn of wrk in which every answer, but for so many others, must be one that this sample of /metrics counts."""
        before = self.server.metrics().get(counter, 0)
        got = crowd.drive(self.server, tokens, buyers or tokens.count, sale, CONNECTIONS, 1, DUEL_TURN_S)
        counted = self.server.metrics().get(counter, 0) - before
        right = got["status"] == (got["requests"] if refused else 0) and counted >= got["requests"] - others_max
        if got["socket"] != 0 or not right:
            raise servers.BenchError(f"{self.name}: of {got['requests']:.0f} answers {got['status']:.0f} were refusals, "
                                     f"{counted:.0f} were counted by {counter}, {got['socket']:.0f} failed")
        got["per_s"] = got["requests"] / got["seconds"]
        return got

    def sold_out_turn(self, tokens, _):
        return self.turn(tokens, self.sale_sold_out, 'stampede_grabs_total{verdict="SOLD_OUT"}', True)

    def won_turn(self, tokens, seller):
        self.sales += 1
        sale = self.server.sale_create(seller, f"huge {self.sales}", crowd.STOCK_HUGE)
        got = self.turn(tokens, sale, 'stampede_grabs_total{verdict="WON"}', False)
        self.server.wait_filed()
        return got

    def sold_out_turn_of_one(self, tokens, _):
        return self.turn(tokens, self.sale_sold_out, 'stampede_grabs_total{verdict="SOLD_OUT"}', True, buyers=1)

    def rate_ip_turn(self, tokens, _):
        """The allowance lets one a second through; those are sold out, and are refusals too."""
        return self.turn(tokens, self.sale_sold_out, 'stampede_guard_refused_total{check="rate_ip"}', True,
                         DUEL_TURN_S + 3)

    def rate_user_turn(self, tokens, _):
        return self.turn(tokens, self.sale_sold_out, 'stampede_guard_refused_total{check="rate_user"}', True,
                         DUEL_TURN_S + 3, buyers=1)


def duel(bench, what, turns, *args):
    """Two turns in every round, who goes first changes. What each got, and the medians of the ratios of neighbours, the first to
    the second: requests/s, CPU."""
    got = {name: [] for name in turns}
    for nth in range(bench.rounds * DUEL_ROUNDS):
        for name in turns if nth % 2 == 0 else reversed(turns):
            got[name].append(turns[name](*args))
            bench.say(f"  {what}, {name}: {got[name][-1]['per_s']:.0f} requests/s, {got[name][-1]['cpu_us']:.2f} us of CPU")
    ours, other = got.values()
    ratios = [statistics.median(a[field] / b[field] for a, b in zip(ours, other)) for field in ("per_s", "cpu_us")]
    figures = []
    for name, rounds in got.items():
        for field, unit in (("per_s", "requests/s"), ("cpu_us", "CPU us/request")):
            figures.append(table.Figure(f"{what}, {name}", statistics.median(one[field] for one in rounds), unit))
    return figures, ratios


def cost(bench):
    """Grabs with every check and a million blocked against grabs without limits and block list; and refusals by rate."""
    bench.say(f"guard: a block list of {BLOCKS:,}")
    on = Side(bench, "on", LIMITS_ALL, True, None)
    off = Side(bench, "off", LIMITS_NONE, False, on.server.keys())
    ip = Side(bench, "refusing addresses", LIMITS_TINY_IP, True, on.server.keys())
    user = Side(bench, "refusing users", LIMITS_TINY_USER, True, on.server.keys())
    sides = (on, off, ip, user)
    figures = []
    try:
        for side in sides:
            side.start()
        tokens = crowd.Tokens(bench.program("mint"), on.server.keys(), bench.folder("guard-tokens"))
        tokens.have(crowd.TOKENS_PER_S * DUEL_TURN_S)
        seller = tokens.one("seller", "seller")
        for side in sides:
            side.prepare(tokens, seller)
        for path, turns in (("sold-out", {"checks on": on.sold_out_turn, "checks off": off.sold_out_turn}),
                            ("won", {"checks on": on.won_turn, "checks off": off.won_turn})):
            rows, (per_s, cpu) = duel(bench, f"guard {path}", turns, tokens, seller)
            figures += rows
            figures.append(table.Figure(f"guard {path}, requests/s on against off", per_s, "x", f">= {THROUGHPUT_MIN}",
                                        per_s >= THROUGHPUT_MIN))
            figures.append(table.Figure(f"guard {path}, CPU on against off", cpu, "x", f"<= {CPU_MAX}", cpu <= CPU_MAX))
        # One user is one buyer who asks on and on, against one who does so and is told that all is sold.
        for path, turns in (("address", {"429": ip.rate_ip_turn, "full sold-out grab": on.sold_out_turn}),
                            ("user", {"429": user.rate_user_turn, "full sold-out grab": on.sold_out_turn_of_one})):
            rows, (per_s, cpu) = duel(bench, f"guard refusing by rate of the {path}", turns, tokens, seller)
            figures += rows
            figures.append(table.Figure(f"guard 429 of the {path} against a full grab, requests/s", per_s, "x", "> 1",
                                        per_s > 1))
            figures.append(table.Figure(f"guard 429 of the {path} against a full grab, CPU", cpu, "x", "< 1", cpu < 1))
    finally:
        for side in sides:
            side.server.stop()
    return figures


def parked(server, sale, tokens):
    """All connect, then all ask, then all are listened to. Seconds asked and answered, and the status, of each."""
    with open(tokens.path, "r", encoding="ascii") as file:
        head = f"POST /v1/sales/{sale}/grabs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nAuthorization: Bearer "
        asks = [f"{head}{file.readline().strip()}\r\n\r\n".encode() for _ in range(LINE_WAITERS)]
    ears = select.epoll()
    waiting = {}
    answers = []
    try:
        for _ in asks:
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            waiting[connection.fileno()] = connection
            ears.register(connection, select.EPOLLIN)
        asked_s = {}
        for ask, (fd, connection) in zip(asks, waiting.items()):
            asked_s[fd] = time.monotonic()
            connection.sendall(ask)
        until_s = time.monotonic() + LINE_ANSWER_S_MAX
        while waiting and time.monotonic() < until_s:
            for fd, _ in ears.poll(1):
                answered_s = time.monotonic()
                connection = waiting.pop(fd)
                answers.append((asked_s[fd], answered_s, int(connection.recv(4096)[9:12] or 0)))
                connection.close()
    finally:
        ears.close()
        for connection in waiting.values():
            connection.close()
    if len(answers) < LINE_WAITERS:
        raise servers.BenchError(f"{LINE_WAITERS - len(answers)} in line were told nothing within {LINE_ANSWER_S_MAX} s")
    return answers


def line(bench):
    """How even the line lets people through, and how long those wait who are told that they waited too long."""
    bench.say(f"line: {LINE_WAITERS:,} waiters, {LINE_RATE_PER_S} a second, {LINE_TIMEOUT_MS} ms at most")
    server = servers.Stampede(bench.binary, bench.folder("guard-line"), 2,
                              ["--connections-max", str(LINE_WAITERS + 100)], "connections_per_ip=0")
    rates, shortest_ms, longest_ms = [], [], []
    try:
        server.start()
        tokens = crowd.Tokens(bench.program("mint"), server.keys(), bench.folder("line-tokens"))
        tokens.have(LINE_WAITERS)
        seller = tokens.one("seller", "seller")
        for nth in range(bench.rounds):
            terms = {"rate_per_s": LINE_RATE_PER_S, "size": LINE_WAITERS, "timeout_ms": LINE_TIMEOUT_MS}
            sale = server.sale_create(seller, f"line {nth}", LINE_WAITERS, admission="line", line=terms)
            answers = parked(server, sale, tokens)
            admitted_s = sorted(answered_s for _, answered_s, status in answers if status == 201)
            waits_ms = [(answered_s - asked_s) * 1000 for asked_s, answered_s, status in answers if status == 504]
            if len(admitted_s) + len(waits_ms) != LINE_WAITERS or len(admitted_s) < LINE_RATE_PER_S or not waits_ms:
                raise servers.BenchError(f"of {LINE_WAITERS} in line {len(admitted_s)} won, {len(waits_ms)} timed out")
            # The first and the last tenth are the crowd's coming and going.
            middle_s = admitted_s[len(admitted_s) // 10:len(admitted_s) * 9 // 10]
            rates.append((len(middle_s) - 1) / (middle_s[-1] - middle_s[0]))
            shortest_ms.append(min(waits_ms))
            longest_ms.append(max(waits_ms))
            bench.say(f"  {len(admitted_s)} let through, {rates[-1]:.1f} a second in the middle; {len(waits_ms)} timed out "
                      f"after {shortest_ms[-1]:.0f} to {longest_ms[-1]:.0f} ms")
    finally:
        server.stop()
    # The worst of all rounds, not the middle: it is a promise to each who waits.
    rate = max(rates, key=lambda one: abs(one - LINE_RATE_PER_S))
    low, high = LINE_RATE_PER_S * (1 - OFF_BY_MAX), LINE_RATE_PER_S * (1 + OFF_BY_MAX)
    late_ms = LINE_TIMEOUT_MS * (1 + OFF_BY_MAX)
    return [table.Figure(f"guard line of {LINE_RATE_PER_S}/s, let through", rate, "1/s", f"{low:.0f} to {high:.0f}",
                         low <= rate <= high),
            table.Figure(f"guard line of {LINE_TIMEOUT_MS} ms, shortest wait told too long", min(shortest_ms), "ms",
                         f">= {LINE_TIMEOUT_MS}", min(shortest_ms) >= LINE_TIMEOUT_MS),
            table.Figure(f"guard line of {LINE_TIMEOUT_MS} ms, longest wait told too long", max(longest_ms), "ms",
                         f"<= {late_ms:.0f}", max(longest_ms) <= late_ms)]


PARTS = {"guard cost": cost, "guard line": line}
