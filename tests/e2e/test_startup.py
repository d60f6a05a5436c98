"""Starting, stopping and refusing to start; the commands of the binary (P3, P5, P10)."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest
from harness import BINARY, ROOT, ServerDied, Shop, crowd, environment, eventually, keys_of, mint_name, problem, refuses, request_bytes, run
from ports import free_port


# What is wrong at the start is one clear line.

def test_a_taken_port_is_an_error(own_server):
    first = own_server()
    second = own_server(start=False, port=first.port)
    text = refuses(second, 1, first.port)
    assert "use" in text.lower() or "taken" in text.lower(), text
    with first.connect() as client:
        assert client.get("/healthz").status == 200


def test_a_port_held_by_someone_else_is_an_error(own_server):
    """Also by one who listens with SO_REUSEPORT: the first socket binds plainly, so that nobody shares our port unnoticed."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        refuses(own_server(start=False, port=holder.getsockname()[1]), 1)


@pytest.mark.parametrize("place", ["under a file", "in proc"])
def test_a_folder_that_cannot_be_written_is_an_error(own_server, tmp_path, place):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "data" if place == "under a file" else pathlib.Path("/proc/stampede-data")
    refuses(own_server(start=False, data=path), 1, path)


def test_a_folder_in_use_says_by_which_pid(own_server):
    first = own_server()
    second = own_server(start=False, data=first.data)
    refuses(second, 1, first.pid)
    with first.connect() as client:
        assert client.get("/healthz").status == 200
    first.kill()
    second.start()
    with second.connect() as client:
        assert client.get("/healthz").status == 200, "the lock outlived its holder"


@pytest.mark.parametrize("what", ["missing", "rubbish", "wrong key", "empty"])
def test_a_bad_certificate_is_an_error(own_server, tmp_path, what):
    def make(name):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", tmp_path / f"{name}.key", "-out",
                        tmp_path / f"{name}.pem", "-subj", "/CN=x"], check=True, capture_output=True, timeout=60)
    make("one")
    make("two")
    cert, key = tmp_path / "one.pem", tmp_path / "one.key"
    if what == "missing":
        cert = tmp_path / "nowhere.pem"
    elif what == "rubbish":
        cert.write_text("-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n")
    elif what == "wrong key":
        key = tmp_path / "two.key"
    elif what == "empty":
        cert.write_text("")
    text = refuses(own_server("--tls-cert", cert, "--tls-key", key, start=False), 1)
    assert str(tmp_path) in text or "tls" in text.lower(), text


@pytest.mark.parametrize("content,line", [("no hex here\n", 1), ("kid 00ff\n", 1), ("one " + "ab" * 32 + "\ntwo zz\n", 2), ("a " + "ab" * 32 + "\na " + "cd" * 32 + "\n", 2), ("", None)],
                         ids=["words", "short", "second", "twice", "empty"])
def test_bad_signing_keys_are_an_error_and_never_said_aloud(own_server, content, line):
    """P8: no start with a key anyone could guess."""
    server = own_server()
    server.stop()
    path = server.data / "keys"
    path.write_text(content)
    path.chmod(0o600)
    text = refuses(server, 1, "keys")
    assert line is None or re.search(rf"\b{line}\b", text), text
    assert "ab" * 32 not in text


@pytest.mark.sqlite
def test_a_database_of_something_else_is_left_alone(own_server):
    server = own_server()
    server.stop()
    path = server.data / "ledger.db"
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (server.data / name).unlink(missing_ok=True)
    path.write_bytes(b"this is no database at all, just a long text " * 100)
    before = path.read_bytes()
    refuses(server, 3, path, "file is not a database", "cannot be used", "stampede audit", "from a copy")
    assert path.read_bytes() == before
    shown = run("repair", "--data", server.data)
    assert shown.code == 3 and str(path) in shown.text and "copy" in shown.text, shown


@pytest.mark.parametrize("arguments", [["serve", "--no-such-flag"], ["serve", "--http"], ["serve", "--http", "nonsense"], ["serve", "--http", "127.0.0.1:70000"],
                                       ["serve", "--reactors", "-1"], ["serve", "--reactors", "0x2"], ["serve", "--log-level", "loud"],
                                       ["serve", "extra"], ["serve", "--tls-cert", "x.pem"], ["fly"], [],
                                       ["admin"], ["admin", "create"], ["admin", "delete", "x"], ["config"], ["audit", "--no-such-flag"], ["repair", "--no"],
                                       ["version", "extra"], ["demo", "--no-such-flag"]], ids=str)
def test_wrong_usage_is_exit_2_and_says_what_is_wrong(arguments, tmp_path):
    done = subprocess.run([BINARY, *arguments], capture_output=True, timeout=20, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL)
    assert done.returncode == 2, done
    assert done.stderr.strip(), "says nothing"
    assert not list(tmp_path.iterdir()), "wrong usage left something behind"
    if len(arguments) > 1 and arguments[-1].startswith("--no-such"):
        assert b"no-such-flag" in done.stderr


@pytest.mark.parametrize("word", ["version", "--version"])
def test_version_says_the_version(word):
    done = run(word)
    assert done.code == 0 and re.search(r"\b\d+\.\d+\.\d+", done.out), done


def test_help_lists_every_command():
    done = run("--help")
    assert done.code == 0, done
    for word in ("serve", "admin", "audit", "repair", "config", "version"):
        assert word in done.text


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_says_how_it_is_used(tmp_path, flag):
    commands = re.findall(r"^  stampede (\S+) ", run("help").out, re.M)
    assert len(commands) == 11, commands
    for arguments in ([word] for word in commands), (["admin", "create", "root"], ["export", "orders"], ["serve", "--reactors", "1"]):
        for words in arguments:
            done = subprocess.run([BINARY, *words, flag], capture_output=True, timeout=20, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL)
            assert done.returncode == 0 and done.stderr == b"", done
            assert re.match(rf"usage:\s+stampede {words[0]}\b", done.stdout.decode()), done
            assert (b"--data PATH" in done.stdout) == (words[0] not in ("demo", "config", "routes", "version")), done
    assert not list(tmp_path.iterdir()), "help left something behind"


# Configuration.

def test_config_check_names_every_mistake_with_its_line(tmp_path):
    path = tmp_path / "stampede.conf"
    path.write_text("# a comment\nhttp = 127.0.0.1:0\nreactors = many\n\nno_such_option = 1\nthis is no line\njournal_segment_mb = 0\n")
    done = run("config", "check", path)
    assert done.code == 1, done
    for line in (3, 5, 6, 7):
        assert re.search(rf"\b{line}\b", done.text), f"line {line} is not named: {done}"
    assert not re.search(r"line [124]\b", done.text), done


def test_a_mark_of_the_encoding_is_no_part_of_the_first_option(tmp_path):
    path = tmp_path / "stampede.conf"
    path.write_bytes(b"\xef\xbb\xbfreactors = 1\nresp = off\n")
    assert run("config", "check", path).code == 0
    path.write_bytes(b"reactors = 1\n\xef\xbb\xbfresp = off\n")
    assert run("config", "check", path).code == 1, "only at the beginning"


WRONG_LISTS = [("limits", "nonsense=1", "nonsense"), ("limits", "ip_grab_per_s=-1", "ip_grab_per_s"), ("limits", "ip_grab_burst=0", "ip_grab_burst"),
               ("limits", "user_login_per_s=5", "user_login_per_s"), ("limits", "ip_grab_per_s=99999999999", "ip_grab_per_s"),
               ("proxies", "proxy.example", "proxy.example"), ("proxies", "10.0.0.1/8", "10.0.0.0/8"), ("proxies", "10.0.0.1,", "not an address")]


@pytest.mark.parametrize("option,value,word", WRONG_LISTS)
def test_limits_and_proxies_are_looked_at_before_anything_starts(tmp_path, option, value, word):
    path, data = tmp_path / "stampede.conf", tmp_path / "data"
    path.write_text(f"http = 127.0.0.1:0\n\n{option} = {value}\n")
    done = run("config", "check", path)
    assert done.code == 1 and re.search(rf"line 3: {option}: .*{re.escape(word)}", done.text), done
    for done in (run("serve", "--config", path, "--data", data), run("serve", "--data", data, f"--{option}", value),
                 run("serve", "--data", data, env={f"STAMPEDE_{option.upper()}": value})):
        assert done.code == 2 and option in done.text.lower() and word in done.text, done
    assert not data.exists(), "a wrong configuration left something behind"


PROVIDER = "identity_keys = /nonexistent\nidentity_audience = shop\n"


@pytest.mark.parametrize("lines,words", [
    ("ledger = mysql://\n", "the URL names no user"), ("ledger_read = mysql://a@b/c\n", "ledger_read is for"),
    (PROVIDER + "identity_issuer = idp\nidentity_roles = staff=boss\n", "identity_roles is a list"),
    (PROVIDER + "identity_issuer = claim:x\n", "identity_issuer begins like"), (PROVIDER + f"identity_issuer = {'i' * 63}\n", "identity_issuer is too long")],
    ids=["ledger without user", "replica of a file", "role that there is not", "issuer called as others", "long issuer"])
def test_config_check_says_what_serve_would_refuse(tmp_path, lines, words):
    path, data = tmp_path / "stampede.conf", tmp_path / "data"
    path.write_text(f"http = 127.0.0.1:0\nresp = off\ndata = {data}\n{lines}")
    checked, served = (subprocess.run([BINARY, *arguments, str(path)], capture_output=True, timeout=60, env=environment({"STAMPEDE_LEDGER_PASSWORD": ""}))
                       for arguments in (("config", "check"), ("serve", "--config")))
    assert checked.returncode == 1 and words in checked.stdout.decode() and "fine" not in checked.stdout.decode(), checked
    assert served.returncode == 2 and words in served.stderr.decode(), served
    assert not data.exists(), "a wrong configuration left something behind"


def test_config_check_likes_the_sample(tmp_path):
    done = run("config", "check", ROOT / "conf" / "stampede.conf")
    assert done.code == 0, done
    done = run("config", "check", tmp_path / "nowhere.conf")
    assert done.code in (1, 2) and "nowhere.conf" in done.text, done


def test_flags_win_over_environment_and_environment_over_the_file(own_server, tmp_path):
    one, two, three = (free_port() for _ in range(3))
    path = tmp_path / "stampede.conf"
    path.write_text(f"http = 127.0.0.1:{one}\ndata = {tmp_path}/from-file\nresp = off\njournal_segment_mb = 1\n")

    def started(env, *flags):
        process = subprocess.Popen([BINARY, "serve", "--config", path, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(env))
        try:
            line = process.stdout.readline().decode()
            return int(re.match(r"listening http=127\.0\.0\.1:(\d+)", line).group(1))
        finally:
            process.terminate()
            process.communicate(timeout=20)
    assert started({}) == one
    assert started({"STAMPEDE_HTTP": f"127.0.0.1:{two}"}) == two
    assert started({"STAMPEDE_HTTP": f"127.0.0.1:{two}"}, "--http", f"127.0.0.1:{three}") == three
    assert (tmp_path / "from-file" / "journal").exists()


def test_a_mistake_in_the_file_or_the_environment_is_named(tmp_path):
    path = tmp_path / "stampede.conf"
    path.write_text("\nhttpp = 1\n")
    done = run("serve", "--config", path, "--data", tmp_path / "data")
    assert done.code in (1, 2) and re.search(r"\b2\b", done.text) and "httpp" in done.text, done
    done = run("serve", "--data", tmp_path / "data", "--http", "127.0.0.1:0", env={"STAMPEDE_REACTORS": "x"})
    assert done.code in (1, 2) and "STAMPEDE_REACTORS" in done.text, done


# Administrators.

def test_an_admin_is_made_on_the_command_line_and_nowhere_else(own_server):
    """P8: no default admin; the password comes from standard input."""
    server = own_server()
    shop = Shop(server)
    for name in ("admin", "root", "administrator"):
        problem(shop.client.post("/v1/login", {"username": name, "password": "administrator"}), 401, "BAD_LOGIN")
    shop.close()
    server.stop()
    done = run("admin", "create", "boss", "--data", server.data, stdin="a long password\n")
    assert done.code == 0 and "a long password" not in done.text, done
    server.start()
    answer = shop.client.post("/v1/login", {"username": "boss", "password": "a long password"})
    assert answer.status == 200 and answer.json()["role"] == "admin", answer
    assert shop.client.post("/v1/sales", {"name": "s", "stock": 1}, answer.json()["token"]).status == 201
    shop.close()


def test_an_admin_can_be_made_before_the_first_start_and_while_serving(own_server, tmp_path):
    server = own_server(start=False)
    assert run("admin", "create", "early", "--data", server.data, stdin="a long password\n").code == 0
    server.start()
    done = run("admin", "create", "late", "--data", server.data, stdin="a long password\n")
    with server.connect() as client:
        assert client.post("/v1/login", {"username": "early", "password": "a long password"}).json()["role"] == "admin"
        answer = client.post("/v1/login", {"username": "late", "password": "a long password"})
        if done.code == 0:
            assert answer.status == 200, "said to be made, but is not"
        else:
            assert str(server.pid) in done.text and answer.status == 401, done


@pytest.mark.parametrize("name,password", [("boss", ""), ("boss", "short\n"), ("bo ss", "a long password\n"), ("", "a long password\n"), ("b" * 65, "a long password\n"),
                                           ("boss", "p" * 129 + "\n")], ids=["nothing", "short", "space", "no name", "long name", "long password"])
def test_an_admin_needs_a_good_name_and_password(tmp_path, name, password):
    done = run("admin", "create", name, "--data", tmp_path / "data", stdin=password)
    assert done.code in (1, 2) and done.err.strip(), done


def test_an_admin_does_not_take_the_name_of_another(own_server):
    server = own_server()
    name = mint_name("user")
    with server.connect() as client:
        client.post("/v1/users", {"username": name, "password": "first password", "role": "customer"})
    server.stop()
    done = run("admin", "create", name, "--data", server.data, stdin="other password\n")
    assert done.code == 1 and done.err.strip(), done
    server.start()
    with server.connect() as client:
        assert client.post("/v1/login", {"username": name, "password": "first password"}).json()["role"] == "customer"


# Running.

def test_the_ready_line_comes_when_the_server_can_answer(own_server):
    server = own_server(start=False)
    for _ in range(3):
        server.start()
        with server.connect() as client:
            assert client.get("/readyz").status == 200
        server.stop()


@pytest.mark.local
def test_health_ready_and_metrics_say_what_they_should(own_server):
    server = own_server()
    shop = Shop(server)
    assert shop.client.get("/healthz").status == 200
    assert shop.client.get("/readyz").status == 200
    sale = shop.sale(stock=3)["id"]
    for i in range(5):
        shop.grab(sale, f"b{i}")
    shop.grab(sale, "b0")
    shop.listed(f"/v1/orders?sale={sale}", shop.seller_token)
    answer = shop.client.get("/metrics")
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain"), answer
    seen, kinds = {}, {}
    for line in answer.body.decode().splitlines():
        if line.startswith("# TYPE "):
            kinds[line.split()[2]] = line.split()[3]
        elif not line.startswith("#") and line:
            found = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? ([0-9.eE+-]+|\+Inf|NaN)', line)
            assert found, f"not Prometheus text: {line!r}"
            assert found.group(1) + (found.group(2) or "") not in seen, f"twice: {line}"
            seen[found.group(1) + (found.group(2) or "")] = float(found.group(3))
    assert seen['stampede_grabs_total{verdict="WON"}'] == 3
    assert seen['stampede_grabs_total{verdict="SOLD_OUT"}'] == 2
    assert seen['stampede_grabs_total{verdict="ALREADY_WON"}'] == 1
    assert seen["stampede_decisions_total"] == 4 == seen["stampede_clerk_filed_total"]
    assert 1 <= seen["stampede_commits_total"] <= 4
    assert kinds["stampede_commit_seconds"] == "histogram" and kinds["stampede_commit_batch_decisions"] == "histogram"
    assert seen["stampede_commit_batch_decisions_sum"] == 4
    assert seen["stampede_commit_seconds_count"] == seen["stampede_commits_total"]
    buckets = [(name, value) for name, value in seen.items() if name.startswith("stampede_commit_seconds_bucket")]
    assert [value for _, value in buckets] == sorted(value for _, value in buckets), "buckets are not cumulative"
    assert buckets[-1][0].endswith('le="+Inf"}') and buckets[-1][1] == seen["stampede_commit_seconds_count"]
    text = answer.body.decode()
    for word in ("lag", "memory", "connections", "journal"):
        assert word in text, f"the metrics say nothing of {word}"
    shop.close()


def test_sigterm_drains_what_is_under_way(own_server):
    """P3: every grab answered 201 is there afterwards; who is cut off got no answer at all."""
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=10 ** 6)["id"]
    clients = [server.connect() for _ in range(30)]
    for i, client in enumerate(clients):
        client.send(b"".join(request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i}-{j}")) for j in range(20)))
    answers = [(client, client.receive()) for client in clients]  # 19 more of each are on their way
    server.process.send_signal(signal.SIGTERM)
    won = {}
    for client, answer in answers:
        try:
            for _ in range(20):
                assert answer.status in (201, 503), answer
                if answer.status == 201:
                    order = answer.json()["order"]
                    won[order["no"]] = order["buyer"]
                answer = client.receive()
        except ConnectionError:
            pass
        client.close()
    shop.close()
    server.stop()
    rows = {str(row["no"]): row["buyer"] for row in server.ledger().orders(sale)}
    assert won.items() <= rows.items()
    assert len(won) >= 20, "nobody was answered"
    audit = server.audit()
    assert audit.code == 0, audit


def test_sigterm_with_idle_and_half_sent_requests_still_ends_quickly(own_server):
    server = own_server()
    socks = [server.raw() for _ in range(20)]
    for sock in socks[:10]:
        sock.sendall(b"GET /healthz HTT")
    with server.connect() as client:
        client.get("/healthz")
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 40
    for sock in socks:
        sock.close()


def test_a_second_sigterm_and_sigint_do_no_harm(own_server):
    server = own_server()
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGINT)
    code = server.wait(30)
    assert code in (0, -signal.SIGINT, -signal.SIGTERM), code


def test_sighup_reloads_and_does_not_end_the_server(own_server):
    server = own_server()
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    with server.connect() as client:
        assert client.get("/healthz").status == 200


def test_logs_are_json_lines_without_secrets(own_server):
    server = own_server("--log-level", "debug")
    shop = Shop(server)
    shop.client.post("/v1/users", {"username": "ann", "password": "very secret words", "role": "customer"})
    token = shop.client.post("/v1/login", {"username": "ann", "password": "very secret words"}).json()["token"]
    shop.client.get("/v1/orders", token)
    shop.client.get("/nowhere", token)
    shop.close()
    server.stop()
    text = server.log_path.read_text()
    for line in text.splitlines():
        assert isinstance(json.loads(line), dict), line
    assert "very secret" not in text and token not in text
    assert keys_of(server.data)[0][1] not in text


@pytest.mark.local
def test_the_data_folder_is_private(own_server):
    server = own_server()
    assert server.data.stat().st_mode & 0o077 == 0, oct(server.data.stat().st_mode)
    for path in (server.data / "journal").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.local
def test_many_segments_are_written_and_read_again(own_server):
    """P5: wins over several journal files, then a restart by replay and one from the ledger alone."""
    server = own_server(segment_mb=1)
    shop = Shop(server)
    sale = shop.sale(stock=10 ** 6, grabs_per_buyer_max=10 ** 6)["id"]
    description = "d" * 2000
    sales = []
    for i in range(700):
        sales.append(shop.client.post("/v1/sales", {"name": f"big {i}", "stock": 1, "description": description}, shop.seller_token).json()["id"])
    requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i % 50}")) for i in range(1000)]
    assert {answer.status for answer in crowd(server, requests, 50)} == {201}
    shop.close()
    assert len(os.listdir(server.data / "journal")) >= 2, "one segment held it all: the test proves nothing"
    for kill in (True, False):
        server.restart(kill)
        assert shop.counts(sale) == (10 ** 6, 10 ** 6 - 1000, 0, 1000)
        assert shop.show(sales[350])["description"] == description
        shop.close()
    server.stop()
    assert server.audit().code == 0
    assert len(server.ledger().orders(sale)) == 1000


@pytest.mark.local
def test_low_disk_space_is_an_answer(own_server):
    """P10: 503 with Retry-After before the disk is full, while reading goes on."""
    server = own_server("--space-mb-min", str(1 << 20))
    shop = Shop(server)
    answer = shop.client.post("/v1/sales", {"name": "s", "stock": 1}, shop.seller_token)
    problem(answer, 503, "BUSY")
    assert int(answer.headers["retry-after"]) >= 1
    assert shop.client.get("/v1/sales").status == 200
    eventually(lambda: shop.client.get("/healthz").status == 200)
    assert "space is low" in shop.client.get("/readyz").json()["detail"]
    shop.close()


@pytest.mark.local
def test_a_file_that_may_not_grow_is_said_and_ends_the_start(own_server):
    """P10: as a full disk, not by a signal that says nothing."""
    refuses(own_server(start=False, prefix=["sh", "-c", 'ulimit -f 700; exec "$@"', "sh"]), 1, "File too large")


@pytest.mark.local
@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
def test_a_closed_standard_stream_is_not_taken_by_a_file(own_server, closed):
    """The log would be written into it: into the lock, where the pid stands."""
    server = own_server("--log-level", "debug", prefix=["sh", "-c", f'exec "$@" {closed}', "sh"])
    with server.connect() as client:
        assert client.get("/healthz").status == 200
    assert (server.data / "lock").read_text().strip() == str(server.process.pid)
    assert all(os.readlink(f"/proc/{server.process.pid}/fd/{stream}") == "/dev/null" for stream in (0, 2))
