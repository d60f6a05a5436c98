"""Masters of Redis that change on purpose while a sale goes on: slots that move, replicas that take over (P1 to P4, P7; ack = ledger).

The new master has all that the old one had, and another lineage: the sale is built anew, and buyers see no more of it than a moment's wait.
One that was a replica for a moment has the same run id, and may have the data of another that was behind."""

import contextlib
import re
import signal
import time

import pytest
from buyers import Buyers, check_whole, settle
from harness import Shop, eventually
from nodes import PREFIX, Nodes
from redis_servers import RedisCluster, RedisSentinels, RedisServer, wait_until
from resp import Peer

STOCK = 1000


@pytest.fixture(scope="module")
def cluster():
    with RedisCluster() as servers, Nodes(gate=servers.url) as nodes:
        nodes.start()
        nodes.start()
        yield servers, nodes


@contextlib.contextmanager
def crowd_over(nodes, sale):
    """Buyers at every node while this lasts; then all is exact, and some have won after it as well."""
    sides = [Buyers(f"side{i}", server, sale) for i, server in enumerate(nodes.servers)]
    shops = [Shop(server) for server in nodes.servers]
    time.sleep(0.3)
    yield
    changed = time.monotonic()
    try:
        wait_until("wins after it", lambda: all(any(at > changed and answer.status == 201 for at, answer in [*side.answers.values()]) for side in sides), 30)
    finally:
        for side in sides:
            side.end()
    told = {}
    for side in sides:
        side.check_refusals()
        told.update(side.won)
        told.update(settle(shops[0], sale, side.of("OUTCOME_UNKNOWN")))
    check_whole(nodes, shops, sale, told)


def test_sales_of_all_masters_sell_side_by_side(cluster):
    servers, nodes = cluster
    shops = [Shop(server) for server in nodes.servers]
    sales = [shops[i % 2].sale(stock=3)["id"] for i in range(12)]
    assert len({servers.slot_of(nodes.key(sale, "state")) * 3 // 16384 for sale in sales}) == 3, "each master has some"
    for sale in sales:
        told = {f"b{i}": shops[i % 2].win(sale, f"b{i}")["no"] for i in range(3)}
        assert shops[0].grab(sale, "late").code == shops[1].grab(sale, "late").code == "SOLD_OUT"
        assert {row["buyer"]: str(row["no"]) for row in nodes.ledger().orders(sale)} == told


def test_grabs_that_come_together_are_confirmed_by_the_replicas_of_their_own_master(cluster):
    servers, nodes = cluster
    server = nodes.start("--ack", "replica", "--replica-ms", "5000", "--reactors", "1")
    try:
        sales = [Shop(server).sale(stock=100)["id"] for _ in range(6)]
        assert len({servers.slot_of(nodes.key(sale, "state")) * 3 // 16384 for sale in sales}) == 3, "each master has some"
        with Peer(server) as peer:
            for turn in range(3):
                got = peer.grabs_of([(sale, f"{turn}-{i}") for i in range(30) for sale in sales])
                assert {word for word, _ in got} == {"WON"}, got
    finally:
        nodes.servers.remove(server)
        server.close()


def test_a_slot_that_moves_in_mid_sale(cluster):
    servers, nodes = cluster
    sale = Shop(nodes.servers[0]).sale(stock=STOCK)["id"]
    key = nodes.key(sale, "state")
    old = servers.master_of(key)
    new = next(server for server in servers.masters() if server is not old)
    with crowd_over(nodes, sale):
        servers.move(key, new)
    assert servers.master_of(key) is new and nodes.ledger().sale(sale)["epoch"] > 1


def test_a_replica_of_a_cluster_that_takes_over_in_mid_sale(cluster):
    servers, nodes = cluster
    sale = Shop(nodes.servers[0]).sale(stock=STOCK)["id"]
    old = servers.master_of(nodes.key(sale, "state"))
    replica = next(server for server in servers.servers if server.client().info("replication").get("master_port") == old.port)
    with crowd_over(nodes, sale):
        replica.client().execute_command("CLUSTER", "FAILOVER")
        wait_until("the replica is the master", lambda: replica.role() == "master" and old.role() == "slave")
    assert nodes.ledger().sale(sale)["epoch"] > 1


def said(server):
    """What the keeper of a node has told of Redis, so far."""
    return re.findall(r'"(Redis does not answer|Redis answers again)"', server.log_path.read_text())


def test_a_master_that_is_gone_keeps_no_units_of_other_sales():
    """It has no replica. More waits to be told to it than a node tells at a time, and was there first."""
    with RedisCluster(replicas=0, cluster_require_full_coverage="no") as servers, Nodes(gate=servers.url) as nodes:
        shop = Shop(nodes.start())
        job = servers.master_of(f"{PREFIX}lock:expiry")
        sales = [shop.sale(stock=5, pay_within_s=1)["id"] for _ in range(12)]
        masters = {sale: servers.master_of(nodes.key(sale, "state")) for sale in sales}
        lost = next(sale for sale in sales if masters[sale] is not job)
        other = next(sale for sale in sales if masters[sale] is not masters[lost])
        masters[lost].kill()
        eventually(lambda: shop.client.get(f"/v1/sales/{lost}") and said(nodes.servers[0])[-1:] == ["Redis does not answer"])
        told = len(said(nodes.servers[0]))
        waiting = [(5, int(lost), 1, 0, 0, 1)] * 600  # changes of the sale
        assert nodes.ledger().change("INSERT INTO errands (kind, sale, epoch, order_no, units, made_ms) VALUES (?, ?, ?, ?, ?, ?)", *waiting) == 600
        assert shop.win(other, "ann")["state"] == "held"
        eventually(lambda: shop.client.get(f"/v1/sales/{lost}") and nodes.ledger().sale(other)["orders_expired"] == 1 and shop.counts(other) == (5, 5, 0, 0), 30)
        eventually(lambda: len(nodes.ledger().rows("SELECT id FROM errands")) == 600)  # its own errand is struck a moment after it was run
        assert said(nodes.servers[0])[told:] == [], "one master is away all the time, and the others answer"
        masters[lost].start()
        eventually(lambda: said(nodes.servers[0])[-1] == "Redis answers again", 30)
        eventually(lambda: not nodes.ledger().rows("SELECT id FROM errands"), 30)
        eventually(lambda: shop.grab(lost, "ann").status == 201, 30)


def test_a_master_under_sentinels_that_gives_way_and_comes_back():
    with RedisSentinels(replicas=1) as servers, Nodes(gate=servers.url) as nodes:
        nodes.start()
        nodes.start()
        sale = Shop(nodes.servers[0]).sale(stock=2 * STOCK)["id"]
        first = servers.master()
        for sentinel in servers.sentinels:  # twice this long they refuse another
            sentinel.client().execute_command("SENTINEL", "SET", servers.NAME, "failover-timeout", "1000")
        with crowd_over(nodes, sale):
            for old in (first, next(server for server in servers.data if server is not first)):
                def asked():
                    """A Sentinel refuses while it does not know of a replica that is fit, or of the last failover's end."""
                    return servers.sentinels[0].client().execute_command("SENTINEL", "FAILOVER", servers.NAME)
                wait_until("a failover", asked)
                new = servers.wait_other_master(old)
                old.client().execute_command("REPLICAOF", new.host, new.port)  # as the Sentinels would tell it 8 s later
        assert servers.master() is first and nodes.ledger().sale(sale)["epoch"] > 2


def follow(server, other):
    """It has all that the other has, and nothing else."""
    server.client().execute_command("REPLICAOF", other.host, other.port)
    wait_until("a replica that is whole", lambda: server.client().info("replication")["master_link_status"] == "up")


def lead(server):
    server.client().execute_command("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize("seen", [True, False])
def test_a_master_that_took_over_old_data_as_a_replica_sells_by_the_ledger(seen):
    """The other was cut off before ann cancelled; its data have her order still. Nodes that stand still meanwhile see nothing of it: their
    connections stand, and the server that answers them is a master with the same run id as ever."""
    with RedisServer() as other, Nodes() as nodes:
        follow(other, nodes.own)
        shop = Shop(nodes.start())
        nodes.start()
        sale = shop.sale(stock=1, pay_within_s=600)["id"]
        order = shop.win(sale, "ann")["no"]
        assert nodes.redis().wait(1, 5000) == 1
        lead(other)
        assert shop.client.post(f"/v1/orders/{order}/cancel", None, shop.buyer("ann")).status == 200
        eventually(lambda: shop.counts(sale) == (1, 1, 0, 0))
        eventually(lambda: not nodes.ledger().rows("SELECT id FROM errands"))
        run_id, lineage, epoch = nodes.own.run_id(), nodes.own.lineage(), nodes.ledger().sale(sale)["epoch"]
        for server in nodes.servers if not seen else []:
            server.process.send_signal(signal.SIGSTOP)
        follow(nodes.own, other)
        lead(nodes.own)
        for server in nodes.servers if not seen else []:
            server.process.send_signal(signal.SIGCONT)
        assert nodes.own.run_id() == run_id and nodes.own.lineage() != lineage
        eventually(lambda: shop.grab(sale, "bob").code in (None, "ALREADY_WON"), 20)
        assert [row["buyer"].split(":")[-1] for row in nodes.ledger().orders(sale) if row["state"] in (0, 1)] == ["bob"]
        assert nodes.ledger().sale(sale)["epoch"] > epoch and shop.counts(sale)[:2] == (1, 0)


def test_a_first_replica_that_comes_in_mid_sale():
    """The master has another replication id since, and the same data: they are built anew once, and nothing that was won meanwhile is lost."""
    with RedisServer() as replica, Nodes() as nodes:
        nodes.start()
        nodes.start()
        sale = Shop(nodes.servers[0]).sale(stock=STOCK)["id"]
        lineage = nodes.own.lineage()
        with crowd_over(nodes, sale):
            follow(replica, nodes.own)
            assert nodes.own.lineage() != lineage
        epoch = nodes.ledger().sale(sale)["epoch"]
        assert epoch > 1
        time.sleep(3)
        assert nodes.ledger().sale(sale)["epoch"] == epoch
