"""The pages as a browser's network sees them: what is kept, what is compressed, what may run. What they do stands in tests/pages."""

import base64
import gzip
import hashlib
import re

import pytest
from harness import Shop, eventually, mint_name, problem

DOCUMENTS = ["/", "/s/1", "/s/no%20such", "/orders", "/pay/1", "/login", "/register", "/console", "/console/", "/console/sales", "/console/sales/1", "/orders/"]
PAGE_BYTES_MAX = 150 * 1024
GZIP = {"Accept-Encoding": "gzip, deflate, br"}
REFERENCE = re.compile(r"""["'(](/assets/[\w.-]+)["')]""")


@pytest.fixture(scope="module")
def server_flags():
    return ["--demo-payments", "on"]


@pytest.fixture
def client(server):
    with server.connect() as mine:
        yield mine


def loaded(client, path):
    """Everything that a browser may load for a page: {path: answer}, compressed."""
    seen, todo = {}, [path]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen[at] = client.get(at, headers=GZIP)
        assert seen[at].status == 200, (at, seen[at])
        todo += REFERENCE.findall(plain(seen[at]))
    return seen


def plain(answer):
    packed = answer.headers.get("content-encoding") == "gzip"
    return (gzip.decompress(answer.body) if packed else answer.body).decode()


def policy(answer):
    rows = [part.split() for part in answer.headers["content-security-policy"].split(";")]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_lets_nothing_in_from_elsewhere(client, path):
    answer = client.get(path)
    assert answer.status == 200 and answer.headers["content-type"] == "text/html; charset=utf-8"
    rules = policy(answer)
    assert rules["default-src"] == ["'none'"] and rules["script-src"] == rules["style-src"] == rules["connect-src"] == ["'self'"]
    assert rules["frame-ancestors"] == rules["base-uri"] == ["'none'"] and rules["form-action"] == ["'self'"]
    assert rules["require-trusted-types-for"] == ["'script'"]
    assert not any("unsafe" in word or "*" in word or "http" in word for words in rules.values() for word in words)
    assert answer.headers["x-frame-options"] == "DENY" and answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/console"])
def test_a_document_has_no_script_or_style_of_its_own(client, path):
    text = client.get(path).body.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", text)
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", text), "nothing comes from elsewhere"


@pytest.mark.parametrize("path", ["/", "/console"])
def test_a_page_load_is_small_and_all_of_it_is_there(client, path):
    answers = loaded(client, path)
    assert len(answers) > 2
    size = sum(len(answer.body) + 700 for answer in answers.values())  # with the heads
    assert size < PAGE_BYTES_MAX, {at: len(answer.body) for at, answer in answers.items()}


def test_only_the_console_loads_what_only_it_needs(client):
    assert not any("chart" in path for path in loaded(client, "/"))


def test_an_asset_is_kept_for_ever_and_a_document_is_not(client):
    for path, answer in loaded(client, "/").items():
        kept = answer.headers["cache-control"]
        if path.startswith("/assets/"):
            assert kept == "public, max-age=31536000, immutable" and answer.headers["x-content-type-options"] == "nosniff"
            assert re.fullmatch(r"/assets/[\w-]+\.[0-9a-f]{16}\.(js|css|svg)", path), path
        else:
            assert kept == "no-cache"


def test_types_are_those_a_browser_runs(client):
    types = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
    for path, answer in loaded(client, "/").items():
        if path.startswith("/assets/"):
            assert answer.headers["content-type"] == types[path[path.rindex("."):]]


def test_what_a_browser_has_already_is_not_sent_again(client):
    for path in loaded(client, "/"):
        first = client.get(path)
        tag = first.headers["etag"]
        for shown in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
            again = client.get(path, headers={**GZIP, "If-None-Match": shown})
            assert again.status == 304 and again.body == b"" and again.headers["etag"] == tag, (path, shown, again)
            assert again.headers["cache-control"] == first.headers["cache-control"] and "content-encoding" not in again.headers
        assert client.get(path, headers={"If-None-Match": '"other"'}).status == 200


@pytest.mark.parametrize("wish,packed", [("gzip", True), ("br, gzip;q=0.1", True), ("*", True), ("gzip;q=0", False), ("br", False), ("identity", False), (None, False)])
def test_compression_is_for_those_who_read_it(client, wish, packed):
    answer = client.get("/", headers={"Accept-Encoding": wish})
    assert answer.status == 200 and answer.headers["vary"] == "Accept-Encoding"
    assert (answer.headers.get("content-encoding") == "gzip") == packed
    assert plain(answer) == client.get("/").body.decode()


def test_a_list_of_codings_may_come_twice(server):
    with server.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nAccept-Encoding: br\r\n\r\n")
        assert client.receive().headers["content-encoding"] == "gzip"


def test_head_is_the_answer_without_its_body(client):
    for path in ("/", next(path for path in loaded(client, "/") if path.startswith("/assets/"))):
        head, whole = client.request("HEAD", path), client.get(path)
        assert head.status == 200 and int(head.headers["content-length"]) == len(whole.body) and head.headers["etag"] == whole.headers["etag"]


@pytest.mark.parametrize("path", ["/assets/x", "/assets/store-main.js", "/assets/..%2f..%2fetc%2fpasswd", "/assets/store%2findex.html", "/assets/", "/assets", "/store/index.html", "/index.html"])
def test_what_is_not_there_is_a_problem(client, path):
    problem(client.get(path), 404, "NO_SUCH_ROUTE")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_page_is_only_looked_at(client, method):
    problem(client.request(method, "/"), 405, "METHOD_NOT_ALLOWED")


def test_the_terms_of_the_server(client, own_server):
    answer = client.get("/pages.json")
    assert answer.status == 200 and set(answer.json()) == {"version", "demo_payments", "now"} and answer.json()["demo_payments"] is True
    assert answer.headers["cache-control"] == "no-store", "it tells the time"
    with own_server().connect() as other:
        assert other.get("/pages.json").json()["demo_payments"] is False


def test_pages_can_be_off_and_are_then_not_there(own_server):
    with own_server("--pages", "off").connect() as client:
        for path in [*DOCUMENTS, "/pages.json", "/assets/x"]:
            problem(client.get(path), 404, "NO_SUCH_ROUTE")


@pytest.mark.parametrize("path", ["/console/", "/orders/", "/s/1/"])
def test_a_slash_at_the_end_of_a_page_is_no_other_page(client, path):
    assert client.get(path).body == client.get(path.rstrip("/")).body


# Who is turned away before a page: with a browser by a page, with anything else by what the interface tells.

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}


def turned_away(client, path, status, code):
    """A browser's answer, which is a page; all others', and those of other addresses, are problems."""
    page = client.get(path, headers=BROWSER)
    assert page.status == status and page.headers["content-type"] == "text/html; charset=utf-8", page
    assert page.headers["cache-control"] == "no-store" and page.headers["x-frame-options"] == "DENY" and page.headers["x-content-type-options"] == "nosniff"
    text = page.body.decode()
    style = base64.b64encode(hashlib.sha256(re.search("<style>(.*?)</style>", text, re.DOTALL).group(1).encode()).digest()).decode()
    rules = policy(page)
    assert rules["default-src"] == rules["base-uri"] == rules["frame-ancestors"] == rules["form-action"] == ["'none'"] and rules["style-src"] == [f"'sha256-{style}'"]
    assert "script-src" not in rules and not re.search(r"<script|\sstyle=|\son\w+=|/assets/|https?:", text), "it loads and runs nothing"
    assert '<html lang="en">' in text and 'lang="zh-Hans"' in text
    packed = client.get(path, headers={**BROWSER, **GZIP})
    assert packed.status == status and packed.headers["content-encoding"] == "gzip" and plain(packed) == text
    head = client.request("HEAD", path, headers=BROWSER)
    assert head.status == status and head.body == b"" and int(head.headers["content-length"]) == len(page.body)
    for wish in ("*/*", "application/json", "text/html;q=0", None):
        problem(client.get(path, headers={"Accept": wish}), status, code)
    for other in ("/v1/sales", "/pages.json", "/assets/x"):
        problem(client.get(other, headers=BROWSER), status, code)
    return page


@pytest.mark.parametrize("path", ["/", "/s/1", "/console/sales/1"])
def test_who_comes_too_fast_with_a_browser_sees_a_page_that_comes_again(own_server, path):
    with own_server("--limits", "ip_query_per_s=1,ip_query_burst=1,global_query_per_s=1,global_query_burst=1").connect() as client:
        page = eventually(lambda: next((answer for answer in [client.get(path, headers=BROWSER)] if answer.status == 429), None))
        assert page.headers["content-type"] == "text/html; charset=utf-8" and "A little slower" in page.body.decode()
        assert int(page.headers["refresh"]) > int(page.headers["retry-after"]) >= 1 and "ratelimit" in page.headers
        eventually(lambda: client.get(path).code == "RATE_LIMITED")


def test_who_is_blocked_sees_a_page_that_does_not_come_again(own_server):
    server = own_server()
    with server.connect() as client:
        assert client.get("/", headers=BROWSER).status == 200
        assert client.post("/v1/blocks", {"entry": "ip 127.0.0.1"}, server.token("root", "admin")).status == 201
        for path in DOCUMENTS:
            page = turned_away(client, path, 403, "BLOCKED")
            assert "refresh" not in page.headers and "retry-after" not in page.headers


def test_a_shop_that_is_full_says_so_with_a_page(own_server):
    with own_server("--memory-mb-max", "1").connect() as client:
        eventually(lambda: client.get("/v1/sales").status == 503)
        page = turned_away(client, "/s/1", 503, "BUSY")
        assert int(page.headers["refresh"]) > int(page.headers["retry-after"]) >= 1


# The demonstration of a payment.


def held(shop, buyer, **fields):
    sale = shop.sale(stock=3, pay_within_s=3600, price=1999, currency="EUR", **fields)["id"]
    return shop.win(sale, buyer)


def played(shop, order, buyer, status="succeeded"):
    return shop.client.post(f"/v1/orders/{order['no']}/demo_payment", {"status": status}, shop.buyer(buyer))


def test_a_buyer_plays_the_provider_as_often_as_they_like_and_pays_once(shop):
    buyer = mint_name("buyer")
    order = held(shop, buyer)
    answer = played(shop, order, buyer, "failed")
    assert answer.status == 200 and answer.json()["state"] == "held"
    for _ in range(3):
        answer = played(shop, order, buyer)
        assert answer.status == 200 and answer.json() == {**order, "state": "paid", "pay_by": answer.json()["pay_by"]}
    assert shop.counts(order["sale"]) == (3, 2, 0, 1)


def test_nobody_plays_with_the_order_of_somebody_else(shop):
    """P8: also what is over and has left memory is not there for others."""
    buyer, other = mint_name("buyer"), mint_name("other")
    order = held(shop, buyer)
    problem(played(shop, order, other), 404, "NO_SUCH_ORDER")
    assert shop.act(order["sale"], "close").status == 200
    problem(played(shop, order, other), 404, "NO_SUCH_ORDER")
    problem(played(shop, order, other, "failed"), 404, "NO_SUCH_ORDER")
    assert shop.order(order["no"]).json()["state"] == "held"
    answer = played(shop, order, buyer)
    assert answer.status == 200 and answer.json()["state"] == "paid"


def test_a_payment_after_the_end_is_as_late_as_any(shop):
    buyer = mint_name("buyer")
    order = held(shop, buyer)
    assert shop.client.post(f"/v1/orders/{order['no']}/cancel", {}, shop.buyer(buyer)).status == 200
    assert played(shop, order, buyer).json()["state"] == "refund_due"


@pytest.mark.parametrize("body", [{}, {"status": "paid"}, {"status": None}, {"status": "succeeded", "amount": 1}, []])
def test_the_player_says_what_a_provider_could(shop, body):
    buyer = mint_name("buyer")
    order = held(shop, buyer)
    problem(shop.client.post(f"/v1/orders/{order['no']}/demo_payment", body, shop.buyer(buyer)), 400, "BAD_INPUT")


def test_there_is_no_playing_where_things_are_sold(own_server):
    shop = Shop(own_server())
    buyer = mint_name("buyer")
    problem(played(shop, held(shop, buyer), buyer), 404, "NO_SUCH_ROUTE")
    shop.close()
