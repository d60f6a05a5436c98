"""kill -9 under load, again and again (P1–P5, P7)."""

import time

from harness import Server
from witness import RespWitness, Witness

CYCLES = 30
SOLD_MIN = 300  # a machine that sells slowly is killed more often


def test_thirty_kills_under_load_lose_nothing():
    """None lost, none oversold, none double, rows in SQLite equal the wins; asking again settles what the kill left open."""
    with Server(segment_mb=1) as server:
        witness = Witness(server)
        print(f"seed {witness.seed}")
        for cycle in range(3 * CYCLES):
            if cycle >= CYCLES and len(witness.acked) > SOLD_MIN:
                break
            join = witness.load(seconds=5)
            time.sleep(witness.random.uniform(0.02, 0.4))
            server.kill()
            join()
            if cycle % 10 == 9:
                audit = server.audit()
                assert audit.code == 0, f"cycle {cycle}: {audit}"
            server.start()
            witness.check(full=cycle % 10 == 9)
        witness.check()
        witness.shop.close()
        server.stop()
        audit = server.audit()
        assert audit.code == 0, audit
        assert len(witness.acked) > SOLD_MIN, f"hardly anything was sold: {witness.summary()}"


def test_kills_under_pipelines_of_the_redis_protocol_lose_nothing():
    """P3: whatever reply of a pipeline was read, its order is there after the kill; those not read are settled by asking again."""
    with Server(segment_mb=1) as server:
        witness = RespWitness(server, stock=400, buyers=600)
        print(f"seed {witness.seed}")
        for cycle in range(36):
            if cycle >= 12 and len(witness.acked) > SOLD_MIN:
                break
            join = witness.load(seconds=5)
            time.sleep(witness.random.uniform(0.02, 0.3))
            server.kill()
            join()
            server.start()
            witness.check(full=False)
        witness.check()
        witness.shop.close()
        server.stop()
        audit = server.audit()
        assert audit.code == 0, audit
        assert len(witness.acked) > SOLD_MIN, f"hardly anything was sold: {witness.summary()}"


def test_a_kill_during_start_up_loses_nothing():
    """P5: recovery itself may be interrupted anywhere; the next start goes on from the same truth."""
    with Server(segment_mb=1) as server:
        witness = Witness(server)
        join = witness.load(seconds=0.6)
        join()
        server.kill()
        began = time.monotonic()
        server.start()
        ready_s = time.monotonic() - began
        server.kill()
        for i in range(12):
            server.start_unready()
            time.sleep(ready_s * 1.2 * i / 12)
            server.kill()
        server.start()
        witness.check()
        witness.shop.close()


def test_sigterm_under_load_loses_nothing():
    """P3: a clean stop in the middle of a crowd is no worse than a kill."""
    with Server(segment_mb=1) as server:
        witness = Witness(server)
        for _ in range(3):
            join = witness.load(seconds=5)
            time.sleep(witness.random.uniform(0.1, 0.3))
            server.stop()
            join()
            audit = server.audit()
            assert audit.code == 0, audit
            server.start()
            witness.check()
        witness.shop.close()
