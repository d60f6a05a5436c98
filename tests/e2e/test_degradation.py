"""Redis or MariaDB goes away, killed or hung: buyers hear so at once, nothing is sold that would be lost, and it comes back by itself.

A MariaDB of the module's own, which its tests end and stop; a Redis for each shop."""

import collections
import contextlib
import re
import signal
import threading
import time

import mariadb
import pymysql
import pytest
import resp
from harness import Shop, beside, crowd, eventually, problem, request_bytes
from ledgers import MysqlLedger
from nodes import Nodes
from redis_servers import commands_during

AT_ONCE_S = 25  # for many answers, each of which would take longer if somebody waited
KNOWN_S = 20  # a moment on a quiet machine
STOPPED_S = 9  # four on a quiet machine
LOCKED_S = 6  # for whoever asks for a row that others keep: two and a little, as long as a request lasts


@pytest.fixture(scope="module")
def db():
    with mariadb.MariaDB() as one:
        yield one


@contextlib.contextmanager
def away(server, how):
    """While this lasts it is killed, or hangs."""
    server.pause() if how == "hung" else server.kill()
    try:
        yield
    finally:
        server.resume() if how == "hung" else server.start()


def metric(server, name):
    with server.connect() as client:
        return int(re.search(rf"^{name} (\d+)$", client.get("/metrics").body.decode(), re.M).group(1))


def unready(shop, word):
    """Waits until the node says that it cannot sell, and why."""
    answer = eventually(lambda: (got := shop.client.get("/readyz")).status == 503 and got, KNOWN_S)
    problem(answer, 503, "NOT_READY", word)
    assert shop.client.get("/healthz").status == 200


def back(shop):
    eventually(lambda: shop.client.get("/readyz").status == 200, KNOWN_S)


def grabs(shop, sale, buyers, key=None):
    return [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(buyer), key) for buyer in buyers]


def told(answers):
    return collections.Counter("WON" if answer.status == 201 else answer.code for answer in answers)


def refused_at_once(server, shop, sale):
    """Everybody hears BUSY and when to come again. Threads of a server find out each for itself: the first of each may hear that nobody knows."""
    requests = grabs(shop, sale, [f"refused{i}" for i in range(40)])
    eventually(lambda: set(told(crowd(server, requests, 10))) == {"BUSY"}, KNOWN_S)
    began = time.monotonic()
    for answer in crowd(server, requests, 10):
        problem(answer, 503, "BUSY")
        assert int(answer.headers["retry-after"]) >= 1
    assert time.monotonic() - began < AT_ONCE_S


def settled(nodes, sale):
    """Redis and the ledger have the same, and nothing is under way; the ledger's row as it is then."""
    gate = nodes.redis()
    return gate.xlen(nodes.key(sale, "log")) == 0 and not nodes.ledger().rows("SELECT * FROM errands") and \
        gate.hlen(nodes.key(sale, "orders")) == len(nodes.ledger().orders(sale)) and nodes.ledger().sale(sale)


def exact(nodes, sale, wins):
    """The ledger has the orders that were told, and no unit is lost or sold twice; then Redis has the same."""
    row = eventually(lambda: settled(nodes, sale), 30)
    rows = {str(order["no"]): order["buyer"] for order in nodes.ledger().orders(sale)}
    assert wins.items() <= rows.items(), "an order that was told is missing"
    assert len(set(rows.values())) == len(rows), "somebody won twice"
    assert (row["sold"], row["available"]) == (len(rows), row["offered"] - len(rows))
    done = nodes.reconcile()
    assert done.code == 0 and "0 differ" in done.out, done
    return rows


def known(rows):
    """Without those who were refused: the first of them may have met a Redis that hung, and took what they asked for when it woke up."""
    return {no: buyer for no, buyer in rows.items() if not buyer.startswith("refused")}


class Crowd:
    """Buyers who come one after the other until told to stop, each with a key; what they heard."""

    def __init__(self, server, sale, seller):
        self.server, self.sale, self.seller = server, sale, seller
        self.over = threading.Event()
        self.heard = {}  # buyer: the answer, and how long it took
        self.going = beside(*(lambda n=n: self.run(n) for n in range(4)), until=self.over)

    def run(self, n):
        shop, at = Shop(self.server, self.seller), 0
        while not self.over.is_set():
            buyer, began = f"c{n}-{at}", time.monotonic()
            self.heard[buyer] = shop.grab(self.sale, buyer, key="k"), time.monotonic() - began
            at += 1
            time.sleep(0.01)
        shop.close()

    def __enter__(self):
        self.going.__enter__()
        return self

    def __exit__(self, *error):
        return self.going.__exit__(*error)

    def wins(self):
        return {got.json()["order"]["no"]: buyer for buyer, (got, _) in [*self.heard.items()] if got.status == 201}

    def unknown(self):
        return [buyer for buyer, (got, _) in [*self.heard.items()] if got.status == 503 and got.code == "OUTCOME_UNKNOWN"]


@pytest.mark.parametrize("how", ["hung", "killed"])
def test_without_the_ledger_nothing_is_sold_and_everybody_hears_so(db, how):
    """ack = ledger: those under way hear that nobody knows, the others BUSY without Redis; asked again with their key they hear what it was."""
    with Nodes(database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=5000)["id"]
        order = shop.win(sale, "ann")["no"]
        with Crowd(server, sale, shop.seller) as buyers:
            eventually(lambda: len(buyers.wins()) >= 20)
            with away(db, how):
                unready(shop, "ledger")
                assert metric(server, "stampede_ledger_up") == 0
                refused_at_once(server, shop, sale)
                began = time.monotonic()
                assert shop.counts(sale)[0] == 5000, "what Redis has is told"
                problem(shop.order(order), 503)
                problem(shop.client.get(f"/v1/orders?sale={sale}", shop.seller_token), 503)
                problem(shop.act(sale, "pause"), 503)
                problem(shop.client.post("/v1/login", {"username": "ann", "password": "correct horse"}), 503)
                assert time.monotonic() - began < AT_ONCE_S
                winners = nodes.redis().hkeys(nodes.key(sale, "buyers"))
                assert "ann" in winners and not any(name.startswith("refused") for name in winners), "Redis was asked for what could not be filed"
            back(shop)
            enough = len(buyers.wins()) + 20
            eventually(lambda: len(buyers.wins()) >= enough, KNOWN_S)
        assert max(took for _, took in buyers.heard.values()) < AT_ONCE_S
        assert set(told(got for got, _ in buyers.heard.values())) <= {"WON", "BUSY", "OUTCOME_UNKNOWN"}
        wins = {**buyers.wins(), order: "ann"}
        for buyer in buyers.unknown():
            answer = shop.grab(sale, buyer, key="k")
            assert answer.status == 201, answer
            wins[answer.json()["order"]["no"]] = buyer
        assert exact(nodes, sale, wins) == wins


def test_a_database_that_lets_nobody_write_is_one_that_is_away(db):
    """As one that was demoted: it answers, and takes nothing."""
    url = db.database()
    db.do(f"CREATE USER IF NOT EXISTS clerk@'%' IDENTIFIED BY '{mariadb.PASSWORD}'", f"GRANT ALL ON {url.rpartition('/')[2]}.* TO clerk@'%'")
    with Nodes(database=url.replace("shop@", "clerk@")) as nodes:
        nodes.ledger = lambda: MysqlLedger(url)
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=50)["id"]
        wins = {shop.win(sale, "ann")["no"]: "ann"}
        db.do("SET GLOBAL read_only = 1")
        try:
            answer = shop.grab(sale, "bob", key="k")
            problem(answer, 503, "OUTCOME_UNKNOWN")
            problem(shop.act(sale, "pause"), 503, "BUSY")  # nothing of it was written, and nobody doubts that
            unready(shop, "ledger")
            refused_at_once(server, shop, sale)
            assert shop.order(next(iter(wins))).status == 200, "what can be read is read"
        finally:
            db.do("SET GLOBAL read_only = 0")
        back(shop)
        wins[shop.win(sale, "bob", key="k")["no"]] = "bob"
        assert exact(nodes, sale, wins) == wins
        assert "lets nobody write" in server.log() and "takes orders again" in server.log()


def disconnect(db, url):
    """The server ends every connection to this database, as one that goes away does."""
    name = url.rpartition("/")[2]
    with db.root() as root, root.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", name)
        for row in cursor.fetchall():
            with contextlib.suppress(pymysql.err.OperationalError):  # it may have ended by itself
                cursor.execute(f"KILL {row['id']}")


@pytest.mark.parametrize("how", ["failed over", "set by hand"])
def test_a_database_that_may_lose_commits_takes_none(db, how):
    """P3: after a fail-over the server behind the same name may be another, whose machine forgets orders when it crashes. Or somebody sets it so."""
    url = db.database()
    with Nodes(database=url) as nodes:
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=50)["id"]
        wins = {shop.win(sale, "ann")["no"]: "ann"}
        db.do("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        try:
            if how == "failed over":
                disconnect(db, url)
                problem(shop.grab(sale, "bob", key="k"), 503)
            unready(shop, "ledger")
            refused_at_once(server, shop, sale)
            assert [row["buyer"] for row in nodes.ledger().orders(sale)] == ["ann"], "it was filed where it may be lost"
        finally:
            db.do("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        back(shop)
        wins[shop.win(sale, "bob", key="k")["no"]] = "bob"
        assert exact(nodes, sale, wins) == wins
        assert "may lose what it has committed: set innodb_flush_log_at_trx_commit = 1" in server.log() and "takes orders again" in server.log()


@pytest.mark.parametrize("how", ["hung", "killed"])
def test_with_ack_gate_the_sale_goes_on_to_the_bound_of_the_stream(db, how):
    """As many are won as may wait; then BUSY. All are filed when the database is back, and the sale goes on."""
    bound = 100
    with Nodes("--ack", "gate", "--stream-max", bound, database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=1000)["id"]
        wins = {shop.win(sale, "ann")["no"]: "ann"}
        eventually(lambda: settled(nodes, sale))
        with away(db, how):
            buyers = [f"b{i}" for i in range(bound + 50)]
            answers = crowd(server, grabs(shop, sale, buyers), 5)
            assert told(answers) == {"WON": bound, "BUSY": 50}
            wins |= {answer.json()["order"]["no"]: buyer for buyer, answer in zip(buyers, answers) if answer.status == 201}
            assert eventually(lambda: metric(server, "stampede_ledger_up") == 0, KNOWN_S)
            assert shop.client.get("/readyz").status == 200, "it sells as it should"
            eventually(lambda: metric(server, "stampede_unfiled") == bound, KNOWN_S)
            assert shop.counts(sale) == (1000, 1000 - len(wins), 0, len(wins))
        assert exact(nodes, sale, wins) == wins
        wins[eventually(lambda: (got := shop.grab(sale, "late")).status == 201 and got, KNOWN_S).json()["order"]["no"]] = "late"
        assert exact(nodes, sale, wins) == wins


def test_with_ack_gate_no_crowd_is_too_large_for_a_ledger_that_hangs(db):
    """More win than a node keeps in its hands for the ledger, before anybody notices that it hangs; the keeper files all of them from the log."""
    count, pipeline = 10_000, 500
    with Nodes("--ack", "gate", "--reactors", 1, database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=count)["id"]
        wins = {}
        with away(db, "hung"), resp.Peer(server) as peer:
            for first in range(0, count, pipeline):
                buyers = [f"b{i}" for i in range(first, first + pipeline)]
                answers = peer.pipeline([["SALE.GRAB", sale, buyer] for buyer in buyers])
                assert {answer[0] for answer in answers} == {"WON"}
                wins |= {answer[1]: f"default:{buyer}" for buyer, answer in zip(buyers, answers)}
        assert exact(nodes, sale, wins) == wins


def test_orders_that_only_redis_has_are_found_and_made_up_ones_cost_it_little(db):
    """ack = gate: what was told is to be read also while it is not filed. But anybody can make a number up: such ones are looked for in the sales
    whose mark they have, many together."""
    with Nodes("--ack", "gate", database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        sales = [shop.sale(stock=5)["id"] for _ in range(40)]
        with away(db, "hung"):
            unfiled = {shop.win(sale, "ann")["no"]: sale for sale in sales}
            eventually(lambda: metric(server, "stampede_ledger_up") == 0, KNOWN_S)
            for no, sale in unfiled.items():
                assert shop.order(no).json()["sale"] == sale
            last = int(max(unfiled, key=int))
            problem(shop.order(last ^ 1 << 11), 503, "BUSY")  # the ledger may have it
        eventually(lambda: shop.order(last ^ 1 << 11).status == 404, KNOWN_S)
        made_up = [last ^ n << 4 for n in range(1, 201)]
        answers = []
        heard = commands_during(nodes.own, lambda: answers.extend(
            crowd(server, [request_bytes("GET", f"/v1/orders/{no}", None, shop.buyer("eve")) for no in made_up], 20)))
        looks = sum(line.startswith("H") and ":orders " in line for line in heard)
        assert told(answers) == {"NO_SUCH_ORDER": len(made_up)}
        assert 0 < looks <= 3 * len(made_up), looks  # of 40 sales 2 or 3 have a mark
        problem(shop.order(10 ** 18), 404, "NO_SUCH_ORDER")


@pytest.mark.parametrize("how", ["hung", "killed"])
def test_without_redis_nobody_waits_and_the_sale_goes_on_when_it_is_back(db, how):
    """Killed it comes back empty, and the sale is built from the ledger."""
    with Nodes(database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=5000)["id"]
        order = shop.win(sale, "ann")["no"]
        reconnects = metric(server, "stampede_redis_reconnects")
        with Crowd(server, sale, shop.seller) as buyers:
            eventually(lambda: len(buyers.wins()) >= 20)
            with away(nodes.own, how):
                unready(shop, "Redis")
                assert metric(server, "stampede_redis_up") == 0
                refused_at_once(server, shop, sale)
                assert shop.order(order).status == 200, "the ledger is there"
                assert len(shop.client.get(f"/v1/orders?sale={sale}", shop.seller_token).json()["items"]) > 20
            back(shop)
            enough = len(buyers.wins()) + 20
            eventually(lambda: len(buyers.wins()) >= enough, KNOWN_S)
        assert max(took for _, took in buyers.heard.values()) < AT_ONCE_S
        assert set(told(got for got, _ in buyers.heard.values())) <= {"WON", "BUSY", "OUTCOME_UNKNOWN"}
        assert metric(server, "stampede_redis_reconnects") > reconnects
        wins = {**buyers.wins(), order: "ann"}
        for buyer in buyers.unknown():
            answer = shop.grab(sale, buyer, key="k")
            assert answer.status == 201, answer
            wins[answer.json()["order"]["no"]] = buyer
        assert known(exact(nodes, sale, wins)) == wins


@pytest.mark.parametrize("setting, ill, well, sentence", [("maxmemory", 1_000_000, 0, "raise its maxmemory"), ("min-replicas-to-write", 1, 0, "min-replicas-to-write")])
def test_a_redis_that_takes_no_writes_is_said_and_the_sale_goes_on_when_it_does(db, setting, ill, well, sentence):
    with Nodes(database=db.database()) as nodes:
        shops = [Shop(nodes.start()), Shop(nodes.start())]
        sale = shops[0].sale(stock=20)["id"]
        won = [f"early{i}" for i in range(5)]
        for buyer in won:
            shops[0].win(sale, buyer)
        nodes.redis().config_set(setting, ill)
        problem(shops[0].grab(sale, "late"), 503, "BUSY")
        for shop in shops:  # also one that no buyer asks
            unready(shop, sentence)
            assert metric(shop.server, "stampede_redis_up") == 0
            assert "Redis at" in shop.server.log()
        time.sleep(3)
        for shop in shops:
            problem(shop.client.get("/readyz"), 503, "NOT_READY", sentence)
        nodes.redis().config_set(setting, well)
        for shop in shops:
            back(shop)
        answers = collections.Counter(shops[i % 2].grab(sale, f"late{i}").status for i in range(30))
        assert answers == {201: 15, 409: 15}
        eventually(lambda: len(nodes.ledger().orders(sale)) == 20, KNOWN_S)
        assert nodes.reconcile().code == 0


def test_a_node_stops_also_while_the_database_hangs(db):
    """Nobody who stops a node waits for a database that does not answer: what asks it would give up after ten seconds, one after the other."""
    with Nodes(database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        shop.win(shop.sale(stock=5)["id"], "ann")
        shop.close()
        with away(db, "hung"):
            began = time.monotonic()
            server.stop()
            assert time.monotonic() - began < STOPPED_S


def test_a_node_that_nobody_asks_notices_by_itself(db):
    """The balancer asks /readyz before the first buyer comes: no buyer has to find out. Without both the same, in whichever order they come back."""
    with Nodes(database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=100)["id"]
        with away(nodes.own, "hung"):
            unready(shop, "Redis")
            refused_at_once(server, shop, sale)
        back(shop)
        with away(db, "hung"):
            unready(shop, "ledger")
            refused_at_once(server, shop, sale)
        back(shop)
        with away(db, "killed"), away(nodes.own, "killed"):
            eventually(lambda: metric(server, "stampede_ledger_up") == metric(server, "stampede_redis_up") == 0, KNOWN_S)
            refused_at_once(server, shop, sale)
        back(shop)
        eventually(lambda: shop.grab(sale, "ann", key="k").status == 201, KNOWN_S)
        assert list(known(exact(nodes, sale, {})).values()) == ["ann"]


@contextlib.contextmanager
def row_locked(nodes, sale):
    """While this lasts the sale's row in the ledger is somebody else's."""
    ledger = nodes.ledger()
    with contextlib.closing(mariadb.connect(ledger.port, ledger.database)) as other, other.cursor() as cursor:
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
        assert error.args[0] == 1205, error
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
    with mariadb.MariaDB("--wait-timeout=1") as impatient, Nodes(database=impatient.database()) as nodes:
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
