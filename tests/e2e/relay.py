"""Between a node and a server that it asks: everything is passed on until the way is cut, or as slowly as a test wants.

    with Relay(port) as relay, Nodes() as nodes:
        relay.cut()   # nobody is there any more
        relay.mend()
"""

import contextlib
import select
import socket
import threading
import time


class Relay:
    def __init__(self, port):
        self.port_there = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.slow = None  # what is in a question that waits on its way, and for how long
        self.is_cut = self.closing = False
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closing = True
        self.listener.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(10)
        self.listener.close()

    def cut(self):
        """Every connection ends, and so does each that is made from now on."""
        self.is_cut = True

    def mend(self):
        self.is_cut = False

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if self.is_cut:
                    near.close()
                    continue
                self.threads.append(threading.Thread(target=self._carry, args=(near,), daemon=True))
                self.threads[-1].start()

    def _carry(self, near):
        with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port_there), 10) as far:
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self.closing and not self.is_cut:
                for one in select.select([near, far], [], [], 0.05)[0]:
                    piece = one.recv(1 << 20)
                    if not piece:
                        return
                    if one is near and (slow := self.slow) and slow[0] in piece:
                        time.sleep(slow[1])
                    (far if one is near else near).sendall(piece)
