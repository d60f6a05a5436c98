"""What a node files into the ledger while buyers wait for it (ack = ledger): wins that come together are written and committed together."""

import databases
import pytest
from harness import Shop
from nodes import Nodes
from redis_servers import wait_until
from resp import Peer

PIPELINE = 100


@pytest.fixture
def db():
    """A database server of the test's own, which counts nobody else's statements."""
    with databases.Database() as one:
        yield one


def counted(db, *names):
    """How often the database server has done what."""
    rows = {row["Variable_name"]: row["Value"] for row in db.do("SHOW GLOBAL STATUS")}
    return [int(rows[f"Com_{name}"]) for name in names]


def test_a_crowd_of_wins_costs_few_commits_and_statements_that_are_prepared_once(db):
    with Nodes(database=db.database()) as nodes:
        server = nodes.start()
        sale = Shop(server).sale(stock=1000)["id"]

        def buy(crowd):
            with Peer(server) as peer:
                for turn in range(4):
                    heard = peer.grabs(sale, [f"{crowd}{turn}-{i}" for i in range(PIPELINE)])
                    assert {word for word, _ in heard} <= {"WON", "UNSURE"}
        buy("early")
        names = ("commit", "insert", "stmt_execute", "stmt_prepare")
        before = counted(db, *names)
        buy("late")
        commits, inserts, executed, prepared = (now - then for now, then in zip(counted(db, *names), before))
        assert 0 < commits < 80 and 0 < inserts < 80, (commits, inserts)
        assert executed > 2 * prepared, (executed, prepared)
        assert [row["sold"] for row in nodes.ledger().rows("SELECT sold FROM sales")] == [800]


@pytest.mark.parametrize("ack", ["gate", "ledger"])
def test_a_crowd_of_grabs_costs_few_calls_of_redis_and_leaves_nothing_in_the_log(ack):
    """Those that come together for one sale are asked together. What is filed is struck off by whoever filed it: nobody goes through the log for it after
    three seconds."""
    with Nodes("--ack", ack, "--reactors", "1") as nodes:
        server = nodes.start()
        shop = Shop(server)
        sales = [shop.sale(stock=400)["id"] for _ in range(17)]
        sales = [sales[0], sales[1], sales[16]]  # the ids of two of them end alike
        with Peer(server) as peer:
            for sale in sales:
                assert peer.grabs(sale, ["first"])[0][0] == "WON"
            calls = lambda: nodes.redis().info("commandstats")["cmdstat_evalsha"]["calls"]
            before = calls()
            buyers = [(sale, f"b{i}") for i in range(300) for sale in sales]
            got = peer.pipeline([("SALE.GRAB", sale, buyer) for sale, buyer in buyers])
            asked = calls() - before
            assert [answer[0] for answer in got] == ["WON"] * 900, [answer for answer in got if answer[0] != "WON"][:3]
            assert asked < 300, asked
        wait_until("an empty log", lambda: sum(nodes.redis().xlen(nodes.key(sale, "log")) for sale in sales) == 0, 10)
        assert "found in its log" not in server.log()
        for sale in sales:
            orders = nodes.ledger().orders(sale)
            assert len(orders) == 301 and {str(row["no"]) for row in orders if row["buyer"] != "default:first"} == {
                answer[1] for (of, _), answer in zip(buyers, got) if of == sale}


def test_winners_who_ask_again_part_no_wins_that_are_written_together(db):
    """Each is told of the order once it is certain that the ledger has it, and costs it one question."""
    with Nodes(database=db.database()) as nodes:
        server = nodes.start("--reactors", "1")
        sale = Shop(server).sale(stock=2000)["id"]
        with Peer(server) as peer:
            first = dict(zip(range(50), peer.grabs(sale, [f"first-{i}" for i in range(50)])))
            before = counted(db, "insert", "rollback")
            for turn in range(8):
                got = peer.grabs(sale, [f"first-{i // 2}" if i % 2 else f"{turn}-{i}" for i in range(PIPELINE)])
                assert all(got[i] == ("ALREADY_WON", first[i // 2][1]) if i % 2 else got[i][0] == "WON" for i in range(PIPELINE)), got
            inserts, rolled_back = (now - then for now, then in zip(counted(db, "insert", "rollback"), before))
        assert inserts < 150 and rolled_back == 0, (inserts, rolled_back)
        assert [row["sold"] for row in nodes.ledger().rows("SELECT sold FROM sales")] == [450]
