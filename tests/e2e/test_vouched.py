"""InnoDB shows a commit to others before it is durable. Whoever finds something done and says so, or takes it from Redis, has made it durable before (P2, P4).

The server may write its log at any time by itself, which would hide that nobody else has: so each is tried a few times."""

import contextlib

import databases
import pytest
from harness import Shop, eventually
from nodes import Nodes
from provider import Provider

LAZY = ("--innodb-flush-log-at-timeout=2700", "--innodb-max-dirty-pages-pct=99", "--innodb-max-dirty-pages-pct-lwm=98")
BUYERS = ("ann", "bob", "cat", "dan")


@pytest.fixture
def shop_of_one():
    with databases.Database(*LAZY) as db, Nodes("--ledger-unsafe", "on", database=db.database()) as nodes:
        shop = Shop(nodes.start())
        yield db, nodes, shop
        shop.close()


@contextlib.contextmanager
def commits_wait(db):
    """What is committed meanwhile is seen, and is not durable yet."""
    db.do("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
    yield
    db.do("SET GLOBAL innodb_flush_log_at_trx_commit = 1")


def restart(db, shop):
    """Returns when the node has noticed."""
    db.kill()
    eventually(lambda: shop.client.get("/readyz").status == 503)
    db.start()
    eventually(lambda: shop.client.get("/readyz").status == 200)


def test_an_order_that_is_found_filed_is_durable_before_its_entry_goes(shop_of_one):
    db, nodes, shop = shop_of_one
    sale = shop.sale(stock=10)["id"]
    redis, log = nodes.redis(), nodes.key(sale, "log")
    for buyer in BUYERS:
        with commits_wait(db):
            no = shop.win(sale, buyer)["no"]
            eventually(lambda: redis.xlen(log) == 0)
        epoch = nodes.ledger().rows("SELECT epoch FROM sales WHERE id = ?", int(sale))[0]["epoch"]
        line = redis.hget(nodes.key(sale, "orders"), no)
        # As one that its node has left there is found by another.
        redis.delete(log)
        redis.xadd(log, {"kind": "won", "epoch": epoch, "at": line.split()[3], "no": no, "order": line}, id="2-0")
        eventually(lambda: redis.xlen(log) == 0)
        restart(db, shop)
        assert [row["buyer"] for row in nodes.ledger().rows("SELECT buyer FROM orders WHERE no = ?", int(no))] == [buyer]
    eventually(lambda: nodes.reconcile().code == 0)


def test_a_payment_that_is_found_made_is_durable_before_it_is_said(shop_of_one):
    db, nodes, shop = shop_of_one
    sale, provider = shop.sale(stock=10, pay_within_s=3600, price=500, currency="EUR")["id"], Provider(shop.server)
    for buyer in BUYERS:
        order = shop.win(sale, buyer)
        with commits_wait(db):
            provider.paid(shop.client, order)
            eventually(lambda: not nodes.ledger().rows("SELECT * FROM errands"))
        provider.paid(shop.client, order)
        restart(db, shop)
        paid = nodes.ledger().rows("SELECT payment_ref FROM orders WHERE no = ?", int(order["no"]))
        assert [row["payment_ref"] for row in paid] == [f"pay-{order['no']}"]
