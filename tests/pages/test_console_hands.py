"""The console under somebody's hands: what they hold, have marked or have typed stays, however the numbers around it move."""

import pytest
from console import Console
from harness import eventually, mint_name, time_text
from meddling import HOLD, LOST, OTHER
from selenium.webdriver.common.keys import Keys


@pytest.fixture
def console(browser, server):
    one = Console(browser, server)
    yield one
    one.finish()


def focused(console):
    return console.driver.execute_script("return document.activeElement?.getAttribute('href') ?? document.activeElement?.tagName")


def test_a_link_keeps_the_focus_while_its_row_changes(console, shop):
    sales = [shop.sale(stock=9)["id"] for _ in range(3)]
    console.enter(shop.seller).open("/console")
    console.one("tbody a")
    at = f"/console/sales/{sales[1]}"
    console.tab_to(f"a[href='{at}']")
    shop.win(sales[1], mint_name("buyer"))
    eventually(lambda: console.driver.execute_script("return document.activeElement.closest('tr')?.innerText ?? ''").split("\t")[2:3] == ["8"])
    shop.sale(stock=5)  # all rows move down
    eventually(lambda: len(console.all("tbody tr")) == 4)
    assert focused(console) == at


def test_more_sales_are_shown_once(console, shop):
    for i in range(70):
        shop.sale(name=f"{i:02} {mint_name('sale')}")
    console.enter(shop.seller).open("/console")
    console.one("tbody a")
    console.driver.execute_script("const more = [...document.querySelectorAll('main button.quiet')].at(-1); more.click(); more.click()")
    links = eventually(lambda: (found := console.driver.execute_script("return [...document.querySelectorAll('tbody a')].map((each) => each.href)")) and len(found) > 50 and found)
    assert len(links) == len(set(links)) == 70


def test_what_was_typed_is_there_after_logging_in_again(console, shop):
    seller, name = mint_name("seller"), mint_name("Lamp")
    assert shop.client.post("/v1/users", {"username": seller, "password": "a long password", "role": "seller"}).status == 201
    console.enter(seller).open("/console/sales/new")
    console.write(console.field("name"), name)
    console.write(console.field("description"), "Of walnut.\nBy hand.")
    console.write(console.field("pay_within_s"), "77")
    console.choose(console.field("admission"), "token")
    console.driver.execute_script("document.querySelector('.skip').click()")
    assert console.one(console.field("name")).get_attribute("value") == name
    console.press("#language")
    console.says("新建抢购", "h1")
    assert console.one(console.field("name")).get_attribute("value") == name
    console.press("#language")
    console.says("New sale", "h1")
    token = console.driver.execute_script("return JSON.parse(localStorage.getItem('stampede.session.console')).token")
    assert shop.client.post("/v1/logout", None, token).status == 204
    console.press("#save")
    console.write("[name='username']", seller)
    console.write("[name='password']", "a long password")
    console.press("#login")
    values = {each: console.one(console.field(each)).get_attribute("value") for each in ("name", "description", "pay_within_s", "admission")}
    assert values == {"name": name, "description": "Of walnut.\nBy hand.", "pay_within_s": "77", "admission": "token"}
    assert console.one(console.field("tokens_max")).is_displayed()
    console.press("#save")
    console.is_sale("open")
    console.press("nav a")
    console.press("#new")
    assert console.one(console.field("name")).get_attribute("value") == "", "a new form is empty"


def test_an_event_is_edited_as_it_was_saved_also_before_the_list_has_come_again(console, shop):
    name = mint_name("Autumn")
    event = shop.client.post("/v1/events", {"name": name, "opens_at": time_text(3600)}, shop.seller_token).json()["id"]
    console.meddle(HOLD, "/v1/events", "GET").enter(shop.seller).open("/console/events")
    eventually(lambda: console.driver.execute_script("return window.held.length") == 1)
    console.driver.execute_script("window.letGo()")
    console.press(f"[data-event='{event}']")
    console.write(console.field("name"), name + " II")
    console.press("#event-save")
    console.says("The event has been changed", "main > .notice.good")
    console.press(f"[data-event='{event}']")
    assert console.one(console.field("name")).get_attribute("value") == name + " II"


def test_a_slider_does_not_jump_back(console, shop):
    """Three steps while the answer to the first is on its way."""
    console.meddle(HOLD, "/v1/limits", "PUT").enter(mint_name("operator"), "admin").open("/console/limits")
    slider = console.one("[data-limit='ip_write_per_s']")
    before = shop.client.get("/v1/limits", shop.admin_token).json()["ip_write_per_s"]
    at = int(slider.get_attribute("value"))
    slider.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    eventually(lambda: console.driver.execute_script("return window.held.length") == 1)
    for _ in range(3):
        eventually(lambda: console.driver.execute_script("return window.held.length") == 1)
        console.driver.execute_script("window.letGo()")
    console.says("ip_write_per_s is", "main > .notice")
    assert int(slider.get_attribute("value")) == at - 3
    set_to = shop.client.get("/v1/limits", shop.admin_token).json()["ip_write_per_s"]
    assert set_to < before and f"{set_to:,}" in console.text("main > .notice")
    assert shop.client.request("PUT", "/v1/limits", {"ip_write_per_s": before}, shop.admin_token).status == 200


def test_another_level_of_the_log_is_not_mixed_with_the_one_before(console, shop):
    console.meddle(HOLD, "/v1/log", "GET").enter(mint_name("operator"), "admin").open("/console/log")
    eventually(lambda: console.driver.execute_script("return window.held.length") == 1)
    console.choose("[name='level']", "error")
    console.driver.execute_script("window.letGo()")
    eventually(lambda: console.driver.execute_script("return window.held.length") == 1)
    assert not console.all(".log li[data-level='info']")
    console.driver.execute_script("window.letGo()")
    eventually(lambda: console.driver.execute_script("return window.held.length") == 1)  # the next look
    assert not console.all(".log li[data-level='info']")


@pytest.mark.parametrize("lose", ["answer", "request"])
def test_a_restock_that_nobody_answered_is_not_added_twice_unknowingly(console, shop, lose):
    sale = shop.sale(stock=3)["id"]
    console.meddle(LOST, f"/v1/sales/{sale}/stock", f"/v1/sales/{sale}").enter(shop.seller).open(f"/console/sales/{sale}")
    console.is_linked("live")
    console.driver.execute_script("window.lose = arguments[0]", lose)

    def restock():
        console.press("#restock")
        console.write("dialog [name='add']", "5")
        console.press("dialog [type='submit']")
    restock()
    console.says("No answer came to +5 units. Whether it was done is being looked up", "main > .notice.warn")
    assert console.one("#restock").get_attribute("aria-disabled") == "true"
    console.driver.execute_script("window.lose = null; window.deaf = false")
    if lose == "answer":
        console.says("but it was done: 3 were offered before, 8 are now. Do not send it again.", "main > .notice.warn")
        console.press("#restock")
        console.says("8 are offered now, 8 of them are left.", "dialog")
        console.press("dialog .quiet")
    else:
        console.says("it has not been done so far: 3 were offered before, 3 are now", "main > .notice.warn")
        console.press("#restock")
        console.says("it has not been done so far", "dialog .notice.warn")
        console.press("dialog .quiet")
        eventually(lambda: not console.all("dialog"))
        restock()
        eventually(lambda: console.number("available") == 8)
        assert not console.seen("main > .notice")
    assert shop.counts(sale) == (8, 8, 0, 0)


def test_a_sale_of_which_all_was_withdrawn_is_drawn(console, shop):
    sale = shop.sale(stock=3)["id"]
    assert shop.act(sale, "stock", {"add": -3}).status == 200
    console.enter(shop.seller).open(f"/console/sales/{sale}")
    console.is_linked("live")  # finish() finds what the browser says of a curve that is none
    assert "NaN" not in console.driver.execute_script("return [...document.querySelectorAll('path')].map((each) => each.getAttribute('d')).join()")
    assert console.text("[data-number='p50']") == "–"


def test_a_year_that_cannot_be_is_said_and_a_sale_of_somebody_else_is_not_offered(console, shop):
    console.enter(shop.seller).open("/console/sales/new")
    console.write(console.field("name"), mint_name("x"))
    console.choose(console.field("opens_at"), "20265-01-01T00:00:00")
    console.press("#save")
    console.one(f"{console.field('opens_at')}[aria-invalid='true']")
    other = shop.client.post("/v1/sales", {"name": mint_name("x"), "stock": 1}, shop.server.token(mint_name("other"), "seller")).json()["id"]
    console.open(f"/console/edit/{other}")
    console.says("There is no such sale of yours.")
    assert not console.seen("#save")


def test_a_node_of_another_release_may_be_in_a_state_that_has_no_name_here(console):
    console.meddle(OTHER, "/v1/nodes", '"state":"ready"', '"state":"warming"', "/v1/nodes").enter(mint_name("operator"), "admin").open("/console/nodes")
    console.says("warming", ".node")
