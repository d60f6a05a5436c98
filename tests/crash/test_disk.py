"""A disk that fails, is slow or is full, and a ledger that is locked (P3, P4, P9, P10, P13).

Faults are injected into the system calls by strace, so the binary is the one that is shipped. A thread counts its own calls:
when=N is the Nth of each thread."""

import concurrent.futures
import contextlib
import os
import pathlib
import shutil
import signal
import sqlite3
import tempfile
import time

import pytest
from harness import Server, Shop, eventually, problem, request_bytes
from witness import Lost, Witness


def injected(expression, path=None, trace="/dev/null"):
    """The prefix of a server under strace, which spoils some of its system calls, all of them or those on one file. The server stays our own
    child (-D). The trace has the calls, with INJECTED where one was spoiled."""
    calls = expression.split(":")[0]
    aim = [] if path is None else ["-P", str(path)]
    return ["strace", "-D", "-f", "-qqq", "-o", str(trace), *aim, "-e", f"trace={calls}", "-e", f"inject={expression}", "--"]


def segment_of(server):
    """The journal file that the next wins go to."""
    return sorted((server.data / "journal").glob("*.seg"))[-1]


def prepared(witness):
    """Some history, then a clean stop: the segment exists, so that faults can be aimed at it."""
    join = witness.load(seconds=0.2)
    join()
    witness.shop.close()
    witness.server.stop()


@pytest.mark.parametrize("fault", ["fdatasync:error=EIO", "fdatasync:error=ENOSPC", "pwrite64:error=EIO", "pwrite64:error=ENOSPC"])
@pytest.mark.parametrize("when", [1, 2, 9])
def test_a_failed_write_or_sync_of_the_journal_stops_the_server(fault, when):
    """P10: no further "won", exit non-zero, and after a restart every order that was told is there."""
    with Server(segment_mb=4) as server:
        witness = Witness(server)
        prepared(witness)
        server.start(prefix=injected(f"{fault}:when={when}+", path=segment_of(server)))
        join = None
        with contextlib.suppress(OSError, AssertionError):
            join = witness.load(seconds=20)
        code = server.wait(25)
        assert code > 0, f"{fault}: exit {code}\n{server.log()}"
        assert code != 3, f"a failing disk is no damage: {server.log()}"
        if join is not None:
            join()
        assert "rror" in server.log(), "the log does not say what happened"
        server.start()
        witness.check()
        witness.shop.close()
        server.stop()
        assert server.audit().code == 0


def test_nobody_hears_won_after_the_first_failure():
    """P10: one failed sync, and those after it would succeed; still nothing is acknowledged any more, and nothing is tried again."""
    with Server(segment_mb=4) as server:
        witness = Witness(server, stock=10 ** 6)
        prepared(witness)
        trace = server.folder / "trace"
        server.start(prefix=injected("fdatasync:error=EIO:when=6", segment_of(server), trace))
        with contextlib.suppress(OSError, AssertionError):
            witness.load(seconds=20)()
        assert server.wait(25) > 0
        synced = [line for line in trace.read_text().splitlines() if "fdatasync(" in line]
        failed = [i for i, line in enumerate(synced) if "EIO" in line]
        assert failed, f"the fault never came: {synced[-3:]}"
        assert failed[0] == len(synced) - 1, f"P10: synced again after a failure: {synced[failed[0]:]}"
        server.start()
        witness.check()
        witness.shop.close()


@pytest.mark.parametrize("call,when", [("pwrite64", 1), ("pwrite64", 2), ("pwrite64", 4), ("pwrite64", 7), ("fdatasync", 1), ("fdatasync", 2), ("fdatasync", 4), ("fsync", 1),
                                       ("fsync", 2), ("rename", 1), ("unlink", 1), ("openat", 25)])
def test_a_fault_anywhere_in_start_up_refuses_or_recovers(call, when):
    """P5 and P10: whichever call fails while recovering, the server refuses to start or serves the truth; the next start without the
    fault has everything."""
    with Server(segment_mb=1) as server:
        witness = Witness(server)
        witness.load(seconds=0.15)()
        server.kill()
        trace = server.folder / "trace"
        try:
            server.start(prefix=injected(f"{call}:error=EIO:when={when}", trace=trace), ready_s=30)
        except AssertionError as died:
            assert "exit 0\n" not in str(died), died
        else:
            time.sleep(0.3)
            if server.alive():
                with contextlib.suppress(OSError, Lost, AssertionError):
                    witness.shop.client.close()
                    witness.load(seconds=0.2)()
            if server.alive():
                server.kill()
            else:
                assert server.wait(5) != 0
        assert "INJECTED" in trace.read_text(), "the fault never came"
        witness.shop.close()
        server.start()
        witness.check()
        witness.shop.close()
        server.stop()
        assert server.audit().code == 0


@pytest.mark.parametrize("place,call,when", [("start", "pwrite64", 1), ("start", "pwrite64", 5), ("start", "fdatasync", 2), ("start", "fsync", 1), ("start", "fsync", 2),
                                             ("start", "rename", 1), ("start", "unlink", 1), ("journal", "pwrite64", 3), ("journal", "fdatasync", 3),
                                             ("ledger", "pwrite64", 3), ("ledger", "fdatasync", 1)])
def test_a_kill_before_a_call_loses_nothing(place, call, when):
    """P3, P4, P5: dead before this very write, sync, rename or removal; the campaign goes through more of them."""
    with Server(segment_mb=1) as server:
        assert killed_at(server, place, call, when), "the fault never came"


def killed_at(server, place, call, when, seed=None):
    """Kills a server before the Nth such call, in start-up, on the journal or on the ledger, and checks what is left. True if it died there: some
    calls are made fewer times than that."""
    witness = Witness(server, seed)
    witness.load(seconds=0.15)()
    witness.shop.close()
    if place == "start":
        server.kill()
    else:
        server.stop()
    path = {"start": None, "journal": segment_of(server), "ledger": server.data / "ledger.db-wal"}[place]
    server.start_unready(prefix=injected(f"{call}:signal=SIGKILL:when={when}", path))
    if server.ready():
        with contextlib.suppress(OSError, AssertionError):
            witness.load(seconds=1)()
    died = server.ended(within_s=3)
    server.die()
    witness.shop.close()
    server.start()
    witness.check()
    witness.shop.close()
    server.stop()
    audit = server.audit()
    if audit.code != 0:
        raise Lost(f"audit: {audit}")
    return died


def test_a_stalled_disk_opens_the_breaker_and_a_mended_one_closes_it():
    """P9: when every answer is slow, people are told BUSY at once instead of waiting; a few probes find out when it is over."""
    flags = ("--breaker-slow-ms", "150", "--breaker-open-ms", "500", "--breaker-window-ms", "3000", "--breaker-probes", "2")
    with Server(*flags, segment_mb=4) as server:
        shop = Shop(server)
        sale = shop.sale(stock=100000)["id"]
        shop.close()
        server.stop()
        server.start(prefix=injected("fdatasync:delay_enter=400000", path=segment_of(server)))

        def grab(i):
            with server.connect() as client:
                return client.post(f"/v1/sales/{sale}/grabs", None, server.token(f"b{i}"))

        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            slow = [answer.status for answer in pool.map(grab, range(40))]
        assert slow.count(201) >= 20, slow
        # Now and then it lets somebody try, who finds the disk as slow as it was.
        refused = eventually(lambda: (got := grab(f"late-{time.monotonic()}")).status == 503 and got)
        problem(refused, 503, "BUSY")
        assert int(refused.headers["retry-after"]) >= 1

        with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
            tracer = int(next(line.split()[1] for line in status if line.startswith("TracerPid:")))
        assert tracer > 0
        os.kill(tracer, signal.SIGKILL)
        eventually(lambda: [grab(f"{time.monotonic()}-{i}").status for i in range(5)] == [201] * 5, seconds=20)
        shop.close()


def test_a_slow_disk_makes_wins_wait_and_nobody_else():
    """P3 and P9: with a sync of 200 ms people are refused at once, and a win is only told when its sync is over."""
    with Server(segment_mb=4) as server:
        shop = Shop(server)
        gone = shop.sale(stock=1)["id"]
        shop.win(gone, "first")
        sale = shop.sale(stock=1000)["id"]
        shop.close()
        server.stop()
        server.start(prefix=injected("fdatasync:delay_enter=200000", path=segment_of(server)))

        def timed(request):
            with server.connect() as client:
                began = time.monotonic()
                client.send(request)
                answer = client.receive()
                return answer.status, time.monotonic() - began

        grab = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i}")) for i in range(40)]
        lose = [request_bytes("POST", f"/v1/sales/{gone}/grabs", None, shop.buyer(f"l{i}")) for i in range(200)]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            wins = [pool.submit(timed, request) for request in grab[:20]]
            time.sleep(0.02)
            losses = [timed(request) for request in lose[:60]]
            wins = [win.result(30) for win in wins]
        assert {status for status, _ in losses} == {409}
        assert {status for status, _ in wins} == {201}
        slow = sorted(took for _, took in losses)
        assert slow[len(slow) // 2] < 0.19, f"refusals waited for the disk: {slow[-10:]}"
        assert min(took for _, took in wins) >= 0.19, "a win was told before its sync was over"
        shop.client.close()
        assert shop.client.get("/healthz").status == 200
        shop.close()


def test_wins_that_wait_for_a_slow_disk_are_told_only_when_durable():
    """P3: killed during the sync, nobody was told; what was told is there."""
    with Server(segment_mb=4) as server:
        witness = Witness(server)
        prepared(witness)
        for _ in range(3):
            server.start(prefix=injected("fdatasync:delay_enter=300000", path=segment_of(server)))
            join = witness.load(seconds=20, threads=12)
            time.sleep(witness.random.uniform(0.9, 1.6))
            server.kill()
            join()
            server.start()
            witness.check()
            witness.shop.close()
            server.stop()


def test_already_yours_waits_for_the_disk_too():
    """P3: "already yours" names an order; it is said only when that order is durable."""
    with Server(segment_mb=4) as server:
        shop = Shop(server)
        sale = shop.sale(stock=10)["id"]
        shop.close()
        server.stop()
        server.start(prefix=injected("fdatasync:delay_enter=400000", path=segment_of(server)))
        request = request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer("ann"))
        keyed = request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer("bob"), "k")
        clients = [server.connect() for _ in range(4)]
        for client in clients:
            client.send(b"")
        began = time.monotonic()
        for client, message in zip(clients, [request, request, keyed, keyed]):
            client.send(message)
            time.sleep(0.03)
        answers = [client.receive() for client in clients]
        took = time.monotonic() - began
        assert [answer.status for answer in answers] == [201, 409, 201, 201]
        assert answers[1].json()["order"]["no"] == answers[0].json()["order"]["no"]
        assert took >= 0.39
        shop.client.close()
        order = request_bytes("GET", f"/v1/orders/{answers[0].json()['order']['no']}", None, shop.buyer("ann"))
        clients[0].send(order)
        assert clients[0].receive().status == 200
        for client in clients:
            client.close()
        shop.close()


def test_a_locked_ledger_does_not_stop_the_selling():
    """P4 and P13: SQLite locked for seconds. Grabs are won, lists are 503 meanwhile, and afterwards everything is filed by itself, once."""
    with Server() as server:
        shop = Shop(server)
        sale = shop.sale(stock=1000)["id"]
        shop.listed(f"/v1/orders?sale={sale}", shop.seller_token)
        orders = []
        with contextlib.closing(sqlite3.connect(server.data / "ledger.db", timeout=20, isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            began = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                orders.append(shop.win(sale, "before the list"))

                def ask():
                    with server.connect() as client:
                        return client.get(f"/v1/orders?sale={sale}", shop.seller_token)
                listing = pool.submit(ask)
                while time.monotonic() - began < 10:
                    orders.append(shop.win(sale, f"buyer-{len(orders)}", key="k"))
                    assert shop.order(orders[-1]["no"]).json() == orders[-1], "an order of an open sale is answered from memory"
                    time.sleep(0.05)
                answer = listing.result(30)
                problem(answer, 503)
                assert int(answer.headers["retry-after"]) >= 1
            assert shop.client.get("/healthz").status == 200
            assert len(server.ledger().orders(sale)) < len(orders)
            db.execute("ROLLBACK")
        listed = eventually(lambda: complete(shop, sale, len(orders)), seconds=20)
        assert [order["no"] for order in listed][::-1] == [order["no"] for order in orders]
        assert [str(row["no"]) for row in server.ledger().orders(sale)] == [order["no"] for order in orders]
        shop.close()
        server.stop()
        assert server.audit().code == 0


def test_people_hear_busy_while_the_ledger_is_locked():
    """P9: what must be written to SQLite and cannot be is 503 with Retry-After, in bounded time, and was not done; it is no failure of ours to
    be told as 500, and those who only log in do not stand behind it."""
    with Server() as server:
        shop = Shop(server)
        shop.client.post("/v1/users", {"username": "here", "password": "long enough", "role": "customer"})
        leaver = server.token("leaver")

        def ask(method, path, body=None, token=None):
            with server.connect(timeout=30) as client:
                began = time.monotonic()
                return client.request(method, path, body, token), time.monotonic() - began

        with contextlib.closing(sqlite3.connect(server.data / "ledger.db", timeout=20, isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                logout = pool.submit(ask, "POST", "/v1/logout", None, leaver)
                register = pool.submit(ask, "POST", "/v1/users", {"username": "new", "password": "long enough", "role": "customer"})
                time.sleep(0.1)
                login = pool.submit(ask, "POST", "/v1/login", {"username": "here", "password": "long enough"})
                answers = [one.result(40) for one in (logout, register, login)]
            db.execute("ROLLBACK")
        for answer, _ in answers[:2]:
            problem(answer, 503, "BUSY")
            assert int(answer.headers["retry-after"]) >= 1
        assert answers[2][0].status == 200, answers[2][0]
        assert shop.client.get("/v1/orders", leaver).status == 200, "said to be busy, and yet logged out"
        problem(shop.client.post("/v1/login", {"username": "new", "password": "long enough"}), 401, "BAD_LOGIN")
        shop.close()


def complete(shop, sale, count):
    answer = shop.client.get(f"/v1/orders?sale={sale}&limit=200", shop.seller_token)
    if answer.status != 200:
        problem(answer, 503)
        return None
    listed = shop.listed(f"/v1/orders?sale={sale}", shop.seller_token)
    return listed if len(listed) == count else None


def test_a_ledger_that_fails_is_caught_up_after_a_kill():
    """P4: wins while SQLite is locked, then kill -9: they are in the journal, and filed once at the next start."""
    with Server() as server:
        witness = Witness(server)
        with contextlib.closing(sqlite3.connect(server.data / "ledger.db", timeout=20, isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            join = witness.load(seconds=10)
            time.sleep(1)
            server.kill()
            join()
            db.execute("ROLLBACK")
        server.start()
        witness.check()
        witness.shop.close()
        server.stop()
        assert server.audit().code == 0


def test_a_disk_that_fills_up_is_an_answer_and_no_loss():
    """P10: 503 before the disk is full, everything told is kept, and it goes on when there is room again. The disk is /dev/shm, which hardly
    anyone else writes to; full means 20 MB less than it has now."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="stampede-test-", dir="/dev/shm"))
    try:
        room = os.statvfs(place)
        free_mb = room.f_bavail * room.f_frsize >> 20
        with Server("--space-mb-min", free_mb - 20, data=place / "data", segment_mb=1) as server:
            witness = Witness(server)
            witness.load(seconds=0.2)()
            plenty = witness.shop.sale(stock=10 ** 6)["id"]
            filler = place / "filler"
            filler.write_bytes(bytes(24 << 20))
            answer = eventually(lambda: busy(witness.shop, plenty), seconds=15)
            assert int(answer.headers["retry-after"]) >= 1
            witness.check()
            filler.unlink()
            eventually(lambda: not busy(witness.shop, plenty), seconds=15)
            witness.load(seconds=0.2)()
            witness.check()
            witness.shop.close()
            server.stop()
            assert server.audit().code == 0
    finally:
        shutil.rmtree(place)


def busy(shop, sale):
    """The 503 that a grab gets, or None when it wins."""
    answer = shop.grab(sale, f"probe-{time.monotonic_ns()}")
    if answer.status == 503:
        return answer
    assert answer.status == 201, answer
    return None
