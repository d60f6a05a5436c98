"""Buyers who knock at nodes while something happens to these, and what is then held against what they heard."""

import collections
import threading
import time

from harness import Shop, beside, eventually, request_bytes


def grabs(shop, sale, buyers, key=None):
    return [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(buyer), key) for buyer in buyers]


def told(answers):
    return collections.Counter("WON" if answer.status == 201 else answer.code for answer in answers)


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


class Crowd:
    """Buyers who come one after the other until told to stop, each with a key; what they heard."""

    def __init__(self, server, sale, seller, name="c"):
        self.server, self.sale, self.seller, self.name = server, sale, seller, name
        self.over = threading.Event()
        self.heard = {}  # buyer: the answer, and how long it took
        self.going = beside(*(lambda n=n: self.run(n) for n in range(4)), until=self.over)

    def run(self, n):
        shop, at = Shop(self.server, self.seller), 0
        while not self.over.is_set():
            buyer, began = f"{self.name}{n}-{at}", time.monotonic()
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


class Pulse:
    """While the block runs, looks at the clock every hundredth of a second: how long this machine stood still, in all, is what nobody else is to blame for."""

    EVERY_S, LATE_S = 0.01, 0.05

    def __init__(self):
        self.stood_still_s = 0
        self.over = threading.Event()
        self.going = beside(self.run, until=self.over)

    def run(self):
        last = time.monotonic()
        while not self.over.wait(self.EVERY_S):
            now = time.monotonic()
            self.stood_still_s += now - last if now - last > self.LATE_S else 0
            last = now

    def __enter__(self):
        self.began = time.monotonic()
        self.going.__enter__()
        return self

    def __exit__(self, *error):
        self.took_s = time.monotonic() - self.began
        return self.going.__exit__(*error)
