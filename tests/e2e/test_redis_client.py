"""The Redis client against real servers that are killed, paused, emptied, moved and misconfigured. What it says of a call must be true:
what it calls answered ran once, what it calls down or busy did not run, and only what was sent and not answered is unknown."""

import collections
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from harness import BINARY, REPORTS, end_with_parent, environment
from ports import free_port
from redis_servers import RedisCluster, RedisSentinels, RedisServer, wait_until

PROGRAM = pathlib.Path(BINARY).parent / "tests" / "e2e" / "redis_probe"
ANSWER_S_MAX = 60
Done = collections.namedtuple("Done", "result lineage connection reply")


class Probe:
    """tests/e2e/redis_probe.c, driven line by line."""

    def __init__(self, url, folder, env=None, **options):
        self.folder = folder
        self.log_path = folder / f"probe-{time.monotonic_ns()}"
        words = [f"{name}={value}" for name, value in options.items()]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([PROGRAM, url, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment(env),
                                            preexec_fn=end_with_parent)
        self.last_id = 0
        self.dones = {}

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        try:
            self.process.stdin.close()
            code = self.process.wait(ANSWER_S_MAX)
        finally:
            self.process.kill()
            self.process.stdout.close()
        text = self.log_path.read_text(errors="replace")
        print(text)
        assert not any(report in text for report in REPORTS), text
        assert failed or code == 0, f"the probe ended with {code}\n{text}"

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, word):
        """The next line that begins with the word; answers to calls that come before it are kept."""
        while True:
            line = self.process.stdout.readline().decode().rstrip("\n")
            assert line, f"the probe is gone\n{self.log_path.read_text(errors='replace')}"
            first, _, rest = line.partition(" ")
            if first == "done":
                number, result, lineage, connection, reply = rest.split(" ", 4)
                self.dones[int(number)] = Done(result, lineage, int(connection), reply)
            if first == word:
                return rest

    def ask(self, key, *words, script="-", time_ms=0, flags="-"):
        self.last_id += 1
        self.say(f"call {self.last_id} {time_ms} {flags} {key} {script} " + " ".join(map(str, words)))
        return self.last_id

    def done(self, number):
        while number not in self.dones:
            self.hear("done")
        return self.dones.pop(number)

    def call(self, key, *words, **options):
        return self.done(self.ask(key, *words, **options))

    def count(self, key, number, **options):
        """The script that counts how often a number has come."""
        return self.call(key, key, number, script="count", flags="r", **options)

    def status(self):
        self.say("status")
        text = self.hear("status")
        found = dict(re.findall(r"(\w+)=(\S*) ", text))
        found["error"] = text.partition(" error=")[2]
        return found

    def connected(self):
        return wait_until("a connection", lambda: self.status()["connected"] == "1")

    def streamed(self, at_least):
        """Waits until so many more calls of the stream are answered."""
        goal = int(self.status()["streamed"]) + at_least
        wait_until("a stream that goes on", lambda: int(self.status()["streamed"]) >= goal)

    def answers_again(self, key):
        wait_until("answers again", lambda: self.call(key, "PING").result == "answered")

    def halt(self):
        path = self.folder / f"stream-{time.monotonic_ns()}"
        self.say(f"halt {path}")
        self.hear("halted")
        return dict(line.split() for line in path.read_text().splitlines())


def reach(url, wait_ms=1500, env=None):
    done = subprocess.run([PROGRAM, url, f"reach={wait_ms}"], capture_output=True, text=True, timeout=60, env=environment(env))
    assert not any(report in done.stderr for report in REPORTS), done.stderr
    return done.stdout.strip()


def check(results, ran, lossless=True):
    """results: number -> what the client said; ran: number -> how often it ran, as the servers have it."""
    tally = collections.Counter(results.values())
    print(tally)
    assert set(results.values()) <= {"answered", "down", "busy", "unknown"}
    assert set(ran) <= set(results)
    for number, times in ran.items():
        assert times == "1", f"{number} ran {times} times"
        assert results[number] in ("answered", "unknown"), f"{number} ran and was called {results[number]}"
    if lossless:
        missing = [number for number, result in results.items() if result == "answered" and number not in ran]
        assert missing == []
    return tally


def counted(clients, keys):
    """What has run, over all servers; a key is asked of whoever has it."""
    ran = {}
    for client in clients:
        for key in client.keys("{k*}:h"):
            assert int(key[2:key.index("}")]) < keys
            ran.update(client.hgetall(key))
    return ran


@pytest.fixture
def alone():
    with RedisServer() as server:
        yield server


def test_a_script_is_loaded_and_told_the_lineage(alone, tmp_path):
    with Probe(alone.url, tmp_path) as probe:
        done = probe.count("a", 7)
        assert done == ("answered", alone.lineage(), 1, f"[1, '{alone.lineage()}']")
        alone.client().script_flush()
        assert probe.count("a", 7).reply == f"[2, '{alone.lineage()}']"
        assert probe.call("a", "a", "b", "c", script="echo").reply == "[['a'], ['b', 'c']]"
        assert probe.call("a", "a", script="echo", flags="r").reply == f"[['a'], ['{alone.lineage()}']]"


def test_errors_say_what_is_certain(alone, tmp_path):
    with Probe(alone.url, tmp_path) as probe:
        assert probe.call("a", "a", "x", script="half").result == "failed"  # it had written
        assert alone.client().get("a") == "x"
        assert probe.call("a", "NO-SUCH-COMMAND").result == "failed"
        assert probe.call("a", "a", script="broken").result == "refused"
        assert "refuses the script broken" in probe.status()["error"]
        alone.client().config_set("maxmemory", 1)
        done = probe.count("b", 1)
        assert (done.result, done.reply[:5]) == ("refused", "!'OOM"), done
        assert "has no memory left for the script count: raise its maxmemory" in probe.status()["error"]
        alone.client().config_set("maxmemory", 0)
        assert probe.count("b", 1).reply.startswith("[1,")


def test_a_server_that_comes_back_empty_has_another_lineage(alone, tmp_path):
    with Probe(alone.url, tmp_path) as probe:
        before = probe.count("a", 7)
        alone.restart()
        probe.answers_again("a")
        after = probe.count("a", 7)
        assert after.reply == f"[1, '{alone.lineage()}']" and after.lineage == alone.lineage() != before.lineage
        assert after.connection > before.connection
        assert int(probe.status()["reconnects"]) >= 1


def test_calls_are_down_at_once_while_nobody_is_there(tmp_path):
    url = f"redis://127.0.0.1:{free_port()}"
    with Probe(url, tmp_path) as probe:
        wait_until("a breaker", lambda: probe.status()["error"])
        began = time.monotonic()
        for _ in range(100):
            assert probe.call("a", "GET", "a", time_ms=30000).result == "down"
        assert time.monotonic() - began < 20
        assert "connection refused" in probe.status()["error"]


def test_a_server_that_hangs_makes_what_was_sent_unknown(alone, tmp_path):
    with Probe(alone.url, tmp_path, call_ms=300, connect_ms=300) as probe:
        assert probe.count("a", 0).result == "answered"
        alone.pause()
        sent = [probe.ask("a", "a", number, script="count", flags="r") for number in range(1, 21)]
        assert {probe.done(number).result for number in sent} == {"unknown"}
        # The system still takes connections for it, but nobody says who is there: nothing is sent.
        assert probe.count("a", 99).result == "down"
        alone.resume()
        probe.answers_again("a")
        ran = alone.client().hgetall("a")
        assert set(ran.values()) == {"1"} and "99" not in ran and len(ran) == 21


def test_a_lenient_call_leaves_the_connection(alone, tmp_path):
    with Probe(alone.url, tmp_path, call_ms=20000) as probe:
        before = probe.call("a", "SET", "a", 1)
        alone.pause()
        assert probe.call("a", "SET", "a", 2, time_ms=100, flags="l").result == "unknown"
        alone.resume()
        after = probe.call("a", "GET", "a")
        assert (after.result, after.reply, after.connection) == ("answered", "'2'", before.connection)


def test_a_client_that_was_stopped_itself_reads_its_answers_first(alone, tmp_path):
    with Probe(alone.url, tmp_path, call_ms=300) as probe:
        probe.connected()
        probe.say("stream 4000000 8 200")
        for _ in range(5):
            probe.streamed(1000)
            probe.process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            probe.process.send_signal(signal.SIGCONT)
        probe.streamed(1000)
        tally = check(probe.halt(), counted([alone.client()], 8))
        assert set(tally) == {"answered"}


def test_more_than_the_bound_is_busy(alone, tmp_path):
    with Probe(alone.url, tmp_path, in_flight_max=5000) as probe:
        probe.connected()
        probe.say("flood 100000 {k0}")
        assert probe.hear("flood") == "answered=5000 failed=0 refused=0 busy=95000 down=0 unknown=0"
        assert alone.client().get("{k0}") == "5000"
    with Probe(alone.url, tmp_path, in_flight_max=200000) as probe:
        probe.say("flood 100000 {k1}")
        assert probe.hear("flood") == "answered=100000 failed=0 refused=0 busy=0 down=0 unknown=0"
        assert alone.client().get("{k1}") == "100000"
        assert probe.status()["in_flight"] == "0"


def test_killed_under_load_nothing_is_guessed(tmp_path):
    with RedisServer(appendonly="yes", appendfsync="always") as server, Probe(server.url, tmp_path) as probe:
        probe.say("stream 4000000 8 200")
        for _ in range(5):
            probe.streamed(2000)
            server.kill()
            time.sleep(0.2)
            server.start()
        probe.streamed(2000)
        tally = check(probe.halt(), counted([server.client()], 8))
        assert tally["answered"] > 8000 and tally["unknown"] > 0 and tally["down"] > 0


def test_a_server_that_is_loading_is_waited_for(tmp_path):
    with RedisServer(appendonly="yes", aof_use_rdb_preamble="no", key_load_delay="0", loading_process_events_interval_bytes="1024") as server, \
            Probe(server.url, tmp_path) as probe:
        probe.connected()
        server.client().eval("for i = 1, 20000 do redis.call('SET', 'key' .. i, i) end", 0)
        server.settings["key-load-delay"] = "150"  # microseconds: some seconds in all
        probe.say("stream 4000000 8 50")
        probe.streamed(100)
        server.restart()
        probe.streamed(100)
        check(probe.halt(), counted([server.client()], 8), lossless=False)
        assert "is still loading its data from disk" in probe.log_path.read_text()


def test_an_answer_that_is_no_redis_is_said_so(tmp_path):
    with subprocess.Popen(["/usr/bin/python3", "-m", "http.server", "0", "--bind", "127.0.0.1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path,
                          env={**os.environ, "PYTHONUNBUFFERED": "1"}, preexec_fn=end_with_parent) as other:
        try:
            port = re.search(rb"port (\d+)", other.stdout.readline()).group(1).decode()
            said = reach(f"redis://127.0.0.1:{port}")
            assert said.startswith(f"config Redis at 127.0.0.1:{port}: what answers there does not speak as Redis does"), said
        finally:
            other.kill()


SECRET = {"STAMPEDE_REDIS_PASSWORD": "secret"}
UNFIT = {
    "a wrong password": (lambda: RedisServer(password="other"), "redis://{0}", SECRET, "config Redis at {0} does not know this user with this password"),
    "no password": (lambda: RedisServer(password="other"), "redis://{0}", {}, "config Redis at {0} wants a password: give it in redis_password_file or STAMPEDE_REDIS_PASSWORD."),
    "a needless password": (RedisServer, "redis://{0}", SECRET, "config Redis at {0} has no password, but one was given"),
    "an unknown user": (RedisServer, "redis://shop@{0}", SECRET, "config Redis at {0} does not know this user"),
    "a user without rights": (lambda: RedisServer(user=["shop on >secret ~* +@all -info"]), "redis://shop@{0}", SECRET, "config Redis at {0} does not let its user run INFO"),
    "eviction": (lambda: RedisServer(maxmemory="100mb", maxmemory_policy="allkeys-lru"), "redis://{0}", {},
                 "config Redis at {0} may throw stock and orders away when its memory is full (maxmemory-policy is allkeys-lru): set it to noeviction."),
    "a replica": (lambda: RedisServer(replicaof="127.0.0.1 1"), "redis://{0}", {}, "config Redis at {0} is a replica of 127.0.0.1:1: name the master"),
    "a cluster": (lambda: RedisServer(cluster_enabled="yes"), "redis://{0}", {}, "config Redis at {0} is part of a Cluster: write redis+cluster://"),
    "no cluster": (RedisServer, "redis+cluster://{0}", {}, "config Redis at {0} is no Cluster (cluster-enabled is no): write redis://"),
    "an empty cluster": (lambda: RedisServer(cluster_enabled="yes"), "redis+cluster://{0}", {}, "timeout The Redis Cluster at {0} serves no slots yet"),
    "a Sentinel": (lambda: RedisServer(sentinel=True), "redis://{0}", {}, "config {0} is a Sentinel, not a Redis that holds data"),
    "no Sentinel": (RedisServer, "redis+sentinel://{0}/shop", {}, "config {0} is not a Sentinel but a Redis that holds data"),
    "an unknown master": (lambda: RedisServer(sentinel=True), "redis+sentinel://{0}/shop", {}, "config The Sentinel at {0} watches no master called shop"),
    "no such database": (RedisServer, "redis://{0}/99", {}, "config Redis at {0} has no database of that number"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_must_be_mended_is_one_sentence(case):
    make, url, env, want = UNFIT[case]
    with make() as server:
        said = reach(url.format(server.address), env=env)
        assert said.startswith(want.format(server.address)), said
        assert "secret" not in said


def test_what_cannot_be_reached_is_told_with_what_to_do():
    port = free_port()
    assert reach(f"redis://127.0.0.1:{port}", wait_ms=300).startswith(f"timeout Redis at 127.0.0.1:{port}: connection refused. Check that it runs there and is well, ")
    assert reach("redis://no-such-host.invalid", wait_ms=2500).startswith("timeout Redis at no-such-host.invalid:6379: ")


@pytest.mark.parametrize("host", ["[::1]", "localhost", "127.0.0.1"])
def test_addresses_of_both_kinds_and_names(host):
    with RedisServer(bind="127.0.0.1 ::1") as server:
        assert reach(f"redis://{host}:{server.port}") == "reached"


def test_a_user_a_password_file_a_database_and_a_name(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("long-secret\n")
    rights = "shop on >long-secret ~stampede:* +@all -@dangerous +info"
    with RedisServer(user=["default off", rights]) as server:
        env = {"PASSWORD_FILE": str(secret)}
        url = f"redis://shop@localhost:{server.port}/3"
        secret.chmod(0o644)
        assert "has mode 0644" in reach(url, env=env)
        secret.chmod(0o600)
        assert reach(url, env=env) == "reached"
        with Probe(url, tmp_path, env=env) as probe:
            assert probe.count("stampede:a", 1).result == "answered"
            assert probe.call("b", "GET", "b").result == "refused"
            assert probe.call("b", "KEYS", "*").result == "refused"
            assert "does not let its user run KEYS: its ACL must allow" in probe.status()["error"]
            assert probe.call("a", "GET", "stampede:a", script="-").result == "failed"  # of another type: it may read it
            assert probe.call("a", "DBSIZE").reply == "1"


def test_a_master_that_becomes_a_replica_is_left_until_it_is_one_again(alone, tmp_path):
    with RedisServer() as other, Probe(alone.url, tmp_path) as probe:
        assert probe.count("a", 1).result == "answered"
        alone.client().execute_command("REPLICAOF", other.host, other.port)
        assert probe.count("a", 2, time_ms=500).result == "down"
        wait_until("a sentence", lambda: "is a replica of" in probe.status()["error"])
        alone.client().execute_command("REPLICAOF", "NO", "ONE")
        probe.answers_again("a")
        assert probe.count("a", 3).reply.startswith("[1,")


@pytest.fixture(scope="module")
def cluster():
    with RedisCluster(appendonly="yes", appendfsync="always") as servers:
        yield servers


@pytest.fixture
def fresh(cluster):
    """The cluster, whole and empty."""
    cluster.wait_ok()
    for server in cluster.masters():
        server.client().flushall()
    return cluster


def ran_in(cluster, keys):
    return counted([server.client() for server in cluster.masters()], keys)


def test_a_cluster_is_found_from_any_seed_that_lives(fresh, tmp_path):
    seeds = ",".join([f"127.0.0.1:{free_port()}", fresh.servers[4].address])
    assert reach(f"redis+cluster://{seeds}", wait_ms=20000) == "reached"
    with Probe(f"redis+cluster://{seeds}", tmp_path) as probe:
        for number in range(50):
            key = f"key{number}"
            done = probe.count(key, number)
            assert done.result == "answered" and done.lineage == fresh.master_of(key).lineage(), done
        assert probe.call("", "PING").result == "answered"
        assert probe.status()["masters"] == "3"


def test_slots_that_move_under_load_lose_and_double_nothing(fresh, tmp_path):
    with Probe(fresh.url, tmp_path) as probe:
        probe.say("stream 4000000 16 200")
        probe.streamed(1000)
        for number in range(16):
            key = f"{{k{number}}}:h"
            source = fresh.master_of(key)
            target = next(server for server in fresh.masters() if server is not source)
            slot = fresh.slot_of(key)
            fresh.move_begin(slot, source, target)
            probe.streamed(100)
            fresh.move_keys(slot, source, target)
            probe.streamed(100)  # ASK
            fresh.move_end(slot, source, target)
            probe.streamed(100)  # MOVED
        assert int(probe.status()["repeats"]) > 0
        tally = check(probe.halt(), ran_in(fresh, 16))
        assert set(tally) == {"answered"}


def test_a_slot_in_two_places_is_waited_for(fresh, tmp_path):
    """Two keys, one here and one there: TRYAGAIN until the slot has moved."""
    fresh.wait_ok()
    source = fresh.master_of("{t}")
    target = next(server for server in fresh.masters() if server is not source)
    slot = fresh.slot_of("{t}")
    with Probe(fresh.url, tmp_path) as probe:
        assert probe.call("{t}", "MSET", "{t}1", "a", "{t}2", "b").result == "answered"
        fresh.move_begin(slot, source, target)
        source.client().execute_command("MIGRATE", target.host, target.port, "{t}1", 0, 5000)
        waiting = probe.ask("{t}", "MGET", "{t}1", "{t}2", time_ms=30000)
        assert probe.call("{t}", "MGET", "{t}1", "{t}2", time_ms=300).result == "down"
        fresh.move_keys(slot, source, target)
        fresh.move_end(slot, source, target)
        assert probe.done(waiting)[::3] == ("answered", "['a', 'b']")


def test_a_cluster_goes_on_when_a_master_is_killed(fresh, tmp_path):
    (tmp_path / "idle").mkdir()
    with Probe(fresh.url, tmp_path, call_ms=500) as probe, Probe(fresh.url, tmp_path / "idle") as idle:
        idle.connected()
        probe.say("stream 4000000 30 200")
        probe.streamed(3000)
        victim = fresh.master_of("{k0}:h")
        before = victim.lineage()
        victim.kill()
        # The others sell on before anybody has been elected, and say CLUSTERDOWN only for a while.
        wait_until("another master", lambda: fresh.master_of("{k0}:h") is not victim)
        fresh.wait_ok()
        probe.connected()
        idle.connected()  # also one that asks nothing has seen the new master
        probe.streamed(3000)
        after = probe.call("{k0}:h", "PING")
        assert after.lineage == fresh.master_of("{k0}:h").lineage() != before
        # A replica may not have had what its master answered last: that is Redis's promise, and why the ledger has the last word.
        tally = check(probe.halt(), ran_in(fresh, 30), lossless=False)
        assert tally["answered"] > 3000
        victim.start()
        fresh.wait_ok()


def test_a_cluster_master_that_hangs_is_replaced(fresh, tmp_path):
    with Probe(fresh.url, tmp_path, call_ms=500, connect_ms=500) as probe:
        victim = fresh.master_of("{k0}:h")
        assert probe.count("{k0}:h", 0).result == "answered"
        victim.pause()
        try:
            assert probe.count("{k0}:h", 1).result == "unknown"
            wait_until("the new master", lambda: probe.call("{k0}:h", "PING").result == "answered")
        finally:
            victim.resume()
        fresh.wait_ok()
        probe.answers_again("{k0}:h")


def test_a_cluster_that_was_gone_altogether_is_found_again(fresh, tmp_path):
    with Probe(fresh.url, tmp_path) as probe:
        probe.connected()
        probe.say("stream 4000000 30 100")
        probe.streamed(1000)
        for server in fresh.servers:
            server.kill()
        wait_until("down at once", lambda: probe.call("{k0}:h", "PING", time_ms=30000).result == "down")
        for server in fresh.servers:
            server.start()
        fresh.wait_ok()
        probe.connected()
        probe.streamed(1000)
        check(probe.halt(), ran_in(fresh, 30), lossless=False)


def test_sentinels_lead_to_the_next_master(tmp_path):
    passwords = {"STAMPEDE_REDIS_PASSWORD": "one", "STAMPEDE_REDIS_SENTINEL_PASSWORD": "two"}
    with RedisSentinels(password="one", sentinel_password="two") as servers:
        said = reach(servers.url, env={"STAMPEDE_REDIS_PASSWORD": "one"})
        assert "STAMPEDE_REDIS_SENTINEL_PASSWORD" in said
        assert reach(servers.url, env=passwords) == "reached"
        with Probe(servers.url, tmp_path, env=passwords, call_ms=500) as probe:
            probe.say("stream 4000000 4 100")
            probe.streamed(2000)
            servers.sentinels[0].kill()
            old = servers.master()
            before = old.lineage()
            old.kill()
            new = servers.wait_other_master(old)
            wait_until("the new master", lambda: probe.call("a", "PING").lineage == new.lineage())
            probe.streamed(2000)
            old.start()
            probe.streamed(2000)
            assert probe.call("a", "PING").lineage == new.lineage() != before
            tally = check(probe.halt(), counted([new.client()], 4), lossless=False)
            assert tally["answered"] > 4000 and tally["down"] > 0
            # Without any Sentinel the master that is known still serves.
            for server in servers.sentinels:
                server.kill()
            wait_until("nobody to ask", lambda: "The Sentinel at" in probe.status()["error"])
            assert probe.count("{k0}:h", "last").result == "answered"
