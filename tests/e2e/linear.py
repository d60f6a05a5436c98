"""Whether what many clients of many nodes saw of one sale could have happened one after the other: Wing and Gong's search, with Lowe's memory.

A history is a list of Steps. Each happened at one moment between its begin and its end; a history is linear if there is an order of such
moments in which a small sequential model of the sale gives every answer that was given. One without an end, whose outcome nobody knows, may have
happened at any time after its begin, or never."""

import dataclasses
import itertools
import math
import typing

RETURNS_MAX = 16


@dataclasses.dataclass(frozen=True)
class Step:
    begun: float
    ended: float | None  # None: nobody knows the outcome
    kind: str
    words: tuple         # what was asked
    said: tuple = ()     # what was answered

    def __str__(self):
        end = "?" if self.ended is None else f"{self.ended:.4f}"
        return f"[{self.begun:.4f} {end}] {self.kind}{self.words} -> {self.said}"


class Order(typing.NamedTuple):
    no: str
    buyer: str
    units: int
    key: str
    state: str


class Sale(typing.NamedTuple):
    """The model: every method gives (what is answered, the sale after it)."""

    offered: int
    grabs_max: int
    state: str = "running"
    orders: frozenset = frozenset()

    @property
    def counts(self):
        held = sum(order.units for order in self.orders if order.state == "held")
        sold = sum(order.units for order in self.orders if order.state == "paid")
        return self.offered, self.offered - held - sold, held, sold

    def order(self, no):
        return next((order for order in self.orders if order.no == no), None)

    def turned(self, order, state):
        return self._replace(orders=self.orders - {order} | {order._replace(state=state)})

    def grab(self, step):
        buyer, units, key = step.words
        mine = [order for order in self.orders if order.buyer == buyer]
        before = next((order for order in mine if order.key == key), None)
        counting = [order for order in mine if order.state in ("held", "paid")]
        if before:
            yield ("WON", before.no), self
        elif self.state != "running":
            yield (self.state.upper(),), self
        elif len(counting) >= self.grabs_max:
            for order in counting:
                yield ("ALREADY_WON", order.no), self
        elif len(mine) - len(counting) >= RETURNS_MAX:
            yield ("TOO_MANY_RETURNS",), self
        elif units > self.counts[1]:
            yield ("SOLD_OUT",), self
        else:
            no = step.said[1] if step.said[:1] == ("WON",) else f"of {step.begun}"
            if self.order(no) is None:
                yield ("WON", no), self._replace(orders=self.orders | {Order(no, buyer, units, key, "held")})

    def cancel(self, step):
        order = self.order(step.words[0])
        if order is None:
            yield ("NO_SUCH_ORDER",), self
        elif order.state != "held":
            yield ("NOT_HELD",), self
        else:
            yield ("DONE",), self.turned(order, "cancelled")

    def pay(self, step):
        order = self.order(step.words[0])
        if order is None:
            yield ("NO_SUCH_ORDER",), self
        elif order.state in ("paid", "refund_due"):
            yield ("ALREADY_PAID",), self
        else:
            after = "paid" if order.state == "held" else "refund_due"
            yield ("DONE", after), self.turned(order, after)

    def stock(self, step):
        add = step.words[0]
        if self.state == "closed":
            yield ("CLOSED",), self
        elif self.counts[1] + add < 0:
            yield ("NOT_AVAILABLE",), self
        else:
            yield ("DONE",), self._replace(offered=self.offered + add)

    def switch(self, step):
        verb = step.words[0]
        if self.state == "closed":
            yield ("CLOSED",), self
        elif verb == "pause" and self.state == "paused":
            yield ("PAUSED",), self
        elif verb == "resume" and self.state == "running":
            yield ("NOT_PAUSED",), self
        else:
            yield ("DONE",), self._replace(state={"pause": "paused", "resume": "running", "close": "closed"}[verb])

    def look(self, step):
        yield self.counts, self

    def read(self, step):
        order = self.order(step.words[0])
        yield (("NO_SUCH_ORDER",) if order is None else (order.state,)), self

    def after(self, step):
        """What the sale may be after a step that was answered as it says; nothing where it cannot have been."""
        return [sale for said, sale in getattr(self, step.kind)(step) if step.ended is None or said == step.said]


def late(history, seconds):
    """The history with every SOLD_OUT allowed to tell of a moment so long before it was asked for."""
    return [dataclasses.replace(step, begun=step.begun - seconds) if step.said == ("SOLD_OUT",) else step for step in history]


def objection(history, start):
    """None where the history is linear from this sale on; else how far the longest way got, in words."""
    steps = sorted(history, key=lambda step: step.begun)
    ends = [math.inf if step.ended is None else step.ended for step in steps]
    must = sum(1 << i for i, end in enumerate(ends) if end < math.inf)
    seen, ways, best = set(), [(0, start)], (-1, None, [])
    while ways:
        done, sale = ways.pop()
        done, sale, open_steps = reads_take(steps, ends, done, sale)
        if done & must == must:
            return None
        if (done, sale) in seen:
            continue
        seen.add((done, sale))
        count = bin(done).count("1")
        if count > best[0]:
            best = count, sale, [steps[i] for i in open_steps]
        for i in open_steps:
            ways += [(done | 1 << i, after) for after in sale.after(steps[i])]
    count, sale, stuck = best
    lines = "\n".join(f"    {step}" for step in stuck)
    return f"{count} of {len(steps)} steps follow each other; then the sale is {sale.state} with {sale.counts}, and none of these can come next:\n{lines}"


def reads_take(steps, ends, done, sale):
    """Takes all that may come next and change nothing: wherever else they could stand, they can stand here. What is left that may come next."""
    while True:
        left = [i for i in range(len(steps)) if not done >> i & 1]
        first_end = min((ends[i] for i in left), default=math.inf)
        open_steps = list(itertools.takewhile(lambda i: steps[i].begun <= first_end, left))
        reads = sum(1 << i for i in open_steps if steps[i].ended is not None and sale in sale.after(steps[i]))
        if not reads:
            return done, sale, open_steps
        done |= reads
