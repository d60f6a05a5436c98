"""More than can be served: what is let in is served in time, the rest is told so at once, and grabs go last (P9)."""

import os
import signal

from harness import Server, Shop, eventually
from line import hear, park, parked
from test_disk import injected, segment_of

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
        assert shop.grab(plain, "late").status == 503, "it is open"
        look = shop.client.get(f"/v1/sales/{lined}/line/{place}", shop.buyer("page"))
        assert look.status == 200 and look.json()["state"] == "waiting", "a heartbeat passes an open breaker"
        disk_mend(server)

        before = parked(shop)

        def probe_parks():
            socks.append(park(server, lined, shop.buyer(f"probe-{len(socks)}")))
            return parked(shop) > before

        eventually(probe_parks, seconds=20, pause=0.5)
        socks += [park(server, lined, shop.buyer(f"more-{i}")) for i in range(10)]
        eventually(lambda: parked(shop) > before + 5, seconds=3)
        assert [shop.grab(plain, f"after-{i}").status for i in range(10)] == [201] * 10
        for sock in socks + crowd:
            sock.close()
        shop.close()
