"""A seller's whole way through the console, in both languages, and what the form does with what is written into it."""

import csv
import io
import re

import pytest
import yaml
from browser import ROOT
from console import WORDS
from harness import eventually, mint_name, time_text
from meddling import BUSY
from receiver import FAILING_SOON, Receiver
from selenium.webdriver.common.keys import Keys


@pytest.fixture(scope="module")
def server_flags():
    return FAILING_SOON


def exported(console, folder, meanwhile=lambda: None):
    """The rows of the file that the button saves."""
    console.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    console.press("#export")
    meanwhile()
    saved = eventually(lambda: next(folder.glob("orders-*.csv"), None))
    return list(csv.DictReader(io.StringIO(eventually(lambda: saved.read_text("utf-8-sig")))))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_from_registering_to_the_end_of_a_sale(console, shop, tmp_path, language):
    words, name, seller = WORDS[language], mint_name("Walnut lamp"), mint_name("seller")
    console.speak({"en": "en-US", "zh": "zh-CN"}[language])
    console.open("/console")
    console.write("[name='username']", seller)
    console.write("[name='password']", "a long password")
    console.shot(f"console-login-{language}")
    console.press("#register")
    console.says(words["sales"], "h1")
    console.press("#new")
    console.says(words["new"], "h1")
    console.write(console.field("name"), name)
    console.write(console.field("description"), "Made of one piece.\nBy hand.")
    console.write(console.field("stock"), "3")
    console.write(console.field("price"), "129.00")
    console.write(console.field("currency"), "EUR")
    console.choose(console.field("opens_at"), "2090-01-31T12:00:00")
    console.write(console.field("pay_within_s"), "600")
    console.shot(f"console-form-{language}")
    console.press("#save")
    console.is_sale("upcoming")
    console.says(name, "h1")
    console.says(words["upcoming"], ".heading")
    sale = console.sale_id()
    made = shop.show(sale)
    assert {key: made[key] for key in ("name", "seller", "price", "currency", "offered", "pay_within_s", "description")} == {
        "name": name, "seller": seller, "price": 12900, "currency": "EUR", "offered": 3, "pay_within_s": 600, "description": "Made of one piece.\nBy hand."}
    assert made["opens_at"].startswith("2090-01-31T")

    console.press("#open")
    console.is_sale("open")
    console.is_linked("live")
    shop.win(sale, "=2+3, \"ann\"")
    eventually(lambda: console.number("available") == 2 and console.number("held") == 1)
    console.says("=2+3", "#orders")
    console.says("€129.00", "#orders")
    console.says(words["won"], "#answers")
    console.press("#pause")
    console.is_sale("paused")
    assert shop.show(sale)["state"] == "paused" and shop.grab(sale, "bob").code == "PAUSED"
    console.press("#resume")
    console.is_sale("open")
    console.press("#restock")
    console.write("dialog [name='add']", "5")
    console.press("dialog [type='submit']")
    eventually(lambda: console.number("available") == 7)
    console.press("#edit")
    console.write(console.field("name"), name + " II")
    assert not console.one(console.field("price")).is_enabled(), "a price does not change while it is sold"
    console.press("#save")
    console.says(name + " II", "h1")
    assert shop.show(sale)["name"] == name + " II" and shop.counts(sale) == (8, 7, 1, 0)

    assert [(row["buyer"], row["units"], row["amount"], row["state"]) for row in exported(console, tmp_path)] == [("'=2+3, \"ann\"", "1", "12900", "held")], "a formula is a text"

    console.press("#close")
    console.press("dialog .quiet")
    eventually(lambda: not console.all("dialog"))
    assert shop.show(sale)["state"] == "open", "nobody said yes"
    console.press("#close")
    console.press("dialog [type='submit']")
    console.is_sale("closed")
    console.shot(f"console-closed-{language}")
    assert shop.show(sale)["state"] == "closed"
    console.open("/console")
    console.says(name + " II", "table")
    console.says(words["closed"], "table")
    console.press("#logout")
    console.one("#register")
    console.reload()
    console.one("#register")


def test_every_term_reaches_the_server_and_comes_back(console, shop):
    event = shop.client.post("/v1/events", {"name": "Autumn", "opens_at": time_text(3600)}, shop.seller_token).json()["id"]
    console.enter(shop.seller).open("/console/sales/new")
    console.says("Autumn", console.field("event"))
    for name, value in {"name": mint_name("all"), "stock": "1000", "price": "5", "currency": "JPY", "units_per_grab_max": "2", "grabs_per_buyer_max": "3", "pay_within_s": "60",
                        "admit_max": "900"}.items():
        console.write(console.field(name), value)
    for name, value in {"opens_at": "2090-01-31T12:00:00", "closes_at": "2090-02-01T12:00:00", "late_payment": "refund", "admission": "line", "event": event}.items():
        console.choose(console.field(name), value)
    for name, value in {"line_rate_per_s": "50", "line_size": "2000", "line_timeout_ms": "9000"}.items():
        console.write(console.field(name), value)
    console.press("#save")
    console.is_sale("upcoming")
    made = shop.show(console.sale_id())
    assert {key: made[key] for key in ("price", "currency", "units_per_grab_max", "grabs_per_buyer_max", "late_payment", "admission", "admit_max", "line", "event")} == {
        "price": 5, "currency": "JPY", "units_per_grab_max": 2, "grabs_per_buyer_max": 3, "late_payment": "refund", "admission": "line", "admit_max": 900,
        "line": {"rate_per_s": 50, "size": 2000, "timeout_ms": 9000}, "event": event}
    console.press("#edit")
    eventually(lambda: console.one(console.field("price")).get_attribute("value") == "5")
    eventually(lambda: console.one(console.field("event")).get_attribute("value") == event)
    console.press("#save")
    console.is_sale("upcoming")
    assert {**shop.show(made["id"]), "now": None} == {**made, "now": None}, "saving what was not touched changes nothing"
    console.press("#edit")
    console.choose(console.field("admission"), "token")
    console.write(console.field("tokens_max"), "77")
    console.choose(console.field("closes_at"), "")
    console.press("#save")
    console.is_sale("upcoming")
    changed = shop.show(made["id"])
    assert (changed["admission"], changed["tokens_max"], changed["closes_at"]) == ("token", 77, None)


@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
def test_the_form_explains_every_term_that_the_interface_has(console, shop, language):
    terms = set(yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())["components"]["schemas"]["SaleTerms"]["properties"])
    console.speak(language)
    console.enter(shop.seller).open("/console/sales/new")
    console.one("#save")
    fields = console.driver.execute_script(
        "const words = (id) => document.getElementById(id)?.textContent ?? '';"
        "return [...document.querySelectorAll('form [name]')].map((at) => [at.name, at.labels[0].textContent, words(at.getAttribute('aria-describedby').split(' ')[0])])")
    names = {name for name, _, _ in fields}
    assert terms - {"line"} | {"stock"} == {name for name in names if not name.startswith("line_")}
    assert names > {"line_name", "line_rate_per_s", "line_size", "line_timeout_ms"}
    assert len({label for _, label, _ in fields}) == len(fields) and all(label and len(why) > 4 for _, label, why in fields), fields
    for _, label, why in fields:
        assert bool(re.search("[\u4e00-\u9fff]", label + why)) == (language == "zh-CN"), (label, why)


def test_events_are_made_changed_and_joined(console, shop):
    name = mint_name("Autumn")
    console.enter(shop.seller).open("/console")
    console.press("nav a[href='/console/events']")
    console.says("No events yet.")
    console.press("#event-save")
    console.says("This is needed.", "form")
    console.write(console.field("name"), name)
    console.press("#event-save")
    console.says("A day and a time.", "form")
    console.choose(console.field("opens_at"), "2001-01-31T12:00:00")
    console.press("#event-save")
    console.says("opens_at must be in the future", "main > .notice.bad")
    console.write(console.field("description"), "Leaves.\nMany.")
    console.choose(console.field("opens_at"), "2090-01-31T12:00:00")
    console.press("#event-save")
    console.says(f"The event has been created: {name}", "main > .notice.good")
    console.says(name, "table")
    made = shop.listed(f"/v1/events?seller={shop.seller}", shop.seller_token)[0]
    assert (made["name"], made["description"], made["opens_at"][:11]) == (name, "Leaves.\nMany.", "2090-01-31T")
    console.shot("console-events")
    console.press(f"[data-event='{made['id']}']")
    console.write(console.field("name"), name + " II")
    console.press("#event-save")
    console.says(f"The event has been changed: {name} II", "main > .notice.good")
    changed = shop.listed(f"/v1/events?seller={shop.seller}", shop.seller_token)
    assert [{key: one[key] for key in made if key not in ("name", "now")} for one in changed] == [{key: made[key] for key in made if key not in ("name", "now")}]
    console.press(f"[data-event='{made['id']}']")
    console.write(console.field("description"), "Fewer.")
    console.press("#event-save")
    eventually(lambda: shop.listed(f"/v1/events?seller={shop.seller}", shop.seller_token)[0]["description"] == "Fewer.")

    def description():
        console.press(f"[data-event='{made['id']}']")
        return console.one(console.field("description")).get_attribute("value")
    eventually(lambda: description() == "Fewer.")  # once the list has come again
    console.open("/console/sales/new")
    console.says(name + " II", console.field("event"))
    console.write(console.field("name"), mint_name("leaf"))
    console.choose(console.field("event"), made["id"])
    console.press("#save")
    console.is_sale("open")
    assert shop.show(console.sale_id())["event"] == made["id"]


def test_a_seller_has_a_webhook_and_sends_again_what_failed(console, shop):
    with Receiver(lambda message, tries: 200) as receiver:
        console.enter(shop.seller).open("/console")
        console.press("nav a[href='/console/hook']")
        console.says("There is no webhook yet.")
        console.write("[name='url']", receiver.url())
        console.press("#hook-save")
        secret = eventually(lambda: console.text("#secret"))
        console.press("#hook-test")
        eventually(lambda: len(receiver.taken) == 1)
        receiver.taken[0].check(secret)
        console.press("#hook-rotate")
        fresh = eventually(lambda: console.text("#secret").replace(secret, ""))
        receiver.plan = lambda message, tries: 500
        shop.win(shop.sale(stock=3)["id"], "ann")
        eventually(lambda: shop.client.get("/v1/webhook", shop.seller_token).json()["failed"] == 1, 20)
        console.reload()
        console.says("order.won")
        assert not console.all("#secret"), "a secret is shown once"
        receiver.plan = lambda message, tries: 200
        console.press("[data-again='all']")
        console.says("1 on their way again.", "main > .notice")
        eventually(lambda: len(receiver.taken) == 2)
        receiver.taken[1].check(fresh, secret)  # whoever still checks with the old one has a day
        console.says("Nothing has failed.")
        console.press("#hook-remove")
        console.press("dialog [type='submit']")
        console.says("The webhook is gone.", "main > .notice")
        assert shop.client.get("/v1/webhook", shop.seller_token).code == "NO_SUCH_WEBHOOK"


def test_what_cannot_be_is_said_at_its_field(console, shop):
    console.enter(shop.seller).open("/console/sales/new")
    console.write(console.field("name"), mint_name("x"))
    console.write(console.field("currency"), "EUR")
    for name, value, good in (("stock", "0", "1"), ("stock", "1.5", "1"), ("stock", "two", "1"), ("stock", "1000000001", "1"), ("price", "1.234", ""), ("price", "-1", ""),
                              ("pay_within_s", "0", ""), ("name", "", "x")):
        console.choose(console.field(name), value)
        console.press("#save")
        wrong = console.one(f"{console.field(name)}[aria-invalid='true']")
        assert console.driver.switch_to.active_element == wrong, (name, value)
        assert console.text("#" + wrong.get_attribute("aria-describedby").split()[-1]), "nothing says what is wrong"
        console.choose(console.field(name), good)
    assert shop.client.get(f"/v1/sales?seller={shop.seller}").json()["items"] == []


def test_what_the_server_objects_to_is_said(console, shop):
    taken = shop.sale()["name"]
    console.enter(shop.seller).open("/console/sales/new")
    console.write(console.field("name"), taken)
    console.press("#save")
    console.says("You have a sale of this name already.", "form .notice")
    sale = shop.sale(stock=3)["id"]
    console.open(f"/console/sales/{sale}")
    console.press("#restock")
    console.write("dialog [name='add']", "-4")
    console.press("dialog [type='submit']")
    console.says("So many are not left.", "main > .notice")
    assert shop.counts(sale)[0] == 3


def test_with_the_keyboard_alone(console, shop):
    console.enter(shop.seller).open("/console")
    console.one("#new")
    console.tab_to("#new")
    console.keys(Keys.ENTER)
    console.one(console.field("name"))
    console.tab_to(console.field("name"))
    name = mint_name("keys")
    console.keys(name)
    console.tab_to(console.field("stock"))
    console.keys("7", Keys.ENTER)
    console.is_sale("open")
    sale = console.sale_id()
    assert shop.counts(sale)[0] == 7 and shop.show(sale)["name"] == name
    console.tab_to("#restock")
    console.keys(Keys.ENTER)
    console.one("dialog [name='add']")
    console.keys(Keys.ESCAPE)
    eventually(lambda: not console.all("dialog"))
    assert console.driver.switch_to.active_element.get_attribute("id") == "restock", "the focus is where it was"
    console.keys(Keys.ENTER)
    console.one("dialog [name='add']")
    console.keys("3", Keys.ENTER)
    eventually(lambda: shop.counts(sale)[0] == 10)
    console.tab_to("#plot-rates summary", 60)
    console.keys(Keys.ENTER)
    console.one("#plot-rates details table")
    console.open("/console")
    console.one(f"table a[href$='/{sale}']")
    console.tab_to(f"table a[href$='/{sale}']")
    shop.win(sale, "ann")
    console.says("9", "tbody")  # the list is drawn anew meanwhile
    console.keys(Keys.ENTER)
    console.is_linked("live")


def test_an_export_goes_on_where_the_shop_was_busy(console, shop, tmp_path):
    sale = shop.sale(stock=3)["id"]
    shop.win(sale, "ann")
    console.meddle(BUSY, "limit=200", "1").enter(shop.seller).open(f"/console/sales/{sale}")

    def refused():
        console.waits(lambda: console.driver.execute_script("return window.held !== null"), 10, "request")
        console.driver.execute_script("window.letGo()")
    assert [row["buyer"] for row in exported(console, tmp_path, refused)] == ["ann"]
    console.is_linked("live")
    console.says("1 order in all", "#tile-sold")


def test_who_has_no_business_here_is_told_so(console, shop):
    console.enter(mint_name("buyer"), "customer").open("/console")
    console.says("You are logged in as a buyer")
    other = shop.sale()["id"]
    console.enter(mint_name("seller"), "seller").open("/console/nodes")
    console.says("not for your role")
    console.open(f"/console/sales/{other}")
    console.says("There is no such sale of yours.")
    console.open("/console/no-such-place")
    console.says("Sales", "h1")
