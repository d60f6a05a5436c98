"""What an operator looks at: nodes and their health, the last lines of the log, the webhooks of everyone."""

import re
import signal

import pytest
from harness import ON_REDIS, Shop, eventually, mint_name, problem
from receiver import CALM, Receiver


def listed(shop, path):
    answer = shop.client.get(path, shop.admin_token)
    assert answer.status == 200, answer
    return answer.json()


def test_a_node_tells_how_it_is(shop):
    seen = listed(shop, "/v1/nodes")
    assert set(seen) == {"gate", "items", "now"} and seen["gate"] == ("redis" if ON_REDIS else "local")
    before = next(item for item in seen["items"] if item["here"])
    assert before["state"] == "ready" and before["heard_at"] == seen["now"]
    assert before["address"].endswith(f":{shop.server.port}")
    assert before["connections"] >= 1 and before["memory_bytes"] > 1 << 20 and before["shed_level"] == 0 and before["breakers_open"] == 0
    sale = shop.sale(stock=2)["id"]
    for i in range(5):
        shop.grab(sale, f"buyer-{i}")
    after = next(item for item in listed(shop, "/v1/nodes")["items"] if item["here"])
    assert after["wins"] - before["wins"] == 2 and after["grabs"] - before["grabs"] == 5
    assert after["answers"] > before["answers"]


@pytest.mark.local
def test_a_machine_by_itself_is_the_only_node(shop):
    items = listed(shop, "/v1/nodes")["items"]
    assert len(items) == 1 and items[0]["node"] is None and items[0]["here"]


def test_a_limit_that_keeps_everyone_out_keeps_no_operator_from_looking(own_server):
    server = own_server()
    shop = Shop(server)
    assert shop.client.request("PUT", "/v1/limits", {"ip_query_per_s": 1, "ip_query_burst": 1}, shop.admin_token).status == 200
    eventually(lambda: shop.client.get("/v1/sales").status == 429)
    for path in ("/v1/nodes", "/v1/log", "/v1/limits"):
        assert shop.client.get(path, shop.admin_token).status == 200, path
    problem(shop.client.get("/v1/log", shop.buyer("ann")), 403)
    shop.close()


def test_the_log_is_told_newest_first_in_pages(own_server):
    server = own_server()
    shop = Shop(server)
    for _ in range(4):  # each says something
        before = len(listed(shop, "/v1/log?limit=200")["items"])
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(listed(shop, "/v1/log?limit=200")["items"]) > before)
    every = listed(shop, "/v1/log?limit=200")["items"]
    ids = [int(line["id"]) for line in every]
    assert ids == sorted(ids, reverse=True) and len(set(ids)) == len(ids) and ids[-1] == 1
    assert all(set(line) == {"id", "at", "level", "room", "message"} and line["message"] for line in every)
    assert all(line["message"][:60] in server.log(1 << 20).replace('\\"', '"') for line in every), "the log on standard error has them, too"
    paged, cursor = [], ""
    while True:
        page = listed(shop, f"/v1/log?limit=3{cursor}")
        paged += page["items"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert [line["id"] for line in paged][-len(ids):] == [str(one) for one in ids][-len(paged):]
    warned = listed(shop, "/v1/log?level=warn")["items"]
    assert warned == [line for line in listed(shop, "/v1/log?limit=200")["items"] if line["level"] in ("warn", "error")]
    problem(shop.client.get("/v1/log?level=loud", shop.admin_token), 400, "BAD_INPUT")
    shop.close()


def test_the_log_is_bounded_and_has_no_secret_in_it(own_server):
    """P9; at its most talkative, with logins good and bad on the way."""
    server = own_server("--log-level", "debug", "--limits", "user_grab_per_s=1,user_grab_burst=1")
    shop = Shop(server)
    name, password = mint_name("user"), "correct horse battery"
    assert shop.client.post("/v1/users", {"username": name, "password": password, "role": "customer"}).status == 201
    for word in (password, "wrong" + password):
        shop.client.post("/v1/login", {"username": name, "password": word})
    sale, token = shop.sale()["id"], shop.buyer("<script>ann")
    for _ in range(700):  # every refusal is a line
        shop.client.post(f"/v1/sales/{sale}/grabs", None, token)
    seen, cursor = [], ""
    while True:
        page = listed(shop, f"/v1/log?limit=200{cursor}")
        seen += page["items"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert 400 <= len(seen) <= 512, "the last 512 lines, but for those that came meanwhile"
    text = "".join(line["message"] for line in seen)
    assert password not in text and token not in text and token.split(".")[2] not in text and "Bearer" not in text
    shop.close()


def test_the_worst_webhooks_come_first_and_no_secret_is_shown(own_server):
    server = own_server(*CALM, "--webhook-give-up-s", "4")  # not before each has been tried
    shop, other = Shop(server), Shop(server)
    with Receiver(lambda message, tries: 500) as bad, Receiver() as good:
        made = []
        for one, receiver in ((shop, bad), (other, good)):
            answer = one.client.request("PUT", "/v1/webhook", {"url": receiver.url()}, one.seller_token)
            assert answer.status == 200, answer
            made.append(answer.json())
            sale = one.sale(stock=5)["id"]
            for i in range(3):
                one.win(sale, f"buyer-{i}")
        eventually(lambda: listed(shop, "/v1/webhooks")["items"][0]["failed"] == 3, 30)
        answer = shop.client.get("/v1/webhooks", shop.admin_token)
        first, second = (item for item in answer.json()["items"] if item["seller"] in (shop.seller, other.seller))
        assert first["seller"] == shop.seller and "500" in first["last_failure"] and first["last_failure_at"]
        assert second == {**second, "seller": other.seller, "failed": 0, "pending": 0, "last_failure": None, "last_failure_at": None}
        text = answer.body.decode()
        assert "whsec_" not in text and not any(one["secret"] in text for one in made) and "secret" not in set(first)
        bad.plan = lambda message, tries: 200
        assert shop.client.post(f"/v1/webhook/deliveries/retry?seller={shop.seller}", None, shop.admin_token).json() == {"retried": 3}
        eventually(lambda: all(item["failed"] + item["pending"] == 0 for item in listed(shop, "/v1/webhooks")["items"]), 30)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/.*", first["url"])
    shop.close()
    other.close()
