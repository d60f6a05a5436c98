"""Thousands of clients that are slow on purpose, while good ones buy (P9).

slowhttptest opens 5,000 connections and sends heads, sends bodies or reads answers a few bytes at a time. Meanwhile a few honest clients
keep their connections and ask without rest: at least 999 of 1,000 get the right answer, the memory stays bounded, and the server serves on."""

import resource
import subprocess
import threading
import time

import pytest
from harness import Server, Shop, end_with_parent, eventually

SLOW_CLIENTS = 5000
ATTACKERS = 5  # processes; slowhttptest looks at all its connections before it opens the next, so one alone is slow at opening, too
ATTACK_S = 8
ATTACK_S_MAX = 40  # where something else keeps them from coming
GOOD_CLIENTS = 4
GOOD_PAUSE_S = 0.005  # leaves slowhttptest the processor that it needs to be slow 5,000 times
# The server gives a head five seconds. Where slowhttptest needs as long to open them all, the first are gone when the last come.
AT_ONCE_MIN = 4000
MEMORY_KB_MAX = 400 << 10
SHARE_MIN = 0.999
# What the server says then, before it turns grabs away.
DISK_STOOD_STILL = "milliseconds a decision waits for the disk"

# What slowhttptest is told, and what it asks for. A body is announced as 4 kB and comes a few bytes at a time; the page that is read slowly is
# asked for several times on each connection, so that it does not fit the window that the reader leaves open.
MODES = {
    "slow heads": (["-H"], "/v1/sales"),
    "slow bodies": (["-B", "-s", "4096", "-f", "application/json"], "/v1/login"),
    "slow readers": (["-X", "-k", "3", "-w", "256", "-y", "512", "-n", "2", "-z", "16"], "/metrics"),
}


@pytest.fixture(autouse=True)
def descriptors():
    """Server and slowhttptest inherit as many descriptors as this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def metric(client, name):
    text = client.get("/metrics").body.decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))


class Good:
    """Honest clients on connections of their own. Each turn asks for the health, wins once as somebody new, and asks for that win again."""

    def __init__(self, server, sale):
        self.server, self.sale = server, sale
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.right, self.wins, self.wrong = 0, 0, []
        self.threads = [threading.Thread(target=self.ask, args=(number,)) for number in range(GOOD_CLIENTS)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join(30)

    def ask(self, number):
        turn = 0
        with self.server.connect(timeout=10) as client:
            while not self.stopping.is_set():
                token = self.server.token(f"good-{number}-{turn}")
                self.one(client, 200, "GET", "/healthz")
                self.one(client, 201, "POST", f"/v1/sales/{self.sale}/grabs", token)
                self.one(client, 409, "POST", f"/v1/sales/{self.sale}/grabs", token)
                turn += 1
                time.sleep(GOOD_PAUSE_S)

    def one(self, client, expected, method, path, token=None):
        try:
            answer = client.request(method, path, None, token)
            fine, seen = answer.status == expected, repr(answer)
        except OSError as error:
            client.close()
            fine, seen = False, repr(error)
        with self.lock:
            self.right += fine
            self.wins += fine and expected == 201
            if not fine:
                self.wrong.append(f"{method} {path}: {seen}")


def attack(server, mode):
    """slowhttptest at work, several of it. -p is long, because its own probe is not what is judged here."""
    flags, path = MODES[mode]
    share = str(SLOW_CLIENTS // ATTACKERS)
    command = ["slowhttptest", *flags, "-c", share, "-r", share, "-i", "2", "-l", str(ATTACK_S_MAX), "-p", "30", "-v", "1", "-u",
               f"http://{server.host}:{server.port}{path}"]
    with open(server.folder / "attack", "ab") as out:
        return [subprocess.Popen(command, cwd=server.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=end_with_parent)
                for _ in range(ATTACKERS)]


@pytest.mark.parametrize("mode", MODES)
def test_good_clients_are_served_beside_slow_ones(mode):
    """P9: the slow ones all come, thousands of them at once, and the good ones do not notice. Done again where they noticed the disk, which the slow ones
    do not touch."""
    for tries_left in (2, 1, 0):
        if judged(mode, tries_left == 0):
            break


def judged(mode, must):
    """Whether the disk let it be seen what the slow ones do to the good."""
    with Server("--limits", "connections_per_ip=0") as server:
        shop = Shop(server)
        sale = shop.sale(stock=10 ** 6)["id"]
        assert shop.client.get("/healthz").status == 200
        most = memory_kb = 0
        with Good(server, sale) as good:
            slow = attack(server, mode)
            began = time.monotonic()
            try:
                while time.monotonic() < began + ATTACK_S_MAX and any(one.poll() is None for one in slow):
                    if time.monotonic() >= began + ATTACK_S and most >= AT_ONCE_MIN and \
                            metric(shop.client, "stampede_connections_accepted_total") >= SLOW_CLIENTS:
                        break
                    most = max(most, metric(shop.client, "stampede_connections"))
                    memory_kb = max(memory_kb, server.memory_kb())
                    time.sleep(0.25)
            finally:
                for one in slow:
                    one.kill()
                    one.wait(10)
        asked = good.right + len(good.wrong)
        came = metric(shop.client, "stampede_connections_accepted_total")
        said = (server.folder / "attack").read_text(errors="replace")
        assert came >= SLOW_CLIENTS and most >= AT_ONCE_MIN, f"{came} came, {most} at once\n{said[-2000:]}"
        assert asked >= 500, f"{asked} good requests in {ATTACK_S} s or more"
        if not must and good.right < asked * SHARE_MIN and DISK_STOOD_STILL in server.log():
            return False
        assert good.right >= asked * SHARE_MIN, f"{len(good.wrong)} of {asked} went wrong: {good.wrong[:5]}"
        assert memory_kb < MEMORY_KB_MAX, f"{memory_kb} kB with {most} connections"
        eventually(lambda: metric(shop.client, "stampede_connections") <= GOOD_CLIENTS + 1, seconds=10)
        assert server.memory_kb() < MEMORY_KB_MAX
        assert shop.grab(sale, "afterwards").status == 201
        sold = shop.counts(sale)[3]
        assert good.wins + 1 <= sold <= good.wins + 1 + len(good.wrong), "sold is what was told"
        shop.close()
    return True
