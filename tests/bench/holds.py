"""Holds: what it costs a won grab over HTTP that it waits for its payment, and how a million of them end."""

import os
import socket
import sqlite3
import statistics
import time

import crowd
import resp
import servers
import table

CONNECTIONS = 256
ROUNDS_MAX = 3
PAY_WITHIN_S = 3600
CPU_MAX = 1.10
HOLDS = 1_000_000
EXPIRE_AFTER_S = 25
FEW_HOLDS, FEW_AFTER_S = 1_000, 3
LATE_MS_MAX = 50
P99_MAX = 2
FILL_S_MAX = 300
TERMS = {"held": {"pay_within_s": PAY_WITHIN_S}, "paid at once": {}}


def won(bench):
    """The processor time of a won grab with a hold against without; turns alternate, each on a sale of its own."""
    bench.say("holds: won over HTTP")
    server = servers.Stampede(bench.binary, bench.folder("holds"), 1)
    ratios = []
    try:
        server.start()
        tokens = crowd.Tokens(bench.program("mint"), server.keys(), bench.folder("holds-tokens"))
        tokens.have(crowd.TOKENS_PER_S * bench.seconds)
        seller = tokens.one("seller", "seller")
        for nth in range(min(bench.rounds, ROUNDS_MAX)):
            cost = {}
            for name in TERMS if nth % 2 == 0 else reversed(TERMS):
                sale = server.sale_create(seller, f"{name} {nth}", crowd.STOCK_HUGE, **TERMS[name])
                got = crowd.drive(server, tokens, tokens.count, sale, CONNECTIONS, 1, bench.seconds)
                if got["status"] or got["socket"]:
                    raise servers.BenchError(f"{got['status']} grabs were refused, {got['socket']} were cut off")
                cost[name] = got["cpu_us"]
                server.wait_filed()
            bench.say(f"  won: {cost['held']:.2f} us of CPU held, {cost['paid at once']:.2f} us paid at once")
            ratios.append(cost["held"] / cost["paid at once"])
    finally:
        server.stop()
    ratio = statistics.median(ratios)
    return [table.Figure("holds, CPU of a whole won grab with a hold against without", ratio, "x", f"<= {CPU_MAX}",
                         ratio <= CPU_MAX)]


def fill(server, name, holds, pay_within_s):
    """The id of a sale with so many held orders, of as many buyers, and when the first of them was won."""
    sale = resp.cli(server.resp_port, "SALE.CREATE", name, holds, "PAYWITHIN", pay_within_s)
    began_s = time.monotonic()
    servers.run(["redis-benchmark", "-p", str(server.resp_port), "-c", "50", "-P", "64", "-n", str(holds * 11 // 10), "-r", "2000000000", "-q",
                 "SALE.GRAB", sale, "__rand_int__"], FILL_S_MAX)
    return sale, began_s


def grab_p99_ms(server, sale, until):
    """One buyer after the other on one connection, for as long as until() says; the 99th percentile of their waits."""
    request = f"POST /v1/sales/{sale}/grabs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()
    waits = []
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not until(len(waits)):
            began = time.perf_counter()
            line.sendall(request)
            answer = line.recv(65536)
            waits.append(time.perf_counter() - began)
            if not answer.startswith(b"HTTP/1.1 201"):
                raise servers.BenchError(f"a grab was answered {answer[:200]!r}")
    return statistics.quantiles(waits, n=100)[98] * 1e3


def held(server, sale):
    words = resp.cli(server.resp_port, "SALE.INFO", sale).split("\n")
    return int(words[words.index("held") + 1])


def lateness_ms(server, sale):
    """How long after its time the latest hold of a sale ended, and the 99th percentile, by the record."""
    server.wait_filed()
    with sqlite3.connect(f"file:{os.path.join(server.data, 'ledger.db')}?mode=ro", uri=True) as ledger:
        late = [row[0] for row in ledger.execute("SELECT ended_ms - pay_by_ms FROM orders WHERE sale = ? AND state = 3", (sale,))]
    if not late or min(late) < 0:
        raise servers.BenchError(f"{len(late)} holds ended, the earliest {min(late, default=0)} ms after its time")
    return max(late), statistics.quantiles(late, n=100)[98]


def expiry(bench):
    """A million holds open while a thousand others end on time; then the million ends, and what grabs notice of it."""
    holds = HOLDS // 10 if bench.quick else HOLDS
    bench.say(f"holds: {holds:,} open")
    server = servers.Stampede(bench.binary, bench.folder("holds-expiry"), 2)
    try:
        server.start()
        tokens = crowd.Tokens(bench.program("mint"), server.keys(), bench.folder("holds-expiry-tokens"))
        busy = server.sale_create(tokens.one("seller", "seller"), "busy", crowd.STOCK_HUGE, admission="open")
        many, began_s = fill(server, "many", holds, EXPIRE_AFTER_S)
        few, _ = fill(server, "few", FEW_HOLDS, FEW_AFTER_S)
        servers.wait_until(lambda: held(server, few) == 0, 60, "a thousand holds did not end")
        few_ms = lateness_ms(server, few)[0]
        calm_ends_s = began_s + EXPIRE_AFTER_S - 1
        calm_ms = grab_p99_ms(server, busy, lambda count: count >= 500 and time.monotonic() > calm_ends_s)
        bench.say("holds: they end")
        looked = {"s": time.monotonic(), "held": holds}

        def ended(_):
            if time.monotonic() - looked["s"] > 3:
                looked.update(s=time.monotonic(), held=held(server, many))
            return looked["held"] == 0

        ending_ms = grab_p99_ms(server, busy, ended)
        many_ms, many_p99_ms = lateness_ms(server, many)
    finally:
        server.stop()
    ratio = ending_ms / calm_ms
    return [table.Figure(f"holds, latest of {FEW_HOLDS:,} that ended with {holds:,} others open", few_ms, "ms", f"<= {LATE_MS_MAX}",
                         few_ms <= LATE_MS_MAX),
            table.Figure(f"holds, latest of {holds:,} that ended as fast as they were won", many_ms, "ms"),
            table.Figure(f"holds, 99 of 100 of {holds:,} that ended as fast as they were won", many_p99_ms, "ms"),
            table.Figure("holds, p99 of a won grab before they end", calm_ms, "ms"),
            table.Figure("holds, p99 of a won grab while they end", ending_ms, "ms"),
            table.Figure("holds, p99 of a won grab while they end against before", ratio, "x", f"<= {P99_MAX}", ratio <= P99_MAX)]


PARTS = {"holds won": won, "holds expiry": expiry}
