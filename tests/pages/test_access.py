"""Everybody can buy: with a keyboard alone, on a narrow screen, with a screen reader, by day and by night. And a name is a name."""

from access import HOSTILE, complaints
from browser import PHONE
from harness import eventually, mint_name, time_text
from selenium.webdriver.common.keys import Keys


def test_axe_finds_nothing_serious_by_day_and_by_night(page, shop, axe):
    buyer = mint_name("buyer")
    open_sale = shop.sale(stock=5, name=mint_name("Lamp"), price=12900, currency="EUR", pay_within_s=900, units_per_grab_max=3)["id"]
    soon = shop.sale(stock=5, name=mint_name("Tea"), opens_at=time_text(600))["id"]
    gone = shop.sale(stock=1, name=mint_name("Print"))["id"]
    shop.win(gone, mint_name("other"))
    paused = shop.sale(stock=1, name=mint_name("Chair"))["id"]
    assert shop.act(paused, "pause").status == 200
    page.scheme("light", calm=True)
    found = {}

    def look(name, ready):
        ready()
        page.shot(f"light-{name}")
        found[name] = complaints(page, axe)
        page.scheme("dark", calm=True)
        page.shot(f"dark-{name}")
        found[f"{name} by night"] = complaints(page, axe, ["color-contrast"])  # the rest is the same by night
        page.scheme("light", calm=True)

    look("list", lambda: (page.open("/"), page.one(f"[data-sale='{gone}']")))
    look("sale-login", lambda: (page.open(f"/s/{open_sale}"), page.comes_to("login")))
    look("login", lambda: (page.open("/login"), page.one("#password")))
    look("register-wrong", lambda: (page.open("/register"), page.write("#username", buyer), page.write("#password", "x"), page.press("#submit"), page.says("8 to 128", "#password-wrong")))
    page.enter(buyer)
    look("sale-grab", lambda: (page.open(f"/s/{open_sale}"), page.comes_to("grab")))
    look("sale-won", lambda: (page.press("#grab"), page.comes_to("won"), page.one("[data-pay]")))
    look("dialog", lambda: (page.press("[data-cancel]"), page.one("dialog [value=no]")))
    page.press("dialog [value=no]")
    look("orders", lambda: (page.open("/orders"), page.one("[data-pay]")))
    look("pay", lambda: (page.press("[data-pay]"), page.one("#pay-now")))
    look("paid", lambda: (page.press("#pay-now"), page.says("It is yours")))
    look("sale-wait", lambda: (page.open(f"/s/{soon}"), page.comes_to("wait")))
    look("sale-sold-out", lambda: (page.open(f"/s/{gone}"), page.comes_to("sold_out")))
    look("sale-paused", lambda: (page.open(f"/s/{paused}"), page.comes_to("paused")))
    look("missing", lambda: (page.open("/s/0"), page.says("nothing here")))
    assert not any(found.values()), {name: rules for name, rules in found.items() if rules}


def test_everything_is_reached_with_a_keyboard_alone(page, shop):
    sale = shop.sale(stock=5, pay_within_s=900, price=100, currency="EUR")["id"]
    name = mint_name("keys")
    page.open("/")
    page.one(f"[data-sale='{sale}']")
    page.keys(Keys.TAB)
    assert page.driver.execute_script("return document.activeElement.className") == "skip"
    page.tab_to(f"[data-sale='{sale}']")
    page.keys(Keys.ENTER)
    page.comes_to("login")
    eventually(lambda: page.driver.execute_script("return document.activeElement.tagName") == "H1")
    page.tab_to("#grab")
    page.keys(Keys.ENTER)
    page.one("#username")
    page.tab_to("main a[href^='/register']")
    page.keys(Keys.ENTER)
    page.says("At least 8 characters")
    page.keys(name, Keys.TAB)
    page.keys("correct horse", Keys.ENTER)
    page.comes_to("grab")
    page.tab_to("#grab")
    page.keys(Keys.SPACE)
    page.comes_to("won")
    assert page.driver.execute_script("return document.activeElement.id") == "grab", "the focus stays where it was"
    page.one("[data-pay]")
    page.tab_to("[data-cancel]")
    page.keys(Keys.ENTER)
    page.one("dialog")
    page.keys(Keys.ESCAPE)
    eventually(lambda: not page.seen("dialog"))
    page.tab_to("[data-pay]", 60)
    page.keys(Keys.ENTER)
    page.one("#pay-now")
    page.tab_to("#pay-now")
    page.keys(Keys.ENTER)
    page.says("Paid. It is yours.")
    assert page.driver.execute_script("return document.activeElement.id") == "pay-outcome"
    assert shop.counts(sale)[3] == 1


def test_a_narrow_screen_shows_everything_without_scrolling_sideways(page, shop):
    long = "Donaudampfschifffahrtsgesellschaftskapitänsmütze" * 2
    sale = shop.sale(stock=1234567, name=mint_name(long), price=123456789, currency="EUR", pay_within_s=900, units_per_grab_max=3, description=long * 4)["id"]
    buyer = mint_name("a-buyer-with-a-name-of-some-length")
    page.screen(PHONE)
    page.enter(buyer)
    for at, ready in (("/", f"[data-sale='{sale}']"), (f"/s/{sale}", "#grab"), ("/orders", "main a"), ("/login", "#submit"), ("/register", "#submit")):
        page.open(at)
        page.one(ready)
        page.shot(f"phone-{at.strip('/').split('/')[0] or 'list'}")
        wide = page.driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{at} is {wide} pixels too wide"
    page.open(f"/s/{sale}")
    page.comes_to("grab")
    page.press("#grab")
    page.comes_to("won")
    page.shot("phone-won")
    small = page.driver.execute_script(
        "return [...document.querySelectorAll('main button, main a.button, nav a, .who button, .who a')]"
        ".filter((each) => each.offsetParent && each.getBoundingClientRect().height < 40).map((each) => each.outerHTML)")
    assert not small, f"too small for a thumb: {small}"
    assert page.fits()


def test_what_happens_is_told_to_a_screen_reader(page, shop):
    sale = shop.sale(stock=5, pay_within_s=900)["id"]
    page.enter(mint_name("buyer")).open(f"/s/{sale}")
    page.comes_to("grab")
    page.listen()
    page.press("#grab")
    page.comes_to("won")
    page.hears("You got it!. Order")
    bar = page.one("[role=progressbar]")
    page.says("4 of 5 left", ".stock")
    assert bar.get_attribute("aria-valuenow") == "4" and bar.get_attribute("aria-valuemax") == "5" and bar.get_attribute("aria-valuetext") == "4 of 5 left"


def texts(page, selector):
    return page.driver.execute_script("return [...document.querySelectorAll(arguments[0])].map((element) => element.textContent)", selector)


def test_a_hostile_name_is_a_name(page, shop):
    """In every field that somebody else writes: sale, description, seller, buyer."""
    sales = {}
    for name in HOSTILE:
        fields = {"name": name, "description": f"{name}\n{name}", "stock": 3, "price": 100, "currency": "EUR", "pay_within_s": 900}
        made = shop.client.post("/v1/sales", fields, page.server.token(name, "seller"))
        assert made.status == 201, made
        sales[name] = made.json()["id"]
    page.open("/")
    page.one(f"[data-sale='{sales[HOSTILE[0]]}']")
    assert set(HOSTILE) <= set(texts(page, ".sale-card bdi"))
    for name, sale in sales.items():
        shop.win(sale, name)
        page.enter(name)
        page.open(f"/s/{sale}")
        page.comes_to("yours")
        assert texts(page, "h1 bdi") == texts(page, ".who bdi") == [name] and name in texts(page, ".sale-text bdi")
        assert texts(page, ".description") == [f"{name}\n{name}"]
        assert page.driver.execute_script("return window.hurt === undefined && document.querySelectorAll('img, main script, [onload]').length === 0")
        assert page.driver.execute_script("return document.title.includes(arguments[0].trim())", name)
    page.open("/orders")
    page.press("[data-pay]")
    page.one("#pay-now")
    assert texts(page, "main bdi") == [HOSTILE[-1]]
    assert page.driver.execute_script("return window.hurt === undefined")


def test_a_hostile_address_goes_nowhere(page, shop):
    for address in ("/s/%3Cscript%3Ewindow.hurt=1%3C%2Fscript%3E", "/s/%zz", "/pay/%22%3E%3Cimg%20src=x%3E", "/login?next=https://example.com/", "/login?next=//example.com",
                    "/login?next=javascript:window.hurt=1"):
        page.open(address)
        page.one("main h1")
        assert page.driver.execute_script("return window.hurt === undefined")
    buyer = mint_name("buyer")
    assert shop.client.post("/v1/users", {"username": buyer, "password": "correct horse", "role": "customer"}).status == 201
    page.write("#username", buyer)
    page.write("#password", "correct horse")
    page.press("#submit")
    page.says(buyer, ".who")
    page.is_at("/")
