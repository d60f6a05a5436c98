"""Everybody can use the console: on a narrow screen, with a screen reader, by day and by night. And a name is a name, whoever gave it."""

import pytest
from access import HOSTILE, complaints
from browser import DESK, PHONE
from harness import Shop, eventually, mint_name, time_text
from receiver import FAILING_SOON

# Which have every colour there is.
BY_NIGHT = {"live", "wrong", "hooks", "log"}


@pytest.fixture(scope="module")
def server_flags():
    return FAILING_SOON


def stage(shop):
    """Something of everything."""
    sale = shop.sale(stock=9, name=mint_name("Lamp"), price=12900, currency="EUR", pay_within_s=900, description="Of walnut.")["id"]
    shop.sale(stock=5, opens_at=time_text(600))
    for i in range(4):
        shop.grab(sale, f"buyer-{i % 3}")
    assert shop.client.request("PUT", "/v1/webhook", {"url": "http://127.0.0.1:9/hook"}, shop.seller_token).status == 200
    shop.win(sale, "told")
    shop.client.post("/v1/blocks", {"entry": "ip 192.0.2.0/24"}, shop.admin_token)
    shop.client.post("/v1/events", {"name": "Autumn", "opens_at": time_text(600)}, shop.seller_token)
    eventually(lambda: shop.client.get("/v1/webhook", shop.seller_token).json()["failed"] > 0, 20)
    return sale


def views(console, shop, sale):
    """(name, how to come there), by role."""
    def at(path, *ready):
        return lambda: (console.open(path), *[console.one(selector) for selector in ready])
    seller = [("sales", at("/console", "tbody a")), ("live", lambda: (console.open(f"/console/sales/{sale}"), console.is_linked("live"), console.one("#orders tbody"))),
              ("dialog", lambda: (console.press("#restock"), console.one("dialog"))),
              ("form", at("/console/sales/new", "#save")), ("wrong", lambda: (console.press("#save"), console.one("[aria-invalid]"))),
              ("edit", at(f"/console/edit/{sale}", "#save")), ("hook", at("/console/hook", "tbody tr")),
              ("events", at("/console/events", "tbody tr"))]
    admin = [("nodes", at("/console/nodes", ".node")), ("limits", at("/console/limits", "[data-limit]")), ("blocks", at("/console/blocks", "tbody tr")),
             ("hooks", lambda: (console.open("/console/hooks"), console.press(f"[data-seller='{shop.seller}']"), console.one("#deliveries tbody tr"))),
             ("log", at("/console/log", ".log li"))]
    return [("nobody", None, [("login", at("/console", "#register"))]), ("seller", shop.seller, seller), ("admin", mint_name("operator"), admin)]


def test_axe_finds_nothing_serious_by_day_and_by_night_and_all_fits_a_phone(console, shop, axe):
    found, wide = {}, []
    console.scheme("light", calm=True)
    for role, who, places in views(console, shop, stage(shop)):
        if who is not None:
            console.enter(who, role)
        for name, come in places:
            come()
            found[name] = complaints(console, axe)
            console.shot(f"console-{name}")
            if name in BY_NIGHT:
                console.scheme("dark", calm=True)
                found[f"{name} by night"] = complaints(console, axe, ["color-contrast"])
                console.shot(f"console-{name}-dark")
                console.scheme("light", calm=True)
            console.screen(PHONE)
            if not console.fits():
                wide.append(name)
            console.screen(DESK)
    assert not any(found.values()), {name: rules for name, rules in found.items() if rules}
    assert not wide


def test_nothing_that_is_pressed_is_cut_off_on_a_phone(console, shop):
    console.screen(PHONE)
    assert shop.client.post("/v1/blocks", {"entry": "ip 198.51.100.0/24"}, shop.admin_token).status in (200, 201)
    console.enter(mint_name("operator"), "admin").open("/console/blocks")
    console.one("tbody button")
    assert console.driver.execute_script("const { scrollWidth, clientWidth } = document.querySelector('.scroll'); return scrollWidth <= clientWidth")
    console.enter(mint_name("a-seller-whose-name-is-rather-long"), "seller").open("/console")
    console.one("#logout")
    name, leave = console.driver.execute_script("return ['who', 'logout'].map((id) => document.getElementById(id).getBoundingClientRect().toJSON())")
    assert console.fits() and leave["top"] < name["bottom"] and name["top"] < leave["bottom"], "they stand in one row"


def test_a_state_is_one_word_in_a_table_also_in_chinese(console, shop):
    shop.sale(stock=3)
    console.speak("zh-CN")
    console.screen(PHONE)
    console.enter(shop.seller).open("/console")
    console.says("进行中", "td .chip")
    wide, high = console.driver.execute_script("const { width, height } = document.querySelector('td .chip').getBoundingClientRect(); return [width, height]")
    assert high < wide


def test_what_went_wrong_is_said_in_one_language(console):
    console.speak("zh-CN")
    console.open("/console")
    console.write("[name='username']", mint_name("nobody"))
    console.write("[name='password']", "a long password")
    console.press("#login")
    console.says("用户名或密码不正确。", ".notice.bad")
    assert not any(byte.isascii() and byte.isalpha() for byte in console.text(".notice.bad"))


def test_a_name_is_a_name(console, shop):
    """In every place where somebody else's words are shown."""
    event = shop.client.post("/v1/events", {"name": HOSTILE[0], "description": HOSTILE[1], "opens_at": time_text(600)}, shop.seller_token)
    assert event.status == 201
    hostile = Shop(shop.server, HOSTILE[1][:64])
    for word in HOSTILE:
        made = hostile.client.post("/v1/sales", {"name": word, "stock": 5, "description": f"{word}\n{word}"}, hostile.seller_token)
        assert made.status == 201, made
        sale = made.json()["id"]
        hostile.win(sale, word[:64])
        assert shop.client.post("/v1/blocks", {"entry": f"user x{word[:60]}"}, shop.admin_token).status in (201, 400)
    assert hostile.client.request("PUT", "/v1/webhook", {"url": "http://127.0.0.1:9/'%3Cb%3E"}, hostile.seller_token).status == 200
    console.enter(hostile.seller, "seller").open("/console")
    for word in HOSTILE:
        console.says(word.strip(), "table")
    for item in hostile.client.get("/v1/sales?limit=200").json()["items"]:
        if item["seller"] != hostile.seller:
            continue
        console.open(f"/console/sales/{item['id']}")
        eventually(lambda: console.driver.execute_script("return document.querySelector('h1')?.textContent") == item["name"])
        console.says(item["name"][:64].strip(), "#orders")
        assert console.driver.title.startswith(item["name"].strip()[:20])
    console.open(f"/console/edit/{sale}")
    console.one("#save")
    console.enter(shop.seller).open("/console/events")
    console.says(HOSTILE[0], "table")
    console.press(f"[data-event='{event.json()['id']}']")
    assert console.one(console.field("description")).get_attribute("value") == HOSTILE[1]
    console.enter(mint_name("operator"), "admin").open("/console/blocks")
    console.says("x" + HOSTILE[0], "table")
    console.open("/console")
    console.says(HOSTILE[0], "table")
    console.open("/console/hooks")
    console.says(hostile.seller, "table")
    console.open("/console/log")
    console.one(".log li")
    assert console.driver.execute_script("return window.hurt ?? null") is None
    assert not console.all("main script, main img, main iframe, main b")
    hostile.close()
