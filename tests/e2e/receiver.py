"""A merchant's endpoint that takes webhooks, well or badly, and checks their signatures with code that shares nothing with the server's."""

import collections
import contextlib
import http.server
import json
import re
import socket
import threading
import time

from harness import eventually
from ports import free_port
from provider import sign

# Of a server that tries again soon, at addresses that are not public.
QUICK = ("--webhooks-private", "on", "--webhook-retry-ms-min", "30", "--webhook-retry-ms-max", "300", "--webhook-timeout-ms", "700",
         "--clerk-pause-ms", "10")
# The same with time for an answer on a busy machine: where a message must not come twice.
CALM = tuple("20000" if word == "700" else word for word in QUICK)
# And of one that soon gives up.
FAILING_SOON = (*CALM, "--webhook-give-up-s", "1")


class Message:
    """One try as it arrived."""

    def __init__(self, path, headers, body):
        self.path, self.headers, self.body = path, headers, body
        self.at = time.time()
        self.id = headers["webhook-id"]
        self.json = json.loads(body)
        self.type, self.data = self.json["type"], self.json["data"]

    def check(self, *secrets):
        """The form, and a signature by each of these secrets and by no other."""
        assert re.fullmatch(r"msg_[0-9a-f]{16}_[0-9]+", self.id), self.id
        assert self.headers["content-type"] == "application/json"
        assert set(self.json) == {"type", "timestamp", "data"}, self.json
        timestamp = self.headers["webhook-timestamp"]
        assert timestamp.isdigit() and abs(int(timestamp) - self.at) < 60
        expected = {sign(secret, self.id, timestamp, self.body) for secret in secrets}
        assert set(self.headers["webhook-signature"].split(" ")) == expected
        return self

    def __repr__(self):
        return f"<{self.id} {self.type} {self.data}>"


class Receiver:
    """plan(message, tries) is asked what to do with each try; tries counts those with this id, from 1. It answers a status, or one of
    the words "hang" (no answer until the receiver ends), "drop" (the connection is cut), "slow" (200 after a moment), "late" (200
    after 4.5 s) and "drip" (200 at once with a body that never ends)."""

    def __init__(self, plan=lambda message, tries: 200):
        self.plan, self.port = plan, free_port()  # where it is when it comes back, and nobody else meanwhile
        self.tries, self.taken, self.connections = [], [], []
        self.counts = collections.Counter()
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.server = None
        self.start()

    def start(self):
        receiver = self
        self.ended.clear()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                receiver.connections.append(self.connection)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.handle(self, Message(self.path, {name.lower(): value for name, value in self.headers.items()}, body))

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                pass

        self.server = Listener(("127.0.0.1", self.port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        return self

    def handle(self, handler, message):
        with self.lock:
            self.tries.append(message)
            self.counts[message.id] += 1
            action = self.plan(message, self.counts[message.id])
            if action in ("slow", "late", "drip") or (isinstance(action, int) and 200 <= action < 300):
                self.taken.append(message)
        if action == "hang":
            self.ended.wait(60)
            handler.close_connection = True
            return
        if action == "drop":
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        if action == "drip":
            handler.send_response(200)
            handler.send_header("content-length", "1000")
            handler.end_headers()
            handler.wfile.flush()
            self.ended.wait(60)
            handler.close_connection = True
            return
        if action in ("slow", "late"):
            self.ended.wait(0.3 if action == "slow" else 4.5)
            action = 200
        status, headers = action if isinstance(action, tuple) else (action, {})
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    def stop(self):
        """The endpoint dies: nobody listens on its port any more."""
        if self.server is not None:
            self.ended.set()
            self.server.shutdown()
            self.server.server_close()
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.connections.clear()
            self.thread.join()
            self.server = None

    def url(self, path="/hook", host="127.0.0.1"):
        return f"http://{host}:{self.port}{path}"

    def types(self, order=None):
        """Of the messages taken, each once, in the order they came first."""
        with self.lock:
            seen = {}
            for message in self.taken:
                if order is None or message.data.get("order") == order:
                    seen.setdefault(message.id, message.type)
            return list(seen.values())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def hook(shop, url, token=None, **fields):
    answer = shop.client.request("PUT", "/v1/webhook", {"url": url, **fields}, token or shop.seller_token)
    assert answer.status == 200, answer
    return answer.json()


def shown(shop, token=None):
    answer = shop.client.get("/v1/webhook", token or shop.seller_token)
    assert answer.status == 200, answer
    return answer.json()


def metric(server, name):
    with server.connect() as client:
        text = client.get("/metrics").body.decode()
    return int(next(line for line in text.splitlines() if line.startswith(name + " ")).split()[1])


def arrived(receiver, count, seconds=20):
    """So many different messages have been taken."""
    return eventually(lambda: len({message.id for message in receiver.taken}) >= count, seconds)


def settled(shop):
    """Nothing is left to be sent."""
    return eventually(lambda: shown(shop)["pending"] == 0, 20)
