"""Nodes of two releases beside each other: what the newer one does to the tables keeps nobody from buying at the older.

A node opens the ledger anew after any fault, and does so here while meta says what the newer one would have it say."""

import contextlib

import databases
import pytest
from harness import Shop, eventually
from knocking import Crowd, exact
from nodes import Nodes

KNOWN_S = 20  # a moment on a quiet machine


@pytest.fixture(scope="module")
def db():
    with databases.Database() as one:
        yield one


def disconnected(db, name):
    """The server ends every connection to this database, so that whatever a node does in it begins with opening it."""
    for row in db.do(f"SELECT id FROM information_schema.processlist WHERE db = '{name}'"):
        with contextlib.suppress(databases.pymysql.Error):  # it may have ended by itself
            db.do(f"KILL {row['id']}")


def goes_on(db, name, shops, crowds, sale, turn):
    """At every node: grabs, payments, seller's changes, logins and lists, after connections that were lost twice."""
    for _ in range(2):
        enough = [len(crowd.wins()) + 20 for crowd in crowds]
        disconnected(db, name)
        eventually(lambda: all(len(crowd.wins()) >= count for crowd, count in zip(crowds, enough)), KNOWN_S)
    for n, shop in enumerate(shops):
        buyer = f"{turn}-{n}"
        won = eventually(lambda shop=shop, buyer=buyer: (got := shop.grab(sale, buyer, key="k")).status in (200, 201) and got, KNOWN_S).json()["order"]
        eventually(lambda shop=shop, no=won["no"]: shop.order(no).status == 200, KNOWN_S)
        eventually(lambda shop=shop: shop.client.get(f"/v1/orders?sale={sale}&limit=1", shop.seller_token).status == 200, KNOWN_S)
        for change in ("pause", "resume"):
            eventually(lambda shop=shop, change=change: shop.act(sale, change).status == 200, KNOWN_S)
        eventually(lambda shop=shop: shop.client.post("/v1/login", {"username": "nobody", "password": "correct horse"}).status == 401, KNOWN_S)
        assert shop.client.get("/readyz").status == 200


def test_nodes_go_on_while_a_newer_one_changes_the_tables_and_after_it(db):
    url = db.database()
    name = url.rpartition("/")[2]
    with Nodes(database=url) as nodes:
        servers = [nodes.start(), nodes.start()]
        shops = [Shop(servers[0])]
        shops.append(Shop(servers[1], shops[0].seller))
        sale = shops[0].sale(stock=100_000)["id"]
        crowds = [Crowd(servers[0], sale, shops[0].seller, "c"), Crowd(servers[1], sale, shops[0].seller, "d")]
        with crowds[0], crowds[1]:
            eventually(lambda: all(crowd.wins() for crowd in crowds), KNOWN_S)
            for turn, change in enumerate(("changing = 1", "version = version + 1", "changing = 0")):
                db.do(f"UPDATE meta SET {change}", database=name)
                goes_on(db, name, shops, crowds, sale, turn)
            shop = Shop(nodes.start(), shops[0].seller)
            wins = {shop.win(sale, "late")["no"]: "late"}
        for crowd in crowds:
            wins |= crowd.wins()
        exact(nodes, sale, wins)
        for server in servers:
            assert "schema" not in server.log() and "interrupted" not in server.log()
