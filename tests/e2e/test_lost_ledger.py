"""A ledger that is lost, or is not what was written: refused, and what is done then (P1, P5, P8, P11)."""

import pytest
from harness import Shop, refuses, run

pytestmark = pytest.mark.local


def sold_once(server):
    """A server that has stopped after a win, and what was won."""
    shop = Shop(server)
    order = shop.win(shop.sale()["id"], "ann")
    shop.close()
    server.stop()
    return order


@pytest.mark.sqlite
@pytest.mark.parametrize("how", ["gone", "emptied", "never filed", "of another shop"])
def test_a_lost_ledger_is_refused(own_server, how):
    """P8 and P11: who has which name, and who has logged out, is in the ledger alone. Another in its place would give the orders to whoever comes first."""
    server, other = own_server(), own_server()
    sold_once(server)
    Shop(other).close()
    other.stop()
    if how == "never filed":
        other.ledger().change("UPDATE point SET uuid = zeroblob(16)")
    path = server.data / "ledger.db"
    kept = path.read_bytes()
    server.ledger().drop()
    if how == "emptied":
        path.touch()
    elif how != "gone":
        path.write_bytes((other.data / "ledger.db").read_bytes())
    for _ in range(2):
        text = refuses(server, 3, "another journal" if how == "of another shop" else "never belonged to a journal", "stampede repair")
        assert how == "of another shop" or ("users, logouts and webhooks" in text and "from a copy" in text), text
    done = server.audit()
    assert done.code == 1 and "wrong: P5 the ledger" in done.text, done
    path.write_bytes(kept)
    server.start()
    Shop(server).close()
    server.stop()
    assert server.audit().code == 0


def test_without_its_ledger_a_shop_goes_on_when_told(own_server):
    """P11: an explicit repair. What only the ledger had is lost, and that is said before."""
    server = own_server()
    order = sold_once(server)
    server.ledger().drop()
    refuses(server, 3, "never belonged to a journal")
    for _ in range(2):
        shown = run("repair", "--data", server.data)
        assert shown.code == 3 and "nothing was changed" in shown.text, shown
        assert "users, passwords, logouts, webhooks" in shown.text and "register anew" in shown.text, shown
    refuses(server, 3, "never belonged to a journal")
    done = run("repair", "--data", server.data, "--yes")
    assert done.code == 0, done
    server.start()
    shop = Shop(server)
    assert shop.order(order["no"]).json() == order
    shop.close()
    server.stop()
    assert server.audit().code == 0
    done = run("repair", "--data", server.data, "--yes")
    assert done.code == 0 and "nothing to repair" in done.text, done


def test_what_was_never_filed_is_not_lost(own_server):
    """P3 and P11: the ledger knows its journal before anything is decided. That of an earlier release, which did not, goes on when told."""
    server = own_server()
    shop = Shop(server)
    ann = {"username": "ann", "password": "a long password", "role": "customer"}
    assert shop.client.post("/v1/users", ann).status == 201
    with server.ledger().locked():
        order = shop.win(shop.sale()["id"], "ann")
        shop.close()
        server.kill()
    assert server.ledger().rows("SELECT seq FROM point")[0]["seq"] == 0, "it was filed already"
    server.ledger().change("UPDATE point SET uuid = x'00000000000000000000000000000000'")
    refuses(server, 3, "never belonged to a journal")
    assert run("repair", "--data", server.data, "--yes").code == 0
    server.start()
    assert shop.order(order["no"]).json() == order
    assert shop.client.post("/v1/users", ann).status == 409, "its users are lost"
    shop.close()
    server.stop()
    (server.data / "journal").rename(server.data / "elsewhere")
    refuses(server, 3, "no journal, but the ledger belongs to one")
    (server.data / "elsewhere").rename(server.data / "journal")
    server.start()
    assert shop.order(order["no"]).json() == order
    shop.close()


def test_a_ledger_is_new_while_nothing_is_decided(own_server):
    """A crash between the two leaves a journal without decisions and a ledger that does not know it."""
    server = own_server()
    server.stop()
    server.ledger().drop()
    server.start()
    order = sold_once(server)
    server.start()
    shop = Shop(server)
    assert shop.order(order["no"]).json() == order
    shop.close()


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
