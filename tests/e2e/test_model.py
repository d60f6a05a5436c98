"""The API against a small model of it, with random steps and kill -9 among them (P1, P2, P3, P5, P6, P7).

A failing run prints what it did step by step, and the blob that repeats it."""

import dataclasses
import os

from harness import Server, Shop, problem
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from provider import Provider

BUYERS = ["ann", "bob", "cat", "a-buyer-with-a-name-of-some-length", "b" * 64]
KEYS = [None, None, "k1", "k2", "k" * 64]
EXAMPLES = int(os.environ.get("STAMPEDE_MODEL_EXAMPLES", "30"))


@dataclasses.dataclass
class Sale:
    """What the model knows of a sale."""
    id: str
    stock: int
    units_max: int
    grabs_max: int
    pays: bool
    price: int | None
    state: str = "running"
    orders: list = dataclasses.field(default_factory=list)
    keys: dict = dataclasses.field(default_factory=dict)
    refs: dict = dataclasses.field(default_factory=dict)  # number of an order -> the payment it has

    @property
    def counting(self):
        return [order for order in self.orders if order["state"] in ("held", "paid")]

    @property
    def taken(self):
        return sum(order["units"] for order in self.counting)

    @property
    def available(self):
        return self.stock - self.taken

    def grab(self, buyer, units, key):
        """(verdict, order or orders to expect, or None)."""
        if key is not None and (buyer, key) in self.keys:
            order = self.keys[buyer, key]
            return ("WON", order) if order["units"] == units else ("KEY_REUSED", None)
        if self.state != "running":
            return self.state.upper(), None
        if units > self.units_max:
            return "OVER_LIMIT", None
        mine = [order for order in self.counting if order["buyer"] == buyer]
        if len(mine) >= self.grabs_max:
            return "ALREADY_WON", mine
        if units > self.available:
            return "SOLD_OUT", None
        return "WON", None

    def pay(self, order, ref):
        """The verdict on a payment of the right amount; what it leads to is written into the order."""
        if self.refs.get(order["no"]) == ref:
            return "REPEATED"
        if order["no"] in self.refs or order["state"] == "paid":
            return "ALREADY_PAID"
        self.refs[order["no"]] = ref
        order["state"] = "paid" if order["state"] == "held" else "refund_due"
        return "DONE"


class Market(RuleBasedStateMachine):
    """Sellers and buyers at one server, which outlives the examples; each example has a seller of its own."""

    server = None
    sales = Bundle("sales")

    def __init__(self):
        super().__init__()
        self.shop = None
        self.known = []

    @initialize()
    def open_shop(self):
        self.shop = Shop(Market.server)

    def teardown(self):
        if self.shop is not None:
            for sale in self.known:
                self.compare(sale)
            self.shop.close()

    @rule(target=sales, stock=st.integers(1, 8), units=st.integers(1, 3), grabs=st.integers(1, 3), pays=st.booleans(), price=st.none() | st.integers(0, 10 ** 9))
    def create(self, stock, units, grabs, pays, price):
        fields = {"units_per_grab_max": units, "grabs_per_buyer_max": grabs}
        if pays:
            fields["pay_within_s"] = 3600
        if price is not None:
            fields.update(price=price, currency="EUR")
        made = self.shop.sale(stock=stock, **fields)
        sale = Sale(made["id"], stock, units, grabs, pays, price)
        self.known.append(sale)
        return sale

    @rule(sale=sales, buyer=st.sampled_from(BUYERS), units=st.integers(1, 4), key=st.sampled_from(KEYS))
    def grab(self, sale, buyer, units, key):
        verdict, order = sale.grab(buyer, units, key)
        answer = self.shop.grab(sale.id, buyer, units, key)
        if verdict == "WON":
            assert answer.status == 201, f"expected a win: {answer!r}"
            got = answer.json()["order"]
            if order is not None:
                assert got == order, "the same key got another order"
                return
            assert (got["buyer"], got["units"], got["sale"]) == (buyer, units, sale.id)
            assert got["amount"] == (None if sale.price is None else sale.price * units)
            assert got["state"] == ("held" if sale.pays else "paid")
            assert all(int(got["no"]) > int(old["no"]) for old in sale.orders)
            sale.orders.append(got)
            if key is not None:
                sale.keys[buyer, key] = got
        else:
            body = problem(answer, 422 if verdict == "KEY_REUSED" else 409, verdict)
            if order is not None:
                assert body["order"] in order

    @rule(sale=sales, pick=st.integers(0, 50), ref=st.sampled_from(["p1", "p2", "p" * 64]), wrong=st.booleans(), failed=st.booleans())
    def pay(self, sale, pick, ref, wrong, failed):
        if not sale.orders:
            return
        order = sale.orders[pick % len(sale.orders)]
        provider = Provider(Market.server)
        if failed:
            answer = provider.tell(self.shop.client, order, ref, 7 if wrong else ..., "failed")
            assert (answer.status, answer.json()) == (200, order), answer
        elif wrong:
            answer = provider.tell(self.shop.client, order, ref, (order["amount"] or 0) + 1)
            assert problem(answer, 409, "AMOUNT_MISMATCH")["order"] == order
        else:
            verdict = sale.pay(order, ref)
            answer = provider.tell(self.shop.client, order, ref)
            if verdict == "ALREADY_PAID":
                assert problem(answer, 409, verdict)["order"] == order
            else:
                assert (answer.status, answer.json()) == (200, order), answer

    @rule(sale=sales, pick=st.integers(0, 50), who=st.sampled_from(["buyer", "seller", "admin", "stranger"]))
    def cancel(self, sale, pick, who):
        if not sale.orders:
            return
        order = sale.orders[pick % len(sale.orders)]
        token = {"buyer": self.shop.buyer(order["buyer"]), "seller": self.shop.seller_token, "admin": self.shop.admin_token,
                 "stranger": self.shop.buyer("stranger")}[who]
        answer = self.shop.client.post(f"/v1/orders/{order['no']}/cancel", {"reason": "a step"}, token)
        if who == "stranger":
            problem(answer, 404, "NO_SUCH_ORDER")
        elif order["state"] != "held":
            problem(answer, 409, "NOT_HELD")
        else:
            order["state"] = "cancelled"
            assert (answer.status, answer.json()) == (200, order), answer

    @rule(sale=sales, add=st.integers(-5, 5).filter(bool))
    def stock(self, sale, add):
        answer = self.shop.act(sale.id, "stock", {"add": add})
        if sale.state == "closed":
            problem(answer, 409, "CLOSED")
        elif sale.available + add < 0:
            problem(answer, 409, "NOT_AVAILABLE")
        else:
            assert answer.status == 200, answer
            sale.stock += add

    @rule(sale=sales, verb=st.sampled_from(["pause", "resume", "pause", "resume", "close"]))
    def switch(self, sale, verb):
        answer = self.shop.act(sale.id, verb)
        if sale.state == "closed":
            problem(answer, 409, "CLOSED")
        elif verb == "pause" and sale.state == "paused":
            problem(answer, 409, "PAUSED")
        elif verb == "resume" and sale.state == "running":
            problem(answer, 409, "NOT_PAUSED")
        else:
            assert answer.status == 200, answer
            sale.state = {"pause": "paused", "resume": "running", "close": "closed"}[verb]

    @rule(sale=sales)
    def time_to_pay(self, sale):
        """May change while the sale is open; orders that were won keep what they have."""
        answer = self.shop.change(sale.id, pay_within_s=None if sale.pays else 3600)
        if sale.state == "closed":
            problem(answer, 409, "CLOSED")
        else:
            assert answer.status == 200, answer
            sale.pays = not sale.pays

    @rule(sale=sales, buyer=st.sampled_from(BUYERS))
    def list_orders(self, sale, buyer):
        mine = [order for order in sale.orders if order["buyer"] == buyer]
        assert self.shop.listed(f"/v1/orders?sale={sale.id}", self.shop.buyer(buyer), limit=2) == mine[::-1]

    @rule()
    def list_sales(self):
        listed = self.shop.listed(f"/v1/sales?seller={self.shop.seller}", limit=3)
        assert [item["id"] for item in listed] == [sale.id for sale in self.known][::-1]
        for item, sale in zip(listed, self.known[::-1]):
            assert (item["offered"], item["available"]) == (sale.stock, sale.available)

    @rule(kill=st.booleans())
    def restart(self, kill):
        self.shop.close()
        Market.server.restart(kill)

    @rule(sale=sales)
    def look(self, sale):
        self.compare(sale)

    def compare(self, sale):
        seen = self.shop.show(sale.id)
        held = sum(order["units"] for order in sale.orders if order["state"] == "held")
        assert (seen["offered"], seen["available"], seen["held"], seen["sold"]) == (sale.stock, sale.available, held, sale.taken - held)
        state = sale.state if sale.state != "running" else "open" if sale.available else "sold_out"
        assert seen["state"] == state
        for order in sale.orders[-3:]:
            assert self.shop.order(order["no"]).json() == order

    @invariant()
    def alive(self):
        assert self.shop is None or Market.server.alive(), Market.server.log()


def test_the_api_follows_the_model():
    """P1, P2, P3, P5, P6, P7: every answer is the one the model expects, restarts and kill -9 included."""
    with Server() as server:
        Market.server = server
        run_state_machine_as_test(Market, settings=settings(
            max_examples=EXAMPLES, stateful_step_count=30, deadline=None, derandomize=False, print_blob=True, database=None,
            suppress_health_check=list(HealthCheck)))
        server.stop()
        audit = server.audit()
        assert audit.code == 0, audit
