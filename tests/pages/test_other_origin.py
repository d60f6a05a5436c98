"""Another site, in the browser of somebody who is logged in here: it reads nothing, does nothing in their name, and frames nothing."""

import http.server
import threading

import pytest
from harness import eventually, mint_name

PAGE = b"<!doctype html><title>elsewhere</title><p>elsewhere</p>"


class Elsewhere(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


@pytest.fixture
def elsewhere():
    """The address of the other site."""
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{site.server_address[1]}/"
    site.shutdown()
    site.server_close()


def tries(page, script, *arguments):
    """What came of it: a word, or the name of the error."""
    return page.driver.execute_async_script(
        "const done = arguments[arguments.length - 1]; (async (...given) => { %s })(...arguments).then(done, (error) => done(error.name))" % script, *arguments)


def test_another_site_reads_nothing_and_does_nothing(page, shop, elsewhere):
    sale, buyer = shop.sale(stock=3)["id"], mint_name("buyer")
    grabs = f"{page.base}/v1/sales/{sale}/grabs"
    page.enter(buyer).open(f"/s/{sale}")
    page.comes_to("grab")
    page.driver.get(elsewhere)
    for path in ("/v1/orders", "/v1/sales", "/pages.json", "/"):
        assert tries(page, "await fetch(given[0], { credentials: 'include' }); return 'read'", page.base + path) == "TypeError", path
    for headers in ({"Content-Type": "application/json"}, {"Authorization": f"Bearer {shop.buyer(buyer)}"}, {"Idempotency-Key": "x"}):
        assert tries(page, "await fetch(given[0], { method: 'POST', headers: given[1], body: '{}' }); return 'told'", grabs, headers) == "TypeError", headers
    # What a browser sends without asking arrives, and has no login.
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        blind = "return (await fetch(given[0], { method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'Content-Type': given[1] }, body: '{\"units\":1}' })).type"
        assert tries(page, blind, grabs, kind) == "opaque"
    page.driver.execute_script("const form = document.createElement('form'); form.method = 'post'; form.action = arguments[0]; document.body.append(form); form.submit()", grabs)
    eventually(lambda: page.driver.current_url == grabs)
    assert shop.counts(sale) == (3, 3, 0, 0) and shop.listed("/v1/orders", shop.buyer(buyer)) == []
    page.driver.get_log("browser")  # it has complained about all of this


def test_another_site_frames_nothing_and_looks_into_no_window(page, elsewhere):
    page.enter(mint_name("buyer"))
    page.driver.get(elsewhere)
    for path in ("/", "/console", "/login"):
        page.driver.execute_script("const frame = document.createElement('iframe'); frame.src = arguments[0]; document.body.replaceChildren(frame)", page.base + path)
        frame = page.one("iframe")
        page.driver.switch_to.frame(frame)
        eventually(lambda: page.driver.execute_script("return location.href").startswith("chrome-error:"))
        page.driver.switch_to.default_content()
    # Until it is there it is an empty page of this site.
    opened = tries(page, "const other = window.open(given[0]);"
                         "for (let i = 0; i < 600 && other !== null && !other.closed; i++) {"
                         " other.localStorage; await new Promise((done) => setTimeout(done, 100)); }"
                         "return other === null || other.closed ? 'apart' : 'open'", page.base + "/")
    assert opened in ("apart", "SecurityError")
    first = page.driver.current_window_handle
    for other in page.driver.window_handles:
        if other != first:
            page.driver.switch_to.window(other)
            page.driver.close()
    page.driver.switch_to.window(first)
    page.driver.get_log("browser")
