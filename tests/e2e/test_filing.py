"""What a node files into the ledger while buyers wait for it (ack = ledger): wins that come together are written and committed together."""

import databases
import pytest
from harness import Shop
from nodes import Nodes
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
