"""A ledger that several nodes file into at once, in MariaDB or MySQL: the programs that test it on SQLite, and one that is filed into while the
database is killed."""

import contextlib
import os
import pathlib
import subprocess
import threading
import time

import databases
import pytest
from harness import BINARY, eventually

UNITS = pathlib.Path(BINARY).parent / "tests" / "unit" / "ledger"
SECONDS_MAX = 240
KILLS = 5


class Program:
    """A unit test let loose on a new database. It says much where the database fails: into a file, which takes it all."""

    def __init__(self, db, name, folder, **environment):
        self.url = db.database()
        self.output = folder / "output"
        more = {"STAMPEDE_TEST_LEDGER": self.url, "STAMPEDE_TEST_PASSWORD": databases.PASSWORD, **environment}
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen([UNITS / name], env=os.environ | more, stdout=output, stderr=output)

    def runs(self):
        return self.process.poll() is None

    def end(self):
        try:
            code = self.process.wait(SECONDS_MAX)
        finally:
            self.process.kill()
        assert code == 0, self.output.read_text(errors="replace")[-5000:]


@pytest.mark.parametrize("name", ["test_shared_takes", "test_shared_orders", "test_shared_crowd"])
def test_nodes_share_a_ledger(db, tmp_path, name):
    Program(db, name, tmp_path).end()


def test_nobody_hears_of_deadlocks(db, tmp_path):
    """Someone locks the sales in the other order, and has changed more: InnoDB ends what nodes file, who file it once more."""
    ballast, over = db.database().rpartition("/")[2], threading.Event()
    db.do(f"CREATE TABLE {ballast}.rows_changed (n INT PRIMARY KEY) ENGINE = InnoDB")
    change = f"INSERT INTO {ballast}.rows_changed VALUES " + ", ".join(f"({n})" for n in range(5000))
    program = Program(db, "test_shared_crowd", tmp_path)

    def ended():
        return "(1213)" in program.output.read_text(errors="replace")

    def cross():
        with contextlib.closing(databases.connect(db.port)) as other, other.cursor() as cursor:
            while not over.wait(0.02) and not ended():
                with contextlib.suppress(databases.pymysql.Error):
                    cursor.execute(f"USE {program.url.rpartition('/')[2]}")
                    other.begin()
                    cursor.execute(change)
                    cursor.execute("SELECT id FROM sales WHERE id IN (2, 4) FOR UPDATE")
                    time.sleep(0.02)
                    cursor.execute("SELECT id FROM sales WHERE id IN (1, 3) FOR UPDATE")
                other.rollback()
    crosser = threading.Thread(target=cross)
    crosser.start()
    try:
        program.end()
    finally:
        over.set()
        crosser.join()
    assert ended()


def test_kills_of_the_database_lose_and_double_nothing(db, tmp_path):
    """Whoever is left in the dark files the same again; what was told stands, and the program counts at the end."""
    program = Program(db, "test_shared_crowd", tmp_path, STAMPEDE_TEST_BATCHES="80")
    name = program.url.rpartition("/")[2]

    def filed():
        return db.do("SELECT count(*) AS filed FROM orders", database=name)[0]["filed"]

    def sold_out():
        return db.do("SELECT sum(available) AS left_over FROM sales", database=name)[0]["left_over"] < 10

    def begun():
        tables = db.do("SELECT count(*) AS found FROM information_schema.tables WHERE table_name = 'shelf' AND table_schema = %s" % repr(name))
        return tables[0]["found"] == 1 and filed() > 0
    try:
        eventually(begun, 60)
        for kill in range(KILLS):
            before = filed()
            db.kill()
            time.sleep(0.1 * kill)
            db.start()
            assert program.runs(), "it was over before the database had been killed often enough"
            eventually(lambda was=before: filed() > was or sold_out(), 60)
    finally:
        program.end()
