"""Jobs that one node does for all: webhooks, the operator's queue, and putting sales into Redis before they open."""

import pytest
from harness import Shop, eventually, time_text, unhurried
from nodes import PREFIX, Nodes
from receiver import CALM, Receiver, arrived, hook, metric, settled

LOCK_S = 6
STREAM = "merchant"


@pytest.fixture
def nodes():
    with Nodes(*CALM) as made:
        made.flags += ["--publish", f"redis://127.0.0.1:{made.own.port}/{STREAM}"]
        yield made


def owner_of(nodes, job):
    """The number of the node that has it."""
    return eventually(lambda: nodes.redis().get(f"{PREFIX}lock:{job}"), 20).split()[1]


def published(nodes):
    """How often each event has been published."""
    ids = [fields["id"] for _, fields in nodes.redis().xrange(STREAM)]
    return {one: ids.count(one) for one in ids}


def once(nodes):
    """Or again, where a machine that stood still kept the publisher from hearing that it was."""
    return set(published(nodes).values()) == {1} or any("nothing is published for now" in server.log() or "did not answer" in server.log() for server in nodes.servers)


def test_a_message_is_sent_by_one_node_and_by_another_after_its_end(nodes):
    one, two = nodes.start("--node", "1"), nodes.start("--node", "2")
    shop, other = Shop(one), Shop(two)
    with Receiver(lambda message, tries: "slow") as receiver:
        secret = hook(shop, receiver.url())["secret"]

        def opens(in_s):
            assert shop.client.post("/v1/events", {"name": "soon", "opens_at": time_text(in_s)}, shop.seller_token).status == 201
        unhurried(opens)
        sale = shop.sale(stock=100)["id"]
        for i in range(20):
            (shop, other)[i % 2].win(sale, f"early{i}")
        arrived(receiver, 21)
        settled(shop)
        eventually(lambda: len(published(nodes)) == 20)
        assert sorted(receiver.types()) == ["event.opened"] + 20 * ["order.won"]
        assert set(receiver.counts.values()) == {1} and once(nodes)
        for message in receiver.taken:
            message.check(secret)
        jobs = {job: owner_of(nodes, job) for job in ("courier", "publisher")}
        for server, number in ((one, "1"), (two, "2")):
            assert {job: metric(server, f"stampede_owns_{job}") for job in jobs} == {job: int(jobs[job] == number) for job in jobs}

        dead, alive, last = (one, two, other) if jobs["courier"] == "1" else (two, one, shop)
        dead.kill()
        for i in range(20):
            last.win(sale, f"late{i}")
        arrived(receiver, 41, LOCK_S + 20)
        eventually(lambda: len(published(nodes)) == 40, LOCK_S + 20)
        eventually(lambda: metric(alive, "stampede_owns_courier") == metric(alive, "stampede_owns_publisher") == 1)
        assert receiver.types().count("order.won") == 40
        assert set(receiver.counts.values()) == {1} and once(nodes)


def test_a_sale_is_warmed_up_by_the_node_that_has_the_job(nodes):
    nodes.flags += ["--warm-before-s", "60"]
    nodes.redis().set(f"{PREFIX}lock:warm", "somebody else", px=60000)
    server = nodes.start()
    shop = Shop(server)
    soon, sooner = (shop.sale(stock=3, opens_at=time_text(40))["id"] for _ in range(2))
    for sale in (soon, sooner):
        eventually(lambda sale=sale: nodes.redis().exists(nodes.key(sale, "state")))  # once it is made, somebody may ask for it
        nodes.redis().delete(nodes.key(sale, "state"))
    assert shop.act(sooner, "warm").status == 200  # whoever is asked for it does it
    rounds = lambda: nodes.redis().info("commandstats")["cmdstat_set"]["calls"]
    before = rounds()
    eventually(lambda: rounds() > before + 2)  # it has asked for the lock after each look at all sales
    assert nodes.redis().exists(nodes.key(sooner, "state")) and not nodes.redis().exists(nodes.key(soon, "state"))
    nodes.redis().delete(f"{PREFIX}lock:warm")
    eventually(lambda: nodes.redis().exists(nodes.key(soon, "state")), 20)
    assert metric(server, "stampede_owns_warm") == 1
