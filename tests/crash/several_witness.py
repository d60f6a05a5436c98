"""Buyers and a seller at several nodes, who ask until they know, and hold the shop to what they were told (P1–P4, P6, P7).

A hand is one of them: a thread with connections to all nodes that stays with one of them as long as it answers. What got no answer, or the answer that the
outcome is unknown, is asked again at another node until it is known; BUSY means that nothing was taken. A hand's buyers are its own, so it knows what each of
them must be told: where there is more than enough, a refusal is as wrong as an order that is lost."""

import collections
import contextlib
import dataclasses
import random
import socket
import threading
import time

from harness import Client, Shop, eventually, mint_name, request_bytes
from provider import Provider
from resp import Peer, command
from witness import Grab, Lost, RespAnswer

HANDS = 6
SETTLED_S_MAX = 60
ANSWER_S_MAX = 20
UNSURE_MAX = 18  # of which every sum is looked at
PLENTY = 10 ** 6
NEW_STOCK = 5
RESP_BUYERS = "default:"
PRICE = {"price": 500, "currency": "EUR"}
# In all but tight and brief there is more than anybody will buy; of stocked, nobody buys.
SALES = {
    "wide": {"stock": PLENTY},
    "many": {"stock": PLENTY, "units_per_grab_max": 3, "grabs_per_buyer_max": 3},
    "held": {"stock": PLENTY, "pay_within_s": 3600, **PRICE},
    "tokens": {"stock": PLENTY, "admission": "token"},
    "tight": {"stock": 30},
    "brief": {"stock": 150, "pay_within_s": 1, **PRICE},
    "open": {"stock": PLENTY, "admission": "open"},
    "stocked": {"stock": PLENTY},
}
ENDLESS = ("wide", "many", "held", "tokens")
STATES = ("held", "paid", "cancelled", "expired", "refund_due")


@dataclasses.dataclass
class Added:
    """Units of a sale, after its first."""

    sure: int = 0
    unsure: list = dataclasses.field(default_factory=list)

    def may_be(self, units):
        if len(self.unsure) > UNSURE_MAX:
            return self.sure + sum(add for add in self.unsure if add < 0) <= units <= self.sure + sum(add for add in self.unsure if add > 0)
        sums = {self.sure}
        for add in self.unsure:
            sums |= {one + add for one in sums}
        return units in sums


class Hand:
    """One thread, its connections, and what it knows."""

    def __init__(self, witness, number, seed):
        self.witness, self.number = witness, number
        self.random = random.Random(seed)
        self.clients = [Client(server, timeout=ANSWER_S_MAX) for server in witness.several.servers]
        self.home = number % len(self.clients)
        self.providers = [Provider(server) for server in witness.several.servers]
        self.made = 0
        self.peers = {}  # node -> connection of the Redis protocol
        self.won = {"wide": [], "tight": []}  # (grab, order), as told
        self.few = {}  # buyer in many -> wins
        self.late = collections.deque()  # (when, order) in brief, to be paid after its time

    def close(self):
        for client in [*self.clients, *self.peers.values()]:
            client.close()

    def name(self, what):
        self.made += 1
        return f"{what}{self.number}-{self.made}"

    def exchange(self, at, requests):
        """The answers, in their order; None where none came."""
        client, answers = self.clients[at], []
        try:
            client.send(b"".join(requests))
            while len(answers) < len(requests):
                answers.append(client.receive())
        except socket.timeout:
            raise Lost(f"node {at}: no answer and no end within {ANSWER_S_MAX} s") from None
        except OSError:
            client.close()
        return answers + [None] * (len(requests) - len(answers))

    def pipeline(self, at, grabs):
        """The same by the Redis protocol."""
        answers = []
        try:
            if at not in self.peers:
                self.peers[at] = Peer(self.witness.several.servers[at], ANSWER_S_MAX)
            self.peers[at].send(b"".join(command("SALE.GRAB", grab.sale, grab.buyer.removeprefix(RESP_BUYERS), grab.units, "KEY", grab.key) for grab in grabs))
            for grab in grabs:
                answers.append(RespAnswer(grab, self.peers[at].reply()))
        except socket.timeout:
            raise Lost(f"node {at}: no reply and no end within {ANSWER_S_MAX} s") from None
        except OSError:
            if at in self.peers:
                self.peers.pop(at).close()
        return answers + [None] * (len(grabs) - len(answers))

    def settle(self, asks, exchange=None):
        """asks: {what: make(at)}, make() the bytes for a node. {what: (answer, whether an answer before it was lost, when it was asked, at which node)}, once
        all are known. BUSY without anything lost before is an answer, sometimes."""
        known, lost, at, end = {}, set(), self.home, time.monotonic() + SETTLED_S_MAX
        while asks:
            began = time.monotonic()
            for what, answer in zip(list(asks), (exchange or self.exchange)(at, [make(at) for make in asks.values()])):
                busy = answer is not None and answer.status == 503 and answer.code == "BUSY"
                if answer is None or (answer.status == 503 and not busy):
                    lost.add(what)
                elif not busy or (what not in lost and self.random.random() < 0.3):
                    known[what] = answer, what in lost, began, at
                    del asks[what]
            if asks:
                if time.monotonic() > end:
                    raise Lost(f"P7: not known after {SETTLED_S_MAX} s: {list(asks)[:3]}")
                time.sleep(self.random.uniform(0.01, 0.08))
                at = self.random.randrange(len(self.clients))
        return known

    def ask(self, make):
        """One of them, whatever it takes, but for those that are BUSY."""
        return self.settle({"it": make})["it"]

    # Buyers.

    def grab_bytes(self, grab, purchase=None):
        body = {"units": grab.units, **({"token": purchase} if purchase else {})}
        return request_bytes("POST", f"/v1/sales/{grab.sale}/grabs", body, self.witness.token(grab.buyer), grab.key)

    def grabs(self, name, buyers, units=1, purchase=None):
        """All at once; [(grab, order or None, code)], as told. Those whose names are of the Redis protocol, by that."""
        sale, told = self.witness.sales[name], []
        grabs = [Grab(sale, buyer, units, self.name("k")) for buyer in buyers]
        if buyers[0].startswith(RESP_BUYERS):
            known = self.settle({grab: (lambda at, grab=grab: grab) for grab in grabs}, self.pipeline)
        else:
            known = self.settle({grab: (lambda at, grab=grab: self.grab_bytes(grab, purchase)) for grab in grabs})
        for grab in grabs:
            answer, _, began, at = known[grab]
            self.witness.heard(grab, answer)
            if answer.status == 201:
                self.witness.sold[name, at] = max(began, self.witness.sold.get((name, at), 0))
            told.append((grab, answer.json()["order"] if answer.status == 201 else None, answer.code))
        return told

    def must(self, told, *codes):
        """Each has won, or was refused for one of these reasons."""
        for grab, order, code in told:
            if order is None and code not in (*codes, "BUSY"):
                raise Lost(f"P1: {grab} was refused as {code}")
        return [(grab, order) for grab, order, _ in told if order is not None]

    def buy_wide(self):
        self.buy_one("wide", [self.name("w") for _ in range(self.random.choice([1, 4, 12]))])

    def buy_tight(self):
        self.buy_one("tight", [self.name("x") for _ in range(self.random.choice([1, 3]))], "SOLD_OUT")

    def buy_one(self, name, buyers, *codes):
        """One each. Who has one gets no other, is told so also where nothing is left, and is told which it is when it asks with its key."""
        told, won = self.grabs(name, buyers), self.won[name]
        won += self.must(told, *codes)
        self.witness.sold_out = self.witness.sold_out or any(code == "SOLD_OUT" for _, _, code in told)
        if self.random.random() < 0.3 and won:
            grab, order = self.random.choice(won)
            ((again, other, code),) = self.grabs(name, [grab.buyer])
            if other is not None or code not in ("ALREADY_WON", "BUSY"):
                raise Lost(f"P2: {again} has won {order['no']} before, and was told {other or code}")
        if self.random.random() < 0.3 and won:
            self.again(*self.random.choice(won))

    def buy_piped(self):
        self.must(self.grabs("wide", [RESP_BUYERS + self.name("p") for _ in range(self.random.choice([1, 8, 24]))]))

    def buy_open(self):
        """Nobody asks again, for nobody has a name; but no number is told to two."""
        sale, luck = self.witness.sales["open"], self.random.random() < 0.5
        (answer,) = self.exchange(self.home, [request_bytes("GET", f"/luck/{sale}") if luck else request_bytes("POST", f"/v1/sales/{sale}/grabs")])
        if answer is None or (answer.status == 503 and answer.json()["code"] != "BUSY"):
            self.witness.claim(None)
            time.sleep(0.02)
        elif answer.status in (200, 201):
            self.witness.claim(f"claim:{answer.json()['claim']}" if luck else answer.json()["order"]["buyer"])
        elif answer.status != 503:
            raise Lost(f"P1: a claim got {answer!r}")

    def buy_new(self):
        """A sale that is made just now: all of it is sold, and no more."""
        name = mint_name("new")
        seller = self.witness.shop.seller_token
        answer, lost, _, _ = self.ask(lambda at: request_bytes("POST", "/v1/sales", {"name": name, "stock": NEW_STOCK}, seller))
        if answer.status == 409 and answer.code == "NAME_TAKEN" and lost:
            sale = str(self.witness.several.nodes.ledger().rows("SELECT id FROM sales WHERE name = ?", name)[0]["id"])
        elif answer.status == 503:
            return
        elif answer.status == 201:
            sale = answer.json()["id"]
        else:
            raise Lost(f"a new sale got {answer!r}")
        self.witness.add(name, sale)
        wins = self.must(self.grabs(name, [self.name("n") for _ in range(2 * NEW_STOCK)]), "SOLD_OUT")
        end = time.monotonic() + SETTLED_S_MAX
        while len(wins) < NEW_STOCK and time.monotonic() < end:
            wins += self.must(self.grabs(name, [self.name("n")]))
        if len(wins) != NEW_STOCK:
            raise Lost(f"P1: {len(wins)} of {NEW_STOCK} were sold")

    def again(self, grab, order):
        """P7: asked again with its key it is the same order, as it is by now."""
        answer = self.ask(lambda at: self.grab_bytes(grab))[0]
        if answer.status != 503 and (answer.status != 201 or answer.json()["order"] != order):
            raise Lost(f"P7: {grab} was {order}, asked again it is {answer!r}")

    def buy_many(self):
        buyer = self.random.choice(list(self.few)) if self.few and self.random.random() < 0.7 else self.name("m")
        told = self.grabs("many", [buyer], units=self.random.randint(1, 3))
        wins = self.few.setdefault(buyer, 0)
        if told[0][1] is not None and wins == 3:
            raise Lost(f"P2: a fourth order: {told}")
        self.few[buyer] += len(self.must(told, *(["ALREADY_WON"] if wins == 3 else [])))

    def buy_held(self):
        for grab, order in self.must(self.grabs("held", [self.name("h") for _ in range(self.random.choice([1, 3]))])):
            chance = self.random.random()
            if chance < 0.35:
                order = self.pay(order, ("paid",))
            elif chance < 0.7:
                order = self.cancel(grab, order)
                if order["state"] == "cancelled" and self.random.random() < 0.3:
                    self.must(self.grabs("held", [grab.buyer]))
            if self.random.random() < 0.3:
                self.again(grab, order)

    def buy_tokens(self):
        buyer = self.name("t")
        sale = self.witness.sales["tokens"]
        answer = self.ask(lambda at: request_bytes("POST", f"/v1/sales/{sale}/tokens", None, self.witness.token(buyer)))[0]
        if answer.status == 503:
            return
        if answer.status != 201:
            raise Lost(f"a purchase token was refused: {answer!r}")
        self.must(self.grabs("tokens", [buyer], purchase=answer.json()["token"]))

    def buy_brief(self):
        for _, order in self.must(self.grabs("brief", [self.name("s")]), "SOLD_OUT"):
            chance = self.random.random()
            if chance < 0.2:
                self.pay(order, ("paid", "refund_due"))
            elif chance < 0.6:
                self.late.append((time.monotonic() + self.random.uniform(0.8, 4), order))
        if self.late and time.monotonic() > self.late[0][0]:
            self.pay(self.late.popleft()[1], ("paid", "refund_due"))

    def pay(self, order, states):
        """A payment is said again until it is heard. The order as it is then."""
        answer = self.settle({"it": lambda at: self.providers[at].request(order)})["it"][0]
        if answer.status == 503:
            return order
        if answer.status != 200 or answer.json()["state"] not in states or {**answer.json(), "state": order["state"]} != order:
            raise Lost(f"P6: {order} was paid, and is {answer!r}")
        return self.witness.ended(answer.json())

    def cancel(self, grab, order):
        """Said again where nobody knows whether it was heard, it may have ended the hold before."""
        path = f"/v1/orders/{order['no']}"
        answer, lost, _, _ = self.ask(lambda at: request_bytes("POST", f"{path}/cancel", None, self.witness.token(grab.buyer)))
        if answer.status == 409 and answer.code == "NOT_HELD" and lost:
            answer = self.ask(lambda at: request_bytes("GET", path, None, self.witness.token(grab.buyer)))[0]
        if answer.status == 503:
            return order
        if answer.status != 200 or answer.json() != {**order, "state": "cancelled"}:
            raise Lost(f"P6: {order} was cancelled, and the answer was {answer!r}")
        return self.witness.ended(answer.json())

    def buy(self):
        """What somebody waits for comes first."""
        wanted = [name for name, at in list(self.witness.wanted) if at == self.home]
        if wanted and self.random.random() < 0.7:
            getattr(self, f"buy_{self.random.choice(wanted)}")()
        elif self.random.random() < 0.005:
            self.buy_new()
        else:
            self.random.choice([self.buy_wide, self.buy_piped, self.buy_many, self.buy_held, self.buy_tokens, self.buy_tight, self.buy_brief,
                                self.buy_open])()

    # The seller, who cannot ask again: an addition has no name.

    def restock(self):
        """A few units of tight where it has sold out, else one is withdrawn. Of stocked so many at a time that what was added once, twice or not at all shows
        in the sum, as long as little is unsure: so it rests while the shop does not answer."""
        wanted, self.witness.sold_out = self.witness.sold_out, False
        if self.stock("tight", self.random.randint(1, 8) if wanted else -1):
            self.stock("stocked", self.random.choice([1, 1, -1]) * self.random.randint(1, PLENTY))
        else:
            self.home = self.random.randrange(len(self.clients))
        time.sleep(self.random.uniform(0, 0.05))

    def stock(self, name, add):
        """Whether it was done."""
        added = self.witness.added[name]
        path = f"/v1/sales/{self.witness.sales[name]}/stock"
        (answer,) = self.exchange(self.home, [request_bytes("POST", path, {"add": add}, self.witness.shop.seller_token)])
        if answer is not None and answer.status == 200:
            added.sure += add
        elif answer is None or (answer.status == 503 and answer.code != "BUSY"):
            added.unsure.append(add)
            return False
        elif answer.status != 503 and not (answer.status == 409 and answer.code == "NOT_AVAILABLE" and add < 0):
            raise Lost(f"stock of {add} got {answer!r}")
        return answer.status == 200


class SeveralWitness:
    """Sales of its own, the hands, and the list of what they were told."""

    def __init__(self, several, seed=None):
        self.several = several
        self.seed = random.randrange(2 ** 32) if seed is None else seed
        self.random = random.Random(self.seed)
        self.shop = Shop(several.servers[0])
        self.terms = dict(SALES)
        self.sales = {name: self.shop.sale(**terms)["id"] for name, terms in SALES.items()}
        self.lock = threading.Lock()
        self.told = {}      # Grab -> order as first told
        self.refused = set()
        self.states = {}    # number of an order -> states it may be in
        self.sold = {}      # (sale's name, node) -> when the newest win there was asked for
        self.added = {name: Added() for name in SALES}
        self.claims, self.claims_unsure = set(), 0  # in open
        self.wanted = []    # (sale's name, node) where somebody waits for a win
        self.sold_out = True  # tight, since it was last added to
        self.hands = 0
        self.wrong = []
        self.stopping = threading.Event()

    @property
    def open(self):
        with self.lock:
            return list(self.sales.values())

    def add(self, name, sale):
        with self.lock:
            self.terms[name] = {"stock": NEW_STOCK}
            self.added[name] = Added()
            self.sales[name] = sale

    def token(self, buyer):
        return self.shop.server.token(buyer)

    @contextlib.contextmanager
    def load(self, hands=HANDS):
        """While this lasts they buy."""
        self.stopping.clear()
        threads = []
        for turn in range(hands + 1):
            self.hands += 1
            hand = Hand(self, self.hands, self.random.randrange(2 ** 32))
            threads.append(threading.Thread(target=self._work, args=(hand, hand.restock if turn == hands else hand.buy), daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join(SETTLED_S_MAX + 2 * ANSWER_S_MAX)
        if any(thread.is_alive() for thread in threads):
            raise Lost("a buyer never came to an end")
        self.right()

    def _work(self, hand, turn):
        try:
            while not self.stopping.is_set():
                turn()
        except Exception as error:  # told by whoever waits for us
            with self.lock:
                self.wrong.append(error)
        finally:
            hand.close()

    def right(self):
        if self.wrong:
            raise self.wrong[0]

    def heard(self, grab, answer):
        with self.lock:
            if answer.status == 201:
                order = answer.json()["order"]
                if (order["sale"], order["buyer"], order["units"]) != (grab.sale, grab.buyer, grab.units):
                    raise Lost(f"{grab} was answered with another's order: {order}")
                self.told[grab] = order
                state = order.get("state", "paid")  # by the Redis protocol it is not told, and paid at once
                self.states[order["no"]] = {state, "expired"} if grab.sale == self.sales["brief"] else {state}
            elif answer.status in (409, 503):
                self.refused.add(grab)
            else:
                raise Lost(f"{grab} got {answer!r}")

    def claim(self, name):
        with self.lock:
            if name in self.claims:
                raise Lost(f"{name} was told to two")
            self.claims_unsure += name is None
            self.claims |= {name} - {None}

    def ended(self, order):
        with self.lock:
            self.states[order["no"]] = {order["state"]}
        return order

    def sells(self, since, servers=None):
        """Waits until each of these nodes has sold something, asked for after that time, in each sale that has enough."""
        nodes = [self.several.servers.index(server) for server in servers or self.several.servers]
        end = time.monotonic() + SETTLED_S_MAX
        while True:
            self.right()
            self.wanted = [(name, at) for name in ENDLESS for at in nodes if self.sold.get((name, at), 0) < since]
            if not self.wanted:
                return
            if time.monotonic() > end:
                raise Lost(f"nothing was sold within {SETTLED_S_MAX} s in {self.wanted}")
            time.sleep(0.005)

    # Judgement, when nobody buys any more.

    def check(self):
        """The ledger has exactly what was told, and so has Redis."""
        self.shop.client.close()
        ledger, mine = self.several.nodes.ledger(), set(self.open)
        eventually(lambda: ledger.sale(self.sales["brief"])["held"] == 0, SETTLED_S_MAX)
        self.several.proven()
        rows = [row for row in ledger.orders() if str(row["sale"]) in mine]
        found = {(str(row["sale"]), row["buyer"], row["units"], row["key"]): row for row in rows}
        if len(found) != len(rows):
            raise Lost("P4: a grab has two orders")
        for grab, order in self.told.items():
            row = found.pop((grab.sale, grab.buyer, grab.units, grab.key), None)
            if row is None or str(row["no"]) != order["no"]:
                raise Lost(f"P3: {grab} was told {order}, the ledger has {row}")
            if STATES[row["state"]] not in self.states[order["no"]]:
                raise Lost(f"P6: order {order['no']} was told as {self.states[order['no']]}, the ledger has {row}")
        claimed = {key[1] for key in found if key[0] == self.sales["open"]}
        if not self.claims <= claimed or len(claimed - self.claims) > self.claims_unsure:
            raise Lost(f"P3: claims told and not there: {list(self.claims - claimed)[:5]}, there and not told: {list(claimed - self.claims)[:5]}")
        extra = [row for key, row in found.items() if key[0] != self.sales["open"]]
        if extra:
            raise Lost(f"orders of which nobody was told: {extra[:5]}")
        for name, sale in self.sales.items():
            self._check_sale(name, sale, ledger.sale(sale), [row for row in rows if str(row["sale"]) == sale])

    def _check_sale(self, name, sale, row, orders):
        held, sold = (sum(order["units"] for order in orders if STATES[order["state"]] == state) for state in ("held", "paid"))
        if (row["held"], row["sold"]) != (held, sold) or row["available"] != row["offered"] - held - sold or row["available"] < 0:
            raise Lost(f"P1: {name}: orders hold {held} and have bought {sold}, the sale says {row}")
        if not self.added[name].may_be(row["offered"] - self.terms[name]["stock"]):
            raise Lost(f"P3: {name}: to {self.terms[name]['stock']} there were added {self.added[name]}, the sale says {row['offered']}")
        counts = collections.Counter(order["buyer"] for order in orders if order["state"] < 2)
        if counts and max(counts.values()) > self.terms[name].get("grabs_per_buyer_max", 1):
            raise Lost(f"P2: {name}: {counts.most_common(3)}")

    def sell_out(self):
        """P1: what is left is sold, to the last unit, and no more; each time at another node."""
        shops = [Shop(server) for server in self.several.servers]
        left = self.several.nodes.ledger().sale(self.sales["tight"])["available"]
        for i in range(left):
            shops[i % len(shops)].win(self.sales["tight"], mint_name("last"))
        for shop in shops:
            answer = shop.grab(self.sales["tight"], mint_name("late"))
            if answer.code != "SOLD_OUT":
                raise Lost(f"P1: all was sold, and the answer is {answer!r}")
            shop.close()

    def finish(self):
        """Everything is proven, and its sales are over: the next witness's are not slowed down by them."""
        self.check()
        self.sell_out()
        self.several.proven()
        for sale in self.open:
            answer = self.shop.act(sale, "close")
            if answer.status != 200:
                raise Lost(f"sale {sale} could not be closed: {answer!r}")
        self.shop.close()

    def summary(self):
        return f"{len(self.told)} orders told, {len(self.refused)} refused, seed {self.seed}"
