"""The Redis protocol: what a backend is promised, asked over plain sockets. Real clients: test_resp_clients.py."""

import os
import random
import signal
import time

import pytest
from harness import Shop, eventually, run, unhurried
from resp import Closed, Error, Peer, command, pairs

SECRET = "correct-horse-battery-staple"
OTHER = "another-secret-of-a-machine"


@pytest.fixture
def peer(server):
    with Peer(server) as one:
        yield one


@pytest.fixture
def accounts(own_server, tmp_path):
    """A server with two accounts, and their file."""
    path = tmp_path / "accounts"
    path.write_text(f"shop {SECRET}\nother {OTHER}\n")
    path.chmod(0o600)
    one = own_server("--resp-accounts", path)
    one.accounts = path
    return one


def fresh(word="sale"):
    return f"{word}-{random.randrange(2 ** 40)}"


def create(peer, stock=5, *options):
    name = fresh()
    sale = peer.ask("SALE.CREATE", name, stock, *options)
    assert not isinstance(sale, Error), sale
    return name, sale


def test_the_ticket_session(peer):
    """doors.md: 1,000 tickets or 5, the same questions and the same answers."""
    name, _ = create(peer, 5, "UNITS", 2)
    asked = [("101", 2, 1), ("101", 2, 0), ("102", 2, 1), ("103", 3, 3), ("103", 2, 2)]
    assert [peer.ask("SECKILL", user, name, units) for user, units, _ in asked] == [want for _, _, want in asked]
    assert peer.ask("SALE.LEFT", name) == 1
    assert peer.ask("SECKILL", "101", name, 3) == 0, "won before comes before the limit per grab"
    assert peer.ask("SECKILL", "104", name, 1) == 1
    assert peer.ask("SECKILL", "105", name, 3) == 3, "the limit comes before not enough"


def test_a_ticket_door_that_is_shut_is_not_there(own_server):
    with Peer(own_server("--door-ticket", "off")) as peer:
        name, _ = create(peer, 5, "UNITS", 2)
        assert "unknown command" in str(peer.ask("SECKILL", "101", name, 1))
        assert peer.ask("SALE.GRAB", name, "101")[0] == "WON" and peer.ask("SALE.LEFT", name) == 4
        listed = peer.ask("COMMAND", "LIST")
        assert "seckill" not in listed and "sale.grab" in listed and peer.ask("COMMAND", "COUNT") == len(listed) == len(peer.ask("COMMAND"))


def test_a_quantity_that_is_none_takes_nothing_and_adds_nothing(peer):
    """A quantity of -100 was accepted and added stock."""
    name, _ = create(peer, 5, "UNITS", 2)
    for units in ("-100", "-1", "0", "", "+1", "0x1", "1.5", "1e0", "two", " 1", "1 ", "4294967296", "9223372036854775807",
                  "9223372036854775808", "18446744073709551615", "18446744073709551616", "99999999999999999999"):
        assert peer.ask("SECKILL", "7", name, units).code == "BAD_INPUT", units
        assert peer.ask("SALE.GRAB", name, "7", units).code == "BAD_INPUT", units
    for units in ("3", "2147483647", "2147483648", "4294967295"):
        assert peer.ask("SECKILL", "7", name, units) == 3
        assert peer.ask("SALE.GRAB", name, "7", units) == ["OVER_LIMIT", None, 5]
    assert peer.ask("SALE.LEFT", name) == 5


@pytest.mark.parametrize("value", ["-1", "", "+5", "0x5", "5.0", " 5", "05", "9223372036854775808", "18446744073709551616", "99999999999999999999"])
def test_every_number_is_strict(peer, value):
    name, sale = create(peer)
    order = peer.ask("SALE.GRAB", sale, "ann")[1]
    for words in (("SALE.CREATE", fresh(), value), ("SALE.CREATE", fresh(), 1, "UNITS", value), ("SALE.CREATE", fresh(), 1, "GRABS", value),
                  ("SALE.CREATE", fresh(), 1, "OPENS", value), ("SALE.CREATE", fresh(), 1, "CLOSES", value),
                  ("SALE.CREATE", fresh(), 1, "PAYWITHIN", value), ("SALE.PAY", order, "r", value)):
        assert peer.ask(*words).code == "BAD_INPUT", words
    if value != "-1":
        assert peer.ask("SALE.STOCK", sale, value).code == "BAD_INPUT"
    for asked in ("SALE.LEFT", "SALE.INFO"):
        assert peer.ask(asked, value).code == "NO_SUCH_SALE"
    assert peer.ask("SALE.ORDER", value).code == "NO_SUCH_ORDER"
    assert peer.ask("SALE.CANCEL", value).code == "NO_SUCH_ORDER"
    assert peer.ask("SALE.PAY", value, "r", 0).code == "NO_SUCH_ORDER"
    assert peer.ask("SALE.LEFT", name) == 4


def test_bounds_of_numbers(peer):
    assert peer.ask("SALE.CREATE", fresh(), 1000000001).code == "BAD_INPUT"
    assert peer.ask("SALE.CREATE", fresh(), 0).code == "BAD_INPUT"
    name, _ = create(peer, 1000000000, "UNITS", 1000000000, "GRABS", 1000000)
    assert peer.ask("SALE.GRAB", name, "ann", 1000000000)[0] == "WON"
    assert peer.ask("SALE.LEFT", name) == 0
    assert peer.ask("SALE.STOCK", name, 0).code == "BAD_INPUT"
    assert peer.ask("SALE.STOCK", name, 1).code == "NOT_AVAILABLE"
    assert peer.ask("SALE.STOCK", name, "-1").code == "NOT_AVAILABLE"


def test_a_grab_answers_verdict_order_and_what_is_left(peer):
    name, sale = create(peer, 2, "GRABS", 2)
    won = peer.ask("SALE.GRAB", name, "ann", 1, "KEY", "k1")
    assert won[0] == "WON" and int(won[1]) > 0 and won[2] == 1
    assert peer.ask("SALE.GRAB", sale, "ann", 1, "KEY", "k1") == ["WON", won[1], 1], "a repeat answers as the first time"
    assert peer.ask("SALE.GRAB", sale, "ann", 2, "KEY", "k1").code == "KEY_REUSED"
    assert peer.ask("SALE.GRAB", sale, "ann", "KEY", "k2")[0] == "WON", "units may be left out"
    again = peer.ask("SALE.GRAB", sale, "ann")
    assert again[0] == "ALREADY_WON" and int(again[1]) >= int(won[1])
    assert peer.ask("sale.grab", sale, "bob") == ["SOLD_OUT", None, 0], "words in any case"
    assert peer.ask("SALE.GRAB", fresh("none"), "bob").code == "NO_SUCH_SALE"
    assert peer.ask("SALE.GRAB", "18446744073709551615", "bob").code == "NO_SUCH_SALE"
    assert peer.ask("SALE.GRAB", sale, "ann", 1, "KEY", "").code == "BAD_INPUT"
    assert peer.ask("SALE.GRAB", sale, "ann", 1, "KEY", "x" * 65).code == "BAD_INPUT"
    assert peer.ask("SALE.GRAB", sale, "ann", 1, "NOKEY", "x").code == "BAD_INPUT"
    for user in ("", "x" * 57, "a\nb", "\x7f", b"\xff\xfe", "a\0b"):
        assert peer.ask("SALE.GRAB", sale, user).code == "BAD_INPUT", user
    assert peer.ask("SALE.GRAB", sale, "x" * 56) == ["SOLD_OUT", None, 0]


def test_states_of_a_sale_are_answers_to_a_grab_and_errors_to_seckill(peer):
    now = int(time.time() * 1000)
    later, _ = create(peer, 1, "OPENS", now + 3600000)
    assert peer.ask("SALE.GRAB", later, "ann") == ["NOT_OPEN", None, 1]
    assert peer.ask("SECKILL", "ann", later, 1).code == "NOT_OPEN"
    over, _ = create(peer, 1, "OPENS", now - 2000, "CLOSES", now - 1000)
    assert peer.ask("SALE.GRAB", over, "ann")[0:2] == ["CLOSED", None]
    assert peer.ask("SECKILL", "ann", over, 1).code == "CLOSED"
    assert peer.ask("SALE.CREATE", fresh(), 1, "OPENS", now, "CLOSES", now).code == "BAD_INPUT"


def test_names_are_of_the_account_and_never_of_digits_alone(peer):
    name, sale = create(peer)
    assert peer.ask("SALE.CREATE", name, 1).code == "NAME_TAKEN"
    assert peer.ask("SALE.CREATE", "12345", 1).code == "BAD_INPUT"
    assert peer.ask("SALE.CREATE", "", 1).code == "BAD_INPUT"
    assert peer.ask("SALE.CREATE", "x" * 129, 1).code == "BAD_INPUT"
    assert peer.ask("SALE.CREATE", fresh(), 1, "UNITS", 1, "units", 2).code == "BAD_INPUT"
    assert peer.ask("SALE.CREATE", fresh(), 1, "UNITS").code == "BAD_INPUT"
    assert peer.ask("SALE.CREATE", fresh(), 1, "COLOUR", 1).code == "BAD_INPUT"
    quoted = "x' OR 'a'='a " + fresh()
    assert int(peer.ask("SALE.CREATE", quoted, 3)) > int(sale)
    assert peer.ask("SALE.GRAB", quoted, "ann")[0] == "WON"
    assert peer.ask("SALE.LEFT", quoted) == 2 and peer.ask("SALE.LEFT", name) == 5


def test_a_name_that_was_changed_means_nothing_any_more(server, peer):
    """The front remembers names that it has looked up."""
    name, sale = create(peer)
    assert peer.ask("SALE.LEFT", name) == 5
    renamed = fresh("renamed")
    client = server.connect()
    assert client.patch(f"/v1/sales/{sale}", {"name": renamed}, server.token("root", "admin")).status == 200
    client.close()
    assert peer.ask("SALE.LEFT", name).code == "NO_SUCH_SALE"
    assert peer.ask("SALE.LEFT", renamed) == 5
    again = peer.ask("SALE.CREATE", name, 9)
    assert int(again) > int(sale) and peer.ask("SALE.LEFT", name) == 9


def test_http_and_resp_sell_from_one_stock(server, peer):
    """A sale of a seller is grabbed by id; counts and lists know the buyer by account and name; it is managed by its seller."""
    shop = Shop(server)
    sale = shop.sale(stock=2)
    assert peer.ask("SALE.GRAB", sale["id"], "ann")[0] == "WON"
    assert peer.ask("SALE.GRAB", sale["name"], "ann").code == "NO_SUCH_SALE", "a name is the account's own"
    assert shop.show(sale["id"])["available"] == 1
    assert peer.ask("SALE.STOCK", sale["id"], 5).code == "NO_SUCH_SALE", "not its seller"
    info = pairs(peer.ask("SALE.INFO", sale["id"]))
    seen = shop.show(sale["id"])
    for field, value in seen.items():
        if field != "now":
            assert info[field] == value or (field == "line" and value is None), field
    assert set(info) == set(seen)
    order = peer.ask("SALE.GRAB", sale["id"], "ann")[1]
    seen = shop.order(order).json()
    assert seen["buyer"] == "default:ann" and pairs(peer.ask("SALE.ORDER", order)) == seen
    assert [one["no"] for one in shop.listed(f"/v1/orders?sale={sale['id']}", shop.seller_token)] == [order]
    shop.close()


def test_nobody_can_register_as_an_account(server):
    """A seller of that name would own the sales of the backend."""
    client = server.connect()
    for role in ("seller", "customer"):
        answer = client.post("/v1/users", {"username": "default", "password": "long enough", "role": role})
        assert answer.status == 409 and answer.code == "USERNAME_TAKEN", answer
    client.close()


@pytest.mark.parametrize("admission", [{"admission": "token"}, {"admission": "line", "line": {"rate_per_s": 1, "size": 10, "timeout_ms": 1000}},
                                       {"admission": "open"}])
def test_a_backend_is_trusted_with_admission(own_server, admission):
    """Through a kill as well: replay must not object to a win without a token."""
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=3, **admission)["id"]
    with Peer(server) as peer:
        won = peer.ask("SALE.GRAB", sale, "ann")
        assert won[0] == "WON"
    shop.close()
    server.restart(kill=True)
    with Peer(server) as peer:
        assert peer.ask("SALE.GRAB", sale, "ann") == ["ALREADY_WON", won[1], 2]
    server.stop()
    assert server.audit().code == 0
    server.start()


def test_blocked_users_are_refused_by_either_name(own_server):
    server = own_server()
    with Peer(server) as peer:
        _, sale = create(peer, 5)
        (server.data / "blocks").write_text("user ann\nuser default:bob\nuser other:cat\n")
        eventually(lambda: isinstance(peer.ask("SALE.GRAB", sale, "ann"), Error) or None)
        for user in ("ann", "bob"):
            assert peer.ask("SALE.GRAB", sale, user).code == "BLOCKED"
            assert peer.ask("SECKILL", user, sale, 1).code == "BLOCKED"
        assert peer.ask("SALE.GRAB", sale, "cat")[0] == "WON"


def test_orders_are_paid_cancelled_and_expire(peer):
    name, sale = create(peer, 5, "PAYWITHIN", 3600, "GRABS", 5)
    one, two = (peer.ask("SALE.GRAB", name, "ann")[1] for _ in range(2))
    held = pairs(peer.ask("SALE.ORDER", one))
    assert held["state"] == "held" and held["sale"] == sale and held["buyer"] == "default:ann" and held["pay_by"]
    assert peer.ask("SALE.PAY", one, "ref-1", 5).code == "AMOUNT_MISMATCH"
    paid = pairs(peer.ask("SALE.PAY", one, "ref-1", 0))
    assert paid["state"] == "paid"
    assert pairs(peer.ask("SALE.PAY", one, "ref-1", 0)) == paid, "the same payment again is the same answer"
    assert peer.ask("SALE.PAY", one, "ref-2", 0).code == "ALREADY_PAID"
    assert peer.ask("SALE.CANCEL", one).code == "NOT_HELD"
    assert pairs(peer.ask("SALE.CANCEL", two))["state"] == "cancelled"
    assert peer.ask("SALE.LEFT", name) == 4
    assert pairs(peer.ask("SALE.PAY", two, "ref-3", 0))["state"] == "refund_due"
    assert peer.ask("SALE.PAY", one, "", 0).code == "BAD_INPUT"
    short, _ = create(peer, 1, "PAYWITHIN", 1)
    assert peer.ask("SALE.GRAB", short, "ann")[0] == "WON"
    assert eventually(lambda: peer.ask("SALE.LEFT", short) == 1 or None)


def test_what_memory_has_let_go_of_is_answered_by_the_ledger(peer):
    def won_before(closes_in_s):
        name, sale = create(peer, 5, "CLOSES", int((time.time() + closes_in_s) * 1000))
        won = peer.ask("SALE.GRAB", name, "ann", 1, "KEY", "k")
        assert won[0] == "WON", won
        return name, sale, won
    name, sale, won = unhurried(won_before)
    eventually(lambda: pairs(peer.ask("SALE.INFO", sale))["state"] == "closed")
    assert peer.ask("SALE.GRAB", name, "bob")[0] == "CLOSED"
    time.sleep(1.0)  # filed and forgotten by now, or not yet: the answers are the same
    asked = [("SALE.GRAB", name, "ann", 1, "KEY", "k"), ("SALE.ORDER", won[1]), ("SALE.LEFT", sale), ("SALE.GRAB", name, "bob"),
             ("SALE.CANCEL", won[1]), ("SALE.GRAB", name, "ann", 2, "KEY", "k"), ("PING",), ("SALE.PAY", won[1], "r", 0), ("SALE.INFO", sale)]
    got = peer.pipeline(asked)
    assert got[0][:2] == ["WON", won[1]]
    assert pairs(got[1])["buyer"] == "default:ann" and got[2] == 4
    assert got[3][:2] == ["CLOSED", None]
    assert [got[4].code, got[5].code, got[6], got[7].code] == ["NOT_HELD", "KEY_REUSED", "PONG", "ALREADY_PAID"]
    assert pairs(got[8])["state"] == "closed"


def test_replies_of_a_pipeline_come_in_order(peer):
    name, _ = create(peer, 300)
    commands, wants = [], []
    for i in range(1000):
        commands += [("SALE.GRAB", name, f"u{i % 500}"), ("ECHO", i)]
        wants += ["WON" if i < 300 else "SOLD_OUT" if i < 500 or i >= 800 else "ALREADY_WON", str(i)]
    got = peer.pipeline(commands)
    assert [reply[0] if isinstance(reply, list) else reply for reply in got] == wants
    numbers = [int(reply[1]) for reply in got[:600:2]]
    assert numbers == sorted(set(numbers)), "orders in the order of the pipeline"


def test_a_command_sees_what_the_one_before_it_did(peer):
    name = fresh()
    got = peer.pipeline([("SALE.CREATE", name, 2, "PAYWITHIN", 60), ("SALE.GRAB", name, "ann"), ("SALE.LEFT", name), ("SALE.STOCK", name, -1),
                         ("SALE.GRAB", name, "bob")])
    assert got[1][0] == "WON" and got[2:4] == [1, 0] and got[4] == ["SOLD_OUT", None, 0]


def metrics(server):
    client = server.connect()
    text = client.get("/metrics").body.decode()
    client.close()
    return text


@pytest.mark.parametrize("bytes_", [b"*33\r\n", b"*1000000000\r\n", b"*99999999999999999999\r\n", b"*-99999999999\r\n", b"*1\r\n$16385\r\n", b"*1\r\n$4294967296\r\n",
                                    b"*1\r\n$-1\r\n", b"*1\r\n*1\r\n$4\r\nPING\r\n", b"*2\r\n$4\r\nECHO\r\n*0\r\n", b"*1\r\n:1\r\n", b"*+1\r\n",
                                    b"*1\r\n$4\r\nPINGXX", b"*1 \r\n", b"*x\r\n", b"*1\n$4\nPING\n", b"ECHO 'open\r\n", b"x" * 17000,
                                    b"*2\r\n$4\r\nECHO\r\n$16000\r\n" + b"x" * 16000 + b"\r\n" + b"*1\r\n$99999\r\n"])
def test_what_is_no_command_is_said_and_ends_the_connection(server, bytes_):
    with Peer(server) as one:
        one.send(command("PING") + bytes_)
        got = one.rest()
        assert got.startswith(b"+PONG\r\n") and b"-ERR Protocol error" in got and got.count(b"-ERR") == 1, got[:200]


@pytest.mark.parametrize("head", [b"POST / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"host: 127.0.0.1\r\n", command("POST", "/", "HTTP/1.1")])
def test_a_request_of_http_is_no_way_to_bring_commands(server, head):
    """A website could make the browser of somebody at this machine send one, with commands for a body."""
    name = fresh("smuggled")
    with Peer(server) as one:
        one.send(head + b"Content-Type: text/plain\r\n\r\n" + b"SALE.CREATE " + name.encode() + b" 5\r\nQUIT\r\n")
        got = one.rest()
        assert got.endswith(b"\r\n") and b"-ERR Protocol error: this is HTTP" in got.splitlines()[-1], got
    with Peer(server) as one:
        assert one.ask("SALE.LEFT", name).code == "NO_SUCH_SALE"


def test_a_request_of_http_ends_the_connection_of_a_stranger(accounts):
    with Peer(accounts) as one:
        one.send(b"POST / HTTP/1.1\r\nQUIT\r\n")
        got = one.rest()
        assert got.count(b"-") == 1 and got.startswith(b"-ERR Protocol error: this is HTTP"), got


def test_the_largest_command_is_served(peer):
    text = "x" * 16000
    assert peer.ask("ECHO", text) == text
    assert peer.pipeline([("ECHO", text)] * 200) == [text] * 200
    assert peer.ask("NONSENSE", *["a"] * 31).code == "ERR"


def test_who_is_unknown_may_do_nothing_until_he_has_said_the_password(accounts):
    with Peer(accounts) as one:
        for words in (("PING",), ("SALE.LEFT", "1"), ("SALE.CREATE", "x", 1), ("INFO",), ("COMMAND",), ("CLIENT", "LIST"), ("nonsense",)):
            assert one.ask(*words).code == "NOAUTH", words
        assert one.ask("HELLO", 3).code == "NOAUTH"
        assert one.ask("AUTH", "shop", SECRET) == "OK"
        assert one.ask("PING") == "PONG"
        assert one.ask("RESET") == "RESET"
        assert one.ask("PING").code == "NOAUTH"
        assert one.ask("HELLO", 3, "AUTH", "other", OTHER, "SETNAME", "me")["proto"] == 3
        assert one.ask("CLIENT", "GETNAME") == "me"
    for bytes_ in (b"*9\r\n", b"*2\r\n$4\r\nAUTH\r\n$1024\r\n", b"x" * 1100):
        with Peer(accounts) as one:
            one.send(bytes_)
            assert b"-ERR Protocol error" in one.rest(), bytes_


def test_accounts_are_apart(accounts):
    with Peer(accounts) as shop, Peer(accounts) as other:
        assert shop.ask("AUTH", "shop", SECRET) == "OK" and other.ask("AUTH", "other", OTHER) == "OK"
        mine = shop.ask("SALE.CREATE", "tickets", 5, "PAYWITHIN", 60)
        theirs = other.ask("SALE.CREATE", "tickets", 9)
        assert mine != theirs, "two sellers with the same name shared one stock"
        assert shop.ask("SALE.LEFT", "tickets") == 5 and other.ask("SALE.LEFT", "tickets") == 9
        order = shop.ask("SALE.GRAB", "tickets", "ann")[1]
        assert other.ask("SALE.ORDER", order).code == "NO_SUCH_ORDER"
        assert other.ask("SALE.PAY", order, "r", 0).code == "NO_SUCH_ORDER"
        assert other.ask("SALE.CANCEL", order).code == "NO_SUCH_ORDER"
        assert other.ask("SALE.STOCK", mine, 1).code == "NO_SUCH_SALE"
        bought = other.ask("SALE.GRAB", mine, "ann")
        assert bought[0] == "WON", "anyone's sale may be grabbed, and ann of one backend is not ann of the other"
        assert pairs(other.ask("SALE.ORDER", bought[1]))["buyer"] == "other:ann"
        assert pairs(shop.ask("SALE.CANCEL", bought[1]))["state"] == "cancelled", "its seller may"
        assert shop.ask("SALE.LEFT", mine) == 4


def test_guessing_passwords_is_slow_and_bounded(accounts):
    refused, tries = 0, 0
    for _ in range(20):
        with Peer(accounts) as one:
            for _ in range(3):
                try:
                    said = one.ask("AUTH", "shop", "wrong-password-of-length")
                except Closed:
                    break
                assert said.code in ("WRONGPASS", "TOO_MANY_TRIES"), said
                refused += said.code == "TOO_MANY_TRIES"
                tries += said.code == "WRONGPASS"
            with pytest.raises((Closed, BrokenPipeError, ConnectionResetError)):
                for _ in range(3):
                    one.ask("PING")
                    time.sleep(0.05)
    assert 1 <= tries <= 10 and refused > 5, (tries, refused)
    with Peer(accounts) as one:
        assert one.ask("AUTH", "other", OTHER) == "OK", "other accounts are not hindered"


def test_a_stranger_is_not_waited_for(accounts):
    with Peer(accounts, timeout=30) as one:
        one.send(b"*2\r\n$4\r\nAUTH\r\n")
        began = time.monotonic()
        one.rest()
        assert time.monotonic() - began < 60


def test_accounts_are_read_again_at_sighup(accounts):
    with Peer(accounts) as shop, Peer(accounts) as other:
        assert shop.ask("AUTH", "shop", SECRET) == "OK" and other.ask("AUTH", "other", OTHER) == "OK"
        accounts.accounts.write_text(f"shop {SECRET}\nthird {OTHER}\n")
        os.kill(accounts.pid, signal.SIGHUP)
        eventually(lambda: isinstance(other.ask("PING"), Error) or None)
        assert other.ask("PING").code == "NOAUTH" and shop.ask("PING") == "PONG"
        assert other.ask("AUTH", "third", OTHER) == "OK"
        accounts.accounts.write_text("nonsense\n")
        os.kill(accounts.pid, signal.SIGHUP)
        eventually(lambda: "stay as they were" in accounts.log() or None)
        assert shop.ask("PING") == "PONG"


@pytest.mark.parametrize("resp", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
def test_without_passwords_only_this_machine_is_served(tmp_path, resp):
    done = run("serve", "--data", tmp_path / "data", "--http", "127.0.0.1:0", "--resp", resp)
    assert done.code == 2 and "resp_accounts" in done.text, done


def test_a_file_of_passwords_that_others_may_read_is_refused(tmp_path):
    path = tmp_path / "accounts"
    path.write_text(f"shop {SECRET}\n")
    path.chmod(0o644)
    done = run("serve", "--data", tmp_path / "data", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--resp-accounts", path)
    assert done.code in (1, 2) and "0600" in done.text and SECRET not in done.text, done


def test_it_can_be_off(own_server):
    server = own_server("--resp", "off")
    assert server.resp_port is None and "resp=" not in server.said


def test_a_peer_that_does_not_read_is_held_at_a_bound(own_server):
    """It is asked no more, and costs little; others are served meanwhile."""
    server = own_server()
    with Peer(server) as greedy, Peer(server) as other:
        assert other.ask("PING") == "PONG"
        before = server.memory_kb()
        greedy.sock.setblocking(False)
        piece, sent = command("ECHO", "x" * 8000) * 20, 0
        end = time.monotonic() + 3
        while time.monotonic() < end:
            try:
                sent += greedy.sock.send(piece[sent % len(piece):])
            except BlockingIOError:
                time.sleep(0.01)
        assert server.memory_kb() - before < 4096
        assert sent < 64 << 20
        assert other.ask("PING") == "PONG"


def test_an_end_of_input_is_answered_first(server):
    with Peer(server) as one:
        name, _ = create(one, 3)
        one.send(command("SALE.GRAB", name, "ann") + command("PING"))
        one.sock.shutdown(1)
        assert one.reply()[0] == "WON" and one.reply() == "PONG"
        assert one.rest() == b""


def test_sigterm_answers_what_is_under_way(own_server):
    server = own_server()
    peers = [Peer(server) for _ in range(8)]
    name, _ = create(peers[0], 100000)
    for number, peer in enumerate(peers):
        peer.send(b"".join(command("SALE.GRAB", name, f"{number}-{i}") for i in range(200)))
    time.sleep(0.05)
    server.stop()
    for peer in peers:
        text = peer.rest()
        assert text.count(b"WON") == text.count(b"*3\r\n") and text.endswith(b"\r\n"), text[-100:]
        peer.close()
    assert server.audit().code == 0
    server.start()


def test_grabs_are_counted_like_any_other(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=2)["id"]
    with Peer(server) as peer:
        peer.pipeline([("SALE.GRAB", sale, user) for user in ("ann", "bob", "cat", "dan", "ann")])
        peer.ask("nonsense")
        text = metrics(server)
        assert 'stampede_grabs_total{verdict="WON"} 2' in text and 'stampede_grabs_total{verdict="SOLD_OUT"} 2' in text
        assert 'stampede_resp_commands_total{command="sale.grab"} 5' in text
        assert 'stampede_resp_commands_total{command="unknown"} 1' in text and "stampede_resp_connections 1" in text
    stats = shop.client.get(f"/v1/sales/{sale}/stats", shop.seller_token).json()
    counted = {word: count for word, count in stats["verdicts"].items() if count}
    assert counted == {"WON": 2, "SOLD_OUT": 2, "ALREADY_WON": 1}, stats
    shop.close()
