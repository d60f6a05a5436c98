"""What every end-to-end test stands on: a server of its own, a small client, and tokens minted with the server's key.

A Server lives in a folder of its own on a port of its own and is ended by whoever started it. Its standard error goes to a
file that is shown when something fails, and a report of a sanitizer in that file fails the test that is running."""

import base64
import contextlib
import dataclasses
import hashlib
import hmac
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from children import end_with_parent  # noqa: F401
from gates import ON_REDIS, gate_flags  # noqa: F401
from ledgers import data_copy, ledger_arguments, ledger_environment, ledger_flags, ledger_of  # noqa: F401

# Tests take everything from here, so that they need not know where it stands.
from wire import Answer, Client, Closed, answer_take, answers_in, at_once, beside, crowd, crowd_again, problem, read_to_end, request_bytes  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("STAMPEDE_BINARY") or str(ROOT / "build" / "stampede")
# Where doors stand: what they answer is in the words of their clients.
DOOR_PATHS = ("/api/", "/luck", "/shop/")
READY_S_MAX = 60
PATIENCE_S = 60  # for what comes at once on a machine that has nothing else to do
STOP_S_MAX = 60
# What a server says when its disk, its Redis, its database or itself stood still: whoever comes then is told 503, as they should be.
STOOD_STILL = re.compile(r"did not answer|does not answer|did not say|turned away: |breaker \w+: open")
REPORTS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:", "WARNING: ThreadSanitizer", "Assertion `")


class ServerDied(AssertionError):
    """The server ended before it was ready; the message has its exit code and its log."""


def environment(extra=None):
    """The environment without anyone's own STAMPEDE_ settings, which would steer the server under test."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("STAMPEDE_")}
    env.update(ledger_environment())
    env.update(extra or {})
    return env


def run(*arguments, stdin=b"", timeout=60, env=None, prefix=()):
    """One command of the binary, to its end."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    arguments = [*arguments, *ledger_arguments(arguments)]
    done = subprocess.run([*prefix, BINARY, *map(str, arguments)], input=stdin, capture_output=True, timeout=timeout,
                          env=environment(env))
    text = done.stderr.decode(errors="replace")
    for report in REPORTS:
        assert report not in text, f"{arguments}: a sanitizer or an assertion spoke up\n{text}"
    return Done(done.returncode, done.stdout.decode(errors="replace"), text)


@dataclasses.dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def text(self):
        return self.out + self.err


class Server:
    """stampede serve, with everything it needs in a temporary folder."""

    open = []  # those that were made and not closed

    def __init__(self, *flags, data=None, segment_mb=2, prefix=(), env=None, port=0, tls=False):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="stampede-test-"))
        self.data = pathlib.Path(data) if data else self.folder / "data"
        self.flags = [*map(str, flags)]
        self.segment_mb = segment_mb
        self.prefix = [*prefix]
        self.env = env
        self.port_wanted = port
        self.log_path = self.folder / "log"
        self.process = None
        Server.open.append(self)
        self.host, self.port = "127.0.0.1", None
        self.resp_port = None
        self.tls = tls
        self.key = None
        self.said = ""

    def start_unready(self, prefix=None, env=None):
        """Starts it and does not wait until it can answer."""
        assert self.process is None, "already started"
        command = [*(self.prefix if prefix is None else prefix), BINARY, "serve", "--data", str(self.data), "--http",
                   f"{self.host}:{self.port_wanted}", "--journal-segment-mb", str(self.segment_mb), *self.flags]
        if "--ledger" not in self.flags:
            command += ledger_flags(self.data)
        if "--gate" not in self.flags:
            command += gate_flags(self.data)
        if "--resp" not in self.flags:
            command += ["--resp", "127.0.0.1:0"]
        around = environment(env or self.env)
        if "strace" in command and "ASAN_OPTIONS" in around:
            around["ASAN_OPTIONS"] += ":detect_leaks=0"  # who looks for leaks traces, and one who is traced cannot be
        try:
            with open(self.log_path, "ab") as log:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                                env=around, start_new_session=True,
                                                preexec_fn=end_with_parent)
        except OSError:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def ready(self, ready_s=READY_S_MAX):
        """Waits for the ready line; false when the server ended, or said something else."""
        self.said = self._ready_line(ready_s)
        found = re.match(r"listening http=(\S+):(\d+)(?: resp=\S+:(\d+))?$", self.said)
        if found:
            self.host, self.port = found.group(1), int(found.group(2))
            self.resp_port = int(found.group(3)) if found.group(3) else None
        return found is not None

    def start(self, prefix=None, env=None, ready_s=READY_S_MAX):
        self.start_unready(prefix, env)
        if not self.ready(ready_s):
            code = self._reap()
            raise ServerDied(f"not ready: said {self.said!r}, exit {code}\n{self.log()}")
        return self

    def _ready_line(self, ready_s):
        end, text = time.monotonic() + ready_s, b""
        out = self.process.stdout
        os.set_blocking(out.fileno(), False)
        while time.monotonic() < end and b"\n" not in text:
            piece = out.read()
            if piece == b"":
                break
            if piece:
                text += piece
            else:
                time.sleep(0.005)
        return text.decode(errors="replace").split("\n")[0]

    def _reap(self):
        """The exit code of a server that should be ending; it is killed when it does not."""
        process, self.process = self.process, None
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        process.stdout.close()
        return process.returncode

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def ended(self, within_s):
        """Whether it ended by itself, or does so in this time."""
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait(self, timeout):
        """Exit code of a server that ends by itself."""
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s\n{self.log()}") from None
        return self._reap()

    def stop(self):
        """SIGTERM, which must drain and exit 0."""
        if self.process is None:
            return
        process = self.process
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._reap()
            raise AssertionError(f"SIGTERM did not end the server in {STOP_S_MAX} s\n{self.log()}") from None
        rest = process.stdout.read()
        code = self._reap()
        self.check_log()
        assert code == 0, f"SIGTERM: exit {code}\n{self.log()}"
        assert not rest, f"more than the ready line on standard output: {rest!r}"

    def kill(self):
        """SIGKILL: what it had not made durable is gone."""
        if self.process is None:
            return
        assert self.process.poll() is None, f"ended by itself: {self.process.returncode}\n{self.log()}"
        self.process.kill()
        self._reap()
        self.check_log()

    def die(self):
        """Gone, whether it had ended by itself already or not."""
        if self.process is not None:
            self.process.kill()
            self._reap()
        self.check_log()

    def restart(self, kill=False):
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def log(self, bytes_max=20000):
        try:
            text = self.log_path.read_bytes()[-bytes_max:].decode(errors="replace")
        except OSError:
            return "(no log)"
        ended = "" if self.process is None or self.process.poll() is None else f", which has ended: {self.process.returncode}"
        return f"--- log of the server{ended} ---\n{text}\n---"

    def check_log(self):
        text = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        for report in REPORTS:
            if report in text:
                at = text.index(report)
                raise AssertionError(f"a sanitizer or an assertion spoke up:\n{text[max(0, at - 500):at + 6000]}")

    def close(self):
        """Ends whatever is left and removes the folder; complains about what the log holds."""
        try:
            if self.process is not None:
                if self.process.poll() is None:
                    self.stop()
                else:
                    code = self._reap()
                    raise AssertionError(f"the server ended by itself: {code}\n{self.log()}")
            self.check_log()
        finally:
            if self.process is not None:
                self.process.kill()
                self._reap()
            Server.open = [other for other in Server.open if other is not self]
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self if self.process else self.start()

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
            return
        print(self.log())
        with contextlib.suppress(AssertionError):
            self.close()

    # Talking to it.

    def connect(self, timeout=30):
        return Client(self, timeout)

    def raw(self, timeout=30):
        sock = socket.create_connection((self.host, self.port), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def signing_key(self):
        """The first line of DATA/keys signs. Read once: the file is not replaced while a test runs."""
        if self.key is None:
            kid, text = keys_of(self.data)[0]
            self.key = kid, bytes.fromhex(text)
        return self.key

    def token(self, name, role="customer", **changes):
        """A token as the server itself would make it; changes replace claims, None leaves one out."""
        kid, key = self.signing_key()
        return token_sign(claims_of(name, role, **changes), kid, key)

    def cpu_s(self):
        """Processor time used so far."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kb(self):
        found = re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.pid}/status").read_text())
        return int(found.group(1))

    def audit(self):
        """Proves the promises offline; the server must not be running."""
        assert self.process is None
        return run("audit", "--data", self.data, timeout=120)

    def ledger(self):
        """A look into it from outside."""
        return ledger_of(self.data)


def refuses(server, code, *words):
    """The server ends by itself with this code and says each of these words; what it said."""
    try:
        server.start(ready_s=30)
    except ServerDied as died:
        text = str(died)
    else:
        raise AssertionError("it started")
    assert f"exit {code}\n" in text, text
    for word in words:
        assert str(word) in text, f"does not say {word!r}: {text}"
    return text


def keys_of(data):
    """(kid, hex) pairs, the signing one first."""
    lines = (pathlib.Path(data) / "keys").read_text().splitlines()
    return [tuple(line.split()) for line in lines if line.strip() and not line.startswith("#")]


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def claims_of(name, role="customer", **changes):
    now = int(time.time())
    claims = {"iss": "stampede", "aud": "stampede", "sub": name, "role": role, "iat": now, "nbf": now, "exp": now + 3600,
              "jti": secrets.token_hex(8)}
    claims.update(changes)
    return {name: value for name, value in claims.items() if value is not None}


def token_sign(claims, kid, key, header=None, digest=hashlib.sha256):
    """claims and header may be given as bytes, to say what no library would."""
    if header is None:
        header = {"alg": "HS256", "typ": "JWT", "kid": kid}
    parts = [part if isinstance(part, bytes) else json.dumps(part, separators=(",", ":")).encode() for part in (header, claims)]
    signed = ".".join(map(base64url, parts))
    return signed + "." + base64url(hmac.new(key, signed.encode(), digest).digest())


def time_text(offset_s=0.0):
    """RFC 3339 in UTC with milliseconds, so many seconds from now."""
    at = time.time() + offset_s
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z"


def eventually(check, seconds=PATIENCE_S, pause=0.05):
    """The first true answer of check(); fails with its last one when none came in time. No time decides a test: less than PATIENCE_S is not asked for."""
    seconds = max(seconds, PATIENCE_S)
    end = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        assert time.monotonic() < end, f"not so after {seconds} s: {answer!r}"
        time.sleep(pause)


def unhurried(before, *spans):
    """What before(span) found, which has so many seconds until something happens by itself. Where this machine was too slow for it, once more with more time."""
    for span in spans or (1, 5, 25):
        began = time.monotonic()
        try:
            return before(span)
        except AssertionError as error:
            wrong = error
            if time.monotonic() - began < span:
                break
    raise wrong


def mint_name(prefix):
    """A name nobody had before."""
    return f"{prefix}-{secrets.token_hex(5)}"


class Shop:
    """A seller and the requests a seller and buyers make, on one connection."""

    def __init__(self, server, seller=None):
        self.server = server
        self.client = server.connect()
        self.seller = seller or mint_name("seller")
        self.seller_token = server.token(self.seller, "seller")
        self.admin_token = server.token(mint_name("admin"), "admin")
        self.tokens = {}

    def close(self):
        self.client.close()

    def buyer(self, name):
        if name not in self.tokens:
            self.tokens[name] = self.server.token(name)
        return self.tokens[name]

    def patient(self, ask):
        """The answers of ask() up to the first that is not 503. A 503 is asked again only where this machine stood still, as the time it took shows, or the
        server's log: one that comes without a reason is the last."""
        began, answers = time.monotonic(), [ask()]
        while answers[-1].status == 503 and time.monotonic() < began + PATIENCE_S:
            if time.monotonic() < began + 1 and not STOOD_STILL.search(self.server.log()):
                break
            time.sleep(0.05)
            answers.append(ask())
        return answers

    def sale(self, stock=10, **fields):
        answer = self.patient(lambda: self.client.post("/v1/sales", {"name": mint_name("sale"), "stock": stock, **fields}, self.seller_token))[-1]
        assert answer.status == 201, answer
        return answer.json()

    def show(self, sale):
        answer = self.client.get(f"/v1/sales/{sale}")
        assert answer.status == 200, answer
        return answer.json()

    def counts(self, sale):
        """offered, available, held, sold; checks P1 on the way."""
        seen = self.show(sale)
        counts = tuple(seen[name] for name in ("offered", "available", "held", "sold"))
        assert counts[0] == sum(counts[1:]) and min(counts) >= 0, f"P1 broken: {seen}"
        return counts

    def purchase_token(self, sale, buyer):
        answer = self.client.post(f"/v1/sales/{sale}/tokens", None, self.buyer(buyer))
        assert answer.status == 201, answer
        return answer.json()["token"]

    def grab(self, sale, buyer=None, units=None, key=None, token=None, purchase=None):
        """purchase: a purchase token, "token" in the body; token: the login."""
        body = {name: value for name, value in (("units", units), ("token", purchase)) if value is not None} or None
        if token is None and buyer is not None:
            token = self.buyer(buyer)
        return self.client.post(f"/v1/sales/{sale}/grabs", body, token, key=key)

    def win(self, sale, buyer=None, **more):
        """The order. Where the outcome was not known, asked again it is told as won already."""
        *before, answer = self.patient(lambda: self.grab(sale, buyer, **more))
        unsure = any(one.code == "OUTCOME_UNKNOWN" for one in before)
        assert answer.status == 201 or unsure and answer.code == "ALREADY_WON", answer
        return answer.json()["order"]

    def act(self, sale, verb, body=None, token=None):
        return self.client.post(f"/v1/sales/{sale}/{verb}", body, token or self.seller_token)

    def change(self, sale, **fields):
        return self.client.patch(f"/v1/sales/{sale}", fields, self.seller_token)

    def order(self, no, token=None):
        return self.client.get(f"/v1/orders/{no}", token or self.admin_token)

    def listed(self, path, token=None, limit=200):
        """Every item of a list, page by page."""
        items, cursor = [], None
        for _ in range(1000):
            more = f"{'&' if '?' in path else '?'}limit={limit}" + (f"&cursor={cursor}" if cursor else "")
            answer = self.client.get(path + more, token)
            assert answer.status == 200, answer
            page = answer.json()
            assert set(page) >= {"items", "next"} and len(page["items"]) <= limit, page
            items += page["items"]
            cursor = page["next"]
            if cursor is None:
                return items
        raise AssertionError("the list does not end")
