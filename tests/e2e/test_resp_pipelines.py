"""Pipelines of the Redis protocol: replies in the order of the commands, however they are cut and whatever is decided together."""

import random
import re
import time

import pytest
from resp import Error, Peer, command


@pytest.fixture
def peer(server):
    with Peer(server) as one:
        yield one


def create(peer, stock):
    name = f"sale-{random.randrange(2 ** 40)}"
    sale = peer.ask("SALE.CREATE", name, stock)
    assert not isinstance(sale, Error), sale
    return name, sale


def test_a_pipeline_of_wins_shares_its_syncs(server, peer):
    """One sync for the whole batch, not one for each win."""
    def commits():
        client = server.connect()
        lines = client.get("/metrics").body.decode().splitlines()
        client.close()
        return int(next(line for line in lines if line.startswith("stampede_commits_total ")).split()[1])
    name, _ = create(peer, 2000)
    before = commits()
    got = peer.pipeline([("SALE.GRAB", name, f"u{i}") for i in range(1000)])
    assert all(reply[0] == "WON" for reply in got)
    assert commits() - before < 100


def test_grabs_behind_each_other_are_answered_in_their_order(peer):
    """More than are decided together, with buyers that come again, mistakes and other commands between them, until nothing is left."""
    name, _ = create(peer, 150)
    asked, want, left = [], [], 150
    for i in range(100):
        again = i >= 10 and i % 3 == 0
        asked.append(("SALE.GRAB", name, f"u{0 if again else i}"))
        left -= 0 if again else 1
        want.append(("ALREADY_WON" if again else "WON", left))
    for i in range(300):
        asked.append(("SALE.GRAB", name, f"v{i}"))
        want.append(("WON", left - 1) if left > 0 else ("SOLD_OUT", 0))
        left = max(left - 1, 0)
        if i % 70 == 69:
            asked += [("SALE.LEFT", name), ("SALE.GRAB", name, "u\x01")]
            want += [left, "BAD_INPUT"]
    got = peer.pipeline(asked)
    told = [(reply[0], reply[2]) if isinstance(reply, list) else getattr(reply, "code", reply) for reply in got]
    assert told == want
    wins = [reply[1] for reply in got if isinstance(reply, list) and reply[0] == "WON"]
    assert len(wins) == 150 and wins == sorted(wins, key=int) and len(set(wins)) == 150


def script(name):
    """A pipeline whose replies do not depend on when it is sent."""
    return b"".join([command("PING"), command("SALE.GRAB", name, "ann", 1, "KEY", "k"), b"ECHO 'in line'\r\n", b"*0\r\n", b"\r\n",
                     command("SALE.LEFT", name), command("nonsense", "x"), command("ECHO", ""), command("SALE.GRAB", name, "ann", 1, "KEY", "k"),
                     command("SALE.GRAB", name, "ann"), command("SALE.GRAB", name, ""), command("SECKILL", "ann", name, 1), command("SALE.GRAB", name, "ann"),
                     command("SALE.GRAB", name), command("SALE.GRAB", name, "ann"), command("SALE.GRAB", name, "ann", 2, "KEY", "k"), command("SALE.GRAB", "none", "ann"),
                     command("HELLO", "3"), command("SALE.GRAB", name, "bob", 9), command("HELLO", "2"), command("QUIT")])


def test_every_split_point_of_a_pipeline_gives_the_same_replies(server):
    with Peer(server) as maker:
        name, _ = create(maker, 3)
        maker.ask("SALE.GRAB", name, "ann", 1, "KEY", "k")

    def replies(*parts):
        with Peer(server) as one:
            for part in parts[:-1]:
                one.send(part)
                time.sleep(0.001)
            one.send(parts[-1])
            return one.rest()

    def nameless(text):
        """Without the connection's own number, which HELLO tells."""
        return re.sub(rb"id\r\n:\d+\r\n", b"id\r\n", text)
    whole = script(name)
    want = replies(whole)
    assert want.count(b"$3\r\nWON") == 2 and want.count(b"ALREADY_WON") == 3 and want.count(b"BAD_INPUT") == 1 and b"OVER_LIMIT" in want and want.endswith(b"+OK\r\n")
    for at in range(1, len(whole)):
        got = replies(whole[:at], whole[at:])
        assert nameless(got) == nameless(want), at
    assert nameless(replies(*(whole[i:i + 1] for i in range(len(whole))))) == nameless(want)


def test_a_quoted_command_that_has_to_wait_is_run_as_it_was_written(server, peer):
    """Behind a grab that is on its way, or of a sale that another node may have made just now, it is read, put aside and read once more."""
    name = f"air {random.randrange(2 ** 40)}"
    peer.ask("SALE.CREATE", name, 5)
    peer.ask("SALE.CREATE", f"x{name}", 5)
    with Peer(server) as one:
        one.send(f"SECKILL ann \"{name}\" 1\r\nECHO \"hello world\"\r\nSALE.LEFT \"no such\"\r\nSALE.GRAB '{name}' \"b\\x6fb b\" 2 KEY 'it\\'s'\r\n"
                 f"SALE.LEFT '{name}'\r\nQUIT\r\n".encode())
        said = one.rest().split(b"\r\n")
    assert said[:3] == [b":1", b"$11", b"hello world"] and said[3].startswith(b"-NO_SUCH_SALE ")
    assert said[4].startswith(b"-OVER_LIMIT ") or b"OVER_LIMIT" in said[6]
    assert said[-3:] == [b":4", b"+OK", b""]
    with Peer(server) as one:
        one.send(f"SALE.GRAB \"{name[1:]}\" \"7\" 5\r\nQUIT\r\n".encode())  # each quote that is taken for a letter makes it another sale or buyer
        assert one.rest().startswith(b"-NO_SUCH_SALE ")
