"""The Redis protocol against Redis itself: a durable grab of ours, and the script that people sell with on Redis.

Both are asked by redis-benchmark, with random buyers out of a million. The script is the one that most who sell by Redis run: is
there stock, has the buyer bought, take it, note the buyer, and put the order, with buyer, sale and number, into the stream that
consumers write their database from. The limit per grab, the number itself and the database it does not have. Redis keeps
nothing, or appends to its log and syncs every second, or syncs before it answers; ours always does the last.

SALE.GRAB answers with verdict, number and what is left, which redis-benchmark has to read; SECKILL with one number, as the script
does. So beside the ratio of the one, which has an aim, stands that of the other.

redis-benchmark has a core to itself, and the server that is asked, whichever it is, has all the others; a turn begins when what
the one before left to be done is done, and what a new sale makes ready is ready: our clerk gives way to a rush and files behind it,
and so is the next segment of the journal made, so no turn pays for either, as none of Redis's pays for the consumer of its stream.

On a machine of two cores redis-benchmark is soon what is measured. So a server that gives every command the same reply and does
nothing else takes its turns too: no ratio can be above its own."""

import os
import re
import shutil
import socket
import statistics
import subprocess
import time

import machine
import servers
import table

CONNECTIONS = 50
BUYERS = 1_000_000
PIPELINES = (1, 16, 64)
# Requests of one turn for each second of it, by path and pipeline: about what the slower side does. A refusal costs Redis less
# than a win, and a turn of a few hundredths of a second would be that of fresh connections.
REQUESTS_PER_S = {"won": {1: 30_000, 16: 80_000, 64: 100_000}, "sold-out": {1: 60_000, 16: 200_000, 64: 300_000}}
STOCK = 1_000_000_000
SCRIPT = """
if tonumber(redis.call('GET', KEYS[1]) or '0') < 1 then return 2 end
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 0 end
redis.call('DECRBY', KEYS[1], 1)
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('XADD', KEYS[3], '*', 'user', ARGV[1], 'sale', ARGV[2], 'order', ARGV[3])
return 1
"""
# Of its log, by a process beside it: what a turn leaves to be done would fall into another's.
NO_REWRITE = ("--auto-aof-rewrite-percentage", "0")
MODES = {
    "none": ("--save", "", "--appendonly", "no"),
    "everysec": ("--save", "", "--appendonly", "yes", "--appendfsync", "everysec", *NO_REWRITE),
    "always": ("--save", "", "--appendonly", "yes", "--appendfsync", "always", *NO_REWRITE),
}
WORDS = {"grab": "ours", "seckill": "ours by SECKILL", "answer": "one that only answers"}
REPLIES = {"won": "*3\r\n$3\r\nWON\r\n$7\r\n1234567\r\n:999123456\r\n", "sold-out": "*3\r\n$8\r\nSOLD_OUT\r\n$-1\r\n:0\r\n"}
# (path, pipeline, mode of Redis) -> how many times as fast the design wants us.
AIMS = {("won", 16, "none"): 5, ("won", 16, "always"): 7, ("won", 1, "none"): 1.1, ("won", 1, "always"): 2,
        ("sold-out", 64, "none"): 7}


class Redis(servers.Server):
    """A redis-server in a folder of the bench."""

    def __init__(self, folder, mode):
        super().__init__()
        self.folder, self.mode, self.sha = folder, mode, None

    def start(self):
        os.makedirs(self.folder, exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder,
                                             *MODES[self.mode]], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        servers.wait_until(lambda: cli(self.port, "PING") == "PONG", 30, "redis-server did not answer")
        self.sha = cli(self.port, "SCRIPT", "LOAD", SCRIPT)

    def sale(self, name, stock):
        """The words of a grab."""
        cli(self.port, "FLUSHALL")
        cli(self.port, "SET", f"{{{name}}}:stock", stock)
        return ["EVALSHA", self.sha, "3", *(f"{{{name}}}:{key}" for key in ("stock", "bought", "orders")), "user:__rand_int__", "1",
                "__rand_int__"]

    def turn_port(self):
        return self.port

    def rest(self):
        self.wait_idle()


class Ours(servers.Stampede):
    def sale(self, name, stock):
        return ["SALE.GRAB", self.sale_made(name, stock), "user:__rand_int__"]

    def sale_made(self, name, stock):
        sale = cli(self.resp_port, "SALE.CREATE", name, max(stock, 1))
        if stock == 0:
            cli(self.resp_port, "SALE.STOCK", sale, -1)
        return sale

    def turn_port(self):
        return self.resp_port

    def rest(self):
        self.wait_filed()
        self.wait_idle()


class Seckill:
    """The same server, asked in the words of those who come from a script."""

    def __init__(self, ours):
        self.ours = ours

    def sale(self, name, stock):
        return ["SECKILL", "user:__rand_int__", self.ours.sale_made(name, stock), "1"]

    def turn_port(self):
        return self.ours.turn_port()

    def rest(self):
        self.ours.rest()


class Answer(servers.Server):
    """The program that only answers, as SALE.GRAB does on one of the paths."""

    def __init__(self, program, path):
        super().__init__()
        self.command = [program, REPLIES[path]]

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())


def cli(port, *words):
    try:
        return servers.run(["redis-cli", "-p", str(port), *map(str, words)], 30).strip()
    except servers.BenchError:
        return ""


def turn(port, words, pipeline, requests, numbers=BUYERS, core=None):
    """Requests a second; each __rand_int__ in words becomes one of so many numbers. core: the only one to ask from."""
    alone = None if core is None else lambda: os.sched_setaffinity(0, {core})
    out = servers.run(["redis-benchmark", "-p", str(port), "-c", str(CONNECTIONS), "-n", str(requests), "-r", str(numbers),
                       "-P", str(pipeline), "--csv", *map(str, words)], 600, preexec_fn=alone)
    rate = re.search(r'^"[^"]*","([\d.]+)"', out.splitlines()[-1])
    if not rate:
        raise servers.BenchError(f"redis-benchmark said {out[-500:]!r}")
    return float(rate.group(1))


def fresh_turn(side, path, pipeline, requests, core):
    """A turn on a sale of its own, made before the crowd comes. What it leaves the server to do is done before the next one's,
    whoever's that is."""
    words = side.sale(f"{path}-{pipeline}-{time.monotonic_ns()}", STOCK if path == "won" else 0)
    side.rest()
    taken = machine.stolen_during(lambda: turn(side.turn_port(), words, pipeline, requests, core=core))
    side.rest()
    return taken


def measure(bench):
    """Interleaved: in every round each side has its turn at every pipeline and path, and ratios are taken within a round."""
    ours = Ours(bench.binary, bench.folder("resp-ours"), 1)
    redises = [Redis(bench.folder(f"resp-redis-{mode}"), mode) for mode in MODES]
    answers = {path: Answer(bench.program("answer"), path) for path in REPLIES}
    sides = {"grab": ours, "seckill": Seckill(ours), **{side.mode: side for side in redises}}
    rates, stolen = {}, []
    core, others = machine.cores_apart(bench.temporary)
    everywhere = os.sched_getaffinity(0)

    def note(path, pipeline, name, one):
        rate, share = machine.quiet(one)
        rates.setdefault((path, pipeline, name), []).append(rate)
        stolen.append(share)

    try:
        os.sched_setaffinity(0, others or everywhere)
        for side in (ours, *redises, *answers.values()):
            side.start()
        for nth in range(bench.rounds):
            for path in ("won", "sold-out"):
                for pipeline in PIPELINES:
                    bench.say(f"resp: round {nth + 1} of {bench.rounds}, {path}, pipeline {pipeline}")
                    requests = REQUESTS_PER_S[path][pipeline] * bench.seconds
                    words = ["SALE.GRAB", "1", "user:__rand_int__"]
                    note(path, pipeline, "answer", lambda: machine.stolen_during(
                        lambda: turn(answers[path].port, words, pipeline, requests, core=core)))
                    for name, side in sorted(sides.items(), reverse=nth % 2 == 1):
                        # As many for each side: who is asked more meets more buyers again, and those cost less.
                        note(path, pipeline, name, lambda: fresh_turn(side, path, pipeline, requests, core))
    finally:
        os.sched_setaffinity(0, everywhere)
        for side in (ours, *redises, *answers.values()):
            side.stop()
        for folder in (ours.data, *(side.folder for side in redises)):
            shutil.rmtree(folder, ignore_errors=True)
    return figures(rates, stolen)


def figures(rates, stolen):
    found = [table.Figure("resp, turns that count though the host took more than it may", machine.loud_percent(stolen), "%")]
    for (path, pipeline, name), got in rates.items():
        whose = WORDS.get(name, f"Redis, {name}")
        found.append(table.Figure(f"resp {path} P{pipeline}, {whose}", statistics.median(got), "1/s"))
    for (path, pipeline, name), got in rates.items():
        for words, whose in WORDS.items() if name in MODES else ():
            ratio = statistics.median(one / other for one, other in zip(rates[path, pipeline, words], got))
            aim = AIMS.get((path, pipeline, name)) if words == "grab" else None
            found.append(table.Figure(f"resp {path} P{pipeline}, {whose} / Redis {name}", ratio, "x", f">= {aim}" if aim else "",
                                      aim is None or ratio >= aim))
    return found


PARTS = {"resp": measure}
