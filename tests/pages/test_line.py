"""A place in line is lost when nobody looks after it: what a page does to keep it, and what it says when it is gone."""

import json

import pytest
from harness import eventually, mint_name
from meddling import ASLEEP, HOLD, OTHER, SCREEN

LOOKS = "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/line/')).length"
KEPT = "Object.entries(localStorage).find(([name]) => name.startsWith('stampede.grab'))"


@pytest.fixture(scope="module")
def server_flags():
    """Nobody ahead in a line looks after their place here, and it is theirs all the same."""
    return ["--demo-payments", "on", "--place-heartbeat-ms", "600000"]


@pytest.fixture
def sale(shop):
    """With so many in line that nobody behind them comes to their turn here."""
    one = shop.sale(stock=1000, admission="line", line={"rate_per_s": 1, "size": 1000, "timeout_ms": 600000})["id"]
    for _ in range(300):
        assert shop.client.post(f"/v1/sales/{one}/line", None, shop.buyer(mint_name("ahead"))).status in (200, 201)
    return one


def stands(page, sale):
    """Of whoever is there, in line."""
    buyer = mint_name("buyer")
    page.enter(buyer).open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    page.comes_to("line")
    return buyer


def position(page):
    return int("".join(filter(str.isdigit, page.text("#grab .grab-label"))))


def give_up(page, shop, sale, buyer):
    """The server does it, as it does with a place that it has not heard of for a heartbeat."""
    place = page.driver.execute_script(f"return JSON.parse({KEPT}[1]).place")
    assert shop.client.request("DELETE", f"/v1/sales/{sale}/line/{place}", None, shop.buyer(buyer)).status == 204


def test_whoever_comes_back_looks_after_their_place_at_once(page, shop, sale):
    page.meddle(ASLEEP)
    stands(page, sale)
    assert page.driver.execute_script(LOOKS) == 0
    with page.hidden():
        pass
    eventually(lambda: page.driver.execute_script(LOOKS) > 0)
    page.comes_to("line")
    assert not page.all("#outcome.warn")


def test_whoever_has_lost_their_place_is_told_and_stands_at_the_end(page, shop, sale):
    page.meddle(ASLEEP)
    buyer = stands(page, sale)
    page.listen()
    with page.hidden():
        give_up(page, shop, sale, buyer)
        for _ in range(200):
            assert shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer(mint_name("behind"))).status == 201
        before = position(page)
    page.says("Your place in line was lost", "#outcome")
    page.hears("Your place in line was lost")
    assert page.comes_to("line") and position(page) > before
    page.reload()
    page.comes_to("line")
    page.says("Your place in line was lost", "#outcome")
    page.press("#language")
    page.says("原来的位置已失效", "#outcome")


def test_whoever_was_away_for_long_buys_only_by_pressing_again(page, shop, sale):
    page.meddle(ASLEEP)
    buyer = stands(page, sale)
    with page.hidden():
        give_up(page, shop, sale, buyer)
        page.driver.execute_script(f"const [name, kept] = {KEPT}; localStorage.setItem(name, JSON.stringify({{ ...JSON.parse(kept), at: Date.now() - 3600000 }}))")
    page.comes_to("grab")
    page.says("You were away too long and have lost your place in line", "#outcome")
    assert page.driver.execute_script(f"return {KEPT} ?? null") is None


def test_whoever_opens_the_page_again_another_day_is_told_that_the_place_is_gone(page, shop, sale):
    buyer = mint_name("buyer")
    kept = {"key": mint_name("key"), "units": 1, "place": "0" * 32, "at": 1000}
    page.enter(buyer)
    page.driver.execute_script("localStorage.setItem(`stampede.grab.${arguments[0]}.${arguments[1]}`, arguments[2])", buyer, sale, json.dumps(kept))
    page.open(f"/s/{sale}")
    page.comes_to("grab")
    page.says("You were away too long and have lost your place in line", "#outcome")
    assert page.driver.execute_script(LOOKS) == 0
    page.press("#grab")
    page.comes_to("line")


def test_a_place_that_was_not_heard_of_is_not_said_to_be_there(page, shop, sale):
    """The next look hangs; the server may have given the place up by now."""
    path = f"/v1/sales/{sale}/line/"
    page.meddle(OTHER, path, '"heartbeat_ms":600000', '"heartbeat_ms":1500', path).meddle(HOLD, path, "GET")
    stands(page, sale)
    eventually(lambda: page.driver.execute_script("return window.held.length") == 1)
    page.driver.execute_script("window.letGo()")
    page.comes_to("asking")
    page.says("Looking for your place", "#grab")
    assert page.seen("#leave")
    eventually(lambda: page.driver.execute_script("return window.held.length") == 1)
    page.watch()
    page.driver.execute_script("window.letGo()")
    page.waits(lambda: "In line" in page.watched().get("line", ""), 15, "line")


def test_the_screen_stays_on_while_in_line(page, shop, sale):
    page.meddle(SCREEN)
    stands(page, sale)
    eventually(lambda: page.driver.execute_script("return window.locks") == 1)
    page.press("#leave")
    page.comes_to("grab")
    eventually(lambda: page.driver.execute_script("return window.locks") == 0)
