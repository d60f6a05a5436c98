"""Where the gates of the tests are: in the server itself, or with STAMPEDE_GATE=redis in a Redis, where each data folder has keys of its own.

Many test files share one Redis when STAMPEDE_GATE_PORT says where it is; else each pytest starts one. Nodes that share it need a ledger that they
can share, STAMPEDE_LEDGER=mysql; one alone may have its own."""

import atexit
import hashlib
import os
import pathlib

ON_REDIS = os.environ.get("STAMPEDE_GATE") == "redis"
SHARED = []


def shared_port():
    """The port of the Redis that all tests use."""
    if "STAMPEDE_GATE_PORT" in os.environ:
        return int(os.environ["STAMPEDE_GATE_PORT"])
    if not SHARED:
        from redis_servers import RedisServer  # which needs the harness, which needs us
        SHARED.append(RedisServer().start())
        atexit.register(SHARED[0].close)
    return SHARED[0].port


def gate_prefix(data):
    """What the keys of a data folder begin with."""
    return "t" + hashlib.sha256(str(pathlib.Path(data).resolve()).encode()).hexdigest()[:16] + ":"


def gate_flags(data):
    """What a server needs to be told to find its gate."""
    return ["--gate", f"redis://127.0.0.1:{shared_port()}", "--redis-prefix", gate_prefix(data)] if ON_REDIS else []
