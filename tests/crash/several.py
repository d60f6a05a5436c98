"""A shop of several machines whose parts are killed one after the other: three nodes, a Redis Cluster of six, a database (P1–P4, P6, P7 with ack = ledger).

    with Several() as several:
        witness = SeveralWitness(several, seed)
        with witness.load():
            several.cycle("redis", witness)
        witness.check()
"""

import contextlib
import os
import random
import shutil
import signal
import time

from databases import Database
from harness import ServerDied, eventually, run
from nodes import Nodes
from ports import free_port
from redis_servers import RedisCluster, wait_until

NODES = 3
# A master is replaced after this and an election of about a second.
NODE_TIMEOUT_MS = 500
STARTS_MAX = 10
KINDS = ("node", "redis", "empty", "ledger", "flush", "both", "pause")


def start(server):
    """As systemd does it: a node that finds its database or its Redis in the middle of a start ends with 1, and is started again."""
    for _ in range(STARTS_MAX - 1):
        with contextlib.suppress(ServerDied):
            return server.start()
        time.sleep(1)
    return server.start()


class Several:
    """All of it, on free ports of this machine."""

    def __init__(self, seed=None, *flags):
        self.random = random.Random(seed)
        self.flags = flags
        self.exits = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as exits:
            self.database = exits.enter_context(Database())
            self.cluster = exits.enter_context(RedisCluster(cluster_node_timeout=str(NODE_TIMEOUT_MS)))
            self.nodes = exits.enter_context(Nodes(*self.flags, gate=self.cluster.url, database=self.database.database()))
            for _ in range(NODES):
                server = self.nodes.make("--resp", f"127.0.0.1:{free_port()}")
                server.port_wanted = free_port()  # clients find it there again
                server.start()
            self.exits = exits.pop_all()
        return self

    def __exit__(self, *what):
        return self.exits.__exit__(*what)

    @property
    def servers(self):
        return self.nodes.servers

    # Faults. Each returns when all parts stand again; meanwhile whatever can sell has sold.

    def node(self, witness):
        """kill -9 of a node: the others sell on, and it comes back."""
        server = self.random.choice(self.servers)
        server.kill()
        since = time.monotonic()
        if self.random.random() < 0.5:
            witness.sells(since, [other for other in self.servers if other is not server])
        start(server)

    def redis(self, witness):
        """kill -9 of the master that has a sale: a replica takes over, and it sells on without the one that is dead."""
        sale = self.random.choice(witness.open)
        master = self.cluster.master_of(f"{{sale:{sale}}}")
        master.kill()
        wait_until("another master", lambda: self.cluster.master_of(f"{{sale:{sale}}}") is not master)
        witness.sells(time.monotonic())
        master.start()
        self.cluster.wait_ok()

    def empty(self, witness):
        """kill -9 of that master, which is back at once, as a rule before anybody has taken over, and has forgotten everything."""
        master = self.cluster.master_of(f"{{sale:{self.random.choice(witness.open)}}}")
        master.kill()
        master.start()
        self.cluster.wait_ok()

    def ledger(self, _):
        """kill -9 of the database, which starts again on what it had made durable."""
        self.database.kill()
        time.sleep(self.random.uniform(0, 0.3))
        self.database.start()

    def flush(self, witness):
        """FLUSHALL where a sale is, or everywhere."""
        master = self.cluster.master_of(f"{{sale:{self.random.choice(witness.open)}}}")
        for server in [master] if self.random.random() < 0.5 else self.cluster.masters():
            server.client().flushall()

    def both(self, witness):
        """Two of these at a time."""
        server = self.random.choice(self.servers)
        master = self.cluster.master_of(f"{{sale:{self.random.choice(witness.open)}}}")
        hurt = self.random.sample([server.kill, master.kill, self.database.kill], 2)
        for one in hurt:
            one()
            time.sleep(self.random.choice([0, 0, 0.3]))
        if self.database.process is None:
            self.database.start()
        if master.process is None:
            master.start()
        if server.process is None:
            start(server)
        self.cluster.wait_ok()

    def pause(self, witness):
        """One of them says nothing for a while, and then goes on as if nothing had been: a master may have been replaced meanwhile, a lock have ended."""
        part = self.random.choice([self.random.choice(self.servers), self.cluster.master_of(f"{{sale:{self.random.choice(witness.open)}}}"), self.database])
        os.kill(part.process.pid, signal.SIGSTOP)
        time.sleep(self.random.uniform(0.3, 5))
        os.kill(part.process.pid, signal.SIGCONT)
        self.cluster.wait_ok()

    def cycle(self, kind, witness):
        """One fault under load, at a moment of its own; in the end every node sells in every sale."""
        time.sleep(self.random.uniform(0.02, 0.3))
        getattr(self, kind)(witness)
        witness.sells(time.monotonic())

    def keep(self, place):
        """The logs of all, for whoever looks into what went wrong."""
        logs = {f"node{number}": server.log_path for number, server in enumerate(self.servers, 1)}
        logs.update({f"redis-{server.port}": server.folder / "log" for server in self.cluster.servers}, database=self.database.folder / "log")
        for name, path in logs.items():
            with contextlib.suppress(OSError):
                shutil.copy(path, f"{place}/{name}.log")

    # What stands after it.

    def settled(self):
        """Nothing is under way: what was taken is filed, and the gate has been told of everything."""
        ledger = self.nodes.ledger()
        logs = [self.nodes.key(row["id"], "log") for row in ledger.rows("SELECT id FROM sales WHERE closed = 0")]
        return not ledger.rows("SELECT * FROM errands") and all(self.cluster.master_of(log).client().xlen(log) == 0 for log in logs)

    def proven(self):
        """Redis has what the ledger has, and the ledger contradicts itself nowhere."""
        eventually(self.settled, 60)
        same = self.nodes.reconcile()
        holds = run("audit", "--data", self.nodes.folder / "nowhere", "--ledger", self.nodes.database, env=self.nodes.environment(), timeout=120)
        well = same.code == 0 and " 0 differ" in same.out and holds.code == 0 and "all promises hold" in holds.out
        # Where they differ, whether the ledger contradicts itself, and whether the database does, says on which side to look.
        assert well, f"{same.out}{holds.out}{holds.err}\n{self.checked()}\n{self.database.log()}"

    def checked(self):
        """What the database says of its own tables."""
        name = self.nodes.database.rpartition("/")[2]
        return [self.database.do(f"CHECK TABLE {table} EXTENDED", database=name) for table in ("sales", "orders")]
