"""Webhooks, told to a real receiver: every event arrives at least once, signed, in order for each order, whatever the receiver and we
go through."""

import collections
import subprocess
import threading
import time

import pytest
from harness import Shop, eventually, mint_name, problem, time_text, unhurried
from provider import Provider
from receiver import CALM, QUICK, Receiver, arrived, hook, metric, settled, shown


@pytest.fixture
def server(own_server):
    return own_server(*CALM)


@pytest.fixture
def hasty(own_server):
    """A shop whose server does not wait long for an answer."""
    made = Shop(own_server(*QUICK))
    yield made
    made.close()


@pytest.fixture
def receiver():
    with Receiver() as one:
        yield one


def test_wins_and_the_end_of_stock_are_told_and_signed(shop, receiver):
    made = hook(shop, receiver.url())
    assert made["secret"].startswith("whsec_") and made["secret"].endswith(made["secret_ends"])
    sale = shop.sale(stock=3, units_per_grab_max=2, price=250, currency="EUR")["id"]
    first = shop.win(sale, "ann", units=2)
    second = shop.win(sale, "Zoë \"quoted\"", units=1)
    arrived(receiver, 3)
    settled(shop)
    for message in receiver.tries:
        message.check(made["secret"])
        assert message.path == "/hook"
    won = {message.data["order"]: message for message in receiver.taken if message.type == "order.won"}
    assert set(won) == {first["no"], second["no"]}
    for order in (first, second):
        told = won[order["no"]].data
        assert told == {"order": order["no"], "sale": sale, "buyer": order["buyer"], "units": order["units"], "amount": 250 * order["units"],
                        "state": "paid", "won_at": order["won_at"], "pay_by": None}
        assert won[order["no"]].json["timestamp"] == order["won_at"]
    assert [message.data for message in receiver.taken if message.type == "sale.sold_out"] == [{"sale": sale}]
    assert len(receiver.tries) == 3


def test_sold_out_is_told_each_time_it_happens(shop, receiver):
    hook(shop, receiver.url())
    sale = shop.sale(stock=1)["id"]
    shop.win(sale, "ann")
    assert shop.act(sale, "stock", {"add": 2}).status == 200
    shop.win(sale, "bob")
    assert shop.act(sale, "stock", {"add": -1}).status == 200
    arrived(receiver, 4)
    settled(shop)
    assert sorted(receiver.types()) == ["order.won", "order.won", "sale.sold_out", "sale.sold_out"]


def test_a_sale_closed_by_its_seller_or_by_its_time_is_told_once(shop, receiver):
    hook(shop, receiver.url())
    ends = time.time() + 6
    by_hand = shop.sale(stock=5, closes_at=time_text(6))["id"]
    assert shop.act(by_hand, "close").status == 200
    by_time = shop.sale(stock=5, opens_at=time_text(-60), closes_at=time_text(1))["id"]
    shop.sale(stock=5, closes_at=time_text(3600))
    arrived(receiver, 2)
    shop.server.restart()
    shop.client.close()
    other = shop.sale(stock=5, opens_at=time_text(-60), closes_at=time_text(0.8))["id"]
    arrived(receiver, 3)
    eventually(lambda: time.time() > ends + 0.5)
    settled(shop)
    told = {message.data["sale"]: message.data["closed_by"] for message in receiver.taken}
    assert told == {by_hand: "seller", by_time: "time", other: "time"}
    assert receiver.types() == ["sale.closed"] * 3


def test_what_happened_before_there_was_a_webhook_is_not_told(shop, receiver):
    def won_before(closes_in_s):
        sale = shop.sale(stock=5, closes_at=time_text(closes_in_s))["id"]
        shop.win(sale, "ann")
        return sale
    sale = unhurried(won_before)
    eventually(lambda: shop.show(sale)["state"] == "closed")
    hook(shop, receiver.url())
    later = shop.sale(stock=5)["id"]
    shop.win(later, "ann")
    arrived(receiver, 1)
    shop.win(later, "bob")
    arrived(receiver, 2)
    settled(shop)
    assert receiver.types() == ["order.won", "order.won"]


def test_every_message_arrives_at_a_receiver_that_fails_in_every_way(hasty):
    shop = hasty
    ways = [500, "drop", 404, "hang", 301, 200]
    plan = lambda message, tries: ways[min(tries, len(ways)) - 1]  # noqa: E731
    with Receiver(plan) as receiver:
        secret = hook(shop, receiver.url())["secret"]
        sale = shop.sale(stock=4)["id"]
        orders = [shop.win(sale, f"buyer{i}")["no"] for i in range(4)]
        arrived(receiver, 5, 60)
        settled(shop)
        by_id = collections.defaultdict(list)
        for message in receiver.tries:
            by_id[message.id].append(message.check(secret))
        assert all(len({one.body for one in tries}) == 1 for tries in by_id.values()), "a message changed between tries"
        assert {message.data["order"] for message in receiver.taken if message.type == "order.won"} == set(orders)
        assert all(len(tries) >= len(ways) for tries in by_id.values())


def test_a_receiver_that_is_dead_for_a_while_hears_everything_once_it_is_back(shop, receiver):
    hook(shop, receiver.url())
    sale = shop.sale(stock=40)["id"]
    shop.win(sale, "first")
    arrived(receiver, 1)
    receiver.stop()
    orders = [shop.win(sale, f"buyer{i}")["no"] for i in range(30)]
    eventually(lambda: shown(shop)["pending"] == 30)
    assert eventually(lambda: shown(shop)["last_failure"]) and shown(shop)["failed"] == 0
    receiver.start()
    arrived(receiver, 31)
    settled(shop)
    assert {message.data["order"] for message in receiver.taken} >= set(orders)


def test_nothing_is_lost_when_we_are_killed_between_deliveries(shop):
    """A receiver that fails one try in three; the server is killed again and again while it sells and tells."""
    count = collections.Counter()

    def plan(message, tries):
        count["all"] += 1
        return 500 if count["all"] % 3 == 0 else 200

    with Receiver(plan) as receiver:
        secret = hook(shop, receiver.url())["secret"]
        sale = shop.sale(stock=1000)["id"]
        orders = []
        for round_ in range(5):
            orders += [shop.win(sale, f"buyer{round_}-{i}")["no"] for i in range(20)]
            shop.client.close()
            shop.server.restart(kill=True)
        settled(shop)
        told = collections.Counter(message.check(secret).data["order"] for message in receiver.taken)
        assert set(told) == set(orders), "a win was not told, or one that was never said"
        ids = {message.data["order"]: message.id for message in receiver.taken}
        assert len(set(ids.values())) == len(orders)
        for message in receiver.taken:
            assert ids[message.data["order"]] == message.id, "the same event came under two ids"


def lives(shop, sale, provider, count):
    """Orders that end in each way; what is to be told of each of them, in order."""
    told = {}
    for i in range(count):
        way = i % 4
        assert shop.change(sale, pay_within_s=3600 if way < 2 else 1).status == 200
        order = shop.win(sale, mint_name("buyer"))
        no = order["no"]
        told[no] = ["order.won"]
        if way == 0:
            provider.paid(shop.client, order)
            told[no] += ["order.paid"]
        elif way == 1:
            assert shop.client.post(f"/v1/orders/{no}/cancel", {"reason": "no more of these"}, shop.seller_token).status == 200
            assert provider.tell(shop.client, order).json()["state"] == "refund_due"
            told[no] += ["order.cancelled", "order.refund_due"]
        elif way == 2:
            told[no] += ["order.expired"]
        else:
            eventually(lambda: shop.order(no).json()["state"] == "expired")
            provider.paid(shop.client, order)
            told[no] += ["order.expired", "order.paid"]
    return told


def test_the_life_of_an_order_is_told_in_order(shop, receiver):
    secret = hook(shop, receiver.url())["secret"]
    sale = shop.sale(stock=100, pay_within_s=1, price=100)["id"]
    told = lives(shop, sale, Provider(shop.server), 8)
    arrived(receiver, sum(map(len, told.values())))
    settled(shop)
    for order, types in told.items():
        assert receiver.types(order) == types, order
    by_type = {}
    for message in receiver.taken:
        by_type.setdefault((message.type, message.data.get("late")), message.check(secret).data)
    assert by_type[("order.won", None)]["state"] == "held" and by_type[("order.won", None)]["pay_by"] is not None
    paid = by_type[("order.paid", False)]
    assert paid["state"] == "paid" and paid["payment_ref"] == f"pay-{paid['order']}"
    assert by_type[("order.paid", True)]["state"] == "paid"
    cancelled = by_type[("order.cancelled", None)]
    assert (cancelled["state"], cancelled["cancelled_by"], cancelled["reason"]) == ("cancelled", "seller", "no more of these")
    assert by_type[("order.expired", None)]["state"] == "expired"
    refund = by_type[("order.refund_due", None)]
    assert refund["state"] == "refund_due" and refund["payment_ref"] == f"pay-{refund['order']}"


def test_order_is_kept_through_failures_and_crashes(hasty):
    """Every other try fails in some way, the endpoint dies for a while, and the server is killed twice."""
    shop = hasty
    count = collections.Counter()
    ways = [500, "drop", 200, 429, 200, 200, "hang", 200]

    def plan(message, tries):
        count["all"] += 1
        return ways[count["all"] % len(ways)]

    with Receiver(plan) as receiver:
        secret = hook(shop, receiver.url())["secret"]
        sale = shop.sale(stock=100, pay_within_s=1, price=100)["id"]
        told = {}
        for _ in range(2):
            told.update(lives(shop, sale, Provider(shop.server), 8))
            receiver.stop()
            told.update(lives(shop, sale, Provider(shop.server), 3))
            shop.client.close()
            shop.server.restart(kill=True)
            receiver.start()
        arrived(receiver, sum(map(len, told.values())), 60)
        settled(shop)
        for message in receiver.tries:
            message.check(secret)
        for order, types in told.items():
            assert receiver.types(order) == types, order


def test_an_answer_counts_by_its_head_whatever_becomes_of_its_body(shop):
    with Receiver(lambda message, tries: "drip") as receiver:
        hook(shop, receiver.url())
        sale = shop.sale(stock=9)["id"]
        orders = [shop.win(sale, f"buyer{i}")["no"] for i in range(3)]
        arrived(receiver, 3)
        settled(shop)
        assert sorted(message.data["order"] for message in receiver.tries) == sorted(orders), "a message that was taken came again"
        assert shown(shop)["last_failure"] is None and metric(shop.server, "stampede_webhooks_failed_tries_total") == 0


def test_redirects_are_not_followed(shop):
    with Receiver() as elsewhere:
        with Receiver(lambda message, tries: (307, {"location": elsewhere.url()})) as receiver:
            hook(shop, receiver.url())
            shop.win(shop.sale()["id"], "ann")
            eventually(lambda: len(receiver.tries) >= 3)
            assert shown(shop)["last_failure"] == "HTTP status 307"
            assert elsewhere.tries == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433"])
def test_private_addresses_are_refused_by_default(own_server, host):
    """Also by a name that means one, and in every spelling of it."""
    server = own_server("--webhook-retry-ms-min", "30", "--webhook-retry-ms-max", "100")
    shop = Shop(server)
    with Receiver() as receiver:
        hook(shop, receiver.url(host=host))
        shop.win(shop.sale()["id"], "ann")
        error = eventually(lambda: shown(shop)["last_failure"])
        assert "public Internet" in error, error
        eventually(lambda: metric(server, "stampede_webhooks_failed_tries_total") >= 3)
        assert receiver.tries == []
    shop.close()


def test_proxies_of_the_environment_are_not_used(own_server):
    with Receiver() as proxy, Receiver() as receiver:
        server = own_server(*QUICK, env={"http_proxy": proxy.url("/"), "ALL_PROXY": proxy.url("/"), "https_proxy": proxy.url("/")})
        shop = Shop(server)
        hook(shop, receiver.url())
        shop.win(shop.sale()["id"], "ann")
        arrived(receiver, 1)
        assert proxy.tries == []
        shop.close()


def test_a_dead_endpoint_keeps_nobody_else_waiting(hasty):
    """A seller whose endpoint hangs, and one whose endpoint works: sales of both sell on, and the second hears of all of it."""
    shop = hasty
    other = Shop(shop.server)
    with Receiver(lambda message, tries: "hang") as dead, Receiver() as alive:
        hook(shop, dead.url())
        hook(other, alive.url())
        slow_sale, good_sale = shop.sale(stock=300)["id"], other.sale(stock=300)["id"]
        for i in range(200):
            shop.win(slow_sale, f"buyer{i}")
            other.win(good_sale, f"buyer{i}")
        arrived(alive, 200)
        assert shop.counts(slow_sale) == (300, 100, 0, 200)
        tries = len(dead.tries)
        eventually(lambda: shown(shop)["pending"] == 200)
        assert tries < 100, "a dead endpoint was called for each of its messages"
        assert len({message.id for message in alive.tries}) == 200
    other.close()


def test_slow_endpoints_that_never_fail_keep_nobody_else_waiting(own_server):
    """Forty sellers whose endpoint answers just before its time is over, more than there are places; each has more to hear than it takes.
    One with a good endpoint, new among them, hears of everything long before they do."""
    server = own_server(*QUICK[:-4], "--webhook-timeout-ms", "5000", "--clerk-pause-ms", "10")
    slow, good = [Shop(server) for _ in range(40)], Shop(server)
    with Receiver(lambda message, tries: "late") as late, Receiver() as quick:
        for shop in slow:
            hook(shop, late.url())
            sale = shop.sale(stock=20)["id"]
            for i in range(20):
                shop.win(sale, f"buyer{i}")
        eventually(lambda: len(late.tries) >= 16)
        hook(good, quick.url())
        sale = good.sale(stock=100)["id"]
        orders = {good.win(sale, f"buyer{i}")["no"] for i in range(60)}
        arrived(quick, 60, 30)
        settled(good)
        assert {message.data["order"] for message in quick.taken} == orders
        assert len(late.tries) < 40 * 20, "the slow ones were done first: nothing was shown"
    for shop in [*slow, good]:
        shop.close()


def test_what_is_given_up_is_listed_and_can_be_sent_again(own_server):
    server = own_server(*CALM, "--webhook-give-up-s", "4")  # time for a try to be answered on a busy machine
    shop, works = Shop(server), threading.Event()
    with Receiver(lambda message, tries: 200 if works.is_set() else 503) as receiver:
        hook(shop, receiver.url())
        sale = shop.sale(stock=5)["id"]
        orders = [shop.win(sale, f"buyer{i}")["no"] for i in range(3)]
        eventually(lambda: shown(shop)["failed"] == 3, 30)
        failed = shop.listed("/v1/webhook/deliveries?state=failed", shop.seller_token, limit=2)
        assert [one["order"] for one in failed] == orders[::-1]
        assert shop.listed("/v1/webhook/deliveries?state=pending", shop.seller_token) == []
        assert all(one["type"] == "order.won" and one["sale"] == sale and one["state"] == "failed" and one["next_at"] is None for one in failed)
        assert any(one["status"] == 503 and one["attempts"] > 0 and one["error"] == "HTTP status 503" for one in failed)
        assert {one["webhook_id"] for one in failed} >= {message.id for message in receiver.tries}

        works.set()
        answer = shop.client.post(f"/v1/webhook/deliveries/{failed[0]['id']}/retry", None, shop.seller_token)
        assert answer.status == 202 and answer.json() == {"retried": 1}, answer
        arrived(receiver, 1)
        assert receiver.taken[0].data["order"] == failed[0]["order"] and receiver.taken[0].id == failed[0]["webhook_id"]
        again = shop.client.post(f"/v1/webhook/deliveries/{failed[0]['id']}/retry", None, shop.seller_token)
        problem(again, 404, "NO_SUCH_DELIVERY")
        answer = shop.client.post("/v1/webhook/deliveries/retry", None, shop.seller_token)
        assert answer.status == 202 and answer.json() == {"retried": 2}, answer
        arrived(receiver, 3)
        settled(shop)
        assert shown(shop)["failed"] == 0
        assert metric(server, "stampede_webhooks_given_up_total") == 3
    shop.close()


def test_gone_is_not_tried_again(shop):
    with Receiver(lambda message, tries: 410) as receiver:
        hook(shop, receiver.url())
        shop.win(shop.sale()["id"], "ann")
        eventually(lambda: shown(shop)["failed"] == 1)
        assert len(receiver.tries) == 1


def test_nobody_sees_or_touches_another_sellers_webhook(own_server):
    server = own_server(*CALM, "--webhook-give-up-s", "1")
    shop, stranger = Shop(server), Shop(server)
    with Receiver(lambda message, tries: 500) as receiver:
        secret = hook(shop, receiver.url())["secret"]
        shop.win(shop.sale()["id"], "ann")
        eventually(lambda: shown(shop)["failed"] == 1, 30)
        failed = shop.listed("/v1/webhook/deliveries", shop.seller_token)
        problem(stranger.client.get("/v1/webhook", stranger.seller_token), 404, "NO_SUCH_WEBHOOK")
        problem(stranger.client.get(f"/v1/webhook?seller={shop.seller}", stranger.seller_token), 403, "FORBIDDEN")
        problem(stranger.client.request("DELETE", "/v1/webhook", None, stranger.seller_token), 404, "NO_SUCH_WEBHOOK")
        assert stranger.listed("/v1/webhook/deliveries", stranger.seller_token) == []
        problem(stranger.client.post(f"/v1/webhook/deliveries/{failed[0]['id']}/retry", None, stranger.seller_token), 404, "NO_SUCH_DELIVERY")
        answer = stranger.client.post("/v1/webhook/deliveries/retry", None, stranger.seller_token)
        assert answer.json() == {"retried": 0}
        assert shown(shop)["failed"] == 1

        answer = stranger.client.get(f"/v1/webhook?seller={shop.seller}", stranger.admin_token)
        assert answer.status == 200 and answer.json()["url"] == receiver.url()
        assert secret not in answer.body.decode() and answer.json()["secret"] is None
        assert stranger.listed(f"/v1/webhook/deliveries?seller={shop.seller}", stranger.admin_token) == failed
    shop.close()
    stranger.close()


def test_an_admin_sets_a_webhook_only_for_one_who_sells(shop, receiver):
    """A mistyped name was taken, and whoever registered it later had the URL and its secret."""
    def put(seller):
        return shop.client.request("PUT", f"/v1/webhook?seller={seller}", {"url": receiver.url()}, shop.admin_token)
    names = {role: mint_name(role) for role in ("customer", "seller")}
    for role, name in names.items():
        assert shop.client.post("/v1/users", {"username": name, "password": "correct horse", "role": role}).status == 201
    for name in (mint_name("typo"), names["customer"], names["seller"].upper(), shop.seller):
        problem(put(name), 404, "NO_SUCH_WEBHOOK")
        problem(shop.client.get(f"/v1/webhook?seller={name}", shop.admin_token), 404, "NO_SUCH_WEBHOOK")
    shop.sale()  # whoever has a sale needs no account here
    for name in (names["seller"], shop.seller, "default"):
        assert put(name).json()["seller"] == name
    assert hook(shop, receiver.url(), shop.admin_token)["secret"], "an admin has one, too"


def test_a_rotated_secret_and_the_one_before_both_count(shop, receiver):
    first = hook(shop, receiver.url())["secret"]
    sale = shop.sale(stock=5)["id"]
    shop.win(sale, "ann")
    arrived(receiver, 1)
    moved = hook(shop, receiver.url("/moved"))
    assert moved["secret"] is None and first.endswith(moved["secret_ends"]), "another URL keeps the secret"
    second = hook(shop, receiver.url("/moved"), rotate=True)
    assert second["secret"] not in (None, first) and second["rotates_until"] is not None
    shop.win(sale, "bob")
    arrived(receiver, 2)
    receiver.taken[0].check(first)
    receiver.taken[1].check(first, second["secret"])
    assert receiver.taken[1].path == "/moved"
    assert shown(shop)["secret"] is None


def test_without_its_webhook_a_seller_is_told_nothing(shop, receiver):
    secret = hook(shop, receiver.url())["secret"]
    sale = shop.sale(stock=9)["id"]
    shop.win(sale, "ann")
    arrived(receiver, 1)
    receiver.stop()
    shop.win(sale, "bob")
    eventually(lambda: shown(shop)["last_failure_at"])
    assert shop.client.request("DELETE", "/v1/webhook", None, shop.seller_token).status == 204
    problem(shop.client.get("/v1/webhook", shop.seller_token), 404, "NO_SUCH_WEBHOOK")
    shop.win(sale, "cat")
    assert len(shop.client.get(f"/v1/orders?sale={sale}", shop.seller_token).json()["items"]) == 3  # filed: what is told is decided then
    receiver.start()
    again = hook(shop, receiver.url())
    assert again["secret"] not in (None, secret)
    shop.win(sale, "dan")
    arrived(receiver, 2)
    settled(shop)
    assert [message.data["buyer"] for message in receiver.taken] == ["ann", "dan"]


def test_a_test_message_can_be_asked_for(shop, receiver):
    problem(shop.client.post("/v1/webhook/test", None, shop.seller_token), 404, "NO_SUCH_WEBHOOK")
    secret = hook(shop, receiver.url())["secret"]
    answer = shop.client.post("/v1/webhook/test", None, shop.seller_token)
    assert answer.status == 202, answer
    arrived(receiver, 1)
    message = receiver.taken[0].check(secret)
    assert (message.type, message.data, message.id) == ("webhook.test", {}, answer.json()["webhook_id"])


@pytest.mark.parametrize("url", ["", "example.com/hook", "ftp://example.com/", "file:///etc/passwd", "http://", "http:/example.com", "https:example.com", "https:///example.com",
                                 "https://user@example.com/", "https://:pw@example.com/",
                                 "https://example.com/#part", "https://exa mple.com/", "https://example.com/\n", "javascript:alert(1)", "https://exämple.com/",
                                 "http://[fe80::1%25eth0]/", "https://example.com:99999/", "https://example.com/" + "x" * 500, None, 5])
def test_only_plain_http_urls_are_taken(shop, url):
    answer = shop.client.request("PUT", "/v1/webhook", {"url": url}, shop.seller_token)
    problem(answer, 400, "BAD_INPUT", "url")
    problem(shop.client.get("/v1/webhook", shop.seller_token), 404, "NO_SUCH_WEBHOOK")


def test_rotate_must_be_true_or_false(shop):
    answer = shop.client.request("PUT", "/v1/webhook", {"url": "https://example.com/", "rotate": 1}, shop.seller_token)
    problem(answer, 400, "BAD_INPUT", "rotate")


def test_https_is_checked_against_the_authority_configured(own_server, tmp_path):
    """A certificate that nobody vouches for gets nothing; with its authority configured it does."""
    import ssl

    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with Receiver() as receiver:
        receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
        url = receiver.url(host="localhost").replace("http://", "https://")
        for flags, good in (((), False), (("--webhook-ca", str(cert)), True)):
            server = own_server(*QUICK, *flags)
            shop = Shop(server)
            hook(shop, url)
            shop.win(shop.sale()["id"], mint_name("ann"))
            if good:
                arrived(receiver, 1)
            else:
                assert "certificate" in eventually(lambda: shown(shop)["last_failure"])
                assert receiver.tries == []
            shop.close()
