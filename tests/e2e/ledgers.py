"""Where the ledgers of the tests are, and a look into them from outside."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import sqlite3
import time

import databases

# Where the ledgers of this run are: a file in the data folder, or with STAMPEDE_LEDGER=mysql a database for each data folder.
ON_MYSQL = os.environ.get("STAMPEDE_LEDGER") == "mysql"
DATABASES = {}


def ledger_flags(data):
    """What a command needs to be told to find the ledger of a data folder, beside the folder."""
    if not ON_MYSQL:
        return []
    place = str(pathlib.Path(data).resolve())
    if place not in DATABASES:
        DATABASES[place] = databases.make_database(databases.shared_port())
    return ["--ledger", DATABASES[place]]


def ledger_of(data):
    """A look into the ledger of a data folder."""
    return MysqlLedger(ledger_flags(data)[1]) if ON_MYSQL else Ledger(pathlib.Path(data) / "ledger.db")


def data_copy(source, to):
    """A data folder once more, with its ledger."""
    shutil.copytree(source, to)
    if ON_MYSQL:
        old = ledger_of(source)
        DATABASES.setdefault(str(pathlib.Path(to).resolve()), databases.make_database(old.port))
        new = ledger_of(to)
        for table in old.tables():
            new.do(old.rows(f"SHOW CREATE TABLE {table}")[0]["Create Table"])
            columns = ", ".join(f"`{row['Field']}`" for row in old.rows(f"SHOW COLUMNS FROM {table}") if "GENERATED" not in row["Extra"])
            new.do(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {old.database}.{table}")
        for trigger in old.rows("SHOW TRIGGERS"):
            new.do(old.rows(f"SHOW CREATE TRIGGER {trigger['Trigger']}")[0]["SQL Original Statement"])


def ledger_environment():
    return {"STAMPEDE_LEDGER_PASSWORD": databases.PASSWORD} if ON_MYSQL else {}


def ledger_arguments(arguments):
    """The same for a whole command line, which may say where its data is."""
    words = [*map(str, arguments)]
    if not words or words[0] not in ("serve", "admin", "audit", "export", "repair") or "--data" not in words[:-1] or "--ledger" in words:
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

    def change(self, sql, *rows):
        """What nobody should do, for each row of parameters or once without; how many rows it changed. Constraints do not count."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=20)) as db:
            db.execute("PRAGMA ignore_check_constraints = ON")
            changed = (db.executemany(sql, rows) if rows else db.execute(sql)).rowcount
            db.commit()
            return changed

    @contextlib.contextmanager
    def locked(self):
        """While this lasts, nobody else can write."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=20, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                db.execute("ROLLBACK")

    @contextlib.contextmanager
    def unreadable(self):
        """While this lasts, nobody can read either: all its locks are taken, those of the readers of the write-ahead log, too."""
        with open(f"{self.path}-shm", "r+b") as shared:
            end = time.monotonic() + 20
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.lockf(shared, fcntl.LOCK_EX | fcntl.LOCK_NB, 8, 120)
                    break
                assert time.monotonic() < end, "the locks of the ledger are never free"
                time.sleep(0.001)
            try:
                yield
            finally:
                fcntl.lockf(shared, fcntl.LOCK_UN, 8, 120)

    def digest(self):
        return hashlib.sha256(pathlib.Path(self.path).read_bytes()).hexdigest()

    def drop(self):
        """It is lost."""
        for path in pathlib.Path(self.path).parent.glob("ledger.db*"):
            path.unlink()

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

    def do(self, sql):
        with contextlib.closing(databases.connect(self.port, self.database)) as db, db.cursor() as cursor:
            cursor.execute(sql)

    def rows(self, sql, *values):
        with contextlib.closing(databases.connect(self.port, self.database)) as db, db.cursor() as cursor:
            cursor.execute(sql.replace("%", "%%").replace("?", "%s"), values)
            return [dict(row) for row in cursor.fetchall()]

    def change(self, sql, *rows):
        with contextlib.closing(databases.connect(self.port, self.database)) as db, db.cursor() as cursor:
            databases.forget_checks(cursor)
            sql = sql.replace("%", "%%").replace("?", "%s")
            db.begin()
            changed = cursor.executemany(sql, rows) if rows else cursor.execute(sql, ())
            db.commit()
            return changed

    @contextlib.contextmanager
    def locked(self):
        with contextlib.closing(databases.connect(self.port, self.database)) as db, db.cursor() as cursor:
            db.begin()
            cursor.execute("SELECT * FROM outbox_mark FOR UPDATE")
            cursor.execute("SELECT * FROM users FOR UPDATE")
            try:
                yield
            finally:
                db.rollback()

    @contextlib.contextmanager
    def unreadable(self):
        with contextlib.closing(databases.connect(self.port, self.database)) as db, db.cursor() as cursor:
            cursor.execute("LOCK TABLES " + ", ".join(f"{name} WRITE" for name in self.tables()))
            yield

    def tables(self):
        return [row["name"] for row in self.rows("SELECT table_name AS name FROM information_schema.tables WHERE table_schema = database() ORDER BY table_name")]

    def digest(self):
        return [self.rows(f"CHECKSUM TABLE {name}") for name in self.tables()]

    def drop(self):
        with contextlib.closing(databases.connect(self.port)) as db, db.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {self.database}")
            cursor.execute(f"CREATE DATABASE {self.database}")
