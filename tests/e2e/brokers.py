"""Brokers that events are published to, real ones but for Kafka: each in a folder of its own, on ports of its own, ended by whoever started it."""

import base64
import contextlib
import json
import os
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import pika
import pytest
import redis
from harness import end_with_parent, eventually
from ports import free_port

HERE = pathlib.Path(__file__).parent


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Event:
    """One message as a consumer sees it."""

    def __init__(self, id, key, type, body):
        self.id, self.key, self.type = id, key, type
        self.json = json.loads(body)

    @property
    def data(self):
        return self.json["data"]


class Broker:
    """A process in a folder. up() and down() may be repeated: what was confirmed is still there after."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="stampede-broker-"))
        self.processes = []

    def spawn(self, *command, **more):
        with open(self.folder / "log", "ab") as log:
            process = subprocess.Popen([*map(str, command)], stdout=more.pop("stdout", log), stderr=log, cwd=self.folder, preexec_fn=end_with_parent, **more)
        self.processes.append(process)
        return process

    def log(self):
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def reap(self, process, kill=True):
        if kill:
            process.kill()
        process.wait(60)
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        self.processes.remove(process)

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        for process in [*self.processes]:
            self.reap(process)
        shutil.rmtree(self.folder, ignore_errors=True)


class Redis(Broker):
    def __init__(self, password=None):
        super().__init__()
        self.port, self.password = free_port(), password
        self.stream = "shop:orders"
        self.url = f"redis://127.0.0.1:{self.port}/{self.stream}"
        self.process = None

    def up(self):
        password = ["--requirepass", self.password] if self.password else []
        self.process = self.spawn("redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder, "--appendonly", "yes", "--appendfsync",
                                  "always", *password)
        eventually(lambda: answers(self.port), 30)
        eventually(self.loaded, 30)

    def loaded(self):
        with contextlib.suppress(redis.RedisError), self.client() as client:
            return client.ping()
        return False

    def down(self):
        self.reap(self.process)

    def client(self):
        return redis.Redis(port=self.port, password=self.password, decode_responses=True)

    def events(self):
        with self.client() as client:
            return [Event(**fields) for _, fields in client.xrange(self.stream)]


class Rabbit(Broker):
    """A node with its own cookie and its own epmd, known to nobody else."""

    def __init__(self):
        super().__init__()
        self.port, self.epmd_port, self.dist_port = free_port(), free_port(), free_port()
        self.user, self.password, self.exchange, self.queue = "shop", "p@ss word", "orders", "all"
        self.url = f"amqp://{self.user}@127.0.0.1:{self.port}/%2f?exchange={self.exchange}"
        self.process = self.epmd = None
        (self.folder / ".erlang.cookie").write_text(secrets.token_hex(16))
        (self.folder / ".erlang.cookie").chmod(0o400)
        (self.folder / "enabled_plugins").write_text("[].\n")
        (self.folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\ndefault_user = {self.user}\ndefault_pass = {self.password}\n"
                                                   "loopback_users = none\nlog.console = true\nlog.console.level = warning\nlog.file = false\n"
                                                   "disk_free_limit.absolute = 1MB\n")

    def environment(self):
        settings = {"HOME": self.folder, "ERL_EPMD_PORT": self.epmd_port, "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_NODENAME": f"t{self.port}@localhost",
                    "RABBITMQ_NODE_PORT": self.port, "RABBITMQ_DIST_PORT": self.dist_port, "RABBITMQ_MNESIA_BASE": self.folder / "mnesia",
                    "RABBITMQ_LOG_BASE": self.folder / "logs", "RABBITMQ_CONFIG_FILE": self.folder / "rabbitmq.conf",
                    "RABBITMQ_ADVANCED_CONFIG_FILE": self.folder / "none", "RABBITMQ_CONF_ENV_FILE": self.folder / "none", "RABBITMQ_LOGS": "-",
                    "RABBITMQ_ALLOW_INPUT": 1,  # then the script becomes the server, instead of waiting for it
                    "RABBITMQ_ENABLED_PLUGINS_FILE": self.folder / "enabled_plugins", "RABBITMQ_PID_FILE": self.folder / "pid",
                    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none"}
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **{name: str(value) for name, value in settings.items()}}

    def up(self):
        if self.epmd is None:
            self.epmd = self.spawn("epmd", "-port", self.epmd_port, "-address", "127.0.0.1")
            eventually(lambda: answers(self.epmd_port), 30)
        first = not (self.folder / "mnesia").exists()
        self.process = self.spawn("/usr/lib/rabbitmq/bin/rabbitmq-server", env=self.environment(), stdin=subprocess.PIPE)
        eventually(self.ready, 300, 0.2)
        if first:
            with self.channel() as channel:
                channel.exchange_declare(self.exchange, "topic", durable=True)
                channel.queue_declare(self.queue, durable=True)
                channel.queue_bind(self.queue, self.exchange, "#")

    def ready(self):
        with contextlib.suppress(pika.exceptions.AMQPError, OSError), self.channel():
            return True
        assert self.process.poll() is None, self.log()
        return False

    @contextlib.contextmanager
    def channel(self):
        login = pika.PlainCredentials(self.user, self.password)
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, "/", login, heartbeat=0))
        try:
            yield connection.channel()
        finally:
            with contextlib.suppress(pika.exceptions.AMQPError):
                connection.close()

    def down(self):
        """Kills it: what it has confirmed is on its disk."""
        self.reap(self.process)
        eventually(lambda: not answers(self.port), 60)

    def events(self, queue=None):
        """All there are, which stay there."""
        found = []
        with self.channel() as channel:
            for method, properties, body in channel.consume(queue or self.queue, inactivity_timeout=0.3):
                if method is None:
                    break
                assert properties.content_type == "application/json" and properties.delivery_mode == 2 and properties.app_id == "stampede"
                found.append(Event(properties.message_id, properties.correlation_id, properties.type, body))
            channel.cancel()
        return found


class Kafka(Broker):
    """The mock cluster of librdkafka, in kafka_cluster.c: no Kafka is packaged for Debian. It forgets nothing while it is down, and everything when it ends."""

    def __init__(self, program):
        super().__init__()
        self.program, self.topic = program, "orders"
        self.process = self.url = None
        self.lines, self.lock = [], threading.Lock()

    def up(self):
        if self.process:
            self.say("up")
            return
        self.process = self.spawn(self.program, self.topic, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        servers = self.process.stdout.readline().strip()
        assert servers, self.log()
        self.url = f"kafka://{servers}/{self.topic}"
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                with self.lock:
                    self.lines.append(line)

    def say(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def down(self):
        self.say("down")

    def events(self):
        with self.lock:
            lines = [*self.lines]
        return [Event(*(base64.b64decode(part).decode() for part in line.split())) for line in lines]


def kafka_program(folder):
    """Compiles kafka_cluster.c."""
    path = pathlib.Path(folder) / "kafka_cluster"
    done = subprocess.run([os.environ.get("CC", "gcc"), "-Wall", "-Wextra", "-Werror", "-o", path, HERE / "kafka_cluster.c", "-lrdkafka", "-lcrypto", "-lpthread"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done
    return path


def settled(events):
    """The events without repetitions, in the order in which each came first. A repetition says just what the first one said."""
    firsts = {}
    for event in events:
        first = firsts.setdefault(event.id, event)
        assert (first.key, first.type, first.json) == (event.key, event.type, event.json), event.id
        assert re.fullmatch(r"evt_[0-9a-f]{16}_[1-9][0-9]*", event.id)
    return list(firsts.values())


def wait_for(broker, count, seconds=60):
    """Until so many different events have arrived; then a moment more, in which no other comes."""
    eventually(lambda: len(settled(broker.events())) >= count, seconds, 0.1)
    time.sleep(0.3)
    found = settled(broker.events())
    assert len(found) == count, [event.json for event in found]
    return found


# Fixtures of each, by the schemes of their URLs.

BROKERS = {"redis": "redis_server", "amqp": "rabbit", "kafka": "kafka"}


@pytest.fixture(scope="module")
def rabbit_node():
    with Rabbit() as one:
        yield one


@pytest.fixture
def rabbit(rabbit_node):
    """Starting RabbitMQ takes long: one for all tests, with an empty queue for each."""
    with rabbit_node.channel() as channel:
        channel.queue_purge(rabbit_node.queue)
    return rabbit_node


@pytest.fixture(scope="module")
def kafka_binary(tmp_path_factory):
    return kafka_program(tmp_path_factory.mktemp("kafka"))


@pytest.fixture
def kafka(kafka_binary):
    with Kafka(kafka_binary) as one:
        yield one


@pytest.fixture
def redis_server():
    with Redis("correct horse") as one:
        yield one
