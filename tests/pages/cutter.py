"""A network between a browser and a server that loses things when told to."""

import contextlib
import socket
import threading

GRAB = b"/grabs HTTP/1.1"


class Cutter:
    """Passes bytes on. mode says what becomes of connections that carry a grab:

    pass: they are left alone. swallow: the server hears the grab, and its answer is lost. refuse: the server never hears it.
    hold: the answer comes when mode is something else again."""

    def __init__(self, server):
        self.server = server
        self.mode = "pass"
        self.cut = 0  # grabs that were lost one way or the other
        self.heard = []  # the Idempotency-Key of each grab
        self.lose = {}  # part of a path: how many requests for it are lost on the way
        self.changed = threading.Condition()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.open = False
        self.set("pass")
        self.listener.close()

    def set(self, mode):
        with self.changed:
            self.mode = mode
            self.changed.notify_all()

    def _accept(self):
        while self.open:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(peer,), daemon=True).start()

    def _carry(self, peer):
        """One connection; requests of a browser on one connection wait for each other."""
        with contextlib.suppress(OSError), peer, self.server.raw() as there:
            peer.settimeout(None)
            there.settimeout(None)
            mine = {"grab": False, "lost": False}
            threading.Thread(target=self._answers, args=(there, peer, mine), daemon=True).start()
            while True:
                data = peer.recv(65536)
                if not data:
                    break
                if self._loses(data.split(b" ", 2)[1]):
                    break
                mine["grab"] = data.startswith(b"POST") and GRAB in data
                if mine["grab"]:
                    self._note(data)
                mine["lost"] = mine["grab"] and self.mode == "swallow"  # also if the answer comes when the mode is another
                if mine["grab"] and self.mode == "refuse":
                    self.cut += 1
                    break
                there.sendall(data)

    def _loses(self, path):
        for part, left in self.lose.items():
            if part in path and left > 0:
                self.lose[part] -= 1
                return True
        return False

    def _note(self, data):
        for line in data.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"idempotency-key":
                self.heard.append(value.strip().decode())

    def _answers(self, there, peer, mine):
        with contextlib.suppress(OSError):
            while True:
                data = there.recv(65536)
                if not data:
                    break
                if mine["lost"] or (mine["grab"] and self.mode == "swallow"):
                    self.cut += 1
                    break
                with self.changed:
                    self.changed.wait_for(lambda: not (mine["grab"] and self.mode == "hold"))
                peer.sendall(data)
        for sock in (peer, there):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
