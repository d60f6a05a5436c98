"""stampede reconcile: whether Redis has what the ledger has, said fact by fact, and made so."""

import threading

import pytest
from harness import Shop, at_once, beside, eventually, problem
from nodes import PREFIX, Nodes


@pytest.fixture
def nodes():
    with Nodes() as made:
        yield made


def busy_sales(nodes, shop):
    """A sale in which everything has happened, and one with tokens; what reconcile should find, settled."""
    sale = shop.sale(stock=20, pay_within_s=600, price=500, currency="EUR", grabs_per_buyer_max=2)["id"]
    orders = {name: shop.win(sale, name, key=f"key-{name}")["no"] for name in ("ann", "bob", "cat", "dan")}
    assert shop.client.post(f"/v1/orders/{orders['bob']}/cancel", {}, shop.buyer("bob")).status == 200
    assert shop.act(sale, "stock", {"add": 5}).status == 200
    assert shop.act(sale, "stock", {"add": -3}).status == 200
    shop.win(sale, "bob")
    tickets = shop.sale(stock=5, admission="token")["id"]
    shop.win(tickets, "ann", purchase=shop.purchase_token(tickets, "ann"))
    shop.purchase_token(tickets, "bob")
    for one in (sale, tickets):
        eventually(lambda one=one: nodes.redis().xlen(nodes.key(one, "log")) == 0)
    eventually(lambda: not nodes.ledger().rows("SELECT * FROM errands"))
    return sale, tickets, orders


def test_what_is_as_it_should_be_is_said_so(nodes):
    server = nodes.start()
    busy_sales(nodes, Shop(server))
    done = nodes.reconcile()
    assert done.code == 0 and "2 sales compared, 0 differ" in done.out, done
    server.stop()
    done = nodes.reconcile()
    assert done.code == 0 and "2 sales compared, 0 differ" in done.out, done


def test_every_difference_is_named_and_repaired(nodes):
    shop = Shop(nodes.start())
    sale, tickets, orders = busy_sales(nodes, shop)
    gate = nodes.redis()

    def term(name, value):
        nodes.ledger().change(f"UPDATE sales SET {name} = ? WHERE id = ?", (value, int(sale)))

    damage = [
        (lambda: gate.hdel(nodes.key(sale, "orders"), orders["ann"]), sale, f"in the ledger, not in Redis: order {orders['ann']}: held"),
        (lambda: gate.hset(nodes.key(sale, "orders"), str(10 ** 15), "1 1 500 1 0 0 3 0 0 eve"), sale, "in Redis, not in the ledger: order 1000000000000000"),
        (lambda: gate.hdel(nodes.key(sale, "buyers"), "ann"), sale, "in the ledger, not in Redis: buyer 'ann': 1 orders that count"),
        (lambda: gate.hset(nodes.key(sale, "buyers"), "eve", "1 0 7"), sale, "in Redis, not in the ledger: buyer 'eve'"),
        (lambda: gate.zrem(nodes.key(sale, "holds"), orders["cat"]), sale, f"in the ledger, not in Redis: hold {orders['cat']}"),
        (lambda: gate.hdel(nodes.key(sale, "keys"), "ann\0key-ann"), sale, "in the ledger, not in Redis: key 'key-ann' of 'ann'"),
        (lambda: gate.hdel(nodes.key(tickets, "tokens"), "bob"), tickets, "in the ledger, not in Redis: token"),
        (lambda: term("price", 900), sale, "in the ledger, not in Redis: price 900, at most 1 units a grab and 2 grabs a buyer"),
        (lambda: term("grabs_per_buyer_max", 3), sale, "in Redis, not in the ledger: price 900, at most 1 units a grab and 2 grabs a buyer"),
        (lambda: term("closes_ms", 4 * 10 ** 12), sale, "in the ledger, not in Redis: price 900, at most 1 units a grab and 3 grabs a buyer"),
        (lambda: nodes.ledger().change("UPDATE sales SET available = available - 1, offered = offered - 1 WHERE id = ?", (int(sale),)), sale, "in the ledger, not in Redis: offered 21"),
    ]
    for harm, where, said in damage:
        harm()
        done = nodes.reconcile()
        assert done.code == 1 and f"differs: sale {where}: {said}" in done.out, (said, done)
        done = nodes.reconcile("--repair")
        assert done.code == 0, done
        done = nodes.reconcile()
        assert done.code == 0 and "0 differ" in done.out, (said, done)
    assert Shop(nodes.servers[0]).win(sale, "eve")


def test_what_somebody_has_written_into_a_sale_is_named_and_the_sale_built_anew(nodes):
    server = nodes.start()
    sale, tickets, _ = busy_sales(nodes, Shop(server))
    server.stop()
    nodes.redis().set(nodes.key(sale, "log"), "x")
    nodes.redis().hset(nodes.key(tickets, "state"), "terms", "x")
    done = nodes.reconcile("--repair")
    assert done.code == 0 and "2 differ by 2 facts, 2 built anew or dropped" in done.out, done
    assert f"differs: sale {sale}: what Redis has of it cannot be used: {nodes.key(sale, 'log')} has another kind of value" in done.out, done
    assert f"differs: sale {tickets}: what Redis has of it cannot be used: its terms or its counts cannot be read" in done.out, done
    done = nodes.reconcile()
    assert done.code == 0 and "2 sales compared, 0 differ" in done.out, done
    shop = Shop(nodes.start())
    assert shop.counts(sale) == (22, 18, 4, 0) and shop.counts(tickets) == (5, 4, 0, 1)
    problem(shop.grab(sale, "ann", 2, key="key-ann"), 422, "KEY_REUSED")
    assert shop.win(tickets, "bob", purchase=shop.purchase_token(tickets, "bob"))


def test_a_sale_that_is_over_and_written_into_is_named_and_dropped(nodes):
    """By whoever meets it: a repair, or a node that starts. What it had not filed is."""
    redis = nodes.redis()
    harms = [(True, lambda key: redis.set(key("log"), "x")), (False, lambda key: redis.set(key("buyers"), "x")), (False, lambda key: redis.hset(key("state"), "counts", "x"))]
    for repairs, harm in harms:
        shop = Shop(server := nodes.start())
        sale = shop.sale(stock=5)["id"]
        shop.win(sale, "ann")
        assert shop.act(sale, "close").status == 200
        eventually(lambda sale=sale: redis.pttl(nodes.key(sale, "state")) > 0, 20)
        server.stop()
        harm(lambda name, sale=sale: nodes.key(sale, name))
        done = nodes.reconcile()
        assert done.code == 1 and f"sale {sale}: it is over, and what Redis has of it cannot be used: " in done.out, done
        if repairs:
            done = nodes.reconcile("--repair")
            assert done.code == 0 and "1 built anew or dropped" in done.out, done
        else:
            nodes.start()
        eventually(lambda sale=sale: not redis.keys(nodes.key(sale, "*")), 20)
        done = nodes.reconcile()
        assert done.code == 0 and "0 differ" in done.out, done


def test_of_two_tokens_of_a_buyer_the_last_is_good(nodes):
    """Redis lost the first, which the ledger has, and gave another."""
    shop = Shop(nodes.start())
    sale = shop.sale(stock=5, admission="token")["id"]
    tokens = []
    for i in (1, 2):
        tokens.append(shop.purchase_token(sale, "bob"))
        eventually(lambda i=i: len(nodes.ledger().rows("SELECT nonce FROM tokens WHERE spent = 0")) == i)
        nodes.redis().hdel(nodes.key(sale, "tokens"), "bob")
    nodes.own.restart()
    eventually(lambda: nodes.redis().hlen(nodes.key(sale, "tokens")) == 1 and nodes.ledger().sale(sale)["epoch"] > 1, 30)
    done = eventually(lambda: (got := nodes.reconcile()).code == 0 and got, 20)
    assert "1 sales compared, 0 differ" in done.out, done
    problem(eventually(lambda: (got := shop.grab(sale, "bob", purchase=tokens[0])).status != 503 and got, 20), 403, "TOKEN_INVALID")
    assert shop.win(sale, "bob", purchase=tokens[1])


def test_two_repairs_do_not_fight(nodes):
    """The second waits for the first, and finds nothing left to do."""
    shop = Shop(nodes.start())
    sale = shop.sale(stock=5)["id"]
    shop.win(sale, "ann")
    eventually(lambda: nodes.redis().xlen(nodes.key(sale, "log")) == 0)
    nodes.redis().hdel(nodes.key(sale, "buyers"), "ann")
    done = at_once(*[lambda: nodes.reconcile("--repair")] * 2)
    assert [one.code for one in done] == [0, 0], done
    assert sorted(one.out.splitlines()[-1].rpartition(", ")[2] for one in done) == ["0 built anew or dropped", "1 built anew or dropped"], done
    assert nodes.ledger().sale(sale)["epoch"] == 2 and not nodes.redis().exists(f"{PREFIX}lock:reconcile")


def test_a_sale_that_the_ledger_does_not_know_is_named(nodes):
    shop = Shop(nodes.start())
    shop.win(shop.sale(stock=1)["id"], "ann")
    nodes.redis().hset(nodes.key(4711, "state"), "terms", "x")
    done = nodes.reconcile()
    assert done.code == 1 and "differs: sale 4711: it is in Redis, and the ledger does not know it" in done.out, done
    done = nodes.reconcile("--repair")
    assert done.code == 0 and "1 built anew or dropped" in done.out, done
    assert not nodes.redis().exists(nodes.key(4711, "state"))
    assert nodes.reconcile().code == 0


def begun(nodes, sale):
    """A repair that waits for whoever has a lock of that sale, which the ledger does not know."""
    nodes.redis().hset(nodes.key(sale, "state"), "terms", "x")
    nodes.redis().set(f"{PREFIX}lock:sale:{sale}", "somebody", px=120_000)
    repair = Repair(nodes)
    eventually(lambda: nodes.redis().exists(f"{PREFIX}lock:reconcile") or not repair.is_alive())
    return repair


class Repair(threading.Thread):
    def __init__(self, nodes):
        super().__init__(daemon=True)
        self.nodes, self.done = nodes, None
        self.start()

    def run(self):
        self.done = self.nodes.reconcile("--repair")

    def ended(self):
        self.join(60)
        return self.done


def test_a_sale_that_somebody_may_be_making_is_not_dropped(nodes):
    """Whoever builds it has its lock."""
    nodes.start()
    done = begun(nodes, 4711).ended()
    assert done.code == 1 and "1 differ by 1 facts, 0 built anew or dropped" in done.out, done
    assert nodes.redis().exists(nodes.key(4711, "state"))
    repair = begun(nodes, 4711)
    nodes.redis().delete(f"{PREFIX}lock:sale:4711")
    done = repair.ended()
    assert done.code == 0 and "1 built anew or dropped" in done.out, done
    assert not nodes.redis().exists(nodes.key(4711, "state"))


def test_a_repair_whose_lock_is_gone_drops_nothing(nodes):
    nodes.start()
    repair = begun(nodes, 4711)
    nodes.redis().set(f"{PREFIX}lock:reconcile", "somebody else", px=120_000)
    done = repair.ended()
    assert done.code == 1 and nodes.redis().exists(nodes.key(4711, "state")), done
    assert nodes.redis().get(f"{PREFIX}lock:reconcile") == "somebody else"


def test_what_an_earlier_ledger_has_left_in_redis_is_told_at_the_start_and_sells_nothing(nodes):
    """The same id, the same epoch, the same server: still another sale."""
    shop = Shop(nodes.start())
    first, second = shop.sale(stock=3)["id"], shop.sale(stock=1)["id"]
    for buyer in ("ann", "bob", "cat"):
        shop.win(first, buyer)
    nodes.servers[0].stop()
    with Nodes(gate=nodes.gate) as anew:
        shop = Shop(server := anew.start())
        for left in (first, second):
            eventually(lambda left=left: f"sale {left} is in Redis under stampede:, and the ledger does not know it" in server.log())
        assert shop.sale(stock=10)["id"] == first
        shop.win(first, "ann")
        assert shop.counts(first) == (10, 9, 0, 1)
        problem(shop.grab(second, "ann"), 404, "NO_SUCH_SALE")
        done = anew.reconcile("--repair")
        assert done.code == 0 and f"differs: sale {second}: it is in Redis, and the ledger does not know it" in done.out, done
        assert anew.reconcile().code == 0


def test_a_log_that_came_back_with_an_earlier_day_is_no_difference(nodes):
    """The sale is over and the ledger has what the log tells; what it has not is told."""
    shop = Shop(nodes.start())
    sale, _, orders = busy_sales(nodes, shop)
    gate = nodes.redis()
    line = gate.hget(nodes.key(sale, "orders"), orders["ann"])
    assert shop.act(sale, "close").status == 200
    for name in ("ann", "cat", "dan"):
        assert shop.client.post(f"/v1/orders/{orders[name]}/cancel", {}, shop.buyer(name)).status == 200
    other = eventually(lambda: shop.listed(f"/v1/orders?sale={sale}&state=held", shop.seller_token))[0]
    assert shop.client.post(f"/v1/orders/{other['no']}/cancel", {}, shop.buyer("bob")).status == 200
    eventually(lambda: gate.pttl(nodes.key(sale, "state")) > 0, 20)
    fields = {"kind": "won", "epoch": 1, "at": 1, "no": orders["ann"], "nth": 1, "order": line}
    gate.xadd(nodes.key(sale, "log"), fields)
    done = nodes.reconcile()
    assert done.code == 0, done
    gate.xadd(nodes.key(sale, "log"), {**fields, "no": str(10 ** 15)})
    done = nodes.reconcile()
    assert done.code == 1 and f"sale {sale}: it is over, and 1 decisions in its log are not filed" in done.out, done


def test_what_is_under_way_is_no_difference(nodes):
    shop = Shop(nodes.start())
    sale = shop.sale(stock=100000)["id"]
    going, statuses = threading.Event(), []

    def buy():
        mine = Shop(nodes.servers[0])
        while not going.is_set():
            statuses.append(mine.grab(sale, f"buyer{len(statuses)}").status)
            assert statuses[-1] in (201, 503)  # of a machine that cannot keep up
        mine.close()

    with beside(buy, until=going):
        eventually(lambda: statuses.count(201) > 20)
        done = [nodes.reconcile() for _ in range(3)]
    assert all(one.code == 0 or "not all could be compared" in one.err for one in done), done


def test_a_gate_of_its_own_has_nothing_to_compare(nodes):
    nodes.gate = "local"
    done = nodes.reconcile()
    assert done.code == 2 and "gate is local" in done.err
