"""What clients of three nodes see of one sale, all at once, could have happened one after the other.

Wins, refusals, cancels, payments and what a seller changes are held to that without any slack; only a SOLD_OUT may tell of a moment that is
SHELF_FRESH_MS old, which is what the pre-count of a node promises. The gate and the ledger are each held to it: what sells, as Redis decided it, and
how orders end, as the ledger has it; between the two there is a moment while a request is under way."""

import contextlib
import dataclasses
import os
import pathlib
import random
import re
import threading
import time

import pytest
from harness import ROOT, Closed, Shop, beside, eventually
from linear import Sale, Step, late, objection
from nodes import Nodes
from provider import Provider

HISTORIES = int(os.environ.get("STAMPEDE_HISTORIES", "12"))
SEED = int(os.environ.get("STAMPEDE_HISTORY_SEED", random.randrange(2 ** 32)))
LATE_S = int(re.search(r"#define SHELF_FRESH_MS (\d+)", pathlib.Path(ROOT, "src/gate/remote/shelf.h").read_text()).group(1)) / 1000
CLIENTS = 10
STEPS = 6  # of each


@contextlib.contextmanager
def three_nodes():
    with Nodes() as nodes:
        for _ in range(3):
            nodes.start()
        shared = nodes.servers[0].data / "payment_keys"
        for server in nodes.servers[1:]:
            server.stop()
            (server.data / "payment_keys").write_text(shared.read_text())
            server.start()
        yield nodes


@pytest.fixture(scope="module")
def three():
    with three_nodes() as nodes:
        yield nodes


class Recorder:
    """Clients that ask any node for anything, and write down when they asked and what they heard."""

    def __init__(self, nodes, seed):
        self.seed, self.rng, self.lock = seed, random.Random(seed), threading.Lock()
        rng = self.rng
        self.pauses_s = rng.choice([(0, 0, 0.002, 0.01), (0, 0.03, 0.06)])  # the longer ones are for the pre-count, which needs a moment to know a sale
        self.shops = [Shop(server) for server in nodes.servers]
        self.start = Sale(offered=rng.randint(2, 6), grabs_max=rng.randint(1, 2))
        self.sale = self.shops[0].sale(stock=self.start.offered, grabs_per_buyer_max=self.start.grabs_max, units_per_grab_max=2, pay_within_s=600)["id"]
        self.nodes, self.steps, self.orders = nodes, [], []

    def run(self, between=None):
        """All clients at once; then everything is looked at once more. between is done in the middle of it."""
        dice = [random.Random(self.rng.random()) for _ in range(CLIENTS)]
        with beside(*(lambda number=number: self.client(number, dice[number]) for number in range(CLIENTS))):
            if between:
                between()
        eventually(lambda: self.shops[0].act(self.sale, "warm").status == 200)  # what is looked at then is what Redis has
        for number in range(len(self.shops)):
            ways = Ways(self, number)
            ways.look()
            for order in self.orders:
                ways.read(order)
        return self

    def client(self, number, rng):
        everywhere = [Ways(self, at) for at in range(len(self.shops))]
        for turn in range(STEPS):
            ways = rng.choice(everywhere)
            seller = number == 0  # one at a time: what they refuse is the ledger's, a moment before the gate has it
            verb = rng.choices(*zip(*((ways.stock, 2), (ways.switch, 2)) if seller else
                                    ((ways.grab, 6), (ways.cancel, 2), (ways.pay, 1), (ways.look, 1), (ways.read, 1))))[0]
            with self.lock:
                order = rng.choice(self.orders) if self.orders else None
            if verb == ways.grab:
                buyer = rng.choice([f"c{number}", f"c{number}b", "both", "all"])
                ways.grab(buyer, rng.choice([1, 1, 2]), f"k{number}-{turn}")
            elif verb == ways.stock:
                ways.stock(rng.choice([-2, -1, 1, 2]))
            elif verb == ways.switch:
                ways.switch("pause")
                ways.switch("resume")
            elif verb == ways.look:
                ways.look()
            elif order:
                verb(order)
            time.sleep(rng.choice(self.pauses_s))

    def of_the_gate(self):
        """What Redis decides: what sells. Ends of orders are told to it before they are answered; what is refused about them is the ledger's."""
        effects = {"cancel": (("DONE",),), "pay": (("DONE", "paid"),)}
        return [step for step in self.steps if step.kind != "read" and (step.ended is None or step.kind not in effects or step.said in effects[step.kind])]

    def of_the_ledger(self):
        """What the ledger has: which orders there are, and how they end."""
        return [step for step in self.steps if step.kind in ("cancel", "pay", "read") or step.said[:1] == ("WON",) or
                step.kind == "stock" and step.said == ("DONE",)]

    def check(self, gate=None):
        for of, steps in (("gate", late(gate or self.of_the_gate(), LATE_S)), ("ledger", self.of_the_ledger())):
            wrong = objection(steps, self.start)
            assert wrong is None, f"sale {self.sale}, seed {self.seed}, the {of}: {wrong}\nall of it:\n" + "\n".join(map(str, sorted(steps, key=lambda step: step.begun)))


class Ways:
    """What one may ask a node for."""

    def __init__(self, recorder, number):
        self.recorder, self.shop = recorder, Shop(recorder.nodes.servers[number], recorder.shops[0].seller)
        self.provider = Provider(recorder.nodes.servers[number])
        self.sale = recorder.sale

    def ask(self, kind, words, send, read, again=False):
        """Asks until the outcome is known, where asking again is harmless; what was refused because nobody could be asked has not happened."""
        begun = time.monotonic()
        while True:
            try:
                answer = send()
            except (Closed, OSError):
                answer = None
            unknown = answer is None or answer.code == "OUTCOME_UNKNOWN"
            if not unknown and answer.status == 503:
                if not again:
                    return
            elif not unknown or not again:
                break
            time.sleep(0.02)
        said = () if unknown else read(answer)
        with self.recorder.lock:
            self.recorder.steps.append(Step(begun, None if unknown else time.monotonic(), kind, words, said))

    def grab(self, buyer, units, key):
        def read(answer):
            if answer.status != 201 and answer.code != "ALREADY_WON":
                return (answer.code,)
            order = answer.json()["order"]
            with self.recorder.lock:
                if order["no"] not in [known["no"] for known in self.recorder.orders]:
                    self.recorder.orders.append(order)
            return "WON" if answer.status == 201 else "ALREADY_WON", order["no"]
        self.ask("grab", (buyer, units, key), lambda: self.shop.grab(self.sale, buyer, units, key), read, again=True)

    def cancel(self, order):
        self.ask("cancel", (order["no"],), lambda: self.shop.client.post(f"/v1/orders/{order['no']}/cancel", {"reason": "a step"}, self.shop.admin_token),
                 lambda answer: ("DONE",) if answer.status == 200 else (answer.code,))

    def pay(self, order):
        ref = f"ref-{random.random()}"
        self.ask("pay", (order["no"],), lambda: self.provider.tell(self.shop.client, order, ref),
                 lambda answer: ("DONE", answer.json()["state"]) if answer.status == 200 else (answer.code,))

    def stock(self, add):
        self.ask("stock", (add,), lambda: self.shop.act(self.sale, "stock", {"add": add}), lambda answer: ("DONE",) if answer.status == 200 else (answer.code,))

    def switch(self, verb):
        self.ask("switch", (verb,), lambda: self.shop.act(self.sale, verb), lambda answer: ("DONE",) if answer.status == 200 else (answer.code,))

    def look(self):
        self.ask("look", (), lambda: self.shop.client.get(f"/v1/sales/{self.sale}"),
                 lambda answer: tuple(answer.json()[name] for name in ("offered", "available", "held", "sold")))

    def read(self, order):
        self.ask("read", (order["no"],), lambda: self.shop.order(order["no"]), lambda answer: (answer.json()["state"],) if answer.status == 200 else (answer.code,))


def history_whole(nodes, seed):
    """P1, P2, P6, P7. In some nothing happens: the seller takes the stock back first, or a sale stays paused because nobody could be asked to resume it."""
    for more in range(5):
        recorder = Recorder(nodes, seed + more * 2 ** 32).run()
        recorder.check()
        if len(recorder.steps) > 25 and len({step.said[0] for step in recorder.steps if step.kind == "grab"}) > 1:
            return
    raise AssertionError(f"nothing happened in five histories from seed {seed}: {recorder.steps}")


def history_forgetful(nodes, seed):
    """Redis forgets everything meanwhile. Not what is refused or looked at then: that may rest on what Redis gave last, before the ledger had it, and lost."""
    recorder = Recorder(nodes, seed)
    recorder.run(lambda: (time.sleep(0.03), nodes.redis().flushall()))
    steps = recorder.of_the_gate()
    last = max(step.ended for step in steps if step.kind not in ("look", "read") and step.ended)
    recorder.check([step for step in steps if step.said not in (("SOLD_OUT",), ("NOT_AVAILABLE",)) and (step.kind != "look" or step.begun > last)])


@pytest.mark.parametrize("turn", range(HISTORIES))
def test_what_clients_of_three_nodes_see_is_linear(three, turn):
    history_whole(three, SEED + turn)


@pytest.mark.parametrize("turn", range(max(1, HISTORIES // 4)))
def test_it_is_linear_also_when_redis_forgets_everything(three, turn):
    history_forgetful(three, SEED - 1 - turn)


# Whether the check would find anything.

def told(rows):
    return [Step(*row) for row in rows]


SOLD = [(0, 1, "grab", ("ann", 1, "a"), ("WON", "1")), (2, 3, "grab", ("bob", 1, "b"), ("SOLD_OUT",))]


@pytest.mark.parametrize("linear,rows", [
    (True, SOLD),
    # Sold twice, one after the other or at once.
    (False, [*SOLD, (4, 5, "grab", ("cat", 1, "c"), ("WON", "2"))]),
    (False, [(0, 1, "grab", ("ann", 1, "a"), ("WON", "1")), (0, 1, "grab", ("bob", 1, "b"), ("WON", "2"))]),
    # Two who ask at once: either may have been the first, and one must have been.
    (True, [(0, 5, "grab", ("ann", 1, "a"), ("SOLD_OUT",)), (1, 4, "grab", ("bob", 1, "b"), ("WON", "2"))]),
    (False, [(0, 5, "grab", ("ann", 1, "a"), ("SOLD_OUT",)), (1, 4, "grab", ("bob", 1, "b"), ("SOLD_OUT",))]),
    # A unit that came back is there for who asks after it was said: sold out may be said a moment longer, and no longer than that.
    (True, [*SOLD, (4, 5, "cancel", ("1",), ("DONE",)), (5 + LATE_S - 0.01, 6, "grab", ("cat", 1, "c"), ("SOLD_OUT",))]),
    (False, [*SOLD, (4, 5, "cancel", ("1",), ("DONE",)), (5 + LATE_S + 0.01, 6, "grab", ("cat", 1, "c"), ("SOLD_OUT",))]),
    (False, [*SOLD, (4, 5, "stock", (1,), ("DONE",)), (5 + LATE_S + 0.01, 6, "grab", ("cat", 1, "c"), ("SOLD_OUT",))]),
    (True, [*SOLD, (4, None, "stock", (1,)), (9, 10, "grab", ("cat", 1, "c"), ("SOLD_OUT",))]),
    (True, [*SOLD, (4, None, "stock", (1,)), (9, 10, "grab", ("cat", 1, "c"), ("WON", "2"))]),
    (False, [*SOLD, (4, None, "stock", (1,)), (9, 10, "grab", ("cat", 1, "c"), ("WON", "2")), (11, 12, "grab", ("dan", 1, "d"), ("WON", "3"))]),
    # A win that is lost, one that is told as another, one too many for a buyer.
    (False, [*SOLD, (4, 5, "look", (), (1, 1, 0, 0))]),
    (False, [*SOLD, (4, 5, "read", ("1",), ("NO_SUCH_ORDER",))]),
    (False, [*SOLD, (4, 5, "grab", ("ann", 1, "a"), ("WON", "2"))]),
    (True, [*SOLD, (4, 5, "grab", ("ann", 1, "a"), ("WON", "1"))]),
    (False, [*SOLD, (4, 5, "stock", (1,), ("DONE",)), (6, 7, "grab", ("ann", 1, "x"), ("WON", "2"))]),
    # A hold ends once.
    (False, [*SOLD, (4, 5, "cancel", ("1",), ("DONE",)), (4, 5, "pay", ("1",), ("DONE", "paid"))]),
    (True, [*SOLD, (4, 5, "cancel", ("1",), ("DONE",)), (4, 5, "pay", ("1",), ("DONE", "refund_due"))]),
    # Nothing is sold while a sale is paused.
    (False, [(0, 1, "switch", ("pause",), ("DONE",)), (2, 3, "grab", ("ann", 1, "a"), ("WON", "1")), (4, 5, "switch", ("resume",), ("DONE",))]),
    (False, [(0, 1, "switch", ("pause",), ("DONE",)), (2, 3, "switch", ("resume",), ("DONE",)), (4, 5, "grab", ("ann", 1, "a"), ("PAUSED",))]),
])
def test_the_check_tells_what_can_be_from_what_cannot(linear, rows):
    assert (objection(late(told(rows), LATE_S), Sale(offered=1, grabs_max=1)) is None) == linear


def test_the_check_finds_what_is_wrong_in_a_real_history(three):
    standing = []
    for seed in range(SEED + 10 ** 6, SEED + 10 ** 6 + 50):  # until one has a win that stands in the end
        recorder = Recorder(three, seed).run()
        recorder.check()
        ended = {step.words[0] for step in recorder.steps if step.kind == "cancel"}
        standing = [step for step in recorder.steps if step.said[:1] == ("WON",) and step.said[1] not in ended]
        if standing:
            break
    gate, ledger = late(recorder.of_the_gate(), LATE_S), recorder.of_the_ledger()
    lost = standing[0]
    kept = [step for step in gate if step is not lost and lost.words[2] not in step.words and lost.said[1] not in step.said + step.words]
    assert objection(kept, recorder.start), "a win that nobody heard of, and the counts say nothing"
    assert objection([step for step in ledger if step.said != lost.said], recorder.start), "an order that nobody has won can be read"
    end = max(step.ended for step in gate)
    more = [Step(end + 1 + i, end + 1.5 + i, "grab", (f"one-more-{i}", 1, f"x{i}"), ("WON", f"{i}")) for i in range(recorder.start.offered + 30)]
    assert objection([*gate, *more], recorder.start), "more than there ever was"
    twice = dataclasses.replace(lost, begun=end + 1, ended=end + 2, words=(*lost.words[:2], "another"))
    assert objection([*gate, twice], recorder.start), "one order, won twice"
