"""Redis or the database goes away, killed or hung: buyers hear so at once, nothing is sold that would be lost, and it comes back by itself.

A database of the module's own, which its tests end and stop; a Redis for each shop."""

import collections
import contextlib
import os
import re
import signal
import time

import databases
import pymysql
import pytest
import resp
from harness import Shop, crowd, eventually, problem, request_bytes
from knocking import Crowd, Pulse, exact, grabs, settled, told
from ledgers import MysqlLedger
from nodes import Nodes
from redis_servers import commands_during

AT_ONCE_S = 1.5  # less than anybody waits for what is away
UNDER_WAY_S = 3.5  # nobody who was under way waits longer than two seconds
KNOWN_S = 20  # a moment on a quiet machine
STOPPED_S = 9  # four on a quiet machine


@pytest.fixture(scope="module")
def db():
    with databases.Database() as one:
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


def at_once(ask):
    """Its answer, for which nobody waits."""
    with Pulse() as pulse:
        answer = ask()
    assert pulse.took_s < AT_ONCE_S + pulse.stood_still_s, (answer, pulse.took_s, pulse.stood_still_s)
    return answer


def refused_at_once(server, shop, sale):
    """Everybody hears BUSY and when to come again. Threads of a server find out each for itself: the first of each may hear that nobody knows."""
    requests = grabs(shop, sale, [f"refused{i}" for i in range(40)])
    eventually(lambda: set(told(crowd(server, requests, 10))) == {"BUSY"}, KNOWN_S)
    for answer in at_once(lambda: crowd(server, requests, 10)):
        problem(answer, 503, "BUSY")
        assert int(answer.headers["retry-after"]) >= 1


def known(rows):
    """Without those who were refused: the first of them may have met a Redis that hung, and took what they asked for when it woke up."""
    return {no: buyer for no, buyer in rows.items() if not buyer.startswith("refused")}


@pytest.mark.parametrize("how", ["hung", "killed"])
def test_without_the_ledger_nothing_is_sold_and_everybody_hears_so(db, how):
    """ack = ledger: those under way hear that nobody knows, the others BUSY without Redis; asked again with their key they hear what it was."""
    with Nodes(database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=5000)["id"]
        order = shop.win(sale, "ann")["no"]
        with Pulse() as pulse, Crowd(server, sale, shop.seller) as buyers:
            eventually(lambda: len(buyers.wins()) >= 20)
            with away(db, how):
                unready(shop, "ledger")
                assert metric(server, "stampede_ledger_up") == 0
                refused_at_once(server, shop, sale)
                assert at_once(lambda: shop.counts(sale))[0] == 5000, "what Redis has is told"
                problem(at_once(lambda: shop.order(order)), 503)
                problem(at_once(lambda: shop.client.get(f"/v1/orders?sale={sale}", shop.seller_token)), 503)
                problem(at_once(lambda: shop.act(sale, "pause")), 503)
                problem(at_once(lambda: shop.client.post("/v1/login", {"username": "ann", "password": "correct horse"})), 503)
                winners = nodes.redis().hkeys(nodes.key(sale, "buyers"))
                assert "ann" in winners and not any(name.startswith("refused") for name in winners), "Redis was asked for what could not be filed"
            back(shop)
            enough = len(buyers.wins()) + 20
            eventually(lambda: len(buyers.wins()) >= enough, KNOWN_S)
        slowest = max((took, repr(got)) for got, took in buyers.heard.values())
        assert slowest[0] < UNDER_WAY_S + pulse.stood_still_s, slowest
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
    db.let_in("clerk", f"ALL ON {url.rpartition('/')[2]}.*")
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
            assert at_once(lambda: shop.order(next(iter(wins)))).status == 200, "what can be read is read"
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
                assert at_once(lambda no=no: shop.order(no)).json()["sale"] == sale
            last = int(max(unfiled, key=int))
            problem(at_once(lambda: shop.order(last ^ 1 << 11)), 503, "BUSY")  # the ledger may have it
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
        with Pulse() as pulse, Crowd(server, sale, shop.seller) as buyers:
            eventually(lambda: len(buyers.wins()) >= 20)
            with away(nodes.own, how):
                unready(shop, "Redis")
                assert metric(server, "stampede_redis_up") == 0
                refused_at_once(server, shop, sale)
                assert at_once(lambda: shop.order(order)).status == 200, "the ledger is there"
                assert len(at_once(lambda: shop.client.get(f"/v1/orders?sale={sale}", shop.seller_token)).json()["items"]) > 20
            back(shop)
            enough = len(buyers.wins()) + 20
            eventually(lambda: len(buyers.wins()) >= enough, KNOWN_S)
        slowest = max((took, repr(got)) for got, took in buyers.heard.values())
        assert slowest[0] < UNDER_WAY_S + pulse.stood_still_s, slowest
        assert set(told(got for got, _ in buyers.heard.values())) <= {"WON", "BUSY", "OUTCOME_UNKNOWN"}
        assert metric(server, "stampede_redis_reconnects") > reconnects
        wins = {**buyers.wins(), order: "ann"}
        for buyer in buyers.unknown():
            answer = shop.grab(sale, buyer, key="k")
            assert answer.status == 201, answer
            wins[answer.json()["order"]["no"]] = buyer
        assert known(exact(nodes, sale, wins)) == wins


@contextlib.contextmanager
def in_one_turn(server):
    """What is sent meanwhile is read in one turn of the loop, in this order."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield lambda send, data: (send(data), time.sleep(0.02))
    finally:
        os.kill(server.pid, signal.SIGCONT)


def grabs_of(sale, buyers):
    return b"".join(resp.command("SALE.GRAB", sale, buyer) for buyer in buyers)


@pytest.mark.parametrize("ack", ["ledger", "gate"])
def test_without_redis_each_hears_the_answers_to_its_own_questions(db, ack):
    """Grabs of several connections that are asked together all end when there is nobody to ask, while some have other answers still to come."""
    with Nodes("--ack", ack, "--reactors", "1", database=db.database()) as nodes:
        server = nodes.start()
        shop = Shop(server)
        sale, tokens = shop.sale(stock=400)["id"], [server.token("ann"), server.token("bob")]
        with resp.Peer(server) as one, resp.Peer(server) as two, server.connect() as ann, server.connect() as bob:
            assert one.grabs(sale, ["first"])[0][0] == "WON" and two.ask("PING") == "PONG"
            assert ann.get("/healthz").status == bob.get("/healthz").status == 200
            with away(nodes.own, "killed"):
                unready(shop, "Redis")
                for turn in range(10):
                    with in_one_turn(server) as put:
                        put(ann.send, request_bytes("POST", f"/v1/sales/{sale}/grabs", None, tokens[0]))
                        put(one.send, grabs_of(sale, [f"a{turn}-{i}" for i in range(10)]))
                        put(two.send, resp.command("ECHO", f"hello {turn}") + grabs_of(sale, [f"b{turn}-{i}" for i in range(10)]) + resp.command("ECHO", f"bye {turn}"))
                        put(bob.send, request_bytes("GET", "/nowhere") + request_bytes("POST", f"/v1/sales/{sale}/grabs", None, tokens[1]))
                    assert {one.reply().code for _ in range(10)} <= {"BUSY", "OUTCOME_UNKNOWN"}
                    assert two.reply() == f"hello {turn}"
                    assert {two.reply().code for _ in range(10)} <= {"BUSY", "OUTCOME_UNKNOWN"}
                    assert two.reply() == f"bye {turn}"
                    assert ann.receive().status == 503
                    assert [bob.receive().status, bob.receive().status] == [404, 503]
            back(shop)


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
