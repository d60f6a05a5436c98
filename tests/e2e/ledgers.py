"""Where the ledgers of the tests are, and a look into them from outside."""

import contextlib
import os
import pathlib
import sqlite3

import mariadb

# Where the ledgers of this run are: a file in the data folder, or with STAMPEDE_LEDGER=mysql a database for each data folder.
ON_MYSQL = os.environ.get("STAMPEDE_LEDGER") == "mysql"
DATABASES = {}


def ledger_flags(data):
    """What a command needs to be told to find the ledger of a data folder, beside the folder."""
    if not ON_MYSQL:
        return []
    place = str(pathlib.Path(data).resolve())
    if place not in DATABASES:
        DATABASES[place] = mariadb.make_database(mariadb.shared_port())
    return ["--ledger", DATABASES[place]]


def ledger_of(data):
    """A look into the ledger of a data folder."""
    return MysqlLedger(ledger_flags(data)[1]) if ON_MYSQL else Ledger(pathlib.Path(data) / "ledger.db")


def ledger_environment():
    return {"STAMPEDE_LEDGER_PASSWORD": mariadb.PASSWORD} if ON_MYSQL else {}


def ledger_arguments(arguments):
    """The same for a whole command line, which may say where its data is."""
    words = [*map(str, arguments)]
    if not words or words[0] not in ("admin", "audit", "export", "repair") or "--data" not in words[:-1] or "--ledger" in words:
        return []
    return ledger_flags(words[words.index("--data") + 1])


class Ledger:
    """What stands in SQLite, read by someone who is not the server."""

    def __init__(self, path):
        self.path = path

    def rows(self, sql, *values):
        with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=20)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(sql, values)]

    def change(self, *statements):
        """What nobody should do. Statements go to both databases as they are."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=20, isolation_level=None)) as db:
            for sql in statements:
                db.execute(sql)

    @contextlib.contextmanager
    def locked(self):
        """While this lasts, nobody else can write."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=20, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            yield
            db.execute("ROLLBACK")

    def orders(self, sale=None):
        """By number, each with no, sale, buyer, units and key."""
        where, values = ("", ()) if sale is None else (" WHERE sale = ?", (int(sale),))
        return self.rows(f"SELECT * FROM orders{where} ORDER BY no", *values)

    def sale(self, sale):
        return self.rows("SELECT * FROM sales WHERE id = ?", int(sale))[0]


class MysqlLedger(Ledger):
    """The same in MySQL."""

    def __init__(self, url):
        super().__init__(url)
        address, self.database = url.removeprefix("mysql://").split("/")
        self.port = int(address.rpartition(":")[2])

    def rows(self, sql, *values):
        with contextlib.closing(mariadb.connect(self.port, self.database)) as db, db.cursor() as cursor:
            cursor.execute(sql.replace("%", "%%").replace("?", "%s"), values)
            return [dict(row) for row in cursor.fetchall()]

    def change(self, *statements):
        with contextlib.closing(mariadb.connect(self.port, self.database)) as db, db.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)

    @contextlib.contextmanager
    def locked(self):
        with contextlib.closing(mariadb.connect(self.port, self.database)) as db, db.cursor() as cursor:
            db.begin()
            cursor.execute("SELECT * FROM outbox_mark FOR UPDATE")
            yield
            db.rollback()
