"""Services of deploy/compose.yml in containers of podman: what compose makes of them, as flags of podman run.

    with image_engine() as engine:
        box = Boxed(engine, "box1", [*flags_of(SERVICES["single"]), "--network=none"], [IMAGE])"""

import contextlib
import json
import resource
import subprocess
import time

import yaml
from containers import Engine
from harness import ROOT, eventually

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yml").read_text())
SERVICES = COMPOSE["services"]
IMAGE = SERVICES["single"]["image"]
USER, DATA, SECRETS, PORT = 10001, "/var/lib/stampede", "/run/secrets", 20080
# What flags are made of here, and what is about more than one container, or is done by whoever starts them.
KNOWN = {"read_only", "tmpfs", "cap_drop", "security_opt", "stop_grace_period", "ulimits", "environment", "user",
         "image", "build", "profiles", "restart", "networks", "volumes", "secrets", "depends_on", "healthcheck", "ports", "command"}


@contextlib.contextmanager
def image_engine():
    """An engine that has the image."""
    with Engine() as one:
        began = time.monotonic()
        one.image_bring(IMAGE, DEPLOY / "Dockerfile", ROOT)
        print(f"built in {time.monotonic() - began:.0f} s")
        yield one


def secrets_make(engine):
    """As the operator makes them, for the group of the server."""
    folder = engine.folder / "secrets"
    subprocess.run([DEPLOY / "make-secrets", folder], check=True, capture_output=True, timeout=60)
    return folder


def limits(service):
    """Never more than this machine lets us give, and of processes what we have: podman would set its own."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = service.get("ulimits", {}).get("nofile", most)
    files = files if most == resource.RLIM_INFINITY else min(files, most)
    return ["--ulimit", f"nofile={files}:{files}", "--ulimit", "nproc={}:{}".format(*resource.getrlimit(resource.RLIMIT_NPROC))]


def flags_of(service):
    """All but its volumes, its secrets and its network."""
    assert set(service) <= KNOWN, "compose.yml has something new for it"
    flags = ["--stop-timeout", service.get("stop_grace_period", "10s").removesuffix("s"), *limits(service)]
    flags += ["--read-only", "--read-only-tmpfs=false"] if service.get("read_only") else []
    flags += [f"--user={service['user']}"] if "user" in service else []
    flags += [f"--tmpfs={path}" for path in service.get("tmpfs", [])]
    flags += [f"--cap-drop={name}" for name in service.get("cap_drop", [])] + [f"--security-opt={name}" for name in service.get("security_opt", [])]
    return flags + [f"--env={name}={value}" for name, value in service.get("environment", {}).items()]


class Boxed:
    """A container that runs, begun with these flags and words of podman run."""

    def __init__(self, engine, name, flags, words):
        self.engine, self.name, self.flags, self.words = engine, name, flags, words
        engine.do("run", "--detach", "--name", name, *flags, *words)

    def stop(self):
        """As docker stop; its exit status."""
        self.engine.do("stop", self.name)
        return self.ended()

    def kill(self):
        self.engine.do("kill", "--signal=KILL", self.name)
        return self.ended()

    def remove(self):
        self.engine.do("rm", "--force", "--time", 0, self.name)

    def ended(self):
        eventually(lambda: not self.state()["Running"])
        return self.state()["ExitCode"]

    def state(self):
        return json.loads(self.engine.do("inspect", "--format", "{{json .State}}", self.name))

    def log(self):
        said = self.engine.try_to("logs", self.name)
        return said.stdout + said.stderr

    def inside(self, *words, **more):
        """A command in it, as docker exec does it; in the shell of the image, which no operator needs."""
        return self.engine.try_to("exec", *more.pop("flags", ()), self.name, *words, **more)

    def once(self, *words):
        """A command of the same image with all that this one has, while it does not run."""
        return self.engine.try_to("run", "--rm", *self.flags, *self.words, *words)

    def healthy(self):
        """What Docker finds when it asks."""
        return self.engine.try_to("healthcheck", "run", self.name).returncode == 0

    def status(self):
        """Of its first process, as the kernel has it."""
        return dict(line.split(":\t", 1) for line in self.inside("cat", "/proc/1/status").stdout.splitlines() if ":\t" in line)
