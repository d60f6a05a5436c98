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
CONNECTIONS = 256
TOKENS = 100_000
COUNT_NS_MAX = 100  # one percent of a grab that takes 10 us
CPU_SHARE_MAX = 0.05
CPU_MAX = 1.05
THROUGHPUT_MIN = 0.95
IDLE_S = 10
WARM_S = 1
SLICE_S = 0.1
SLICED = 8  # times the seconds of all turns of another part: what is to be seen is small


def count(bench):
    """ns to count one answer, of a sale alone and of a hundred in turn."""
    bench.say("numbers: counting")
    rows = [row.split("\t") for row in servers.run([bench.program("counts_bench")], 120).splitlines()]
    return [table.Figure(f"numbers, counting an answer, {sales} sales in turn", float(ns), "ns", f"<= {COUNT_NS_MAX}",
                         float(ns) <= COUNT_NS_MAX) for sales, ns in rows]


class Watchers:
    """Connections that watch a sale and read all they get, in a program of their own."""

    def __init__(self, bench, side, token, count):
        self.count = count
        command = [bench.program("watch"), str(side.server.port), str(side.sale_sold_out), token, str(count)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        if self.process.stdout.readline() != "ready\n":  # it says so, or ends
            self.__exit__()
            raise servers.BenchError("the watchers did not all get their first event")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def end(self):
        """How many events came."""
        self.process.terminate()
        events, lost = map(int, self.process.communicate(timeout=30)[0].split())
        if lost:
            raise servers.BenchError(f"{lost} of {self.count} watchers were cut off")
        return events


class Crowd:
    """wrk at a sale that is sold out, and the server that it asks: both stand still but in their own slices."""

    def __init__(self, side, tokens, seconds):
        self.side, self.seconds = side, 0
        self.wrk = subprocess.Popen(crowd.wrk_command(side.server, tokens, tokens.count, side.sale_sold_out, CONNECTIONS, 1, seconds), stdout=subprocess.DEVNULL)
        try:
            time.sleep(WARM_S)
            self.wrk.send_signal(signal.SIGSTOP)
            self.before = self.counted()
            side.server.process.send_signal(signal.SIGSTOP)
        except BaseException:
            self.close()
            raise

    def close(self):
        self.wrk.kill()
        self.wrk.wait()
        self.side.server.process.send_signal(signal.SIGCONT)

    def slice(self):
        both, began_s = (self.side.server.process, self.wrk), time.monotonic()
        for process in both:
            process.send_signal(signal.SIGCONT)
        time.sleep(SLICE_S)
        for process in both:
            process.send_signal(signal.SIGSTOP)
        self.seconds += time.monotonic() - began_s
        if self.wrk.poll() is not None:
            raise servers.BenchError("wrk has ended before its time")

    def counted(self):
        return self.side.server.metrics().get('stampede_grabs_total{verdict="SOLD_OUT"}', 0), self.side.server.cpu_s()

    def result(self):
        """Refusals a second of its slices, and CPU of the server for each."""
        refused, cpu_s = (after - before for before, after in zip(self.before, self.counted()))
        return {"per_s": refused / self.seconds, "cpu_us": cpu_s * 1e6 / refused}


def idle_cpu(server, seconds):
    """Share of one core that the server takes while nobody grabs."""
    before, began_s = server.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return (server.cpu_s() - before) / (time.monotonic() - began_s)


def beside_a_crowd(bench, watched, calm, tokens, seller):
    """A crowd at a server that is watched and one at a server that is not, in turns of a tenth of a second: a machine that is now faster, now slower, is so
    for both. Each stands still for half of the time, so little more than half of the watchers get as many events in a second of its own as all of them otherwise."""
    seconds = bench.rounds * bench.seconds * SLICED
    with Watchers(bench, watched, seller, WATCHERS * 6 // 10) as people:
        both = []
        try:
            for side in (watched, calm):
                both.append(Crowd(side, tokens, 2 * seconds + 60))
            for nth in range(int(seconds / SLICE_S / 2)):
                for one in both if nth % 2 == 0 else reversed(both):
                    one.slice()
        finally:
            for one in both:
                one.close()
        got = [one.result() for one in both]
        events = people.end() / both[0].seconds
    for name, one in zip(("watched", "not watched"), got):
        bench.say(f"  {name}: {one['per_s']:.0f} requests/s, {one['cpu_us']:.2f} us of CPU")
    bench.say(f"  {events:.0f} events in a second of the watched one")
    if events < WATCHERS:
        raise servers.BenchError(f"only {events:.0f} events came in a second, not {WATCHERS}")
    return (got[0][field] / got[1][field] for field in ("cpu_us", "per_s"))


def watchers(bench):
    """CPU of a server with a thousand watchers and nobody else; and what as many events cost a crowd."""
    bench.say(f"numbers: {WATCHERS:,} watchers")
    watched = guard.Side(bench, "watched", servers.LIMITS_WIDE, False, None)
    calm = guard.Side(bench, "not watched", servers.LIMITS_WIDE, False, watched.server.keys())
    try:
        for side in (watched, calm):
            side.start()
        tokens = crowd.Tokens(bench.program("mint"), watched.server.keys(), bench.folder("numbers-tokens"))
        tokens.have(TOKENS)
        seller = tokens.one("seller", "seller")
        for side in (watched, calm):
            side.prepare(tokens, seller)
        with Watchers(bench, watched, seller, WATCHERS) as people:
            more = idle_cpu(watched.server, IDLE_S) - idle_cpu(calm.server, IDLE_S)
            if people.end() < WATCHERS * IDLE_S:
                raise servers.BenchError("the watchers did not get an event a second")
        cpu, per_s = beside_a_crowd(bench, watched, calm, tokens, seller)
    finally:
        for side in (watched, calm):
            side.server.stop()
    return [table.Figure(f"numbers, {WATCHERS:,} watchers, share of a core", more, "cores", f"<= {CPU_SHARE_MAX}", more <= CPU_SHARE_MAX),
            table.Figure(f"numbers, sold-out grab with the events of {WATCHERS:,} watchers against none, CPU", cpu, "x", f"<= {CPU_MAX}", cpu <= CPU_MAX),
            table.Figure(f"numbers, sold-out grab with the events of {WATCHERS:,} watchers against none, requests/s", per_s, "x", f">= {THROUGHPUT_MIN}",
                         per_s >= THROUGHPUT_MIN)]


PARTS = {"numbers count": count, "numbers watchers": watchers}
