"""Every transition of an order, with the server killed right before and right after each answer (P1, P3, P4, P6, P7).

Before: SIGKILL at the very write of the record, which then was never there, or at the sync behind it, when it may be there or not;
nobody was told anything either way. After: SIGKILL once the answer has been read, which must then be true for ever."""

import dataclasses
import threading
import time
import typing

import pytest
from harness import Server, Shop, beside, eventually, request_bytes
from provider import Provider
from test_disk import injected, segment_of

BUYER = "ann"
REF = "pay-1"


class Stage:
    """A server, a sale of three units, and what is known of the order in it."""

    def __init__(self, server):
        self.server, self.shop, self.provider = server, Shop(server), Provider(server)
        self.sale, self.order = None, None

    def open(self, **terms):
        self.sale = self.shop.sale(stock=3, price=5, currency="EUR", **{"pay_within_s": 3600, **terms})["id"]

    def held(self, **terms):
        self.open(**terms)
        self.order = self.shop.win(self.sale, BUYER, key="k")

    def expired(self, **terms):
        self.held(**{"pay_within_s": 1, **terms})
        eventually(lambda: self.state() == "expired")

    def cancelled(self):
        self.held()
        assert self.cancel(self.shop.buyer(BUYER)).status == 200

    def sold_out(self):
        """Expired, and then everything was bought by others for good."""
        self.expired()
        self.shop.change(self.sale, pay_within_s=None)
        for other in ("bob", "cat", "dan"):
            self.shop.win(self.sale, other)

    def past(self):
        """Expired, the sale closed, and memory has let go of it."""
        self.expired()
        assert self.shop.act(self.sale, "close").status == 200
        eventually(lambda: "stampede_sales 0\n" in self.shop.client.get("/metrics").body.decode())

    def state(self):
        """None while there is no order that anyone was told of."""
        return self.shop.order(self.order["no"]).json()["state"] if self.order else None

    def again(self):
        """After a restart: the connection is a new one."""
        self.shop.client.close()
        self.server.start()

    def grab(self):
        return self.shop.grab(self.sale, BUYER, key="k")

    def pay(self):
        return self.provider.tell(self.shop.client, self.order, REF)

    def cancel(self, token, reason=None):
        body = {"reason": reason} if reason else None
        return self.shop.client.post(f"/v1/orders/{self.order['no']}/cancel", body, token)

    def orders(self):
        """{number: state} as the ledger lists them, once the clerk has filed everything."""
        return {item["no"]: item["state"] for item in self.shop.listed(f"/v1/orders?sale={self.sale}&buyer={BUYER}", self.shop.seller_token)}


@dataclasses.dataclass(frozen=True)
class Transition:
    prepare: typing.Callable
    act: typing.Callable
    came: str          # state before; None: there was no order
    goes: str          # state after
    counts: tuple      # before
    counts_after: tuple
    status: int = 200
    repeated: int = 200  # the answer to the same thing said again


def by(actor):
    """A cancel by this one."""
    return lambda stage: stage.cancel({"buyer": stage.shop.buyer(BUYER), "seller": stage.shop.seller_token, "admin": stage.shop.admin_token}[actor], "because")


TRANSITIONS = {
    "won, held": Transition(Stage.open, Stage.grab, None, "held", (3, 3, 0, 0), (3, 2, 1, 0), 201, 201),
    "won, paid at once": Transition(lambda stage: stage.open(pay_within_s=None), Stage.grab, None, "paid", (3, 3, 0, 0), (3, 2, 0, 1), 201, 201),
    "held, paid": Transition(Stage.held, Stage.pay, "held", "paid", (3, 2, 1, 0), (3, 2, 0, 1)),
    "held, cancelled by the buyer": Transition(Stage.held, by("buyer"), "held", "cancelled", (3, 2, 1, 0), (3, 3, 0, 0), 200, 409),
    "held, cancelled by the seller": Transition(Stage.held, by("seller"), "held", "cancelled", (3, 2, 1, 0), (3, 3, 0, 0), 200, 409),
    "held, cancelled by an admin": Transition(Stage.held, by("admin"), "held", "cancelled", (3, 2, 1, 0), (3, 3, 0, 0), 200, 409),
    "expired, retaken": Transition(Stage.expired, Stage.pay, "expired", "paid", (3, 3, 0, 0), (3, 2, 0, 1)),
    "expired, refund by the terms": Transition(lambda stage: stage.expired(late_payment="refund"), Stage.pay, "expired", "refund_due", (3, 3, 0, 0), (3, 3, 0, 0)),
    "expired, refund for want of units": Transition(Stage.sold_out, Stage.pay, "expired", "refund_due", (3, 0, 0, 3), (3, 0, 0, 3)),
    "expired, let go of, refund": Transition(Stage.past, Stage.pay, "expired", "refund_due", (3, 3, 0, 0), (3, 3, 0, 0)),
    "cancelled, refund": Transition(Stage.cancelled, Stage.pay, "cancelled", "refund_due", (3, 3, 0, 0), (3, 3, 0, 0)),
}


def audited(server):
    audit = server.audit()
    assert audit.code == 0, audit


def stands(stage, row, gone):
    """Everything agrees that the transition has happened, or that it has not: the order, the counts, the ledger."""
    assert stage.shop.counts(stage.sale) == (row.counts_after if gone else row.counts)
    state = row.goes if gone else row.came
    if stage.order:
        assert stage.shop.order(stage.order["no"]).json() == {**stage.order, "state": state}
    assert list(stage.orders().values()) == ([state] if state else [])


def said(stage, row, answer, status):
    """What an answer says is what the table says, and which order it is about is known from then on."""
    assert answer.status == status, answer
    if status == 409:
        assert answer.code == "NOT_HELD", answer
        return
    order = answer.json()["order"] if status == 201 else answer.json()
    assert order["state"] == row.goes, answer
    if stage.order is None:
        stage.order = order
    assert order == {**stage.order, "state": row.goes}


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_kill_right_before_and_right_after_the_answer(name):
    row = TRANSITIONS[name]
    with Server() as server:
        stage = Stage(server)
        row.prepare(stage)
        stands(stage, row, False)
        stage.shop.client.close()
        server.stop()

        # At the write: nothing of it is left, and nobody was told.
        server.start(prefix=injected("pwrite64:signal=SIGKILL:when=1", segment_of(server)))
        with pytest.raises(OSError):
            row.act(stage)
        assert server.wait(20) != 0
        audited(server)
        stage.again()
        stands(stage, row, False)
        stage.shop.client.close()
        server.stop()

        # At the sync: it may be there or not. Said again it is there, once.
        server.start(prefix=injected("fdatasync:signal=SIGKILL:when=1", segment_of(server)))
        with pytest.raises(OSError):
            row.act(stage)
        assert server.wait(20) != 0
        audited(server)
        stage.again()
        happened = stage.shop.counts(stage.sale) == row.counts_after if stage.order is None else stage.state() == row.goes
        said(stage, row, row.act(stage), row.repeated if happened else row.status)

        # After the answer: true for ever, and said again it changes nothing.
        for _ in range(2):
            server.kill()
            audited(server)
            stage.again()
            stands(stage, row, True)
            said(stage, row, row.act(stage), row.repeated)
            stands(stage, row, True)
        stage.shop.close()
        server.stop()
        audited(server)


def test_a_kill_right_before_and_right_after_an_expiry():
    """Nobody asks for it, so the answer is what a look at the order says."""
    with Server() as server:
        stage = Stage(server)
        stage.held(pay_within_s=6)
        stage.shop.client.close()
        server.stop()
        for call in ("pwrite64", "fdatasync"):
            server.start_unready(prefix=injected(f"{call}:signal=SIGKILL:when=1", segment_of(server)))
            assert server.wait(60) != 0, "the fault never came"
            audited(server)
            row = server.ledger().orders(stage.sale)[0]
            assert row["state"] == 0, "filed, and yet it was not durable"
            if call == "pwrite64":
                assert time.time() * 1000 >= row["pay_by_ms"], "expired before its time"
        stage.again()
        eventually(lambda: stage.state() == "expired")
        for _ in range(2):
            server.kill()
            audited(server)
            stage.again()
            assert stage.state() == "expired"
            assert stage.shop.counts(stage.sale) == (3, 3, 0, 0)
        assert stage.shop.win(stage.sale, "bob")["state"] == "held"
        stage.shop.close()
        server.stop()
        audited(server)


def test_a_win_repeated_with_its_key_before_during_and_after_crashes():
    """P7: however often it is asked, and however often the server dies over it, there is one order of that key."""
    with Server() as server:
        stage = Stage(server)
        stage.open()
        asked = request_bytes("POST", f"/v1/sales/{stage.sale}/grabs", None, stage.shop.buyer(BUYER), "k")
        numbers = set()
        for pause in (0, 0.0002, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.02):
            socks = [server.raw() for _ in range(4)]
            senders = [threading.Thread(target=sock.sendall, args=(asked,)) for sock in socks]
            for sender in senders:
                sender.start()
            time.sleep(pause)
            server.kill()
            for sender, sock in zip(senders, socks):
                sender.join()
                sock.close()
            stage.again()
            before = stage.orders()
            order = stage.shop.win(stage.sale, BUYER, key="k")
            assert not before or before == {order["no"]: "held"}, "another order than the one that survived"
            numbers.add(order["no"])
            assert stage.shop.win(stage.sale, BUYER, key="k") == order
            assert stage.shop.counts(stage.sale) == (3, 2, 1, 0)
            server.kill()
            audited(server)
            stage.again()
            assert stage.shop.win(stage.sale, BUYER, key="k") == order, "P7: told, killed, and told otherwise"
        assert len(numbers) == 1
        stage.order = order
        assert stage.pay().status == 200
        server.kill()
        stage.again()
        assert stage.shop.win(stage.sale, BUYER, key="k") == {**order, "state": "paid"}
        stage.shop.close()
        server.stop()
        audited(server)


def test_payments_cancels_and_expiries_under_load_survive_kills():
    """A crowd that wins, pays, cancels and lets expire, killed again and again: what was told is true, and P1 holds."""
    with Server(segment_mb=1) as server:
        stage = Stage(server)
        told, lock = {}, threading.Lock()
        for cycle in range(6):
            sale = stage.shop.sale(stock=10 ** 5, pay_within_s=1, price=5, currency="EUR")["id"]
            with beside(*(lambda n=n: load(server, sale, f"{cycle}-{n}", told, lock) for n in range(4))):
                time.sleep(0.3 + 0.25 * cycle)
                server.kill()
            audited(server)
            stage.again()
            for no, state in told.items():
                found = stage.shop.order(no).json()["state"]
                assert found == state or (state == "held" and found in ("expired", "paid", "cancelled")), f"P3: {no} was {state}, is {found}"
                told[no] = found
            stage.shop.counts(sale)
        assert {"paid", "cancelled", "expired"} <= set(told.values()), f"the load did not reach all: {set(told.values())}"
        stage.shop.close()
        server.stop()
        audited(server)


def load(server, sale, name, told, lock):
    """Wins; of three, one is paid, one cancelled, one left to expire. told has the newest state that was read."""
    provider = Provider(server)
    try:
        with server.connect(timeout=20) as client:
            for turn in range(10 ** 6):
                token = server.token(f"{name}-{turn}")
                answer = client.post(f"/v1/sales/{sale}/grabs", None, token)
                if answer.status != 201:
                    continue
                order = answer.json()["order"]
                with lock:
                    told[order["no"]] = order["state"]
                if turn % 3 == 0:
                    answer = provider.tell(client, order)
                elif turn % 3 == 1:
                    answer = client.post(f"/v1/orders/{order['no']}/cancel", None, token)
                else:
                    continue
                if answer.status == 200:  # else it came too late
                    with lock:
                        told[order["no"]] = answer.json()["state"]
    except OSError:
        return
