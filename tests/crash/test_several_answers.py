"""A database that commits and does not live to say so, or dies before it has heard of it: nothing is done twice, and nobody is told a guess (P1, P3, P6, P7)."""

import contextlib
import select
import socket
import threading

import databases
import pytest
from harness import Shop, eventually, mint_name, problem
from nodes import Nodes
from provider import Provider

COMMIT = b"\x07\x00\x00\x00\x03COMMIT"


class Wire:
    """Stands between nodes and their database, and loses what it is told to: the next COMMIT, or the answer to it. That connection ends."""

    def __init__(self, port):
        self.port_there = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lose = None
        self.lost = 0
        self.closing = False
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                thread = threading.Thread(target=self._carry, args=(near,), daemon=True)
                self.threads.append(thread)
                thread.start()

    def _carry(self, near):
        with near, socket.create_connection(("127.0.0.1", self.port_there)) as far, contextlib.suppress(OSError):
            lose = None
            while not self.closing:
                for sock in select.select([near, far], [], [], 0.1)[0]:
                    piece = sock.recv(1 << 20)
                    if not piece or lose == "answer":
                        return
                    if sock is near and piece == COMMIT and self.lose is not None:
                        lose, self.lose = self.lose, None
                        self.lost += 1
                        if lose == "commit":
                            return
                    (far if sock is near else near).sendall(piece)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closing = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(10)


@pytest.fixture(scope="module")
def wire():
    with Wire(databases.shared_port()) as made:
        yield made


@pytest.fixture(scope="module")
def nodes(wire):
    direct = databases.make_database(databases.shared_port())
    with Nodes(database=direct.replace(f":{databases.shared_port()}/", f":{wire.port}/")) as made:
        made.start()
        yield made


@pytest.fixture(params=["commit", "answer"])
def losing(request, wire):
    """Loses one of these the next time, and sees that it has come to that."""
    @contextlib.contextmanager
    def once():
        before = wire.lost
        wire.lose = request.param
        yield
        assert wire.lost == before + 1, "nothing was lost"
    return once


@pytest.fixture
def shop(nodes):
    made = Shop(nodes.servers[0])
    yield made
    made.close()


def settled(nodes, shop, sale):
    """Gate and ledger agree, and this is what they say."""
    def agree():
        row = nodes.ledger().sale(sale)
        counts = tuple(row[name] for name in ("offered", "available", "held", "sold"))
        return counts if counts == shop.counts(sale) else None
    return eventually(agree, 20)


def test_units_are_added_once(nodes, shop, losing):
    sale = shop.sale(stock=10)["id"]
    with losing():
        answer = shop.act(sale, "stock", {"add": 7})
    offered = settled(nodes, shop, sale)[0]
    if answer.status == 200:
        assert offered == 17
    else:
        problem(answer, 503, "OUTCOME_UNKNOWN")
        assert offered in (10, 17)


def test_units_are_withdrawn_once(nodes, shop, losing):
    sale = shop.sale(stock=10)["id"]
    with losing():
        answer = shop.act(sale, "stock", {"add": -3})
    if answer.status != 200:
        problem(answer, 503, "OUTCOME_UNKNOWN")
    assert settled(nodes, shop, sale)[0] in ((7,) if answer.status == 200 else (7, 10))


def test_a_sale_is_made_once(nodes, shop, losing):
    name = mint_name("sale")
    with losing():
        answer = shop.client.post("/v1/sales", {"name": name, "stock": 10}, shop.seller_token)
    made = nodes.ledger().rows("SELECT id FROM sales WHERE name = ?", name)
    if answer.status == 201:
        assert [str(row["id"]) for row in made] == [answer.json()["id"]]
    else:
        problem(answer, 503, "OUTCOME_UNKNOWN")
        assert len(made) <= 1


def test_an_order_is_won_once(nodes, shop, losing):
    sale = shop.sale(stock=10)["id"]
    with losing():
        answer = shop.grab(sale, "ann", key="k")
    if answer.status != 201:
        problem(answer, 503, "OUTCOME_UNKNOWN")
    order = shop.win(sale, "ann", key="k")
    assert answer.status != 201 or order == answer.json()["order"]
    assert [str(row["no"]) for row in nodes.ledger().orders(sale)] == [order["no"]]
    assert settled(nodes, shop, sale) == (10, 9, 0, 1)


def test_a_cancel_is_told_as_it_is(nodes, shop, losing):
    sale = shop.sale(stock=10, pay_within_s=600)["id"]
    order = shop.win(sale, "ann")
    with losing():
        answer = shop.client.post(f"/v1/orders/{order['no']}/cancel", None, shop.buyer("ann"))
    state = shop.order(order["no"]).json()["state"]
    if answer.status == 200:
        assert state == answer.json()["state"] == "cancelled"
    else:
        problem(answer, 503, "OUTCOME_UNKNOWN")
        assert state in ("held", "cancelled")
    assert settled(nodes, shop, sale) == ((10, 9, 1, 0) if state == "held" else (10, 10, 0, 0))


def test_a_payment_is_taken_once(nodes, shop, losing):
    sale = shop.sale(stock=10, pay_within_s=600, price=5, currency="EUR")["id"]
    order = shop.win(sale, "ann", key="k")
    provider = Provider(nodes.servers[0])
    with losing():
        answer = provider.tell(shop.client, order)
    if answer.status != 200:
        problem(answer, 503, "OUTCOME_UNKNOWN")
    provider.paid(shop.client, order)
    assert settled(nodes, shop, sale) == (10, 9, 0, 1)
    assert shop.win(sale, "ann", key="k")["state"] == "paid"


def test_a_late_payment_takes_its_units_once(nodes, shop, losing):
    sale = shop.sale(stock=10, pay_within_s=1, price=5, currency="EUR")["id"]
    order = shop.win(sale, "ann")
    eventually(lambda: shop.order(order["no"]).json()["state"] == "expired")
    eventually(lambda: not nodes.ledger().rows("SELECT * FROM errands"))
    provider = Provider(nodes.servers[0])
    with losing():
        answer = provider.tell(shop.client, order)
    if answer.status != 200:
        problem(answer, 503, "OUTCOME_UNKNOWN")
    provider.paid(shop.client, order)
    assert settled(nodes, shop, sale) == (10, 9, 0, 1)


def test_a_sale_is_closed_once(nodes, shop, losing):
    sale = shop.sale(stock=10)["id"]
    with losing():
        answer = shop.act(sale, "close")
    if answer.status != 200:
        problem(answer, 503, "OUTCOME_UNKNOWN")
    else:
        assert nodes.ledger().sale(sale)["closed"] == 1
