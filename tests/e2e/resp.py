"""The Redis protocol as a small client speaks it, over a plain socket: so that a test can say what no library would."""

import socket
import time


class Error(str):
    """An error reply: "CODE detail"."""

    @property
    def code(self):
        return self.split(" ", 1)[0]


class Closed(ConnectionError):
    """The connection ended before a whole reply came."""


def command(*words):
    """As libraries send it: an array of bulk strings."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Peer:
    """One connection. Replies: int, str, None, list, dict (RESP3), Error."""

    def __init__(self, server, timeout=60):
        self.sock = socket.create_connection((server.host, server.resp_port), timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def ask(self, *words):
        self.send(command(*words))
        return self.reply()

    def pipeline(self, commands):
        self.send(b"".join(command(*words) for words in commands))
        return [self.reply() for _ in commands]

    def grabs(self, sale, buyers):
        """A grab of each buyer, in one pipeline; the word and the order that each hears of. Whom a busy machine tells to come again does so, and of one whose
        outcome was not known ALREADY_WON tells what it was: the word is UNSURE then."""
        return self.grabs_of([(sale, buyer) for buyer in buyers])

    def grabs_of(self, wishes):
        """The same of (sale, buyer)."""
        heard = []
        for (sale, buyer), answer in zip(wishes, self.pipeline([["SALE.GRAB", *wish] for wish in wishes])):
            end, unsure = time.monotonic() + 60, False
            while isinstance(answer, Error) and answer.code in ("BUSY", "OUTCOME_UNKNOWN") and time.monotonic() < end:
                unsure = unsure or answer.code == "OUTCOME_UNKNOWN"
                time.sleep(0.05)
                answer = self.ask("SALE.GRAB", sale, buyer)
            assert not isinstance(answer, Error), answer
            heard.append(("UNSURE" if unsure and answer[0] == "ALREADY_WON" else answer[0], answer[1]))
        return heard

    def fill(self):
        try:
            piece = self.sock.recv(65536)
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise Closed
        self.buffer += piece

    def _line(self):
        while b"\r\n" not in self.buffer:
            self.fill()
        line, _, rest = bytes(self.buffer).partition(b"\r\n")
        self.buffer = bytearray(rest)
        return line

    def _bytes(self, count):
        while len(self.buffer) < count:
            self.fill()
        piece = bytes(self.buffer[:count])
        del self.buffer[:count]
        return piece

    def reply(self):
        line = self._line()
        kind, text = line[:1], line[1:].decode()
        if kind == b"+":
            return text
        if kind == b"-":
            return Error(text)
        if kind == b":":
            return int(text)
        if kind == b"_":
            return None
        if kind == b"$":
            if text == "-1":
                return None
            data = self._bytes(int(text) + 2)
            assert data.endswith(b"\r\n"), data
            return data[:-2].decode(errors="surrogateescape")
        if kind == b"*":
            return [self.reply() for _ in range(int(text))]
        if kind == b"%":
            return {self.reply(): self.reply() for _ in range(int(text))}
        raise AssertionError(f"no reply: {line!r}")

    def rest(self):
        """All that comes until the server closes."""
        try:
            while True:
                self.fill()
        except Closed:
            return bytes(self.buffer)


def pairs(reply):
    """A map as RESP2 has it."""
    return dict(zip(reply[::2], reply[1::2]))
