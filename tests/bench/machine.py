"""The machine a table was measured on: without it the figures mean nothing."""

import os
import platform
import statistics
import subprocess
import time

SYNCS = 200
# Of the time of all processors in a turn, what the host of a virtual machine may give to others if the turn is to count.
STOLEN_MAX = 0.02
QUIET_TRIES = 8
BLOCK_BYTES = 4096


def busy_s():
    """Processor time the whole machine has spent on work since it started."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _ticks():
    """Of all processors together, and how many of them the host gave to others while there was work."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = list(map(int, file.readline().split()[1:9]))
    return sum(ticks), ticks[7]


def stolen_during(work):
    """What work() answers, and the share of the processors that the host gave to others meanwhile."""
    whole, stolen = _ticks()
    answer = work()
    whole, stolen = (after - before for before, after in zip((whole, stolen), _ticks()))
    return answer, stolen / max(whole, 1)


def quiet(turn):
    """Answer and share, as of stolen_during(), of a turn in which the host left the processors to us.

    A turn that was disturbed is taken again, whoever's it was and whatever it came to, so many times, and the least disturbed
    counts: a server that needs both processors feels the neighbours on the host, one that needs one does not, and the ratio of
    the two would be theirs."""
    found = []
    for _ in range(QUIET_TRIES):
        found.append(turn())
        if found[-1][1] <= STOLEN_MAX:
            break
    return min(found, key=lambda one: one[1])


def loud_percent(shares):
    """Of the turns that count, by the shares quiet() told."""
    return 100 * sum(share > STOLEN_MAX for share in shares) / len(shares)


def sync_ms(folder):
    """Median and 99th percentile of writing a block into a zero-filled file and syncing it, as the journal does."""
    path = os.path.join(folder, "sync")
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    took = []
    try:
        os.write(fd, bytes(SYNCS * BLOCK_BYTES))
        os.fsync(fd)
        for nth in range(SYNCS):
            start = time.perf_counter()
            os.pwrite(fd, b"x" * BLOCK_BYTES, nth * BLOCK_BYTES)
            os.fdatasync(fd)
            took.append((time.perf_counter() - start) * 1000)
    finally:
        os.close(fd)
        os.unlink(path)
    return statistics.median(took), sorted(took)[SYNCS * 99 // 100]


def _interrupts():
    """Of devices, by processor, since the machine started."""
    with open("/proc/interrupts", encoding="utf-8", errors="replace") as file:
        cores = [int(name.removeprefix("CPU")) for name in file.readline().split()]
        rows = [line.split() for line in file]
    devices = [row[1:] for row in rows if row[0].rstrip(":").isdigit()]
    return {core: sum(int(counts[nth]) for counts in devices) for nth, core in enumerate(cores)}


def cores_apart(folder):
    """A core for the program that asks, and the others, for whoever is asked; None twice where there is only one.

    Where the two share cores, what the scheduler makes of them weighs more than either: the same server was seen to take a third
    less time where it ran on the core that the disk interrupts, and who asks on the other. So who asks gets the core that
    the disk disturbs least, and every server has all the others."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return None, None
    before = _interrupts()
    sync_ms(folder)
    after = _interrupts()
    asking = min(allowed, key=lambda core: after.get(core, 0) - before.get(core, 0))
    return asking, [core for core in allowed if core != asking]


def first(path, prefix):
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            if text.startswith(prefix):
                return text.partition(":" if ":" in text else "=")[2].strip().strip('"')
    return "unknown"


def filesystem(folder):
    """Type of the file system a folder is on: the longest mount point that leads to it."""
    best, kind = "", "unknown"
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        for text in file:
            _, point, fs, *_ = text.split()
            inside = os.path.realpath(folder).startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, fs
    return kind


def version(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10, check=False)
        return done.stdout.decode(errors="replace").splitlines()[0].strip()
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "unknown"


def facts(folder):
    """Name and value of each fact."""
    median, slow = sync_ms(folder)
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return [
        ("cores", str(os.cpu_count())),
        ("CPU", first("/proc/cpuinfo", "model name")),
        ("memory", f"{memory_gb:.0f} GB"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("system", first("/etc/os-release", "PRETTY_NAME")),
        ("file system of the data", filesystem(folder)),
        ("sync of one 4 KiB block", f"median {median:.2f} ms, 99th percentile {slow:.2f} ms"),
        ("compiler", version(["gcc", "--version"])),
        ("nginx", version(["/usr/sbin/nginx", "-v"]).rpartition("/")[2]),
    ]
