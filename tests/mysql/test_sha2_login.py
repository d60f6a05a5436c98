"""MySQL 8 logs its users in by caching_sha2_password, which MariaDB does not know: what such a server says up to the first statement, and whether the answer is right."""

import hashlib
import os
import socket
import struct
import threading

import pytest
from harness import Server, ServerDied

PASSWORD = b"correct horse"
SALT = bytes(33 + byte % 90 for byte in os.urandom(20))
# Long passwords, a database by name, protocol 4.1, transactions, secure and by plugin, answers of any length.
ABILITIES = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000 | 0x200000
GREETING = (b"\x0a8.0.36\0" + struct.pack("<I", 7) + SALT[:8] + b"\0" + struct.pack("<H", ABILITIES & 0xFFFF) + b"\xff" + struct.pack("<H", 2) +
            struct.pack("<H", ABILITIES >> 16) + bytes([21]) + bytes(10) + SALT[8:] + b"\0" + b"caching_sha2_password\0")
DENIED, NO_MORE = (1045, b"28000no such user"), (1044, b"42000no more than that")


def proof(password):
    """That whoever answers knows the password, without telling it."""
    once = hashlib.sha256(password).digest()
    mask = hashlib.sha256(hashlib.sha256(once).digest() + SALT).digest()
    return bytes(mine ^ other for mine, other in zip(once, mask))


class Greeter:
    """Logs in whoever has the proof, as MySQL does a user whom it remembers, and refuses the first statement."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.logins, self.statements = [], []
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self):
        self.listener.close()

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer, peer.makefile("rwb") as wire:
                self.greet(wire)

    @staticmethod
    def say(wire, number, packet):
        wire.write(struct.pack("<I", len(packet))[:3] + bytes([number]) + packet)
        wire.flush()

    @staticmethod
    def hear(wire):
        head = wire.read(4)
        return wire.read(int.from_bytes(head[:3], "little")) if len(head) == 4 else b""

    def refuse(self, wire, number, why):
        self.say(wire, number, b"\xff" + struct.pack("<H", why[0]) + b"#" + why[1])

    def greet(self, wire):
        self.say(wire, 0, GREETING)
        user, _, rest = self.hear(wire)[32:].partition(b"\0")
        answer = rest[1:1 + rest[0]] if rest else b""
        self.logins.append((user, answer))
        if answer != proof(PASSWORD):
            self.refuse(wire, 2, DENIED)
            return
        self.say(wire, 2, b"\x01\x03")  # it is remembered: no more is asked
        self.say(wire, 3, b"\0\0\0\2\0\0\0")
        self.statements.append(self.hear(wire))
        self.refuse(wire, 1, NO_MORE)


@pytest.fixture
def greeter():
    one = Greeter()
    yield one
    one.close()


def start(greeter, password):
    """What the server says when it cannot start."""
    with Server("--ledger", f"mysql://ann@127.0.0.1:{greeter.port}/shop", env={"STAMPEDE_LEDGER_PASSWORD": password}) as server:
        raise AssertionError(f"started: {server.said}")


def test_a_user_of_caching_sha2_password_is_logged_in(greeter):
    with pytest.raises(ServerDied, match="no more than that"):
        start(greeter, PASSWORD.decode())
    assert greeter.logins[0] == (b"ann", proof(PASSWORD))
    assert greeter.statements[0].startswith(b"\x03SET SESSION")


def test_another_password_is_refused_in_a_sentence(greeter):
    with pytest.raises(ServerDied, match="no such user"):
        start(greeter, "wrong horse")
    assert not greeter.statements
