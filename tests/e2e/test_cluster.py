"""make cluster: the whole of several machines on this one, from the start to the end of it."""

import json
import os
import pathlib
import signal
import socket
import subprocess

import pytest
from harness import BINARY, ROOT, Client, claims_of, environment, eventually, keys_of, mint_name, problem, token_sign

CLUSTER = ROOT / "tools" / "cluster"
START_S_MAX = 240


def make(target, state, *more):
    return subprocess.run(["make", "--no-print-directory", target, f"ARGS=--state {state} --binary {BINARY} {' '.join(more)}"], cwd=ROOT, env=environment(),
                          capture_output=True, text=True, timeout=START_S_MAX)


def running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Place:
    """Where a client asks."""

    def __init__(self, url):
        self.host, port = url.removeprefix("http://").split(":")
        self.port = int(port)

    def raw(self, timeout=30):
        return socket.create_connection((self.host, self.port), timeout)


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "cluster.json"
    yield path
    done = make("cluster-stop", path)
    assert done.returncode == 0, done.stderr


def test_a_cluster_sells_on_when_a_node_dies_and_ends_when_told(state):
    started = make("cluster", state)
    assert started.returncode == 0, started.stdout + started.stderr
    told = json.loads(state.read_text())
    processes = {each["name"]: each for each in told["processes"]}
    assert set(processes) == {"mariadb", "nginx", "node1", "node2", "node3", *(f"redis{i}" for i in range(1, 7))}
    assert all(running(each["pid"]) for each in processes.values())
    for each in processes.values():
        assert f":{each['port']}" in started.stdout, f"{each['name']} is not told of"
    for node in (processes[name] for name in ("node1", "node2", "node3")):
        assert f":{node['resp']}" in started.stdout
        assert subprocess.run(["redis-cli", "-p", str(node["resp"]), "PING"], capture_output=True, text=True, timeout=20).stdout == "PONG\n"

    again = make("cluster", state)
    assert again.returncode != 0 and "a cluster runs already" in again.stderr and told["front"] in again.stderr
    assert all(running(each["pid"]) for each in processes.values()) and json.loads(state.read_text()) == told

    kid, key = keys_of(pathlib.Path(told["folder"]) / "secrets")[0]

    def token(name, role="customer"):
        return token_sign(claims_of(name, role), kid, bytes.fromhex(key))

    def grab(sale, name):
        """A connection for each, as buyers have it; asked again with its key while the outcome is not known."""
        def answered():
            with Client(Place(told["front"])) as client:
                answer = client.post(f"/v1/sales/{sale}/grabs", None, token(name), key="k-" + name)
            assert answer.status in (201, 409, 503), answer
            return answer if answer.status != 503 else None
        return eventually(answered, 60)

    with Client(Place(told["front"])) as client:
        answer = client.post("/v1/sales", {"name": mint_name("sale"), "stock": 40}, token("sam", "seller"))
        assert answer.status == 201, answer
        sale = answer.json()["id"]
    numbers = [grab(sale, f"early-{i}").json()["order"]["no"] for i in range(20)]

    os.kill(processes["node2"]["pid"], signal.SIGKILL)
    numbers += [grab(sale, f"late-{i}").json()["order"]["no"] for i in range(20)]
    assert len(set(numbers)) == 40
    problem(grab(sale, "too-late"), 409, "SOLD_OUT")
    with Client(Place(told["front"])) as client:
        seen = eventually(lambda: (look := client.get(f"/v1/sales/{sale}").json())["sold"] == 40 and look, 30)
    assert (seen["offered"], seen["available"], seen["sold"]) == (40, 0, 40)

    shown = subprocess.run([CLUSTER, "status", "--state", state], capture_output=True, text=True, timeout=60)
    assert [line.split()[0] for line in shown.stdout.splitlines() if "(has ended)" in line] == ["node2"]

    stopped = make("cluster-stop", state)
    assert (stopped.returncode, stopped.stdout) == (0, "ended\n"), stopped
    assert not any(running(each["pid"]) for each in processes.values())
    assert not pathlib.Path(told["folder"]).exists() and not state.exists()
    assert make("cluster-stop", state).stdout == "no cluster runs here\n"


def test_stopping_ends_nobody_else(tmp_path):
    """The number of a process that has ended may be another's by now."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            path = tmp_path / "cluster.json"
            path.write_text(json.dumps({"folder": str(folder), "front": "http://127.0.0.1:1", "processes": [{"name": "node1", "pid": other.pid, "began": 1, "port": 1}]}))
            done = subprocess.run([CLUSTER, "stop", "--state", path], capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stdout) == (0, "ended\n") and not path.exists() and not folder.exists()
            assert other.poll() is None
        finally:
            other.kill()


def test_a_start_that_fails_leaves_nothing_behind(tmp_path):
    """A program that is no server: what was started before it is ended."""
    path = tmp_path / "cluster.json"
    before = set(pathlib.Path("/proc").glob("[0-9]*"))
    done = subprocess.run([CLUSTER, "start", "--state", path, "--binary", "/bin/false"], env={**environment(), "TMPDIR": str(tmp_path)}, capture_output=True, text=True,
                          timeout=START_S_MAX)
    assert done.returncode == 1 and "node1 ended at once" in done.stderr and not path.exists(), done
    assert [each.name for each in tmp_path.iterdir()] == []
    left = [each.name for each in set(pathlib.Path("/proc").glob("[0-9]*")) - before if str(tmp_path) in command_line(each)]
    assert left == []


def command_line(process):
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize("words,said", [(["--port", "{taken}"], "cannot be had"), (["--binary", "/nonexistent"], "make builds it")])
def test_what_cannot_be_started_is_said_in_a_sentence(tmp_path, words, said):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = [word.format(taken=taken.getsockname()[1]) for word in words]
        done = subprocess.run([CLUSTER, "start", "--state", tmp_path / "s", "--binary", BINARY, *words], env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1 and not (tmp_path / "s").exists(), done
