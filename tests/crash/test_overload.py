"""More than can be served: what is let in is served in time, the rest is told so at once, and grabs go last (P9)."""

import collections
import concurrent.futures
import os
import signal
import threading
import time

from harness import Server, Shop, eventually
from line import hear, metric, park, parked
from test_disk import injected, segment_of
from wire import answer_take, beside, request_bytes

SLOW_LINE = {"rate_per_s": 1, "size": 10000, "timeout_ms": 600000}


def disk_mend(server):
    """The one who spoils the calls goes."""
    with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
        tracer = int(next(line.split()[1] for line in status if line.startswith("TracerPid:")))
    assert tracer > 0
    os.kill(tracer, signal.SIGKILL)


def test_probes_that_go_to_wait_in_a_line_do_not_keep_the_breaker_from_closing():
    """The line of one sale takes every probe; grabs of another sale must close the breaker all the same, and heartbeats pass."""
    flags = ("--breaker-slow-ms", "150", "--breaker-open-ms", "4000", "--breaker-window-ms", "3000", "--breaker-probes", "3")
    with Server(*flags, segment_mb=4) as server:
        shop = Shop(server)
        plain = shop.sale(stock=100000)["id"]
        lined = shop.sale(stock=1000, admission="line", line=SLOW_LINE)["id"]
        shop.close()
        server.stop()
        server.start(prefix=injected("fdatasync:delay_enter=400000", path=segment_of(server)))
        shop = Shop(server)
        socks = [park(server, lined, shop.buyer(f"in-line-{i}")) for i in range(60)]
        eventually(lambda: parked(shop) >= 50)
        place = shop.client.post(f"/v1/sales/{lined}/line", None, shop.buyer("page")).json()["place"]
        crowd = [park(server, plain, shop.buyer(f"b{i}")) for i in range(60)]
        assert [hear(sock).status for sock in crowd].count(201) >= 20
        eventually(lambda: shop.grab(plain, f"late-{time.monotonic()}").status == 503)  # it is open, but for probes now and then
        look = shop.client.get(f"/v1/sales/{lined}/line/{place}", shop.buyer("page"))
        assert look.status == 200 and look.json()["state"] == "waiting", "a heartbeat passes an open breaker"
        disk_mend(server)

        before = parked(shop)

        def probe_parks():
            socks.append(park(server, lined, shop.buyer(f"probe-{len(socks)}")))
            return parked(shop) > before

        eventually(probe_parks, seconds=20, pause=0.5)
        socks += [park(server, lined, shop.buyer(f"more-{i}")) for i in range(10)]
        eventually(lambda: parked(shop) > before + 5)
        assert [shop.grab(plain, f"after-{i}").status for i in range(10)] == [201] * 10
        for sock in socks + crowd:
            sock.close()
        shop.close()


def test_slow_writes_open_the_breaker_of_writes_and_of_nobody_else():
    flags = ("--breaker-slow-ms", "100", "--breaker-open-ms", "2000", "--breaker-window-ms", "3000", "--breaker-probes", "2")
    with Server(*flags, segment_mb=4) as server:
        shop = Shop(server)
        sales = [shop.sale(stock=10)["id"] for _ in range(41)]
        token = shop.seller_token
        shop.close()
        server.stop()
        server.start(prefix=injected("fdatasync:delay_enter=250000", path=segment_of(server)))
        shop = Shop(server)

        def change(sale):
            with server.connect() as client:
                return client.request("PATCH", f"/v1/sales/{sale}", {"description": f"{time.monotonic()}"}, token).status

        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            statuses = list(pool.map(change, sales[:40]))
        assert statuses.count(200) >= 20, statuses
        eventually(lambda: change(sales[40]) == 503)  # but for probes now and then
        assert metric(shop, 'stampede_breaker_opened_total{class="write"}') >= 1
        eventually(lambda: shop.client.get(f"/v1/sales/{sales[0]}").status == 200)
        assert shop.grab(sales[0], "ann").status == 201, "slow, but nobody stands in its way"
        for other in ("grab", "query", "login", "register"):
            assert metric(shop, f'stampede_breaker_opened_total{{class="{other}"}}') == 0, other
        disk_mend(server)
        eventually(lambda: [change(sale) for sale in sales[:5]] == [200] * 5, seconds=20)
        shop.close()


class Flood:
    """Threads that ask for one thing again and again, without waiting for anything but the answers, and what they heard."""

    def __init__(self, server, message, threads, ahead=20):
        self.server, self.message, self.ahead = server, message, ahead
        self.stopping = threading.Event()
        self.statuses = collections.Counter()
        self.lock = threading.Lock()
        self.refused_s_max = 0.0
        self.going = beside(*[self.run] * threads, until=self.stopping)
        self.going.__enter__()

    def run(self):
        with self.server.raw(30) as sock:
            while not self.stopping.is_set():
                began = time.monotonic()
                sock.sendall(self.message * self.ahead)
                data, got = bytearray(), []
                while len(got) < self.ahead:
                    answer = answer_take(data)
                    if answer is None:
                        piece = sock.recv(1 << 16)
                        assert piece, "closed without an answer"
                        data += piece
                    else:
                        got.append(answer.status)
                with self.lock:
                    self.statuses.update(got)
                    if set(got) <= {429, 503}:
                        self.refused_s_max = max(self.refused_s_max, time.monotonic() - began)

    def stop(self):
        self.going.__exit__(None, None, None)


def test_under_a_flood_and_a_slow_disk_admitted_grabs_keep_their_time_and_the_rest_hear_at_once():
    """Each sync takes 300 ms; queries come faster than they may; buyers come as fast as they are answered."""
    with Server("--limits", "global_query_per_s=50,global_query_burst=50", segment_mb=4) as server:
        shop = Shop(server)
        sale = shop.sale(stock=10 ** 6)["id"]
        shop.close()
        server.stop()
        server.start(prefix=injected("fdatasync:delay_enter=300000", path=segment_of(server)))
        flood = Flood(server, request_bytes("GET", f"/v1/sales/{sale}"), threads=4)
        ends = time.monotonic() + 6

        def buyer(n):
            heard = []
            with server.connect() as client:
                while time.monotonic() < ends:
                    began = time.monotonic()
                    answer = client.post(f"/v1/sales/{sale}/grabs", None, server.token(f"b{n}-{len(heard)}"))
                    heard.append((answer.status, time.monotonic() - began))
            return heard

        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            heard = sum(pool.map(buyer, range(40)), [])
        flood.stop()
        waits = sorted(took for status, took in heard if status == 201)
        assert {status for status, _ in heard} <= {201, 503}, collections.Counter(status for status, _ in heard)
        assert len(waits) >= 100, len(waits)
        p99 = waits[len(waits) * 99 // 100]
        assert p99 < 5, f"p99 of those let in: {p99:.2f} s"
        assert set(flood.statuses) <= {200, 429, 503} and flood.statuses[429] + flood.statuses[503] > flood.statuses[200], flood.statuses
        assert flood.refused_s_max < 5, f"a refusal took {flood.refused_s_max:.2f} s"
        server.stop()
        assert server.audit().code == 0


def test_when_the_disk_stalls_queries_are_turned_away_first_and_grabs_last():
    """Looked at again and again over stalls of 2.5 s: whatever the level is, it turns away what it should and nothing else."""
    with Server("--breaker-share-percent", "0", segment_mb=4) as server:
        shop = Shop(server)
        sale = shop.sale(stock=10 ** 6)["id"]
        gone = shop.sale(stock=1)["id"]
        shop.win(gone, "first")
        shop.close()
        server.stop()
        server.start(prefix=injected("fdatasync:delay_enter=2500000", path=segment_of(server)))
        shop = Shop(server)
        seen = collections.defaultdict(set)
        socks = []
        ends = time.monotonic() + 12
        while time.monotonic() < ends:
            socks.append(park(server, sale, shop.buyer(f"b{len(socks)}")))  # something that waits for the disk
            before = metric(shop, "stampede_shed_level")
            answers = (shop.client.get(f"/v1/sales/{sale}").status,
                       shop.client.post("/v1/sales/999999/pause", None, shop.seller_token).status,
                       shop.grab(gone, "late").status)
            if metric(shop, "stampede_shed_level") == before:
                seen[before].add(answers)
            time.sleep(0.02)
        allowed = {0: (200, 404, 409), 1: (503, 404, 409), 2: (503, 503, 409), 3: (503, 503, 503)}
        assert {0, 3} <= set(seen), seen
        for level, answers in seen.items():
            assert answers == {allowed[level]}, (level, answers)
        disk_mend(server)
        eventually(lambda: metric(shop, "stampede_shed_level") == 0, seconds=20)
        assert shop.grab(sale, "after").status == 201 and shop.client.get(f"/v1/sales/{sale}").status == 200
        for sock in socks:
            sock.close()
        shop.close()
