"""A page watches while a crowd buys: what it shows in the end is what the ledger has."""

import collections
import threading
import time

from browser import PHONE
from console import Console
from harness import Shop, crowd, eventually, mint_name, request_bytes
from meddling import COUNT
from ports import free_port


def test_numbers_on_the_page_are_those_of_the_ledger(browser, own_server):
    server = own_server("--limits", "user_grab_per_s=1,user_grab_burst=3")
    shop, console = Shop(server), Console(browser, server)
    sale = shop.sale(stock=2000, units_per_grab_max=2, grabs_per_buyer_max=2, pay_within_s=600, price=100, currency="CNY")["id"]
    blocked = mint_name("blocked")
    assert shop.client.post("/v1/blocks", {"entry": f"user {blocked}"}, shop.admin_token).status == 201
    console.enter(shop.seller).open(f"/console/sales/{sale}")
    console.is_linked("live")
    for plot in ("rates", "stock", "latency"):
        console.press(f"#plot-{plot} summary")
    answers, estimates, seconds, reasons = [], [], collections.Counter(), {"WON", "OVER_LIMIT", "BLOCKED", "RATE_LIMITED"}

    def buy():
        for part in range(6):
            people = [blocked if i % 40 == 0 else f"buyer-{part * 60 + i % 70}" for i in range(150)]
            requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", {"units": 3 if i % 25 == 7 else 1 + i % 2}, shop.buyer(name)) for i, name in enumerate(people)]
            answers.extend(crowd(server, requests, 20))
            time.sleep(0.5)

    def look():
        """Whether it has said when it will be sold out, and how many a second it was for each reason."""
        estimates.append(console.number("sold_out_in"))
        seconds.update(console.a_second())
        return any(estimates) and reasons <= set(+seconds)
    buying = threading.Thread(target=buy)
    buying.start()
    while buying.is_alive():
        look()
        time.sleep(0.1)
    buying.join()
    eventually(look)  # a page that is slow says it later
    eventually(lambda: any("–" not in row for row in console.curve("latency")))
    told = collections.Counter("WON" if answer.status == 201 else answer.code for answer in answers)
    assert reasons <= set(told)
    eventually(lambda: console.verdicts() == dict(told))
    rows = eventually(lambda: next((found for found in [server.ledger().orders(sale)] if len(found) >= told["WON"]), None))
    units = sum(row["units"] for row in rows)
    assert len(rows) == told["WON"]
    eventually(lambda: (console.number("available"), console.number("held"), console.number("sold")) == (2000 - units, units, 0))
    assert shop.counts(sale) == (2000, 2000 - units, units, 0)
    assert console.number("p50") > 0 and console.number("p99") >= console.number("p50")
    assert len(console.curve("rates")) > 4 and sum(int(wins) for _, _, _, wins in console.curve("rates")) <= told["WON"]
    assert eventually(lambda: console.curve("stock")[0][1] == f"{2000 - units:,}") and len(console.curve("stock")) > 4
    assert console.driver.execute_script("return [...document.querySelectorAll('.plot .curve')].every((curve) => curve.getAttribute('d').includes('L'))")
    console.screen((1200, 1900))
    console.shot("console-live")
    console.scheme("dark")
    console.shot("console-live-dark")
    console.scheme("light")
    console.screen(PHONE)
    assert console.fits()
    console.shot("console-live-phone")
    assert shop.act(sale, "close").status == 200
    console.is_sale("closed")
    console.is_linked("live")  # those who have won may still pay, so it goes on
    console.finish()
    shop.close()


def test_the_estimate_goes_by_the_last_ten_seconds(console, shop):
    console.enter(shop.seller).open("/console")
    console.one("#new")

    def estimate(*points):
        """Of (second, left)."""
        return console.driver.execute_async_script(
            "const [points, done] = arguments;"
            "const rates = [...document.querySelectorAll('link[rel=modulepreload]')].map((link) => link.href).find((name) => name.includes('console-rates'));"
            "import(rates).then(({ soldOutIn }) => done(soldOutIn(points.map(([s, available]) => ({ at: s * 1000, values: { available } })))), (error) => done(String(error)))", points)
    assert estimate((0, 1000), (5, 500)) == 5
    assert estimate((0, 90000), (20, 1000), (25, 900), (30, 800)) == 40, "what was long ago does not count"
    assert estimate((0, 10), (5, 10)) is None and estimate((0, 10), (5, 30)) is None and estimate((0, 5), (3, 0)) is None and estimate((0, 5)) is None and estimate() is None


def test_a_page_that_nobody_looks_at_lets_go_of_its_stream(console, shop):
    sale = shop.sale(stock=9, grabs_per_buyer_max=9)["id"]

    def watchers():
        return shop.client.get("/v1/nodes", shop.admin_token).json()["items"][0]["watchers"]
    console.meddle(COUNT).enter(shop.seller).open(f"/console/sales/{sale}")
    console.is_linked("live")
    eventually(lambda: watchers() == 1)
    with console.hidden():
        eventually(lambda: watchers() == 0)
        asked = console.asked()
        for _ in range(3):
            shop.win(sale, "ann")
        time.sleep(3)  # longer than it waits between two looks
        assert console.asked() == asked and console.number("available") == 9 and watchers() == 0
        console.reload()
        console.says("Sale ", ".facts")
        time.sleep(1)
        assert watchers() == 0, "nor does one begin that is not looked at"
    console.is_linked("live")
    eventually(lambda: watchers() == 1 and console.number("available") == 6)
    console.open("/console")
    eventually(lambda: watchers() == 0)


def test_sold_out_and_over(browser, own_server):
    server = own_server()
    shop, console = Shop(server), Console(browser, server)
    sale = shop.sale(stock=50)["id"]
    console.enter(shop.seller).open(f"/console/sales/{sale}")
    console.is_linked("live")
    crowd(server, [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i}")) for i in range(120)], 10)
    console.is_sale("sold_out")
    eventually(lambda: console.verdicts() == {"WON": 50, "SOLD_OUT": 70})
    seen = shop.client.get(f"/v1/sales/{sale}/stats", shop.seller_token).json()
    eventually(lambda: console.number("time_to_sell_out") == seen["time_to_sell_out_ms"])
    assert shop.act(sale, "close").status == 200
    console.is_sale("closed")
    console.is_linked("over")
    eventually(lambda: console.number("sold") == 50 and console.verdicts() == {"WON": 50, "SOLD_OUT": 70})
    console.reload()
    console.is_sale("closed")
    console.is_linked("over")
    assert console.number("sold") == 50
    console.finish()
    shop.close()


def test_a_server_that_was_away_is_watched_again(browser, own_server):
    server = own_server(port=free_port())
    shop, console = Shop(server), Console(browser, server)
    sale = shop.sale(stock=5)["id"]
    console.enter(shop.seller).open(f"/console/sales/{sale}")
    console.is_linked("live")
    server.stop()
    console.is_linked("lost")
    console.press("nav a[href='/console/hook']")
    console.says("The server does not answer.")
    shop.client.close()
    server.start()
    console.press("#again")
    console.says("There is no webhook yet.")
    console.driver.back()
    Shop(server, shop.seller).win(sale, "ann")
    console.is_linked("live")
    eventually(lambda: console.number("available") == 4)
    console.finish()


def test_logging_out_elsewhere_ends_it(browser, own_server):
    server = own_server()
    shop, console = Shop(server), Console(browser, server)
    sale = shop.sale(stock=5)["id"]
    console.enter(shop.seller).open(f"/console/sales/{sale}")
    console.is_linked("live")
    token = console.token()
    assert shop.client.post("/v1/logout", None, token).status == 204
    console.one("#register", 20)
    console.finish()
    shop.close()
