"""Two tabs, a page that is come back to, and clocks: whatever is shared between them, a buyer buys once, and only by pressing."""

import json
import time

import pytest
from harness import eventually, mint_name, time_text, unhurried
from meddling import BUSY, CLOCK, HOLD, OTHER, STALE

KEPT = "return Object.entries(localStorage).filter(([name]) => name.startsWith('stampede.grab')).map(([, text]) => JSON.parse(text))"


@pytest.fixture(scope="module")
def server_flags():
    """Nobody ahead in a line looks after their place here, and it is theirs all the same."""
    return ["--demo-payments", "on", "--place-heartbeat-ms", "600000"]


@pytest.fixture
def tabs(page):
    """Switches between two tabs of the browser; the second is closed in the end."""
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    second = page.driver.current_window_handle
    yield lambda number: page.driver.switch_to.window([first, second][number])
    page.driver.switch_to.window(second)
    page.driver.close()
    page.driver.switch_to.window(first)
    page.meddled.clear()


def test_a_tab_whose_answer_another_has_heard_asks_no_more(page, shop, tabs):
    """Both press; one wins while the other hears BUSY. Without the key that the first has done with, it would buy a second time."""
    sale, buyer = shop.sale(stock=9, grabs_per_buyer_max=9)["id"], mint_name("buyer")
    page.meddle(BUSY, f"/v1/sales/{sale}/grabs", "1")
    page.enter(buyer).open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    eventually(lambda: page.driver.execute_script("return window.held !== null"))
    tabs(0)
    page.open(f"/s/{sale}")
    page.one("[data-order]")  # it goes on with what the other has begun
    assert shop.counts(sale)[3] == 1
    tabs(1)
    page.driver.execute_script("window.letGo()")
    page.one("[data-order]")
    page.comes_to("grab")
    assert shop.counts(sale)[3] == 1 and page.driver.execute_script(KEPT) == []


def test_whoever_leaves_the_line_while_it_answers_is_out_of_it(page, shop):
    sale = shop.sale(stock=20, admission="line", line={"rate_per_s": 1, "size": 1000, "timeout_ms": 600000})["id"]
    for _ in range(300):
        shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer(mint_name("ahead")))
    page.meddle(HOLD, f"/v1/sales/{sale}/line/", "GET")
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    page.comes_to("line")
    eventually(lambda: page.driver.execute_script("return window.held.length") >= 1)
    page.press("#leave")
    page.comes_to("grab")
    page.driver.execute_script("window.letGo()")
    page.reload()
    page.comes_to("grab")
    assert page.driver.execute_script(KEPT) == [] and shop.counts(sale)[3] == 0


def test_whoever_hears_that_the_server_is_busy_may_stop(page, shop):
    sale = shop.sale(stock=9)["id"]
    page.meddle(BUSY, f"/v1/sales/{sale}/grabs", "60")
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    eventually(lambda: page.driver.execute_script("return window.held !== null"))
    page.driver.execute_script("window.letGo()")
    page.comes_to("again")
    page.says("Stop trying")
    page.press("#leave")
    page.comes_to("grab")
    page.reload()
    page.comes_to("grab")
    assert page.driver.execute_script(KEPT) == [] and shop.counts(sale)[3] == 0


def test_a_sale_for_anyone_can_be_grabbed_again_when_the_time_to_pay_is_over(page, shop):
    def wins(span):
        page.open(f"/s/{shop.sale(stock=3, admission='open', pay_within_s=span)['id']}").comes_to("grab")
        page.watch()
        page.press("#grab")
        page.waits(lambda: "won" in page.watched(), 15, "won")
    unhurried(wins, 4, 20)
    page.comes_to("grab")
    assert not page.seen("#outcome"), "nobody has got it"


def test_many_at_once_are_written(page, shop):
    sale = shop.sale(stock=900, units_per_grab_max=500)["id"]
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.write("#units", "501")
    page.press("#grab")
    assert page.state() == "grab" and shop.counts(sale)[3] == 0, "more than there may be is not sent"
    page.write("#units", "321")
    page.press("#grab")
    page.comes_to("won")
    assert shop.counts(sale)[3] == 321


def test_looking_again_another_day_buys_nothing(page, shop):
    """A reload goes on with what was pressed; a visit long after is only a visit, and pressing then uses the key of before."""
    sale, buyer, key = shop.sale(stock=9)["id"], mint_name("buyer"), mint_name("key")
    kept = {"key": key, "units": 1, "unsure": True, "at": (time.time() - 86400) * 1000}
    page.enter(buyer)
    page.driver.execute_script("localStorage.setItem(`stampede.grab.${arguments[0]}.${arguments[1]}`, arguments[2])", buyer, sale, json.dumps(kept))
    page.open(f"/s/{sale}")
    page.comes_to("grab")
    assert shop.counts(sale)[3] == 0
    page.press("#grab")
    page.comes_to("won")
    won = shop.grab(sale, buyer, key=key)
    assert won.status == 201 and won.json()["order"]["no"] in page.text("#grab") and shop.counts(sale)[3] == 1


def test_a_login_that_ends_while_asking_leaves_no_grab_behind(page, shop):
    sale = shop.sale(stock=9)["id"]
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.knows_orders()
    assert shop.client.post("/v1/logout", None, page.token()).status == 204
    page.press("#grab")
    page.comes_to("login")
    assert all(one.get("key") for one in page.driver.execute_script(KEPT)), "what has no key would be asked for without one"


def test_the_server_tells_the_time_also_after_looking_elsewhere(page, shop):
    """A page that is looked at again does not believe a machine whose clock is an hour ahead."""
    sale = shop.sale(stock=3, opens_at=time_text(3000))["id"]
    page.meddle(CLOCK, 3600000).enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("wait")
    page.driver.execute_script("window.states = []; new MutationObserver(() => window.states.push(document.getElementById('grab').dataset.state))"
                               ".observe(document.getElementById('grab'), { attributes: true, attributeFilter: ['data-state'] });"
                               "document.dispatchEvent(new Event('visibilitychange'))")
    eventually(lambda: len(page.driver.execute_script("return window.states")) >= 3)
    assert set(page.driver.execute_script("return window.states")) == {"wait"}
    page.shows(r"^4\d:\d\d$", ".countdown")


def test_whoever_is_early_by_a_wrong_clock_does_not_hurry(page, shop):
    sale = shop.sale(stock=3, opens_at=time_text(3600))["id"]
    page.meddle(OTHER, "/", '"now":"[^"]*"', f'"now":"{time_text(7200)}"', f"/v1/sales/{sale}/grabs")
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    asked = page.driver.execute_async_script("document.getElementById('grab').click(); setTimeout(() => arguments[0](window.asked), 2000)")
    page.comes_to("again", "asking")
    assert 1 <= asked <= 8


def test_an_older_state_of_the_sale_is_not_drawn_over_a_newer_one(page, shop):
    """What was asked for before the buyer won comes after what was asked for then."""
    sale = shop.sale(stock=3)["id"]
    page.meddle(STALE, f"/v1/sales/{sale}").enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    shop.win(sale, mint_name("other"))
    eventually(lambda: page.driver.execute_script("return window.letGo !== undefined"))
    page.press("#grab")
    page.comes_to("won")
    page.says("1 of 3 left", ".stock-words")
    page.driver.execute_script("const words = document.querySelector('.stock-words'); window.seen = [];"
                               "new MutationObserver(() => window.seen.push(words.textContent)).observe(words, { childList: true, characterData: true, subtree: true })")
    looks = page.driver.execute_script("const { looks } = window; window.letGo(); return looks")
    eventually(lambda: page.driver.execute_script("return window.looks") > looks)  # the next one is asked for once that is done with
    assert page.driver.execute_script("return window.seen") == [] and "1 of 3 left" in page.text(".stock-words")


def test_what_was_refused_is_not_said_of_what_is_on_sale_again(page, shop):
    sale, buyer = shop.sale(stock=2, units_per_grab_max=3)["id"], mint_name("buyer")
    page.enter(buyer).open(f"/s/{sale}")
    page.comes_to("grab")
    page.driver.execute_script("document.getElementById('units').value = '3'")
    page.press("#grab")
    page.says("Fewer are left than you asked for", "#outcome")
    page.comes_to("grab")
    shop.win(sale, mint_name("other"), units=2)
    page.comes_to("sold_out")
    assert shop.act(sale, "stock", {"add": 5}).status == 200
    page.comes_to("grab")
    assert not page.seen("#outcome")
