"""A win that the ledger refuses is not told as won (ack = ledger): the ledger has the last word, and Redis has nothing of it afterwards.

What Redis and the ledger disagree about is made up here, and somebody keeps the lock of the sale's rebuild: it would mend that before anybody came."""

import pytest
from gate_scripts import KEYS, Gate
from harness import Shop, eventually
from nodes import PREFIX, Nodes
from resp import Error, Peer

STATUS = {"WON": 201, "SOLD_OUT": 409, "ALREADY_WON": 409, "KEY_REUSED": 422}


def over_http(shop, sale, buyer, units, key):
    """The word and the number of the order that a buyer hears."""
    answer = shop.patient(lambda: shop.grab(sale, buyer, units=units, key=key))[-1]
    word = answer.code if answer.status >= 400 else "WON"
    assert answer.status == STATUS[word], answer
    return word, answer.json().get("order", {}).get("no")


def over_resp(shop, sale, buyer, units, key):
    with Peer(shop.server) as peer:
        def decided():
            got = peer.ask("SALE.GRAB", sale, buyer, units, *(["KEY", key] if key else []))
            return got if not isinstance(got, Error) or got.code not in ("BUSY", "OUTCOME_UNKNOWN") else None
        answer = eventually(decided)
    return (answer.code, None) if isinstance(answer, Error) else tuple(answer[:2])


class Apart:
    """A sale of 5, of which ann has bought 1 with a key, and which nobody builds anew until agree()."""

    def __init__(self, nodes, ask):
        self.nodes, self.ask = nodes, ask
        self.shop = Shop(nodes.start())
        self.sale = self.shop.sale(stock=5, units_per_grab_max=2, pay_within_s=600)["id"]
        word, self.order = self.grab("ann", key="k")
        assert word == "WON"
        eventually(lambda: nodes.redis().xlen(self.key("log")) == 0 and nodes.ledger().sale(self.sale)["held"] == 1)
        nodes.redis().set(f"{PREFIX}lock:sale:{self.sale}", "somebody", px=600_000)

    def key(self, name):
        return self.nodes.key(self.sale, name)

    def grab(self, buyer, units=1, key=None):
        return self.ask(self.shop, self.sale, buyer, units, key)

    def forget_ann(self):
        """Redis has her units as taken, and does not know by whom."""
        for name in ("buyers", "orders", "keys", "holds"):
            assert self.nodes.redis().delete(self.key(name)) == 1

    def in_redis(self):
        """Counts, who has what, and the log."""
        redis = self.nodes.redis()
        peek = Gate(redis).run("peek", [self.key(name) for name in KEYS], self.nodes.own.lineage(), "")
        return peek[9:13], [redis.hgetall(self.key(name)) for name in ("buyers", "orders", "keys", "tokens")], redis.zcard(self.key("holds")), redis.xlen(self.key("log"))

    def agree(self):
        """The lock is free: the sale is as the ledger has it, for everybody."""
        self.nodes.redis().delete(f"{PREFIX}lock:sale:{self.sale}")
        eventually(lambda: self.nodes.ledger().sale(self.sale)["epoch"] == 2)
        assert [str(row["no"]) for row in self.nodes.ledger().orders(self.sale)] == [self.order]
        row = self.nodes.ledger().sale(self.sale)
        eventually(lambda: self.shop.counts(self.sale) == tuple(row[name] for name in ("offered", "available", "held", "sold")))
        assert self.nodes.reconcile().code == 0


@pytest.fixture(params=[over_http, over_resp], ids=["http", "resp"])
def apart(request):
    with Nodes() as nodes:
        yield Apart(nodes, request.param)


def test_who_wins_what_the_ledger_does_not_have_hears_that_all_is_sold(apart):
    apart.nodes.ledger().change("UPDATE sales SET offered = offered - available, available = 0 WHERE id = ?", (int(apart.sale),))
    before = apart.in_redis()
    assert before[0] == ["5", "4", "1", "0"]
    for key in (None, "other"):
        assert apart.grab("bob", key=key) == ("SOLD_OUT", None)
        eventually(lambda: apart.in_redis() == before)
    apart.agree()


def test_who_has_won_hears_of_that_order_also_where_only_the_ledger_knows_it(apart):
    apart.forget_ann()
    before = apart.in_redis()
    for key in (None, "other"):
        assert apart.grab("ann", key=key) == ("ALREADY_WON", apart.order)
        eventually(lambda: apart.in_redis() == before)
    apart.agree()


def test_a_key_that_only_the_ledger_knows_is_answered_with_its_order(apart):
    """With other units it is used once more, as where Redis knows it."""
    apart.forget_ann()
    before = apart.in_redis()
    assert apart.grab("ann", key="k") == ("WON", apart.order)
    eventually(lambda: apart.in_redis() == before)
    assert apart.grab("ann", units=2, key="k") == ("KEY_REUSED", None)
    eventually(lambda: apart.in_redis() == before)
    apart.agree()
