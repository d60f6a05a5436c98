"""A buyer's whole way, in two languages; and a network that loses answers, which never makes anybody buy twice."""

import pytest
from browser import PHONE, Page
from cutter import Cutter
from harness import Shop, eventually, mint_name, time_text
from ports import free_port

WORDS = {
    "en-US": {"lang": "en", "hero": "A few things, a crowd, one moment.", "register": "Register", "wait": "Opens in", "grab": "Grab", "won": "You got it!", "pay": "Pay within",
              "demo": "Demonstration: no money moves", "paid": "Paid. It is yours.", "yours": "Yours", "cancelled": "Cancelled", "soon": "Coming up", "price": "€129.00"},
    "zh-CN": {"lang": "zh-Hans", "hero": "好物不多，准点开抢。", "register": "注册", "wait": "距离开始", "grab": "立即抢购", "won": "抢到了！", "pay": "内付款",
              "demo": "演示：不会发生真实扣款", "paid": "付款成功，商品归你了。", "yours": "已拥有", "cancelled": "已取消", "soon": "即将开始", "price": "€129.00"},
}


@pytest.mark.parametrize("language", WORDS)
def test_from_the_first_look_to_what_is_mine(page, shop, language):
    words, short = WORDS[language], language[:2]
    name = mint_name("Walnut lamp")
    sale = shop.sale(stock=5, name=name, price=12900, currency="EUR", pay_within_s=900, opens_at=time_text(3600), description="Turned by hand.\nFive, and no more.")["id"]
    other = shop.sale(stock=5, name=mint_name("Tea set"), price=100, currency="EUR", pay_within_s=900)["id"]
    page.speak(language)
    page.open("/")
    page.says(words["hero"])
    page.says(name)
    page.says(words["soon"])
    assert page.driver.execute_script("return document.documentElement.lang") == words["lang"]
    page.shot(f"way-{short}-1-list")

    # In, by way of the sale.
    page.press(f"[data-sale='{sale}']")
    page.comes_to("login")
    page.press("#grab")
    page.press("main a[href^='/register']")
    buyer = mint_name("Anna-Ⅱ<b>")
    page.write("#username", buyer)
    page.write("#password", "correct horse")
    page.shot(f"way-{short}-2-register")
    page.press("#submit")
    page.comes_to("wait")
    page.is_at(f"/s/{sale}")
    page.says(buyer, ".who")
    page.says(words["wait"], "#grab")
    page.shot(f"way-{short}-3-wait")

    # It opens, and one of the five is mine.
    assert shop.change(sale, opens_at=time_text(0)).status == 200
    page.comes_to("grab")
    page.says(words["grab"], "#grab")
    page.says(words["price"], "#grab")
    page.press("#grab")
    page.comes_to("won")
    page.says(words["won"], "#grab")
    page.says(words["pay"], "#grab")
    page.shot(f"way-{short}-4-won")

    # Paying, which fails first.
    page.press("#grab")
    page.says(words["demo"])
    page.shot(f"way-{short}-5-pay")
    page.press("#pay-fail")
    page.one("#pay-outcome")
    page.press("#pay-now")
    page.says(words["paid"])
    token = page.token()
    assert [order["state"] for order in shop.listed("/v1/orders", token)] == ["paid"]

    # Another, which is given back.
    page.open(f"/s/{other}")
    page.comes_to("grab")
    page.press("#grab")
    page.comes_to("won")
    page.press("[data-cancel]")
    page.press("dialog [value=no]")
    page.comes_to("won")
    page.press("[data-cancel]")
    page.press("dialog [value=yes]")
    page.comes_to("grab")
    assert shop.counts(other) == (5, 5, 0, 0)
    page.press("nav a[href='/orders']")
    page.one("[data-order-state=paid]")
    page.one("[data-order-state=cancelled]")
    page.says(words["yours"])
    page.says(words["cancelled"])
    page.shot(f"way-{short}-6-orders")

    # Out, in again with the password.
    page.press("#logout")
    page.press(".who a[href^='/login']")
    page.write("#username", buyer)
    page.write("#password", "wrong horse")
    page.press("#submit")
    page.one("[role=alert]")
    page.write("#password", "correct horse")
    page.press("#submit")
    page.says(buyer, ".who")


def test_sales_are_now_soon_or_over_and_move_without_a_reload(page, shop):
    sales = {name: shop.sale(stock=1, **terms)["id"] for name, terms in (("open", {}), ("paused", {}), ("soon", {"opens_at": time_text(600)}), ("gone", {}), ("closed", {}))}
    assert shop.act(sales["paused"], "pause").status == shop.act(sales["closed"], "close").status == 200
    shop.win(sales["gone"], mint_name("other"))

    def sections():
        found = page.driver.execute_script("return [...document.querySelectorAll('[data-section] [data-sale]')].map((card) => [card.dataset.sale, card.closest('[data-section]').dataset.section])")
        return {name: dict(found).get(sale) for name, sale in sales.items()}
    page.open("/")
    want = {"open": "now", "paused": "now", "soon": "soon", "gone": "over", "closed": "over"}
    page.waits(lambda: sections() == want, 10, want)
    assert shop.change(sales["soon"], opens_at=time_text(0)).status == 200
    with page.hidden():
        pass
    page.waits(lambda: sections() == {**want, "soon": "now"}, 10, "what is on now")


def test_the_language_is_switched_and_remembered(page, shop):
    sale = shop.sale(stock=5)["id"]
    page.open(f"/s/{sale}")
    page.says("Log in to grab", "#grab")
    page.press("#language")
    page.says("登录后抢购", "#grab")
    assert page.driver.execute_script("return document.documentElement.lang") == "zh-Hans"
    page.reload()
    page.says("登录后抢购", "#grab")
    page.press("#language")
    page.says("Log in to grab", "#grab")


def test_what_cannot_be_registered_is_said_at_its_field(page, shop):
    taken = mint_name("taken")
    assert shop.client.post("/v1/users", {"username": taken, "password": "correct horse", "role": "customer"}).status == 201
    page.open("/register")
    page.write("#username", taken)
    page.write("#password", "short")
    page.press("#submit")
    page.says("8 to 128 characters", "#password-wrong")
    assert page.one("#password").get_attribute("aria-invalid") == "true"
    page.write("#password", "correct horse")
    page.press("#submit")
    page.says("taken", "#username-wrong")


def test_a_login_that_ends_is_asked_for_again(page, shop):
    sale = shop.sale(stock=5)["id"]
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.knows_orders()
    assert shop.client.post("/v1/logout", None, page.token()).status == 204
    page.press("#grab")
    page.comes_to("login")
    assert shop.counts(sale)[1] == 5


def test_an_address_where_nothing_is(page):
    page.open("/s/999999999")
    page.says("There is nothing here")
    page.press("main a[href='/']")
    page.says("A few things, a crowd, one moment.")


# Networks. In all of these a buyer may have nine: only the key keeps them from buying twice.


@pytest.fixture
def network(server):
    one = Cutter(server)
    yield one
    one.close()


@pytest.fixture
def far(browser, server, network):
    """A page on the other side of that network."""
    one = Page(browser, server, network.port)
    yield one
    one.finish()


def once(shop, sale, buyer, network):
    orders = shop.listed(f"/v1/orders?sale={sale}", shop.buyer(buyer))
    assert len(orders) == 1 and shop.counts(sale)[3] == 1, orders
    assert len(set(network.heard)) == 1, network.heard
    return orders[0]["no"]


@pytest.mark.parametrize("terms", [{}, {"admission": "token"}, {"admission": "line", "line": {"rate_per_s": 50, "size": 9, "timeout_ms": 60000}}], ids=["login", "token", "line"])
def test_answers_that_are_lost_are_asked_for_until_one_comes(far, network, shop, terms):
    sale, buyer = shop.sale(stock=9, grabs_per_buyer_max=9, **terms)["id"], mint_name("buyer")
    far.enter(buyer).open(f"/s/{sale}")
    far.comes_to("grab")
    network.set("swallow")
    far.press("#grab")
    eventually(lambda: network.cut >= 2)
    far.comes_to("again", "asking")
    far.says("never buy twice")
    far.shot("network-again")
    network.set("pass")
    far.says("You got it", "#outcome")
    far.says(once(shop, sale, buyer, network), "[data-order]")


def test_a_reload_while_answers_are_lost_goes_on_with_the_same_key(far, network, shop):
    sale, buyer = shop.sale(stock=9, grabs_per_buyer_max=9)["id"], mint_name("buyer")
    far.enter(buyer).open(f"/s/{sale}")
    far.comes_to("grab")
    network.set("swallow")
    far.press("#grab")
    eventually(lambda: network.cut >= 1)
    network.set("refuse")
    far.reload()
    far.comes_to("again", "asking")
    lost = network.cut
    eventually(lambda: network.cut > lost)
    far.open("/")  # away and back again
    far.says("A few things")
    network.set("pass")
    far.open(f"/s/{sale}")
    far.says("You got it", "#outcome")
    once(shop, sale, buyer, network)


def test_a_server_that_dies_with_the_answer_gives_it_when_it_is_back(browser, own_server):
    server = own_server("--demo-payments", "on", port=free_port())
    shop, network = Shop(server), Cutter(server)
    page = Page(browser, server, network.port)
    sale, buyer = shop.sale(stock=9, grabs_per_buyer_max=9)["id"], mint_name("buyer")
    page.enter(buyer).open(f"/s/{sale}")
    page.comes_to("grab")
    network.set("swallow")
    page.press("#grab")
    eventually(lambda: network.cut >= 1)
    server.kill()
    page.comes_to("again", "asking")
    network.set("pass")
    server.start()
    page.says("You got it", "#outcome", seconds=25)
    shop.close()
    shop = Shop(server, shop.seller)
    once(shop, sale, buyer, network)
    page.finish()
    network.close()
    shop.close()


@pytest.mark.parametrize("part,path,words", [("store-sale", "/s/{sale}", "Log in to grab"), ("store-texts-en", "/s/{sale}", "Log in to grab"),
                                             ("console-parts", "/console", "Log in to the console")])
def test_a_page_that_came_in_part_comes_whole_by_itself(far, network, shop, part, path, words):
    sale = shop.sale(stock=9)["id"]
    far.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    network.lose = {part.encode(): 3}
    far.open(path.format(sale=sale))
    far.says(words, seconds=15)
    assert network.lose[part.encode()] < 3


def test_two_presses_are_one(page, shop):
    sale, buyer = shop.sale(stock=9, grabs_per_buyer_max=9)["id"], mint_name("buyer")
    page.enter(buyer).open(f"/s/{sale}")
    page.comes_to("grab")
    page.driver.execute_script("const button = document.getElementById('grab'); for (let i = 0; i < 5; i++) button.click()")
    page.says("You got it", "#outcome")
    assert shop.counts(sale)[3] == 1


def test_a_crowd_takes_the_rest_while_a_page_looks_on(page, shop):
    """What others do appears without a reload, on a phone too."""
    sale = shop.sale(stock=40)["id"]
    page.screen(PHONE)
    page.open(f"/s/{sale}")
    page.says("40 of 40 left", ".stock")
    for i in range(30):
        shop.win(sale, f"crowd-{i}")
    page.says("10 of 40 left", ".stock")
    for i in range(30, 40):
        shop.win(sale, f"crowd-{i}")
    page.comes_to("sold_out")
