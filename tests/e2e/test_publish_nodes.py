"""The operator's queue and nodes that do not agree: some publish and some do not, or only some reach the broker."""

import pytest
from brokers import Redis, wait_for
from harness import ServerDied, Shop, eventually
from nodes import Nodes
from receiver import CALM


@pytest.fixture
def broker():
    with Redis() as one:
        yield one


@pytest.fixture
def nodes():
    with Nodes(*CALM) as made:
        yield made


def state(nodes):
    """Whether events are published, as the ledger has it: 1 on, 0 off."""
    return nodes.ledger().rows("SELECT state FROM publishing")[0]["state"]


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
