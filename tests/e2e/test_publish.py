"""Order events published to the operator's own queue: a real Redis, a real RabbitMQ, and the Kafka that librdkafka mocks. Every event arrives at least
once, repetitions have the id of the first, and the events of an order are in order, whatever the server and the broker go through."""

import collections
import re
import socket
import threading
import time

import pytest
from brokers import BROKERS, Kafka, Rabbit, Redis, settled, wait_for
from harness import Closed, Shop, eventually, run, time_text
from ports import free_port
from provider import Provider
from receiver import CALM, Receiver, hook, metric


@pytest.fixture(params=BROKERS)
def broker(request):
    return request.getfixturevalue(BROKERS[request.param])


@pytest.fixture
def publishing(own_server):
    """A server that publishes to a broker."""

    def make(broker, *flags, url=None, start=True):
        env = {"STAMPEDE_PUBLISH_PASSWORD": broker.password} if getattr(broker, "password", None) else None
        return own_server("--publish", url or broker.url, *CALM, *flags, env=env, start=start)

    return make


def waiting(server):
    """What the ledger still has to publish, seen from outside."""
    return server.ledger().rows("SELECT count(*) AS count FROM publications")[0]["count"]


def in_order(events):
    """The events of an order came in the order of their numbers."""
    last = collections.defaultdict(int)
    for event in events:
        number = int(event.id.rsplit("_", 1)[1])
        assert number > last[event.key], (event.key, event.type)
        last[event.key] = number


def test_every_kind_of_event_arrives(broker, publishing):
    server = publishing(broker)
    shop, provider = Shop(server), Provider(server)
    sale = shop.sale(stock=4, price=250, currency="EUR", pay_within_s=3600, late_payment="refund")["id"]
    ann, bob = shop.win(sale, "ann"), shop.win(sale, "bob")
    assert shop.change(sale, pay_within_s=1).status == 200
    cat = shop.win(sale, "Zoë \"quoted\"")
    provider.paid(shop.client, ann)
    assert shop.client.post(f"/v1/orders/{bob['no']}/cancel", {"reason": "not today"}, shop.buyer("bob")).status == 200
    eventually(lambda: shop.order(cat["no"]).json()["state"] == "expired")
    provider.paid(shop.client, cat, state="refund_due")
    plain = shop.sale(stock=1)["id"]
    dan = shop.win(plain, "dan")
    assert shop.act(plain, "close").status == 200
    timed = shop.sale(stock=1, opens_at=time_text(-60), closes_at=time_text(0.5))["id"]
    events = wait_for(broker, 11)
    in_order(events)
    told = collections.defaultdict(list)
    for event in events:
        assert event.json["type"] == event.type
        told[event.key].append(event)
    kinds = {key: [event.type for event in list_] for key, list_ in told.items()}
    assert kinds == {ann["no"]: ["order.won", "order.paid"], bob["no"]: ["order.won", "order.cancelled"],
                     cat["no"]: ["order.won", "order.expired", "order.refund_due"], dan["no"]: ["order.won"],
                     f"sale:{plain}": ["sale.sold_out", "sale.closed"], f"sale:{timed}": ["sale.closed"]}
    assert told[ann["no"]][1].data == {"order": ann["no"], "sale": sale, "buyer": "ann", "units": 1, "amount": 250, "state": "paid", "won_at": ann["won_at"],
                                       "pay_by": ann["pay_by"], "payment_ref": f"pay-{ann['no']}", "late": False}
    assert told[cat["no"]][0].data["buyer"] == "Zoë \"quoted\"" and told[cat["no"]][0].data["state"] == "held"
    assert told[bob["no"]][1].data["reason"] == "not today" and told[bob["no"]][1].data["cancelled_by"] == "buyer"
    assert told[f"sale:{plain}"][1].data == {"sale": plain, "closed_by": "seller"}
    assert told[f"sale:{timed}"][0].data == {"sale": timed, "closed_by": "time"}
    assert len(broker.events()) == 11, "nothing failed, so nothing is sent twice"
    eventually(lambda: waiting(server) == 0)
    assert metric(server, "stampede_published_total") == 11 and metric(server, "stampede_publish_failing") == 0


def test_a_dead_broker_keeps_nobody_from_selling_and_hears_everything_later(broker, publishing):
    server = publishing(broker)
    shop = Shop(server)
    sale = shop.sale(stock=400)["id"]
    shop.win(sale, "first")
    wait_for(broker, 1)
    broker.down()
    try:
        orders = [shop.win(sale, f"buyer{i}")["no"] for i in range(150)]
        eventually(lambda: metric(server, "stampede_publish_failing") == 1, 60)
        eventually(lambda: metric(server, "stampede_publish_lag") >= 150, 60)
        orders += [shop.win(sale, f"late{i}")["no"] for i in range(50)]
        assert "nothing is published for now" in server.log()
    finally:
        broker.up()
    events = wait_for(broker, 201, 90)
    assert {event.key for event in events} >= set(orders)
    in_order(events)
    eventually(lambda: waiting(server) == 0 and metric(server, "stampede_publish_lag") == 0, 20)
    assert metric(server, "stampede_publish_failing") == 0


def test_a_restart_goes_on_where_it_was_and_says_nothing_twice(broker, publishing):
    server = publishing(broker)
    shop = Shop(server)
    sale = shop.sale(stock=40)["id"]
    for round_ in range(3):
        for i in range(5):
            shop.win(sale, f"buyer{round_}-{i}")
        wait_for(broker, 5 * (round_ + 1))
        eventually(lambda: waiting(server) == 0)
        shop.close()
        server.restart()
        shop = Shop(server)
    assert len(broker.events()) == 15


def crowd_on(server, sale, provider, won, paid, stop, rest):
    """Buys and pays until told to stop, through any outage of the server; what was answered is kept in won and paid."""
    number = 0
    while not stop.is_set():
        try:
            shop = Shop(server)
            while not stop.is_set() and not rest.is_set():
                number += 1
                answer = shop.grab(sale, f"{threading.get_ident()}-{number}")
                if answer.status != 201:
                    break
                order = answer.json()["order"]
                won.append(order["no"])
                if number % 2 == 0 and provider.tell(shop.client, order).status == 200:
                    paid.append(order["no"])
        except (OSError, Closed, AssertionError):
            pass
        time.sleep(0.02)


def test_nothing_is_lost_when_server_and_broker_are_killed_again_and_again(broker, publishing):
    server = publishing(broker, "--log-level", "warn")
    server.stop()
    server.port_wanted = free_port()  # the same after each start, for the crowd
    server.start()
    provider, shop = Provider(server), Shop(server)
    sale = shop.sale(stock=1000000, price=100, pay_within_s=3600, grabs_per_buyer_max=1)["id"]
    won, paid, stop, rest = [], [], threading.Event(), threading.Event()
    buyers = [threading.Thread(target=crowd_on, args=(server, sale, provider, won, paid, stop, rest)) for _ in range(2)]
    for buyer in buyers:
        buyer.start()
    try:
        for round_ in range(4):
            time.sleep(0.7)
            server.kill()
            server.start()
            if round_ == 1:
                broker.down()
                time.sleep(0.7)
                rest.set()  # a broker takes half a minute to start: by then they would have bought more than it takes in one
                broker.up()
                rest.clear()
    finally:
        stop.set()
        for buyer in buyers:
            buyer.join()
    rows = server.ledger().rows
    eventually(lambda: waiting(server) == 0 and len(won) <= rows("SELECT count(*) AS count FROM orders")[0]["count"], 90, 0.2)
    want = {(str(row["no"]), "order.won") for row in rows("SELECT no FROM orders")} | {(str(row["no"]), "order.paid") for row in rows("SELECT no FROM orders WHERE state = 1")}
    assert want >= {(no, "order.won") for no in won} | {(no, "order.paid") for no in paid}
    eventually(lambda: len(settled(broker.events())) >= len(want), 60, 0.2)
    events = settled(broker.events())
    assert len(won) > 50 and sorted((event.key, event.type) for event in events) == sorted(want)
    in_order(events)
    server.stop()
    assert server.audit().code == 0


def test_webhooks_and_the_queue_hear_the_same_words(redis_server, publishing):
    server = publishing(redis_server)
    shop = Shop(server)
    with Receiver() as receiver:
        hook(shop, receiver.url())
        sale = shop.sale(stock=2)["id"]
        shop.win(sale, "ann")
        shop.win(sale, "bob")
        events = wait_for(redis_server, 3)
        eventually(lambda: len(receiver.taken) == 3)
        key = lambda json: str(json)  # noqa: E731
        assert sorted((event.json for event in events), key=key) == sorted((message.json for message in receiver.taken), key=key)


def test_nothing_is_published_until_it_is_turned_on_and_what_waits_is_kept(redis_server, own_server):
    server = own_server(*CALM)
    shop = Shop(server)
    sale = shop.sale(stock=10, closes_at=time_text(3600))["id"]
    shop.sale(stock=10, opens_at=time_text(-60), closes_at=time_text(0.2))
    before = shop.win(sale, "ann")["no"]
    time.sleep(0.5)
    server.stop()
    flags = [*server.flags]
    server.flags = [*flags, "--publish", redis_server.url]
    server.env = {"STAMPEDE_PUBLISH_PASSWORD": redis_server.password}
    server.start()
    shop = Shop(server)
    on = shop.win(sale, "bob")["no"]
    assert [event.key for event in wait_for(redis_server, 1)] == [on]
    redis_server.down()
    kept = shop.win(sale, "cat")["no"]
    eventually(lambda: waiting(server) == 1)
    server.stop()
    server.flags = flags
    server.start()
    off = Shop(server).win(sale, "dan")["no"]
    server.stop()
    assert waiting(server) == 1
    redis_server.up()
    server.flags = [*flags, "--publish", redis_server.url]
    server.start()
    assert [event.key for event in wait_for(redis_server, 2)] == [on, kept] and {before, off}.isdisjoint({on, kept})


def test_beyond_the_bound_events_are_counted_and_sales_go_on(redis_server, publishing):
    redis_server.down()
    server = publishing(redis_server, "--publish-waiting-max", 20)
    shop = Shop(server)
    sale = shop.sale(stock=100)["id"]
    orders = [shop.win(sale, f"buyer{i}")["no"] for i in range(50)]
    eventually(lambda: metric(server, "stampede_publish_dropped") == 30, 60)
    assert metric(server, "stampede_publish_lag") == 20
    server.restart(kill=True)
    redis_server.up()
    assert [event.key for event in wait_for(redis_server, 20)] == orders[:20]
    eventually(lambda: waiting(server) == 0)
    assert metric(server, "stampede_publish_dropped") == 30
    last = Shop(server).win(sale, "zoe")["no"]
    assert wait_for(redis_server, 21)[-1].key == last


def test_a_stream_keeps_about_as_much_as_it_is_told(redis_server, publishing):
    server = publishing(redis_server, url=redis_server.url + "?maxlen=100")
    shop = Shop(server)
    sale = shop.sale(stock=1000)["id"]
    for i in range(600):
        shop.win(sale, f"buyer{i}")
    eventually(lambda: waiting(server) == 0 and metric(server, "stampede_published_total") == 600)
    assert 100 <= len(redis_server.events()) < 400


def test_a_message_that_no_queue_wants_waits_until_one_does(rabbit, publishing):
    with rabbit.channel() as channel:
        channel.exchange_declare("picky", "topic", durable=True)
        channel.queue_declare("wins", durable=True)
        channel.queue_bind("wins", "picky", "order.won")
    url = rabbit.url.replace("exchange=orders", "exchange=picky")
    server = publishing(rabbit, url=url)
    shop = Shop(server)
    sale = shop.sale(stock=1)["id"]
    shop.win(sale, "ann")
    eventually(lambda: "no queue of exchange picky wants sale.sold_out" in server.log(), 30)
    eventually(lambda: waiting(server) == 1)
    assert [event.type for event in rabbit.events("wins")] == ["order.won"], "what was taken is not sent again"
    with rabbit.channel() as channel:
        channel.queue_bind("wins", "picky", "sale.#")
    eventually(lambda: waiting(server) == 0, 40)
    assert [event.type for event in rabbit.events("wins")] == ["order.won", "sale.sold_out"]
    server.stop()
    with rabbit.channel() as channel:
        channel.queue_unbind("wins", "picky", "sale.#")
    server.flags[server.flags.index(url)] = url + "&mandatory=off"
    server.start()
    shop = Shop(server)
    shop.win(shop.sale(stock=1)["id"], "bob")
    eventually(lambda: waiting(server) == 0 and len(rabbit.events("wins")) == 3)


def test_what_no_queue_wants_keeps_nothing_else_waiting(rabbit, publishing):
    with rabbit.channel() as channel:
        channel.exchange_declare("orders_only", "topic", durable=True)
        channel.queue_declare("orders_only", durable=True)
        channel.queue_bind("orders_only", "orders_only", "order.*")
    heard = lambda: settled(rabbit.events("orders_only"))
    server = publishing(rabbit, url=rabbit.url.replace("exchange=orders", "exchange=orders_only"))
    shop = Shop(server)
    twice, other = shop.sale(stock=1)["id"], shop.sale(stock=5000)["id"]
    shop.win(twice, "ann")
    assert shop.act(twice, "stock", {"add": 1}).status == 200
    shop.win(twice, "bob")
    assert shop.act(twice, "close").status == 200
    eventually(lambda: "no queue of exchange orders_only wants sale.sold_out" in server.log() and waiting(server) == 3, 30)
    shop.win(other, "cat")
    eventually(lambda: len(heard()) == 3, 5)
    for i in range(520):  # more than are handed over together
        shop.win(shop.sale(stock=1)["id"], f"buyer{i}")
    for i in range(10):
        shop.win(other, f"late{i}")
        eventually(lambda i=i: waiting(server) == 523, 5)
    assert len(heard()) == 533 and metric(server, "stampede_publish_failing") == 1
    with rabbit.channel() as channel:
        channel.queue_bind("orders_only", "orders_only", "sale.#")
    eventually(lambda: waiting(server) == 0, 40)
    events = heard()
    in_order(events)
    assert len(events) == 533 + 523 and [event.type for event in events if event.key == f"sale:{twice}"] == 2 * ["sale.sold_out"] + ["sale.closed"]
    eventually(lambda: metric(server, "stampede_publish_failing") == 0)


def test_a_queue_can_be_named_without_an_exchange(rabbit, publishing):
    server = publishing(rabbit, url=f"amqp://{rabbit.user}@127.0.0.1:{rabbit.port}/?routing_key={rabbit.queue}")
    shop = Shop(server)
    shop.win(shop.sale(stock=5)["id"], "ann")
    assert [event.type for event in wait_for(rabbit, 1)] == ["order.won"]


def check(tmp_path, url, password=None, **env):
    conf = tmp_path / "stampede.conf"
    conf.write_text(f"publish = {url}\n" + (f"publish_password_file = {password}\n" if password else ""))
    return run("config", "check", conf, env=env)


def failure(server):
    """What it says at the start, and goes on."""
    eventually(lambda: "nothing is published for now" in server.log(), 30)
    shop = Shop(server)
    shop.win(shop.sale(stock=5)["id"], "ann")
    return next(line for line in server.log().splitlines() if "nothing is published for now" in line)


def wrong_of(broker):
    """URL, password, and a part of the sentence that says what is wrong there."""
    if isinstance(broker, Redis):
        with broker.client() as client:
            client.rpush("alist", "x")
        yield broker.url, "wrong", "Redis at 127.0.0.1 port .* says no to AUTH: WRONGPASS"
        yield broker.url, "", "says no to XLEN: NOAUTH"
        yield broker.url.replace(broker.stream, "alist"), broker.password, "says no to XLEN: WRONGTYPE"
    elif isinstance(broker, Rabbit):
        yield broker.url, "wrong", "RabbitMQ at 127.0.0.1 port .* says no: ACCESS_REFUSED"
        yield broker.url.replace("%2f", "nowhere"), broker.password, "says no: .*vhost 'nowhere'|says no: .*vhost nowhere"
        yield broker.url.replace("=orders", "=missing"), broker.password, "says no: NOT_FOUND - no exchange 'missing'"
        yield broker.url.replace("exchange=orders", "routing_key=missing"), broker.password, "says no: NOT_FOUND - no queue 'missing'"
    else:
        broker.say("missing")
        yield broker.url, "", "Kafka at .* topic orders: Broker: Unknown topic or partition"
    nobody = free_port()
    dead = {Redis: f"redis://127.0.0.1:{nobody}/s", Rabbit: f"amqp://127.0.0.1:{nobody}/?exchange=e", Kafka: f"kafka://127.0.0.1:{nobody}/t"}[type(broker)]
    yield dead, "", f"{nobody}.*: (Connection refused|.*socket error|no broker answers)"


def test_what_is_wrong_is_one_sentence_in_config_check_and_at_the_start(broker, own_server, tmp_path):
    for url, password, says in wrong_of(broker):
        done = check(tmp_path, url, STAMPEDE_PUBLISH_PASSWORD=password)
        assert done.code == 1 and re.search(says, done.out) and done.out.count("\n") == 1, done
        server = own_server("--publish", url, env={"STAMPEDE_PUBLISH_PASSWORD": password})
        assert re.search(says, failure(server))
        server.close()
    if isinstance(broker, Kafka):
        broker.say("there")
    secret = tmp_path / "password"
    secret.write_text(getattr(broker, "password", "unused") + "\n")
    secret.chmod(0o600)
    done = check(tmp_path, broker.url, secret)
    assert done.code == 0 and done.out.endswith(": fine\n"), done
    secret.chmod(0o644)
    done = check(tmp_path, broker.url, secret)
    assert done.code == 1 and "others could read" in done.err, done


@pytest.mark.parametrize("url, says", [("redis://user:hunter2@host/s", "publish_password_file"), ("amqp://host/v", "exchange=NAME"), ("nats://host/s", "it is off"),
                                       ("kafka://host", "the topic")])
def test_a_wrong_url_is_told_before_anything_starts(tmp_path, url, says):
    done = check(tmp_path, url)
    assert done.code == 1 and says in done.out and "line 1" in done.out and "hunter2" not in done.text, done
    done = run("serve", "--data", tmp_path / "data", "--publish", url)
    assert done.code == 2 and says in done.err and "hunter2" not in done.text, done
    assert not (tmp_path / "data").exists()


def test_a_broker_that_takes_nothing_is_left_and_the_server_stops_in_time(own_server):
    """It accepts connections and never says a word."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        port = silent.getsockname()[1]
        for url in (f"redis://127.0.0.1:{port}/s", f"amqp://127.0.0.1:{port}/?exchange=e", f"kafka://127.0.0.1:{port}/t"):
            server = own_server("--publish", url)
            assert "127.0.0.1" in failure(server)
            server.stop()
