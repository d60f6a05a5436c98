"""What nodes share besides the sale: how much one user and one address may ask for on all of them together, and, where an operator wants it, how much of a sale
each asks Redis for at once. Neither makes anybody wait for Redis, and neither leaves anything unsold."""

import collections
import re
import time

import pytest
from harness import STOOD_STILL, Shop, at_once, eventually
from nodes import PREFIX, Nodes
from redis_servers import RedisCluster
from resp import Peer
from wire import crowd, crowd_again, request_bytes

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
    """Asks every node ten times as often as it may; how often each let it through, how often it was asked, how long it took, what was answered, and the slowest
    answer. Not so fast that a burst is spent before nodes of a machine that has other things to do have heard of each other: that is for the unit tests, which
    have their own clock."""
    passed, asked, slowest, statuses = [0] * len(servers), [0] * len(servers), [0.0] * len(servers), collections.Counter()
    began = time.monotonic()

    def side(n):
        with servers[n].connect() as client:
            while time.monotonic() < began + seconds:
                sent = time.monotonic()
                client.send(request)
                answer = client.receive()
                slowest[n] = max(slowest[n], time.monotonic() - sent)
                asked[n] += 1
                passed[n] += answer.status != 429
                statuses[answer.status] += 1
                time.sleep(0.1 / PER_S)
    at_once(*(lambda n=n: side(n) for n in range(len(servers))))
    return passed, asked, time.monotonic() - began, statuses, max(slowest)


def undisturbed(servers, bounds):
    """Calls bounds(0), which gives whether what passed is within its bounds, and the slowest answer; with the next number where it is not, and the machine stood
    still meanwhile, which lets more through or less. How often it was called."""
    for number in range(5):
        before = sum(metric(server, "stampede_limits_untold") for server in servers)
        kept, slowest, what = bounds(number)
        untold = sum(metric(server, "stampede_limits_untold") for server in servers) - before
        if kept or not (slowest > 0.5 or untold or any(STOOD_STILL.search(server.log()) for server in servers)):
            break
    assert kept, what
    return number + 1


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
    servers = three.servers

    def bounds(number):
        sides = {"user": as_user(servers[0], f"ann{number}"), "address": as_address(f"192.0.2.{10 + number}")}
        results = dict(zip(sides, at_once(*(lambda request=request: hammer(servers, 3, request) for request in sides.values()))))
        kept = True
        for passed, asked, seconds, statuses, _ in results.values():
            limit = BURST + PER_S * seconds
            # Three nodes by themselves would let through three times the limit. An eighth they keep to themselves; the rest is for a slow machine.
            kept = kept and set(statuses) <= {200, 404, 429} and 0.7 * min(limit, sum(asked)) <= sum(passed) <= 1.4 * limit
        return kept, max(slowest for *_, slowest in results.values()), results
    tries = undisturbed(servers, bounds)
    assert all(metric(server, "stampede_limits_told") > 0 and metric(server, "stampede_limits_shared") == 1 for server in servers)
    names = [member for key in three.redis().keys(f"{PREFIX}{{limits:*") for member in three.redis().zrange(key, 0, -1)]
    assert len(names) <= 4 * tries and all(re.fullmatch("[0-9a-f]{16}", name) for name in names), "hashes of who was at their limit, and nobody else"


def test_who_asks_a_little_is_told_to_nobody(three):
    before = sum(metric(server, "stampede_limits_told") for server in three.servers)
    for i in range(60):
        server = three.servers[i % 3]
        with server.connect() as client:
            assert client.get("/v1/orders", server.token(f"calm{i}"), headers={"X-Forwarded-For": f"192.0.2.{50 + i}"}).status == 200
    assert sum(metric(server, "stampede_limits_told") for server in three.servers) == before


def test_without_redis_each_node_holds_its_own_limits_and_answers(three):
    servers = three.servers
    three.own.pause()
    try:
        hammer(servers, 0.5, as_address("192.0.2.3"))
        eventually(lambda: all(metric(server, "stampede_limits_shared") == 0 for server in servers))

        def bounds(number):
            passed, asked, seconds, statuses, slowest = hammer(servers, 2, as_address(f"192.0.2.{20 + number}"))
            limit = BURST + PER_S * seconds
            assert set(statuses) == {404, 429}
            return all(0.7 * min(limit, of) <= by_node <= 1.1 * limit for by_node, of in zip(passed, asked)), slowest, (passed, asked, limit)
        undisturbed(servers, bounds)
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

    def shared(number):
        passed, _, seconds, _, slowest = hammer(servers, 2, as_address(f"192.0.2.{30 + number}"))
        return sum(passed) <= 1.4 * (BURST + PER_S * seconds), slowest, passed
    undisturbed(servers, shared)


def test_in_a_cluster_limits_are_shared_too():
    with RedisCluster(replicas=0) as cluster, Nodes("--limits", LIMITS, "--proxies", "127.0.0.1", gate=cluster.url) as nodes:
        servers = [nodes.start(), nodes.start()]
        know_each_other(servers)
        # Addresses of several groups, and so of several masters.
        passed, limit = [], 0
        for i in range(3):
            by_node, _, seconds, *_ = hammer(servers, 0.7, as_address(f"192.0.2.{i}"))
            passed, limit = passed + by_node, limit + BURST + PER_S * seconds
        assert sum(passed) <= 1.5 * limit, (passed, limit)
        # A master that is slow for a moment is not waited for.
        told, untold = (sum(metric(server, f"stampede_limits_{what}") for server in servers) for what in ("told", "untold"))
        assert untold * 4 <= told, f"{untold} were told in vain, of {told}"
        assert sum(server.client().dbsize() > 0 for server in cluster.servers) > 1


# Tries to log in.


def guess(server, account, address, password="a wrong guess"):
    with server.connect() as client:
        answer = client.post("/v1/login", {"username": account, "password": password}, headers={"X-Forwarded-For": address})
        assert answer.status in (200, 401, 429), answer
        return answer.status


@pytest.fixture(scope="module")
def doors():
    """Two nodes where accounts can be guessed at."""
    with Nodes("--proxies", "127.0.0.1") as nodes:
        servers = [nodes.start(), nodes.start()]
        with servers[0].connect() as client:
            for account in ("ann", "bob", "cat", "dan"):
                assert client.post("/v1/users", {"username": account, "password": "correct horse", "role": "customer"}).status == 201
        know_each_other(servers)
        yield nodes


def test_an_account_has_its_tries_on_all_nodes_together(doors):
    one, two = doors.servers
    assert guess(two, "ann", "203.0.113.1", "correct horse") == 200
    began = time.monotonic()
    passed = [guess((one, two)[i % 2], "ann", f"198.51.100.{i}") for i in range(40)].count(401)
    assert time.monotonic() - began < 60
    # Eight are for strangers; on its way to the other node can be one, or what a machine that stands still leaves there.
    assert 8 <= passed <= 10, passed
    time.sleep(0.3)
    assert all(guess(server, "ann", f"198.51.100.{100 + i}") == 429 for i, server in enumerate(doors.servers))
    # The owner is known at all nodes, and has tries left.
    assert guess(one, "ann", "203.0.113.1", "correct horse") == 200
    told = [what for _, entry in doors.redis().xrange(f"{PREFIX}{{logins}}") for what in entry.values()]
    assert told and all(re.fullmatch("[0-9a-f]+", what) for what in told), "hashes, no names"


def test_what_nodes_let_through_at_the_same_moment_is_paid_off(doors):
    """In the worst case each lets through eight, and then nobody does for longer than a minute."""
    at_once(*(lambda i=i: guess(doors.servers[i % 2], "bob", f"198.51.101.{i}") for i in range(32)))
    time.sleep(0.3)
    assert all(guess(server, "bob", f"198.51.101.{100 + i}") == 429 for i, server in enumerate(doors.servers))


def test_a_guesser_waits_at_all_nodes(doors):
    one, two = doors.servers
    assert [guess(one, "cat", "198.51.102.1") for _ in range(3)] == [401] * 3
    time.sleep(0.3)
    assert guess(two, "cat", "198.51.102.1") == 429
    assert guess(two, "cat", "198.51.102.2", "correct horse") == 200, "nobody else's wait"


def test_a_node_that_starts_knows_who_has_guessed(doors):
    assert 401 in [guess(doors.servers[0], "dan", f"198.51.103.{i}") for i in range(12)]
    fresh = doors.start()
    time.sleep(0.3)
    assert guess(fresh, "dan", "198.51.103.100") == 429
    fresh.stop()


# The share of a sale.

@pytest.fixture(scope="module")
def sharing():
    with Nodes("--share-percent", 100) as nodes:
        servers = [nodes.start() for _ in range(3)]
        know_each_other(servers)
        yield nodes


def asked(nodes):
    return sum(metric(server, "stampede_grabs_asked_total") for server in nodes.servers)


def pipes(server, sale, buyers, peers=4):
    """Pipelines of grabs on one node, all at once; what each buyer heard."""
    heard = {}

    def side(n):
        with Peer(server) as peer:
            mine = buyers[n::peers]
            for start in range(0, len(mine), 64):
                some = mine[start:start + 64]
                heard.update(zip(some, ("WON" if word == "UNSURE" else word for word, _ in peer.grabs(sale, some))))
    at_once(*(lambda n=n: side(n) for n in range(peers)))
    return collections.Counter(heard.values())


def test_those_who_wait_for_a_share_are_asked_for_in_the_order_in_which_they_came(sharing):
    with Peer(sharing.servers[0]) as peer:
        for turn in range(3):
            peer.ask("SALE.CREATE", f"in order {turn}", "30")
            heard = [word for word, _ in peer.grabs(f"in order {turn}", [f"u{i}" for i in range(60)])]
            assert heard == ["WON"] * 30 + ["SOLD_OUT"] * 30, turn


def test_a_crowd_at_one_node_buys_what_there_is_and_redis_hears_of_little_more(sharing):
    """P1: the crowd is at a node whose share is a third; the others have nobody."""
    server = sharing.servers[0]
    with Peer(server) as peer:
        peer.ask("SALE.CREATE", "one sided", "60")
    before, waited = asked(sharing), metric(server, "stampede_share_waits_total")
    buyers = [f"u{i}" for i in range(1000)]
    assert pipes(server, "one sided", buyers) == {"WON": 60, "SOLD_OUT": 940}, "nobody hears that all is sold while something is left"
    assert metric(server, "stampede_share_waits_total") > waited
    # 60 were sold by as many questions; nobody asks for what is sold.
    assert asked(sharing) - before <= 120, asked(sharing) - before


def test_as_many_buyers_as_units_all_get_one(sharing):
    """Each asks once, in every number: a share that is rounded to nothing would leave the last unsold."""
    for stock in (1, 2, 7, 50):
        with Peer(sharing.servers[1]) as peer:
            peer.ask("SALE.CREATE", f"exactly {stock}", str(stock))
        assert pipes(sharing.servers[1], f"exactly {stock}", [f"u{i}" for i in range(stock)], 2) == {"WON": stock}


def test_a_rest_that_is_smaller_than_what_anybody_wants_keeps_nobody_waiting(sharing):
    """One unit is left, and a crowd wants two each: everyone hears SOLD_OUT, and who wants one gets it."""
    with Peer(sharing.servers[0]) as peer:
        peer.ask("SALE.CREATE", "odd", "5", "UNITS", "2")
        heard = collections.Counter(answer[0] for answer in peer.pipeline([["SALE.GRAB", "odd", f"u{i}", "2"] for i in range(150)]))
        assert heard == {"WON": 2, "SOLD_OUT": 148}
        assert peer.ask("SALE.GRAB", "odd", "last")[0] == "WON"


def test_crowds_everywhere_and_stock_that_comes_back(sharing):
    shop = Shop(sharing.servers[0])
    sale = shop.sale(stock=40)["id"]

    def grabs(names):
        requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(name)) for name in names]
        sides = at_once(*(lambda n=n: crowd_again(sharing.servers[n], requests[n::3], 60) for n in range(3)))
        return collections.Counter("WON" if answer.status == 201 else answer.code for answer in sum(sides, []))
    assert grabs([f"a{i}" for i in range(600)]) == {"WON": 40, "SOLD_OUT": 560}
    assert shop.act(sale, "stock", {"add": 30}).status == 200
    others = grabs([f"b{i}" for i in range(300)])
    assert others["WON"] == 30 and set(others) <= {"WON", "SOLD_OUT"}, others
    assert shop.counts(sale) == (70, 0, 0, 70)
    # Whoever has won hears so, however long all has been sold.
    winner = next(row["buyer"] for row in sharing.ledger().orders(sale))
    assert shop.patient(lambda: shop.grab(sale, winner))[-1].code == "ALREADY_WON"


def test_a_redis_that_is_away_for_a_moment_takes_no_share_with_it(sharing):
    """Grabs that were under way, and whose outcome is not known, give their part back."""
    server = sharing.servers[2]
    shop = Shop(server)
    sale = shop.sale(stock=3)["id"]
    sharing.own.pause()
    try:
        requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"c{i}"), f"k{i}") for i in range(20)]
        assert {answer.status for answer in crowd(server, requests, 20)} == {503}
    finally:
        sharing.own.resume()
    eventually(lambda: shop.client.get("/readyz").status == 200, 20)
    eventually(lambda: shop.grab(sale, "dan", key="k").status in (201, 409) and shop.counts(sale)[3] >= 1, 20)
    for i in range(20):
        eventually(lambda i=i: shop.grab(sale, f"c{i}", key=f"k{i}").status in (201, 409), 20)
    assert shop.counts(sale) == (3, 0, 0, 3)
