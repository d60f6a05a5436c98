"""Places in line, for pages that poll: one place is worth one win."""

import contextlib

import pytest

from harness import Shop, eventually
from line import SLOW, hear, outcomes, park, parked, place_of, state_of, taken, waiting
from wire import problem


@pytest.fixture
def server(own_server):
    return own_server("--config", "/dev/null")


def test_a_place_is_polled_until_it_is_worth_a_token(server):
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", line={"rate_per_s": 20, "size": 100, "timeout_ms": 60000})["id"]
    token = shop.buyer("ann")
    place = shop.client.post(f"/v1/sales/{sale}/line", None, token)
    assert place.status in (200, 201), place
    assert shop.client.post(f"/v1/sales/{sale}/line", None, token).json()["place"] == place.json()["place"]
    path = f"/v1/sales/{sale}/line/{place.json()['place']}"
    problem(shop.client.get(path, shop.buyer("bob")), 404, "NO_SUCH_PLACE")
    eventually(lambda: shop.client.get(path, token).json()["state"] == "admitted")
    admitted = shop.client.get(path, token).json()
    won = shop.client.post(f"/v1/sales/{sale}/grabs", {"token": admitted["token"]}, token)
    assert won.status == 201
    problem(shop.client.post(f"/v1/sales/{sale}/grabs", {"token": admitted["token"]}, shop.buyer("bob")), 403, "TOKEN_INVALID")


def test_an_admitted_place_is_worth_one_win(server):
    """Who may win more often stands in line for each: the place ends with its token, also when the order is cancelled."""
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", grabs_per_buyer_max=20, pay_within_s=600, line=SLOW)["id"]
    taken(shop, server, sale)
    token = shop.buyer("ann")
    answer = shop.client.post(f"/v1/sales/{sale}/line", None, token)
    path = f"/v1/sales/{sale}/line/{answer.json()['place']}"
    first = eventually(lambda: (look := shop.client.get(path, token)).json().get("token") and look)
    others = [shop.buyer(name) for name in ("bob", "cat", "dan", "eve", "fay", "gil")]
    with contextlib.ExitStack() as crowd:
        for other in others:
            crowd.enter_context(park(server, sale, other))
        assert shop.client.get(path, token).json()["state"] == "admitted", "the same place while its token is not spent"
        won = shop.grab(sale, "ann", purchase=first.json()["token"])
        assert won.status == 201
        gone = problem(shop.client.get(path, token), 404, "NO_SUCH_PLACE")
        assert "used" in gone["detail"]
        problem(shop.grab(sale, "ann", purchase=first.json()["token"]), 403, "TOKEN_INVALID")
        assert shop.client.post(f"/v1/orders/{won.json()['order']['no']}/cancel", {}, token).status == 200
        problem(shop.client.get(path, token), 404, "NO_SUCH_PLACE")
        another = shop.client.post(f"/v1/sales/{sale}/line", None, token)
        assert another.status == 201 and another.json()["state"] == "waiting" and another.json()["people_ahead"] >= 1
        assert another.json()["place"] not in path


def test_a_token_of_the_line_outlives_its_place_and_a_restart_but_wins_once(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=100, admission="line", grabs_per_buyer_max=20, line=SLOW)["id"]
    admitted = shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer("ann")).json()
    assert admitted["state"] == "admitted"
    shop.close()
    server.kill()
    server.start()
    shop = Shop(server)
    eventually(lambda: shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer("ann")).json()["state"] == "admitted")
    crowd = [park(server, sale, shop.buyer(f"b{i}")) for i in range(30)]
    eventually(lambda: parked(shop) > 20)
    assert shop.grab(sale, "ann", purchase=admitted["token"]).status == 201
    again = shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer("ann")).json()
    assert again["state"] == "waiting", "both places had the same token, and it is spent"
    for sock in crowd:
        sock.close()
    shop.close()


def test_pausing_tells_places_too(server):
    shop = Shop(server)
    sale = shop.sale(stock=50, admission="line", line=SLOW)["id"]
    taken(shop, server, sale)
    path, sock = place_of(shop, sale, "page"), park(server, sale, shop.buyer("ann"))
    paths = [place_of(shop, sale, f"page-{i}") for i in range(5)]
    eventually(lambda: waiting(shop) >= 5)
    shop.act(sale, "pause")
    eventually(lambda: waiting(shop) == 0)
    assert state_of(shop, paths[-1], "page-4") == "closed"
    assert hear(sock).status in (201, 409)
    assert shop.client.get(path, shop.buyer("page")).status in (200, 409)


def test_a_place_is_for_those_who_can_win(server):
    shop = Shop(server)
    sale = shop.sale(stock=50, admission="line", line=SLOW)["id"]
    order = shop.win(sale, "ann")
    refused = shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer("ann"))
    assert problem(refused, 409, "ALREADY_WON")["order"] == order
    with park(server, sale, shop.buyer("bob")):
        eventually(lambda: waiting(shop) == 1)
        refused = shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer("bob"))
        assert refused.status in (409, 503), refused
        assert waiting(shop) <= 1
    path = place_of(shop, sale, "cat")
    if state_of(shop, path, "cat") == "waiting":
        assert shop.grab(sale, "cat").code == "BUSY"
    problem(shop.client.post(f"/v1/sales/{shop.sale()['id']}/line", None, shop.buyer("ann")), 409, "NO_LINE")


def test_a_place_dies_without_the_heartbeat_that_is_configured(own_server):
    server = own_server("--place-heartbeat-ms", "1000")
    shop = Shop(server)
    sale = shop.sale(stock=50, admission="line", line=SLOW)["id"]
    taken(shop, server, sale)
    taken_too = [park(server, sale, shop.buyer(f"b{i}")) for i in range(8)]
    eventually(lambda: waiting(shop) >= 6)
    before = outcomes(shop, "left")
    answer = shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer("page"))
    assert answer.json()["heartbeat_ms"] == 1000
    eventually(lambda: outcomes(shop, "left") == before + 1)
    problem(shop.client.get(f"/v1/sales/{sale}/line/{answer.json()['place']}", shop.buyer("page")), 404, "NO_SUCH_PLACE")
    for sock in taken_too:
        sock.close()
