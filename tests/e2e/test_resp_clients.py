"""The Redis protocol with clients nobody here wrote: redis-cli, redis-benchmark, redis-py, hiredis, ioredis, and node-redis for RESP3."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import redis
from harness import mint_name
from npm import npm_modules

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECRET = "correct-horse-battery-staple"


def cli(server, *words, stdin=None, flags=()):
    done = subprocess.run(["redis-cli", "-p", str(server.resp_port), *flags, *map(str, words)], input=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return done.stdout.strip()


NODE_PACKAGES = {"ioredis": "5.4.1", "redis": "5.9.0"}


@pytest.fixture(scope="module")
def node_modules():
    return npm_modules(NODE_PACKAGES)


def node(modules, script, *words):
    """What a script of ours prints as JSON."""
    assert shutil.which("node"), "nodejs is one of the packages of tools/install-deps"
    done = subprocess.run(["node", pathlib.Path(__file__).parent / script, *map(str, words)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "NODE_PATH": str(modules)})
    assert done.returncode == 0, done
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def hiredis_program(tmp_path_factory):
    path = tmp_path_factory.mktemp("hiredis") / "hiredis_client"
    source = pathlib.Path(__file__).parent / "hiredis_client.c"
    done = subprocess.run([os.environ.get("CC", "gcc"), "-Wall", "-Wextra", "-Werror", "-o", path, source, "-lhiredis"], capture_output=True, text=True)
    assert done.returncode == 0, done
    return path


def test_the_ticket_session_with_redis_cli(server):
    """As docs/doors/ticket.md has it, word for word."""
    page = (ROOT / "docs" / "doors" / "ticket.md").read_text()
    session = re.search(r"```\n(\$ redis-cli.*?)```", page, re.S).group(1)
    steps = re.findall(r"^\$ redis-cli -p 20081 (.*)\n(.*)$", session, re.M)
    assert len(steps) >= 7
    for words, want in steps:
        got = cli(server, *words.split())
        if want.startswith("(integer) "):
            got = f"(integer) {got}"
        assert got == want or words.startswith("SALE.CREATE"), words


@pytest.mark.parametrize("flags", [(), ("-3",)])
def test_redis_cli_speaks_both_protocols(server, flags):
    name = mint_name("sale")
    assert cli(server, "SALE.CREATE", name, 1, flags=flags).isdigit()
    assert cli(server, "SALE.GRAB", name, "ann", flags=flags).split("\n")[0] == "WON"
    assert "sold_out" in cli(server, "SALE.INFO", name, flags=flags)
    assert "redis_version" in cli(server, "INFO", flags=flags)
    assert cli(server, stdin="PING\nECHO 'a b'\n", flags=flags) == "PONG\na b"


def test_redis_cli_pipes_a_file(server):
    name = mint_name("sale")
    cli(server, "SALE.CREATE", name, 1000)
    text = "".join(f"SALE.GRAB {name} user{i}\r\n" for i in range(500))
    assert "errors: 0, replies: 500" in cli(server, stdin=text, flags=("--pipe",))
    assert cli(server, "SALE.LEFT", name) == "500"


@pytest.mark.parametrize("pipeline", [1, 16, 64])
def test_redis_benchmark(server, pipeline):
    name = mint_name("sale")
    cli(server, "SALE.CREATE", name, 3000)
    done = subprocess.run(["redis-benchmark", "-p", str(server.resp_port), "-n", "6400", "-c", "20", "-P", str(pipeline), "-r", "1000000", "-q",
                           "SALE.GRAB", name, "__rand_int__"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "requests per second" in done.stdout and "rror" not in done.stdout + done.stderr, done
    assert cli(server, "SALE.LEFT", name) == "0"


def test_redis_py(server):
    client = redis.Redis(port=server.resp_port, decode_responses=True, client_name="till")
    name = mint_name("sale")
    assert client.ping() and client.client_getname() == "till"
    sale = client.execute_command("SALE.CREATE", name, 2, "UNITS", 2)
    with client.pipeline(transaction=False) as pipe:
        for user in ("ann", "bob", "ann", "cat"):
            pipe.execute_command("SALE.GRAB", sale, user)
        got = pipe.execute()
    assert [reply[0] for reply in got] == ["WON", "WON", "ALREADY_WON", "SOLD_OUT"] and got[3][1] is None
    with pytest.raises(redis.ResponseError, match="NO_SUCH_SALE"):
        client.execute_command("SALE.LEFT", "none-" + name)
    assert client.info()["redis_mode"] == "standalone"
    client.close()


def test_redis_py_with_a_password(own_server, tmp_path):
    path = tmp_path / "accounts"
    path.write_text(f"default {SECRET}\nshop {SECRET}x\n")
    path.chmod(0o600)
    server = own_server("--resp-accounts", path)
    for account in ({"password": SECRET}, {"username": "shop", "password": SECRET + "x"}):
        client = redis.Redis(port=server.resp_port, **account)
        assert client.ping()
        client.close()
    with pytest.raises((redis.AuthenticationError, redis.ResponseError)):
        redis.Redis(port=server.resp_port).ping()
    with pytest.raises((redis.AuthenticationError, redis.ResponseError)):
        redis.Redis(port=server.resp_port, password="wrong-password-of-length").ping()
    assert cli(server, "PING", flags=("--no-auth-warning", "-3", "--user", "shop", "-a", SECRET + "x")) == "PONG"


def test_hiredis(server, hiredis_program):
    name = mint_name("sale")
    done = subprocess.run([hiredis_program, str(server.resp_port), name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    assert done.stdout.split() == ["PONG", "100", "won", "100", "sold", "out"], done.stdout


def test_ioredis(server, node_modules):
    got = node(node_modules, "ioredis_client.js", server.resp_port, mint_name("sale"))
    assert got == {"won": 50, "refused": 150, "left": 0, "problem": "NO_SUCH_SALE"}


def test_node_redis_speaks_resp3(server, node_modules):
    """Maps are maps, nil is null and numbers are numbers, as a library takes them that asks for RESP3 itself."""
    name = mint_name("sale")
    got = node(node_modules, "node_redis_client.js", server.resp_port, name)
    assert got["hello"]["proto"] == 3 and got["hello"]["mode"] == "standalone" and got["hello"]["modules"] == []
    assert got["name"] == "till" and got["nameless"] is None
    assert got["words"] == ["WON"] * 50 + ["SOLD_OUT"] * 10
    assert got["won"] == ["WON", got["order"]["no"], 49] and got["lost"] == ["SOLD_OUT", None, 0]
    assert got["left"] == 0 and got["seckill"] == 2 and got["problem"] == "NO_SUCH_SALE"
    info = got["info"]
    assert (info["id"], info["name"], info["state"]) == (got["sale"], name, "sold_out")
    assert (info["offered"], info["available"], info["held"], info["sold"]) == (50, 0, 50, 0) and info["closes_at"] is None
    order = got["order"]
    assert (order["sale"], order["buyer"], order["units"], order["state"]) == (got["sale"], "default:buyer-0", 1, "held")
    assert got["paid"] == {**order, "state": "paid"}
