"""A client that keeps its own list of what it was told, and holds the server to it after every crash (P1–P5, P7).

It knows three kinds of grabs: acknowledged (a 201 was read to its last byte), refused, and unknown (the connection ended before
an answer). An acknowledged one must be there for ever, exactly as told. An unknown one may be there or not; asking again with
its key must settle it, and settle it the same way ever after. Nothing else may be there."""

import dataclasses
import random
import threading
import time

from harness import Client, Shop, eventually, mint_name, request_bytes
from resp import Closed, Error, Peer, command


@dataclasses.dataclass(frozen=True)
class Grab:
    sale: str
    buyer: str
    units: int
    key: str


class Lost(AssertionError):
    """A promise was broken; the message says which."""


class Witness:
    """Sales at one server, a load on them, and the list."""

    BURSTS = (1, 1, 1, 8)
    PREFIX = ""  # of buyers' names

    def __init__(self, server, seed=None, stock=40, buyers=60):
        self.server = server
        self.seed = random.randrange(2 ** 32) if seed is None else seed
        self.random = random.Random(self.seed)
        self.shop = Shop(server)
        self.stock, self.buyers = stock, buyers
        self.acked = {}     # Grab -> order as first told
        self.unknown = {}   # Grab -> None
        self.refused = set()
        self.offered = {}   # sale -> stock it was made with
        self.stock_sure = {}  # sale -> additions acknowledged
        self.stock_unsure = {}  # sale -> additions without an answer
        self.lock = threading.Lock()
        self.count = 0
        self.ended = []     # tokens whose logout was acknowledged
        self.stranger = []  # what a load thread found that it should not have

    # Load.

    def sale_make(self):
        fields = self.random.choice([{}, {"grabs_per_buyer_max": 3, "units_per_grab_max": 3}, {"pay_within_s": 3600, "units_per_grab_max": 2}])
        sale = self.shop.sale(stock=self.stock, **fields)
        self.offered[sale["id"]] = self.stock
        self.stock_sure[sale["id"]] = []
        self.stock_unsure[sale["id"]] = []
        return sale["id"], fields

    def load(self, seconds, threads=6, sales=2):
        """Grabs and additions of stock from several connections until the time is over or the server has gone. Returns a function that waits
        for all of it to end; meanwhile the caller kills the server."""
        made = [self.sale_make() for _ in range(sales)]
        end = time.monotonic() + seconds
        workers = [threading.Thread(target=self._work, args=(made, end, self.random.randrange(2 ** 32)), daemon=True) for _ in range(threads)]
        for worker in workers:
            worker.start()

        def join():
            for worker in workers:
                worker.join(30)
                if worker.is_alive():
                    raise Lost("a request got no answer and no end within 30 s")
            if self.stranger:
                raise Lost(self.stranger[0])
        return join

    def _work(self, made, end, seed):
        rng = random.Random(seed)
        client = Client(self.server, timeout=20)
        try:
            while time.monotonic() < end:
                sale, fields = rng.choice(made)
                chance = rng.random()
                if chance < 0.03:
                    if not (self._add(client, sale, rng.randint(1, 5)) if chance < 0.02 else self._log_out(client)):
                        return
                    continue
                with self.lock:
                    self.count += 1
                    number = self.count
                burst = rng.choice(self.BURSTS)
                grabs = [Grab(sale, f"{self.PREFIX}buyer-{rng.randrange(self.buyers)}", rng.randint(1, fields.get("units_per_grab_max", 1)), f"{number}-{i}")
                         for i in range(burst)]
                if not self._send(client, grabs):
                    return
        except Exception as error:  # told by whoever waits for us
            with self.lock:
                self.stranger.append(repr(error))
        finally:
            client.close()

    def _send(self, client, grabs):
        """False when the server has gone."""
        data = b"".join(request_bytes("POST", f"/v1/sales/{grab.sale}/grabs", {"units": grab.units}, self.shop.buyer(grab.buyer), grab.key) for grab in grabs)
        with self.lock:
            for grab in grabs:
                self.unknown[grab] = None
        try:
            client.send(data)
            for grab in grabs:
                self.heard(grab, client.receive())
        except OSError:
            return False
        return True

    def heard(self, grab, answer):
        """Files an answer. 503 leaves a grab unknown: it may have been decided before the disk failed."""
        with self.lock:
            if answer.status == 201:
                order = answer.json()["order"]
                if (order["sale"], order["buyer"], order["units"]) != (grab.sale, grab.buyer, grab.units):
                    self.stranger.append(f"{grab} was answered with another's order: {order}")
                self.unknown.pop(grab, None)
                before = self.acked.setdefault(grab, order)
                if before != order:
                    self.stranger.append(f"P7: {grab} was {before}, is now {order}")
            elif answer.status == 409:
                if grab in self.acked:
                    self.stranger.append(f"P7: {grab} won before, and is now refused: {answer!r}")
                self.unknown.pop(grab, None)
                self.refused.add(grab)
            elif answer.status != 503:
                self.stranger.append(f"{grab} got {answer!r}")

    def _add(self, client, sale, add):
        with self.lock:
            self.stock_unsure[sale].append(add)
        try:
            answer = client.post(f"/v1/sales/{sale}/stock", {"add": add}, self.shop.seller_token)
        except OSError:
            return False
        with self.lock:
            if answer.status == 200:
                self.stock_unsure[sale].remove(add)
                self.stock_sure[sale].append(add)
        return True

    def _log_out(self, client):
        token = self.server.token(mint_name("leaver"))
        try:
            answer = client.post("/v1/logout", None, token)
        except OSError:
            return False
        if answer.status == 204:
            with self.lock:
                self.ended.append(token)
        return True

    # Judgement, after a restart.

    def check(self, full=True, recent=200):
        """Everything that was said is there, nothing is there twice or too often, memory and SQLite agree. With full, every order ever told is
        looked up, else only the newest."""
        self.shop.client.close()
        self.resolve()
        told = list(self.acked.items())
        for grab, order in told if full else told[-recent:]:
            answer = self.shop.order(order["no"])
            if answer.status != 200 or not order.items() <= answer.json().items():
                raise Lost(f"P3: {grab} was told {order}, after the crash it is {answer!r}")
        for token in self.ended if full else self.ended[-20:]:
            if self.shop.client.get("/v1/orders?limit=1", token).status != 401:
                raise Lost("P3: a token whose logout was acknowledged works again")
        self.check_ledger()

    def ask(self, grab):
        return self.shop.grab(grab.sale, grab.buyer, grab.units, grab.key)

    def resolve(self):
        """P7: an unknown outcome is settled by asking again, and the second time the same way."""
        settled = list(self.unknown)
        for grab in settled:
            again = self.ask(grab)
            self.heard(grab, again)
            if self.stranger:
                raise Lost(self.stranger[0])
            if grab in self.unknown:
                raise Lost(f"P7: {grab} is still unknown: {again!r}")
        for grab in settled[:50]:
            self.heard(grab, self.ask(grab))
            if self.stranger:
                raise Lost(self.stranger[0])

    def check_ledger(self):
        """P1, P2, P4: SQLite holds exactly what was told."""
        self._list_once()
        rows = [row for row in self.server.ledger().orders() if str(row["sale"]) in self.offered]
        numbers = [str(row["no"]) for row in rows]
        if len(set(numbers)) != len(numbers):
            raise Lost("P4: an order is in SQLite twice")
        told = {order["no"]: (grab.sale, grab.buyer, grab.units, grab.key) for grab, order in self.acked.items()}
        if len(told) != len(self.acked):
            raise Lost("two grabs were told the same order number")
        found = {str(row["no"]): (str(row["sale"]), row["buyer"], row["units"], row["key"]) for row in rows}
        for no, what in told.items():
            if found.get(no) != what:
                raise Lost(f"P4: order {no} was told as {what}, SQLite has {found.get(no)}")
        extra = found.keys() - told.keys()
        if extra:
            raise Lost(f"orders nobody was told of, and nobody asked for: {[found[no] for no in sorted(extra)[:5]]}")
        for sale, first in self.offered.items():
            self._check_counts(sale, first, [row for row in rows if str(row["sale"]) == sale])

    def _list_once(self):
        """A list waits until the clerk has filed what is durable."""
        eventually(lambda: self.shop.client.get("/v1/orders?limit=1", self.shop.seller_token).status == 200, seconds=30)

    def _check_counts(self, sale, first, rows):
        seen = self.shop.show(sale)
        taken = sum(row["units"] for row in rows)
        if seen["offered"] != seen["available"] + seen["held"] + seen["sold"] or seen["available"] < 0:
            raise Lost(f"P1: {seen}")
        if seen["held"] + seen["sold"] != taken:
            raise Lost(f"P1: orders of {taken} units, but the sale says {seen}")
        sure = first + sum(self.stock_sure[sale])
        if not sure <= seen["offered"] <= sure + sum(self.stock_unsure[sale]):
            raise Lost(f"P3: {sure} units were offered for sure, the sale says {seen['offered']}")
        grabs = {}
        for row in rows:
            grabs[row["buyer"]] = grabs.get(row["buyer"], 0) + 1
        if grabs and max(grabs.values()) > seen["grabs_per_buyer_max"]:
            raise Lost(f"P2: {max(grabs.values())} orders of one buyer in sale {sale}")

    def summary(self):
        return f"{len(self.acked)} acknowledged, {len(self.refused)} refused, seed {self.seed}"


class RespAnswer:
    """A reply of the Redis protocol, as HTTP would have told it; of an order only what the reply tells."""

    def __init__(self, grab, reply):
        self.reply = reply
        self.code = reply.code if isinstance(reply, Error) else reply[0]
        if isinstance(reply, Error):
            self.status = 503 if self.code in ("BUSY", "OUTCOME_UNKNOWN") else 400
        else:
            self.status = 201 if self.code == "WON" else 409
            self.order = {"no": reply[1], "sale": grab.sale, "buyer": grab.buyer, "units": grab.units}

    def json(self):
        return {"order": self.order}

    def __repr__(self):
        return f"<{self.reply}>"


class RespWitness(Witness):
    """The same, with grabs in pipelines of the Redis protocol."""

    BURSTS = (1, 16, 64)
    PREFIX = "default:"

    def words(self, grab):
        return "SALE.GRAB", grab.sale, grab.buyer[len(self.PREFIX):], grab.units, "KEY", grab.key

    def _send(self, client, grabs):
        with self.lock:
            for grab in grabs:
                self.unknown[grab] = None
        try:
            if not hasattr(client, "peer"):
                client.peer = Peer(self.server)
            client.peer.send(b"".join(command(*self.words(grab)) for grab in grabs))
            for grab in grabs:
                self.heard(grab, RespAnswer(grab, client.peer.reply()))
        except (OSError, Closed):
            return False
        return True

    def ask(self, grab):
        with Peer(self.server) as peer:
            return RespAnswer(grab, peer.ask(*self.words(grab)))
