"""Nodes whose clocks are hours apart, and one whose clock jumps: the clock of Redis is the shop's (P12).

Nothing opens early or closes late, holds end when they should, and nobody is refused for the clock of a node."""

import datetime
import glob
import pathlib
import time

import pytest
from harness import Shop, eventually, mint_name, problem, time_text, unhurried
from nodes import Nodes
from provider import Provider
from test_nodes import audited

HOURS = 3600
PASSWORD = "correct horse"
SECRET = "whsec_c3RhbXBlZGUgdGVzdHMgaGF2ZSBhIHNlY3JldCBvZiAzMg=="


def library():
    """Where Debian puts libfaketime."""
    found = sorted(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1"))
    assert found, "libfaketime is not installed"
    return found[0]


class Clock:
    """The wall clock of a node, off by so many seconds, and by as many others as it is told while the node runs. What time has passed is as it is."""

    def __init__(self, folder, off_s):
        self.path = pathlib.Path(folder) / mint_name("clock")
        self.set(off_s)

    def set(self, off_s):
        self.path.write_text(f"{off_s:+d}\n")

    def environment(self):
        return {"LD_PRELOAD": library(), "FAKETIME_TIMESTAMP_FILE": str(self.path), "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_CACHE_DURATION": "1"}


class Skewed(Nodes):
    """One behind by five hours, one ahead by five, and none that is right."""

    OFF_S = (-5 * HOURS, 5 * HOURS)

    def __init__(self, *flags):
        super().__init__("--warm-before-s", "60", *flags)
        self.clocks = [Clock(self.folder, off_s) for off_s in self.OFF_S]

    def __enter__(self):
        super().__enter__()
        for clock in self.clocks:
            server = self.make()
            (server.data / "payment_keys").write_text(SECRET + "\n")
            (server.data / "payment_keys").chmod(0o600)
            server.env = {**server.env, **clock.environment()}
            server.start()
        return self

    def shops(self):
        """One seller, at both."""
        first = Shop(self.servers[0])
        return [first, Shop(self.servers[1], first.seller)]


@pytest.fixture(scope="module")
def skewed():
    with Skewed() as nodes:
        yield nodes


def moment(text):
    return datetime.datetime.fromisoformat(text).timestamp()


def near(text, off_s=0.0):
    return abs(moment(text) - time.time() - off_s) < 30


def test_the_clocks_are_off_indeed(skewed):
    """Else this file would prove nothing: the Date of HTTP is the machine's own."""
    for server, off_s in zip(skewed.servers, skewed.OFF_S):
        with server.connect() as client:
            date = datetime.datetime.strptime(client.get("/healthz").headers["date"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=datetime.timezone.utc)
        assert abs(date.timestamp() - time.time() - off_s) < 60


def test_a_sale_opens_and_closes_by_the_clock_of_redis(skewed):
    shops = skewed.shops()

    def whole_life(span_s):
        sales = [shop.sale(stock=10000, opens_at=time_text(span_s), closes_at=time_text(2 * span_s))["id"] for shop in shops]
        seen, begun = [], time.time()
        while time.time() < begun + 2.5 * span_s:
            for sale in sales:
                for shop in shops:
                    before = time.time()
                    answer = shop.grab(sale, mint_name("buyer"))
                    if answer.status != 503:  # of a machine that cannot keep up
                        seen.append((sale, before, time.time(), "WON" if answer.status == 201 else answer.code))
            time.sleep(0.02)
        assert all({word for of, _, _, word in seen if of == sale} >= {"NOT_OPEN", "WON", "CLOSED"} for sale in sales), seen
        return sales, seen
    sales, seen = unhurried(whole_life, 2, 5, 15)
    for sale in sales:
        words = [word for of, _, _, word in seen if of == sale]
        assert set(words) == {"NOT_OPEN", "WON", "CLOSED"} and words == sorted(words, key=("NOT_OPEN", "WON", "CLOSED").index)
        made = shops[0].show(sale)
        assert all(after >= moment(made["opens_at"]) for of, _, after, word in seen if of == sale and word == "WON"), "early"
        assert all(before < moment(made["closes_at"]) for of, before, _, word in seen if of == sale and word == "WON"), "late"
        assert {shop.show(sale)["state"] for shop in shops} == {"closed"}
    audited(skewed)


def test_a_sale_without_a_time_is_open_at_once(skewed):
    for shop in (shops := skewed.shops()):
        made = shop.sale(stock=4)
        assert near(made["opens_at"]) and made["state"] == "open", made
        for other in shops:
            answer = other.grab(made["id"], mint_name("buyer"))
            assert answer.status == 201 and near(answer.json()["now"]) and near(answer.json()["order"]["won_at"]), answer


def test_what_is_built_anew_by_a_node_with_a_wrong_clock_has_the_right_time(skewed):
    """Also what opens and closes within the hours that the clocks are off."""
    shops = skewed.shops()
    later, soon = shops[0].sale(stock=3, opens_at=time_text(HOURS))["id"], shops[0].sale(stock=9, closes_at=time_text(HOURS))["id"]
    for shop in shops:
        skewed.redis().flushall()
        eventually(lambda shop=shop: shop.grab(soon, mint_name("buyer")).status == 201)
        assert shop.act(later, "warm").status == 200
        for other in shops:
            problem(other.grab(later, "ann"), 409, "NOT_OPEN")
            assert other.grab(soon, mint_name("buyer")).status == 201
    assert shops[0].counts(soon) == shops[1].counts(soon) == (9, 3, 0, 6)


def test_only_what_opens_soon_is_warmed_up(skewed):
    shop = skewed.shops()[1]
    soon, later = shop.sale(stock=3, opens_at=time_text(40))["id"], shop.sale(stock=3, opens_at=time_text(HOURS))["id"]
    eventually(lambda: all(skewed.redis().exists(skewed.key(sale, "state")) for sale in (soon, later)), 20)  # as every sale when it is made

    def left_alone():
        skewed.redis().flushall()
        eventually(lambda: skewed.redis().exists(skewed.key(soon, "state")), 20)
        time.sleep(1.5)
        return not skewed.redis().exists(skewed.key(later, "state"))
    # The other node may come to know of the sale that was made only after the first of these, and warms it up then, once.
    assert any(left_alone() for _ in range(3))


def test_holds_end_when_they_should_whoever_ends_them(skewed):
    shops = skewed.shops()

    def held(pay_within_s):
        sale = shops[0].sale(stock=8, pay_within_s=pay_within_s)["id"]
        orders = [shops[i % 2].win(sale, f"buyer-{i}") for i in range(8)]
        assert all(near(order["pay_by"], pay_within_s) for order in orders)
        assert Provider(skewed.servers[1], SECRET).paid(shops[1].client, orders[0])["state"] == "paid"
        assert shops[0].counts(sale) == (8, 0, 7, 1)
        return sale, orders
    sale, orders = unhurried(held, 3, 8, 25)
    due = max(moment(order["pay_by"]) for order in orders)
    first = min(moment(order["pay_by"]) for order in orders[1:])
    while time.time() < first - 0.5:
        assert shops[0].counts(sale) == (8, 0, 7, 1) or time.time() >= first, "early"
        time.sleep(0.1)
    eventually(lambda: shops[0].counts(sale) == shops[1].counts(sale) == (8, 7, 0, 1), due - time.time() + 15)
    rows = {str(row["no"]): row for row in skewed.ledger().orders(sale)}
    assert all(int(moment(order["pay_by"]) * 1000) <= rows[order["no"]]["ended_ms"] < (due + 15) * 1000 for order in orders[1:])


def test_orders_are_found_at_every_node(skewed):
    """Their numbers have the time in them: that of the shop, so they follow each other, too, but for what an answer of Redis takes."""
    shops = skewed.shops()

    def won(apart_s):
        sale, orders = shops[0].sale(stock=20, pay_within_s=600)["id"], []
        for turn in range(2):
            orders += [shops[i % 2].win(sale, f"buyer-{i}", key=f"k{i}") for i in range(5 * turn, 5 * turn + 5)]
            time.sleep(apart_s)
        assert max(int(order["no"]) for order in orders[:5]) < min(int(order["no"]) for order in orders[5:]), orders
        return sale, orders
    sale, orders = unhurried(won, 1, 5, 15)
    newest_first = sorted(orders, key=lambda order: int(order["no"]), reverse=True)
    for i, order in enumerate(orders):
        other = shops[(i + 1) % 2]
        assert other.order(order["no"]).json() == order
        assert other.grab(sale, order["buyer"], key=f"k{i}").json()["order"] == order
        time.sleep(0.002)
    for shop in shops:
        assert shop.listed(f"/v1/orders?sale={sale}", shop.seller_token) == newest_first
    answer = shops[0].client.post(f"/v1/orders/{orders[1]['no']}/cancel", None, shops[0].buyer(orders[1]["buyer"]))
    assert answer.status == 200
    assert shops[1].counts(sale) == (20, 11, 9, 0)


def test_who_logs_in_at_one_node_is_known_at_the_other(skewed):
    shops, name = skewed.shops(), mint_name("user")
    assert shops[0].client.post("/v1/users", {"username": name, "password": PASSWORD, "role": "customer"}).status == 201
    for shop, other in (shops, shops[::-1]):
        made = shop.client.post("/v1/login", {"username": name, "password": PASSWORD}).json()
        assert 0 < moment(made["expires_at"]) - time.time() < 48 * HOURS
        assert other.client.get("/v1/orders", made["token"]).status == shop.client.get("/v1/orders", made["token"]).status == 200
        old = [each.server.token(name, exp=int(time.time()) - 60, iat=int(time.time()) - 90, nbf=int(time.time()) - 90) for each in shops]
        assert {each.client.get("/v1/orders", token).status for each, token in zip(shops, old)} == {401}, "a token that has expired counts nowhere"
        assert shop.client.post("/v1/logout", None, made["token"]).status == 204
        eventually(lambda other=other, made=made: other.client.get("/v1/orders", made["token"]).status == 401)


def test_purchase_tokens_and_payments_count_at_every_node(skewed):
    shops = skewed.shops()
    sale = shops[0].sale(stock=4, admission="token", pay_within_s=600)["id"]
    for i, (shop, other) in enumerate((shops, shops[::-1])):
        purchase = shop.purchase_token(sale, f"buyer-{i}")
        order = other.win(sale, f"buyer-{i}", purchase=purchase)
        Provider(shop.server, SECRET).paid(shop.client, order)
        old = Provider(other.server, SECRET)
        body = old.body(order["no"], None, "late")
        assert old.send(other.client, body, timestamp=int(time.time()) - HOURS).status == 401, "signed an hour ago"


def test_the_pre_count_turns_a_crowd_away_at_every_node(skewed):
    shops = skewed.shops()
    sale = shops[0].sale(stock=2, closes_at=time_text(HOURS))["id"]
    for shop in shops:
        shop.win(sale, mint_name("buyer"))

    def turned_away(shop):
        """By the node itself: Redis stands still meanwhile."""
        shop.grab(sale, "nobody")
        time.sleep(0.2)
        skewed.own.pause()
        try:
            return shop.grab(sale, "nobody").code == "SOLD_OUT"
        finally:
            skewed.own.resume()
    for shop in shops:
        eventually(lambda shop=shop: turned_away(shop), 30)


def test_a_clock_that_jumps_changes_nothing():
    with Skewed() as nodes:
        shops = nodes.shops()
        stock = 10 ** 6  # more than are grabbed here on the quickest machine
        sale = shops[0].sale(stock=stock, opens_at=time_text(-60), closes_at=time_text(HOURS), pay_within_s=600)["id"]
        later = shops[0].sale(stock=5, opens_at=time_text(HOURS))["id"]
        for turn, jump in enumerate((24 * HOURS, -24 * HOURS, 0)):
            for clock in nodes.clocks:
                clock.set(jump)
            end = time.monotonic() + 1.5  # libfaketime looks at its file once a second
            while time.monotonic() < end:
                for shop in shops:
                    answer = shop.grab(sale, mint_name("buyer"))
                    assert answer.status == 201 and near(answer.json()["order"]["won_at"]) and near(answer.json()["now"]), (turn, answer)
                    problem(shop.grab(later, "ann"), 409, "NOT_OPEN")
            nodes.redis().flushall()
        made = len(nodes.ledger().orders(sale))
        eventually(lambda: [shop.counts(sale) for shop in shops] == [(stock, stock - made, made, 0)] * 2)  # Redis is being filled
        audited(nodes)
