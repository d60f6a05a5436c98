"""A database that is killed, restarts, locks or loses connections costs nobody an order (P3, P4, P13)."""

import contextlib
import threading
import time

import databases
import pytest
from harness import Shop, eventually
from ledgers import DATABASES, MysqlLedger, data_copy
from ports import free_port
from witness import Witness

CYCLES = 10
PASSWORD = "correct horse"


def filed(server):
    """All that was decided stands in the ledger."""
    client = server.connect()
    with contextlib.closing(client):
        def lag():
            text = client.get("/metrics").body.decode()
            return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("stampede_clerk_lag ")) == 0
        eventually(lag, 60)


def test_kills_of_the_database_under_load_lose_nothing(db, at):
    """Rows are what was acknowledged, and the audit is clean: after each kill the clerk goes on from the point it finds."""
    with at("--clerk-pause-ms", "1", segment_mb=1) as server:
        witness = Witness(server)
        print(f"seed {witness.seed}")
        for cycle in range(3 * CYCLES):
            if cycle >= CYCLES and len(witness.acked) > 200:
                break
            join = witness.load(seconds=1.2)
            time.sleep(witness.random.uniform(0.05, 0.6))
            db.kill()
            time.sleep(witness.random.uniform(0.0, 0.3))
            db.start()
            join()
            filed(server)
            if cycle % 5 == 4:
                witness.check()
        witness.check()
        witness.shop.close()
        server.stop()
        rows = server.ledger().orders()
        assert len({row["no"] for row in rows}) == len(rows)
        kept = {str(row["no"]) for row in rows}
        assert {order["no"] for order in witness.acked.values()} <= kept
        assert len(witness.acked) > 200, f"hardly anything was sold: {witness.summary()}"
        audit = server.audit()
        assert audit.code == 0, audit


def test_kills_of_both_lose_nothing(db, at):
    with at("--clerk-pause-ms", "1", segment_mb=1) as server:
        witness = Witness(server)
        for _ in range(4):
            join = witness.load(seconds=5)
            time.sleep(witness.random.uniform(0.05, 0.3))
            db.kill()
            server.kill()
            join()
            db.start()
            server.start()
            witness.check(full=False)
        witness.check()
        witness.shop.close()
        server.stop()
        assert server.audit().code == 0


def connections_end(db, database):
    """Ends every connection to a database, whatever it is doing."""
    for row in db.do(f"SELECT id FROM information_schema.processlist WHERE db = '{database}' AND id <> connection_id()"):
        with contextlib.suppress(databases.pymysql.Error):
            db.do(f"KILL {row['id']}")


def test_connections_that_are_lost_in_mid_transaction_lose_nothing(db, at):
    with at("--clerk-pause-ms", "1", segment_mb=1) as server:
        witness = Witness(server, stock=2000, buyers=4000)
        over = threading.Event()

        def cut():
            while not over.wait(0.03):
                connections_end(db, server.ledger().database)
        cutter = threading.Thread(target=cut)
        join = witness.load(seconds=4, threads=4)
        cutter.start()
        join()
        over.set()
        cutter.join()
        filed(server)
        witness.check()
        witness.shop.close()
        server.stop()
        assert server.audit().code == 0


def test_whoever_asks_after_a_restart_of_the_database_notices_nothing(db, at):
    with at() as server:
        shop = Shop(server)
        sale = shop.sale(stock=10)["id"]
        name = shop.seller + "-buyer"
        assert shop.client.post("/v1/users", {"username": name, "password": PASSWORD, "role": "customer"}).status == 201
        shop.win(sale, "ann")
        filed(server)
        db.stop()
        db.start()
        assert shop.client.post("/v1/login", {"username": name, "password": PASSWORD}).status == 200
        assert shop.client.post("/v1/users", {"username": name + "2", "password": PASSWORD, "role": "customer"}).status == 201
        assert [order["buyer"] for order in shop.client.get(f"/v1/orders?sale={sale}", shop.seller_token).json()["items"]] == ["ann"]
        assert shop.client.request("PUT", "/v1/webhook", {"url": "https://example.com/"}, shop.seller_token).status == 200
        shop.close()


@pytest.mark.parametrize("how", ["hung", "killed"])
def test_a_database_that_is_away_keeps_nobody_from_buying(db, at, how):
    """P13: wins go on; what needs the database is refused with 503 at once, and works again by itself."""
    with at() as server:
        shop = Shop(server)
        sale = shop.sale(stock=100)["id"]
        filed(server)
        db.pause() if how == "hung" else db.kill()
        try:
            won = [shop.win(sale, f"buyer{i}")["no"] for i in range(20)]
            eventually(lambda: "\nstampede_clerk_failing 1\n" in shop.client.get("/metrics").body.decode(), 20)
            began = time.monotonic()
            for _ in range(3):
                assert shop.client.get(f"/v1/orders?sale={sale}", shop.seller_token).status == 503
                assert shop.client.post("/v1/login", {"username": "ann", "password": PASSWORD}).status == 503
            assert time.monotonic() - began < 10
            assert "\nstampede_clerk_lag 20\n" in shop.client.get("/metrics").body.decode()
            assert shop.counts(sale) == (100, 80, 0, 20)
            assert shop.client.get("/readyz").json() == {"status": "ready", "detail": "The ledger cannot be written; see the log."}
        finally:
            db.resume() if how == "hung" else db.start()
        filed(server)
        assert [str(row["no"]) for row in server.ledger().orders(sale)] == won
        eventually(lambda: shop.client.get(f"/v1/orders?sale={sale}", shop.seller_token).status == 200, 20)
        shop.close()


@pytest.mark.parametrize("sql", ["SELECT * FROM outbox_mark FOR UPDATE", "SELECT * FROM sales FOR UPDATE", "SELECT * FROM point FOR UPDATE"])
def test_locks_of_others_are_waited_for(at, sql):
    """Longer than innodb_lock_wait_timeout: the clerk tries again until it has them."""
    with at("--clerk-pause-ms", "1") as server:
        shop = Shop(server)
        sale = shop.sale(stock=100)["id"]
        filed(server)
        ledger = server.ledger()
        with contextlib.closing(databases.connect(ledger.port, ledger.database)) as other, other.cursor() as cursor:
            other.begin()
            cursor.execute(sql)
            won = [shop.win(sale, f"buyer{i}")["no"] for i in range(10)]
            time.sleep(2.5)
            assert ledger.orders(sale) == [], "filed without the lock"
            other.rollback()
        filed(server)
        assert [str(row["no"]) for row in ledger.orders(sale)] == won
        shop.close()


def test_a_deadlock_is_survived(at):
    """Two that take sale and point in opposite orders: InnoDB ends the one that has changed less, which is the clerk, and it files what it had to once more."""
    with at("--clerk-pause-ms", "1") as server:
        shop = Shop(server)
        sale = shop.sale(stock=100000)["id"]
        filed(server)
        ledger, over = server.ledger(), threading.Event()
        ledger.do("CREATE TABLE ballast (n INT PRIMARY KEY) ENGINE = InnoDB")
        ballast = "INSERT INTO ballast VALUES " + ", ".join(f"({n})" for n in range(5000))

        def cross():
            with contextlib.closing(databases.connect(ledger.port, ledger.database)) as other, other.cursor() as cursor:
                while not over.is_set():
                    with contextlib.suppress(databases.pymysql.Error):
                        other.begin()
                        cursor.execute(ballast)
                        cursor.execute("SELECT * FROM point FOR UPDATE")
                        time.sleep(0.01)
                        cursor.execute("UPDATE sales SET description = description WHERE id = %s", (int(sale),))
                    other.rollback()
        crosser, won = threading.Thread(target=cross), set()

        def ended():
            for _ in range(20):
                won.add(shop.win(sale, f"buyer{len(won)}")["no"])
            return "(1213)" in server.log(10 ** 7)
        crosser.start()
        try:
            eventually(ended)
        finally:
            over.set()
            crosser.join()
        filed(server)
        assert {str(row["no"]) for row in ledger.orders(sale)} == won
        ledger.do("DROP TABLE ballast")
        shop.close()
        server.stop()
        assert server.audit().code == 0


def test_names_are_bytes(db, at):
    """Ann is not ann, é is not e, a space at the end counts, and four bytes are a letter like others."""
    names = ["ann", "Ann", "ANN", "änn", "åsa", "asa", "straße", "strasse", "买家", "🦬", "🐃", "x🦬"]
    with at("--clerk-pause-ms", "1") as server:
        shop = Shop(server)
        sale = shop.sale(stock=100, name="🦬 sale", description="四字节 🦬")["id"]
        for other in ("🐃 sale", "Lamp", "lamp", "lämp", "LAMP"):
            shop.sale(name=other)
        won = {name: shop.win(sale, name, key="k")["no"] for name in names}
        filed(server)
        assert {row["buyer"]: str(row["no"]) for row in server.ledger().orders(sale)} == won
        for name, no in won.items():
            mine = shop.client.get("/v1/orders", shop.buyer(name)).json()["items"]
            assert [order["no"] for order in mine] == [no], name
            assert shop.win(sale, name, key="k")["no"] == no
        assert shop.show(sale)["name"] == "🦬 sale"
        shop.close()
        server.restart()
        shop = Shop(server, shop.seller)
        for name, no in won.items():
            assert shop.win(sale, name, key="k")["no"] == no
        shop.close()
        server.stop()
        assert server.audit().code == 0


def test_a_replica_is_read_when_it_has_what_is_asked_for(db, at, tmp_path):
    """The replica of this test differs in a name, which shows who was asked."""
    first = at()
    shop = Shop(first)
    sale = shop.sale(name="as filed", stock=10)["id"]
    won = [shop.win(sale, name)["no"] for name in ("ann", "bob")]
    filed(first)
    shop.close()
    first.stop()
    data_copy(first.data, tmp_path / "replica")
    replica = DATABASES[str((tmp_path / "replica").resolve())]
    MysqlLedger(replica).change("UPDATE sales SET name = 'of the replica'")
    with at("--ledger-read", replica, data=first.data, url=DATABASES[str(first.data.resolve())]) as server:
        shop = Shop(server, shop.seller)

        def listed():
            return [one["name"] for one in shop.client.get(f"/v1/sales?seller={shop.seller}", shop.seller_token).json()["items"]]
        assert listed() == ["of the replica"]
        won.append(shop.win(sale, "cat")["no"])
        assert shop.client.get(f"/v1/orders/{won[2]}", shop.buyer("cat")).status == 200
        assert [order["no"] for order in shop.client.get("/v1/orders", shop.buyer("cat")).json()["items"]] == won[2:]
        assert listed() == ["as filed"], "the replica is behind, and was asked all the same"
        shop.close()


def test_a_replica_that_is_away_is_passed_over(db, at):
    with at("--ledger-read", f"mysql://shop@127.0.0.1:{free_port()}/x") as server:
        shop = Shop(server)
        sale = shop.sale(stock=10)["id"]
        shop.win(sale, "ann")
        assert [order["buyer"] for order in shop.client.get(f"/v1/orders?sale={sale}", shop.seller_token).json()["items"]] == ["ann"]
        shop.close()
