"""What nodes share besides the sale: how much one user and one address may ask for on all of them together. Nobody waits for Redis for it."""

import collections
import re
import threading
import time

import pytest
from harness import eventually
from nodes import PREFIX, Nodes
from redis_servers import RedisCluster
from wire import request_bytes

PER_S, BURST = 20, 40
LIMITS = f"user_query_per_s={PER_S},user_query_burst={BURST},ip_query_per_s={PER_S},ip_query_burst={BURST}"


def metric(server, name):
    with server.connect() as client:
        # From an address of its own: those of the tests have used up what they may ask.
        return int(re.search(rf"^{name} (\d+)$", client.get("/metrics", headers={"X-Forwarded-For": "198.51.100.99"}).body.decode(), re.M).group(1))


def know_each_other(servers):
    for server in servers:
        eventually(lambda server=server: metric(server, "stampede_nodes") == len(servers))
    time.sleep(0.3)  # the guard looks at that some times a second


def hammer(servers, seconds, request):
    """Asks every node ten times as often as it may; how often each let it through, and how long it took. Not so fast that a burst is spent before nodes of a
    machine that has other things to do have heard of each other: that is for the unit tests, which have their own clock."""
    passed, statuses, began = [0] * len(servers), collections.Counter(), time.monotonic()

    def side(n):
        with servers[n].connect() as client:
            while time.monotonic() < began + seconds:
                client.send(request)
                answer = client.receive()
                passed[n] += answer.status != 429
                statuses[answer.status] += 1
                time.sleep(0.1 / PER_S)
    threads = [threading.Thread(target=side, args=(n,)) for n in range(len(servers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return passed, time.monotonic() - began, statuses


def as_user(server, name):
    """Reads their orders, from ever other addresses."""
    return request_bytes("GET", "/v1/orders?limit=1", None, server.token(name), headers={"X-Forwarded-For": f"203.0.{len(name)}.{hash(name) % 250}"})


def as_address(address):
    """Asks for what is not there: that counts, too."""
    return request_bytes("GET", "/v1/nothing", headers={"X-Forwarded-For": address})


@pytest.fixture(scope="module")
def three():
    with Nodes("--limits", LIMITS, "--proxies", "127.0.0.1") as nodes:
        servers = [nodes.start() for _ in range(3)]
        know_each_other(servers)
        yield nodes


def test_one_user_and_one_address_get_what_they_may_of_all_nodes_together(three):
    """At once, so that neither is helped by the other: the user comes from addresses of their own."""
    servers, results = three.servers, {}
    limits = (BURST, PER_S)
    sides = {"user": as_user(servers[0], "ann"), "address": as_address("192.0.2.1")}
    threads = [threading.Thread(target=lambda who=who: results.update({who: hammer(servers, 3, sides[who])})) for who in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for who, (passed, seconds, statuses) in results.items():
        limit = limits[0] + limits[1] * seconds
        assert set(statuses) <= {200, 404, 429}, (who, statuses)
        # Three nodes by themselves would let through three times the limit. An eighth they keep to themselves; the rest is for a slow machine.
        assert 0.7 * limit <= sum(passed) <= 1.4 * limit, (who, passed, limit)
    assert all(metric(server, "stampede_limits_told") > 0 and metric(server, "stampede_limits_shared") == 1 for server in servers)
    names = [member for key in three.redis().keys(f"{PREFIX}{{limits:*") for member in three.redis().zrange(key, 0, -1)]
    assert len(names) <= 4 and all(re.fullmatch("[0-9a-f]{16}", name) for name in names), "hashes of who was at their limit, and nobody else"


def test_who_asks_a_little_is_told_to_nobody(three):
    before = sum(metric(server, "stampede_limits_told") for server in three.servers)
    for i in range(60):
        server = three.servers[i % 3]
        with server.connect() as client:
            assert client.get("/v1/orders", server.token(f"calm{i}"), headers={"X-Forwarded-For": f"192.0.2.{50 + i}"}).status == 200
    assert sum(metric(server, "stampede_limits_told") for server in three.servers) == before


def test_without_redis_each_node_holds_its_own_limits_and_answers(three):
    servers = three.servers
    request = as_address("192.0.2.2")
    three.own.pause()
    try:
        hammer(servers, 0.5, as_address("192.0.2.3"))
        eventually(lambda: all(metric(server, "stampede_limits_shared") == 0 for server in servers))
        passed, seconds, statuses = hammer(servers, 2, request)
        limit = BURST + PER_S * seconds
        assert set(statuses) == {404, 429}
        for by_node in passed:
            assert 0.7 * limit <= by_node <= 1.1 * limit, (passed, limit)
        with servers[0].connect() as client:
            def told():
                answer = client.get("/readyz")
                return answer.status == 503 or "on this node alone" in answer.json().get("detail", "")
            eventually(told)
    finally:
        three.own.resume()
    eventually(lambda: all(metric(server, "stampede_limits_shared") == 1 for server in servers), 20)
    with servers[0].connect() as client:
        eventually(lambda: client.get("/readyz").json() == {"status": "ready"}, 20)
    know_each_other(servers)
    passed, seconds, _ = hammer(servers, 2, as_address("192.0.2.4"))
    assert sum(passed) <= 1.4 * (BURST + PER_S * seconds), passed


def test_in_a_cluster_limits_are_shared_too():
    with RedisCluster(replicas=0) as cluster, Nodes("--limits", LIMITS, "--proxies", "127.0.0.1", gate=cluster.url) as nodes:
        servers = [nodes.start(), nodes.start()]
        know_each_other(servers)
        # Addresses of several groups, and so of several masters.
        passed, limit = [], 0
        for i in range(3):
            by_node, seconds, _ = hammer(servers, 0.7, as_address(f"192.0.2.{i}"))
            passed, limit = passed + by_node, limit + BURST + PER_S * seconds
        assert sum(passed) <= 1.5 * limit, (passed, limit)
        assert sum(metric(server, "stampede_limits_untold") for server in servers) == 0
        assert sum(server.client().dbsize() > 0 for server in cluster.servers) > 1
