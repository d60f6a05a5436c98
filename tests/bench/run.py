#!/usr/bin/python3
"""make bench: how fast, how steady and how big, against nginx on the same machine in the same minutes.

Results go to standard output, one a line, tab-separated; progress goes to standard error. --write puts the table, with the
facts of the machine, into docs/benchmarks.md."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import crowd
import doors_bench
import guard
import holds
import inside
import kept
import machine
import mariadb_bench
import numbers_bench
import resp
import servers
import several
import table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ("mint", "engine_bench", "ledger_bench", "counts_bench", "fill", "watch", "answer")
PACKAGES = ("libuv", "jansson", "libssl", "libcrypto", "libargon2", "sqlite3", "libcurl", "libmariadb", "hiredis",
            "librabbitmq", "rdkafka")
BUILD_S_MAX = 900


class Bench:
    """What every part needs: where things are, how long to take, what is wanted."""

    def __init__(self, options):
        self.quick = options.quick
        self.rounds = options.rounds or (1 if options.quick else 5)
        self.seconds = options.seconds or (1 if options.quick else 3)
        self.only = options.only
        self.build = os.path.join(ROOT, options.build)
        self.binary = os.path.join(self.build, "stampede")
        self.files_max = servers.raise_open_files_limit()
        # In the build folder, for /tmp may be memory, where a sync costs nothing.
        os.makedirs(self.build, exist_ok=True)
        self.temporary = tempfile.mkdtemp(prefix="bench-", dir=self.build)

    def wanted(self, name):
        return not self.only or any(only in name for only in self.only)

    def folder(self, name):
        return os.path.join(self.temporary, name)

    def program(self, name):
        return os.path.join(self.build, "tests", "bench", name)

    @staticmethod
    def say(text):
        print(text, file=sys.stderr, flush=True)

    def make(self):
        """The optimised server, and the programs of the bench linked with the same archive."""
        self.say("building")
        build = os.path.relpath(self.build, ROOT)
        servers.run(["make", "--no-print-directory", f"BUILD={build}", "all"], BUILD_S_MAX, cwd=ROOT)
        libraries = servers.run(["pkg-config", "--libs", *PACKAGES], 60).split()
        archive = os.path.join(self.build, "libstampede.a")
        os.makedirs(os.path.dirname(self.program("")), exist_ok=True)
        for name in PROGRAMS:
            source = os.path.join(ROOT, "tests", "bench", name + ".c")
            servers.run(["gcc", "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-D_GNU_SOURCE", "-pthread",
                         "-iquote", os.path.join(ROOT, "src"), "-o", self.program(name), source, archive, *libraries, "-lm"],
                        BUILD_S_MAX)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, one second, smaller folders: to see that it works")
    parser.add_argument("--only", action="append", metavar="TEXT",
                        help="rows whose name contains TEXT, for instance won, 'sold-out threads=2', engine, restart, ledger, "
                             "idle, buyers, guard, 'guard line', holds, numbers, doors, resp, mariadb, several, 'several nodes'; may be given several times")
    parser.add_argument("--rounds", type=int, metavar="N", help="interleaved rounds (5)")
    parser.add_argument("--seconds", type=int, metavar="S", help="seconds of one turn (3)")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md; with --only, from this run and earlier ones of the same source")
    parser.add_argument("--build", default="build", metavar="DIR", help="where make puts what it builds (build)")
    parser.add_argument("--no-make", action="store_true", help="take the programs as they are")
    options = parser.parse_args(arguments)
    for name in ("rounds", "seconds"):
        value = getattr(options, name)
        if value is not None and not 1 <= value <= 1000:
            parser.error(f"--{name} is between 1 and 1000")
    if options.write and options.quick:
        parser.error("--write is for figures that count: not with --quick")
    return options


def document(bench, facts, runs, figures):
    """The text of docs/benchmarks.md."""
    missed = crowd.shortfalls(runs) + [f"{figure.name}: {table.number(figure.value)} {figure.unit}, aim {figure.aim}"
                                       for figure in figures if not figure.met]
    return f"""# Benchmarks

Written by `make bench ARGS=--write`. Medians over {bench.rounds} interleaved rounds of {bench.seconds} s each; errors are
summed over rounds. nginx answers a constant 201 with a body as long as ours to the very same requests, with as many workers
as we have reactors. The load comes from wrk on the same machine, with as many threads, so the cores are shared by both
sides: the CPU time of the server for a request is the steadiest column, and each ratio is taken within one round.

`won`: a sale that never ends, another buyer at each request, the token checked, the answer sent when the win is durable.
`sold-out`: the token checked, nothing left, the buyer holds nothing.
`guard`: all limits in force, none reached, and a block list of {guard.BLOCKS:,} against no limits and no list; a refusal by
rate (429) of an address, and of one user who asks on and on, against a full grab; both in turns of {guard.DUEL_TURN_S} s and
{guard.DUEL_ROUNDS} times as many rounds, by the ratios of neighbours; a line of {guard.LINE_WAITERS:,}, seen by those who wait in it, the worst of all rounds.
`doors`: the claim and the cart over HTTP against nginx with Lua and a Redis that does the same by script, with two workers and two reactors; it
verifies no login, we do.
`holds`: the CPU of a whole won grab that waits for its payment against one that is paid at once; how late holds end, by the record; and grabs, one after the
other on one connection, before and while {holds.HOLDS:,} holds end.
`numbers`: counting one answer; {numbers_bench.WATCHERS:,} people who watch a sale live, read on the same machine.
`resp`: a durable SALE.GRAB against Redis 7 running the usual script of a flash sale, through redis-benchmark with
{resp.CONNECTIONS} connections and random buyers out of a million, by commands in one pipeline (P). redis-benchmark has a core to itself, the one that the disk
interrupts least, and whoever is asked, ours or Redis, the others; a turn begins when what the one before left to be done is done. One by one redis-benchmark is soon what is
measured: how a server that only answers does is printed beside.
In `resp` and in the contest of `several` with the bare script a turn in which the host of a virtual machine gave more than {machine.STOLEN_MAX:.0%} of the processors' time to
others is taken again, whichever side's it was, at most {machine.QUIET_TRIES} times; the least disturbed counts.

`mariadb`: wins filed into a ledger in MariaDB, 60,000 in a transaction, against its own client inserting the same rows, {mariadb_bench.ROWS_A_STATEMENT} in a statement.
`several`: a node on Redis and MariaDB, all on this machine. SALE.GRAB of a node that answers when Redis has decided, while what was won is filed, against
redis-benchmark running the script of a grab itself on the same Redis, with {resp.CONNECTIONS} connections and as many commands in one pipeline (P): once MariaDB gives way to both,
which has the aim, for the script files nothing, and once it takes its share of the cores. What was not filed when a turn ended was filed after it; grabs over HTTP that the node
refuses without asking Redis against those of a server by itself; wins that wait for the ledger, {several.LEDGER_PIPELINE} in a pipeline, against MariaDB's own client inserting the same
rows, {several.INSERTS_BATCH} in a transaction; {several.NODES} nodes against one on a sale that is sold out, which have the same cores.

{crowd.disturbance()}

## Machine

{table.markdown(("what", "value"), facts)}
## Grabs over HTTP

{table.markdown(table.COLUMNS, map(table.run_cells, runs))}
## Inside

{table.markdown(table.FIGURE_COLUMNS, map(table.figure_cells, figures))}
## Not reached

{chr(10).join("- " + text for text in missed) if missed else "Nothing: every aim of the design is met."}
"""


def write(bench, facts, results, parts):
    rows = crowd.row_names(bench)
    missing = results.missing(rows, parts)
    if missing:
        raise servers.BenchError("not written, for these were not measured with this source: " + ", ".join(missing))
    text = document(bench, facts, [results.runs[name] for name in rows],
                    [figure for part in parts for figure in results.figures[part]])
    with open(os.path.join(ROOT, "docs", "benchmarks.md"), "w", encoding="utf-8") as file:
        file.write(text)


def main(arguments):
    options = parse(arguments)
    bench = Bench(options)
    # A SIGTERM ends the servers and removes the folders, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started_s = time.monotonic()
    try:
        if not options.no_make:
            bench.make()
        results = kept.Kept(os.path.join(bench.build, "bench-kept.json"), ROOT)
        facts = machine.facts(bench.temporary)
        for name, value in facts:
            bench.say(f"{name}: {value}")
        runs = crowd.measure(bench)
        parts = {**inside.PARTS, **guard.PARTS, **holds.PARTS, **numbers_bench.PARTS, **doors_bench.PARTS, **resp.PARTS,
                 **mariadb_bench.PARTS, **several.PARTS}
        figures = inside.measure(bench, parts)
        if not options.quick:
            results.add(runs, figures)
        if options.write:
            write(bench, facts, results, parts)
        for text in crowd.shortfalls(runs):
            bench.say(f"below its aim: {text}")
        if crowd.disturbance():
            bench.say(crowd.disturbance())
        bench.say(f"done in {time.monotonic() - started_s:.0f} s")
        return 1 if any(run.errors for run in runs) else 0
    except (servers.BenchError, subprocess.SubprocessError, OSError) as problem:
        bench.say(f"bench: {problem}")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(bench.temporary, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
