"""The one big button: each of its states, what it says, and that a reload finds the same."""

import re
import threading
import time

import pytest
from access import complaints
from browser import DESK, PHONE, Page
from cutter import Cutter
from harness import Shop, mint_name, time_text, unhurried
from meddling import COUNT

LOOKED_AT = {"login", "wait", "grab", "won", "sold_out", "paused"}
HOUR_OFF = "{ const now = Date.now; Date.now = () => now() + 3600000; }"


@pytest.fixture(scope="module")
def server_flags():
    """Nobody ahead in a line looks after their place here, and it is theirs all the same."""
    return ["--demo-payments", "on", "--place-heartbeat-ms", "600000"]


def label(page):
    return page.text("#grab")


@pytest.fixture
def stays(axe):
    def check(page, state, words=None, **more):
        """In this state: in two languages, on a narrow screen, with a screen reader where test_access.py has not been, and after a reload."""
        def is_so():
            page.comes_to(state, **more)
            if words:
                page.says(words, "#grab")
        is_so()
        page.shot(f"button-{state}")
        page.press("#language")
        page.comes_to(state, **more)
        page.waits(lambda: re.search("[\u4e00-\u9fff]", label(page)), 10, "Chinese")
        page.screen(PHONE)
        assert page.fits()
        if state not in LOOKED_AT:
            page.shot(f"button-{state}-phone")
            assert not complaints(page, axe)
        page.screen(DESK)
        page.press("#language")
        is_so()
        page.reload()
        is_so()
    return check


def disabled(page):
    return page.one("#grab").get_attribute("aria-disabled") == "true"


def test_log_in(page, shop, stays):
    sale = shop.sale(stock=3)["id"]
    stays(page.open(f"/s/{sale}"), "login", "Log in to grab")
    page.press("#grab")
    page.one("#username")
    page.is_at(f"/login?next=%2Fs%2F{sale}")


def test_wait_until_the_server_says_it_is_time(page, shop, stays):
    """The countdown follows the server, also on a machine whose own clock is an hour off."""
    sale = shop.sale(stock=3, opens_at=time_text(3000))["id"]

    def opens(span):
        assert page.open(f"/s/{shop.sale(stock=3, opens_at=time_text(span))['id']}").comes_to("wait", "grab") == "wait"
        page.listen()
        page.comes_to("grab")
        assert "Opens in 3 seconds" in page.heard() and page.heard()[-1].startswith("Grab"), page.heard()
    with page.injected(HOUR_OFF):
        page.enter(mint_name("buyer")).open(f"/s/{sale}")
        page.comes_to("wait")
        page.shows(r"^4\d:\d\d$", ".countdown")
        assert disabled(page)
        stays(page, "wait", "Opens in")
        unhurried(opens, 10, 40)
        page.press("#grab")
        page.comes_to("won")


def test_a_page_that_was_hidden_is_right_again_at_once(page, shop):
    """Nobody is asked while nobody looks. What the server's clock says is kept, on a machine whose own is wrong."""
    sale = shop.sale(stock=3, closes_at=time_text(1800))["id"]
    with page.injected(HOUR_OFF):
        page.meddle(COUNT).enter(mint_name("buyer")).open(f"/s/{sale}")
        page.comes_to("grab")
        with page.hidden():
            asked = page.asked()
            assert shop.change(sale, closes_at=time_text(3000)).status == 200
            time.sleep(3)  # longer than it waits between two looks
            assert page.asked() == asked and page.state() == "grab"
        page.shows(r"^4\d:\d\d$", ".countdown")
        assert page.state() == "grab"


def test_grab_then_won_with_the_time_left_to_pay(page, shop, stays):
    sale = shop.sale(stock=3, pay_within_s=3000, price=12900, currency="EUR", name=mint_name("Walnut lamp"))["id"]
    buyer = mint_name("buyer")
    stays(page.enter(buyer).open(f"/s/{sale}"), "grab", "€129.00")
    page.listen()
    page.press("#grab")
    page.comes_to("won")
    order = shop.listed(f"/v1/orders?sale={sale}", shop.buyer(buyer))[0]["no"]
    page.hears(f"You got it!. Order {order}")
    stays(page, "won", order)
    page.shows(r"\b4\d:\d\d\b", "#grab")
    page.says("2 of 3 left", ".stock")
    page.says("1 held for buyers who are paying", ".stock")
    assert page.one(f"[data-order='{order}']").is_displayed()


@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
def test_the_button_is_seen_on_a_phone_without_scrolling(page, shop, language):
    sale = shop.sale(stock=300, price=12900, currency="EUR", name=f"Walnut reading lamp {mint_name('no')}", units_per_grab_max=3, closes_at=time_text(3600))["id"]
    shop.win(sale, mint_name("other"))
    page.speak(language)
    page.screen(PHONE)
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    bottom, screen = page.driver.execute_script("return [document.getElementById('grab').getBoundingClientRect().bottom, innerHeight]")
    assert page.fits() and bottom <= screen


def test_won_at_once_where_nothing_is_to_be_paid(page, shop, stays):
    sale = shop.sale(stock=3)["id"]
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    stays(page, "won", "Order")
    assert disabled(page)


def test_already_yours(page, shop, stays):
    sale = shop.sale(stock=3, pay_within_s=900)["id"]
    buyer = mint_name("buyer")
    page.enter(buyer).open(f"/s/{sale}")
    page.comes_to("grab")
    page.knows_orders()
    order = shop.win(sale, buyer)["no"]  # meanwhile, elsewhere
    page.press("#grab")
    stays(page, "yours", order)
    page.says("Already yours", "#grab")


def test_sold_out_says_what_may_come_back_and_opens_again(page, shop, stays):
    sale = shop.sale(stock=1, pay_within_s=900)["id"]
    other = mint_name("other")
    order = shop.win(sale, other)["no"]
    stays(page.enter(mint_name("buyer")).open(f"/s/{sale}"), "sold_out", "Sold out")
    page.says("1 is being paid for", "#outcome")
    assert shop.client.post(f"/v1/orders/{order}/cancel", {}, shop.buyer(other)).status == 200
    page.comes_to("grab")


def test_somebody_was_quicker(page, shop):
    """The page still shows one; the answer is that there is none."""
    sale = shop.sale(stock=1)["id"]
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    shop.win(sale, mint_name("other"))
    page.press("#grab")
    page.comes_to("sold_out")


@pytest.mark.parametrize("verb,state,words", [("close", "closed", "Closed"), ("pause", "paused", "Paused")])
def test_closed_and_paused_come_without_a_reload(page, shop, verb, state, words, stays):
    sale = shop.sale(stock=3)["id"]
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    assert shop.act(sale, verb).status == 200
    stays(page, state, words)
    assert disabled(page)
    if verb == "pause":
        assert shop.act(sale, "resume").status == 200
        page.comes_to("grab")


def test_sellers_do_not_grab(page, shop, stays):
    sale = shop.sale(stock=3)["id"]
    stays(page.enter(shop.seller, "seller").open(f"/s/{sale}"), "role", "Only customers")


def test_in_line_with_a_position_that_a_reload_keeps(page, shop, stays):
    line = {"rate_per_s": 1, "size": 1000, "timeout_ms": 600000}
    sale = shop.sale(stock=1000, admission="line", line=line)["id"]
    ahead = [mint_name("ahead") for _ in range(300)]
    for name in ahead:
        assert shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer(name)).status in (200, 201)
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    page.comes_to("line")
    position = int("".join(filter(str.isdigit, page.text("#grab .grab-label"))))
    assert 1 < position <= len(ahead) + 1
    page.shows(r"About \d:\d\d", "#grab")
    stays(page, "line", "In line")
    assert int("".join(filter(str.isdigit, page.text("#grab .grab-label")))) <= position
    assert shop.change(sale, line={**line, "rate_per_s": 1000}).status == 200  # from the next who comes on
    assert shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer(mint_name("behind"))).status in (200, 201)
    page.comes_to("won")


def test_whoever_leaves_the_line_is_out_of_it(page, shop):
    sale = shop.sale(stock=20, admission="line", line={"rate_per_s": 1, "size": 1000, "timeout_ms": 600000})["id"]
    for _ in range(300):
        shop.client.post(f"/v1/sales/{sale}/line", None, shop.buyer(mint_name("ahead")))
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    page.comes_to("line")
    page.press("#leave")
    page.comes_to("grab")
    page.reload()
    page.comes_to("grab")
    assert page.driver.execute_script("return Object.keys(localStorage).filter((name) => name.startsWith('stampede.grab')).length") == 0


def test_purchase_tokens_are_fetched_by_the_page(page, shop):
    sale = shop.sale(stock=3, admission="token", tokens_max=1)["id"]
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    page.comes_to("won")
    page.enter(mint_name("late")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    page.says("All chances to buy are given out", "#outcome")


def test_a_sale_for_anyone_needs_no_login(page, shop, stays):
    sale = shop.sale(stock=3, admission="open")["id"]
    page.open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    stays(page, "won", "Order")
    assert shop.counts(sale)[3] == 1


class Spender:
    """Grabs in the buyer's name all the while, so that others of theirs come too often."""

    def __init__(self, server, sale, buyer):
        self.shop, self.sale, self.buyer = Shop(server), sale, buyer
        self.done, self.thread = threading.Event(), threading.Thread(target=self.spend)

    def spend(self):
        while not self.done.is_set():
            self.shop.grab(self.sale, self.buyer)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.shop.close()


def test_slow_down(browser, own_server):
    """Somebody else uses up what the buyer may ask for, all the time, so that the page is refused however slow the machine is."""
    server = own_server("--limits", "user_grab_per_s=1,user_grab_burst=1", "--demo-payments", "on")
    shop = Shop(server)
    page, buyer = Page(browser, server), mint_name("buyer")
    page.enter(buyer)
    with Spender(server, shop.sale(stock=3)["id"], buyer):
        # Once a second one of the grabs passes, and it may be the page's.
        for _ in range(5):
            page.open(f"/s/{shop.sale(stock=3)['id']}")
            page.comes_to("grab")
            page.watch()
            page.press("#grab")
            if page.waits(lambda: {"slow", "won"} & page.watched().keys(), 15, "slow or won") == {"slow"}:
                break
        page.shot("button-slow")
        assert "A little slower" in page.watched()["slow"]
        page.reload()
        page.comes_to("slow", "grab")
    page.comes_to("grab")
    page.watch()
    page.press("#grab")
    page.waits(lambda: {"slow", "won"} & page.watched().keys(), 15, "slow or won")
    page.finish()
    shop.close()


def test_asking_goes_on_over_a_reload(browser, server, shop, stays):
    """The answer is on its way: the page says so, and after a reload asks with the same key."""
    network = Cutter(server)
    page = Page(browser, server, network.port)
    sale = shop.sale(stock=9, grabs_per_buyer_max=9)["id"]
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    network.set("hold")
    page.press("#grab")
    stays(page, "asking", "Asking")
    network.set("pass")
    page.says("You got it", "#outcome")
    assert shop.counts(sale)[3] == 1 and len(set(network.heard)) == 1 and len(network.heard) >= 2
    page.finish()
    network.close()


def test_several_at_once_and_again(page, shop):
    sale = shop.sale(stock=9, units_per_grab_max=3, grabs_per_buyer_max=2, price=500, currency="EUR")["id"]
    buyer = mint_name("buyer")
    page.enter(buyer).open(f"/s/{sale}")
    page.comes_to("grab")
    page.driver.execute_script("const units = document.getElementById('units'); units.value = '3'; units.dispatchEvent(new Event('change'))")
    page.says("€15.00", "#grab")
    page.press("#grab")
    page.says("You may grab again", "#outcome")
    assert shop.counts(sale)[3] == 3
    page.press("#grab")
    page.comes_to("won")
    assert shop.counts(sale)[3] >= 4 and len(shop.listed(f"/v1/orders?sale={sale}", shop.buyer(buyer))) == 2
