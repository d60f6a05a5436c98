"""Real Redis servers for tests: one alone (RedisServer), a Cluster of six (RedisCluster), a master with replicas under three
Sentinels (RedisSentinels). Each lives in a temporary folder on free ports of loopback and is ended, by its pid, by whoever started it:

    with RedisCluster() as cluster:
        cluster.master_of("{sale:1}").kill()
        cluster.wait_ok()

They are `redis-server` from the path, or what STAMPEDE_TEST_REDIS names, as Valkey's (tools/bring-peers valkey prints one). Nothing is kept on disk
unless asked for."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import redis
from harness import end_with_parent
from peers import brought
from ports import free_port

READY_S_MAX = 60
# Failovers take a few times this long; real ones are set to 15 s and more.
NODE_TIMEOUT_MS = 1500
SLOTS = 16384


def wait_until(what, condition, seconds=READY_S_MAX):
    """Waits for a condition; its value. While servers come and go, asking one of them fails now and then: that is 'not yet'."""
    end, last = time.monotonic() + seconds, None
    while True:
        try:
            value = condition()
            if value:
                return value
        except (redis.RedisError, OSError) as error:
            last = error
        assert time.monotonic() < end, f"{what}: not within {seconds} s ({last})"
        time.sleep(0.05)


def commands_during(server, work):
    """What clients ask a server for while that is done, without what its scripts do; each command as one line."""
    lines = []
    with server.client().monitor() as monitor:
        work()
        server.client().echo("over")
        while (got := monitor.next_command())["command"] != "ECHO over":
            if got["client_type"] != "lua":
                lines.append(got["command"])
    return lines


class RedisServer:
    """One redis-server. Settings are those of redis.conf: RedisServer(maxmemory="10mb", maxmemory_policy="allkeys-lru"); one that may be
    given several times is a list (user=["default off", "shop on >secret ~* +@all"])."""

    program = os.environ.get("STAMPEDE_TEST_REDIS", "redis-server")

    def __init__(self, password=None, sentinel=False, **settings):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="stampede-redis-"))
        self.password = password
        self.sentinel = sentinel
        self.settings = {} if sentinel else {"save": '""', "appendonly": "no", "repl-diskless-sync-delay": "0"}
        if password:
            self.settings["requirepass"] = password
            if not sentinel:
                self.settings["masterauth"] = password
        self.settings.update({name.replace("_", "-"): value for name, value in settings.items()})
        self.host, self.port, self.bus_port = "127.0.0.1", None, None
        self.prefix = []  # words before the command, where it is to run somewhere else
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    @property
    def url(self):
        return f"redis://{self.address}"

    @property
    def pid(self):
        return self.process.pid

    def client(self, **options):
        """A new client; the caller may leave it to the garbage collector."""
        return redis.Redis(self.host, self.port, password=self.password, socket_timeout=10, decode_responses=True, **options)

    def run_id(self):
        return self.client().info("server")["run_id"]

    def lineage(self):
        """What nodes know its data by: another after a restart, and after it was a replica."""
        return self.run_id() + "-" + self.client().info("replication")["master_replid"]

    def role(self):
        return self.client().execute_command("ROLE")[0]

    def log(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "log").read_text(errors="replace")
        return ""

    def _config(self):
        lines = [f"port {self.port}", f"bind {self.host}", f"dir {self.folder}", "daemonize no"]
        if self.settings.get("cluster-enabled") == "yes":
            lines.append(f"cluster-port {self.bus_port}")
        for name, value in self.settings.items():
            lines += [f"{name} {one}" for one in (value if isinstance(value, list) else [value])]
        return "\n".join(lines) + "\n"

    def start(self):
        """Starts it, the first time on a port of its own, later on the same one. Whatever it keeps on disk is still there."""
        assert self.process is None, "already started"
        for tries_left in reversed(range(5)):
            fresh = self.port is None
            if fresh:
                self.port, self.bus_port = free_port(), free_port()
            # A Sentinel writes what it learns into its configuration; started again it goes on from there.
            if fresh or not self.sentinel:
                (self.folder / "conf").write_text(self._config())
            command = [*self.prefix, self.program, str(self.folder / "conf")] + (["--sentinel"] if self.sentinel else [])
            with open(self.folder / "log", "ab") as log:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=end_with_parent)
            if self._answers():
                return self
            self.process = None
            if not fresh:
                break
            self.port = None
        raise AssertionError(f"{self.program} did not start ({tries_left} tries left)\n{self.log()}")

    def _answers(self):
        """Waits until it answers; false when it has ended."""
        end = time.monotonic() + READY_S_MAX
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.client().ping()
                return True
            except redis.exceptions.BusyLoadingError:
                pass
            except redis.exceptions.ConnectionError as error:
                # With the default user off, being asked for a password is answer enough.
                if isinstance(error, redis.exceptions.AuthenticationError):
                    return True
            except redis.exceptions.ResponseError:
                return True
            time.sleep(0.02)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        return False

    def kill(self):
        """kill -9: nothing is said to anybody."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self):
        """As an operator would; what is to be kept is kept."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def restart(self):
        """Killed and started on the same port: empty, unless it was told to keep something, and with a new run id."""
        self.kill()
        return self.start()

    def pause(self):
        """It is there and says nothing: to its clients as a machine that hangs, or a network that swallows."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Valkey(RedisServer):
    """The same, of Valkey whatever the others are."""

    def __init__(self, **options):
        super().__init__(**options)
        self.program = os.environ.get("STAMPEDE_TEST_REDIS") or brought("valkey")


class Servers:
    """Several that are closed together, also when starting one of them fails."""

    def __init__(self):
        self.servers = []

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def close(self):
        for server in self.servers:
            server.close()

    def logs(self):
        return "\n".join(f"--- {server.address}\n{server.log()}" for server in self.servers)


class RedisCluster(Servers):
    """Masters 0 to 2, each with a third of the slots, and their replicas 3 to 5 (in the beginning)."""

    def __init__(self, masters=3, replicas=1, password=None, **settings):
        super().__init__()
        self.masters_count = masters
        settings = {"cluster_enabled": "yes", "cluster_node_timeout": str(NODE_TIMEOUT_MS), "cluster_config_file": "nodes.conf", **settings}
        self.servers = [RedisServer(password=password, **settings) for _ in range(masters * (1 + replicas))]
        self.password = password

    @property
    def url(self):
        return "redis+cluster://" + ",".join(server.address for server in self.servers)

    def start(self):
        for server in self.servers:
            server.start()
        self.meet()
        for number in range(self.masters_count):
            low, high = SLOTS * number // self.masters_count, SLOTS * (number + 1) // self.masters_count - 1
            self.servers[number].client().execute_command("CLUSTER", "ADDSLOTSRANGE", low, high)
        for number, server in enumerate(self.servers[self.masters_count:]):
            server.client().execute_command("CLUSTER", "REPLICATE", self.node_id(self.servers[number % self.masters_count]))
        self.wait_ok()
        return self

    def meet(self):
        """All know all. Who does not answer within the node timeout is forgotten, by one side or both, and has to be met again."""
        ids = {server: self.node_id(server) for server in self.servers}

        def met():
            strangers = 0
            for server in self.servers:
                known = server.client().execute_command("CLUSTER", "NODES")
                for other in [other for other in self.servers if ids[other] not in known]:
                    server.client().execute_command("CLUSTER", "MEET", other.host, other.port, other.bus_port)
                    strangers += 1
            return strangers == 0
        wait_until("servers that all know each other", met)

    @staticmethod
    def node_id(server):
        return server.client().execute_command("CLUSTER", "MYID")

    def running(self):
        return [server for server in self.servers if server.process is not None]

    def wait_ok(self, seconds=READY_S_MAX):
        """Every server that runs says that all slots are served, they agree on who serves them, and no replica is still being filled."""
        def agreed():
            views = set()
            for server in self.running():
                client = server.client()
                if "cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
                    return False
                info = client.info("replication")
                if info["role"] == "slave" and info["master_link_status"] != "up":
                    return False
                views.add(str(sorted((low, high, tuple(master[:2])) for low, high, master, *_ in self._slots(client))))
            return len(views) == 1
        wait_until("a cluster that is whole", agreed, seconds)

    @staticmethod
    def _slots(client):
        return client.execute_command("CLUSTER", "SLOTS")

    def slot_of(self, key):
        return int(self.running()[0].client().execute_command("CLUSTER", "KEYSLOT", key))

    def by_port(self, port):
        return next(server for server in self.servers if server.port == port)

    def master_of(self, key):
        """The server that serves the key's slot, as the first that runs sees it; while another takes over, nobody may for a moment."""
        slot = self.slot_of(key)

        def served():
            slots = self._slots(self.running()[0].client())
            return next((self.by_port(master[1]) for low, high, master, *_ in slots if low <= slot <= high), None)
        return wait_until(f"somebody who serves slot {slot}", served)

    def masters(self):
        return [self.by_port(master[1]) for master in {tuple(entry[2][:2]) for entry in self._slots(self.running()[0].client())}]

    def move_begin(self, slot, source, target):
        """The slot is between the two: keys that are gone from the source are answered with ASK."""
        target.client().execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.node_id(source))
        source.client().execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.node_id(target))

    def move_keys(self, slot, source, target):
        client = source.client()
        keys = client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000)
        if keys:
            auth = ["AUTH", self.password] if self.password else []
            client.execute_command("MIGRATE", target.host, target.port, "", 0, 5000, *auth, "KEYS", *keys)
        return keys

    def move_end(self, slot, source, target):
        """From here on the source answers MOVED."""
        target_id = self.node_id(target)
        for server in [target, source] + [s for s in self.masters() if s not in (source, target)]:
            server.client().execute_command("CLUSTER", "SETSLOT", slot, "NODE", target_id)

    def move(self, key, target):
        """All three, for the slot of a key."""
        slot, source = self.slot_of(key), self.master_of(key)
        self.move_begin(slot, source, target)
        while self.move_keys(slot, source, target):
            pass
        self.move_end(slot, source, target)


class RedisSentinels(Servers):
    """A master (servers[0]) and its replicas, watched by three Sentinels of which two must agree."""

    NAME = "shop"

    def __init__(self, replicas=2, sentinels=3, password=None, sentinel_password=None, **settings):
        super().__init__()
        self.data = [RedisServer(password=password, **settings) for _ in range(1 + replicas)]
        self.sentinels = [RedisServer(password=sentinel_password, sentinel=True) for _ in range(sentinels)]
        self.servers = self.data + self.sentinels
        self.password = password

    @property
    def url(self):
        return "redis+sentinel://" + ",".join(server.address for server in self.sentinels) + "/" + self.NAME

    def start(self):
        first = self.data[0].start()
        for server in self.data[1:]:
            server.settings["replicaof"] = f"{first.host} {first.port}"
            server.start()
        lines = [f"monitor {self.NAME} {first.host} {first.port} 2", f"down-after-milliseconds {self.NAME} 1000", f"failover-timeout {self.NAME} 4000"]
        lines += [f"auth-pass {self.NAME} {self.password}"] if self.password else []
        for server in self.sentinels:
            server.settings["sentinel"] = lines + ([f"sentinel-pass {server.password}"] if server.password else [])
            server.start()
        wait_until("Sentinels that know all", self._all_known)
        return self

    def _all_known(self):
        for server in self.sentinels:
            if server.process is None:
                continue
            state = server.client().sentinel_masters()[self.NAME]
            if state["num-slaves"] < len(self.data) - 1 or state["num-other-sentinels"] < len(self.sentinels) - 1:
                return False
        return all(s.client().info("replication").get("master_link_status", "up") == "up" for s in self.data if s.process is not None)

    def master(self):
        """The server that most Sentinels call the master; None while they do not agree."""
        named = []
        for server in self.sentinels:
            if server.process is not None:
                with contextlib.suppress(redis.RedisError):
                    named.append(tuple(server.client().execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME)))
        best = max(set(named), key=named.count, default=None)
        if best is None or named.count(best) * 2 <= len(self.sentinels):
            return None
        return next(server for server in self.data if server.port == int(best[1]))

    def wait_other_master(self, old, seconds=READY_S_MAX):
        """Waits until the Sentinels agree on one that is not old and it takes itself for the master."""
        def promoted():
            now = self.master()
            return now if now is not None and now is not old and now.role() == "master" else None
        return wait_until("another master", promoted, seconds)
