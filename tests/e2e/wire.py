"""HTTP as a small client speaks it: one keep-alive connection, or a whole crowd of them, over plain sockets.

No library stands between a test and the bytes, so a test can say what no library would, and sees exactly what came back."""

import concurrent.futures
import contextlib
import json
import re
import select
import selectors
import socket
import time


class Answer:
    """One HTTP answer. headers are lower case; a header sent twice is joined with a comma."""

    unsure = False  # see crowd_again()

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The stable word of a problem, or None."""
        if not self.headers.get("content-type", "").startswith("application/problem+json"):
            return None
        return self.json()["code"]

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:600]!r}>"


class Closed(ConnectionError):
    """The connection ended before a whole answer came."""


def answer_take(buffer, bodyless=False):
    """The first answer at the front of a bytearray, taken out of it; None while it is not whole."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    version, status, _ = (lines[0] + " ").split(" ", 2)
    assert version in ("HTTP/1.1", "HTTP/1.0"), f"not a status line: {lines[0]!r}"
    headers = {}
    for line in lines[1:]:
        name, value = line.split(":", 1)
        name = name.strip().lower()
        headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
    status = int(status)
    stream = headers.get("content-type") == "text/event-stream"  # it does not end: the head is the answer
    if bodyless or stream or status in (204, 304) or 100 <= status < 200:
        size = 0
    else:
        assert "content-length" in headers, f"no length: {lines}"
        size = int(headers["content-length"])
    if len(buffer) < end + 4 + size:
        return None
    body = bytes(buffer[end + 4:end + 4 + size])
    del buffer[:end + 4 + size]
    return Answer(status, headers, body)


def request_bytes(method, path, body=None, token=None, key=None, headers=None, host="test"):
    """A body that is neither None nor bytes is written as JSON."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    given = {name.lower() for name in headers or {}}
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body, separators=(",", ":")).encode()
    if body is not None and "content-type" not in given:
        lines.append("Content-Type: application/json")
    if body is not None or method in ("POST", "PATCH", "PUT"):
        lines.append(f"Content-Length: {len(body or b'')}")
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    if key is not None:
        lines.append(f"Idempotency-Key: {key}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items() if value is not None]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


class Client:
    """One keep-alive connection. Connects on first use and again after the server closed it."""

    def __init__(self, server, timeout=30):
        self.server, self.timeout = server, timeout
        self.sock, self.buffer = None, bytearray()

    def close(self):
        if self.sock is not None:
            self.sock.close()
        self.sock, self.buffer = None, bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def gone(self):
        """Whether the server has closed a connection that was not used for long, as it may: nothing has been asked on it since."""
        look = select.poll()
        look.register(self.sock, select.POLLIN)
        if not look.poll(0):
            return False
        try:
            return self.sock.recv(1, socket.MSG_PEEK) == b""
        except ValueError:  # of TLS, which lets nobody peek
            return False
        except OSError:
            return True

    def send(self, data):
        if self.sock is None:
            self.buffer.clear()
            self.sock = self.server.raw(self.timeout)
        self.sock.sendall(data)

    def receive(self, bodyless=False):
        while True:
            answer = answer_take(self.buffer, bodyless)
            if answer is not None:
                return answer
            piece = self.sock.recv(65536)
            if not piece:
                self.close()
                raise Closed("closed before the answer was whole")
            self.buffer += piece

    def request(self, method, path, body=None, token=None, key=None, headers=None):
        data = request_bytes(method, path, body, token, key, headers)
        if self.sock is not None and not self.buffer and self.gone():
            self.close()
        reused = self.sock is not None
        try:
            self.send(data)
            answer = self.receive(bodyless=method == "HEAD")
        except (Closed, ConnectionError):
            self.close()
            if not reused or method != "GET":
                raise
            self.send(data)
            answer = self.receive()
        if answer.headers.get("connection", "").lower() == "close":
            self.close()
        return answer

    def get(self, path, token=None, **more):
        return self.request("GET", path, None, token, **more)

    def post(self, path, body=None, token=None, **more):
        return self.request("POST", path, body, token, **more)

    def patch(self, path, body=None, token=None, **more):
        return self.request("PATCH", path, body, token, **more)


def crowd(server, requests, connections, seconds_max=120):
    """Sends every request, each connection one at a time, all connections at once; the answers in the order of the requests.

    All connections are open before the first byte is sent, so that the requests really meet at the gate."""
    requests = list(requests)
    answers = [None] * len(requests)
    waiting = iter(range(len(requests)))
    selector = selectors.DefaultSelector()
    lanes = []
    try:
        for _ in range(min(connections, len(requests))):
            lane = {"sock": server.raw(30), "in": bytearray(), "at": None}
            lane["sock"].setblocking(False)
            lanes.append(lane)

        def go_on(lane):
            lane["at"] = next(waiting, None)
            if lane["at"] is None:
                selector.unregister(lane["sock"])
                return False
            sent = lane["sock"].send(requests[lane["at"]])
            assert sent == len(requests[lane["at"]]), "a small request did not fit a socket's buffer"
            return True

        open_lanes = 0
        for lane in lanes:
            selector.register(lane["sock"], selectors.EVENT_READ, lane)
            open_lanes += go_on(lane)
        end = time.monotonic() + seconds_max
        while open_lanes:
            assert time.monotonic() < end, f"{sum(a is None for a in answers)} answers missing after {seconds_max} s"
            for ready, _ in selector.select(1):
                lane = ready.data
                piece = lane["sock"].recv(65536)
                assert piece, f"connection closed while request {lane['at']} was under way"
                lane["in"] += piece
                answer = answer_take(lane["in"])
                if answer is not None:
                    answers[lane["at"]] = answer
                    open_lanes -= not go_on(lane)
    finally:
        for lane in lanes:
            lane["sock"].close()
        selector.close()
    return answers


def crowd_again(server, requests, connections):
    """As crowd(), but whom a busy machine tells to come again (503) does so. Of a grab whose outcome was not known, ALREADY_WON tells what it was, so it is
    one that won; such answers are marked unsure."""
    answers = crowd(server, requests, connections)
    for i in range(len(answers)):
        end, unsure = time.monotonic() + 60, False
        with Client(server) as client:
            while answers[i].status == 503:
                assert time.monotonic() < end, answers[i]
                unsure = unsure or answers[i].code == "OUTCOME_UNKNOWN"
                time.sleep(0.05)
                client.send(requests[i])
                answers[i] = client.receive()
        if unsure and answers[i].code == "ALREADY_WON":
            answers[i].status = 201
        answers[i].unsure = unsure
    return answers


@contextlib.contextmanager
def beside(*jobs, until=None):
    """Runs callables while the block runs, each on a thread of its own, and waits for them at its end; until is an event that tells them to come to theirs.
    What one of them raised is raised then: a thread that died must not be taken for one that had nothing to say. Gives their futures."""
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        futures = [pool.submit(job) for job in jobs]
        try:
            yield futures
        except BaseException as error:
            for future in futures:
                if future.done() and future.exception() is not None:
                    error.add_note(f"beside it: {future.exception()!r}")
            raise
        finally:
            if until is not None:
                until.set()
    for future in futures:
        future.result()


def at_once(*jobs):
    """Runs callables, each on a thread of its own; what they returned, in their order."""
    with beside(*jobs) as futures:
        pass
    return [future.result() for future in futures]


def read_to_end(sock, seconds=10):
    """Every byte until the other side closes. A connection left open is told by None as the second value."""
    end, data = time.monotonic() + seconds, bytearray()
    while True:
        left = end - time.monotonic()
        if left <= 0:
            return bytes(data), None
        sock.settimeout(left)
        try:
            piece = sock.recv(65536)
        except TimeoutError:
            return bytes(data), None
        except ConnectionResetError:
            return bytes(data), "reset"
        if not piece:
            return bytes(data), "closed"
        data += piece


def answers_in(data):
    """All whole answers in bytes; what is left over must be nothing."""
    buffer, found = bytearray(data), []
    while buffer:
        answer = answer_take(buffer)
        assert answer is not None, f"half an answer is left: {bytes(buffer)[:200]!r}"
        found.append(answer)
    return found


def problem(answer, status, code=None, field=None):
    """Checks that an answer is a problem as api.md describes one, and returns its members."""
    statuses = status if isinstance(status, (tuple, set, list)) else (status,)
    assert answer.status in statuses, f"expected {statuses} {code or ''}: {answer!r}"
    assert answer.headers.get("content-type", "").startswith("application/problem+json"), answer
    body = answer.json()
    assert {"type", "title", "status", "code", "detail"} <= body.keys(), body
    assert body["status"] == answer.status, body
    assert re.fullmatch(r"[A-Z][A-Z_]*[A-Z]", body["code"]), body
    if code is not None:
        assert body["code"] in ((code,) if isinstance(code, str) else code), f"expected {code}: {body}"
    if field is not None:
        assert field in body["detail"], f"the detail does not name {field}: {body}"
    return body
