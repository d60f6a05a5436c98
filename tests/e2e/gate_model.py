"""What the engine promises, as a small model of one sale: each method decides and answers (word, more…), and changes the model where the answer
says so. src/engine/engine.h is its source, and src/gate/scripts.h for what the ledger has decided; nothing here knows how the gate keeps things."""

import dataclasses

from gate_scripts import CANCELLED, EXPIRED, HELD, PAID, REFUND_DUE, Order

RETURNS_MAX = 16
STOCK_MAX = 10 ** 9


class Model:
    def __init__(self, fields):
        self.__dict__.update(fields)
        self.now = self.t
        self.orders, self.keys, self.tokens, self.standing = {}, {}, {}, {}
        self.restocks = {}

    @property
    def counting(self):
        return [order for order in self.orders.values() if order.counts]

    @property
    def held_units(self):
        return sum(order.units for order in self.orders.values() if order.state == HELD)

    @property
    def sold_units(self):
        return sum(order.units for order in self.orders.values() if order.state == PAID)

    @property
    def left(self):
        return self.offered - self.held_units - self.sold_units

    @property
    def is_closed(self):
        return bool(self.closed) or (self.closes != 0 and self.now >= self.closes)

    def mine(self, buyer):
        """(orders that count, orders that have ended)."""
        orders = [order for order in self.orders.values() if order.buyer == buyer]
        return sum(order.counts for order in orders), sum(not order.counts for order in orders)

    def grab(self, no, buyer, units, key, nonce, flags):
        claims = False
        if self.admission == 0:
            if buyer.startswith(("claim:", "key:", "cut:")):
                return ("BAD_INPUT",)
            if not buyer:
                claims = not key
                buyer = "key:" + key if key else f"claim:{self.orders_made + 1}"
        elif not buyer:
            return ("BUSY",)
        before = self.orders.get(no)
        if before:
            same = before.units == units and before.key == key and (claims or before.buyer == buyer)
            # Who has nothing yet, and is refused anyway, is refused before the number is looked at.
            if same:
                return "WON", max(self.grabs_max - self.mine(before.buyer)[0], 0), before
            if claims or any(self.mine(buyer)):
                return ("NUMBER_TAKEN",)
        if key and (buyer, key) in self.keys:
            order = self.orders[self.keys[buyer, key]]
            return ("REPEATED", 0, order) if order.units == units else ("KEY_REUSED",)
        grabs, returns = self.mine(buyer)
        word = self.grab_word(buyer, units, nonce, flags, grabs, returns)
        if word == "ALREADY_WON":
            return word, 0, self.orders[self.standing[buyer]]
        if word:
            return (word,)
        if before:
            return ("NUMBER_TAKEN",)
        spends = self.admission >= 2 and "t" not in flags and nonce != "0"
        pay_by = self.now + self.pay_within * 1000 if self.pay_within else 0
        order = Order(no, HELD if pay_by else PAID, units, -1 if self.price < 0 else self.price * units, self.now, pay_by, nonce if spends else "0", buyer, key, "")
        if spends:
            del self.tokens[buyer]
        if key:
            self.keys[buyer, key] = no
        self.orders[no] = order
        self.standing[buyer] = no
        self.orders_made += 1
        return "WON", self.grabs_max - grabs - 1, order

    def grab_word(self, buyer, units, nonce, flags, grabs, returns):
        if "w" in flags and grabs >= self.grabs_max:
            return "ALREADY_WON"
        if self.is_closed:
            return "CLOSED"
        if self.now < self.opens:
            return "NOT_OPEN"
        if self.paused:
            return "PAUSED"
        if self.admission >= 2 and "t" not in flags:
            if nonce == "0" and "b" in flags or nonce != "0" and self.tokens.get(buyer) != nonce:
                return "TOKEN_INVALID"
            if nonce == "0" and self.admission == 2:
                return "TOKEN_REQUIRED"
        if units > self.units_max:
            return "OVER_LIMIT"
        if grabs >= self.grabs_max:
            return "ALREADY_WON"
        if returns >= RETURNS_MAX:
            return "TOO_MANY_RETURNS"
        if units > self.left:
            return "SOLD_OUT"
        return "BUSY" if "a" in flags else None

    def token(self, nonce, buyer, admission, before):
        if self.is_closed:
            return ("CLOSED",)
        if self.admission != admission:
            return ("NO_TOKENS_NEEDED",)
        if self.mine(buyer)[0] >= self.grabs_max:
            return "ALREADY_WON", "0", self.orders[self.standing[buyer]]
        if self.left == 0:
            return ("SOLD_OUT",)
        has = self.tokens.get(buyer)
        if before not in ("0", has):
            return ("TOKEN_INVALID",)
        if has:
            return "REPEATED", has
        if self.tokens_max and self.tokens_given >= self.tokens_max:
            return ("NO_TOKENS_LEFT",)
        self.tokens[buyer] = nonce
        self.tokens_given += 1
        return "DONE", nonce

    def turn(self, no, state, ref):
        self.orders[no] = dataclasses.replace(self.orders[no], state=state, ref=ref)
        return self.orders[no]

    def payment_refusal(self, no, ref, amount):
        order = self.orders.get(no)
        if order is None:
            return ("NO_SUCH_ORDER",)
        if amount != order.amount:
            return "AMOUNT_MISMATCH", "", order
        if order.state in (PAID, REFUND_DUE):
            return ("REPEATED" if order.ref == ref else "ALREADY_PAID"), "", order
        return None

    def may_retake(self, order):
        return (order.state == EXPIRED and self.late_payment == 0 and not self.is_closed and order.units <= self.left and
                self.mine(order.buyer)[0] < self.grabs_max)

    def pay(self, no, ref, amount, kind):
        refusal = self.payment_refusal(no, ref, amount)
        if refusal:
            return refusal
        order = self.orders[no]
        if (kind == "paid") != (order.state == HELD):
            return "NOT_HELD", "", order
        return "DONE", "", self.turn(no, PAID if kind == "paid" else REFUND_DUE, ref)

    def retake(self, no, ref, amount):
        refusal = self.payment_refusal(no, ref, amount)
        if refusal:
            return refusal
        order = self.orders[no]
        if order.state == HELD:
            return "NOT_EXPIRED", "", order
        if not self.may_retake(order):
            return "REFUND_DUE", "", order
        self.standing[order.buyer] = no
        return "DONE", "", self.turn(no, PAID, ref)

    def cancel(self, no, id):
        order = self.orders.get(no)
        if order is None:
            return ("NO_SUCH_ORDER",)
        if order.state == CANCELLED and order.ref == id:
            return "REPEATED", "", order
        if order.state != HELD:
            return "NOT_HELD", "", order
        return "DONE", "", self.turn(no, CANCELLED, id)

    def expire(self, no):
        order = self.orders.get(no)
        if order is None:
            return "NO_SUCH_ORDER"
        if order.state != HELD:
            return "NOT_HELD"
        self.turn(no, EXPIRED, "")
        return "DONE"

    def undo(self, no, buyer):
        order = self.orders.get(no)
        if order is None or order.buyer != buyer:
            return ("NO_SUCH_ORDER",)
        if order.state != HELD and not (order.state == PAID and order.pay_by == 0):
            return "NOT_HELD", "", order
        del self.orders[no]
        self.keys.pop((buyer, order.key), None)
        if order.nonce != "0":
            self.tokens.setdefault(buyer, order.nonce)
        if self.standing.get(buyer) == no:
            self.standing[buyer] = "0"
        return ("DONE",)

    def restock(self, id, add):
        if id in self.restocks:
            return ("REPEATED" if self.restocks[id] == add else "KEY_REUSED",)
        if self.is_closed:
            return ("CLOSED",)
        if add < -self.left or self.offered + add > STOCK_MAX:
            return ("NOT_AVAILABLE",)
        self.restocks[id] = add
        self.offered += add
        return "DONE", ""

    def change(self, changes):
        self.__dict__.update(changes)
        return ("DONE",)

    def check(self, sale):
        """Everything that stands in Redis is what the model has (P1, P2, P6)."""
        seen = sale.peek()
        counts = {"offered": self.offered, "available": self.left, "held": self.held_units, "sold": self.sold_units, "orders_made": self.orders_made,
                  "tokens_given": self.tokens_given, "paused": self.paused, "closed": self.closed, "price": self.price, "pay_within": self.pay_within, "closes": self.closes,
                  "orders": len(self.orders), "tokens": len(self.tokens)}
        assert {name: seen[name] for name in counts} == counts
        assert self.left >= 0
        assert sale.orders() == self.orders
        buyers = {}
        for buyer in {order.buyer for order in self.orders.values()}:
            grabs, returns = self.mine(buyer)
            assert grabs <= self.grabs_max, "P2"
            buyers[buyer] = f"{grabs} {returns} {self.standing[buyer]}"
        assert sale.redis.hgetall(sale.keys[1]) == buyers
        keys = {f"{buyer}\0{key}": no for (buyer, key), no in self.keys.items()}
        assert sale.redis.hgetall(sale.keys[3]) == {**keys, **{f"\0{id}": str(add) for id, add in self.restocks.items()}}
        assert sale.redis.hgetall(sale.keys[4]) == self.tokens
        holds = {no: order.pay_by for no, order in self.orders.items() if order.state == HELD}
        assert dict(sale.redis.zrange(sale.keys[5], 0, -1, withscores=True)) == holds


# What an order must have been for what becomes of it (P6), and what it is then.
TURNS = {"paid": ([HELD], PAID), "cancelled": ([HELD], CANCELLED), "expired": ([HELD], EXPIRED), "retaken": ([EXPIRED], PAID), "refund_due": ([CANCELLED, EXPIRED], REFUND_DUE)}


def replay(fields, log, told):
    """The orders, tokens and units that a log leads to, from what its entries say alone, and from what the ledger was the first to know: told has
    (after how many entries, what, of which order, ref)."""
    state = dict(fields, orders={}, tokens={}, refs=set())

    def turn(kind, no, ref):
        was, then = TURNS[kind]
        assert state["orders"][no].state in was, "P6"
        state["orders"][no] = dataclasses.replace(state["orders"][no], state=then, ref=ref)

    def units_check():
        taken = sum(order.units for order in state["orders"].values() if order.counts)
        assert 0 <= taken <= state["offered"], "P1"

    last = 0
    for place in range(len(log) + 1):
        for _, *turned in (one for one in told if one[0] == place):
            turn(*turned)
            units_check()
        if place == len(log):
            return state
        entry = log[place]
        kind, at = entry["kind"], int(entry["at"])
        assert at >= last, "time went back"
        last = at
        if kind == "won":
            order = Order.of(entry["no"], entry["order"])
            assert order.no not in state["orders"] and order.at == at
            state["orders"][order.no] = order
            if order.nonce != "0":
                assert state["tokens"].pop(order.buyer) == order.nonce
        elif kind == "token_given":
            assert entry["buyer"] not in state["tokens"]
            state["tokens"][entry["buyer"]] = entry["no"]
        elif kind == "retaken":
            assert state["orders"][entry["no"]].units == int(entry["units"])
            turn(kind, entry["no"], entry["ref"])
        else:
            assert kind == "stock_added" and entry["id"] not in state["refs"]
            state["refs"].add(entry["id"])
            state["offered"] += int(entry["add"])
        units_check()
