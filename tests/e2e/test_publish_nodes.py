"""The operator's queue and nodes: the one that publishes dies, some publish and some do not, or only some reach the broker."""

import collections
import itertools
import signal
import threading

import pytest
from brokers import BROKERS, Redis, wait_for
from harness import ServerDied, Shop, beside, eventually
from nodes import Nodes
from ports import free_port
from receiver import CALM, metric


@pytest.fixture
def broker():
    with Redis() as one:
        yield one


@pytest.fixture
def nodes():
    with Nodes(*CALM) as made:
        yield made


@pytest.fixture(params=BROKERS)
def each_broker(request):
    return request.getfixturevalue(BROKERS[request.param])


def state(nodes):
    """Whether events are published, as the ledger has it: 1 on, 0 off."""
    return nodes.ledger().rows("SELECT state FROM publishing")[0]["state"]


def more(told, count):
    """Waits until so many have been added."""
    enough = len(told) + count
    eventually(lambda: len(told) >= enough)


def test_every_event_of_every_order_arrives_also_when_the_node_that_publishes_is_killed(each_broker, nodes):
    """At every broker: it dies, and the broker with what it was sent last, while buyers win at the other, which publishes on, and give
    some of it back. What came twice says the same."""
    nodes.flags += ["--publish", each_broker.url]
    secret = {"STAMPEDE_PUBLISH_PASSWORD": each_broker.password} if getattr(each_broker, "password", None) else {}
    around = nodes.environment()
    nodes.environment = lambda: around | secret
    servers = [nodes.start() for _ in range(2)]
    owner = eventually(lambda: [server for server in servers if metric(server, "stampede_owns_publisher")])[0]
    shop = Shop(next(server for server in servers if server is not owner))
    sale, dying = shop.sale(stock=10000, pay_within_s=3600)["id"], Shop(owner, shop.seller)
    for i in range(20):
        dying.win(sale, f"early{i}")
    over, told = threading.Event(), []

    def buy():
        mine = Shop(shop.server, shop.seller)
        for i in itertools.count():
            if over.is_set():
                break
            order = mine.win(sale, f"buyer{i}")["no"]
            told.append(order)
            if i % 5 == 0:
                assert mine.client.post(f"/v1/orders/{order}/cancel", None, mine.buyer(f"buyer{i}")).status == 200
    with beside(buy, until=over):
        eventually(lambda: metric(owner, "stampede_published_total") >= 30)
        each_broker.process.send_signal(signal.SIGSTOP)
        try:
            more(told, 50)  # some of which it has been sent, and never reads
            owner.kill()
        finally:
            each_broker.down()
            each_broker.process.send_signal(signal.SIGCONT)  # Kafka's goes on, and forgets nothing
            each_broker.up()
        more(told, 50)
    orders = {str(row["no"]): row["ended_ms"] > 0 for row in nodes.ledger().orders(sale)}
    assert {*told} <= {*orders}
    heard = collections.defaultdict(list)
    for event in wait_for(each_broker, len(orders) + sum(orders.values())):
        assert event.data["order"] == event.key and event.data["sale"] == sale
        heard[event.key].append(event.type)
    assert heard == {no: ["order.won"] + ["order.cancelled"] * ended for no, ended in orders.items()}
    assert metric(shop.server, "stampede_owns_publisher") == 1


def test_a_node_that_never_came_up_changes_nothing_for_those_that_publish(broker, nodes):
    one = nodes.start("--publish", broker.url)
    shop = Shop(one)
    sale = shop.sale(stock=50)["id"]
    shop.win(sale, "ann")
    two = nodes.make()
    nodes.servers.remove(two)
    two.port_wanted = one.port
    with pytest.raises(ServerDied):
        two.start()
    assert state(nodes) == 1
    shop.win(sale, "bob")
    wait_for(broker, 2)


def test_events_are_published_while_one_node_does(broker, nodes):
    one = nodes.start("--publish", broker.url)
    two = nodes.start()
    shop = Shop(two)
    sale = shop.sale(stock=500)["id"]
    for i in range(100):
        shop.win(sale, f"buyer{i}")
    eventually(lambda: "another publishes" in two.log(), 40)
    assert "a node was started without publish; this one publishes on: give" in one.log() and state(nodes) == 1
    wait_for(broker, 100)
    one.stop()
    shop.close()
    two.restart()
    eventually(lambda: state(nodes) == 0, 40)
    Shop(two).win(sale, "late")
    wait_for(broker, 100)
    assert "no node that runs has publish" in two.log() and not nodes.ledger().rows("SELECT id FROM publications")


def test_a_node_that_does_not_reach_the_broker_leaves_the_job_to_one_that_does(broker, nodes):
    cut = nodes.start("--publish", f"redis://127.0.0.1:{free_port()}/{broker.stream}")
    eventually(lambda: metric(cut, "stampede_owns_publisher") == 1)
    well = nodes.start("--publish", broker.url)
    shop = Shop(cut)
    sale = shop.sale(stock=50)["id"]
    for i in range(10):
        shop.win(sale, f"buyer{i}")
    wait_for(broker, 10, 40)
    assert metric(well, "stampede_owns_publisher") == 1 and metric(cut, "stampede_publish_failing") == 1
    assert metric(well, "stampede_publish_failing") == metric(cut, "stampede_owns_publisher") == 0


def test_a_broker_that_is_back_hears_of_everything_from_whichever_node_reaches_it(broker, nodes):
    """None has the job while none reaches it."""
    servers = [nodes.start("--publish", broker.url) for _ in range(2)]
    shop = Shop(servers[0])
    sale = shop.sale(stock=50)["id"]
    shop.win(sale, "first")
    wait_for(broker, 1)
    owners = lambda: sum(metric(server, "stampede_owns_publisher") for server in servers)
    broker.down()
    for i in range(10):
        shop.win(sale, f"buyer{i}")
    eventually(lambda: owners() == 0, 60)
    broker.up()
    wait_for(broker, 11, 40)
    assert owners() == 1
    eventually(lambda: not any(metric(server, "stampede_publish_failing") for server in servers), 40)
