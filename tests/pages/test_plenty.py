"""The storefront with more of everything, and a network that is slow: what is asked, shown and forgotten, and how often."""

import time

from browser import Page
from harness import Shop, eventually, mint_name, time_text
from meddling import BUSY, HOLD, LATE, OTHER


def test_every_sale_is_reached_from_the_list(page, shop):
    first = shop.sale(stock=3)["id"]
    for i in range(60):
        shop.sale(stock=3, name=mint_name(f"{i:02}"))
    page.open("/")
    page.one("[data-sale]")
    assert not page.all(f"[data-sale='{first}']")
    page.press("[data-section='now'] [data-more]")
    page.one(f"[data-sale='{first}']")


def test_a_login_is_forgotten_at_once_also_where_the_server_does_not_hear_of_it(page):
    page.meddle(HOLD, "/v1/logout", "POST").enter(mint_name("buyer")).open("/")
    page.press("#logout")
    page.one(".who a[href^='/login']")
    assert page.driver.execute_script("return localStorage.getItem('stampede.session.store')") is None
    page.driver.execute_script("window.letGo()")


def test_an_order_that_is_late_is_not_asked_for_without_a_pause(page, shop):
    sale, buyer = shop.sale(stock=2, pay_within_s=900)["id"], mint_name("buyer")
    shop.win(sale, buyer)
    page.meddle(OTHER, "/v1/orders?limit", '"pay_by":"[^"]*"', f'"pay_by":"{time_text(-60)}"', "/v1/orders?limit")
    page.enter(buyer).open("/orders")
    page.says("The time to pay is over")
    time.sleep(2)
    asked, seconds = page.driver.execute_script("return [window.asked, performance.now() / 1000]")
    assert asked <= 3 + seconds / 5


def test_an_answer_from_before_a_win_does_not_hide_it(page, shop):
    sale = shop.sale(stock=2, pay_within_s=900)["id"]
    page.meddle(LATE, "/v1/orders?sale").enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    eventually(lambda: page.driver.execute_script("return window.letGo !== undefined"))
    page.press("#grab")
    page.comes_to("won")
    page.watch()
    page.driver.execute_async_script("window.letGo(); setTimeout(arguments[0], 500)")
    assert "grab" not in page.watched() and page.state() == "won"


def test_the_focus_stays_where_it_is_when_the_way_to_pay_becomes_known(page, shop):
    sale, buyer = shop.sale(stock=2, pay_within_s=900)["id"], mint_name("buyer")
    shop.win(sale, buyer)
    page.meddle(LATE, "/pages.json").enter(buyer).open(f"/s/{sale}")
    page.one("[data-cancel]")
    eventually(lambda: page.driver.execute_script("return window.letGo !== undefined"))
    page.driver.execute_script("document.querySelector('[data-cancel]').focus(); window.letGo()")
    page.one("[data-pay]")
    assert page.driver.execute_script("return document.activeElement.matches('[data-cancel]')")


def test_the_way_to_pay_is_asked_for_again(page, shop):
    sale, buyer = shop.sale(stock=2, pay_within_s=900)["id"], mint_name("buyer")
    shop.win(sale, buyer)
    page.meddle(BUSY, "/pages.json", "1").enter(buyer).open(f"/s/{sale}")
    page.one("[data-cancel]")
    eventually(lambda: page.driver.execute_script("return window.held !== null"))
    page.driver.execute_script("window.letGo()")
    page.one("[data-pay]", 30)


def test_more_orders_are_shown_once(page, shop):
    sale, buyer = shop.sale(stock=50, grabs_per_buyer_max=50)["id"], mint_name("buyer")
    for _ in range(45):
        shop.win(sale, buyer)
    page.enter(buyer).open("/orders")
    page.one("[data-order]")
    page.driver.execute_script("const more = document.querySelector('main button:not([data-cancel])'); more.click(); more.click()")
    shown = eventually(lambda: (found := page.driver.execute_script("return [...document.querySelectorAll('[data-order]')].map((each) => each.dataset.order)")) and len(found) > 20 and found)
    assert len(shown) == len(set(shown)) == 40


def test_only_a_demonstration_is_called_one(browser, own_server):
    server = own_server()
    shop, page = Shop(server), Page(browser, server)
    sale, buyer = shop.sale(stock=2, pay_within_s=900)["id"], mint_name("buyer")
    order = shop.win(sale, buyer)["no"]
    page.enter(buyer).open(f"/pay/{order}")
    page.says("payment provider of this shop")
    assert "no money moves" not in page.text()
    page.finish()
    shop.close()
