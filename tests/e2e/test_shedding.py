"""What is turned away when the server is full, and in what order: queries first, grabs last, and all come back (P9)."""

import os
import signal

from harness import Shop, eventually
from line import metric
from wire import problem

ENTRIES = 1_000_000  # of the block list: some 55 MB that a test can take and give back


def level(shop):
    return metric(shop, "stampede_shed_level", "gauge")


def test_memory_near_its_cap_turns_away_queries_first_and_grabs_last(own_server, tmp_path):
    conf = tmp_path / "stampede.conf"
    conf.write_text("")
    server = own_server("--config", conf)
    shop = Shop(server)
    sale = shop.sale(stock=1000)["id"]
    assert "memory is capped at" in server.log(), "a cap is the default"
    blocks = server.data / "blocks"
    fresh = blocks.with_name("blocks.new")
    fresh.write_text("".join(f"user nobody-{i}\n" for i in range(ENTRIES)))
    fresh.rename(blocks)
    eventually(lambda: f"has {ENTRIES} entries" in server.log(), seconds=30)

    def cap(share):
        """The cap of which what is taken now is so much."""
        conf.write_text(f"memory_mb_max = {max(1, round(server.memory_kb() / 1024 / share))}\n")
        os.kill(server.pid, signal.SIGHUP)

    cap(1.1)  # what was taken and freed while the list was read is given back
    eventually(lambda: level(shop) == 3)
    cap(0.1)
    eventually(lambda: level(shop) == 0)
    buyers = iter(range(1000))

    def answers():
        """Of a query, a write and a grab."""
        return [shop.client.get(f"/v1/sales/{sale}").status,
                shop.client.request("PATCH", f"/v1/sales/{sale}", {"description": "still here"}, shop.seller_token).status,
                shop.grab(sale, f"b{next(buyers)}").status]

    assert answers() == [200, 200, 201]
    for at, share, want in ((1, 0.925, [503, 200, 201]), (2, 0.965, [503, 503, 201]), (3, 1.1, [503, 503, 503])):
        cap(share)
        eventually(lambda want_level=at: level(shop) == want_level)
        assert answers() == want, f"level {at}"
    problem(shop.client.post("/v1/login", {"username": "ann", "password": "the right one"}), 503, "BUSY")
    refused = shop.grab(sale, "late")
    assert problem(refused, 503, "BUSY") and int(refused.headers["retry-after"]) >= 1
    assert shop.client.get("/healthz").status == 200
    assert "bytes of memory" in server.log()

    fresh.write_text("")
    fresh.rename(blocks)  # and the memory is given back
    eventually(lambda: level(shop) == 0, seconds=20)
    assert answers() == [200, 200, 201]
    shop.close()
