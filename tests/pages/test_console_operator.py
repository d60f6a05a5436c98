"""An operator's way: nodes, limits that take effect, the block list, messages sent again, the log."""

import json

import pytest
from harness import Shop, eventually, mint_name, problem
from receiver import FAILING_SOON, Receiver
from selenium.webdriver.common.keys import Keys


@pytest.fixture(scope="module")
def server_flags():
    return FAILING_SOON


@pytest.fixture
def console(console):
    return console.enter(mint_name("operator"), "admin")


def slider(name):
    return f"[data-limit='{name}']"


def test_a_slider_takes_effect_and_can_be_taken_back(console, shop):
    sale = shop.sale(stock=50, grabs_per_buyer_max=50)["id"]
    console.open("/console/limits")
    before = console.one(slider("user_grab_per_s")).get_attribute("aria-valuetext")
    assert before == "1,000"
    for name in ("user_grab_per_s", "user_grab_burst"):
        console.one(slider(name)).send_keys(Keys.HOME)
        console.says(f"{name} is 1 now.", "main > .notice")
        assert shop.client.get("/v1/limits", shop.admin_token).json()[name] == 1
    buyer = mint_name("buyer")
    shop.win(sale, buyer)
    refused = eventually(lambda: next((one for one in [shop.grab(sale, buyer)] if one.status != 201), None))  # one a second may pass
    problem(refused, 429, "RATE_LIMITED")
    console.one("[name='user_grab_per_s']").send_keys(Keys.CONTROL + "a" + Keys.NULL, "2500", Keys.ENTER)
    console.says("user_grab_per_s is 2,500 now.", "main > .notice")
    assert shop.client.get("/v1/limits", shop.admin_token).json()["user_grab_per_s"] == 2500
    console.one(slider("user_grab_per_s")).send_keys(Keys.END)
    eventually(lambda: shop.client.get("/v1/limits", shop.admin_token).json()["user_grab_per_s"] == 0)
    assert console.one(slider("user_grab_per_s")).get_attribute("aria-valuetext") == "no limit"
    shop.win(sale, buyer)
    shop.win(sale, buyer)
    console.one("[name='ip_grab_burst']").send_keys(Keys.CONTROL + "a" + Keys.NULL, "0", Keys.ENTER)
    console.says("ip_grab_burst", "main > .notice.bad")
    eventually(lambda: console.one("[name='ip_grab_burst']").get_attribute("value") == "100000")
    console.press("#undo")
    console.says("The limits are what they were.", "main > .notice")
    limits = shop.client.get("/v1/limits", shop.admin_token).json()
    assert (limits["user_grab_per_s"], limits["user_grab_burst"]) == (1000, 10000)


def test_whoever_is_blocked_is_refused_until_they_are_not(console, shop):
    sale, buyer = shop.sale(stock=50, grabs_per_buyer_max=50)["id"], mint_name("<b>bad</b>")
    shop.win(sale, buyer)
    console.open("/console/blocks")
    console.write("form [name='whom']", buyer)
    console.press("#block")
    console.says(f"Blocked: user {buyer}", "main > .notice")
    console.says(buyer, "table")
    problem(shop.grab(sale, buyer), 403, "BLOCKED")
    console.choose("form [name='kind']", "ip")
    console.write("form [name='whom']", "10.1.2.3/8")
    console.press("#block")
    console.press("dialog [type='submit']")
    console.says("Something in it is not as it should be", "main > .notice.bad")
    console.press(f"[aria-label='Unblock user {buyer}']")
    console.says("No longer blocked", "main > .notice")
    console.says("Nobody is blocked.")
    shop.win(sale, buyer)


def test_operators_do_not_block_themselves_by_a_slip(console, shop):
    def blocked():
        return [one["entry"] for one in shop.listed("/v1/blocks", shop.admin_token)]
    console.open("/console/blocks")
    me = console.one("#who").text
    console.write("form [name='whom']", f" {me} ")
    console.press("#block")
    console.says("This is you", ".field .wrong:not([hidden])")
    assert f"user {me}" not in blocked()
    console.write("form [name='whom']", "192.0.2.7")
    console.choose("form [name='kind']", "ip")
    assert not console.seen(".field .wrong:not([hidden])")
    console.press("#block")
    console.says("If you come from there yourself", "dialog")
    console.press("dialog .quiet")
    eventually(lambda: not console.all("dialog"))
    assert "ip 192.0.2.7" not in blocked()
    console.press("#block")
    console.press("dialog [type='submit']")
    console.says("Blocked: ip 192.0.2.7", "main > .notice")
    assert "ip 192.0.2.7" in blocked()
    console.press("[aria-label='Unblock ip 192.0.2.7']")
    console.says("No longer blocked", "main > .notice")


def test_failed_messages_are_sent_again(console, shop):
    with Receiver(lambda message, tries: 500) as receiver:
        answer = shop.client.request("PUT", "/v1/webhook", {"url": receiver.url()}, shop.seller_token)
        assert answer.status == 200, answer
        sale = shop.sale(stock=50)["id"]
        for i in range(3):
            shop.win(sale, f"buyer-{i}")
        console.open("/console/hooks")
        look = f"[data-seller='{shop.seller}']"
        eventually(lambda: "3" in console.text("tbody .chip.bad"), 20)
        console.says("HTTP status 500", "table")
        assert "whsec" not in console.driver.page_source
        console.press(look)
        console.says("order.won", "#deliveries")
        console.shot("console-webhooks")
        receiver.plan = lambda message, tries: 200
        one = console.one("#deliveries td [data-again]").get_attribute("data-again")
        console.press(f"[data-again='{one}']")
        console.says("1 on their way again.", "main > .notice")
        eventually(lambda: len(receiver.taken) == 1)
        console.press("[data-again='all']")
        console.says("2 on their way again.", "main > .notice")
        eventually(lambda: len(receiver.taken) == 3)
        console.says("Nothing has failed.", "#deliveries")
        eventually(lambda: not console.all("tbody .chip.bad"))


def test_nodes_and_log(console, shop):
    sale = shop.sale(stock=2)["id"]
    shop.win(sale, "ann")
    console.open("/console/nodes")
    console.says("Ready", ".node")
    console.says(f"127.0.0.1:{shop.server.port}", ".node")
    assert console.all(".node[data-state='ready']")
    console.says("in all", ".node")
    facts = {"connections", "watchers", "line_waiting", "memory", "sales", "uptime", "journal_lag", "clerk_lag", "webhooks", "publish_lag", "shed_level", "breakers"}
    assert console.facts("").keys() == facts
    eventually(lambda: console.facts("")["shed_level"] == "nothing" and not console.all(".facts-of .bad:not([data-fact='webhooks'])"))
    console.shot("console-nodes")
    console.open("/console/log")
    console.one(".log li")
    assert shop.client.post("/v1/blocks", {"entry": "ip 192.0.2.1"}, shop.admin_token).status == 201
    console.says("the block list", ".log", 15)
    console.choose("[name='level']", "error")
    eventually(lambda: not console.all(".log li[data-level='info']"))
    assert shop.client.request("DELETE", "/v1/blocks/ip%20192.0.2.1", None, shop.admin_token).status == 204


def test_what_is_not_well_is_seen_at_once(console, shop):
    """Of several machines, as they tell of themselves; what the server itself tells stands in tests/e2e/test_nodes.py."""
    one = shop.client.get("/v1/nodes", shop.admin_token).json()["items"][0]
    calm = dict.fromkeys(("journal_lag", "clerk_lag", "clerk_failing", "publish_lag", "publish_failing", "shed_level", "breakers_open"), 0)
    well = {**one, **calm, "node": 1, "redis_latency_us": 420, "unfiled": 3, "unfiled_oldest_s": 0, "errands": 0, "rebuilds": 2}
    ill = {**well, "node": 2, "here": False, "state": "no_redis", "address": "<b>10.0.0.2:80</b>", "journal_lag": 20000, "clerk_lag": 12, "clerk_failing": 1,
           "webhooks_failed": 7, "publish_failing": 1, "shed_level": 2, "breakers_open": 1, "redis_latency_us": 2500000, "unfiled_oldest_s": 60, "errands": 5000}
    gone = {**well, "node": 3, "here": False, "state": "silent"}
    answer = json.dumps({"gate": "redis", "items": [gone, ill, well], "now": one["heard_at"]})
    with console.injected("{ const real = window.fetch; window.fetch = (path, more) => (path === '/v1/nodes' ? Promise.resolve(Response.json(%s)) : real(path, more)); }" % answer):
        console.open("/console/nodes")
        console.one(".node[data-node='3'][data-state='silent']")
    assert console.marks(".node", "data-state") == ["ready", "no_redis", "silent"]
    assert console.facts("2")["redis_latency"] == "2.5 s" and console.facts("1")["unfiled"] == "3" and console.facts("2")["shed_level"] == "all but grabs"
    bad = set(console.marks(".node[data-node='2'] .facts-of .bad", "data-fact"))
    assert bad == {"journal_lag", "clerk_lag", "webhooks", "publish_lag", "shed_level", "breakers", "redis_latency", "unfiled", "errands"}
    assert not console.all(".node[data-node='1'] .bad:not([data-fact='webhooks'])")
    console.says("<b>10.0.0.2:80</b>", ".node[data-node='2']")
    console.shot("console-nodes-ill")


def test_every_sale_is_the_operators_to_see(console, shop):
    other = Shop(shop.server)
    mine, theirs = shop.sale(stock=2), other.sale(stock=3)
    console.open("/console")
    console.says(mine["name"], "table")
    console.says(theirs["name"], "table")
    console.write("input[type='search']", other.seller)
    eventually(lambda: mine["name"] not in console.text("table"))
    console.press("table a")
    console.is_sale("open")
    console.is_linked("live")
    console.says(other.seller, ".facts")
    console.press("#pause")
    console.is_sale("paused")
    assert other.show(theirs["id"])["state"] == "paused"
    other.close()
