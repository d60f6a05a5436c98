"""Lists of sales and orders: pages, filters, and nobody misses what they just did (P4, P8)."""

import time

import pytest
from harness import Shop, mint_name, problem, time_text


def ids(items, name="id"):
    return [item[name] for item in items]


def test_pages_hold_every_sale_once_newest_first(shop):
    made = [shop.sale()["id"] for _ in range(7)]
    for limit in (1, 3, 7, 200):
        assert ids(shop.listed(f"/v1/sales?seller={shop.seller}", limit=limit)) == made[::-1], limit


def test_the_last_page_says_there_is_no_next(shop):
    for _ in range(4):
        shop.sale()
    page = shop.client.get(f"/v1/sales?seller={shop.seller}&limit=2").json()
    assert len(page["items"]) == 2 and isinstance(page["next"], str)
    rest = shop.client.get(f"/v1/sales?seller={shop.seller}&limit=2&cursor={page['next']}").json()
    assert len(rest["items"]) == 2
    if rest["next"] is not None:
        last = shop.client.get(f"/v1/sales?seller={shop.seller}&limit=2&cursor={rest['next']}").json()
        assert (last["items"], last["next"]) == ([], None)
    assert not set(ids(page["items"])) & set(ids(rest["items"]))


def test_fifty_are_listed_when_nobody_says_how_many(shop):
    for _ in range(52):
        shop.sale()
    page = shop.client.get(f"/v1/sales?seller={shop.seller}").json()
    assert len(page["items"]) == 50 and page["next"]


def test_a_sale_made_while_paging_neither_repeats_nor_hides_another(shop):
    made = [shop.sale()["id"] for _ in range(6)]
    first = shop.client.get(f"/v1/sales?seller={shop.seller}&limit=3").json()
    shop.sale()
    second = shop.client.get(f"/v1/sales?seller={shop.seller}&limit=3&cursor={first['next']}").json()
    assert ids(first["items"]) + ids(second["items"]) == made[::-1]


@pytest.mark.parametrize("limit", ["0", "-1", "201", "2147483647", "2147483648", "4294967295", "4294967296", "9223372036854775807", "9223372036854775808",
                                   "18446744073709551616", "99999999999999999999", "+5", "%2B5", "0x5", "", "5.0", "1e2", "abc", "%205", "5%00", "05"])
@pytest.mark.parametrize("path", ["/v1/sales", "/v1/orders"])
def test_a_limit_outside_1_to_200_is_refused(shop, path, limit):
    problem(shop.client.get(f"{path}?limit={limit}", shop.admin_token), 400, "BAD_INPUT", "limit")


@pytest.mark.parametrize("cursor", ["x", "-1", "%00", "0x5", "99999999999999999999999999", "'%20OR%201=1--", "%C3%A9"])
@pytest.mark.parametrize("path", ["/v1/sales", "/v1/orders"])
def test_a_cursor_nobody_gave_is_refused(shop, path, cursor):
    problem(shop.client.get(f"{path}?cursor={cursor}", shop.admin_token), 400, "BAD_INPUT", "cursor")


def test_the_state_filter_follows_the_state(shop):
    upcoming = shop.sale(opens_at="2100-01-01T00:00:00Z")["id"]
    running = shop.sale()["id"]
    paused, sold_out, closed, past = shop.sale()["id"], shop.sale(stock=1)["id"], shop.sale()["id"], shop.sale(
        opens_at="2001-01-01T00:00:00Z", closes_at="2002-01-01T00:00:00Z")["id"]
    shop.act(paused, "pause")
    shop.win(sold_out, "ann")
    shop.act(closed, "close")
    expected = {"upcoming": {upcoming}, "open": {running}, "paused": {paused}, "sold_out": {sold_out}, "closed": {closed, past}}
    for state, sales in expected.items():
        items = shop.listed(f"/v1/sales?state={state}&seller={shop.seller}", limit=1)
        assert set(ids(items)) == sales, state
        assert {item["state"] for item in items} == {state}
        for sale in sales:
            assert shop.show(sale)["state"] == state


def test_a_closed_sale_that_sold_everything_is_closed(shop):
    sale = shop.sale(stock=1)["id"]
    shop.win(sale, "ann")
    shop.act(sale, "close")
    assert shop.show(sale)["state"] == "closed"
    assert ids(shop.listed(f"/v1/sales?state=closed&seller={shop.seller}")) == [sale]
    assert shop.listed(f"/v1/sales?state=sold_out&seller={shop.seller}") == []


@pytest.mark.parametrize("path", ["/v1/sales?state=openly", "/v1/sales?state=OPEN", "/v1/orders?state=lost", "/v1/orders?state=open"])
def test_a_state_that_is_none_is_refused(shop, path):
    problem(shop.client.get(path, shop.admin_token), 400, "BAD_INPUT", "state")


@pytest.mark.parametrize("sale", ["x", "-1", "99999999999999999999", "1.5", "0x1"])
def test_a_sale_filter_that_is_no_id_is_refused_or_finds_nothing(shop, sale):
    answer = shop.client.get(f"/v1/orders?sale={sale}", shop.admin_token)
    if answer.status == 200:
        assert answer.json()["items"] == []
    else:
        problem(answer, 400, "BAD_INPUT", "sale")


def test_an_unknown_seller_has_no_sales(shop):
    page = shop.client.get(f"/v1/sales?seller={mint_name('nobody')}").json()
    assert (page["items"], page["next"]) == ([], None)


def test_a_seller_filter_is_decoded_and_is_no_sql(shop, server):
    name = "ann%25'é"
    odd = Shop(server, "o%25")
    sale = odd.sale()["id"]
    assert ids(shop.client.get("/v1/sales?seller=o%2525").json()["items"]) == [sale]
    for evil in (name, "x'%20OR%20'1'='1", "%25", "_", "*"):
        answer = shop.client.get(f"/v1/sales?seller={evil}".encode().decode("latin-1"))
        assert answer.status in (200, 400), answer
        if answer.status == 200:
            assert answer.json()["items"] == []
    for bad in ("%", "%2", "%zz", "%ff"):
        answer = shop.client.get(f"/v1/sales?seller={bad}")
        assert answer.status == 400 or answer.json()["items"] == [], answer


def test_a_new_sale_is_listed_at_once(shop):
    """P4: a list waits until the clerk has filed what was durable when it was asked."""
    for _ in range(20):
        sale = shop.sale()["id"]
        assert ids(shop.client.get(f"/v1/sales?seller={shop.seller}&limit=1").json()["items"]) == [sale]


def test_a_change_is_listed_at_once(shop):
    sale = shop.sale()["id"]
    for i in range(10):
        shop.change(sale, description=f"text {i}")
        assert shop.client.get(f"/v1/sales?seller={shop.seller}").json()["items"][0]["description"] == f"text {i}"
        shop.win(sale, f"buyer-{i}")
        assert shop.client.get(f"/v1/sales?seller={shop.seller}").json()["items"][0]["sold"] == i + 1


def test_an_order_is_shown_and_listed_right_after_the_grab(shop):
    sale = shop.sale(stock=100)["id"]
    for i in range(20):
        order = shop.win(sale, f"buyer-{i}")
        token = shop.buyer(f"buyer-{i}")
        assert shop.order(order["no"], token).json() == order
        assert shop.listed(f"/v1/orders?sale={sale}", token) == [order]


def test_orders_are_filtered_by_sale_and_state(shop):
    now, later = shop.sale()["id"], shop.sale(pay_within_s=600, grabs_per_buyer_max=2)["id"]
    buyer = mint_name("buyer")
    paid = shop.win(now, buyer)
    held = [shop.win(later, buyer), shop.win(later, buyer)]
    token = shop.buyer(buyer)
    assert ids(shop.listed("/v1/orders", token, limit=1), "no") == ids([held[1], held[0], paid], "no")
    assert shop.listed("/v1/orders?state=paid", token) == [paid]
    assert shop.listed("/v1/orders?state=held", token) == held[::-1]
    assert shop.listed(f"/v1/orders?sale={later}", token, limit=1) == held[::-1]
    assert shop.listed(f"/v1/orders?sale={now}&state=held", token) == []
    assert shop.listed("/v1/orders?state=cancelled", token) == []


def test_everyone_lists_only_what_is_theirs(shop, server):
    """P8: customers their own, sellers those of their sales, administrators all."""
    other = Shop(server)
    mine, theirs = shop.sale()["id"], other.sale()["id"]
    ann, bob = mint_name("ann"), mint_name("bob")
    won = {(who, sale): shop.win(sale, who)["no"] for who in (ann, bob) for sale in (mine, theirs)}
    assert set(ids(shop.listed("/v1/orders", shop.buyer(ann)), "no")) == {won[ann, mine], won[ann, theirs]}
    assert set(ids(shop.listed("/v1/orders", shop.seller_token), "no")) == {won[ann, mine], won[bob, mine]}
    assert set(ids(shop.listed("/v1/orders", other.seller_token), "no")) == {won[ann, theirs], won[bob, theirs]}
    assert set(won.values()) <= set(ids(shop.listed("/v1/orders", shop.admin_token), "no"))
    assert shop.listed(f"/v1/orders?sale={theirs}", shop.seller_token) == []
    other.close()


def test_other_peoples_orders_do_not_exist(shop, server):
    """P8"""
    sale = shop.sale()["id"]
    ann = mint_name("ann")
    order = shop.win(sale, ann)
    stranger, other_seller = server.token(mint_name("bob")), server.token(mint_name("seller"), "seller")
    for token in (stranger, other_seller):
        problem(shop.order(order["no"], token), 404, "NO_SUCH_ORDER")
    for token in (shop.buyer(ann), shop.seller_token, shop.admin_token):
        assert shop.order(order["no"], token).json() == order
    problem(shop.client.get(f"/v1/orders/{order['no']}"), 401)


def test_the_same_holds_for_orders_of_closed_sales(shop, server):
    """P8: memory lets go of a closed sale; the ledger must look up ownership just as well."""
    sale = shop.sale(stock=3)["id"]
    ann = mint_name("ann")
    order = shop.win(sale, ann)
    shop.act(sale, "close")
    for pause in (0, 0.5, 1.5):
        time.sleep(pause)
        problem(shop.order(order["no"], server.token(mint_name("bob"))), 404, "NO_SUCH_ORDER")
        problem(shop.order(order["no"], server.token(mint_name("seller"), "seller")), 404, "NO_SUCH_ORDER")
        for token in (shop.buyer(ann), shop.seller_token, shop.admin_token):
            assert shop.order(order["no"], token).json() == order
        assert shop.counts(sale) == (3, 2, 0, 1)


@pytest.mark.parametrize("no", ["0", "999999999", "18446744073709551615", "18446744073709551616", "-1", "+1", "01", "abc", "1.0"])
def test_an_order_that_is_not_there_is_404(shop, no):
    problem(shop.order(no), 404)


def test_a_seller_who_shares_a_customers_name_sees_no_customers_orders(shop, server):
    """P8: the same word as a customer and as a seller are looked up by role."""
    name = mint_name("twin")
    sale = shop.sale()["id"]
    order = shop.win(sale, name)
    assert shop.listed("/v1/orders", server.token(name, "seller")) == []
    problem(shop.order(order["no"], server.token(name, "seller")), 404)


def test_times_in_lists_and_orders_agree(shop):
    before = time_text(-1)
    sale = shop.sale(pay_within_s=60)["id"]
    order = shop.win(sale, mint_name("buyer"))
    assert before < order["won_at"] <= time_text(1)
    assert order["pay_by"] > order["won_at"]
    assert order["state"] == "held"
