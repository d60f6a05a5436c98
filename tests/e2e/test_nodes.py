"""Several nodes of one shop are one shop: a crowd over all of them wins exactly what there is, and what one node did another knows.

A Redis, a database and three servers; ack = ledger unless a test says otherwise."""

import collections
import re
import time

import databases
import pytest
from harness import ServerDied, Shop, at_once, beside, eventually, problem, request_bytes, run
from nodes import Nodes
from ports import free_port
from provider import Provider, secret_make, secrets_of
from redis_servers import RedisServer, wait_until
from resp import Peer
from wire import crowd, crowd_again


@pytest.fixture(scope="module")
def three():
    with Nodes() as nodes:
        for _ in range(3):
            nodes.start()
        yield nodes


def over_all(nodes, requests, connections):
    """The requests, dealt out to the nodes in turn, all at once; the answers in the order of the requests."""
    count = len(nodes.servers)
    sides = at_once(*(lambda n=n: crowd_again(nodes.servers[n], requests[n::count], connections) for n in range(count)))
    return [sides[i % count][i // count] for i in range(len(requests))]


def told(answers):
    return collections.Counter("WON" if answer.status == 201 else answer.code for answer in answers)


def audited(nodes):
    done = run("audit", "--data", nodes.folder / "nowhere", "--ledger", nodes.database, env=nodes.environment(), timeout=120)
    assert done.code == 0 and "all promises hold" in done.out and "there is no journal" in done.out, done
    return done


def test_a_crowd_over_three_nodes_wins_what_there_is(three):
    """P1, P2, P4"""
    shop = Shop(three.servers[0])
    sale = shop.sale(stock=100)["id"]
    requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i}")) for i in range(1500)]
    answers = over_all(three, requests, 100)
    assert told(answers) == {"WON": 100, "SOLD_OUT": 1400}
    orders = [answer.json()["order"] for answer in answers if answer.status == 201]
    rows = three.ledger().orders(sale)
    assert {(order["no"], order["buyer"]) for order in orders} == {(str(row["no"]), row["buyer"]) for row in rows} and len(rows) == 100
    for server in three.servers:
        assert Shop(server, shop.seller).counts(sale) == (100, 0, 0, 100), "every node tells the same at once"
    audited(three)


def test_one_who_asks_everywhere_gets_what_one_may(three):
    """P2, P7: 100 buyers ask all nodes at once, with a key that they repeat and without; units differ."""
    shop = Shop(three.servers[1])
    sale = shop.sale(stock=250, grabs_per_buyer_max=2, units_per_grab_max=2)["id"]
    requests = []
    for i in range(1800):
        buyer = i // 3 % 100
        requests.append(request_bytes("POST", f"/v1/sales/{sale}/grabs", {"units": 1 + buyer % 2}, shop.buyer(f"b{buyer}"), f"key-{i // 900}" if buyer % 4 else None))
    answers = over_all(three, requests, 60)
    assert set(told(answers)) <= {"WON", "ALREADY_WON", "SOLD_OUT"}, told(answers)
    rows = three.ledger().orders(sale)
    counts = collections.Counter(row["buyer"] for row in rows)
    assert max(counts.values()) <= 2 and sum(row["units"] for row in rows) <= 250
    assert len({(row["buyer"], row["key"]) for row in rows if row["key"]}) == sum(1 for row in rows if row["key"]), "a key won twice"
    known = {str(row["no"]): row["buyer"] for row in rows}
    heard = {answer.json()["order"]["no"] for answer in answers if answer.status == 201}
    # Without a key, who did not know and asked again may have won twice, as they may.
    assert heard <= known.keys() and {known[no] for no in known.keys() - heard} <= {f"b{i // 3 % 100}" for i, answer in enumerate(answers) if answer.unsure}, (heard, known)
    audited(three)


def test_what_one_node_has_made_the_others_know_at_once(three):
    """No waiting anywhere: each request goes to another node than the one before it."""
    ways = [Shop(server) for server in three.servers]
    for way in ways[1:]:
        way.seller, way.seller_token = ways[0].seller, ways[0].seller_token
    for i in range(12):
        one, two, other = ways[i % 3], ways[(i + 1) % 3], ways[(i + 2) % 3]
        sale = one.sale(stock=3, pay_within_s=600, price=5, currency="EUR")["id"]
        order = two.win(sale, "ann", key="k")
        assert other.win(sale, "ann", key="k") == order
        assert one.order(order["no"]).json() == order
        assert two.counts(sale) == one.counts(sale) == other.counts(sale) == (3, 2, 1, 0)
        assert other.client.post(f"/v1/orders/{order['no']}/cancel", None, other.buyer("ann")).status == 200
        assert one.counts(sale) == (3, 3, 0, 0)
        assert two.act(sale, "pause").status == 200
        problem(other.grab(sale, "bob"), 409, "PAUSED")
        assert one.act(sale, "resume").status == 200
        assert two.act(sale, "stock", {"add": -2}).status == 200
        assert other.counts(sale) == (1, 1, 0, 0)
        one.win(sale, "bob")
        problem(two.grab(sale, "cat"), 409, "SOLD_OUT")
        assert other.act(sale, "close").status == 200
        eventually(lambda: one.grab(sale, "cat").code == "CLOSED")  # a node that knew it sold out says so a moment longer


def test_every_node_tells_of_all_until_they_leave():
    """One that stops is gone from the list, one that was killed is told as silent; health is heard of without the ledger."""
    with Nodes() as nodes:
        one, two, three = (nodes.start() for _ in range(3))
        shop = Shop(one)

        def seen():
            answer = shop.client.get("/v1/nodes", shop.admin_token)
            assert answer.status == 200 and answer.json()["gate"] == "redis", answer
            return {item["address"].rpartition(":")[2]: item for item in answer.json()["items"]}
        # The first report of a node may be of a moment when its connections to Redis were not up yet.
        eventually(lambda: [item["state"] for item in seen().values()] == ["ready"] * 3, 15)
        every = seen()
        assert [every[str(server.port)]["here"] for server in (one, two, three)] == [True, False, False]
        assert len({item["node"] for item in every.values()}) == 3 and None not in {item["node"] for item in every.values()}
        killed, gone = str(three.port), str(two.port)
        three.kill()
        other, sale = Shop(two, shop.seller), shop.sale(stock=5)["id"]
        other.win(sale, "ann")
        eventually(lambda: seen()[gone]["wins"] == 1, 15)
        two.stop()
        eventually(lambda: gone not in seen(), 15)
        eventually(lambda: seen()[killed]["state"] == "silent", 25)
        eventually(lambda: seen()[str(one.port)]["state"] == "ready", 15)
        nobody, strange = [str(number) for number in range(1, 9) if number not in {item["node"] for item in every.values()}][:2]
        nodes.own.client().hset("stampede:nodes", nobody, 'no report of ours "<b>')
        nodes.own.client().hset("stampede:nodes", strange, "9999999999999 state=ready connections=x version=" + "9" * 99)
        eventually(lambda: len(seen()) == 3, 15)


def test_resp_over_three_nodes_wins_what_there_is(three):
    """Pipelines of grabs: their answers come in their order, and are exact together."""
    with Peer(three.servers[0]) as first:
        first.ask("SALE.CREATE", "pipes", "90")

    def side(n):
        with Peer(three.servers[n]) as peer:
            return [answer for start in range(0, 300, 50) for answer in peer.grabs("pipes", [f"u{i}" for i in range(start, start + 50)])]
    heard = sum(at_once(*(lambda n=n: side(n) for n in range(3))), [])
    won = [no for word, no in heard if word == "WON"]
    assert len(heard) == 900 and len(won) == len({*won}) and len({*won, *(no for word, no in heard if word == "UNSURE")}) == 90, heard
    assert len(three.ledger().orders()) >= 90
    audited(three)


def asked(server):
    """How many grabs Redis was asked to decide."""
    with server.connect() as client:
        return int(re.search(r"^stampede_grabs_asked_total (\d+)$", client.get("/metrics").body.decode(), re.M).group(1))


def turned_away_here(server, shop, sale):
    """Waits until the node knows who has won, and tells everybody else itself."""
    def here():
        before = asked(server)
        problem(shop.grab(sale, "stranger"), 409, "SOLD_OUT")
        return asked(server) == before
    eventually(here)


def test_a_winner_who_asks_again_elsewhere_hears_of_the_order():
    """P7: with the same key the same answer, at once and at every node, also where the node was sure a moment before that all was sold. A crowd
    that brings keys is turned away without asking Redis for each."""
    with Nodes() as nodes:
        one, two = nodes.start(), nodes.start()
        shop = Shop(one)
        other = Shop(two, seller=shop.seller)
        sale = shop.sale(stock=1, pay_within_s=600)["id"]
        order = shop.win(sale, "b0", key="k")
        for i in range(1, 9):
            turned_away_here(two, other, sale)
            assert shop.client.post(f"/v1/orders/{order['no']}/cancel", None, shop.buyer(f"b{i - 1}")).status == 200
            order = shop.win(sale, f"b{i}", key="k")
            again = other.grab(sale, f"b{i}", key="k")
            assert again.status == 201 and again.json()["order"]["no"] == order["no"], again
        turned_away_here(two, other, sale)
        before = asked(two)
        requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, other.buyer(f"c{i}"), f"k{i}") for i in range(600)]
        assert told(crowd(two, requests, 30)) == {"SOLD_OUT": 600}
        with Peer(two) as peer:
            answers = peer.pipeline([["SALE.GRAB", sale, f"d{i}", "KEY", "k"] for i in range(300)])
        assert {answer[0] for answer in answers} == {"SOLD_OUT"}
        assert asked(two) - before < 300, "each of them was asked for"
        audited(nodes)


# When "won" is said.

@pytest.mark.parametrize("ack", ["gate", "replica"])
def test_what_is_told_before_it_is_filed_is_filed_soon(ack):
    """With ack = gate and replica the ledger follows: lists wait for it, an order can be read, paid and cancelled at once."""
    with RedisServer() as replica, Nodes("--ack", ack, "--replica-ms", "5000") as nodes:
        replica.client().execute_command("REPLICAOF", nodes.own.host, nodes.own.port)
        wait_until("a replica", lambda: replica.client().info("replication").get("master_link_status") == "up")
        one, two = Shop(nodes.start()), Shop(nodes.start())
        two.seller, two.seller_token = one.seller, one.seller_token
        sale = one.sale(stock=60, pay_within_s=600)["id"]
        for i in range(20):
            order = one.win(sale, f"b{i}")
            assert two.order(order["no"]).json() == order
            if i % 2:
                assert two.client.post(f"/v1/orders/{order['no']}/cancel", None, two.buyer(f"b{i}")).status == 200
        assert len(one.listed(f"/v1/orders?sale={sale}", one.seller_token)) == 20
        requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, one.buyer(f"c{i}")) for i in range(400)]
        assert told(over_all(nodes, requests, 50)) == {"WON": 50, "SOLD_OUT": 350}
        eventually(lambda: len(nodes.ledger().orders(sale)) == 70)
        eventually(lambda: nodes.redis().xlen(nodes.key(sale, "log")) == 0)
        audited(nodes)


def test_what_one_node_tells_early_is_known_to_one_that_waits_for_the_ledger():
    """While a change of ack goes from node to node."""
    with Nodes() as nodes:
        early, late = Shop(nodes.start("--ack", "gate")), Shop(nodes.start())
        late.seller, late.seller_token = early.seller, early.seller_token
        sale = early.sale(stock=60, price=5, pay_within_s=600)["id"]
        assert late.counts(sale) == (60, 60, 0, 0)
        for i in range(10):
            order = early.win(sale, f"a{i}")
            assert late.order(order["no"]).json() == order
            for shop in (early, late):  # it is not theirs, whether it is filed or not, and they do not learn that it is there
                problem(shop.client.post(f"/v1/orders/{order['no']}/cancel", None, shop.buyer("stranger")), 404, "NO_SUCH_ORDER")
            order = early.win(sale, f"b{i}")
            assert late.client.post(f"/v1/orders/{order['no']}/cancel", None, late.buyer(f"b{i}")).json()["state"] == "cancelled"
            order = early.win(sale, f"c{i}")
            assert Provider(late.server).paid(late.client, order)["state"] == "paid"
            problem(late.order(int(order["no"]) ^ 1 << 11), 404, "NO_SUCH_ORDER")
        assert early.counts(sale) == late.counts(sale) == (60, 40, 10, 10)
        audited(nodes)


@pytest.mark.parametrize("ack", ["gate", "ledger"])
def test_a_seller_hears_what_is_left_after_each_change(ack):
    """Also where the ledger has not heard yet of what was told just before."""
    with Nodes("--ack", ack) as nodes:
        server = nodes.start()
        shop = Shop(server)
        with Peer(server) as peer:
            for turn in range(10):
                name, left = f"t{turn}", 8
                grabs = [("SALE.GRAB", name, f"u{i}") for i in range(3)]
                got = peer.pipeline([("SALE.CREATE", name, left, "GRABS", 9), *grabs, ("SALE.LEFT", name), ("SALE.STOCK", name, -1),
                                     *grabs, ("SALE.STOCK", name, 7), *grabs, ("SALE.LEFT", name)])
                assert [got[i] for i in (4, 5, 9, 13)] == [5, 4, 8, 5], got
        sale, held = shop.sale(stock=50, pay_within_s=600)["id"], 0
        for path, body, offered in (("/stock", {"add": 5}, 55), ("", {"name": "shoes"}, 55), ("/pause", None, 55), ("/resume", None, 55),
                                    ("/stock", {"add": -3}, 52), ("/close", None, 52)):
            for _ in range(0 if path == "/resume" else 2):
                shop.win(sale, f"b{held}")
                held += 1
            answer = shop.client.request("POST" if path else "PATCH", f"/v1/sales/{sale}{path}", body, shop.seller_token)
            assert answer.status == 200, answer
            seen = answer.json()
            assert [seen[name] for name in ("offered", "available", "held", "sold")] == [offered, offered - held, held, 0], (path, body)
        audited(nodes)


def test_without_enough_replicas_nobody_hears_that_they_won():
    """The outcome is unknown, and asked again it is known: the same order, taken once."""
    with RedisServer() as replica, Nodes("--ack", "replica", "--replica-ms", "50") as nodes:
        shop = Shop(nodes.start())
        sale = shop.sale(stock=5)["id"]
        answer = shop.grab(sale, "ann", key="k")
        problem(answer, 503, "OUTCOME_UNKNOWN")
        # Who asks again is told by the ledger, which has it.
        order = eventually(lambda: (got := shop.grab(sale, "ann", key="k")).status == 201 and got).json()["order"]
        answer = shop.grab(sale, "ann")
        problem(answer, 409, "ALREADY_WON")
        assert answer.json()["order"]["no"] == order["no"] and [str(row["no"]) for row in nodes.ledger().orders(sale)] == [order["no"]]
        assert "0 of 1 replicas have confirmed what was won within 50 ms" in nodes.servers[0].log()
        problem(shop.grab(sale, "bob"), 503, "OUTCOME_UNKNOWN")
        replica.client().execute_command("REPLICAOF", nodes.own.host, nodes.own.port)
        wait_until("a replica", lambda: replica.client().info("replication").get("master_link_status") == "up")
        assert shop.grab(sale, "ann", key="k").json()["order"]["no"] == order["no"]
        eventually(lambda: shop.grab(sale, "cat", key="c").status == 201)
        assert shop.counts(sale) == (5, 2, 0, 3)


def test_a_replica_that_is_slow_costs_nobody_behind_it_an_answer():
    """While Redis waits for it nothing else on the connection is answered: those who come meanwhile are not late before replica_ms is over."""
    with RedisServer() as replica, Nodes("--ack", "replica", "--replica-ms", "10000", "--breaker-share-percent", "0", "--reactors", "1") as nodes:
        replica.client().execute_command("REPLICAOF", nodes.own.host, nodes.own.port)
        wait_until("a replica", lambda: replica.client().info("replication").get("master_link_status") == "up")
        server = nodes.start()
        shop = Shop(server)
        sale = shop.sale(stock=20)["id"]
        eventually(lambda: shop.grab(sale, "first", key="k").status == 201)

        def buy(n, turn):
            mine = Shop(server, shop.seller)
            if n > 0:  # the others come when the first is waited for
                eventually(lambda: nodes.redis().info("clients")["blocked_clients"] > 0)
            return mine.grab(sale, f"b{n}-{turn}")

        def all_won(turn):
            replica.pause()
            with beside(*(lambda n=n: buy(n, turn) for n in range(6))) as answers:
                time.sleep(2.5)
                replica.resume()
            return [answer.result().status for answer in answers] == [201] * 6
        assert any(all_won(turn) for turn in range(3)), "not once, so it is not this machine that is slow"


# Starting.

def test_a_node_with_other_keys_is_refused(three):
    stranger = three.make()
    (stranger.data / "keys").write_text("k1 " + "ab" * 32 + "\n")
    with pytest.raises(ServerDied, match="exit 1(.|\n)*not those of the other nodes"):
        stranger.start()
    three.servers.remove(stranger)


def test_another_prefix_on_the_same_ledger_is_refused():
    with Nodes() as nodes:
        shop = Shop(nodes.start())
        sale = shop.sale(stock=1)["id"]
        shop.win(sale, "ann")
        stranger = nodes.make("--redis-prefix", "typo:")
        with pytest.raises(ServerDied, match="redis_prefix is typo: here and stampede: on the nodes of this ledger"):
            stranger.start()
        done = nodes.reconcile("--repair", "--redis-prefix", "typo:")
        assert done.code == 1 and "redis_prefix is typo: here and stampede: on the nodes of this ledger" in done.err, done
        assert not [key for key in nodes.redis().keys() if not key.startswith("stampede:")] and shop.grab(sale, "bob").json()["code"] == "SOLD_OUT"
        # For good: all stop, and the first to come says what it is.
        nodes.servers[0].stop()
        nodes.ledger().change("DELETE FROM agreed WHERE name = 'prefix'")
        longest = "p" * 63 + ":"
        assert Shop(nodes.start("--redis-prefix", longest)).grab(sale, "bob").json()["code"] == "SOLD_OUT"
        with pytest.raises(ServerDied, match=f"redis_prefix is stampede: here and {longest} on the nodes"):
            nodes.make().start()
        assert nodes.reconcile("--redis-prefix", longest).code == 0


def test_another_database_of_the_same_redis_is_refused():
    """A slip in the URL: with ack = gate both would sell all there is."""
    with Nodes() as nodes:
        shop = Shop(nodes.start())
        shop.win(shop.sale(stock=1)["id"], "ann")
        sentence = "the number of the database in the URL of gate is 1 here and 0 on the nodes of this ledger"
        gate, nodes.gate = nodes.gate, f"{nodes.gate}/1"
        with pytest.raises(ServerDied, match=sentence):
            nodes.make().start()
        assert sentence in nodes.reconcile("--repair").err
        nodes.gate = f"{gate}/0"
        assert nodes.reconcile().code == 0 and nodes.start().connect().get("/readyz").status == 200


def test_keys_are_changed_one_node_after_the_other():
    with Nodes() as nodes:
        one, two = nodes.start(), nodes.start()
        old = nodes.keys
        for server in (one, two):
            server.stop()
            (server.data / "keys").write_text("k2 " + "cd" * 32 + "\n" + old)
            server.key = None
            server.start()
        one.stop()
        (one.data / "keys").write_text("k2 " + "cd" * 32 + "\n")
        one.start()
        Shop(one).sale()


def test_a_node_with_other_payment_secrets_says_so():
    """It sells as the others do, but a payment that the balancer sends there is refused."""
    with Nodes() as nodes:
        one, two = nodes.start(), nodes.start()
        assert not any("payment_keys" in server.log() for server in (one, two))
        fingerprint = nodes.ledger().rows("SELECT value FROM agreed WHERE name = 'payments'")
        assert re.fullmatch("[0-9a-f]{32}", fingerprint[0]["value"])
        # They are changed one node after the other: the new one is added, then the old one goes.
        old, new = nodes.payment_keys, f"{secret_make()}\n"
        for text in (old + new, new):
            for server in (one, two):
                server.stop()
                (server.data / "payment_keys").write_text(text)
                server.start()
                assert "payment_keys lacks" not in server.log()
        stranger = nodes.make()
        (stranger.data / "payment_keys").unlink()
        log = stranger.start().log()
        assert "payment_keys lacks the secret of the node that started before" in log and "a secret of this node's own" in log
        assert not set(secrets_of(stranger.data)) & set(log.split())


def test_one_machine_does_not_go_on_from_a_ledger_of_nodes(three, own_server):
    server = own_server("--ledger", three.database, "--gate", "local", start=False, env=three.environment())
    with pytest.raises(ServerDied, match="exit 1(.|\n)*belongs to nodes"):
        server.start()


def test_a_redis_that_is_not_there_is_told_in_a_sentence(own_server, three):
    server = own_server("--ledger", three.database, "--gate", f"redis://127.0.0.1:{free_port()}", start=False, env=three.environment())
    with pytest.raises(ServerDied, match="exit 1(.|\n)*refusing to start: gate: "):
        server.start()


@pytest.mark.parametrize("settings,url,password,sentence", [
    ({"maxmemory": "100mb", "maxmemory_policy": "allkeys-lru"}, "redis://{0}", "", "maxmemory-policy is allkeys-lru.: set it to noeviction"),
    ({"password": "right"}, "redis://{0}", "wrong", "does not know this user with this password: check"),
    ({"user": ["default on nopass ~* +@all", "shop on >p ~other:* +@all"]}, "redis://shop@{0}", "p", "does not let its user run the script own: its ACL must allow"),
])
def test_a_redis_that_cannot_be_the_gate_is_told_in_a_sentence(own_server, three, settings, url, password, sentence):
    env = {**three.environment(), **({"STAMPEDE_REDIS_PASSWORD": password} if password else {})}
    with RedisServer(**settings) as unfit:
        server = own_server("--ledger", three.database, "--gate", url.format(unfit.address), start=False, env=env)
        with pytest.raises(ServerDied, match=f"exit 1(.|\n)*{sentence}"):
            server.start()


@pytest.mark.parametrize("lines,sentence", [
    (["gate = redis://"], "gate"), (["gate = http://x"], "it is local, redis://HOST"), (["gate = redis://u:p@h"], "password"),
    (["gate = redis+sentinel://h:26379"], "gate"), (["ack = gate"], "ack is for a gate in Redis"), (["node = 3"], "node is for a gate in Redis"),
    (["share_percent = 100"], "share_percent is for a gate in Redis"), (["gate = redis://h", "share_percent = -1"], "share_percent is a whole number"),
    (["gate = redis://h", "ack = maybe"], "ack is one of these words"), (["redis_prefix = a{b"], "braces"), (["gate = redis://h", "node = 1024"], "node"),
])
def test_config_check_finds_what_is_wrong_with_a_gate(tmp_path, lines, sentence):
    path = tmp_path / "conf"
    path.write_text("\n".join(lines) + "\n")
    done = run("config", "check", path)
    assert done.code == 1 and sentence in done.text, done


def test_config_check_says_what_one_file_means_for_nodes(tmp_path):
    path = tmp_path / "conf"
    path.write_text("gate = redis://127.0.0.1:6379\n")
    done = run("config", "check", path)
    assert done.code == 0 and "no other can join" in done.out and ": fine" in done.out, done


# What an operator sees.

@pytest.mark.parametrize("ack", ["ledger", "gate"])
def test_a_replica_that_is_behind_hides_nothing_that_somebody_did(ack):
    behind = databases.make_database(databases.shared_port())
    with Nodes(database=behind) as others:
        others.start().stop()
    with Nodes("--ack", ack, "--ledger-read", behind) as nodes:
        shop = Shop(nodes.start())
        sale = shop.sale(stock=3)["id"]
        won = shop.win(sale, "ann")
        assert [one["id"] for one in shop.listed("/v1/sales", shop.seller_token)] == [sale]
        for token in (shop.buyer("ann"), shop.seller_token):
            assert [one["no"] for one in shop.listed("/v1/orders", token)] == [won["no"]]
        assert shop.client.get(f"/v1/sales/{sale}/stats", shop.seller_token).json()["sale"]["sold"] == 1


def test_metrics_and_readiness_tell_of_redis_and_the_ledger():
    with Nodes() as nodes:
        server = nodes.start()
        shop = Shop(server)

        def metric(name):
            with server.connect() as client:
                return int(re.search(rf"^{name} (\d+)$", client.get("/metrics").body.decode(), re.M).group(1))
        sale = shop.sale(stock=2)["id"]
        shop.win(sale, "ann")
        assert metric("stampede_redis_up") == metric("stampede_ledger_up") == 1 and metric("stampede_rebuilds") >= 1
        assert shop.client.get("/readyz").status == 200
        nodes.own.kill()
        eventually(lambda: metric("stampede_redis_up") == 0)
        problem(shop.client.get("/readyz"), 503, "NOT_READY", "Redis")
        assert shop.client.get("/healthz").status == 200
        problem(shop.grab(sale, "bob"), 503)
        nodes.own.start()
        eventually(lambda: shop.client.get("/readyz").status == 200, 20)
        eventually(lambda: shop.grab(sale, "bob", key="b").status == 201, 20)
        assert shop.counts(sale) == (2, 0, 0, 2), "built anew from the ledger"
        audited(nodes)


@pytest.mark.parametrize("number", ["0", "8"])
def test_a_node_that_starts_while_redis_takes_nothing_waits_for_it(number):
    """As when a master is giving way to its replica: its number is asked for again, and what was done unheard is its own."""
    with Nodes() as nodes:
        nodes.redis().execute_command("CLIENT", "PAUSE", "4000", "WRITE")
        assert Shop(nodes.make("--node", number).start()).sale(stock=1)


def test_a_look_at_a_sale_that_is_being_built_lacks_no_win_that_was_told():
    """What the other node knew before it was won is not what is."""
    with Nodes() as nodes:
        one, two = Shop(nodes.start()), Shop(nodes.start())
        sale = one.sale(stock=100)["id"]
        eventually(lambda: two.counts(sale) == (100, 100, 0, 0))
        for sold in range(1, 21):
            one.win(sale, f"buyer{sold}")
            nodes.redis().flushall()
            assert two.counts(sale) == (100, 100 - sold, 0, sold)
        one.close()
        two.close()
