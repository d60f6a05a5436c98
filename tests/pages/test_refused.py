"""Whoever comes when the shop lets nobody in sees what to do, and is in by themselves as soon as it does."""

import base64
import os
import signal

from access import complaints
from browser import PHONE, Page
from harness import Shop, eventually
from selenium.common.exceptions import WebDriverException

TIGHT = {"ip_query_per_s": 1, "ip_query_burst": 1}
BROWSER = {"Accept": "text/html,*/*;q=0.8"}


def readable(page, axe, name, status):
    """By day, by night, on a phone and by a screen reader. What is looked at is what was answered, without the header that makes it come again."""
    with page.server.connect() as client:
        answer = eventually(lambda: next((one for one in [client.get("/", headers=BROWSER)] if one.status == status), None))
    page.driver.get("data:text/html;base64," + base64.b64encode(answer.body).decode())
    page.shot(f"refused-{name}")
    for scheme in ("dark", "light"):
        page.scheme(scheme, calm=True)
        assert not complaints(page, axe)
    page.screen(PHONE)
    page.shot(f"refused-{name}-phone")
    assert page.fits()


def comes(page, path, words):
    """Asked for until it is refused; and the policy lets its style through."""
    def refused():
        client.get("/v1/sales")  # what may be asked for in this second
        try:
            text, corner = page.open(path).driver.execute_script(
                "const box = document.querySelector('main > section'); return [document.body.innerText, box && getComputedStyle(box).borderTopLeftRadius]")
        except WebDriverException:
            return False  # it is coming again by itself
        return all(word in text for word in words) and corner
    with page.server.connect() as client:
        assert eventually(refused) == "14px"


def test_too_fast_and_then_in(browser, own_server, axe):
    server = own_server("--limits", ",".join(f"{name}={value}" for name, value in TIGHT.items()))
    shop, page = Shop(server), Page(browser, server)
    sale = shop.sale(stock=3)["id"]
    readable(page, axe, "slow", 429)
    comes(page, f"/s/{sale}", ["A little slower", "请稍慢一点"])
    loosened = shop.client.request("PUT", "/v1/limits", {name: 100000 for name in TIGHT}, shop.admin_token)
    assert loosened.status == 200, loosened
    page.comes_to("login", seconds=30)  # nobody has touched it
    page.finish()
    shop.close()


def test_full_and_then_in(browser, own_server, axe, tmp_path):
    conf = tmp_path / "stampede.conf"
    conf.write_text("memory_mb_max = 1\n")
    server = own_server("--config", conf)
    page = Page(browser, server)
    readable(page, axe, "busy", 503)
    comes(page, "/console", ["Many people are here at once", "现在人很多"])
    conf.write_text("")
    os.kill(server.pid, signal.SIGHUP)
    page.says("Log in to the console", seconds=30)
    page.finish()


def test_blocked(browser, own_server, axe):
    server = own_server()
    shop, page = Shop(server), Page(browser, server)
    assert shop.client.post("/v1/blocks", {"entry": "ip 127.0.0.1"}, shop.admin_token).status == 201
    comes(page, "/", ["You cannot enter here", "无法进入"])
    readable(page, axe, "blocked", 403)
    page.finish()
    shop.close()
