"""Several machines on this one: a node on Redis and MariaDB, against what these two do by themselves.

All of it shares the cores: the node, Redis, MariaDB and who asks. So a ratio below 1 is what the others leave of them, not what
machines of their own would give; and three nodes against one say what sharing costs here, not what three machines bring.

Against the bare script a node is set twice. What it files with ack = gate nobody waits for, and the script files nothing: so
MariaDB once gives way to the others, for it would not stand on their cores, and only gets what they leave it. That has the aim. How
much of a turn was not filed at its end is printed: that much of the node's filing, and of the deletes in Redis, came after it.
Then MariaDB takes its share of the cores like everybody, and what that costs is printed beside."""

import concurrent.futures
import contextlib
import os
import re
import shutil
import statistics
import time

import crowd
import guard
import machine
import mariadb_bench
import resp
import servers
import table

PIPELINES = (1, 16, 64)
# Of buyers, and in the bare script of order numbers, which must not come twice: so many that hardly any does.
NUMBERS = 1_000_000_000
PREFIX, PREFIX_BARE = "stampede:", "bare:"
KEYS = ("state", "buyers", "orders", "keys", "tokens", "holds", "log")
# Requests of one turn for each second of it, by path and pipeline: about what the slower side does.
REQUESTS_PER_S = {"won": {1: 25_000, 16: 50_000, 64: 50_000}, "sold-out": {1: 50_000, 16: 100_000, 64: 100_000}}
BARE_MIN = 0.7
NICEST = 19
INSERTS_MIN = 0.5
INSERTS_BATCH = 512  # as many as are ever filed together, however many were
LEDGER_PIPELINE = 64
LEDGER_REQUESTS_PER_S = 20_000
NODES = 3
HTTP_CONNECTIONS = 240
TOKENS_PER_S = 100_000
# As the bench of the ledger has it.
DATABASE_FLAGS = ("--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M")
COLUMNS = "no, sale, buyer, units, amount, state, won_ms, pay_by_ms, `key`, token_nonce, payment_ref, ended_ms, canceller, reason, nth"


def key(prefix, sale, name):
    return f"{prefix}{{sale:{sale}}}:{name}"


class Shop:
    """A Redis, a database of MariaDB, and nodes that share both, and the keys that sign."""

    def __init__(self, bench, name):
        import databases  # of the test packages
        os.environ["STAMPEDE_LEDGER_PASSWORD"] = databases.PASSWORD
        self.bench, self.name = bench, name
        self.redis = resp.Redis(bench.folder(f"{name}-redis"), "none")
        self.database = databases.MariaDB(*DATABASE_FLAGS)
        self.url = None
        self.nodes = []

    def __enter__(self):
        self.redis.start()
        self.url = self.database.start().database()
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.stop()
        self.redis.stop()
        self.database.close()

    def database_gives_way(self):
        """To all others, also with the threads that it makes for connections, and as a session, where the system shares the
        processors out by session first."""
        process = f"/proc/{self.database.process.pid}"
        for thread in os.listdir(f"{process}/task"):
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, int(thread), NICEST)
        if os.path.exists(f"{process}/autogroup"):
            with open(f"{process}/autogroup", "w", encoding="ascii") as file:
                file.write(str(NICEST))

    def node(self, ack, keys=None):
        options = ["--gate", f"redis://127.0.0.1:{self.redis.port}", "--ledger", self.url, "--ack", ack]
        node = Node(self, self.bench.folder(f"{self.name}-{len(self.nodes) + 1}"), options)
        keys = keys or (self.nodes[0].keys() if self.nodes else None)
        os.makedirs(node.data)
        if keys is not None:
            shutil.copy(keys, node.keys())
        self.nodes.append(node)
        node.start()
        return node

    def ask(self, *words):
        return resp.cli(self.redis.port, *words)

    def scripts(self):
        """How often Redis has run one."""
        found = re.search(r"^cmdstat_evalsha:calls=(\d+)", self.ask("INFO", "commandstats"), re.MULTILINE)
        return int(found.group(1)) if found else 0

    def commits(self):
        return int(self.database.do("SHOW GLOBAL STATUS LIKE 'Com_commit'")[0]["Value"])

    def wait_filed(self, sale):
        """Until all of the sale is in the ledger, so that it is not charged to whoever is measured next."""
        servers.wait_until(lambda: self.ask("XLEN", key(PREFIX, sale, "log")) == "0", 120, "the log of a sale was not filed")


class Node(servers.Stampede):
    """One of a shop's."""

    def __init__(self, shop, data, options):
        super().__init__(shop.bench.binary, data, 1, options)
        self.shop = shop

    def sale(self, name, stock):
        """A new one in Redis, sold out if its stock is 1: the first grab has it loaded, and the node then learns who has won."""
        sale = resp.cli(self.resp_port, "SALE.CREATE", name, stock)
        if not resp.cli(self.resp_port, "SALE.GRAB", sale, "winner").startswith("WON"):
            raise servers.BenchError(f"the first grab of {name} did not win")
        self.shop.wait_filed(sale)
        if stock == 1:
            servers.wait_until(lambda: self.refuses(sale), 30, "the node asks Redis about a sale that is sold out")
        return sale

    def refuses(self, sale):
        """Whether it tells those who are too late so by itself."""
        asked, before = 100, self.shop.scripts()
        resp.turn(self.resp_port, ["SALE.GRAB", sale, "late:__rand_int__"], 1, asked)
        return self.shop.scripts() - before < asked / 2


class Bare:
    """The script of a grab, without a node: redis-benchmark says all its words, and nobody files what was won."""

    def __init__(self, shop):
        self.shop = shop
        with open(os.path.join(shop.bench.build, "lua", "grab.lua"), encoding="utf-8") as file:
            self.sha = shop.ask("SCRIPT", "LOAD", file.read())
        run_id = re.search(r"^run_id:(\w+)", shop.ask("INFO", "server"), re.MULTILINE).group(1)
        replid = re.search(r"^master_replid:(\w+)", shop.ask("INFO", "replication"), re.MULTILINE).group(1)
        self.lineage = f"{run_id}-{replid}"

    def words(self, sale):
        """For the sale as a node has it in Redis, under other keys, which no node looks after."""
        for name in KEYS:
            self.shop.ask("COPY", key(PREFIX, sale, name), key(PREFIX_BARE, sale, name))
        return ["EVALSHA", self.sha, len(KEYS), *(key(PREFIX_BARE, sale, name) for name in KEYS), self.lineage, "", "1__rand_int__",
                "default:user:__rand_int__", "", "", 1, 0, "t"]


COSTS = (("node on Redis", "CPU us/request"), ("MariaDB meanwhile", "CPU us/request"), ("not filed when it ends", "%"))


class Contest:
    """A node that answers when Redis has decided, and the bare script, in turns."""

    def __init__(self, bench, shop, paths, aim=None, beside=""):
        self.bench, self.shop, self.paths, self.aim, self.beside = bench, shop, paths, aim, beside
        self.node, self.bare = shop.node("gate"), Bare(shop)
        self.rates, self.costs, self.stolen = {}, {}, []

    def turn(self, side, path, pipeline):
        """Its rate, the CPU of node and database for a request with the share that is not filed yet, and what the host took."""
        requests = REQUESTS_PER_S[path][pipeline] * self.bench.seconds
        sale = self.node.sale(f"{side} {path} {pipeline} {time.monotonic_ns()}", resp.STOCK if path == "won" else 1)
        prefix, port, words = PREFIX, self.node.resp_port, ["SALE.GRAB", sale, "user:__rand_int__"]
        if side == "bare":
            prefix, port, words = PREFIX_BARE, self.shop.redis.port, self.bare.words(sale)
        before_s = self.cpu_s()
        rate, stolen = machine.stolen_during(lambda: resp.turn(port, words, pipeline, requests, NUMBERS))
        late = 100 * int(self.shop.ask("XLEN", key(PREFIX, sale, "log"))) / requests
        cpu_us = [(after - before) * 1e6 / requests for before, after in zip(before_s, self.cpu_s())]
        self.check(key(prefix, sale, "orders"), path, requests)
        self.shop.wait_filed(sale)
        self.shop.ask("DEL", *(key(PREFIX_BARE, sale, name) for name in KEYS))
        return (rate, [*cpu_us, late]), stolen

    def note(self, side, path, pipeline):
        (rate, costs), stolen = machine.quiet(lambda: self.turn(side, path, pipeline))
        self.rates.setdefault((path, pipeline, side), []).append(rate)
        if side == "node":
            self.costs.setdefault((path, pipeline), []).append(costs)
        self.stolen.append(stolen)

    def cpu_s(self):
        """Of the node, and of MariaDB, which files what is won on the same cores."""
        return self.node.cpu_s(), servers.process_cpu_s([self.shop.database.process.pid])

    def check(self, orders, path, requests):
        """All have won, or nobody but the first: redis-benchmark does not look at what it is told."""
        made = int(self.shop.ask("HLEN", orders))
        if made < requests * 0.999 if path == "won" else made != 1:
            raise servers.BenchError(f"{path}: {made} orders of {requests} grabs")

    def round(self, nth):
        for path in self.paths:
            for pipeline in PIPELINES:
                for side in ("node", "bare") if nth % 2 == 0 else ("bare", "node"):
                    self.note(side, path, pipeline)
                node, bare = (self.rates[path, pipeline, side][-1] for side in ("node", "bare"))
                self.bench.say(f"  {path} P{pipeline}: node {node:.0f}, bare script {bare:.0f} grabs/s, {node / bare:.2f}x, "
                               "{:.1f} us of the node's CPU, {:.1f} of MariaDB's, {:.0f} % not filed yet".format(*self.costs[path, pipeline][-1]))

    def figures(self):
        found = [table.Figure(f"several{self.beside}, turns that count though the host took more than it may", machine.loud_percent(self.stolen), "%")]
        for path in self.paths:
            for pipeline in PIPELINES:
                what = f"several, {path} P{pipeline}{self.beside}"
                node, bare = (self.rates[path, pipeline, side] for side in ("node", "bare"))
                ratio = statistics.median(ours / theirs for ours, theirs in zip(node, bare))
                found += [table.Figure(f"{what}, node on Redis", statistics.median(node), "1/s"),
                          *(table.Figure(f"{what}, {whose}", statistics.median(of), unit) for (whose, unit), of in
                            zip(COSTS, zip(*self.costs[path, pipeline]))),
                          table.Figure(f"{what}, the bare script", statistics.median(bare), "1/s"),
                          table.Figure(f"{what}, node / the bare script", ratio, "x", f">= {self.aim}" if self.aim else "",
                                       self.aim is None or ratio >= self.aim)]
        return found

    def hold(self):
        for nth in range(self.bench.rounds):
            self.round(nth)
        return self.figures()


def script(bench):
    """SALE.GRAB of a node on Redis, while MariaDB is filled, against the script alone."""
    bench.say("several: a node on Redis against the script alone, MariaDB giving way")
    with Shop(bench, "several-script") as shop:
        shop.database_gives_way()
        figures = Contest(bench, shop, REQUESTS_PER_S, BARE_MIN).hold()
    bench.say("several: the same, MariaDB taking its share of the cores")
    with Shop(bench, "several-beside") as shop:
        return figures + Contest(bench, shop, ("won",), beside=" with MariaDB's share of the cores").hold()


def precount(bench):
    """Over HTTP: a sale that is sold out, on a node of several and on a server by itself."""
    bench.say("several: refused over HTTP, with the gate in Redis and in the server")
    local = guard.Side(bench, "several-local", servers.LIMITS_WIDE, False, None)
    with Shop(bench, "several-precount") as shop:
        try:
            local.start()
            tokens = crowd.Tokens(bench.program("mint"), local.server.keys(), bench.folder("several-tokens"))
            tokens.have(TOKENS_PER_S * guard.DUEL_TURN_S)
            seller = tokens.one("seller", "seller")
            local.prepare(tokens, seller)
            remote = guard.Side(bench, "several-remote", servers.LIMITS_WIDE, False, None)
            remote.server = shop.node("ledger", local.server.keys())
            remote.sale_sold_out = remote.server.sale("sold out", 1)
            turns = {"gate in Redis": remote.sold_out_turn, "gate in the server": local.sold_out_turn}
            figures, (per_s, cpu) = guard.duel(bench, "several, sold-out over HTTP", turns, tokens, seller)
        finally:
            local.server.stop()
    return [*figures,
            table.Figure("several, sold-out over HTTP, requests/s of Redis against the server's own", per_s, "x", f">= {guard.THROUGHPUT_MIN}",
                         per_s >= guard.THROUGHPUT_MIN),
            table.Figure("several, sold-out over HTTP, CPU of Redis against the server's own", cpu, "x", f"<= {guard.CPU_MAX}", cpu <= guard.CPU_MAX)]


def inserts(path, rows):
    """The rows as a client would insert them that knows nothing better than long INSERTs: one for each transaction."""
    def text(value):
        return "NULL" if value is None else str(value) if isinstance(value, int) else f"'{value}'"
    with open(path, "w", encoding="utf-8") as out:
        for first in range(0, len(rows), INSERTS_BATCH):
            tuples = ",".join("(" + ",".join(map(text, row.values())) + ")" for row in rows[first:first + INSERTS_BATCH])
            out.write(f"BEGIN;\nINSERT INTO orders ({COLUMNS}) VALUES {tuples};\nCOMMIT;\n")


def insert_rate(shop, rows):
    """Rows a second that MariaDB's own client inserts, into an empty table like the ledger's."""
    url, path = shop.database.database(), shop.bench.folder("several.sql")
    shop.database.do(f"CREATE TABLE orders LIKE {shop.url.rpartition('/')[2]}.orders", database=url.rpartition("/")[2])
    inserts(path, rows)
    return len(rows) / mariadb_bench.load_s(shop.database, url, path)


def filing(bench):
    """Wins that are told once the ledger has them against the same rows inserted by MariaDB's own client."""
    bench.say("several: wins that wait for the ledger")
    won, inserted, batches, ratios = [], [], [], []
    with Shop(bench, "several-filing") as shop:
        node = shop.node("ledger")
        for nth in range(bench.rounds):
            sale, requests = node.sale(f"filed {nth}", resp.STOCK), LEDGER_REQUESTS_PER_S * bench.seconds
            commits = shop.commits()
            won.append(resp.turn(node.resp_port, ["SALE.GRAB", sale, "user:__rand_int__"], LEDGER_PIPELINE, requests, NUMBERS))
            commits = shop.commits() - commits
            rows = shop.database.do(f"SELECT {COLUMNS} FROM orders WHERE sale = {sale} ORDER BY no", database=shop.url.rpartition("/")[2])
            if len(rows) < requests * 0.999:
                raise servers.BenchError(f"{len(rows)} orders were filed of {requests} grabs")
            batches.append(max(1, round(len(rows) / commits)))
            inserted.append(insert_rate(shop, rows))
            ratios.append(won[-1] / inserted[-1])
            bench.say(f"  won {won[-1]:.0f}, inserted {inserted[-1]:.0f} orders/s, {batches[-1]} in a transaction, {ratios[-1]:.2f}x")
    ratio = statistics.median(ratios)
    return [table.Figure("several, won and filed", statistics.median(won), "orders/s"),
            table.Figure("several, filed in one transaction", statistics.median(batches), "orders"),
            table.Figure("several, MariaDB's own batched inserts", statistics.median(inserted), "orders/s"),
            table.Figure("several, won and filed / its own batched inserts", ratio, "x", f">= {INSERTS_MIN}", ratio >= INSERTS_MIN)]


class Crowd:
    """As many turns of wrk at a time as there are nodes at most, whoever is asked."""

    def __init__(self, bench, tokens, sale):
        self.bench, self.tokens, self.sale = bench, tokens, sale

    def turn(self, nodes):
        def ask(node):
            return crowd.wrk(node, self.tokens, self.tokens.count, self.sale, HTTP_CONNECTIONS // NODES, 1, self.bench.seconds)
        before_s = sum(node.cpu_s() for node in nodes)
        with concurrent.futures.ThreadPoolExecutor(NODES) as pool:
            got = list(pool.map(ask, [nodes[i % len(nodes)] for i in range(NODES)]))
        requests = sum(one["requests"] for one in got)
        if any(one["status"] != one["requests"] or one["socket"] for one in got):
            raise servers.BenchError("a sale that is sold out did not refuse everyone")
        return {"per_s": sum(one["requests"] / one["seconds"] for one in got), "cpu_us": (sum(node.cpu_s() for node in nodes) - before_s) * 1e6 / requests}


def nodes(bench):
    """A sale that is sold out: three nodes against one, on the same cores."""
    bench.say(f"several: {NODES} nodes against one")
    got = {1: [], NODES: []}
    with Shop(bench, "several-nodes") as shop:
        all_nodes = [shop.node("ledger") for _ in range(NODES)]
        sale = all_nodes[0].sale("sold out", 1)
        for node in all_nodes[1:]:
            servers.wait_until(lambda one=node: one.refuses(sale), 30, "a node asks Redis about a sale that is sold out")
        tokens = crowd.Tokens(bench.program("mint"), all_nodes[0].keys(), bench.folder("several-nodes-tokens"))
        tokens.have(TOKENS_PER_S)
        three = Crowd(bench, tokens, sale)
        for nth in range(bench.rounds):
            for count in got if nth % 2 == 0 else reversed(got):
                got[count].append(three.turn(all_nodes[:count]))
                bench.say(f"  {count} of them: {got[count][-1]['per_s']:.0f} requests/s, {got[count][-1]['cpu_us']:.1f} us of CPU")
    figures = []
    for count, turns in got.items():
        for field, unit in (("per_s", "requests/s"), ("cpu_us", "CPU us/request")):
            figures.append(table.Figure(f"several, sold-out over HTTP, nodes: {count}", statistics.median(turn[field] for turn in turns), unit))
    ratio = statistics.median(many["per_s"] / one["per_s"] for many, one in zip(got[NODES], got[1]))
    return [*figures, table.Figure(f"several, sold-out over HTTP, {NODES} nodes / one, on the same cores", ratio, "x")]


PARTS = {"several script": script, "several precount": precount, "several filing": filing, "several nodes": nodes}
