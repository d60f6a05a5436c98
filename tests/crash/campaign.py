"""make campaign: the runs that take minutes: crashes (P1–P5, P7, P10), and a webhook's receiver that is dead for as long.

  kill -9     a server killed at random under load, 1,000 cycles by default
  points      killed before every one of the first writes, syncs, renames and removals, of start-up, of the journal and of SQLite
  power loss  the server stopped, its file system (ext4 on a loop device) shut down without writing back what was not synced, mounted
              again: 500 cycles by default. Needs root.
  outage      a receiver of webhooks that is dead for 200 seconds by default, while the server waits between its tries as it does without
              any options: every event arrives, signed and in order
  histories   what ten clients of three nodes see, also of a Redis that forgets everything, is linearizable: 1,000 histories by default
  partitions  nodes, Redis and the database cut off from each other, and two Redis masters at once, in network namespaces: 20 rounds by default
  several     kill -9 of a node, of the Redis master that has a sale, which a replica follows or which comes back empty, of the database, of two of them
              at once, FLUSHALL, and one that says nothing for seconds, while three nodes sell: 200 cycles of each by default (several.py)
  proof       the same runs with a disk that lies about syncs, or drops writes, and with nodes that tell of wins before the ledger has them: they
              must be caught, or the runs above prove nothing

Each cycle of the crashes is a witness's load, a crash, a restart and a check of everything the witness was told (witness.py; several_witness.py
checks after every ten). The last line is "N passed, N failed". What failed is kept where the line of the failure says."""

import argparse
import contextlib
import fcntl
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

from harness import BINARY, Server, ServerDied  # noqa: E402
from machines import Island  # noqa: E402
from several import KINDS, Several  # noqa: E402
from several_witness import SeveralWitness  # noqa: E402
from test_disk import killed_at  # noqa: E402
from test_linear import history_forgetful, history_whole, three_nodes  # noqa: E402
from test_partition import cut_off, make_world, split  # noqa: E402
from test_webhooks_backlog import outage  # noqa: E402
from witness import Lost, Witness  # noqa: E402

EXT4_SHUTDOWN = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125  # _IOR('X', 125, __u32)
NO_LOG_FLUSH = 2
CYCLES_PER_FOLDER = 50
CYCLES_PER_SALE = 10
POINT_CALLS = ("pwrite64", "fdatasync", "fsync", "rename", "unlink")


class Score:
    """What passed and what failed, and the line that shows how far it is."""

    def __init__(self):
        self.passed, self.failed = 0, 0
        self.began = time.monotonic()
        self.shown = 0.0

    def good(self, name, done, total, note=""):
        self.passed += 1
        if sys.stderr.isatty() or time.monotonic() - self.shown > 15 or done == total:
            self.shown = time.monotonic()
            end = "\n" if done == total or not sys.stderr.isatty() else "\r"
            print(f"{name}: {done} of {total}, {self.failed} failed, {self.shown - self.began:.0f} s  {note}", end=end, file=sys.stderr, flush=True)

    def bad(self, name, why, server=None):
        self.failed += 1
        kept = ""
        if server is not None and server.data.exists():
            place = tempfile.mkdtemp(prefix="stampede-campaign-")
            shutil.copytree(server.data, pathlib.Path(place) / "data", dirs_exist_ok=True)
            with contextlib.suppress(OSError):
                shutil.copy(server.log_path, place)
            kept = f"\n  data and log are kept in {place}"
        print(f"\n{name}: FAILED: {why}{kept}", flush=True)


def discard(server):
    """Ends a server whatever state it is in."""
    if server.process is not None and server.process.poll() is None:
        server.process.kill()
    with contextlib.suppress(AssertionError, OSError):
        server.close()


def spell_run(score, name, cycles, make_server, crash, rng):
    """Cycles of load, crash, restart and check; a new folder every so often, so that the thousandth is as quick as the first."""
    done = 0
    while done < cycles:
        server = make_server()
        try:
            server.start()
            witness = Witness(server, seed=rng.randrange(2 ** 32))
            for cycle in range(min(CYCLES_PER_FOLDER, cycles - done)):
                join = witness.load(seconds=10, threads=rng.choice([2, 6, 12]))
                time.sleep(rng.uniform(0.01, 0.5))
                crash(server)
                join()
                server.start()
                witness.check(full=cycle % 10 == 9)
                done += 1
                score.good(name, done, cycles, f"{len(witness.acked)} orders told")
            witness.check()
            witness.shop.close()
            server.stop()
            audit = server.audit()
            if audit.code != 0:
                raise Lost(f"audit: {audit}")
        except (AssertionError, OSError) as error:
            done += 1
            score.bad(name, error, server)
        finally:
            discard(server)


def kills_run(score, cycles, rng):
    spell_run(score, "kill -9", cycles, lambda: Server(segment_mb=rng.choice([1, 4])), lambda server: server.kill(), rng)


def points_run(score, count, rng):
    """Killed by the system call itself: before the Nth of each kind, wherever that is."""
    rows = [(place, call, when) for place in ("start", "journal", "ledger") for call in POINT_CALLS for when in range(1, count + 1)]
    rows = [row for row in rows if row[0] == "start" or row[1] in ("pwrite64", "fdatasync")]
    died = 0
    for done, (place, call, when) in enumerate(rows, 1):
        server = Server(segment_mb=1)
        try:
            died += killed_at(server.start(), place, call, when, rng.randrange(2 ** 32))
            score.good("points", done, len(rows), f"{place} {call} {when}, died at {died} points")
        except (AssertionError, OSError) as error:
            score.bad(f"points {place} {call} {when}", error, server)
        finally:
            discard(server)
    if rows and died < len(rows) // 2:
        score.bad("points", f"the server died at {died} of {len(rows)} points only: the faults are not injected")


class Volume:
    """A small ext4 on a loop device, which can lose its power."""

    def __init__(self, megabytes=192):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="stampede-volume-"))
        self.image, self.place = self.folder / "image", self.folder / "mounted"
        self.place.mkdir()
        with open(self.image, "wb") as image:
            image.truncate(megabytes << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self.image)], check=True)
        self.mounted = False
        self.mount()

    def mount(self):
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.place)], check=True)
        self.mounted = True

    def power_off(self):
        """Nothing reaches the device from now on, not even the file system's own log."""
        fd = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def unmount(self):
        if not self.mounted:
            return
        for _ in range(100):
            if subprocess.run(["umount", str(self.place)], capture_output=True).returncode == 0:
                self.mounted = False
                return
            time.sleep(0.05)
        raise OSError(f"{self.place} stays busy")

    def close(self):
        """Always: the mount, the loop device, the image."""
        if self.mounted and subprocess.run(["umount", str(self.place)], capture_output=True).returncode != 0:
            subprocess.run(["umount", "-l", str(self.place)], check=False)
        attached = subprocess.run(["losetup", "-j", str(self.image), "-n", "-O", "NAME"], capture_output=True, text=True).stdout.split()
        for device in attached:
            subprocess.run(["losetup", "-d", device], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def stopped(server):
    """SIGSTOP, and wait until no thread runs: one inside a sync ends it first, and may have told someone."""
    os.kill(server.pid, signal.SIGSTOP)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        states = [pathlib.Path(task, "stat").read_text().rsplit(")", 1)[1].split()[0] for task in pathlib.Path(f"/proc/{server.pid}/task").iterdir()]
        if all(state in "Tt" for state in states):
            return
        time.sleep(0.002)
    raise OSError("the server does not stop")


def power_loss(volume, server):
    stopped(server)
    volume.power_off()
    server.kill()
    volume.unmount()
    volume.mount()


def losses_run(score, cycles, rng):
    done = 0
    while done < cycles:
        share = min(CYCLES_PER_FOLDER, cycles - done)
        volume = Volume()
        try:
            spell_run(score, "power loss", share, lambda: on_volume(volume), lambda server: power_loss(volume, server), rng)
        finally:
            volume.close()
        done += share


def on_volume(volume):
    shutil.rmtree(volume.place / "data", ignore_errors=True)
    return Server("--space-mb-min", "8", data=volume.place / "data", segment_mb=4)


def library_build(folder):
    library = folder / "losing_disk.so"
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", str(library), str(HERE / "losing_disk.c"), "-ldl"],
                   check=True)
    return library


def proof_run(score, name, lose, make_server, crash, rng, tries=20):
    """A lying disk must be caught within so many cycles. It begins with a good start and stop, so that what is lost is what was told."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="stampede-proof-"))
    server = make_server()
    try:
        env = {"LD_PRELOAD": str(library_build(folder)), "STAMPEDE_LOSE": lose}
        server.start()
        witness = Witness(server, seed=rng.randrange(2 ** 32))
        witness.load(seconds=0.1)()
        witness.shop.close()
        server.stop()
        os.sync()
        for _ in range(tries):
            server.start(env=env)
            join = witness.load(seconds=10)
            time.sleep(rng.uniform(0.2, 0.5))
            crash(server)
            join()
            try:
                server.start()
                witness.check()
            except (Lost, ServerDied) as caught:
                score.good(name, 1, 1, f"caught: {str(caught).splitlines()[0][:150]}")
                return
            witness.shop.close()
            server.stop()
        score.bad(name, f"not caught in {tries} cycles: the campaign cannot see a lost order")
    except (AssertionError, OSError, subprocess.CalledProcessError) as error:
        score.bad(name, f"the proof itself failed: {error}")
    finally:
        discard(server)
        shutil.rmtree(folder, ignore_errors=True)


def proofs_run(score, rng, with_volume):
    proof_run(score, "proof: dropped writes are seen by kill -9", "write", lambda: Server(segment_mb=1), lambda server: server.kill(), rng)
    if with_volume:
        volume = Volume()
        try:
            proof_run(score, "proof: removed syncs are seen by power loss", "sync", lambda: on_volume(volume), lambda server: power_loss(volume, server), rng)
        finally:
            volume.close()


def outage_run(score, dead_s):
    """The wait before the try that finds the receiver alive is about as long as it was dead, more or less a fifth."""
    server = Server("--webhooks-private", "on")
    try:
        count, took_s = outage(server.start(), dead_s, dead_s * 2 + 60)
        score.good("outage", 1, 1, f"{count} events arrived, the last {took_s:.0f} s after the receiver was back")
        server.stop()
    except (AssertionError, OSError) as error:
        score.bad("outage", error, server)
    finally:
        discard(server)


def histories_run(score, count, rng):
    with three_nodes() as nodes:
        for done in range(1, count + 1):
            seed = rng.randrange(2 ** 32)
            try:
                (history_forgetful if done % 4 == 0 else history_whole)(nodes, seed)
                score.good("histories", done, count)
            except AssertionError as error:
                score.bad("histories", error)


def partitions_run(score, rounds):
    with Island(make_world) as island:
        for done in range(1, rounds + 1):
            for scene in (cut_off, split):
                try:
                    island.play(scene)
                    score.good(f"partitions, {scene.__name__}", done, rounds)
                except AssertionError as error:
                    score.bad(f"partitions, {scene.__name__}", error)


def several_spell(score, kind, cycles, done, rng):
    """Cycles of one kind on one shop; sales are new every so often. How many there have been then."""
    with Several(rng.randrange(2 ** 32)) as several:
        try:
            for _ in range(min(CYCLES_PER_FOLDER, cycles - done) // CYCLES_PER_SALE or 1):
                witness = SeveralWitness(several, rng.randrange(2 ** 32))
                with witness.load():
                    for _ in range(min(CYCLES_PER_SALE, cycles - done)):
                        several.cycle(kind, witness)
                        done += 1
                        score.good(f"several, {kind}", done, cycles, witness.summary())
                witness.finish()
        except Exception as error:
            place = tempfile.mkdtemp(prefix="stampede-campaign-")
            several.keep(place)
            score.bad(f"several, {kind}", f"{error!r}\n  logs are kept in {place}")
            done += 1
    return done


def several_run(score, cycles, rng):
    for kind in KINDS:
        done = 0
        while done < cycles:
            done = several_spell(score, kind, cycles, done, rng)


def several_proof(score, rng, tries=20):
    """Wins that are told before they are filed are lost with the Redis that gave them, and that must be seen."""
    name = "proof: wins told too early are seen by FLUSHALL"
    with Several(rng.randrange(2 ** 32), "--ack", "gate") as several:
        witness = SeveralWitness(several, rng.randrange(2 ** 32))
        try:
            with witness.load():
                for _ in range(tries):
                    several.cycle("flush", witness)
            witness.check()
        except Lost as caught:
            score.good(name, 1, 1, f"caught: {str(caught).splitlines()[0][:150]}")
            return
        score.bad(name, f"not caught in {tries} cycles: the campaign cannot see a lost order")


def main():
    parser = argparse.ArgumentParser(description="The runs that take minutes.")
    parser.add_argument("--kills", type=int, default=1000, help="cycles of kill -9 (default 1000)")
    parser.add_argument("--losses", type=int, default=500, help="cycles of power loss (default 500)")
    parser.add_argument("--points", type=int, default=12, help="calls of each kind to be killed at (default 12)")
    parser.add_argument("--outage", type=int, default=200, help="seconds that a receiver of webhooks is dead (default 200; 0: leave it out)")
    parser.add_argument("--histories", type=int, default=1000, help="histories of three nodes (default 1000; 0: leave them out)")
    parser.add_argument("--partitions", type=int, default=20, help="rounds of lost packets (default 20; 0: leave them out)")
    parser.add_argument("--several", type=int, default=200, help="cycles of each fault of several machines (default 200; 0: leave them out)")
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices of another run (not its timing)")
    given = parser.parse_args()
    seed = random.randrange(2 ** 32) if given.seed is None else given.seed
    rng = random.Random(seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"campaign of {BINARY}: seed {seed}", file=sys.stderr)
    if given.losses and os.geteuid() != 0:
        sys.exit("power loss needs root, to mount a file system of its own; --losses 0 leaves it out")
    score = Score()
    proofs_run(score, rng, given.losses > 0)
    kills_run(score, given.kills, rng)
    points_run(score, given.points, rng)
    if given.outage:
        outage_run(score, given.outage)
    losses_run(score, given.losses, rng)
    if given.histories:
        histories_run(score, given.histories, rng)
    if given.partitions:
        partitions_run(score, given.partitions)
    if given.several:
        several_proof(score, rng)
        several_run(score, given.several, rng)
    print(f"{score.passed} passed, {score.failed} failed")
    sys.exit(1 if score.failed else 0)


if __name__ == "__main__":
    main()
