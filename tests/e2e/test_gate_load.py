"""Sales put into the gate as the ledger has them, sales that are damaged, logs that are full, and the servers that the gate may run on."""

import random

import pytest
import redis
from gate_scripts import CANCELLED, EXPIRED, HELD, KEYS, NUMBERS, PAID, REFUND_DUE, RUN, T0, Gate, GateSale, Order, connect
from redis_servers import RedisCluster, RedisServer, wait_until


@pytest.fixture(scope="module")
def gate():
    with RedisServer() as server:
        yield Gate(connect(server))


def order(no, state=HELD, units=1, buyer="ann", key="", ref=None, nonce="0", **more):
    fields = {"amount": 999 * units, "at": T0 - 10, "pay_by": T0 + 500, **more}
    due = state == REFUND_DUE or (state == PAID and fields["pay_by"])
    return Order(str(no), state, units, fields["amount"], fields["at"], fields["pay_by"], nonce, buyer, key, ("p" if due else "") if ref is None else ref)


def loaded(gate, orders, tokens=(), **fields):
    """A sale whose counts are those of its orders, not loaded yet."""
    units = {state: sum(one.units for one in orders if one.state == state) for state in range(5)}
    return GateSale(gate, load=False, **{"offered": 100, "held": units[HELD], "sold": units[PAID], "orders_made": len(orders), "tokens_given": len(tokens),
                                         "grabs_max": 9, **fields})


def test_what_was_loaded_goes_on_as_if_it_had_been_decided_here(gate):
    orders = [order(7, key="k"), order(9, PAID, 2, buyer="bob"), order(8, PAID, buyer="cat", pay_by=0), order(6, CANCELLED, buyer="bob"), order(5, EXPIRED, ref="rel"),
              order(2 ** 63 - 1, REFUND_DUE), order(4, CANCELLED, buyer="dan"), order(10, CANCELLED, buyer="cat")]
    sale = loaded(gate, orders, [("eve", "77")], admission=2)
    assert sale.load(orders, [("eve", "77")])[0] == "DONE"
    assert sale.orders() == {one.no: one for one in orders} and sale.counts() == (100, 96, 1, 3)
    assert sale.redis.hgetall(sale.keys[1]) == {"ann": "1 2 7", "bob": "1 1 9", "cat": "1 1 8", "dan": "0 1 0"}
    assert sale.redis.hgetall(sale.keys[3]) == {"ann\0k": "7"} and sale.redis.zrange(sale.keys[5], 0, -1, withscores=True) == [("7", T0 + 500)]
    assert sale.grab("ann", 1, "k")[0] == "REPEATED" and sale.grab("eve", nonce="77")[0] == "WON"
    assert sale.pay("9", "p", 1998)[0] == "REPEATED" and sale.pay("7")[0] == "DONE" and sale.retake("5")[0] == "DONE" and sale.cancel("8")[0] == "NOT_HELD"


def test_chunks_may_come_twice_and_in_any_order(gate):
    rng = random.Random(6)
    orders = [order(n, rng.randrange(5), rng.randint(1, 3), buyer=f"b{rng.randrange(20)}", key=rng.choice(["", f"k{n}"])) for n in range(1, 300)]
    sale = loaded(gate, orders, offered=1000, grabs_max=100)
    sale.begin()
    chunks = [orders[first:first + 50] for first in range(0, len(orders), 50)] * 2
    rng.shuffle(chunks)
    for chunk in chunks:
        assert sale.call("load", "chunk", *sum((one.words() for one in chunk), []))[0] == "DONE"
    assert sale.call("load", "end", len(orders), 0)[0] == "DONE" and sale.orders() == {one.no: one for one in orders}
    for buyer in {one.buyer for one in orders}:
        mine = [one for one in orders if one.buyer == buyer]
        counting = [one for one in mine if one.counts]
        newest = max((int(one.no) for one in counting), default=0)
        assert sale.redis.hget(sale.keys[1], buyer) == f"{len(counting)} {len(mine) - len(counting)} {newest}"
    assert sale.call("load", "chunk", *orders[0].words())[0] == "REPEATED" and sale.call("load", "end", 0, 0)[0] == "REPEATED"


def test_epochs_only_rise(gate):
    sale = GateSale(gate, epoch=5)
    kept = sale.win()
    for epoch, word in ((4, "STALE"), (5, "REPEATED"), ("5.0", "BAD_INPUT"), (0, "BAD_INPUT"), (2 ** 53, "BAD_INPUT"), ("", "BAD_INPUT")):
        before, sale.epoch = sale.everything(), epoch
        answer = sale.begin()
        assert answer[0] == word and sale.everything() == before, epoch
        assert answer[1:] == {"STALE": [RUN, "5", T0], "REPEATED": [T0, 9], "BAD_INPUT": []}[word]
    sale.epoch, sale.run = 5, "another"
    assert sale.begin()[0] == "STALE", "the same epoch in another server: raise it"
    sale.epoch = 6
    assert sale.load()[0] == "DONE" and sale.grab()[0] == "WON" and sale.order(kept.no) is None and len(sale.log()) == 1
    sale.epoch, sale.run = 5, RUN
    assert sale.grab()[0] == "STALE" and sale.call("load", "end", 0, 0)[0] == "STALE"
    sale.epoch, sale.run = 10, "another"
    assert sale.begin()[0] == "DONE" and sale.begin()[0] == "DONE", "a loader that begins again"
    sale.epoch = 9
    assert sale.begin()[0] == sale.call("load", "chunk", "token", "ann", "1")[0] == "STALE"


def test_a_sale_that_is_shut_decides_nothing_and_keeps_its_log(gate):
    sale = GateSale(gate)
    won = sale.win()
    assert sale.call("load", "shut")[0] == "DONE"
    for answer in (sale.grab("bob"), sale.pay(won.no), sale.cancel(won.no), sale.expire(won.no), sale.restock(1), sale.change(paused=1), sale.call("peek")):
        assert answer[:3] == ["LOADING", RUN, "1"]
    assert sale.call("load", "shut")[0] == "DONE" and len(sale.log()) == 1 and sale.orders() == {won.no: won}
    # What it was open with does not open it again: only a whole load of a later epoch does.
    assert sale.call("load", "end", 1, 0)[0] == "STALE" and sale.call("load", "chunk", *order(9).words())[0] == "STALE"
    sale.epoch = 2
    assert sale.call("load", "shut")[0] == "STALE"
    assert sale.load()[0] == "DONE" and sale.log() == [] and sale.grab("bob")[0] == "WON"


def test_a_sale_of_another_lineage_is_shut_for_those_who_know_only_that_one(gate):
    sale = GateSale(gate)
    won = sale.win()
    sale.run = "another"
    assert sale.grab("bob")[0] == sale.call("peek")[0] == "STALE"
    assert sale.call("load", "shut")[0] == "DONE" and sale.call("peek")[:3] == ["STALE", RUN, "1"]
    sale.run = RUN
    assert sale.grab("bob")[:3] == ["LOADING", RUN, "1"] and len(sale.log()) == 1 and sale.orders() == {won.no: won}
    sale.run, sale.epoch = "another", 2
    assert sale.load()[0] == "DONE" and sale.grab("bob")[0] == "WON"
    sale.run = RUN
    assert sale.grab("cid")[:3] == ["STALE", "another", "2"]


def test_time_does_not_go_back_over_a_load(gate):
    sale = GateSale(gate, t=0)
    now = sale.peek()["t"]
    seconds = gate.redis.time()[0]
    assert abs(now / 1000 - seconds) < 3600, "the server's own, where it is later than the ledger's"
    assert GateSale(gate, t=T0 + 5, closes=T0 + 10 ** 9).win().at == T0 + 5


def test_a_load_that_does_not_add_up_never_opens(gate):
    held, paid = order(1), order(2, PAID, buyer="bob")
    for fields, orders, count, tokens, given in [
            ({}, [held, paid], 3, [], 0), ({}, [held], 2, [], 0), ({"held": 2}, [held, paid], 2, [], 0), ({"sold": 0}, [held, paid], 2, [], 0), ({"orders_made": 1}, [held, paid], 2, [], 0),
            ({}, [held, paid], 2, [("ann", "9")], 0), ({"tokens_given": 0}, [held, paid], 2, [("ann", "9")], 1), ({}, [held, paid], 2, [], 1)]:
        sale = loaded(gate, [held, paid], tokens, **fields)
        assert sale.begin()[0] == "DONE"
        for words in [one.words() for one in orders] + [["token", *token] for token in tokens]:
            assert sale.call("load", "chunk", *words)[0] == "DONE"
        assert sale.call("load", "end", count, given)[0] == "DAMAGED", (fields, count, given)
        assert sale.grab()[0] == "LOADING"
    for fields in ({"available": 99}, {"available": 101}, {"held": 101}, {"offered": 101, "available": 100}):
        assert GateSale(gate, load=False, **{"offered": 100, "available": 100, **fields}).begin()[0] == "DAMAGED", fields


DAMAGED = [
    [order(1), order(1, units=2)], [order(1, key="k"), order(2, key="k")],
    [order(1, pay_by=0)], [order(1, CANCELLED, pay_by=0)], [order(1, pay_by=T0 - 10)], [order(1, PAID, ref="")], [order(1, REFUND_DUE, ref="")], [order(1, HELD, ref="r")],
    [order(1, PAID, pay_by=0, ref="r")],
]


@pytest.mark.parametrize("orders", DAMAGED)
def test_orders_that_cannot_be_are_refused(gate, orders):
    for together in (True, False):
        sale = loaded(gate, orders, grabs_max=2)
        sale.begin()
        before = sale.everything()
        chunks = [sum((one.words() for one in orders), [])] if together else [one.words() for one in orders]
        answers = [sale.call("load", "chunk", *chunk) for chunk in chunks]
        assert answers[-1][0] == "DAMAGED" and len(answers[-1]) == 2, answers
        assert not together or sale.everything() == before


def test_orders_from_before_the_terms_changed_are_loaded_as_they_are(gate):
    orders = [order(1, amount=1), order(2, amount=-1), order(3, units=9), order(4, buyer="bob")]
    sale = loaded(gate, orders, grabs_max=2, units_max=5, opens=T0 - 5)
    assert sale.load(orders)[0] == "DONE" and sale.orders() == {one.no: one for one in orders}
    assert sale.redis.hgetall(sale.keys[1]) == {"ann": "3 0 3", "bob": "1 0 4"}
    assert sale.grab("ann")[0] == "ALREADY_WON" and sale.grab("bob")[0] == "WON" and sale.pay("1", amount=1)[0] == "DONE" and sale.cancel("2")[0] == "DONE"
    assert sale.grab("ann")[0] == "ALREADY_WON" and sale.cancel("3")[0] == "DONE" and sale.grab("ann")[0] == "WON"


def test_wrong_words_of_a_load_are_refused(gate):
    sale = GateSale(gate, load=False)
    good = [sale.fields[name] for name in NUMBERS]
    for place in range(len(good)):
        for value in ("", "-2", "x", str(2 ** 63), "1.0", "\0"):
            assert sale.call("load", "begin", *good[:place], value, *good[place + 1:]) == ["BAD_INPUT"], (place, value)
    assert sale.call("load", "begin", *good[1:]) == sale.call("load", "begin", *good, "1") == ["BAD_INPUT"]
    assert not any(sale.redis.exists(key) for key in sale.keys)
    sale.begin()
    before = sale.everything()
    words = order(1).words()
    for place, values in enumerate([("orders",), ("0", "-1", str(2 ** 63)), ("5", "-1", ""), ("0", str(10 ** 9 + 1)), ("x", "-2"), ("-1", "1e3"), ("-1", ""), ("", "x"), ("", "b" * 65),
                                    ("k" * 65, "\0"), ("r" * 65,)]):
        for value in values:
            assert sale.call("load", "chunk", *words[:place], value, *words[place + 1:]) == ["BAD_INPUT"], (place, value)
    for wrong in ([], words[:-1], words + ["1"], ["token", "ann"], ["token", "", "1"], ["token", "ann", "0"], order(1).words() * 201):
        assert sale.call("load", "chunk", *wrong) == ["BAD_INPUT"], wrong[:3]
    assert sale.call("load", "stop") == sale.call("load", "end", 0) == sale.call("load", "end", -1, 0) == ["BAD_INPUT"]
    assert sale.everything() == before


@pytest.mark.parametrize("apart", [True, False])
def test_of_several_tokens_of_a_buyer_the_last_is_loaded(gate, apart):
    sale = GateSale(gate, load=False, admission=2, tokens_given=4)
    sale.begin()
    given = [("ann", "9"), ("ann", "1000"), ("ann", "999"), ("bob", "5")]
    for words in [["token", *one] for one in given] if apart else [[word for one in given for word in ("token", *one)]]:
        assert sale.call("load", "chunk", *words)[0] == "DONE"
    assert sale.call("load", "end", 0, 3)[0] == "DAMAGED" and sale.call("load", "end", 0, 4)[0] == "DONE"
    assert sale.token("ann")[3] == "1000" and sale.token("bob")[3] == "5"


def test_damage_is_said_and_nothing_written(gate):
    """P1 is looked at before every write."""
    for changes in ({"available": 9}, {"available": 11}, {"held": -1, "available": 9}, {"sold": 5}, {"offered": 11}):
        sale = GateSale(gate, grabs_max=9, admission=2)
        one, two = sale.win(flags="t"), sale.win(flags="t")
        sale.expire(two.no)
        counts = {**sale.peek()}
        sale.poke(**{name: counts[name] + value - {"available": 10, "offered": 10}.get(name, 0) for name, value in changes.items()})
        before = sale.everything()
        for answer in (sale.grab(flags="t"), sale.token(), sale.pay(one.no), sale.retake(two.no), sale.cancel(one.no), sale.expire(one.no), sale.undo(one.no), sale.restock(1),
                       sale.change(paused=1)):
            assert answer[0] == "DAMAGED", (changes, answer)
        assert sale.everything() == before
    sale = GateSale(gate)
    one = sale.win()
    sale.redis.hdel(sale.keys[1], "ann")
    before = sale.everything()
    assert sale.cancel(one.no)[0] == sale.expire(one.no)[0] == sale.undo(one.no)[0] == "DAMAGED" and sale.everything() == before
    sale = GateSale(gate, grabs_max=1)
    one = sale.win(key="k")
    sale.redis.hdel(sale.keys[2], one.no)
    assert sale.grab()[0] == sale.grab(key="k")[0] == "DAMAGED"
    for harm in (lambda: sale.redis.hset(sale.keys[0], "counts", "x" * 56), lambda: sale.redis.hset(sale.keys[0], "counts", "x"), lambda: sale.redis.hset(sale.keys[0], "terms", "x"),
                 lambda: sale.redis.hdel(sale.keys[0], "counts")):
        harm()
        assert sale.grab("bob")[0] == sale.call("peek")[0] == sale.call("load", "shut")[0] == "DAMAGED"
    sale.epoch = 2
    assert sale.load()[0] == "DONE" and sale.grab("bob")[0] == "WON", "nothing of it is in the way of a load"


def test_what_cannot_be_read_is_said_and_nothing_written(gate):
    """An order, or what stands of its buyer. Of holds that end only those are done that can be read."""
    for damaged in ("orders", "buyers"):
        sale = GateSale(gate, grabs_max=9, admission=2)
        one, two = sale.win(flags="t"), sale.win(flags="t")
        sale.expire(two.no)
        names = (one.no, two.no) if damaged == "orders" else ("ann",)
        sale.redis.hset(sale.keys[KEYS.index(damaged)], mapping={name: "1 garbage" for name in names})
        before = sale.everything()
        answers = [sale.retake(two.no), sale.cancel(one.no), sale.undo(one.no), *([sale.pay(one.no)] if damaged == "orders" else [sale.token(), sale.expire(one.no)])]
        assert {answer[0] for answer in answers} == {"DAMAGED"}, (damaged, answers)
        if damaged == "orders":
            assert sale.expire(one.no)[3:] == ["NO_SUCH_ORDER"]
        assert sale.everything() == before


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_another_kind_is_named_and_goes_when_the_sale_is_shut(gate, name):
    sale = GateSale(gate, admission=2)
    order = sale.win(flags="t", key="k")
    assert sale.token("bob")[0] == "DONE"
    key, others = sale.keys[KEYS.index(name)], [one for one in sale.keys if not one.endswith(name)]
    sale.redis.delete(key)
    sale.redis.set(key, "x")
    for epoch in (sale.epoch, "", 7):
        assert sale.gate.run("peek", sale.keys, RUN, epoch) == ["DAMAGED", f"{key} has another kind of value"]
    before = [sale.redis.execute_command("DUMP", one) for one in others[1:]]
    assert sale.call("load", "shut")[0] == ("NOT_LOADED" if name == "state" else "DONE")
    assert not sale.redis.exists(key) and [sale.redis.execute_command("DUMP", one) for one in others[1:]] == before
    assert sale.grab()[0] == sale.call("peek")[0] == ("NOT_LOADED" if name == "state" else "LOADING"), "nothing is decided from here on"
    sale.epoch, sale.fields = 2, {**sale.fields, "available": 9, "held": 1, "orders_made": 1}
    assert sale.load([order])[0] == "DONE" and sale.counts() == (10, 9, 1, 0)


def test_where_the_log_takes_no_entry_nothing_is_taken(gate):
    """An entry is the first that is written, so that nothing is taken that the ledger does not hear of."""
    sale = GateSale(gate, grabs_max=9, admission=2)
    one = sale.win(flags="t")
    sale.expire(one.no)
    sale.redis.xadd(sale.keys[6], {"a": "b"}, id=f"{2 ** 64 - 1}-{2 ** 64 - 1}")
    before = sale.everything()
    got = sale.grabs(*(sale.grab_words(buyer, key="k", flags="t") for buyer in ("bob", "cat")))
    assert [answer[0] for answer in got] == ["DAMAGED"] * 2 and "takes no entry" in got[0][1]
    for refuse in (lambda: sale.token("bob"), lambda: sale.retake(one.no), lambda: sale.restock(-1)):
        with pytest.raises(redis.ResponseError):
            refuse()
    assert sale.everything() == before
    assert sale.restock(1, filed=1)[0] == "DONE", "what the ledger has needs no entry"


def test_a_full_log_takes_nothing(gate):
    sale = GateSale(gate, log_max=2, admission=2, opens=T0)
    one, two = sale.win(flags="t"), sale.win(flags="t")
    sale.expire(two.no)
    sale.at(T0 + 600_000)
    before = sale.everything()
    for answer in (sale.grab("bob", flags="t"), sale.token("bob"), sale.retake(two.no), sale.restock(-1)):
        assert answer == ["FULL", T0 + 600_000, 9], answer
    assert sale.everything() == before
    assert sale.grab("bob", 6, flags="t")[0] == "OVER_LIMIT" and sale.grab(no=one.no)[0] == "WON" and sale.pay(one.no, amount=1)[0] == "AMOUNT_MISMATCH", "no is no"
    sale.redis.xdel(sale.keys[6], sale.redis.xrange(sale.keys[6])[0][0])
    assert sale.grab("bob", flags="t")[0] == "WON" and sale.grab("cat", flags="t")[0] == "FULL"


def test_a_user_who_may_not_do_all_never_opens_a_sale():
    """A command that is forbidden would end a decision half way: load tries them all first."""
    written = ["hset", "hsetnx", "hdel", "zadd", "zrem", "xadd", "xdel", "unlink", "persist"]
    with RedisServer() as server:
        admin = connect(server)
        for command in written:
            admin.execute_command("ACL", "SETUSER", "shop", "reset", "on", ">secret", "~*", "+@all", f"-{command}")
            shop = redis.Redis(server.host, server.port, username="shop", password="secret", decode_responses=True)
            sale = GateSale(Gate(shop), load=False)
            with pytest.raises(redis.ResponseError, match="can't run this command|NOPERM|permissions"):
                sale.load()
            assert admin.hget(sale.keys[0], "terms") is None, command


def test_a_server_out_of_memory_takes_nothing():
    with RedisServer(maxmemory_policy="noeviction") as server:
        sale = GateSale(Gate(connect(server)))
        sale.win()
        before = sale.everything()
        sale.redis.config_set("maxmemory", 1)
        with pytest.raises(redis.ResponseError, match="OOM"):
            sale.grab()
        sale.redis.config_set("maxmemory", 0)
        assert sale.everything() == before and sale.grab()[0] == "WON"


def test_a_replica_has_what_its_master_decided():
    """The effects go there, not the scripts: they ask for the time."""
    with RedisServer() as master, RedisServer(replicaof=f"127.0.0.1 {master.port}") as replica:
        sale = GateSale(Gate(connect(master)), t=0, opens=0, closes=0, grabs_max=9)
        orders = [sale.win(key=f"k{n}") for n in range(3)]
        sale.pay(orders[0].no), sale.cancel(orders[1].no)
        there = GateSale(Gate(connect(replica)), load=False)
        there.keys = sale.keys
        wait_until("a replica that has caught up", lambda: there.everything() == sale.everything())
        assert there.peek()["sold"] == 1, "what only looks may be asked of it"
        with pytest.raises(redis.ResponseError):
            there.grab("bob")
        there.run = "its own"
        assert there.call("peek")[0] == "STALE"


def test_all_keys_of_a_sale_are_on_one_machine_of_a_cluster():
    with RedisCluster(masters=3, replicas=0) as cluster:
        gates = {server.port: Gate(connect(server)) for server in cluster.servers}
        for _ in range(6):
            sale = GateSale(gates[cluster.servers[0].port], load=False, held=1, orders_made=1)
            sale.gate = gates[cluster.master_of(sale.keys[0]).port]
            sale.redis = sale.gate.redis
            assert sale.load([order(5)])[0] == "DONE"
            won = sale.win(key="k")
            assert sale.pay(won.no)[0] == "DONE" and sale.counts() == (10, 8, 1, 1)
