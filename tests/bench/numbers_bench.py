"""The numbers: what it costs to count an answer, and what a thousand watchers cost a sale."""

import os
import signal
import subprocess
import time

import crowd
import guard
import servers
import table

WATCHERS = 1_000
TOKENS_PER_S = 100_000
COUNT_NS_MAX = 100  # one percent of a grab that takes 10 us
CPU_SHARE_MAX = 0.05
THROUGHPUT_MIN = 0.95
IDLE_S = 10


def count(bench):
    """ns to count one answer, of a sale alone and of a hundred in turn."""
    bench.say("numbers: counting")
    rows = [row.split("\t") for row in servers.run([bench.program("counts_bench")], 120).splitlines()]
    return [table.Figure(f"numbers, counting an answer, {sales} sales in turn", float(ns), "ns", f"<= {COUNT_NS_MAX}",
                         float(ns) <= COUNT_NS_MAX) for sales, ns in rows]


class Watchers:
    """Connections that watch a sale and read all they get, in a program of their own."""

    def __init__(self, bench, server, sale, token):
        self.process = subprocess.Popen([bench.program("watch"), str(server.port), str(sale), token, str(WATCHERS)], stdout=subprocess.PIPE, text=True)

    def ready(self):
        if self.process.stdout.readline() != "ready\n":
            raise servers.BenchError("the watchers did not all get their first event")

    def end(self):
        """How many events came to how many watchers that were not cut off."""
        self.process.terminate()
        events, lost = self.process.communicate(timeout=30)[0].split()
        return int(events), WATCHERS - int(lost)

    def kill(self):
        self.process.kill()
        self.process.wait()


def idle_cpu(server, seconds):
    """Share of one core that the server takes while nobody grabs."""
    before, began_s = server.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return (server.cpu_s() - before) / (time.monotonic() - began_s)


class Alone:
    """Turns of a server while the other one stands still: what that one does besides is not charged to it."""

    def __init__(self, side, other):
        self.side, self.other = side, other

    def turn(self, tokens, seller):
        os.kill(self.other.server.process.pid, signal.SIGSTOP)
        try:
            return self.side.sold_out_turn(tokens, seller)
        finally:
            os.kill(self.other.server.process.pid, signal.SIGCONT)


def watchers(bench):
    """CPU of a server with a thousand watchers and nobody else; and the same crowd at a server with them and at one without.
    After each time that it stood still, the watched one owes every watcher an event: it sends more than it would in a calm second, never fewer."""
    bench.say(f"numbers: {WATCHERS:,} watchers")
    watched = guard.Side(bench, "watched", servers.LIMITS_WIDE, False, None)
    calm = guard.Side(bench, "not watched", servers.LIMITS_WIDE, False, watched.server.keys())
    people = None
    try:
        for side in (watched, calm):
            side.start()
        tokens = crowd.Tokens(bench.program("mint"), watched.server.keys(), bench.folder("numbers-tokens"))
        tokens.have(TOKENS_PER_S * guard.DUEL_TURN_S)
        seller = tokens.one("seller", "seller")
        for side in (watched, calm):
            side.prepare(tokens, seller)
        people = Watchers(bench, watched.server, watched.sale_sold_out, seller)
        people.ready()
        more = idle_cpu(watched.server, IDLE_S) - idle_cpu(calm.server, IDLE_S)
        turns = {"watched": Alone(watched, calm).turn, "not watched": Alone(calm, watched).turn}
        figures, (per_s, cpu) = guard.duel(bench, f"numbers, sold-out grab and {WATCHERS:,} watchers", turns, tokens, seller)
        events, there = people.end()
        if there != WATCHERS or events < WATCHERS * bench.rounds * guard.DUEL_ROUNDS * guard.DUEL_TURN_S:
            raise servers.BenchError(f"{WATCHERS - there} watchers were cut off, {events} events came")
    finally:
        if people is not None:
            people.kill()
        for side in (watched, calm):
            side.server.stop()
    return figures + [
        table.Figure(f"numbers, {WATCHERS:,} watchers, share of a core", more, "cores", f"<= {CPU_SHARE_MAX}", more <= CPU_SHARE_MAX),
        table.Figure(f"numbers, sold-out grab with {WATCHERS:,} watchers against none, CPU", cpu, "x", "<= 1.05", cpu <= 1.05),
        table.Figure(f"numbers, sold-out grab with {WATCHERS:,} watchers against none, requests/s", per_s, "x", f">= {THROUGHPUT_MIN}",
                     per_s >= THROUGHPUT_MIN)]


PARTS = {"numbers count": count, "numbers watchers": watchers}
