"""Machines that are not there: network namespaces on one bridge, in which servers run and between which packets are lost.

    with Island(make_world) as island:   # make_world() is called inside, and is a context manager
        island.play(scene)               # scene(world), too; what it raises is raised here

An island is a process of its own in a new user namespace and a new network namespace. There it is root over its network and over nothing else, so
nobody needs to be root for it, and when it ends nothing is left: Debian 12 lets everybody make such namespaces. What runs on it can be
reached from nowhere else, and loopback there is the island's own."""

import contextlib
import ctypes
import multiprocessing
import os
import subprocess
import sys
import time
import traceback

from harness import end_with_parent

NEW_USER, NEW_NET = 0x10000000, 0x40000000
NET = "10.66.0."
SEA = NET + "1"  # where the test itself asks from


class Island:
    def __init__(self, make_world):
        self.ours, theirs = multiprocessing.Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                self.ours.close()
                island_live(theirs, make_world)
                code = 0
            finally:
                sys.stdout.flush()
                os._exit(code)
        theirs.close()
        self._heard("making it")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ours.close()
        _, status = os.waitpid(self.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, "the island did not end well"

    def play(self, scene, *words):
        """Functions go by their name: the island has the same modules as we."""
        self.ours.send((scene, words))
        self._heard(scene.__name__)

    def _heard(self, what):
        try:
            wrong = self.ours.recv()
        except EOFError:
            wrong = "it has ended"
        assert wrong is None, f"{what}: {wrong}"


def island_live(pipe, make_world):
    """The life of one: scenes until nobody asks for any."""
    end_with_parent()
    try:
        namespaces_enter()
        with make_world() as world:
            pipe.send(None)
            while True:
                try:
                    scene, words = pipe.recv()
                except EOFError:
                    return
                try:
                    scene(world, *words)
                    pipe.send(None)
                except BaseException:
                    pipe.send(traceback.format_exc())
    except BaseException:
        with contextlib.suppress(OSError):
            pipe.send(traceback.format_exc())
        raise


def namespaces_enter():
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_USER | NEW_NET) != 0:
        raise OSError(ctypes.get_errno(), "this system lets nobody make a network of their own (user and network namespaces): " + os.strerror(ctypes.get_errno()))
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    os.environ.update(USER="root", LOGNAME="root")
    do("ip", "link", "set", "lo", "up")


def do(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr}"


class Network:
    """The bridge, and the machines on it. The island itself is on it under as many addresses as it is asked for."""

    def __init__(self):
        self.inside = {}  # address -> the words before a command that is to run there
        self.holders = []
        # With an address of its own: one that it has from its ports changes with them, and who has learnt it sends into nothing.
        do("ip", "link", "add", "bridge0", "address", "02:00:00:00:00:01", "type", "bridge")
        do("ip", "link", "set", "bridge0", "up")
        self.filter_begin(())
        self.address_of_island(SEA)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for holder in self.holders:
            holder.kill()
            holder.wait()

    @staticmethod
    def filter_begin(inside):
        do(*inside, "nft", "add table inet lost; add chain inet lost in { type filter hook input priority 0; policy accept; }")

    def address_of_island(self, address):
        do("ip", "address", "add", address + "/24", "dev", "bridge0")
        self.inside[address] = ()

    def machine(self):
        """A new one; its address. Commands run on it with inside[address] before them."""
        number = len(self.inside) + 10
        address, port = f"{NET}{number}", f"port{number}"
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], preexec_fn=end_with_parent)
        self.holders.append(holder)
        place = f"/proc/{holder.pid}/ns/net"
        end = time.monotonic() + 10
        while os.readlink(place) == os.readlink("/proc/self/ns/net"):
            assert time.monotonic() < end and holder.poll() is None, "no network of its own"
            time.sleep(0.002)
        inside = ("nsenter", "--net=" + place, "--")
        do("ip", "link", "add", port, "type", "veth", "peer", "name", "up0", "netns", holder.pid)
        do("ip", "link", "set", port, "master", "bridge0", "up")
        do(*inside, "ip", "address", "add", address + "/24", "dev", "up0")
        do(*inside, "ip", "link", "set", "up0", "up")
        do(*inside, "ip", "link", "set", "lo", "up")
        self.filter_begin(inside)
        self.inside[address] = inside
        return address

    def lose(self, source, target):
        """What the one sends the other never hears, and nobody says so."""
        do(*self.inside[target], "nft", f"add rule inet lost in ip saddr {source} ip daddr {target} drop")

    def cut(self, some, others):
        for one in some:
            for other in others:
                self.lose(one, other)
                self.lose(other, one)

    def heal(self):
        for inside in set(self.inside.values()):
            do(*inside, "nft", "flush chain inet lost in")
