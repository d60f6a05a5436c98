"""Ports for servers that are told theirs before they start, or come back on the one they had.

Whoever connects, or asks for any port, gets one out of the range that the system keeps for this. A port out of it that is free now may be anybody's when
it is used, or used again. So these are of another range, and one after the other: whatever runs beside this test gets others."""

import fcntl
import os
import pathlib
import random
import socket
import tempfile

NOTE = os.environ.get("STAMPEDE_TEST_PORTS") or os.path.join(tempfile.gettempdir(), f"stampede-test-ports-{os.getuid()}")
FIRST = 22000  # above what programs have by default


def range_of_ours():
    """Below the system's own, or above it where that begins early."""
    low, high = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    return range(high + 1, 65536) if low < FIRST + 2000 and high < 63000 else range(FIRST, max(low, FIRST + 2000))


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port():
    """The next that nobody has."""
    ours = range_of_ours()
    with open(NOTE, "a+", encoding="ascii") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        note.seek(0)
        last = int(note.read() or random.choice(ours))
        for step in range(1, len(ours)):
            port = ours[(last - ours.start + step) % len(ours)]
            if is_free(port):
                note.truncate(0)
                note.write(str(port))
                return port
    raise AssertionError("no port is free")
