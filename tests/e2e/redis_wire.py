"""Between nodes and their Redis: everything is passed on, but for the answer that a test wants to be lost.

    with Nodes() as nodes, RedisWire(nodes.own) as wire:
        nodes.gate = wire.url
        lost = wire.lose(b"ann")
"""

import contextlib
import selectors
import socket
import threading


class RedisWire:
    """One Redis, as nodes see it over a connection that may end at the wrong moment."""

    def __init__(self, server):
        self.server = server
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        self.closing = False
        self.lock = threading.Lock()
        self.losing = None  # what the question has in it, what happens then, and the sign that it has
        self.threads = []

    def __enter__(self):
        self._run(self._accept)
        return self

    def __exit__(self, *_):
        self.closing = True
        for thread in self.threads:
            thread.join(10)
        self.listener.close()

    def lose(self, text, then=lambda: None):
        """The next question with these bytes in it is done by Redis and never answered; before its connection ends, then() is called. An event: it has been."""
        done = threading.Event()
        with self.lock:
            self.losing = text, then, done
        return done

    def _run(self, work, *args):
        self.threads.append(threading.Thread(target=work, args=args, daemon=True))
        self.threads[-1].start()

    def _accept(self):
        self.listener.settimeout(0.1)
        while not self.closing:
            with contextlib.suppress(TimeoutError):
                self._run(self._relay, self.listener.accept()[0])

    def _relay(self, near):
        with near, contextlib.suppress(OSError), socket.create_connection((self.server.host, self.server.port), 10) as far, \
                selectors.DefaultSelector() as ready:
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                one.settimeout(30)
                ready.register(one, selectors.EVENT_READ)
            while not self.closing:
                for key, _ in ready.select(0.1):
                    data = key.fileobj.recv(1 << 20)
                    if not data:
                        return
                    if key.fileobj is far:
                        near.sendall(data)
                        continue
                    far.sendall(data)
                    if self._loses(data, far):
                        return

    def _loses(self, data, far):
        """Whether it was the question; then it has been done."""
        with self.lock:
            if self.losing is None or self.losing[0] not in data:
                return False
            (_, then, done), self.losing = self.losing, None
        far.recv(1 << 20)
        then()
        done.set()
        return True
