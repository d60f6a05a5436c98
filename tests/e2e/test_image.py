"""deploy/Dockerfile is built, and what comes of it runs as deploy/compose.yml says: locked down, and none of the promises is gone for that.

podman reads a Dockerfile as Docker does, and needs no daemon. The network of a container is its own loopback, so 20080 is nobody else's."""

import contextlib
import json
import re
import signal
import socket
import threading
import time

import pytest
from boxes import DATA, DEPLOY, IMAGE, PORT, SECRETS, SERVICES, USER, Boxed, flags_of, image_engine, limits, secrets_make
from harness import ROOT, Client, Shop, beside, claims_of, eventually, keys_of, request_bytes, token_sign
from terminal import on_a_terminal

SIZE_MB_MAX = 130  # Debian's part is 78 of it
PASSWORD = "five purple elephants"


@pytest.fixture(scope="module")
def engine():
    with image_engine() as one:
        yield one


@pytest.fixture(scope="module")
def about(engine):
    """What the image says of itself."""
    (said,) = json.loads(engine.do("image", "inspect", IMAGE))
    return said


@pytest.fixture(scope="module")
def secrets(engine):
    return secrets_make(engine)


@pytest.fixture
def boxed(engine, secrets):
    """Makes servers in containers, and ends them."""
    made = []

    def make(**more):
        made.append(Single(engine, secrets, f"box{len(engine.names)}", **more))
        engine.names.append(made[-1].name)
        return made[-1]

    yield make
    for one in made:
        one.remove()


class Single(Boxed):
    """The service single of compose.yml on a volume of its own, with keys out of a secret so that tokens can be made here. A Shop can be opened in it."""

    def __init__(self, engine, secrets, name, wait=True):
        self.secrets = secrets
        given = [f"--volume={secrets / secret}:{SECRETS}/{secret}:ro" for secret in ("keys", "payment_keys")]
        given += [f"--env={option}={SERVICES['node1']['environment'][option]}" for option in ("STAMPEDE_KEYS", "STAMPEDE_PAYMENT_KEYS")]
        assert SERVICES["single"]["read_only"] is True
        super().__init__(engine, name, [*flags_of(SERVICES["single"]), "--network=none", *given, f"--volume={name}:{DATA}"], [IMAGE])
        if wait:
            self.ready()

    def ready(self):
        def answers():
            assert self.state()["Running"], self.log()
            with contextlib.suppress(ConnectionError), self.connect() as client:
                return client.get("/readyz").status == 200
        eventually(answers)

    def start(self):
        self.engine.do("start", self.name)
        self.ready()

    def raw(self, timeout=30):
        with self.engine.network_of(self.name):
            return socket.create_connection(("127.0.0.1", PORT), timeout)

    def connect(self, timeout=30):
        return Client(self, timeout)

    def token(self, name, role="customer"):
        kid, key = keys_of(self.secrets)[0]
        return token_sign(claims_of(name, role), kid, bytes.fromhex(key))


def test_the_image_is_small_and_has_nothing_that_builds(engine, about):
    assert about["Size"] < SIZE_MB_MAX * 10 ** 6, f"{about['Size'] / 10 ** 6:.0f} MB"
    script = r"dpkg-query -W -f '${Package}\n'; find / -xdev \( -name '*.[cho]' -o -name '*.deb' -o -path '/var/lib/apt/lists/*_*' \) 2>/dev/null; ls / /usr/bin"
    said = engine.do("run", "--rm", "--network=none", *limits(SERVICES["single"]), "--entrypoint=sh", IMAGE, "-c", script).split()
    assert {"stampede", "libuv1", "ca-certificates"} <= set(said)
    builds = [word for word in said if re.search(r"(^|-)(gcc|cc|clang|make|ld|as|python3?)(-\d+)?$|-dev$|\.(c|h|o|deb)$|/lists/|^src$", word)]
    assert not builds, builds


def test_the_image_says_how_it_is_run(about):
    config, version = about["Config"], IMAGE.partition(":")[2]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == (f"{USER}:{USER}", ["stampede"], ["serve"])
    assert (list(config["Volumes"]), list(config["ExposedPorts"]), config["WorkingDir"]) == ([DATA], [f"{PORT}/tcp"], DATA)
    assert config["StopSignal"] == "SIGTERM" and about["HealthCheck" if "HealthCheck" in about else "Healthcheck"]["Test"] == ["CMD", "stampede", "health"]
    assert version in (ROOT / "Makefile").read_text()


def test_a_container_may_do_nothing_but_serve_and_write_its_data(boxed):
    box = boxed()
    status = box.status()
    assert status["Name"] == "stampede", "a shell before it would keep SIGTERM from it"
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == set(status["Groups"].split()) == {str(USER)}
    assert {int(status[name], 16) for name in status if name.startswith("Cap")} == {0} and status["NoNewPrivs"] == "1"
    for path in ("/", "/etc/stampede", "/usr/bin", "/run", "/var/tmp"):
        done = box.inside("touch", f"{path}/x")
        assert done.returncode == 1 and "Read-only" in done.stderr, (path, done)
    for path in ("/tmp", DATA):
        assert box.inside("touch", f"{path}/x").returncode == 0, path
    assert box.inside("stat", "-c", "%u:%g %a", DATA).stdout == f"{USER}:{USER} 700\n"
    assert box.inside("stampede", "config", "check").stdout == "/etc/stampede/stampede.conf: fine\n"
    assert "level\":\"error" not in box.log() and f"listening http=0.0.0.0:{PORT}\n" in box.log()


def test_secrets_are_read_and_only_by_the_server(boxed, secrets):
    box = boxed()
    assert {(path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o777) for path in secrets.iterdir()} == {(0, USER, 0o440)}
    assert "keys" not in box.inside("ls", DATA).stdout.split(), "it made some of its own"
    shop = Shop(box)  # whose tokens are signed with the secret
    assert shop.sale()["offered"] == 10
    shop.close()
    assert box.inside("stampede", "config", "check", "/etc/stampede/stampede.conf").returncode == 0
    wide = secrets / "keys"
    wide.chmod(0o444)
    try:
        refused = boxed(wait=False)
        assert refused.ended() == 1 and f"{SECRETS}/keys has mode 0444" in refused.log(), refused.log()
    finally:
        wide.chmod(0o440)


def test_it_sells_and_health_is_asked_inside(boxed):
    box = boxed()
    shop = Shop(box)
    sale = shop.sale(stock=2)["id"]
    assert [shop.grab(sale, name).status for name in ("ann", "ann", "bob", "cat")] == [201, 409, 201, 409]
    assert shop.counts(sale) == (2, 0, 0, 2)
    with box.connect() as client:
        page = client.get("/")
        assert page.status == 200 and page.headers["content-type"].startswith("text/html")
    eventually(lambda: "ann" in box.inside("stampede", "export", "orders", "--format", "csv").stdout)
    assert box.healthy() and box.inside("stampede", "health", "ready").returncode == 0
    pid = box.state()["Pid"]
    box.engine.do("kill", "--signal=STOP", box.name)
    assert not box.healthy(), f"process {pid} stands still"
    box.engine.do("kill", "--signal=CONT", box.name)
    eventually(box.healthy)
    shop.close()


def test_an_operator_makes_the_first_admin(boxed):
    """As deploy/Dockerfile says it: with a terminal, where nobody sees the password; and by a script, without."""
    box = boxed()
    assert "docker exec -it stampede stampede admin create root\n" in (DEPLOY / "Dockerfile").read_text()
    command = box.engine.words("exec", "-it", box.name, "stampede", "admin", "create", "root")
    shown, code = on_a_terminal(command, box.engine.environment(), ("password: ", PASSWORD))
    assert code == 0 and "admin root created" in shown and PASSWORD not in shown, shown
    done = box.inside("stampede", "admin", "create", "more", flags=["-i"], stdin=PASSWORD + "\n")
    assert done.stdout == "admin more created\n", done
    with box.connect() as client:
        for name in ("root", "more"):
            answer = client.post("/v1/login", {"username": name, "password": PASSWORD})
            assert answer.status == 200 and client.get("/v1/limits", answer.json()["token"]).status == 200, answer


def acknowledged(box, sale, end, count=8):
    """Orders of buyers who grab one after the other on connections of their own until end() has ended their server: {order: buyer}."""
    won, enough = {}, threading.Event()
    clients = [box.connect() for _ in range(count)]

    def buy(client, nth):
        with contextlib.suppress(ConnectionError):
            for n in range(10 ** 5):
                client.send(request_bytes("POST", f"/v1/sales/{sale}/grabs", None, box.token(f"b{nth}-{n}")))
                answer = client.receive()
                assert answer.status in (201, 503), answer
                if answer.status == 201:
                    won[answer.json()["order"]["no"]] = answer.json()["order"]["buyer"]
                if len(won) >= 5 * count:
                    enough.set()
                time.sleep(0.002)
            raise AssertionError("the server went on")

    for client in clients:
        client.sock = box.raw()  # here, for only this thread goes in and out of networks
    with beside(*(lambda client=client, nth=nth: buy(client, nth) for nth, client in enumerate(clients))):
        assert enough.wait(60), f"only {len(won)} wins"
        end()
    for client in clients:
        client.close()
    return won


@pytest.mark.parametrize(("way", "status"), [("stop", 0), ("kill", 128 + signal.SIGKILL)])
def test_no_order_that_was_told_is_lost(boxed, way, status):
    """By docker stop, which drains, and by kill -9: the same container goes on, and another one on its volume."""
    box, left = boxed(), []
    shop = Shop(box)
    sale = shop.sale(stock=10 ** 5)["id"]
    won = acknowledged(box, sale, lambda: left.append(getattr(box, way)()))
    assert left == [status], box.log()
    assert (way == "kill") or "stopping: answering what is under way" in box.log()
    box.start()
    for no, buyer in won.items():
        answer = shop.order(no)
        assert answer.status == 200 and answer.json()["buyer"] == buyer, (no, answer)
    assert shop.counts(sale)[3] >= len(won)
    late = shop.win(sale, "late")["no"]
    shop.close()
    assert box.stop() == 0
    audit = box.once("audit")
    assert audit.returncode == 0 and "all promises hold" in audit.stdout, audit
    said = box.once("export", "orders", "--format", "jsonl").stdout
    assert {*won, late} <= {str(json.loads(line)["no"]) for line in said.splitlines()}
