"""The ledger in MariaDB: wins filed against what MariaDB takes of the same rows in INSERTs of many, in turns."""

import os
import random
import statistics
import subprocess
import sys
import time

import servers
import table

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))

ROWS_A_STATEMENT = 512
ROWS_A_TRANSACTION = 60_000
RATIO_MIN = 0.5
LOAD_S_MAX = 300


def batches(path, rows):
    """The rows of ledger_bench as a client that knows nothing better than long INSERTs would send them."""
    dice = random.Random(7)
    with open(path, "w", encoding="ascii") as out:
        for first in range(0, rows, ROWS_A_STATEMENT):
            if first % ROWS_A_TRANSACTION < ROWS_A_STATEMENT:
                out.write(("COMMIT;\n" if first else "") + "BEGIN;\n")
            tuples = (f"({no},1,'filled{dice.randrange(10 ** 10):010}',1,-1,0,{1_700_000_000_000 + no // 100},{1_700_000_900_000 + no // 100},'',0,'',0,0,'')"
                      for no in range(first + 2, min(first + ROWS_A_STATEMENT, rows) + 2))
            out.write("INSERT INTO orders (no,sale,buyer,units,amount,state,won_ms,pay_by_ms,`key`,token_nonce,payment_ref,ended_ms,canceller,reason) VALUES "
                      + ",".join(tuples) + ";\n")
        out.write("COMMIT;\n")


def load_s(database, url, path):
    """Seconds that MariaDB's own client takes; the tables are those of the ledger, and empty."""
    import databases  # of the test packages
    name = url.rpartition("/")[2]
    command = [databases.program("mariadb", "mysql"), "--no-defaults", f"--socket={database.socket}", "-uroot", name]
    with open(path, "rb") as sql:
        start_s = time.monotonic()
        subprocess.run(command, stdin=sql, check=True, timeout=LOAD_S_MAX)
        return time.monotonic() - start_s


def ledger(bench):
    import databases  # of the test packages
    orders = 60_000 if bench.quick else 240_000
    path = bench.folder("orders.sql")
    batches(path, orders)
    os.environ["STAMPEDE_LEDGER_PASSWORD"] = databases.PASSWORD
    filed, ended, ratios = [], [], []
    with databases.MariaDB("--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M") as database:
        for turn in range(min(bench.rounds, 3)):
            bench.say(f"ledger in MariaDB: round {turn + 1}")
            wins, expiries = map(float, servers.run([bench.program("ledger_bench"), database.database(), str(orders)], LOAD_S_MAX).split())
            empty = database.database()
            servers.run([bench.program("ledger_bench"), empty, "1"], LOAD_S_MAX)
            database.do("DELETE FROM orders", database=empty.rpartition("/")[2])
            filed.append(wins)
            ended.append(expiries)
            ratios.append(wins * load_s(database, empty, path) / orders)
    ratio = statistics.median(ratios)
    return [table.Figure("ledger in MariaDB, wins filed", statistics.median(filed), "orders/s"),
            table.Figure("ledger in MariaDB, wins filed / its own batched inserts", ratio, "x", f">= {RATIO_MIN}", ratio >= RATIO_MIN),
            table.Figure("ledger in MariaDB, expiries filed", statistics.median(ended), "orders/s")]


PARTS = {"mariadb": ledger}
