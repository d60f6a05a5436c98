"""Several nodes of one shop: servers that share a Redis, a database, the keys that sign and the payment provider's secret.

    with Nodes() as nodes:
        one, two = nodes.start(), nodes.start()
        shop = Shop(one)
"""

import contextlib
import pathlib
import secrets
import shutil
import tempfile

import databases
from harness import STOOD_STILL, Server, ServerDied, run
from ledgers import MysqlLedger
from provider import secret_make
from redis_servers import RedisServer

PREFIX = "stampede:"


class Nodes:
    """A Redis of its own, unless one is given, and a database of its own."""

    def __init__(self, *flags, gate=None, database=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="stampede-nodes-"))
        self.flags = [*map(str, flags)]
        self.own = RedisServer() if gate is None else None
        self.gate = gate
        self.database = database or databases.make_database(databases.shared_port())
        self.keys = f"k1 {secrets.token_hex(32)}\n"
        self.payment_keys = f"{secret_make()}\n"
        self.servers = []
        self.made = 0

    def __enter__(self):
        if self.own is not None:
            self.own.start()
            self.gate = self.own.url
        return self

    def __exit__(self, kind, error, trace):
        for server in reversed(self.servers):
            if kind is not None:
                print(server.log())
            with contextlib.suppress(AssertionError) if kind is not None else contextlib.nullcontext():
                server.close()
        if self.own is not None:
            self.own.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def options(self):
        return ["--gate", self.gate, "--ledger", self.database, *self.flags]

    def environment(self):
        return {"STAMPEDE_LEDGER_PASSWORD": databases.PASSWORD}

    def make(self, *flags):
        """A node that is not started yet."""
        self.made += 1
        data = self.folder / f"node{self.made}"
        data.mkdir()
        for name, text in (("keys", self.keys), ("payment_keys", self.payment_keys)):
            (data / name).write_text(text)
            (data / name).chmod(0o600)
        server = Server(*self.options(), *map(str, flags), data=data, env=self.environment())
        self.servers.append(server)
        return server

    def start(self, *flags):
        """Once more where it ended because Redis or the database stood still in that moment, as whoever watches over it would."""
        server = self.make(*flags)
        for tries_left in reversed(range(3)):
            try:
                return server.start()
            except ServerDied as died:
                if not tries_left or not STOOD_STILL.search(str(died)):
                    raise

    def sold_before(self, sale, count):
        """As if that many buyers, x1 and so on, had bought in a sale; nobody has told Redis."""
        ledger = self.ledger()
        ledger.change("INSERT INTO orders (no, sale, buyer, units, amount, state, won_ms, pay_by_ms, `key`, token_nonce, payment_ref, ended_ms, canceller, reason, nth)"
                      " VALUES (?, ?, ?, 1, -1, 1, 1, 0, '', 0, '', 0, 0, '', 1)",
                      *((1000000000000000 + n, int(sale), f"x{n}") for n in range(1, count + 1)))
        ledger.change(f"UPDATE sales SET available = available - {count}, sold = {count}, orders_made = {count} WHERE id = ?", (int(sale),))

    def ledger(self):
        return MysqlLedger(self.database)

    def redis(self):
        """Of the Redis that is ours; with one that was given, its owner has clients."""
        return self.own.client()

    def key(self, sale, name):
        return f"{PREFIX}{{sale:{sale}}}:{name}"

    def reconcile(self, *flags):
        """Once more where it says that this machine stood still."""
        for _ in range(5):
            done = run("reconcile", "--data", self.folder / "tools", *self.options(), *flags, env=self.environment())
            if "not all could be compared" not in done.err:
                break
        return done
