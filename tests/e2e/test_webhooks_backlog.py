"""Webhooks that could not be delivered for long: what waits keeps its order and costs the sales nothing, and what failed can be dropped."""

import time

import pytest
from harness import Shop, beside, eventually, mint_name, problem
from ledgers import ON_MYSQL
from provider import Provider
from receiver import QUICK, Receiver, arrived, hook, metric, settled, shown

DEAD_S = 20
PENDING = 20_000
FAILED_MANY = 20_000 if ON_MYSQL else 200_000  # the triggers of MySQL take their time


@pytest.fixture
def server(own_server):
    return own_server(*QUICK)


@pytest.fixture
def receiver_gone():
    """The URL of an endpoint where nobody listens."""
    with Receiver() as receiver:
        url = receiver.url()
    return url


def outage(server, dead_s, back_s):
    """A receiver dies, orders go on through every end they can have, the receiver comes back: every event arrives within back_s, signed,
    and in order for each order. How many there were, and how many seconds it took until the last had come."""
    shop, provider = Shop(server), Provider(server)
    with Receiver() as receiver:
        secret = hook(shop, receiver.url())["secret"]
        sale = shop.sale(stock=100_000, pay_within_s=3600, price=100)["id"]
        receiver.stop()
        died, told = time.monotonic(), {}
        while time.monotonic() < died + dead_s:
            order = shop.win(sale, mint_name("buyer"))
            told[order["no"]] = ["order.won"]
            if len(told) % 2:
                provider.paid(shop.client, order)
                told[order["no"]] += ["order.paid"]
            else:
                assert shop.client.post(f"/v1/orders/{order['no']}/cancel", {"reason": "none left"}, shop.seller_token).status == 200
                assert provider.tell(shop.client, order).json()["state"] == "refund_due"
                told[order["no"]] += ["order.cancelled", "order.refund_due"]
            time.sleep(0.2)
        count = sum(map(len, told.values()))
        eventually(lambda: shown(shop)["pending"] == count)
        assert shown(shop)["failed"] == 0 and receiver.taken == []
        receiver.start()
        back = time.monotonic()
        arrived(receiver, count, back_s)
        took_s = time.monotonic() - back
        settled(shop)
        for message in receiver.tries:
            message.check(secret)
        for order, types in told.items():
            assert receiver.types(order) == types, order
    shop.close()
    return count, took_s


def test_a_receiver_that_is_dead_for_long_hears_everything_in_order_afterwards(own_server):
    """The same for minutes, with the waits that sellers get by default, is a part of make campaign."""
    server = own_server("--webhooks-private", "on", "--webhook-retry-ms-min", "100", "--webhook-retry-ms-max", "3000", "--webhook-timeout-ms", "700",
                        "--clerk-pause-ms", "10")
    outage(server, DEAD_S, 60)


def backlog_make(server, seller, sale, state=0, count=PENDING):
    """Messages about the sale, each one by itself, written while the server is down."""
    now = int(time.time() * 1000)
    server.ledger().change("INSERT INTO outbox (seller, kind, stream, sale, order_no, event, at_ms, state, since_ms, next_ms, attempts, status, error)"
                           " VALUES (?, 7, ?, ?, 0, 0, ?, ?, ?, ?, 0, 0, '')",
                           *((seller, (10_000_000 + i) * 4 + 1, int(sale), now, state, now, now) for i in range(count)))


def test_grabs_go_on_while_thousands_of_messages_wait_for_a_dead_endpoint(shop, receiver_gone):
    hook(shop, receiver_gone)
    sale = shop.sale(stock=1000)["id"]
    shop.client.close()
    shop.server.stop()
    backlog_make(shop.server, shop.seller, sale)
    shop.server.start()
    orders = {shop.win(sale, f"buyer{i}")["no"] for i in range(300)}
    assert len(orders) == 300 and shop.counts(sale) == (1000, 700, 0, 300)
    eventually(lambda: shown(shop)["pending"] == PENDING + 300)
    assert eventually(lambda: metric(shop.server, "stampede_webhooks_pending") == PENDING + 300)
    assert {one["no"] for one in shop.listed(f"/v1/orders?sale={sale}", shop.seller_token)} == orders
    assert shown(shop)["failed"] == 0
    assert metric(shop.server, "stampede_webhooks_failed_tries_total") < 1000, "a dead endpoint was called for each of its messages"


def test_thousands_that_failed_are_counted_dropped_or_sent_again(shop, receiver_gone):
    hook(shop, receiver_gone)
    sale = shop.sale()["id"]
    shop.client.close()
    shop.server.stop()
    backlog_make(shop.server, shop.seller, sale, state=1)
    shop.server.start()
    assert (shown(shop)["pending"], shown(shop)["failed"]) == (0, PENDING)
    answer = shop.client.post("/v1/webhook/deliveries/retry", None, shop.seller_token)
    assert answer.status == 202 and answer.json() == {"retried": PENDING}, answer
    assert (shown(shop)["pending"], shown(shop)["failed"]) == (PENDING, 0)
    answer = shop.client.request("DELETE", "/v1/webhook/deliveries", None, shop.seller_token)
    assert answer.status == 200 and answer.json() == {"dropped": 0}, "what is pending is not dropped"
    assert shown(shop)["pending"] == PENDING


@pytest.mark.parametrize("method, path, word", [("POST", "/v1/webhook/deliveries/retry", "retried"), ("DELETE", "/v1/webhook/deliveries", "dropped")])
def test_other_sellers_write_while_many_are_sent_again_or_dropped(shop, receiver_gone, method, path, word):
    hook(shop, receiver_gone)
    sale = shop.sale()["id"]
    shop.client.close()
    shop.server.stop()
    backlog_make(shop.server, shop.seller, sale, 1, FAILED_MANY)
    shop.server.start()
    other = Shop(shop.server)
    hook(other, receiver_gone)
    with beside(lambda: shop.client.request(method, path, None, shop.seller_token)) as asked:
        eventually(lambda: 0 < shown(other, shop.seller_token)["failed"] < FAILED_MANY, pause=0.005)
        hook(other, receiver_gone)
        assert shown(other, shop.seller_token)["failed"] > 0, "a write of one seller waited for all of another's"
    assert asked[0].result().json() == {word: FAILED_MANY}, asked[0].result()
    assert shown(shop)["failed"] == 0
    other.close()


def test_what_failed_can_be_dropped_by_its_seller_only(own_server):
    server = own_server(*QUICK)
    shop, stranger = Shop(server), Shop(server)
    with Receiver(lambda message, tries: 410) as receiver:
        hook(shop, receiver.url())
        hook(stranger, receiver.url())
        sale = shop.sale(stock=9)["id"]
        for i in range(3):
            shop.win(sale, f"buyer{i}")
        eventually(lambda: shown(shop)["failed"] == 3)
        failed = shop.listed("/v1/webhook/deliveries", shop.seller_token)
        path = f"/v1/webhook/deliveries/{failed[0]['id']}"
        problem(stranger.client.request("DELETE", path, None, stranger.seller_token), 404, "NO_SUCH_DELIVERY")
        assert stranger.client.request("DELETE", "/v1/webhook/deliveries", None, stranger.seller_token).json() == {"dropped": 0}
        problem(stranger.client.request("DELETE", f"/v1/webhook/deliveries?seller={shop.seller}", None, stranger.seller_token), 403, "FORBIDDEN")
        for number in ("0", "nine", "99999999999999999999", str(2**63)):
            problem(shop.client.request("DELETE", f"/v1/webhook/deliveries/{number}", None, shop.seller_token), 404)
        assert shown(shop)["failed"] == 3
        answer = shop.client.request("DELETE", path, None, shop.seller_token)
        assert answer.status == 200 and answer.json() == {"dropped": 1}, answer
        problem(shop.client.request("DELETE", path, None, shop.seller_token), 404, "NO_SUCH_DELIVERY")
        assert shop.listed("/v1/webhook/deliveries", shop.seller_token) == failed[1:]
        answer = shop.client.request("DELETE", f"/v1/webhook/deliveries?seller={shop.seller}", None, stranger.admin_token)
        assert answer.status == 200 and answer.json() == {"dropped": 2}, answer
        assert shown(shop)["failed"] == 0 and shop.listed("/v1/webhook/deliveries", shop.seller_token) == []
    shop.close()
    stranger.close()


def test_tests_that_are_not_taken_do_not_pile_up(shop):
    answers = {"status": 500}
    with Receiver(lambda message, tries: answers["status"]) as receiver:
        hook(shop, receiver.url())
        ask = lambda: shop.client.post("/v1/webhook/test", None, shop.seller_token)  # noqa: E731
        assert [ask().status for _ in range(5)] == [202] * 5
        problem(ask(), 409, "TOO_MANY_TESTS")
        assert shown(shop)["pending"] == 5
        answers["status"] = 410
        eventually(lambda: shown(shop)["failed"] == 5)
        answers["status"] = 200
        assert ask().status == 202
        arrived(receiver, 1)
        settled(shop)
        assert shown(shop)["failed"] == 0, "tests that failed are kept"
