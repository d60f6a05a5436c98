"""Nodes, Redis and the database on machines of their own, between which packets are lost without a word (P1 to P4, P7; ack = ledger).

Whoever is cut off says so and nothing else; the others sell on; and once the network is whole again all is exact, and Redis and the ledger have the same."""

import contextlib
import threading
import time

import pytest
from harness import Closed, Shop, eventually, problem
from machines import NET, Island, Network
from mariadb import MariaDB
from nodes import Nodes
from redis_servers import RedisSentinels, RedisServer
from test_nodes import audited

DATABASE = NET + "2"
ANSWER_S_MAX = 20  # nobody waits longer than this, whatever is lost
CUT_S = 3


class World:
    def __init__(self, network, database):
        self.network, self.database = network, database

    def nodes(self, gate):
        return Nodes(gate=gate, database=self.database.database().replace("127.0.0.1", DATABASE))

    def node(self, nodes):
        """One more, on a machine of its own; (its address, the server)."""
        address = self.network.machine()
        server = nodes.make()
        server.host, server.prefix = address, [*self.network.inside[address]]
        return address, server.start()

    def redis(self, server, address=None):
        """On a machine of its own, or beside what is on one."""
        server.host = address or self.network.machine()
        server.prefix = [*self.network.inside[server.host]]
        server.settings["protected-mode"] = "no"
        return server


@contextlib.contextmanager
def make_world():
    with Network() as network, MariaDB("--bind-address=0.0.0.0") as database:
        network.address_of_island(DATABASE)
        yield World(network, database)


@pytest.fixture(scope="module")
def island():
    with Island(make_world) as made:
        yield made


class Buyers:
    """One who buys at a node, again and again, each time as another; what they were told."""

    def __init__(self, name, server, sale, pause_s=0.02):
        self.name, self.sale, self.pause_s = name, sale, pause_s
        self.shop = Shop(server)
        self.answers = {}  # buyer -> (when it came, the answer)
        self.slowest_s = 0.0
        self.going = threading.Event()
        self.thread = threading.Thread(target=self._buy)
        self.thread.start()

    def _buy(self):
        while not self.going.is_set():
            buyer = f"{self.name}-{len(self.answers)}"
            asked = time.monotonic()
            with contextlib.suppress(Closed):
                answer = self.shop.grab(self.sale, buyer, key="k-" + buyer)
                self.answers[buyer] = time.monotonic(), answer
            self.slowest_s = max(self.slowest_s, time.monotonic() - asked)
            time.sleep(self.pause_s)

    def end(self):
        self.going.set()
        self.thread.join(ANSWER_S_MAX + 10)
        assert not self.thread.is_alive() and self.slowest_s < ANSWER_S_MAX, f"{self.name}: {self.slowest_s:.1f} s for an answer"

    def of(self, *codes):
        return {buyer for buyer, (_, answer) in self.answers.items() if answer.code in codes}

    @property
    def won(self):
        return {buyer: answer.json()["order"]["no"] for buyer, (_, answer) in self.answers.items() if answer.status == 201}

    def check_refusals(self):
        """Clear ones: why, and when to come again."""
        for _, answer in self.answers.values():
            if answer.status != 201:
                problem(answer, 503, ("BUSY", "OUTCOME_UNKNOWN", "NOT_READY"))
                assert int(answer.headers["retry-after"]) >= 1, answer


def settle(shop, sale, buyers):
    """P7: who does not know the outcome asks again, at any node, and the second time hears the same; the orders of those who have won."""
    won = {}
    for buyer in sorted(buyers):
        answer = eventually(lambda buyer=buyer: (got := shop.grab(sale, buyer, key="k-" + buyer)).status != 503 and got, 30)
        again = shop.grab(sale, buyer, key="k-" + buyer)
        if answer.status == 201:
            won[buyer] = answer.json()["order"]["no"]
            assert again.json()["order"]["no"] == won[buyer]
        else:
            problem(answer, 409, "SOLD_OUT")
    return won


def check_whole(nodes, shops, sale, told):
    """What was told is what there is, in the ledger and in Redis, as every node says."""
    rows = {row["buyer"]: str(row["no"]) for row in nodes.ledger().orders(sale)}
    assert rows == told, (rows.keys() - told.keys(), told.keys() - rows.keys())
    offered = nodes.ledger().sale(sale)["offered"]
    counts = (offered, offered - len(told), 0, len(told))
    for shop in shops:
        eventually(lambda shop=shop: shop.counts(sale) == counts, 20)
    done = eventually(lambda: (got := nodes.reconcile()).code == 0 and got, 20)
    assert "0 differ" in done.out, done
    audited(nodes)


CUTS = {  # what is lost between a node, Redis and the database
    "no-redis": lambda net, node, redis: net.cut([node], [redis]),
    "deaf-to-redis": lambda net, node, redis: net.lose(redis, node),
    "no-database": lambda net, node, redis: net.cut([node], [DATABASE]),
    "deaf-to-database": lambda net, node, redis: net.lose(DATABASE, node),
    "neither": lambda net, node, redis: net.cut([node], [redis, DATABASE]),
}


def cut_off(world):
    with world.redis(RedisServer()) as redis, world.nodes(redis.url) as nodes:
        places = {name: world.node(nodes) for name in [*CUTS, "whole"]}
        shops = {name: Shop(server) for name, (_, server) in places.items()}
        sale = shops["whole"].sale(stock=5000)["id"]
        gone = shops["whole"].sale(stock=1, pay_within_s=600)["id"]
        stopped = shops["whole"].sale(stock=1)["id"]
        last = shops["whole"].win(gone, "ann")
        for name, shop in shops.items():
            for i in range(10):
                problem(shop.grab(gone, f"{name}-{i}"), 409, "SOLD_OUT")
        told = {f"before-{name}": shop.win(sale, f"before-{name}", key=f"k-before-{name}")["no"] for name, shop in shops.items()}

        for name, cut in CUTS.items():
            cut(world.network, places[name][0], redis.host)
        buyers = {name: Buyers(name, server, sale) for name, (_, server) in places.items()}
        assert shops["whole"].client.post(f"/v1/orders/{last['no']}/cancel", None, shops["whole"].buyer("ann")).status == 200
        assert shops["no-redis"].act(stopped, "pause", token=shops["whole"].seller_token).status == 200, "the ledger has it, and Redis hears of it from another node"
        time.sleep(CUT_S)
        eventually(lambda: shops["whole"].grab(stopped, "bob").code == "PAUSED")
        for name in ("no-redis", "deaf-to-redis", "neither"):  # it was sold out when these heard of it last, and is not any more
            problem(shops[name].grab(gone, "bob"), 503)
        for one in buyers.values():
            one.end()
        world.network.heal()

        for name in CUTS:
            assert buyers[name].answers and not buyers[name].won, f"{name} sold something"
            buyers[name].check_refusals()
        assert len(buyers["whole"].won) == len(buyers["whole"].answers) > 20, "the others have nothing to do with it"
        for one in buyers.values():
            told.update(one.won)
        for name, shop in shops.items():
            answer = eventually(lambda shop=shop, name=name: (got := shop.grab(sale, "after-" + name, key="k-after-" + name)).status == 201 and got, 30, 0.2)
            told["after-" + name] = answer.json()["order"]["no"]
        for name in CUTS:
            told.update(settle(shops["no-redis"], sale, buyers[name].of("OUTCOME_UNKNOWN")))
        check_whole(nodes, shops.values(), sale, told)
        eventually(lambda: {shop.counts(gone) for shop in shops.values()} <= {(1, 1, 0, 0), (1, 0, 1, 0)})


def split(world):
    """The old master, one of three Sentinels and a node on one side, all others on the other; the database sees both."""
    with contextlib.ExitStack() as stack:
        sentinels = RedisSentinels(replicas=1)
        for server in sentinels.data:
            world.redis(server)
        for server, beside in zip(sentinels.sentinels, [*sentinels.data, None]):
            world.redis(server, beside and beside.host)
        stack.enter_context(sentinels)
        nodes = stack.enter_context(world.nodes(sentinels.url))
        (left, one), (right, two) = world.node(nodes), world.node(nodes)
        old, shops = sentinels.data[0], [Shop(one), Shop(two)]
        sale = shops[0].sale(stock=200)["id"]
        told = {f"before-{i}": shops[i % 2].win(sale, f"before-{i}", key=f"k-before-{i}")["no"] for i in range(6)}

        buyers = [Buyers("left", one, sale, 0.05), Buyers("right", two, sale, 0.05)]
        world.network.cut([old.host, left], [server.host for server in sentinels.servers if server.host != old.host] + [right])
        sentinels.wait_other_master(old)
        promoted = time.monotonic()
        time.sleep(CUT_S)
        assert old.role() == "master", "two masters at once"
        world.network.heal()
        healed = time.monotonic()
        time.sleep(CUT_S)
        for side in buyers:
            side.end()
            told.update(side.won)
        assert any(promoted < at < healed and answer.status == 201 for at, answer in buyers[1].answers.values()), "the side with the new master sells on"
        for shop in shops:
            eventually(lambda shop=shop: shop.grab(sale, "before-0").code == "ALREADY_WON", 30, 0.2)
        for side in buyers:
            told.update(settle(shops[0], sale, side.of("OUTCOME_UNKNOWN")))
        assert len(told) <= 200
        for i in range(200 - len(told)):
            told[f"last-{i}"] = shops[i % 2].win(sale, f"last-{i}")["no"]
        problem(shops[1].grab(sale, "too-late"), 409, "SOLD_OUT")
        check_whole(nodes, shops, sale, told)


def test_who_is_cut_off_says_so_and_the_others_sell_on(island):
    island.play(cut_off)


def test_two_masters_at_once_sell_nothing_twice(island):
    island.play(split)
