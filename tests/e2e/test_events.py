"""Events: campaigns that group sales, and who wants to be told when one opens."""

import time

import pytest
from harness import Shop, beside, crowd, crowd_again, eventually, mint_name, problem, request_bytes, time_text
from receiver import Receiver

EVENT = {"id", "seller", "name", "description", "state", "opens_at", "created_at", "subscribers", "now"}


def event(shop, opens_in_s=3600, **fields):
    answer = shop.client.post("/v1/events", {"name": mint_name("event"), "opens_at": time_text(opens_in_s), **fields}, shop.seller_token)
    assert answer.status == 201, answer
    return answer.json()


def opens_soon(shop, event_id):
    """In a moment, which is ahead of us as long as the answer takes."""
    for moment_s in (0.7, 5, 25):
        answer = shop.client.patch(f"/v1/events/{event_id}", {"opens_at": time_text(moment_s)}, shop.seller_token)
        if answer.status == 200:
            return answer.json()
    raise AssertionError(answer)


def shown(shop, event_id, query=""):
    answer = shop.client.get(f"/v1/events/{event_id}{query}")
    assert answer.status == 200, answer
    return answer.json()


def subscribe(shop, event_id, buyer, method="POST"):
    return shop.client.request(method, f"/v1/events/{event_id}/subscribe", None, shop.buyer(buyer))


def test_an_event_is_made_shown_and_listed(shop):
    made = event(shop, name="Spring", description="Two\nlines")
    assert set(made) == EVENT
    assert (made["seller"], made["name"], made["description"], made["state"], made["subscribers"]) == (shop.seller, "Spring", "Two\nlines", "upcoming", 0)
    seen = shown(shop, made["id"])
    assert {**seen, "now": None} == {**made, "now": None, "sales": [], "next": None}
    others = [event(shop)["id"] for _ in range(5)]
    listed = shop.listed(f"/v1/events?seller={shop.seller}", limit=2)
    assert [item["id"] for item in listed] == [*reversed(others), made["id"]]
    assert made["id"] in [item["id"] for item in shop.listed("/v1/events")]
    assert shop.listed("/v1/events?seller=nobody") == []


@pytest.mark.parametrize("body,field", [
    ({"opens_at": time_text(86400)}, "name"), ({"name": "x"}, "opens_at"), ({"name": "", "opens_at": time_text(86400)}, "name"),
    ({"name": "x" * 129, "opens_at": time_text(86400)}, "name"), ({"name": "x", "opens_at": time_text(-1)}, "opens_at"),
    ({"name": "x", "opens_at": "tomorrow"}, "opens_at"), ({"name": "x", "opens_at": None}, "opens_at"),
    ({"name": "x", "opens_at": time_text(86400), "description": "x" * 2001}, "description"),
    ({"name": "x", "opens_at": time_text(86400), "seller": "me"}, "seller"), ({"name": "x\u0007", "opens_at": time_text(86400)}, "name"),
    ({"name": 5, "opens_at": time_text(86400)}, "name")], ids=lambda v: v if isinstance(v, str) else "")
def test_what_is_no_event_is_refused_by_name(shop, body, field):
    problem(shop.client.post("/v1/events", body, shop.seller_token), 400, "BAD_INPUT", field)


def test_texts_of_the_largest_size_come_back_whole(shop):
    name, description = '"' * 128, "\\\n" * 1000
    made = event(shop, name=name, description=description)
    assert (made["name"], made["description"]) == (name, description)
    for _ in range(2):
        sale = shop.sale(event=made["id"], description=description)
    seen = shown(shop, made["id"])
    assert (seen["name"], seen["description"]) == (name, description) and seen["sales"][0]["id"] == sale["id"]


def test_its_seller_changes_it_and_nobody_else(shop):
    made = event(shop)
    path, client, opens = f"/v1/events/{made['id']}", shop.client, time_text(7200)
    changed = client.patch(path, {"name": "Other", "description": "new", "opens_at": opens}, shop.seller_token)
    assert changed.status == 200 and {**changed.json(), "now": None} == {**made, "name": "Other", "description": "new", "opens_at": opens, "now": None}
    assert client.patch(path, {"description": None}, shop.admin_token).json()["description"] == ""
    assert client.patch(path, {}, shop.seller_token).json()["name"] == "Other"
    problem(client.patch(path, {"name": "Mine"}, shop.server.token(mint_name("seller"), "seller")), 404, "NO_SUCH_EVENT")
    problem(client.patch(path, {"name": "Mine"}, shop.buyer("ann")), 403)
    problem(client.patch(path, {"opens_at": time_text(-5)}, shop.seller_token), 400, "BAD_INPUT", "opens_at")
    problem(client.patch("/v1/events/999999", {"name": "x"}, shop.seller_token), 404, "NO_SUCH_EVENT")
    assert shown(shop, made["id"])["name"] == "Other"


@pytest.mark.parametrize("number", ["0", "999999", "-1", "x", "9223372036854775808", "18446744073709551616", "1.0"])
def test_what_is_not_there_is_not_found(shop, number):
    problem(shop.client.get(f"/v1/events/{number}"), 404, "NO_SUCH_EVENT")
    problem(subscribe(shop, number, "ann"), 404, "NO_SUCH_EVENT")
    problem(subscribe(shop, number, "ann", "DELETE"), 404, "NO_SUCH_EVENT")


def test_sales_join_an_event_and_leave_it(shop):
    made, other = event(shop), event(shop)
    first = shop.sale(event=made["id"], opens_at=time_text(600))
    second = shop.sale(opens_at=time_text(600))
    assert first["event"] == made["id"] and second["event"] is None
    assert shop.change(second["id"], event=made["id"]).json()["event"] == made["id"]
    assert [sale["id"] for sale in shown(shop, made["id"])["sales"]] == [second["id"], first["id"]]
    assert shown(shop, other["id"])["sales"] == []
    assert shop.change(first["id"], event=None).json()["event"] is None
    assert shop.change(second["id"], name=mint_name("renamed")).json()["event"] == made["id"], "what is not given stays"
    assert [sale["id"] for sale in shown(shop, made["id"])["sales"]] == [second["id"]]
    assert shop.show(second["id"])["event"] == made["id"]


def test_a_sale_joins_only_an_event_of_its_seller(shop):
    stranger = Shop(shop.server)
    theirs, mine = event(stranger), event(shop)
    sale = shop.sale(opens_at=time_text(600))
    body = {"name": mint_name("sale"), "stock": 1}
    problem(shop.client.post("/v1/sales", {**body, "event": theirs["id"]}, shop.seller_token), 404, "NO_SUCH_EVENT")
    problem(shop.client.post("/v1/sales", {**body, "event": "999999"}, shop.seller_token), 404, "NO_SUCH_EVENT")
    for wrong in ("", "x", "0", "-1", "18446744073709551616", 5, [mine["id"]]):
        problem(shop.client.post("/v1/sales", {**body, "event": wrong}, shop.seller_token), 400, "BAD_INPUT", "event")
    problem(shop.change(sale["id"], event=theirs["id"]), 404, "NO_SUCH_EVENT")
    problem(shop.client.patch(f"/v1/sales/{sale['id']}", {"event": theirs["id"]}, shop.admin_token), 404, "NO_SUCH_EVENT")
    assert shop.client.patch(f"/v1/sales/{sale['id']}", {"event": mine["id"]}, shop.admin_token).status == 200, "an admin may for its seller"
    problem(stranger.change(sale["id"], event=theirs["id"]), 404, "NO_SUCH_SALE")
    assert shown(stranger, theirs["id"])["sales"] == []
    stranger.close()


def test_the_sales_of_an_event_come_in_pages(shop):
    made = event(shop)
    sales = [shop.sale(event=made["id"])["id"] for _ in range(7)]
    found, cursor = [], ""
    while cursor is not None:
        page = shown(shop, made["id"], f"?limit=3{cursor and '&cursor=' + cursor}")
        found += [sale["id"] for sale in page["sales"]]
        cursor = page["next"]
    assert found == sales[::-1]


def test_subscribing_and_leaving_are_idempotent(shop):
    made = event(shop)["id"]
    for expected, method, buyer in [(1, "POST", "ann"), (1, "POST", "ann"), (2, "POST", "bob"), (1, "DELETE", "ann"), (1, "DELETE", "ann"),
                                    (1, "DELETE", "cat"), (2, "POST", "ann")]:
        answer = subscribe(shop, made, buyer, method)
        assert answer.status == 204 and answer.body == b"", answer
        assert shown(shop, made)["subscribers"] == expected, (method, buyer)


def test_only_customers_subscribe(shop):
    path = f"/v1/events/{event(shop)['id']}/subscribe"
    problem(shop.client.post(path), 401)
    for token in (shop.seller_token, shop.admin_token):
        problem(shop.client.post(path, None, token), 403, "FORBIDDEN")
        problem(shop.client.request("DELETE", path, None, token), 403, "FORBIDDEN")
    problem(shop.client.post(path, {"units": 1}, shop.buyer("ann")), 400, "BAD_INPUT")


def test_an_event_that_has_opened_changes_no_more_and_takes_nobody_more(shop):
    made = event(shop)
    assert subscribe(shop, made["id"], "ann").status == 204
    opens_soon(shop, made["id"])
    eventually(lambda: shown(shop, made["id"])["state"] == "open")
    problem(subscribe(shop, made["id"], "bob"), 409, "EVENT_OPEN")
    assert subscribe(shop, made["id"], "ann").status == 204, "who has subscribed has"
    assert subscribe(shop, made["id"], "ann", "DELETE").status == 204
    assert shown(shop, made["id"])["subscribers"] == 1, "what is told does not change any more"
    problem(shop.client.patch(f"/v1/events/{made['id']}", {"opens_at": time_text(86400)}, shop.seller_token), 409, "EVENT_OPEN")
    problem(shop.client.patch(f"/v1/events/{made['id']}", {"name": "Late"}, shop.seller_token), 409, "EVENT_OPEN")
    assert shop.client.patch(f"/v1/events/{made['id']}", {}, shop.seller_token).json()["name"] == made["name"]


def test_a_crowd_subscribes_at_once_and_each_counts_once(own_server):
    """Grabs go on meanwhile, and after kill -9 everyone who heard 204 is still there."""
    server = own_server("--reactors", "2")
    shop = Shop(server)
    made, sale = event(shop)["id"], shop.sale(stock=1000)["id"]
    grabs = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, server.token(f"grabber-{i}")) for i in range(500)]
    requests = [request_bytes("POST", f"/v1/events/{made}/subscribe", None, shop.buyer(f"buyer-{i % 150}")) for i in range(300)]
    with beside(lambda: crowd_again(server, grabs, 20)) as grabbed:
        answers = crowd(server, requests, 60)
    assert {answer.status for answer in grabbed[0].result()} == {201}
    # Each is a commit: of a database under load some are told to come again.
    assert {answer.status for answer in answers} <= {204, 503}
    for i, answer in enumerate(answers):
        if answer.status == 503:
            eventually(lambda buyer=shop.buyer(f"buyer-{i % 150}"): shop.client.post(f"/v1/events/{made}/subscribe", None, buyer).status == 204)
    assert shown(shop, made)["subscribers"] == 150
    shop.close()
    server.restart(kill=True)
    again = Shop(server, shop.seller)
    assert shown(again, made)["subscribers"] == 150
    rows = server.ledger().rows("SELECT buyer, place FROM subscriptions WHERE event = ?", int(made))
    assert len({row["buyer"] for row in rows}) == 150 and sorted(row["place"] for row in rows) == list(range(150))
    again.close()


# Told when it opens, to the webhook of its seller.

QUICK = ("--webhooks-private", "on", "--webhook-retry-ms-min", "30", "--webhook-retry-ms-max", "300", "--webhook-timeout-ms", "2000")


def hook(shop, receiver):
    answer = shop.client.request("PUT", "/v1/webhook", {"url": receiver.url()}, shop.seller_token)
    assert answer.status == 200, answer
    return answer.json()["secret"]


def opened(receiver):
    """Messages about events, each once, in the order they came."""
    return list({message.id: message for message in receiver.taken if message.type == "event.opened"}.values())


def test_its_seller_is_told_who_subscribed_when_it_opens(own_server):
    server = own_server(*QUICK)
    shop = Shop(server)
    with Receiver() as receiver:
        secret = hook(shop, receiver)
        made = event(shop, name='Spring "sale"')
        for buyer in ("ann", "bob", "Zoë"):
            assert subscribe(shop, made["id"], buyer).status == 204
        assert subscribe(shop, made["id"], "bob", "DELETE").status == 204
        made = opens_soon(shop, made["id"])
        alone = opens_soon(shop, event(shop)["id"])
        later = event(shop, opens_in_s=3600)
        eventually(lambda: len(opened(receiver)) >= 2, 20)
        messages = {message.data["event"]: message for message in opened(receiver)}
        assert set(messages) == {made["id"], alone["id"]} and later["id"] not in messages
        message = messages[made["id"]].check(secret)
        assert message.json["timestamp"] == made["opens_at"] <= time_text()
        assert message.data == {"event": made["id"], "name": 'Spring "sale"', "opens_at": made["opens_at"], "part": 1, "parts": 1,
                                "subscribers": ["ann", "Zoë"]}
        assert messages[alone["id"]].data["subscribers"] == [], "told also where nobody subscribed"
        assert shown(shop, made["id"])["subscribers"] == 2
    shop.close()


def test_many_subscribers_come_in_parts_each_once_through_failures_and_a_crash(own_server):
    """A receiver that refuses the first try of each, and a server killed as the event opens."""
    server = own_server(*QUICK)
    shop = Shop(server)
    names = [f"buyer-{i}" for i in range(1203)]
    with Receiver(lambda message, tries: 500 if tries == 1 else 200) as receiver:
        secret = hook(shop, receiver)
        made = event(shop)["id"]
        requests = [request_bytes("POST", f"/v1/events/{made}/subscribe", None, server.token(name)) for name in names]
        assert all(answer.status == 204 for answer in crowd_again(server, requests, 50))
        opens_soon(shop, made)
        eventually(lambda: shown(shop, made)["state"] == "open", 20)
        time.sleep(0.8)
        server.restart(kill=True)
        eventually(lambda: len(opened(receiver)) >= 3, 30)
        messages = opened(receiver)
        assert [message.data["part"] for message in messages] == [1, 2, 3] and {message.data["parts"] for message in messages} == {3}
        told = [name for message in messages for name in message.check(secret).data["subscribers"]]
        assert len(told) == len(names) and set(told) == set(names)
        assert max(len(message.data["subscribers"]) for message in messages) == 500
        bodies = {}
        for message in receiver.tries:
            assert bodies.setdefault(message.id, message.body) == message.body, "another try said something else"
    shop.close()


def test_whoever_had_no_webhook_then_is_not_told_later(own_server):
    server = own_server(*QUICK)
    shop, other = Shop(server), Shop(server)
    with Receiver() as receiver, Receiver() as theirs:
        hook(other, theirs)
        made = opens_soon(shop, event(shop)["id"])
        opens_soon(other, event(other)["id"])
        eventually(lambda: opened(theirs), 20)
        hook(shop, receiver)
        last = opens_soon(shop, event(shop)["id"])
        eventually(lambda: opened(receiver), 20)
        assert [message.data["event"] for message in opened(receiver)] == [last["id"]]
        problem(subscribe(shop, made["id"], "late"), 409, "EVENT_OPEN")
    for one in (shop, other):
        one.close()
