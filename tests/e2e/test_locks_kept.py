"""Rows of the ledger that somebody keeps, a node that does not move or one who has nothing to do with us: only those wait who need them, and not for long."""

import collections
import contextlib
import signal
import time

import databases
import pymysql
import pytest
from harness import Shop, beside, crowd, eventually, mint_name, problem, request_bytes
from knocking import Crowd, exact, grabs, settled, told
from nodes import Nodes

KNOWN_S = 20  # a moment on a quiet machine
LOCKED_S = 9  # for whoever asks for a row that others keep: two and a little on a quiet machine, as long as a request lasts


@pytest.fixture(scope="module")
def db():
    with databases.Database() as one:
        yield one


@contextlib.contextmanager
def row_locked(nodes, sale):
    """While this lasts the sale's row in the ledger is somebody else's."""
    ledger = nodes.ledger()
    with contextlib.closing(databases.connect(ledger.port, ledger.database)) as other, other.cursor() as cursor:
        other.begin()
        cursor.execute("SELECT * FROM sales WHERE id = %s FOR UPDATE", (int(sale),))
        try:
            yield
        finally:
            other.rollback()


def row_is_locked(nodes, sale):
    try:
        nodes.ledger().rows("SELECT * FROM sales WHERE id = ? FOR UPDATE NOWAIT", int(sale))
        return False
    except pymysql.OperationalError as error:
        assert error.args[0] in (1205, 3572), error
        return True


def frozen_with_the_row(nodes, node, sale):
    """Freezes a node that has asked for the sale's row and waits for it, so that it is given to one who does not move. False: the wait was over before.
    The server tells nothing new of transactions to one who asks more often than every 0.1 s."""
    with row_locked(nodes, sale):
        eventually(lambda: nodes.ledger().rows("SELECT * FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"), pause=0.2)
        node.process.send_signal(signal.SIGSTOP)
    if row_is_locked(nodes, sale):
        return True
    node.process.send_signal(signal.SIGCONT)
    return False


def test_a_node_that_is_frozen_in_a_transaction_keeps_no_other_from_selling(db):
    """The server ends its connection after a moment, and with it the lock of the sale; what it was about to file is filed later, once."""
    with Nodes(database=db.database()) as nodes:
        one, two = nodes.start(), nodes.start()
        shop = Shop(one)
        sale = shop.sale(stock=10_000)["id"]
        other = Shop(two, shop.seller)
        wins = {other.win(sale, "ann")["no"]: "ann"}
        crowd_of_one = Crowd(one, sale, shop.seller)
        try:
            with crowd_of_one:
                eventually(lambda: frozen_with_the_row(nodes, one, sale), 60)
                try:
                    bob = eventually(lambda: (got := other.grab(sale, "bob", key="k")).status == 201 and got, KNOWN_S)
                finally:
                    one.process.send_signal(signal.SIGCONT)
                told_before = len(crowd_of_one.wins())
                eventually(lambda: len(crowd_of_one.wins()) > told_before, KNOWN_S)
        finally:
            one.process.send_signal(signal.SIGCONT)
        wins |= {bob.json()["order"]["no"]: "bob", other.win(sale, "cat")["no"]: "cat"} | crowd_of_one.wins()
        for buyer in crowd_of_one.unknown():
            answer = eventually(lambda buyer=buyer: (got := shop.grab(sale, buyer, key="k")).status in (200, 201) and got, KNOWN_S)
            wins[answer.json()["order"]["no"]] = buyer
        assert exact(nodes, sale, wins).items() == wins.items()


def test_connections_that_the_database_ends_while_they_rest_are_made_anew_without_a_word():
    """As MySQL does by the bound that nodes set for those that write."""
    with databases.Database("--wait-timeout=1") as impatient, Nodes(database=impatient.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=100, pay_within_s=600, price=1)["id"]
        wins = {}
        connections = "SELECT id FROM information_schema.processlist WHERE db = database() AND id != connection_id()"
        for n in range(4):
            answers = crowd(server, grabs(shop, sale, [f"b{n}-{i}" for i in range(20)]), 20)
            assert told(answers) == {"WON": 20}
            wins |= {answer.json()["order"]["no"]: None for answer in answers}
            assert shop.order(answers[0].json()["order"]["no"], shop.buyer(f"b{n}-0")).status == 200
            assert shop.client.post(f"/v1/orders/{answers[0].json()['order']['no']}/cancel", None, shop.buyer(f"b{n}-0")).status == 200
            before = {row["id"] for row in nodes.ledger().rows(connections)}
            time.sleep(2.5)
            assert before - {row["id"] for row in nodes.ledger().rows(connections)}, "the database has ended none"
        assert {str(order["no"]) for order in nodes.ledger().orders(sale)} == wins.keys()
        assert not [line for line in server.log(10 ** 7).splitlines() if '"warn"' in line or '"error"' in line]


def timed(ask):
    began = time.monotonic()
    return ask(), time.monotonic() - began


def test_a_row_that_somebody_keeps_makes_only_those_wait_who_need_it(db):
    """Who cancels in that sale hears BUSY in time; orders are read, and other sales go on."""
    with Nodes(database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        kept, other = (shop.sale(stock=1000, pay_within_s=600, price=1)["id"] for _ in range(2))
        buyers = [f"b{i}" for i in range(12)]
        orders = {buyer: shop.win(kept, buyer)["no"] for buyer in buyers}
        free = shop.win(other, "ann")["no"]
        wins, cancels, reads = {free: "ann"}, [], []

        def cancel(buyer):
            own = Shop(server, shop.seller)
            cancels.append(timed(lambda: own.client.post(f"/v1/orders/{orders[buyer]}/cancel", None, own.buyer(buyer))))
            own.close()

        with row_locked(nodes, kept), beside(*(lambda buyer=buyer: cancel(buyer) for buyer in buyers)):
            while len(cancels) < len(buyers):
                reads.append(timed(lambda: shop.order(free, shop.buyer("ann"))))
        for answer, took_s in cancels:
            problem(answer, 503, "BUSY")
            assert took_s < LOCKED_S, cancels
        assert {answer.status for answer, _ in reads} == {200} and max(took_s for _, took_s in reads) < LOCKED_S, reads
        with row_locked(nodes, kept), Crowd(server, kept, shop.seller) as refused:
            eventually(lambda: "BUSY" in told(answer for answer, _ in [*refused.heard.values()]), KNOWN_S)
            others = Crowd(server, other, shop.seller)
            with others:
                eventually(lambda: len(others.wins()) >= 50, KNOWN_S)
            assert shop.client.get("/readyz").status == 200 and not refused.wins()
            assert max(took_s for _, took_s in [*refused.heard.values()]) < LOCKED_S
        assert eventually(lambda: shop.grab(kept, "cat", key="k").status == 201, KNOWN_S)
        eventually(lambda: settled(nodes, kept) and settled(nodes, other), 30)
        filed = {str(order["no"]): order["buyer"] for order in nodes.ledger().orders(other)}
        assert (wins | others.wins()).items() <= filed.items()
        done = nodes.reconcile()
        assert done.code == 0 and "0 differ" in done.out, done


def asks_of(shop, sale, other, asked):
    """40 requests and more that come to nothing while the row of the sale is kept, with some of the other sale among them or without."""
    buyers = [f"b{i}" for i in range(40)]
    if asked == "cancels":
        return [request_bytes("POST", f"/v1/orders/{shop.win(sale, buyer)['no']}/cancel", None, shop.buyer(buyer)) for buyer in buyers]
    asks = [request_bytes("POST", f"/v1/sales/{sale}/{'tokens' if asked == 'tokens' else 'grabs'}", None, shop.buyer(buyer)) for buyer in buyers]
    return asks if asked != "mixed grabs" else [ask for pair in zip(asks, grabs(shop, other, buyers), strict=True) for ask in pair]


@pytest.mark.parametrize("asked", ["grabs", "mixed grabs", "tokens", "cancels"])
def test_a_row_that_somebody_keeps_opens_no_breaker(db, asked):
    """One stands before the grabs of all sales, another before all that is changed. Most answers are late now, and say nothing of other sales."""
    with Nodes(database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        more = {"admission": "token"} if asked == "tokens" else {"pay_within_s": 600, "price": 1}
        kept, other = shop.sale(stock=1000, **more)["id"], shop.sale(stock=1000)["id"]
        asks = asks_of(shop, kept, other, asked)
        with row_locked(nodes, kept):
            answers = told(crowd(server, asks, len(asks)))
            assert answers.pop("WON", 0) == len(asks) - 40 and {*answers} <= {"OUTCOME_UNKNOWN", "BUSY"}, answers
            assert (shop.change(other, name=mint_name("sale")).status, shop.grab(other, "ann").status) == (200, 201), server.log()
        assert "breaker" not in server.log(10 ** 6)
        assert eventually(lambda: not {*told(crowd(server, asks[:1], 1))} & {"OUTCOME_UNKNOWN", "BUSY"}, KNOWN_S)


def test_more_rows_are_kept_than_there_are_threads_to_file(db):
    """A crowd at each of four sales: the one that is free sells."""
    with Nodes("--filer-threads", 2, database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        *kept, free = (shop.sale(stock=10_000)["id"] for _ in range(4))
        with contextlib.ExitStack() as exits:
            for sale in kept:
                exits.enter_context(row_locked(nodes, sale))
            refused = [exits.enter_context(Crowd(server, sale, shop.seller)) for sale in kept]
            for crowd_of_one in refused:
                eventually(lambda heard=crowd_of_one.heard: "BUSY" in told(answer for answer, _ in [*heard.values()]), KNOWN_S)
            buyers = exits.enter_context(Crowd(server, free, shop.seller))
            eventually(lambda: len(buyers.wins()) >= 200, KNOWN_S)
        assert not any(crowd_of_one.wins() for crowd_of_one in refused)
        assert "breaker" not in server.log(10 ** 6)
        for sale in kept:
            assert eventually(lambda sale=sale: shop.grab(sale, "cat", key="k").status == 201, KNOWN_S)
        eventually(lambda: all(settled(nodes, sale) for sale in [*kept, free]), 30)
        done = nodes.reconcile()
        assert done.code == 0 and "0 differ" in done.out, done


def test_a_row_that_many_file_into_is_not_taken_for_one_that_is_kept(db):
    """Three nodes file into the row of a hot sale, one after the other and slowly, while somebody keeps that of another sale. Who looks whether a row is to be had
    at once never finds this one so."""
    with Nodes(database=db.database()) as nodes:
        servers = [nodes.start() for _ in range(3)]
        shop = Shop(servers[0])
        hot, kept = (shop.sale(stock=100_000)["id"] for _ in range(2))
        shop.win(hot, "ann")
        shop.win(kept, "ann")
        nodes.ledger().do("CREATE TRIGGER slowly BEFORE UPDATE ON sales FOR EACH ROW SET @slept = SLEEP(0.015)")
        with row_locked(nodes, kept), contextlib.ExitStack() as exits:
            refused = [exits.enter_context(Crowd(server, kept, shop.seller, name=f"k{n}-")) for n, server in enumerate(servers)]
            eventually(lambda: all("BUSY" in told(answer for answer, _ in [*one.heard.values()]) for one in refused), KNOWN_S)
            buyers = [exits.enter_context(Crowd(server, hot, shop.seller, name=f"h{n}-{i}-")) for n, server in enumerate(servers) for i in range(4)]
            eventually(lambda: sum(len(one.wins()) for one in buyers) >= 600, KNOWN_S)
        heard = sum((told(answer for answer, _ in [*one.heard.values()]) for one in buyers), collections.Counter())
        assert heard["BUSY"] + heard["OUTCOME_UNKNOWN"] < heard["WON"] / 10, heard
        assert not any(one.wins() for one in refused)
