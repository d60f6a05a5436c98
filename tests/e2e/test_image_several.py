"""The profile several of deploy/compose.yml, started as a whole: two nodes of the image, MariaDB, Redis and nginx, on a network of their own where they have
the names and the addresses that it gives them; each with the command, the user, the settings and the secrets that it says, and no others.

What cannot be had here is Docker, and the images of the other three, which are in a registry. Theirs are roots with the programs of this machine in them, and
what the image of MariaDB does before it starts one is done by a few lines of shell. A container that has ended is reached by nobody, as Docker's is: not even
by a refusal."""

import contextlib
import itertools
import json
import os
import socket
import ssl
import threading
import time

import pytest
from boxes import COMPOSE, DATA, DEPLOY, IMAGE, PORT, SECRETS, SERVICES, USER, Boxed, flags_of, image_engine, secrets_make
from containers import Bridge
from fronts import From
from harness import PATIENCE_S, STOOD_STILL, Client, Shop, beside, claims_of, eventually, keys_of, token_sign

PROFILE = {name: service for name, service in SERVICES.items() if "several" in service["profiles"]}
NODES = ("node1", "node2")
SHOP = SERVICES["front"]["environment"]["SHOP"]
WORLD = "203.0.113."
BUYERS, MORE = 12, 60  # at once, and how many wins are waited for
# Folders of each image that its server writes to, and whose they are.
WRITES = {"mariadb": (("var/lib/mysql", 999), ("run/mysqld", 999)), "redis": (("data", 999),), "front": (("var/log/nginx", 0), ("var/lib/nginx", 0))}
PASSWD = "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\nserver:x:999:999::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"
GROUP = "root:x:0:\nwww-data:x:33:\nserver:x:999:\nnogroup:x:65534:\n"
# Its docker-entrypoint.sh, as far as compose.yml has it do something: what is in the volume already stays, and the command of the service is flags.
MARIADB = r"""
if ! [ -d /var/lib/mysql/mysql ]; then
    [ "$MARIADB_RANDOM_ROOT_PASSWORD" = 1 ]
    mariadb-install-db --datadir=/var/lib/mysql --skip-test-db --auth-root-authentication-method=normal > /dev/null
    mariadbd --datadir=/var/lib/mysql --bootstrap <<END
FLUSH PRIVILEGES;
ALTER USER root@localhost IDENTIFIED BY '$(cat /proc/sys/kernel/random/uuid)';
CREATE DATABASE $MARIADB_DATABASE;
CREATE USER $MARIADB_USER@'%' IDENTIFIED BY '$(cat "$MARIADB_PASSWORD_FILE")';
GRANT ALL ON $MARIADB_DATABASE.* TO $MARIADB_USER@'%';
END
fi
exec mariadbd --datadir=/var/lib/mysql --socket=/run/mysqld/mysqld.sock "$@"
"""


def root_make(folder, writes):
    """A root for programs of this machine: those, and nothing else of it."""
    for name in ("usr", "etc", "proc", "sys", "dev", "run", "tmp"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    for name, text in (("passwd", PASSWD), ("group", GROUP)):
        (folder / "etc" / name).write_text(text)
        (folder / "etc" / name).chmod(0o644)
    (folder / "tmp").chmod(0o1777)
    for name, owner in writes:
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(0o755)
        os.chown(folder / name, owner, owner)
    return folder


class Several:
    """All of it, and who asks its front from outside. A Shop can be opened in it."""

    def __init__(self, engine):
        self.engine, self.secrets = engine, secrets_make(engine)
        self.bridge = Bridge(engine, COMPOSE["networks"]["shop"]["ipam"]["config"][0]["subnet"], WORLD + "0/24")
        fixed = {name: service["networks"]["shop"]["ipv4_address"] for name, service in PROFILE.items() if isinstance(service["networks"], dict)}
        self.ways = {name: self.bridge.attach(fixed.get(name)) for name in PROFILE}  # words of podman run, address
        self.roots = {name: root_make(engine.folder / "roots" / name, writes) for name, writes in WRITES.items()}
        self.boxes = {}
        self.kid, self.key = keys_of(self.secrets)[0]
        self.context = ssl.create_default_context(cafile=str(self.secrets / "tls_cert"))

    def start(self):
        """Each once those are healthy that it depends on."""
        while len(self.boxes) < len(PROFILE):
            ready = [name for name, service in PROFILE.items() if name not in self.boxes and set(service.get("depends_on", {})) <= set(self.boxes)]
            assert ready, "they wait for each other"
            for name in ready:
                self.make(name)
            for name in ready:
                self.await_healthy(name)
        return self

    def make(self, name):
        self.boxes[name] = Boxed(self.engine, name, self.flags(name), self.words(name))

    def flags(self, name):
        service = PROFILE[name]
        flags = [*flags_of(service), self.ways[name][0], *(f"--add-host={other}:{address}" for other, (_, address) in self.ways.items())]
        flags += [f"--volume={self.secrets / secret}:{SECRETS}/{secret}:ro" for secret in service["secrets"]]
        # Those of MariaDB and Redis are folders of their roots, which outlive a container as well.
        volumes = [volume for volume in service["volumes"] if name in NODES or volume.startswith(".")]
        return flags + [f"--volume={DEPLOY / volume if volume.startswith('.') else volume}" for volume in volumes]

    def words(self, name):
        command = [word.replace("$$", "$") for word in PROFILE[name].get("command", [])]
        if name not in WRITES:
            assert not command
            return [IMAGE]
        if name == "mariadb":
            command = ["sh", "-euc", MARIADB, "mariadbd", *command]
        return ["--volume=/usr:/usr:ro", "--rootfs", self.roots[name], *command]

    def await_healthy(self, name):
        def well():
            assert self.boxes[name].state()["Running"], self.boxes[name].log()
            return self.healthy(name)
        eventually(well)

    def healthy(self, name):
        """As compose.yml asks, but for MariaDB, whose script for it is in its image."""
        box = self.boxes[name]
        if name in NODES:
            return box.healthy()
        if name == "redis":
            kind, command = PROFILE[name]["healthcheck"]["test"]
            assert kind == "CMD-SHELL"
            return box.inside("sh", "-c", command.replace("$$", "$")).returncode == 0
        if name == "mariadb":
            return box.inside("mariadb-admin", "--protocol=tcp", "ping").returncode == 0
        with contextlib.suppress(OSError):
            self.raw().close()
            return True
        return False

    def link(self, name, way):
        """What Docker takes away from a container that has ended, and gives it when it starts again."""
        self.bridge.link_set(self.ways[name][1], way)

    def end(self, name, way):
        status = getattr(self.boxes[name], way)()
        self.link(name, "down")
        return status

    def again(self, name):
        self.link(name, "up")
        self.engine.do("start", name)
        self.await_healthy(name)

    def log(self):
        return "".join(f"--- {name}\n{box.log()[-6000:]}" for name, box in self.boxes.items())

    # Buyers ask the front.

    def raw(self, timeout=30, source=WORLD + "1"):
        (inner,) = [port.split(":")[1] for port in PROFILE["front"]["ports"] if port.endswith("443")]
        with self.bridge.outside():
            plain = socket.create_connection((self.ways["front"][1], int(inner)), timeout, source_address=(source, 0))
        return self.context.wrap_socket(plain, server_hostname=SHOP)

    def connect(self, timeout=30):
        return Client(self, timeout)

    def token(self, name, role="customer"):
        return token_sign(claims_of(name, role), self.kid, bytes.fromhex(self.key))

    def wins_of(self, node):
        """How many wins a node has told, as it says itself."""
        with self.bridge.outside(), socket.create_connection((self.ways[node][1], PORT), 30) as sock:
            sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            text = b"".join(iter(lambda: sock.recv(65536), b"")).decode()
        return sum(int(line.split()[-1]) for line in text.splitlines() if line.startswith('stampede_grabs_total{verdict="WON"}'))


class Crowd:
    """Buyers from as many addresses, who grab one after the other until it is over; who hears nothing certain asks again."""

    def __init__(self, several, sale):
        self.several, self.sale = several, sale
        self.won, self.heard, self.over = {}, [], threading.Event()

    def buy(self, nth):
        with From(self.several, f"{WORLD}{nth + 10}") as client:
            for n in itertools.count():
                if self.over.is_set():
                    return
                self.win(client, f"b{nth}-{n}")
                time.sleep(0.05)

    def win(self, client, name):
        token, unsure, end = self.several.token(name), False, time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < end, self.heard[-1]
            answer = client.post(f"/v1/sales/{self.sale}/grabs", None, token, key=name)
            if answer.status == 201 or unsure and answer.code == "ALREADY_WON":
                self.won[answer.json()["order"]["no"]] = name
                return
            assert answer.status == 503, answer
            self.heard.append((name, answer))
            unsure = True
            time.sleep(0.1)

    def go_on(self, count=MORE):
        """Until so many more have won."""
        enough = len(self.won) + count
        eventually(lambda: len(self.won) >= enough)

    def undisturbed(self, but=0):
        """Nobody was told to come again, but so many whose request was under way, once each; or by a machine that stood still."""
        sure = len(self.heard) <= but and len(self.heard) == len({name for name, _ in self.heard})
        assert sure and {answer.code for _, answer in self.heard} <= {"OUTCOME_UNKNOWN"} or STOOD_STILL.search(self.several.log()), self.heard

    def has_what_it_won(self, shop):
        """Every order that was told, and no other, at the front, in the ledger and in Redis."""
        won = len(self.won)
        assert shop.counts(self.sale) == (10 ** 5, 10 ** 5 - won, 0, won) and len(set(self.won.values())) == won, "somebody has two orders"
        for no, buyer in list(self.won.items())[::won // 40 + 1]:  # as many as the front lets one ask at once
            answer = shop.order(no)
            assert answer.status == 200 and answer.json()["buyer"] == buyer, (no, answer)
        for node in NODES:
            said = self.several.boxes[node].inside("stampede", "reconcile")
            assert said.returncode == 0 and " 0 differ" in said.stdout, said

        def filed():
            said = self.several.boxes["node2"].inside("stampede", "export", "orders", "--format", "jsonl").stdout
            return {str(row["no"]): row["buyer"] for row in map(json.loads, said.splitlines()) if str(row["sale"]) == self.sale} == self.won
        eventually(filed)


@pytest.fixture(scope="module")
def several():
    with image_engine() as engine:
        one = Several(engine)
        try:
            yield one.start()
        finally:
            print(one.log())


def test_nobody_reads_or_shows_more_secrets_than_are_said(several):
    texts = {path.name: path.read_text().strip() for path in several.secrets.iterdir()}
    for name, box in several.boxes.items():
        mine = set(PROFILE[name]["secrets"])
        assert set(box.inside("ls", SECRETS).stdout.split()) == mine and mine < set(texts), name
        for secret in mine:
            path = f"{SECRETS}/{secret}"
            assert box.inside("cat", path).stdout.strip() == texts[secret], (name, secret)
            # Another user of the same container: workers of nginx are such.
            done = box.inside("cat", path, flags=["--user=33:33"])
            assert done.returncode == 1 and "Permission denied" in done.stderr, (name, secret, done)
            assert box.inside("sh", "-c", f": >> {path}").returncode != 0, (name, secret, "can be written")
        shown = box.inside("sh", "-c", "cat /proc/[0-9]*/cmdline /proc/1/environ").stdout + several.engine.do("inspect", name) + box.log()
        assert not [secret for secret, text in texts.items() if text in shown], name


def test_everybody_runs_as_the_user_that_is_said(several):
    for name, box in several.boxes.items():
        status = box.status()
        user = PROFILE[name].get("user", f"{USER}:{USER}" if name in NODES else "0:0")
        assert f"{status['Uid'].split()[1]}:{status['Gid'].split()[1]}" == user, (name, status)
        first = {"mariadb": "mariadbd", "redis": "redis-server", "front": "nginx"}.get(name, "stampede")
        assert status["Name"] == first, "a shell before it would keep SIGTERM from it"
    for name in NODES:
        box, status = several.boxes[name], several.boxes[name].status()
        assert {int(status[cap], 16) for cap in status if cap.startswith("Cap")} == {0} and status["NoNewPrivs"] == "1", name
        assert "Read-only" in box.inside("touch", "/etc/x").stderr and box.inside("touch", f"{DATA}/x", "/tmp/x").returncode == 0, name


def test_buyers_at_the_front_lose_nothing_when_nodes_are_killed_and_stopped(several):
    shop = Shop(several)
    sale = shop.sale(stock=10 ** 5)["id"]
    crowd = Crowd(several, sale)
    with beside(*(lambda nth=nth: crowd.buy(nth) for nth in range(BUYERS)), until=crowd.over):
        crowd.go_on()
        crowd.undisturbed()
        assert min(several.wins_of(node) for node in NODES) > 0, "only one of them is asked"

        assert several.end("node1", "kill") == 137
        crowd.go_on()
        crowd.undisturbed(but=BUYERS)
        heard = {name for name, _ in crowd.heard}
        eventually(lambda: heard <= set(crowd.won.copy().values()))  # what they asked for again
        crowd.heard.clear()
        time.sleep(5)  # nginx asks there again, where nobody is any more
        crowd.go_on()
        crowd.undisturbed()
        several.again("node1")
        eventually(lambda: several.wins_of("node1") > 0)

        assert several.end("node2", "stop") == 0, several.boxes["node2"].log()
        time.sleep(5)
        crowd.go_on()
        crowd.undisturbed()
        several.again("node2")

    crowd.has_what_it_won(shop)
    shop.close()


def test_a_database_that_is_killed_and_made_anew_has_what_was_told(several):
    """As compose does it with a service that has changed: another container, which is another host, on the same volume."""
    shop = Shop(several)
    crowd = Crowd(several, shop.sale(stock=10 ** 5)["id"])
    with beside(*(lambda nth=nth: crowd.buy(nth) for nth in range(BUYERS)), until=crowd.over):
        for _ in range(2):
            crowd.go_on()
            assert several.end("mariadb", "kill") == 137
            several.boxes["mariadb"].remove()
            several.link("mariadb", "up")
            several.make("mariadb")
            several.await_healthy("mariadb")
        crowd.go_on()
    crowd.has_what_it_won(shop)
    shop.close()
