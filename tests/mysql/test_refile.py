"""P4: what is filed twice is there once, and a row that differs stops the clerk."""

import os
import pathlib
import subprocess

import databases
from harness import BINARY, ROOT, environment
from ledgers import MysqlLedger

LIBRARIES = ("libuv", "jansson", "libssl", "libcrypto", "libargon2", "sqlite3", "libcurl", "libmariadb")
NONE, DAMAGE, LEDGER = 0, 3, 6  # of enum fault


def test_decisions_that_were_filed_before_are_compared_one_by_one(db, tmp_path):
    """Seven transactions: the wins; the same, which fails among many and then succeeds by itself; with ends, the same; and once more, when the orders
    have ended and are not those that were won."""
    program = tmp_path / "refile"
    archive = pathlib.Path(BINARY).parent / "libstampede.a"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", *LIBRARIES], check=True, capture_output=True, text=True).stdout.split()
    subprocess.run([os.environ.get("CC", "gcc"), "-std=gnu11", "-D_GNU_SOURCE", "-iquote", ROOT / "src", "-o", program, ROOT / "tests/mysql/refile.c", archive, *flags,
                    "-lm", "-pthread"], check=True, timeout=120)
    url = db.database()
    done = subprocess.run([program, url], capture_output=True, text=True, timeout=120, env=environment({"STAMPEDE_LEDGER_PASSWORD": databases.PASSWORD}))
    assert done.returncode == 0, done
    assert [int(word) for word in done.stdout.split()] == [NONE, LEDGER, NONE, LEDGER, NONE, LEDGER, DAMAGE], done
    ledger = MysqlLedger(url)
    assert len(ledger.orders()) == 1200
    sale = ledger.sale(1)
    assert (sale["held"], sale["sold"], sale["orders_made"], sale["orders_expired"], sale["available"]) == (500, 350, 1200, 350, 100000 - 850)
