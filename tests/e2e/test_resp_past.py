"""Sales that are over and that memory has let go of, in the Redis protocol: the ledger tells what is told of them."""

import random

import pytest
from harness import eventually
from resp import Error, Peer, pairs


@pytest.fixture
def peer(server):
    with Peer(server) as one:
        yield one


def create(peer, stock, *options):
    name = f"sale-{random.randrange(2 ** 40)}"
    sale = peer.ask("SALE.CREATE", name, stock, *options)
    assert not isinstance(sale, Error), sale
    return name, sale


def past(server, peer, name, sale):
    """Closes the sale, and waits until memory has let go of it."""
    with server.connect() as client:
        assert client.post(f"/v1/sales/{sale}/close", None, server.token("root", "admin")).status == 200
        eventually(lambda: client.get(f"/v1/sales/{sale}/live", server.token("root", "admin")).status == 204)
    assert pairs(peer.ask("SALE.INFO", name))["state"] == "closed"


def test_who_has_won_hears_so_from_seckill_also_when_the_sale_is_past(server, peer):
    """Won before is looked at first; memory may have let go of the sale."""
    name, sale = create(peer, 9, "GRABS", 2)
    other, _ = create(peer, 9)
    assert [peer.ask("SECKILL", user, name, 1) for user in ("ann", "ann", "bob")] == [1, 1, 1]
    kept = peer.ask("SALE.GRAB", name, "cat")[1]
    assert peer.ask("SECKILL", "ann", name, 1) == 0
    past(server, peer, name, sale)
    for _ in range(3):
        assert peer.ask("SECKILL", "ann", name, 1) == 0
        for user in ("bob", "cat", "dan"):
            assert peer.ask("SECKILL", user, name, 1).code == "CLOSED", user
    assert peer.ask("SECKILL", "ann", sale, 1) == 0 and pairs(peer.ask("SALE.ORDER", kept))["state"] == "paid"
    asked = [("SECKILL", "ann", name, 1), ("SECKILL", "bob", other, 1), ("SECKILL", "dan", name, 1), ("SECKILL", "ann", name, 1), ("SECKILL", "ann", other, 1),
             ("SALE.GRAB", other, "dan"), ("SECKILL", "ann", name, 1), ("SALE.LEFT", other), ("SECKILL", "bob", other, 1)]
    told = [getattr(one, "code", one[0] if isinstance(one, list) else one) for one in peer.pipeline(asked * 20)]
    again = [0, 0, "CLOSED", 0, 0, "ALREADY_WON", 0, 6, 0]
    assert told == [0, 1, "CLOSED", 0, 1, "WON", 0, 6, 0] + again * 19


def test_a_grab_of_a_past_sale_tells_what_is_left_as_far_as_the_ledger_is_asked(server, peer):
    name, sale = create(peer, 5, "UNITS", 3)
    won = peer.ask("SALE.GRAB", name, "ann", 3, "KEY", "k")
    assert won == ["WON", won[1], 2]
    past(server, peer, name, sale)
    assert peer.ask("SALE.LEFT", name) == 2
    assert peer.ask("SALE.GRAB", name, "ann", 3, "KEY", "k") == won
    assert peer.ask("SALE.GRAB", name, "bob", 1, "KEY", "k") == ["CLOSED", None, 2]
    assert peer.ask("SALE.GRAB", name, "ann", 1, "KEY", "k").code == "KEY_REUSED"
    assert peer.ask("SALE.GRAB", name, "bob") == ["CLOSED", None, 0]
