"""A job that one node does at a time: the lock stops two from doing the same work, the fencing number one that slept."""

import os
import pathlib
import signal
import subprocess
import time

import pytest
from harness import Shop, eventually
from nodes import PREFIX, Nodes

LOCK_S = 6
EXPIRY = f"{PREFIX}lock:expiry"


@pytest.fixture
def nodes():
    with Nodes() as made:
        yield made


def fence(nodes, job="expiry"):
    rows = nodes.ledger().rows("SELECT number FROM fences WHERE job = ?", job)
    return rows[0]["number"] if rows else 0


def owner_of(nodes):
    return eventually(lambda: nodes.redis().get(EXPIRY), 20)


def held(shop, count, **more):
    sale = shop.sale(stock=count, pay_within_s=1, **more)["id"]
    for i in range(count):
        shop.win(sale, f"buyer{i}")
    return sale


def expired(nodes, sale):
    row = nodes.ledger().sale(sale)
    return row["orders_expired"], row["units_expired"], row["held"], row["available"]


@pytest.fixture(scope="module")
def pausing(tmp_path_factory):
    """What stops a server just before it asks the ledger whether a job is still its own."""
    library = tmp_path_factory.mktemp("pause") / "fence_pause.so"
    done = subprocess.run([os.environ.get("CC", "gcc"), "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library,
                           pathlib.Path(__file__).with_name("fence_pause.c"), "-ldl"], capture_output=True, text=True)
    assert done.returncode == 0, done
    return library


def stopped(server):
    return pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_an_owner_that_slept_past_its_lock_ends_no_hold(nodes, pausing):
    """It sleeps from after it has looked at its lock until long after its end, and goes on to write: only the number stands against it."""
    sleeper, awake = nodes.make("--node", "1"), nodes.make("--node", "2")
    pause = nodes.folder / "pause"
    sleeper.env |= {"LD_PRELOAD": str(pausing), "STAMPEDE_PAUSE": str(pause)}
    if "ASAN_OPTIONS" in os.environ:
        sleeper.env["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"] + ":verify_asan_link_order=0"
    sleeper.start()
    first = owner_of(nodes)
    awake.start()
    shops = [Shop(sleeper), Shop(awake)]
    number = fence(nodes)
    assert number > 0 and first.split()[1] == "1"
    sale = held(shops[1], 20)
    pause.write_text("keeper")
    eventually(lambda: stopped(sleeper), 20)
    second = eventually(lambda: (now := nodes.redis().get(EXPIRY)) and now != first and now, LOCK_S + 20)
    assert second.split()[1] == "2" and not pause.exists()
    eventually(lambda: expired(nodes, sale) == (20, 20, 0, 20), 20)
    assert fence(nodes) > number
    # What is due when it wakes up is not its to end; the other one sleeps, so that nobody else can.
    more = held(shops[1], 5)
    awake.process.send_signal(signal.SIGSTOP)
    nodes.redis().pexpire(EXPIRY, 60000)
    try:
        time.sleep(1.2)
        sleeper.process.send_signal(signal.SIGCONT)
        eventually(lambda: "the lock of expiry is lost: the job was given to another" in sleeper.log(), 20)
        assert f"what number {number} was about to write, is not" in sleeper.log()
        time.sleep(0.5)
        assert expired(nodes, more) == (0, 0, 5, 0) and expired(nodes, sale) == (20, 20, 0, 20)
    finally:
        awake.process.send_signal(signal.SIGCONT)
        nodes.redis().pexpire(EXPIRY, 1000 * LOCK_S)
    eventually(lambda: expired(nodes, more) == (5, 5, 0, 5), 30)
    assert nodes.redis().get(EXPIRY) == second
    for shop in shops:
        eventually(lambda shop=shop: shop.counts(sale) == (20, 20, 0, 0))


def test_who_has_the_lock_and_not_the_number_writes_nothing(nodes):
    """As if another had been given the job without Redis knowing it any more."""
    server = nodes.start()
    shop = Shop(server)
    owner_of(nodes)
    eventually(lambda: fence(nodes) > 0)
    assert nodes.ledger().change("UPDATE fences SET number = number + 1 WHERE job = 'expiry'") == 1
    number = fence(nodes)
    sale = held(shop, 3)
    eventually(lambda: "the lock of expiry is lost: the job was given to another" in server.log(), 30)
    assert expired(nodes, sale)[0] == 0 or fence(nodes) > number
    # It asks for the lock once more, and gets it with a number of its own once the old one has ended.
    eventually(lambda: expired(nodes, sale) == (3, 3, 0, 3), 30)
    assert fence(nodes) > number


def test_a_lock_of_another_is_neither_renewed_nor_ended(nodes):
    server = nodes.start()
    owner_of(nodes)
    nodes.redis().set(EXPIRY, "somebody else", px=60000)
    eventually(lambda: "the lock of expiry is lost: another has it" in server.log(), 20)
    assert nodes.redis().get(EXPIRY) == "somebody else"
    left = nodes.redis().pttl(EXPIRY)
    assert left < 60000
    sale = held(Shop(server), 2)
    time.sleep(3)
    assert expired(nodes, sale) == (0, 0, 2, 0)
    server.stop()
    assert nodes.redis().get(EXPIRY) == "somebody else"
    nodes.redis().delete(EXPIRY)
    server.start()
    eventually(lambda: expired(nodes, sale) == (2, 2, 0, 2), 20)


def test_a_node_that_stops_gives_its_job_away_at_once(nodes):
    one = nodes.start()
    first = owner_of(nodes)
    two = nodes.start()
    sale = held(Shop(two), 2)
    one.stop()
    assert nodes.redis().get(EXPIRY) != first, "nobody waits until it ends by itself"
    eventually(lambda: nodes.redis().get(EXPIRY) not in (None, first))
    eventually(lambda: expired(nodes, sale) == (2, 2, 0, 2), 20)


def test_a_sale_is_built_by_one_node_at_a_time(nodes):
    """While somebody else builds it, everybody waits; when they died over it, it is built after the end of their lock."""
    shop = Shop(nodes.start())
    sale = shop.sale(stock=3)["id"]
    shop.win(sale, "ann")
    lock = f"{PREFIX}lock:sale:{sale}"
    nodes.redis().set(lock, "a builder that died", px=3000)
    nodes.redis().delete(*(nodes.key(sale, name) for name in ("state", "buyers", "orders", "log")))
    answer = shop.grab(sale, "bob")
    assert answer.status == 503 and nodes.ledger().sale(sale)["epoch"] == 1, answer
    eventually(lambda: shop.grab(sale, "bob").status in (200, 201, 409), 20)
    assert shop.counts(sale) == (3, 1, 0, 2)
    assert nodes.ledger().sale(sale)["epoch"] == 2
    assert not nodes.redis().exists(lock)


def test_the_number_rises_with_every_owner(nodes):
    server = nodes.start()
    for _ in range(3):
        owner = owner_of(nodes)
        before = fence(nodes)
        server.kill()
        nodes.redis().delete(EXPIRY)
        server.start()
        assert owner_of(nodes) != owner
        eventually(lambda before=before: fence(nodes) > before)
