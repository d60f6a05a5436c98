"""Images and containers for real: podman and mmdebstrap of Debian's packages, with no daemon and no registry.

    with Engine() as engine:
        engine.image_build("stampede:0.1.0", DOCKERFILE, ROOT)
        engine.do("run", …)          # podman run …

An engine has mounts and processes of its own: namespaces that one process holds. When that ends, whatever happened to us, every container is killed and
everything mounted is gone, and its folder has nothing left to be in use. Nothing of the machine's own podman is looked at or changed.

What an image is made FROM comes out of the archive of Debian, for a registry may be as far away as it likes. It is kept in the build folder under what it was
made of; the images themselves are not, but in a run of many tests: STAMPEDE_IMAGE_NEW names a folder where the first leaves its own for the others."""

import contextlib
import ctypes
import fcntl
import hashlib
import ipaddress
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from harness import ROOT, end_with_parent

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NET = 0x40000000
BASE = "docker.io/library/debian:12-slim"  # what debian:12-slim means
PREFIX = "stampede-engine-"
BASE_DAYS = 14  # then the archive has newer packages, and it is made anew
BASE_S_MAX, BUILD_S_MAX, COMMAND_S_MAX = 300, 600, 120
SUITES = {"bookworm": "http://deb.debian.org/debian", "bookworm-updates": "http://deb.debian.org/debian",
          "bookworm-security": "http://deb.debian.org/debian-security"}
# As the image that Debian makes for Docker: its packages, what it leaves out of each, and that nothing has to be on the disk at once.
SLIM = ["--variant=minbase", "--include=usr-is-merged", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "groff", "info", "linda", "lintian", "locale", "man")),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright", "--dpkgopt=force-unsafe-io", '--aptopt=Acquire::Languages "none"']
# What podman and crun keep outside the folder they are given: locks are in /dev/shm. The two folders stay, for another engine may stand on them.
ELSEWHERE = [pathlib.Path("/var/lib/containers"), pathlib.Path("/run/crun")]
# No control group is made, but crun looks at them, and gives up where both generations are in use.
HOLD = """
set -e
for folder in /dev/shm "$@"; do
    mkdir -p "$folder"
    mount -t tmpfs none "$folder"
done
if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
echo ready
while :; do sleep 3600 & wait; done
"""
CONF = """
[containers]
cgroups = "disabled"
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "crun"
"""
# As a neighbour of other tests, which wait for moments: they come first.
KINDLY = ["nice", "-n", "10"]


def sources():
    """Where this machine has Debian 12 from, a line for each suite; where it is another system, from where everybody has it."""
    asked = subprocess.run(["apt-get", "update", "--print-uris"], capture_output=True, text=True, timeout=60, check=False).stdout
    # Not over TLS, whose authorities a bare system does not have: packages are signed.
    here = {suite: uri for uri, suite in re.findall(r"^'(http://\S+?)/dists/(bookworm\S*?)/InRelease'", asked, re.M) if "debian" in uri}
    return [f"deb {here.get(suite, uri)} {suite} main" for suite, uri in SUITES.items()]


def proxies():
    """Of apt on this machine, for apt in an image."""
    said = subprocess.run(["apt-config", "dump", "--format", "%f %v%n"], capture_output=True, text=True, timeout=60, check=True).stdout
    return [f'{name} "{value}";' for name, value in re.findall(r"^(Acquire::https?::Proxy\S*) (\S+)$", said, re.M | re.I)]


def base_archive():
    """The root of a bare Debian 12 as a tar file; one at a time makes it."""
    made_of = [*SLIM, *(f"--aptopt={line}" for line in proxies()), "bookworm"]
    key = hashlib.sha256("\n".join([*made_of, *sources()]).encode()).hexdigest()[:16]
    folder = ROOT / "build" / "image"
    folder.mkdir(parents=True, exist_ok=True)
    path, new = folder / f"base-{key}.tar", folder / "new.tar"
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists() or time.time() - path.stat().st_mtime > BASE_DAYS * 86400:
            command = ["timeout", "--kill-after=10", str(BASE_S_MAX), *KINDLY, "mmdebstrap", "--quiet", "--mode=root", "--format=tar", *made_of, new, *sources()]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"a bare Debian 12 could not be made from {sources()}:\n{done.stderr[-4000:]}"
            for old in folder.glob("base-*.tar"):
                old.unlink()
            new.rename(path)
    return path


def sweep():
    """Removes what engines have left that were killed."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        with contextlib.suppress(OSError), open(folder / "lock", "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


class Engine:
    def __init__(self):
        assert os.geteuid() == 0, "images are built and run by root here: run this test as root"
        sweep()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX))
        self.lock = open(self.folder / "lock", "w", encoding="utf-8")  # noqa: SIM115
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        (self.folder / "conf").write_text(CONF)
        (self.folder / "temporary").mkdir()
        self.names = []  # of its containers, so far
        self.holder = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", HOLD, "hold", *ELSEWHERE],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=end_with_parent)
        if self.holder.stdout.readline() != b"ready\n":
            said = self.holder.stderr.read().decode(errors="replace")
            self.close()
            raise AssertionError(f"no namespaces of our own: {said}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.holder.kill()
        self.holder.wait(COMMAND_S_MAX)
        self.holder.stdout.close()
        self.holder.stderr.close()
        self.lock.close()
        # The last of its processes may be dying yet, and the mounts with it.
        for _ in range(100):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(0.1)
        raise AssertionError(f"{self.folder} cannot be removed: {sorted(self.folder.rglob('*'))[:20]}")

    def inside(self):
        """Words before a command that is to run in the namespaces of this engine, and to end with them."""
        of = f"/proc/{self.holder.pid}/ns"
        return ["nsenter", f"--mount={of}/mnt", f"--pid={of}/pid_for_children", "--"]

    def words(self, *words, before=()):
        """A command of podman, in the namespaces of this engine."""
        return [*self.inside(), *before, "podman", "--root", f"{self.folder}/images", "--runroot", f"{self.folder}/run", "--tmpdir", f"{self.folder}/tmp",
                *map(str, words)]

    def environment(self):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("STAMPEDE_", "CONTAINER", "STORAGE_", "BUILDAH_"))}
        # No timers of systemd: the health check is made by whoever asks for it.
        return {**env, "CONTAINERS_CONF": f"{self.folder}/conf", "TMPDIR": f"{self.folder}/temporary", "DISABLE_HC_SYSTEMD": "true"}

    def try_to(self, *words, stdin="", timeout=COMMAND_S_MAX, before=()):
        return subprocess.run(self.words(*words, before=before), input=stdin, capture_output=True, text=True, timeout=timeout, env=self.environment(), check=False)

    def do(self, *words, **more):
        """What it said on standard output."""
        done = self.try_to(*words, **more)
        assert done.returncode == 0, f"podman {' '.join(map(str, words))}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-8000:]}"
        return done.stdout

    def image_bring(self, tag, dockerfile, context):
        """Builds it, or takes what another engine of this run has built."""
        kept = os.environ.get("STAMPEDE_IMAGE_NEW")
        if not kept:
            self.image_build(tag, dockerfile, context)
            return
        folder = pathlib.Path(kept)
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (folder / "image.tar").exists():
                self.do("load", "--input", folder / "image.tar", before=KINDLY)
                return
            self.image_build(tag, dockerfile, context)
            self.do("save", "--format=docker-archive", "--output", folder / "half.tar", tag, before=KINDLY)
            (folder / "half.tar").rename(folder / "image.tar")

    def image_build(self, tag, dockerfile, context):
        """As docker build -f DOCKERFILE -t TAG CONTEXT does it, but that nothing is pulled: what stands behind FROM is here or it fails."""
        self.do("import", base_archive(), BASE, before=KINDLY)
        # chroot: its steps need no more than a root of their own. host: apt-get asks the archive as this machine does.
        self.do("build", "--pull=never", "--isolation=chroot", "--network=host", "--format=docker", "--layers=false", "-f", dockerfile, "-t", tag, context,
                timeout=BUILD_S_MAX, before=KINDLY)

    def network_of(self, container):
        """This thread is in the network of a container while the block runs. A socket stays where it was made."""
        pid = int(self.do("inspect", "--format", "{{.State.Pid}}", container))
        assert pid > 0, f"{container} does not run"
        # Its number is one among the processes of this engine, which its own /proc shows.
        return self.network_at(f"/proc/{pid}/ns/net")

    @contextlib.contextmanager
    def network_at(self, path):
        """The same of the network that a file of the engine's is."""
        with open("/proc/thread-self/ns/net", "rb") as ours, open(f"/proc/{self.holder.pid}/root{path}", "rb") as theirs:
            network_enter(theirs)
            try:
                yield
            finally:
                network_enter(ours)


def network_enter(namespace):
    if LIBC.setns(namespace.fileno(), NEW_NET) != 0:
        raise OSError(ctypes.get_errno(), "setns: " + os.strerror(ctypes.get_errno()))


class Bridge:
    """A network for containers of an engine as Docker makes one: a subnet of IPv4 on a bridge, whose first address is the way out. podman's own wants netavark,
    which need not be there. It ends with the engine.

    Out there is the world: addresses that clients come from, and nobody on the bridge can take for a neighbour."""

    def __init__(self, engine, subnet, world):
        self.engine, self.subnet = engine, ipaddress.ip_network(subnet)
        self.gateway = self.subnet[1]
        self.folder = engine.folder / "networks"
        self.folder.mkdir()
        self.free = (str(address) for address in self.subnet.hosts() if address != self.gateway)
        self.ports = {}  # by address
        self._make("world")
        self._ip("world", "link", "add", "bridge0", "type", "bridge")
        self._ip("world", "address", "add", f"{self.gateway}/{self.subnet.prefixlen}", "dev", "bridge0")
        self._ip("world", "link", "set", "bridge0", "up")
        self._ip("world", "address", "add", world, "dev", "lo")

    def attach(self, address=None):
        """A network namespace for one container under this address, or the next that is free: the words of podman run for it, and the address."""
        address = address or next(self.free)
        name = self.ports[address] = f"port{len(self.ports) + 1}"
        self._make(name)
        # As Docker has it where no IPv6 was asked for.
        self._do(name, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
        self._ip("world", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", self.folder / name)
        self._ip("world", "link", "set", name, "master", "bridge0", "up")
        self._ip(name, "address", "add", f"{address}/{self.subnet.prefixlen}", "dev", "eth0")
        self._ip(name, "link", "set", "eth0", "up")
        self._ip(name, "route", "add", "default", "via", self.gateway)
        return f"--network=ns:{self.folder / name}", address

    def link_set(self, address, way):
        """"down": nobody has this address any more; "up": somebody has."""
        self._ip("world", "link", "set", self.ports[address], way)

    def outside(self):
        """This thread is in the world while the block runs."""
        return self.engine.network_at(str(self.folder / "world"))

    def _make(self, name):
        (self.folder / name).touch()
        self._run("unshare", f"--net={self.folder / name}", "ip", "link", "set", "lo", "up")

    def _ip(self, name, *words):
        self._do(name, "ip", *words)

    def _do(self, name, *words):
        self._run("nsenter", f"--net={self.folder / name}", "--", *words)

    def _run(self, *words):
        done = subprocess.run([*self.engine.inside(), *map(str, words)], capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False)
        assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr}"
