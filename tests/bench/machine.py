"""The machine a table was measured on: without it the figures mean nothing."""

import os
import platform
import statistics
import subprocess
import time

SYNCS = 200
BLOCK_BYTES = 4096


def busy_s():
    """Processor time the whole machine has spent on work since it started."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


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
