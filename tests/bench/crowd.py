"""The grab over HTTP: nginx, a sale that never ends and a sale that is sold out, taking turns under wrk."""

import os
import re
import resource
import statistics
import subprocess
import time

import machine
import servers
import table

CONNECTIONS = (64, 256, 1000)
# Buyers for each second of a turn: more than a quick machine answers, for one who comes twice is refused.
TOKENS_PER_S = 300_000
REACTORS = (1, 2)
STOCK_HUGE = 1_000_000_000
WRK_EXTRA_S = 60
HERE = os.path.dirname(os.path.abspath(__file__))

# At least so many times nginx, by path and connections (design, "Speed to reach").
AIMS = {("sold-out", 64): 1.0, ("sold-out", 256): 1.0, ("won", 64): 0.7, ("won", 256): 1.0, ("won", 1000): 1.0}


class Tokens:
    """A file of tokens for buyers that are all different, signed with a server's key."""

    def __init__(self, mint, keys, path):
        self.mint, self.keys, self.path = mint, keys, path
        self.count = 0
        self.line_bytes = 0

    def have(self, count):
        """At least this many; minted anew when there are fewer."""
        if count <= self.count:
            return
        with open(self.path, "wb") as out:
            minter = [self.mint, self.keys, "customer", "buyer-", str(count)]
            if subprocess.run(minter, stdout=out, timeout=600, check=False).returncode != 0:
                raise servers.BenchError("minting tokens failed")
        with open(self.path, "rb") as file:
            self.line_bytes = len(file.readline())
        if os.path.getsize(self.path) != count * self.line_bytes:
            raise servers.BenchError("tokens are not equally long")
        self.count = count

    def one(self, role, name):
        return servers.run([self.mint, self.keys, role, name], 60).strip()


# Cores that work of others took during each turn: where it is much, the machine was not ours and ratios say little.
strangers = []
STRANGERS_MAX = 0.2


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wrk_command(server, tokens, use, sale, connections, threads, seconds, door=()):
    """door: see grab.lua."""
    path, line_bytes = (tokens.path, tokens.line_bytes) if tokens is not None else ("-", 0)
    return ["wrk", "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s", "--timeout", "10s",
            "-s", os.path.join(HERE, "grab.lua"), server.url(),
            "--", path, str(line_bytes), str(sale), str(use), str(threads), *door]


def wrk(server, tokens, use, sale, connections, threads, seconds, door=()):
    """One turn of wrk. What its script printed, as numbers."""
    text = servers.run(wrk_command(server, tokens, use, sale, connections, threads, seconds, door), seconds + WRK_EXTRA_S)
    found = re.search(r"^bench (.*)$", text, re.MULTILINE)
    if found is None:
        raise servers.BenchError(f"wrk said nothing that can be read: {text[-500:]}")
    got = {name: float(value) for name, value in (pair.split("=") for pair in found.group(1).split())}
    if got["requests"] == 0:
        raise servers.BenchError("not one request was answered")
    return got


def drive(server, tokens, use, sale, connections, threads, seconds, door=()):
    """The same, with CPU and memory of the server."""
    before_s = (time.monotonic(), machine.busy_s(), children_cpu_s(), server.cpu_s())
    got = wrk(server, tokens, use, sale, connections, threads, seconds, door)
    after_s = (time.monotonic(), machine.busy_s(), children_cpu_s(), server.cpu_s())
    wall_s, busy_s, wrk_s, cpu_s = (after - before for before, after in zip(before_s, after_s))
    strangers.append(max(0.0, busy_s - wrk_s - cpu_s) / wall_s)
    got["cpu_us"] = cpu_s * 1e6 / got["requests"]
    got["rss_mb"] = server.rss_mb()
    return got


def to_run(name, got, errors, per_s_nginx):
    per_s = got["requests"] / got["seconds"]
    return table.Run(name, per_s, got["mean"], got["p50"], got["p95"], got["p99"], int(errors),
                     per_s / (per_s_nginx or per_s), got["cpu_us"], got["rss_mb"])


def answers(samples):
    """How many answers of each class of status, and how many grabs by verdict, a server has given."""
    counts = {}
    for name, value in samples.items():
        found = re.match(r'stampede_(http_responses|grabs)_total\{\w+="(\w+)"\}$', name)
        if found:
            counts[found.group(2)] = counts.get(found.group(2), 0) + value
    return counts


class Duel:
    """nginx and us with as many threads each, on one set of tokens."""

    def __init__(self, bench, reactors):
        self.bench = bench
        self.reactors = reactors
        self.ours = servers.Stampede(bench.binary, bench.folder(f"crowd{reactors}"), reactors)
        self.nginx = None
        self.tokens = None
        self.seller = None
        self.sale_sold_out = None
        self.sales = 0

    def start(self):
        self.ours.start()
        self.tokens = Tokens(self.bench.program("mint"), self.ours.keys(), self.bench.folder(f"tokens{self.reactors}"))
        self.seller = self.tokens.one("seller", "seller")
        self.sale_sold_out = self.ours.sale_create(self.seller, "sold out", 1)
        body = self.expect(self.sale_sold_out, "winner", 201, '"no"')
        self.expect(self.sale_sold_out, "loser", 409, "SOLD_OUT")
        # The very answer of a win, so that both send as many bytes.
        self.nginx = servers.Nginx(self.bench.folder(f"nginx{self.reactors}"), self.reactors, body)
        self.nginx.start()
        # How fast this machine is says how many buyers a turn needs; twice that leaves room for a good moment.
        self.tokens.have(20000)
        probe = drive(self.nginx, self.tokens, 20000, 1, 256, self.reactors, 1)
        self.tokens.have(int(2 * self.bench.seconds * probe["requests"] / probe["seconds"]) + 20000)

    def stop(self):
        for server in (self.ours, self.nginx):
            if server is not None:
                server.stop()

    def expect(self, sale, buyer, status, word):
        """What is about to be measured is what it is meant to be."""
        got, text = self.ours.call("POST", f"/v1/sales/{sale}/grabs", self.tokens.one("customer", buyer))
        if got != status or word not in text:
            raise servers.BenchError(f"a grab answered {got}, not {status} with {word}: {text}")
        return text

    def drive(self, server, sale, connections):
        return drive(server, self.tokens, self.tokens.count, sale, connections, self.reactors, self.bench.seconds)

    def name(self, path, connections):
        return f"{path} threads={self.reactors} connections={connections}"

    def nginx_turn(self, connections):
        got = self.drive(self.nginx, 1, connections)
        return to_run(self.name("nginx", connections), got, got["status"] + got["socket"], None)

    def won_turn(self, connections, per_s_nginx):
        self.sales += 1
        sale = self.ours.sale_create(self.seller, f"huge {self.sales}", STOCK_HUGE)
        before = answers(self.ours.metrics())
        got = self.drive(self.ours, sale, connections)
        after = answers(self.ours.metrics())
        refused = sum(after.get(status, 0) - before.get(status, 0) for status in ("3xx", "4xx", "5xx"))
        self.ours.wait_filed()
        return to_run(self.name("won", connections), got, max(got["status"], refused) + got["socket"], per_s_nginx)

    def sold_out_turn(self, connections, per_s_nginx):
        before = answers(self.ours.metrics())
        got = self.drive(self.ours, self.sale_sold_out, connections)
        after = answers(self.ours.metrics())
        change = {name: after[name] - before.get(name, 0) for name in after}
        # One 2xx is the answer to the first look at the metrics itself.
        wrong = (sum(change.get(status, 0) for status in ("2xx", "3xx", "5xx")) - 1
                 + change.get("4xx", 0) - change.get("SOLD_OUT", 0))
        return to_run(self.name("sold-out", connections), got, max(got["requests"] - got["status"], wrong) + got["socket"],
                      per_s_nginx)

    def round(self, nth, wanted):
        """Every path at every number of connections; who goes first changes from round to round."""
        turns = {"won": self.won_turn, "sold-out": self.sold_out_turn}
        runs = []
        for connections in CONNECTIONS:
            paths = [path for path in turns if wanted(self.name(path, connections))]
            if not paths:
                continue
            base = self.nginx_turn(connections)
            runs.append(base)
            for path in paths if nth % 2 == 0 else reversed(paths):
                runs.append(turns[path](connections, base.per_s))
                self.bench.say(f"  {table.line(table.run_cells(runs[-1]))}")
        return runs


def row_names(bench):
    """Every row that measure() can have, of nginx too, in the order they are shown."""
    return [Duel(bench, reactors).name(path, connections)
            for reactors in REACTORS for path in ("nginx", "sold-out", "won") for connections in CONNECTIONS]


def measure(bench):
    """Medians over rounds, a row for each path, number of threads and number of connections."""
    rows = []
    for reactors in REACTORS:
        duel = Duel(bench, reactors)
        names = [duel.name(path, connections) for path in ("won", "sold-out") for connections in CONNECTIONS]
        if not any(map(bench.wanted, names)):
            continue
        if not rows:
            print(table.line(table.COLUMNS), flush=True)
        runs = {}
        try:
            duel.start()
            for nth in range(bench.rounds):
                bench.say(f"crowd: threads {reactors}, round {nth + 1} of {bench.rounds}")
                for run in duel.round(nth, bench.wanted):
                    runs.setdefault(run.name, []).append(run)
        finally:
            duel.stop()
        for name in sorted(runs, key=lambda name: (name.split()[0], int(name.rpartition("=")[2]))):
            rows.append(table.median_run(runs[name]))
            print(table.line(table.run_cells(rows[-1])), flush=True)
    return rows


def disturbance():
    """A sentence about the work of others on this machine during the turns, or nothing."""
    if not strangers or statistics.median(strangers) <= STRANGERS_MAX:
        return ""
    return f"Other work took {statistics.median(strangers):.1f} cores meanwhile: the figures are worse than they should be."


def aim_of(run):
    """What design asks of a row: path and connections of its name → at least this ratio, or None."""
    return AIMS.get((run.name.split()[0], int(run.name.rpartition("=")[2])))


def shortfalls(rows):
    return [f"{run.name}: {run.ratio:.2f} of {aim_of(run)}" for run in rows if aim_of(run) and run.ratio < aim_of(run)]
