"""Nodes, Redis and the database on machines of their own, between which packets are lost without a word (P1 to P4, P7; ack = ledger).

Whoever is cut off says so and nothing else; the others sell on; and once the network is whole again all is exact, and Redis and the ledger have the same."""

import contextlib
import time

import pytest
from buyers import Buyers, check_whole, settle
from databases import Database
from harness import Shop, eventually, problem
from machines import NET, Island, Network
from nodes import Nodes
from redis_servers import RedisSentinels, RedisServer

DATABASE = NET + "2"
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
    with Network() as network, Database("--bind-address=0.0.0.0") as database:
        network.address_of_island(DATABASE)
        yield World(network, database)


@pytest.fixture(scope="module")
def island():
    with Island(make_world) as made:
        yield made


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
        slow = buyers["whole"].of("BUSY", "OUTCOME_UNKNOWN")  # of a machine that stood still for a moment
        assert len(buyers["whole"].won) == len(buyers["whole"].answers) - len(slow) > 20 and len(slow) < len(buyers["whole"].won), "the others have nothing to do with it"
        for one in buyers.values():
            told.update(one.won)
        for name, shop in shops.items():
            answer = eventually(lambda shop=shop, name=name: (got := shop.grab(sale, "after-" + name, key="k-after-" + name)).status == 201 and got, 30, 0.2)
            told["after-" + name] = answer.json()["order"]["no"]
        for name in buyers:
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
