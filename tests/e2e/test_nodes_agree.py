"""Two nodes of one shop tell the same of one buyer, one payment and one sale, whichever of them is asked."""

import pytest
from harness import Shop, eventually
from line import hear, park, parked, taken
from nodes import Nodes


@pytest.fixture(scope="module")
def ways():
    """A shop by each of two nodes, of one seller."""
    with Nodes() as nodes:
        one, two = Shop(nodes.start()), Shop(nodes.start())
        two.seller, two.seller_token = one.seller, one.seller_token
        yield one, two


@pytest.mark.parametrize("sells_out", [True, False], ids=["sold out", "timed out"])
def test_a_key_that_won_at_another_node_is_told_to_who_waits_in_line(ways, sells_out):
    """P7: ann stands in line at two and wins at one with the same key; two says neither SOLD_OUT nor LINE_TIMEOUT. Bob, whose key has won nothing, hears it."""
    one, two = ways
    line = {"rate_per_s": 1, "size": 100, "timeout_ms": 30000 if sells_out else 2000}
    sale = one.sale(stock=100, admission="line", line=line)["id"]
    taken(two, two.server, sale)
    first = [park(two.server, sale, two.buyer(f"first{i}")) for i in range(8)]
    ann, bob = (park(two.server, sale, two.buyer(name), key="k") for name in ("ann", "bob"))
    eventually(lambda: parked(two) >= 4)
    order = one.win(sale, "ann", key="k")
    if sells_out:
        eventually(lambda: one.act(sale, "stock", {"add": -one.counts(sale)[1]}).status == 200)
    heard = hear(ann)
    assert heard.status == 201 and heard.json()["order"] == order, heard
    assert hear(bob).code == ("SOLD_OUT" if sells_out else "LINE_TIMEOUT")
    for sock in (ann, bob, *first):
        sock.close()
    eventually(lambda: parked(two) == 0)
