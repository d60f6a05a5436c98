"""Where the Redis protocol has an answer of its own, ours is that of a real redis-server, byte for byte."""

import subprocess

import pytest
from harness import end_with_parent, eventually
from ports import free_port
from resp import Peer, command


class Redis:
    """A redis-server of the test's own, which keeps nothing."""

    host = "127.0.0.1"

    def __init__(self, folder):
        self.resp_port = free_port()
        self.process = subprocess.Popen(["redis-server", "--port", str(self.resp_port), "--bind", self.host, "--save", "", "--dir", str(folder)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=end_with_parent)

    def answers(self):
        assert self.process.poll() is None
        try:
            with Peer(self) as peer:
                return peer.ask("PING") == "PONG"
        except ConnectionError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    one = Redis(tmp_path_factory.mktemp("redis"))
    try:
        eventually(one.answers, 30)
        yield one
    finally:
        one.stop()


def replies(server, commands):
    """What comes until the server has said goodbye to QUIT."""
    with Peer(server) as peer:
        peer.send(b"".join(command(*words) for words in commands) + command("QUIT"))
        return peer.rest()


SAME = [
    ("PING",), ("PING", "a"), ("PING", "a", "b"), ("ping", ""),
    ("ECHO",), ("ECHO", "a"), ("ECHO", "a", "b"), ("ECHO", ""),
    ("SELECT",), ("SELECT", "0"), ("SELECT", "16"), ("SELECT", "-1"), ("SELECT", "x"), ("SELECT", "00"), ("SELECT", "0", "0"),
    ("CLIENT",), ("CLIENT", "GETNAME"), ("CLIENT", "GETNAME", "x"), ("CLIENT", "SETNAME"), ("CLIENT", "SETNAME", "a b"), ("CLIENT", "SETNAME", "a\nb"),
    ("CLIENT", "SETNAME", "\u00e9"), ("CLIENT", "SETNAME", ""), ("CLIENT", "SETNAME", "till-1"), ("CLIENT", "ID", "x"), ("CLIENT", "NO-EVICT", "on"),
    ("HELLO", "x"), ("HELLO", ""), ("HELLO", "03"), ("HELLO", "1"), ("HELLO", "4"), ("HELLO", "-3"), ("HELLO", "9223372036854775807"),
    ("HELLO", "99999999999999999999"), ("HELLO", "3", "FOO"), ("HELLO", "3", "SETNAME"), ("HELLO", "3", "SETNAME", "a b"), ("HELLO", "3", "AUTH", "default"),
    ("HELLO", "3", "AUTH", "nobody", "wrong"), ("AUTH",), ("AUTH", "nobody", "wrong"), ("AUTH", "default", "any where there is none"),
    ("COMMAND", "DOCS", "nonsense"), ("COMMAND", "INFO", "nonsense"),
    ("CONFIG",), ("CONFIG", "GET", "save"), ("CONFIG", "GET", "nonsense"),
    ("RESET",), ("RESET", "x"), ("QUIT", "x"),
    ("nonsense",), ("NonSense", "a", "b c", "d" * 200, "e"), ("nonsense", "a\r\nb"), ("n" * 200, "x"), ("",), ("nonsense", *["word"] * 30), ("nonsense", "", ""),
    ("nonsense", "a" * 125, "b", "c"), ("nonsense", "a" * 126, "b"), ("nonsense", "a" * 128, "b"),
]


@pytest.mark.parametrize("words", SAME, ids=lambda words: " ".join(words)[:40].encode("unicode_escape").decode())
def test_what_redis_answers_too_is_answered_as_by_redis(server, redis_server, words):
    assert replies(server, [words]) == replies(redis_server, [words])


SESSIONS = [
    [("CLIENT", "SETNAME", "till"), ("CLIENT", "GETNAME"), ("CLIENT", "SETNAME", ""), ("CLIENT", "GETNAME")],
    [("CLIENT", "SETNAME", "till"), ("RESET",), ("CLIENT", "GETNAME")],
    [("HELLO", "3"), ("CLIENT", "GETNAME"), ("COMMAND", "DOCS", "nonsense"), ("COMMAND", "INFO", "nonsense"), ("CONFIG", "GET", "save")],
    [("HELLO", "3", "SETNAME", "till"), ("CLIENT", "GETNAME"), ("RESET",), ("CLIENT", "GETNAME"), ("CONFIG", "GET", "save")],
    [("HELLO", "3"), ("HELLO", "x"), ("HELLO", "4"), ("CLIENT", "GETNAME"), ("HELLO", "2"), ("CLIENT", "GETNAME")],
]


@pytest.mark.parametrize("commands", SESSIONS, ids=range(len(SESSIONS)))
def test_sessions_go_as_with_redis(server, redis_server, commands):
    """All but what HELLO says of the server itself."""
    def told(server):
        with Peer(server) as peer:
            got = []
            for words in commands:
                reply = peer.ask(*words)
                if words[0] == "HELLO" and isinstance(reply, (list, dict)):
                    reply = sorted(str(part) for part in (reply if isinstance(reply, dict) else reply[::2]))
                got.append(reply)
            return got
    assert told(server) == told(redis_server)


def test_commands_are_described_in_the_shape_of_redis_7(server, redis_server):
    """A library takes the entries apart by their place."""
    def shape(reply):
        return [type(part) for part in reply]
    with Peer(server) as ours, Peer(redis_server) as theirs:
        assert shape(ours.ask("COMMAND", "INFO", "ping")[0]) == shape(theirs.ask("COMMAND", "INFO", "ping")[0])
        every = ours.ask("COMMAND")
        assert ours.ask("COMMAND", "INFO") == every
        assert len(every) == ours.ask("COMMAND", "COUNT") == len(ours.ask("COMMAND", "LIST"))
        assert all(shape(one) == shape(every[0]) for one in every)
        assert isinstance(ours.ask("CLIENT", "ID"), int)


@pytest.mark.parametrize("words", [("CLIENT", "NONSENSE"), ("COMMAND", "NONSENSE"), ("CLIENT", "SETNAME", "x" * 65)])
def test_what_is_not_offered_is_an_error_that_begins_as_redis_begins_its_own(server, redis_server, words):
    with Peer(server) as ours, Peer(redis_server) as theirs:
        got, want = ours.ask(*words), theirs.ask(*words)
        assert got.code == "ERR"
        assert want == "OK" or want.startswith(got), (got, want)
