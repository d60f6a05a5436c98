"""The product door: what people ask of a product, token and order service, each by the native route that docs/doors/product.md names."""

import pytest
from harness import Shop, eventually, mint_name, problem, time_text, unhurried


def warm(shop, sale, body=None, token=None):
    return shop.client.post(f"/v1/sales/{sale}/warm", body, token or shop.seller_token)


def test_a_product_is_managed_as_a_sale_with_price_and_description(shop):
    made = shop.sale(stock=5, description="Two\nlines", price=1999, currency="EUR")
    assert (made["description"], made["price"], made["currency"], made["available"]) == ("Two\nlines", 1999, "EUR", 5)
    changed = shop.change(made["id"], description="Three")
    assert changed.status == 200 and changed.json()["description"] == "Three"
    assert shop.act(made["id"], "stock", {"add": 3}).json()["available"] == 8
    assert made["id"] in [sale["id"] for sale in shop.listed(f"/v1/sales?seller={shop.seller}")]


def test_a_purchase_token_is_fetched_before_the_sale_and_buys_once(shop):
    def fetched_before(opens_in_s):
        sale = shop.sale(stock=2, admission="token", opens_at=time_text(opens_in_s), grabs_per_buyer_max=2)["id"]
        token = shop.purchase_token(sale, "ann")
        problem(shop.grab(sale, "ann", purchase=token), 409, "NOT_OPEN")
        return sale, token
    sale, token = unhurried(fetched_before)
    eventually(lambda: shop.show(sale)["state"] == "open", 20)
    order = shop.win(sale, "ann", purchase=token)
    problem(shop.grab(sale, "ann", purchase=token), 403, "TOKEN_INVALID")
    problem(shop.grab(sale, "bob", purchase=token), 403, "TOKEN_INVALID")
    assert order["buyer"] == "ann" and order["no"]


@pytest.mark.local
def test_warming_says_that_there_is_nothing_to_do(shop):
    sale = shop.sale(stock=7)["id"]
    before = shop.show(sale)
    for body in (None, {}, {"at": time_text(60)}, {"at": None}):
        answer = warm(shop, sale, body)
        assert answer.status == 200, answer
        seen = answer.json()
        assert list(seen) == ["warmed", "gate", "available", "detail", "now"]
        assert seen["warmed"] is True and seen["gate"] == "local" and seen["available"] == 7 and "Nothing to do" in seen["detail"]
    assert warm(shop, sale, token=shop.admin_token).status == 200
    assert {**shop.show(sale), "now": None} == {**before, "now": None}


def test_warming_is_for_the_seller_of_the_sale(shop):
    sale = shop.sale(stock=7)["id"]
    problem(shop.client.post(f"/v1/sales/{sale}/warm"), 401)
    problem(warm(shop, sale, token=shop.buyer("ann")), 403, "FORBIDDEN")
    problem(warm(shop, sale, token=shop.server.token(mint_name("seller"), "seller")), 404, "NO_SUCH_SALE")
    problem(warm(shop, "999999999"), 404, "NO_SUCH_SALE")
    assert shop.act(sale, "close").status == 200


@pytest.mark.parametrize("body", [{"at": "soon"}, {"at": 5}, {"when": None}, [], b"{"])
def test_warming_at_no_time_is_bad_input(shop, body):
    problem(warm(shop, shop.sale()["id"], body), 400, "BAD_INPUT")


def test_limits_change_while_the_server_runs(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=100, grabs_per_buyer_max=100)["id"]
    assert shop.client.request("PUT", "/v1/limits", {"user_grab_per_s": 1, "user_grab_burst": 2}, shop.admin_token).status == 200
    assert [shop.grab(sale, "ann").status for _ in range(3)] == [201, 201, 429]
    assert shop.client.request("PUT", "/v1/limits", {"user_grab_per_s": 0}, shop.admin_token).status == 200
    assert shop.grab(sale, "ann").status == 201
    shop.close()


def test_what_was_lost_from_memory_comes_back_from_disk(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=5, price=100)["id"]
    order = shop.win(sale, "ann")
    shop.close()
    server.restart(kill=True)
    shop = Shop(server, shop.seller)
    assert shop.counts(sale) == (5, 4, 0, 1)
    problem(shop.grab(sale, "ann"), 409, "ALREADY_WON")
    assert shop.order(order["no"]).json() == order
    shop.close()
