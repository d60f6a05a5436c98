"""Holds: what it costs a won grab over HTTP that it waits for its payment."""

import statistics

import crowd
import servers
import table

CONNECTIONS = 256
TOKENS_PER_S = 100_000
ROUNDS_MAX = 3
PAY_WITHIN_S = 3600
CPU_MAX = 1.10
TERMS = {"held": {"pay_within_s": PAY_WITHIN_S}, "paid at once": {}}


def won(bench):
    """The processor time of a won grab with a hold against without; turns alternate, each on a sale of its own."""
    bench.say("holds: won over HTTP")
    server = servers.Stampede(bench.binary, bench.folder("holds"), 1)
    ratios = []
    try:
        server.start()
        tokens = crowd.Tokens(bench.program("mint"), server.keys(), bench.folder("holds-tokens"))
        tokens.have(TOKENS_PER_S * bench.seconds)
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


PARTS = {"holds won": won}
