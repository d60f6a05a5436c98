"""A ledger that is not what was written is refused (P1, P11)."""

import pytest
from harness import Shop, refuses

pytestmark = pytest.mark.local


WRONG_ROWS = {
    "a unit too many": ("UPDATE sales SET held = held - 1, available = available + 1", "sale 1 has held 4 and sold 0, but its orders add up to held 5 and sold 0"),
    "a unit not sold": ("UPDATE sales SET held = held - 1, sold = sold + 1", "sale 1 has held 4 and sold 1, but its orders add up to held 5 and sold 0"),
    "an order gone": ("DELETE FROM orders WHERE no = 3", "sale 1 has held 5 and sold 0, but its orders add up to held 4 and sold 0"),
    "the stock": ("UPDATE sales SET offered = offered + 1", "cannot be used: sale 1 has a value that cannot be"),
    "the amount": ("UPDATE orders SET amount = 1 WHERE no = 3", "order 3 cannot be: its amount is not the price of its units"),
}


@pytest.mark.parametrize("what", WRONG_ROWS)
def test_a_ledger_that_contradicts_itself_is_refused(own_server, what):
    """P1 and P11: counts that are not those of the orders would sell a unit twice."""
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=9, admission="open", pay_within_s=3600, price=5)["id"]
    for _ in range(5):
        shop.win(sale)
    shop.close()
    server.stop()
    sql, words = WRONG_ROWS[what]
    assert server.ledger().change(sql) == 1
    text = refuses(server, 3, words, "stampede audit", "from a copy")
    assert ": ;" not in text and "offset" not in text, text
    assert server.audit().code == 1
