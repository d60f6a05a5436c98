"""The scripts that decide inside Redis, as the build embeds them, and one sale that they decide about.

Time stands still in such a sale: it is loaded as if decided last in 2096, and a script's time never goes below that of the last decision
(P12). GateSale.at() lets it go on."""

import dataclasses
import pathlib
import re
import struct

import redis
from harness import BINARY

SCRIPTS = pathlib.Path(BINARY).resolve().parent / "lua"
HEADER = pathlib.Path(__file__).resolve().parents[2] / "src" / "gate" / "scripts.h"
KEYS = ("state", "buyers", "orders", "keys", "tokens", "holds", "log")
NUMBERS = tuple(re.findall(r"ROW\((\w+)\)", HEADER.read_text().split("GATE_SALE_NUMBERS(ROW)")[1].split("*/")[0]))
COUNTS = NUMBERS[:7]
TERMS = NUMBERS[7:16]
LOG_FIELDS = {kind: ["kind", "epoch", "at", *fields.split()]
              for kind, fields in re.findall(r'ROW\((\w+), "([\w ]*)"\)', HEADER.read_text())}
GRABS_MAX, GRAB_WORDS = (int(re.search(rf"#define {name} (\d+)", HEADER.read_text()).group(1)) for name in ("GATE_GRABS_MAX", "GATE_GRAB_WORDS"))
T0 = 4_000_000_000_000
HELD, PAID, CANCELLED, EXPIRED, REFUND_DUE = range(5)
RUN = "r" * 40


@dataclasses.dataclass
class Order:
    """An order line in parts."""
    no: str
    state: int
    units: int
    amount: int
    at: int
    pay_by: int
    nonce: str
    buyer: str
    key: str
    ref: str

    @classmethod
    def of(cls, no, line):
        *numbers, texts = line.split(" ", 9)
        assert all(number == str(int(number)) for number in numbers), line
        state, units, amount, at, pay_by, nonce, buyer, key, ref = map(int, numbers)
        data = texts.encode("utf-8", "surrogateescape")
        assert len(data) == buyer + key + ref, line
        parts = [piece.decode("utf-8", "surrogateescape") for piece in (data[:buyer], data[buyer:buyer + key], data[buyer + key:])]
        return cls(no, state, units, amount, at, pay_by, str(nonce), *parts)

    @property
    def counts(self):
        return self.state in (HELD, PAID)

    def words(self):
        return ["order", *map(str, dataclasses.astuple(self))]


class Gate:
    """Runs scripts by their names on one Redis."""

    def __init__(self, client):
        self.redis = client
        self.shas = {path.stem: client.script_load(path.read_text()) for path in sorted(SCRIPTS.glob("*.lua"))}

    def run(self, name, keys, *args):
        """What one grab by itself is answered is told like what other scripts answer."""
        answer = self.redis.evalsha(self.shas[name], len(keys), *keys, *args)
        return answer[0] if name == "grab" and isinstance(answer[0], list) and len(answer) == 1 else answer


class GateSale:
    """One sale in the gate."""

    last = 0

    def __init__(self, gate, load=True, run=RUN, epoch=1, orders=(), tokens=(), **fields):
        GateSale.last += 1
        self.gate, self.redis = gate, gate.redis
        self.keys = [f"stampede:{{sale:{GateSale.last}}}:{name}" for name in KEYS]
        self.run, self.epoch = run, epoch
        self.number = 10 ** 18 + GateSale.last * 10 ** 9
        self.fields = dict(t=T0, offered=10, available=None, held=0, sold=0, orders_made=0, tokens_given=0, price=999, units_max=5, grabs_max=2, opens=T0 - 1000,
                           closes=T0 + 10 ** 9, pay_within=600, admission=1, tokens_max=0, late_payment=0, paused=0, closed=0, log_max=1000, version=0)
        self.fields.update(fields)
        if self.fields["available"] is None:
            self.fields["available"] = self.fields["offered"] - self.fields["held"] - self.fields["sold"]
        if load:
            assert self.load(orders, tokens)[0] == "DONE"

    def load(self, orders=(), tokens=()):
        """The whole load, in small chunks; the last answer."""
        answer = self.begin()
        if answer[0] != "DONE":
            return answer
        items = [order.words() for order in orders] + [["token", buyer, nonce] for buyer, nonce in tokens]
        for first in range(0, len(items), 3):
            answer = self.call("load", "chunk", *sum(items[first:first + 3], []))
            if answer[0] != "DONE":
                return answer
        return self.call("load", "end", len(orders), len(tokens))

    def begin(self, **changes):
        fields = {**self.fields, **changes}
        return self.call("load", "begin", *(fields[name] for name in NUMBERS))

    def call(self, script, *args):
        """With ... before the rest: whatever the epoch is."""
        epoch = "" if ... in args else self.epoch
        return self.gate.run(script, self.keys, self.run, epoch, *(arg for arg in args if arg is not ...))

    def next_no(self):
        self.number += 1
        return str(self.number)

    def grab_words(self, buyer="ann", units=1, key="", no=None, made=None, nonce="0", flags=""):
        made = ("key:" + key if key and not buyer else "") if made is None else made
        return [no or self.next_no(), buyer, key, made, units, nonce, flags]

    def grab(self, *args, **more):
        return self.call("grab", *self.grab_words(*args, **more))

    def grabs(self, *several):
        """In one call: what each is answered."""
        answers = self.call("grab", *sum(several, []))
        return [answers] if len(several) == 1 else answers

    def win(self, *args, **more):
        """The order."""
        answer = self.grab(*args, **more)
        assert answer[0] == "WON", answer
        return Order.of(*answer[5:])

    def token(self, buyer="ann", admission=2, before="0", nonce=None):
        return self.call("token", nonce or self.next_no(), buyer, admission, before)

    def pay(self, no, ref="p1", amount=999, kind="paid"):
        return self.call("pay", no, ref, amount, kind)

    def retake(self, no, ref="p1", amount=999):
        return self.call("retake", no, ref, amount)

    def cancel(self, no, id="x"):
        return self.call("cancel", no, id)

    def expire(self, *numbers):
        return self.call("expire", *numbers)

    def undo(self, no, name="ann", what="win", entry=""):
        return self.call("undo", what, no, name, entry)

    def restock(self, add, id=None, filed=0):
        return self.call("restock", self.next_no() if id is None else id, add, filed)

    def changed(self, **changes):
        """The words of a change: the next version, unless another is given."""
        fields = {**self.fields, "version": self.fields["version"] + 1, **changes}
        return [fields[name] for name in ("version", *TERMS, "paused", "closed")]

    def change(self, **changes):
        words = self.changed(**changes)
        answer = self.call("change", *words)
        if answer[0] == "DONE":
            self.fields.update(changes, version=words[0])
        return answer

    def peek(self):
        answer = self.call("peek")
        assert answer[0] == "DONE", answer
        return {**dict(zip(NUMBERS, map(int, answer[8:]))), "epoch": answer[3], **dict(zip(("log", "orders", "tokens", "holds"), answer[4:8]))}

    def counts(self):
        """offered, available, held, sold; checks P1 on the way."""
        seen = self.peek()
        counts = tuple(seen[name] for name in ("offered", "available", "held", "sold"))
        assert counts[0] == sum(counts[1:]) and min(counts) >= 0, f"P1 broken: {seen}"
        return counts

    def at(self, t):
        """From here on it is t."""
        self.poke(t=t)

    def poke(self, **changes):
        """Writes counts past the scripts."""
        counts = dict(zip(COUNTS, struct.unpack(">7d", self.raw("state", "counts"))), **changes)
        self.redis.hset(self.keys[0], "counts", struct.pack(">7d", *(counts[name] for name in COUNTS)))

    def raw(self, key, field):
        value = self.redis.hget(self.keys[KEYS.index(key)], field)
        return value.encode("utf-8", "surrogateescape") if value is not None else None

    def order(self, no):
        line = self.redis.hget(self.keys[2], no)
        return Order.of(no, line) if line else None

    def orders(self):
        return {no: Order.of(no, line) for no, line in self.redis.hgetall(self.keys[2]).items()}

    def log(self):
        entries = self.redis.xrange(self.keys[6])
        for _, fields in entries:
            assert list(fields) == LOG_FIELDS[fields["kind"]], fields
        return [fields for _, fields in entries]

    def everything(self):
        """All that stands in Redis, to tell whether anything was written."""
        hashes = [self.redis.hgetall(key) for key in self.keys[:5]]
        return [*hashes, self.redis.zrange(self.keys[5], 0, -1, withscores=True), self.redis.xrange(self.keys[6])]


def connect(server):
    """Bytes that are no UTF-8 come through unharmed."""
    return redis.Redis(server.host, server.port, socket_timeout=60, decode_responses=True, encoding_errors="surrogateescape")


def refused(sale, script, args, word="BAD_INPUT"):
    """It answers the word alone and writes nothing."""
    before = sale.everything()
    answer = sale.call(script, *args)
    assert answer[0] == word, (script, args, answer)
    assert word != "BAD_INPUT" or len(answer) == 1
    assert sale.everything() == before, (script, args)
