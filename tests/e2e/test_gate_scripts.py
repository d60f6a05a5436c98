"""The decisions inside Redis, verdict by verdict, as src/gate/scripts.h promises them; who decides on one machine is the measure."""

import re
import subprocess

import pytest
import redis
from gate_scripts import CANCELLED, EXPIRED, GRABS_MAX, GRAB_WORDS, HEADER, HELD, KEYS, LOG_FIELDS, NUMBERS, PAID, REFUND_DUE, RUN, SCRIPTS, T0, Gate, GateSale, Order, connect, refused
from redis_servers import RedisServer

@pytest.fixture(scope="module")
def gate():
    with RedisServer() as server:
        yield Gate(connect(server))


def words(sale, *grabs):
    return [sale.grab(**grab)[0] for grab in grabs]


def test_header_and_scripts_name_the_same():
    listed = set(re.findall(r"ROW\([A-Z]+, (\w+)\)", HEADER.read_text()))
    assert listed == {path.stem for path in (HEADER.parent / "scripts").glob("*.lua")}
    assert {path.stem for path in SCRIPTS.glob("*.lua")} == {path.stem for path in HEADER.parents[1].glob("*/scripts/*.lua")}
    assert len(NUMBERS) == 20 and len(LOG_FIELDS) == 4


def test_a_part_or_bound_that_is_not_there_stops_the_build(tmp_path):
    join = HEADER.parents[2] / "tools" / "lua-join"
    for text in ("--@include nothing\n", "local x = @NO_SUCH_BOUND@\n"):
        (tmp_path / "x.lua").write_text(text)
        done = subprocess.run([join, tmp_path / "x.lua"], capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "x.lua" in done.stderr


def test_a_win_is_complete(gate):
    sale = GateSale(gate)
    no = str(2 ** 63 - 1)
    answer = sale.grab("ann", 2, "k1", no)
    assert answer[:4] == ["WON", T0, 8, 1] and answer[5] == no
    order = Order(no, HELD, 2, 1998, T0, T0 + 600_000, "0", "ann", "k1", "")
    assert Order.of(*answer[5:]) == order == sale.order(no)
    assert sale.log() == [{"kind": "won", "epoch": "1", "at": str(T0), "no": no, "order": answer[6]}]
    assert sale.redis.xrange(sale.keys[6])[0][0] == answer[4]
    assert sale.redis.zrange(sale.keys[5], 0, -1, withscores=True) == [(no, T0 + 600_000)]
    assert sale.redis.hgetall(sale.keys[1]) == {"ann": f"1 0 {no}"}
    assert sale.counts() == (10, 8, 2, 0) and sale.peek()["orders_made"] == 1


def test_a_sale_without_time_to_pay_sells_at_once(gate):
    sale = GateSale(gate, pay_within=0, price=-1)
    order = sale.win()
    assert (order.state, order.amount, order.pay_by) == (PAID, -1, 0) and sale.counts() == (10, 9, 0, 1)
    assert sale.peek()["holds"] == 0


def test_grab_verdicts_come_in_the_order_of_the_engine(gate):
    """Each row takes away the reason that was first."""
    sale = GateSale(gate, admission=2, offered=1, grabs_max=1, closes=T0 + 10, opens=T0 + 5, paused=1, units_max=1)
    sale.at(T0 + 10)
    assert sale.grab(units=2)[0] == "CLOSED"
    sale.at(T0 + 4)
    assert sale.grab(units=2)[0] == "NOT_OPEN"
    sale.at(T0 + 5)
    assert sale.grab(units=2)[0] == "PAUSED"
    assert sale.change(paused=0)[0] == "DONE"
    assert sale.grab(units=2)[0] == "TOKEN_REQUIRED"
    assert sale.grab(units=2, flags="b")[0] == "TOKEN_INVALID"
    assert sale.grab(units=2, nonce="7")[0] == "TOKEN_INVALID", "nobody was given it"
    nonce = sale.token()[3]
    assert sale.grab("bob", units=2, nonce=nonce)[0] == "TOKEN_INVALID", "somebody else's"
    assert sale.grab(units=2, nonce=nonce)[0] == "OVER_LIMIT"
    assert sale.grab(units=1, nonce=nonce, flags="a")[0] == "BUSY"
    assert sale.grab(units=1, nonce=nonce)[:4] == ["WON", T0 + 5, 0, 0]
    assert sale.grab(units=1, nonce=nonce)[0] == "TOKEN_INVALID", "it is spent"
    answer = sale.grab(units=1, flags="t")
    assert answer[0] == "ALREADY_WON" and Order.of(*answer[5:]).buyer == "ann"
    assert sale.grab("bob", flags="t")[0] == "SOLD_OUT"
    assert sale.grab("bob", flags="ta")[0] == "SOLD_OUT"
    assert sale.grab("bob", units=2, flags="t")[0] == "OVER_LIMIT"
    sale.at(T0 + 10)
    assert sale.grab(flags="t")[0] == "CLOSED"
    assert sale.grab(flags="tw")[0] == "ALREADY_WON", "looked at first"
    assert sale.grab("bob", flags="tw")[0] == "CLOSED"


def test_a_line_asks_for_no_token_but_spends_one(gate):
    sale = GateSale(gate, admission=3)
    assert words(sale, {}, {"flags": "b"}, {"nonce": "5"}) == ["WON", "TOKEN_INVALID", "TOKEN_INVALID"]
    nonce = sale.token(admission=3)[3]
    assert sale.win(nonce=nonce).nonce == nonce and sale.peek()["tokens"] == 0


def test_other_admissions_look_at_no_token(gate):
    sale = GateSale(gate, admission=1)
    assert sale.win(nonce="5", flags="b").nonce == "0"


def test_a_key_is_found_before_anything_else(gate):
    sale = GateSale(gate, grabs_max=1)
    order = sale.win("ann", 2, "k")
    sale.at(T0 + 10 ** 10)
    answer = sale.grab("ann", 2, "k")
    assert answer[0] == "REPEATED" and Order.of(*answer[5:]) == order
    assert sale.grab("ann", 1, "k")[0] == "KEY_REUSED"
    assert sale.grab("bob", 2, "k")[0] == "CLOSED", "another buyer's key is another key"
    assert sale.cancel(order.no)[0] == "DONE"
    assert Order.of(*sale.grab("ann", 2, "k")[5:]).state == CANCELLED, "told as it now is"


def test_names_and_keys_do_not_run_into_each_other(gate):
    sale = GateSale(gate)
    sale.win("ab", 1, "c")
    assert sale.grab("a", 1, "bc")[0] == "WON"
    sale.win("\udcff\udcfe", 1, "1 2 3 ")
    assert sale.grab("\udcff\udcfe", 1, "1 2 3 ")[0] == "REPEATED"
    strange = sale.win("9 9 9", 1, " 1 ")
    assert (strange.buyer, strange.key) == ("9 9 9", " 1 ")


def test_a_number_asked_again_takes_nothing(gate):
    sale = GateSale(gate, grabs_max=1)
    no = sale.next_no()
    first = sale.grab("ann", 2, "", no)
    before = sale.everything()
    again = sale.grab("ann", 2, "", no)
    assert again[:3] == first[:3] and again[3] == 0 and again[4] == "" and again[5:] == first[5:] and sale.everything() == before
    for other in (("bob", 2, ""), ("ann", 1, ""), ("ann", 2, "k")):
        assert sale.grab(*other, no)[0] == "NUMBER_TAKEN", other
    assert sale.everything() == before
    assert sale.grab("ann")[0] == "ALREADY_WON"


def test_a_number_asked_again_after_a_key_is_the_win(gate):
    sale = GateSale(gate)
    no = sale.next_no()
    sale.grab("ann", 1, "k", no)
    assert sale.grab("ann", 1, "k", no)[0] == "WON"
    assert sale.grab("ann", 1, "k")[0] == "REPEATED"


def test_the_nameless_get_names_in_open_sales(gate):
    sale = GateSale(gate, admission=0, grabs_max=1)
    assert [sale.win("").buyer for _ in range(2)] == ["claim:1", "claim:2"]
    no = sale.next_no()
    first = sale.grab("", no=no)
    assert sale.grab("", no=no)[4:] == ["", *first[5:]] and sale.counts()[1] == 7, "found by its number, not by a name"
    keyed = sale.win("", 1, "k")
    assert keyed.buyer == "key:k" and sale.grab("", 1, "k")[0] == "REPEATED"
    long = sale.win("", 1, "x" * 64, made="cut:" + "x" * 44 + "0" * 16)
    assert long.buyer.startswith("cut:") and sale.grab("", 1, "x" * 64, made=long.buyer)[0] == "REPEATED"
    for name in ("claim:1", "claim:99", "key:k", "cut:x"):
        assert sale.grab(name) == ["BAD_INPUT"], name
    assert sale.grab("claimant")[0] == "WON"
    for made in ("", "ann", "claim:7", "cut:" + "x" * 61, "key:\0"):
        assert sale.grab("", 1, "other", made=made) == ["BAD_INPUT"], made


def test_the_nameless_are_busy_where_names_are_wanted(gate):
    assert [GateSale(gate, admission=admission).grab("", 1, "k")[0] for admission in (1, 2, 3)] == ["BUSY"] * 3
    assert GateSale(gate, admission=1).grab("claim:1")[0] == "WON", "a name like any other there"


def test_who_gives_back_too_often_wins_no_more(gate):
    sale = GateSale(gate)
    for _ in range(16):
        assert sale.cancel(sale.win().no)[0] == "DONE"
    assert sale.grab()[0] == "TOO_MANY_RETURNS" and sale.grab("bob")[0] == "WON"
    assert sale.grab(units=10)[0] == "OVER_LIMIT"


def test_sold_out_is_by_units(gate):
    sale = GateSale(gate, offered=3, units_max=10)
    assert words(sale, {"units": 4}, {"units": 3}, {"buyer": "bob"}) == ["SOLD_OUT", "WON", "SOLD_OUT"]
    assert sale.grab("cat")[:3] == ["SOLD_OUT", T0, 0]


def test_token_verdicts(gate):
    sale = GateSale(gate, admission=2, offered=2, grabs_max=1, tokens_max=2, closes=T0 + 100)
    assert sale.token(admission=3)[0] == "NO_TOKENS_NEEDED"
    assert GateSale(gate, admission=1).token()[0] == "NO_TOKENS_NEEDED"
    first = sale.token(nonce="77")
    assert first[:4] == ["DONE", T0, 2, "77"]
    assert sale.log() == [{"kind": "token_given", "epoch": "1", "at": str(T0), "no": "77", "buyer": "ann"}]
    assert sale.token()[0::3] == ["REPEATED", "77"] and sale.token(before="77")[0::3] == ["REPEATED", "77"]
    assert sale.token(before="78")[0] == "TOKEN_INVALID" and sale.token("bob", before="77")[0] == "TOKEN_INVALID"
    assert sale.token("bob")[0] == "DONE" and sale.token("cat")[0] == "NO_TOKENS_LEFT"
    order = sale.win(nonce="77")
    won = sale.token()
    assert won[0] == "ALREADY_WON" and Order.of(*won[5:]) == order
    assert sale.grab("bob", nonce=sale.token("bob")[3])[0] == "WON"
    assert sale.token("cat")[0] == "SOLD_OUT"
    sale.at(T0 + 100)
    assert sale.token("bob")[0] == "CLOSED" and sale.peek()["tokens_given"] == 2


def test_payment_verdicts(gate):
    sale = GateSale(gate)
    order = sale.win()
    assert sale.pay("1")[0] == "NO_SUCH_ORDER"
    for amount in (0, -1, 998, 1998):
        assert sale.pay(order.no, amount=amount)[0] == "AMOUNT_MISMATCH"
    done = sale.pay(order.no)
    assert done[:5] == ["DONE", T0, 9, "", ""]
    paid = Order.of(*done[5:])
    assert (paid.state, paid.ref) == (PAID, "p1") and sale.counts() == (10, 9, 0, 1) and sale.peek()["holds"] == 0
    assert len(sale.log()) == 1
    assert sale.pay(order.no)[0] == "REPEATED" and sale.pay(order.no, "p2")[0] == "ALREADY_PAID"
    assert sale.pay(order.no, "p2", amount=5)[0] == "AMOUNT_MISMATCH"
    assert sale.cancel(order.no)[0] == "NOT_HELD" and sale.expire(order.no)[3] == "NOT_HELD"
    assert sale.undo(order.no)[0] == "NOT_HELD"


def test_an_order_paid_at_once_takes_no_payment(gate):
    sale = GateSale(gate, pay_within=0, price=-1)
    order = sale.win()
    assert sale.pay(order.no, amount=-1)[0] == "ALREADY_PAID" and sale.pay(order.no, amount=0)[0] == "AMOUNT_MISMATCH"


def late(gate, **fields):
    """A sale with an order that has expired."""
    sale = GateSale(gate, grabs_max=1, offered=2, **fields)
    order = sale.win()
    sale.at(order.pay_by)
    assert sale.expire(order.no) == ["DONE", order.pay_by, 2, "DONE"]
    return sale, order


def test_a_late_payment_is_taken_again_or_refunded(gate):
    sale, order = late(gate)
    done = sale.retake(order.no)
    assert done[0] == "DONE" and Order.of(*done[5:]).state == PAID and sale.counts() == (2, 1, 0, 1)
    assert sale.grab()[0] == "ALREADY_WON"
    assert sale.log()[-1] == {"kind": "retaken", "epoch": "1", "at": str(order.pay_by), "no": order.no, "units": "1", "ref": "p1"}

    sale, order = late(gate, late_payment=1)
    refused(sale, "retake", (order.no, "p1", 999), "REFUND_DUE")
    assert sale.pay(order.no)[0] == "NOT_HELD", "there is nothing to pay for"
    done = sale.pay(order.no, kind="refund_due")
    assert done[0] == "DONE" and Order.of(*done[5:]).state == REFUND_DUE and sale.counts() == (2, 2, 0, 0)
    assert sale.pay(order.no)[0] == "REPEATED" and sale.pay(order.no, "p2")[0] == sale.retake(order.no, "p2")[0] == "ALREADY_PAID"

    sale, order = late(gate)
    sale.win("ann")
    assert sale.retake(order.no)[0] == "REFUND_DUE", "the buyer has won another since"

    sale, order = late(gate)
    sale.win("bob")
    assert sale.retake(order.no)[0] == "DONE", "the last one"

    sale, order = late(gate)
    sale.win("bob"), sale.win("cat")
    assert sale.retake(order.no)[0] == "REFUND_DUE", "nothing is left"

    sale, order = late(gate)
    sale.at(T0 + 10 ** 9)
    assert sale.retake(order.no)[0] == "REFUND_DUE", "the sale is closed"

    sale = GateSale(gate)
    order = sale.win()
    sale.cancel(order.no)
    assert sale.retake(order.no)[0] == "REFUND_DUE" and sale.pay(order.no, kind="refund_due")[0] == "DONE"


def test_retake_takes_or_leaves_all_as_it_was(gate):
    sale, order = late(gate)
    assert sale.retake(order.no, amount=1)[0] == "AMOUNT_MISMATCH" and sale.retake("5")[0] == "NO_SUCH_ORDER"
    assert sale.retake(order.no)[0] == "DONE" and sale.retake(order.no)[0] == "REPEATED" and sale.retake(order.no, "p2")[0] == "ALREADY_PAID"
    assert sale.undo(order.no, "p2", "retake")[0] == "NOT_HELD"
    assert sale.undo(order.no, "p1", "retake")[0] == "DONE" and sale.order(order.no).state == EXPIRED and sale.counts() == (2, 2, 0, 0)
    assert sale.redis.hget(sale.keys[1], "ann") == "0 1 0"
    assert sale.retake(order.no)[0] == "DONE"
    sale = GateSale(gate)
    refused(sale, "retake", (sale.win().no, "p1", 999), "NOT_EXPIRED")


def test_what_the_ledger_has_decided_is_done_without_a_word_in_the_log(gate):
    sale = GateSale(gate, log_max=3, offered=5, grabs_max=5)
    one, two, three = sale.win(), sale.win(), sale.win()
    assert sale.grab()[0] == "FULL"
    assert sale.pay(one.no)[0:5:4] == ["DONE", ""]
    assert sale.cancel(two.no)[0] == "DONE" and sale.expire(three.no)[3] == "DONE", "it is not due: the ledger says so"
    assert sale.pay(two.no)[0] == "NOT_HELD" and sale.pay(two.no, kind="refund_due")[0] == "DONE"
    assert sale.restock(2, filed=1)[0] == "DONE" and sale.change(paused=1)[0] == "DONE"
    assert len(sale.log()) == 3 and sale.counts() == (7, 6, 0, 1)
    sale.change(closed=1)
    assert sale.restock(1, filed=1)[0] == "DONE" and sale.restock(1)[0] == "CLOSED"


def test_grabs_of_one_call_are_decided_one_after_the_other(gate):
    """What one takes the next finds taken: units, the buyer, the key, the number, the place in the log. What one is refused stops no other."""
    sale = GateSale(gate, offered=4, grabs_max=1, log_max=3)
    ann, bob, cat, bad = (sale.grab_words(name, key=key) for name, key in (("ann", "k"), ("bob", ""), ("cat", ""), ("x\0", "")))
    taken = sale.grab_words("dan", no=bob[0])
    got = sale.grabs(ann, bad, sale.grab_words("ann", key="k"), sale.grab_words("ann"), sale.grab_words("ann", 2, "k"), ann, sale.grab_words("eve", 4), bob, taken, cat,
                     sale.grab_words("fay"), sale.grab_words("fay", 9))
    words = ["WON", "BAD_INPUT", "REPEATED", "ALREADY_WON", "KEY_REUSED", "WON", "SOLD_OUT", "WON", "NUMBER_TAKEN", "WON", "FULL", "OVER_LIMIT"]
    assert [answer[0] for answer in got] == words and got[1] == ["BAD_INPUT"]
    assert [answer[2] for answer in got if len(answer) > 1] == [3, 3, 3, 3, 3, 3, 2, 2, 1, 1, 1]
    assert got[0][5:] == got[2][5:] == got[3][5:] == got[5][5:] and got[0][4] and got[5][4] == "", "the same order, with one entry"
    assert sale.counts() == (4, 1, 3, 0) and sorted(sale.orders()) == sorted(entry["no"] for entry in sale.log()) == sorted((ann[0], bob[0], cat[0]))
    assert sorted(sale.redis.zrange(sale.keys[5], 0, -1)) == sorted((ann[0], bob[0], cat[0])) and sale.peek()["orders_made"] == 3


def test_claims_of_one_call_are_numbered_on(gate):
    sale = GateSale(gate, admission=0, grabs_max=1, orders_made=2, log_max=99)
    buyers = lambda count: [Order.of(*answer[5:]).buyer for answer in sale.grabs(*(sale.grab_words("") for _ in range(count)))]
    assert buyers(3) == ["claim:3", "claim:4", "claim:5"]
    sale.redis.hset(sale.keys[0], "claimed", 70)
    assert buyers(2) == ["claim:71", "claim:72"] and sale.raw("state", "claimed") == b"72"
    assert buyers(1) == ["claim:73"]


def test_a_call_has_at_least_one_grab_and_at_most_so_many_and_each_has_all_its_words(gate):
    sale = GateSale(gate, offered=99, units_max=1, grabs_max=1)
    several = [sale.grab_words(f"b{i}") for i in range(GRABS_MAX + 1)]
    assert {len(words) for words in several} == {GRAB_WORDS}
    for words in ((), several[0][:-1], [*several[0], "x"], sum(several, []), sum(several, [])[:-1]):
        refused(sale, "grab", words)
    assert [answer[0] for answer in sale.grabs(*several[:-1])] == ["WON"] * GRABS_MAX


def test_a_damaged_sale_refuses_all_grabs_of_a_call_and_writes_nothing(gate):
    sale = GateSale(gate)
    sale.poke(available=11)
    before = sale.everything()
    assert sale.grabs(sale.grab_words("ann"), sale.grab_words("bob"))[0] == "DAMAGED" and sale.everything() == before


def test_what_cannot_be_read_stops_no_other_grab_of_a_call(gate):
    sale = GateSale(gate, offered=9, grabs_max=2)
    old = sale.win("cat")
    sale.redis.hset(sale.keys[1], "bad", "garbage")
    sale.redis.hset(sale.keys[2], old.no, "1 garbage")
    got = sale.grabs(*(sale.grab_words(buyer) for buyer in ("ann", "bad", "bob")), sale.grab_words("cat", no=old.no), sale.grab_words("dan"))
    assert [answer[0] for answer in got] == ["WON", "DAMAGED", "WON", "DAMAGED", "WON"]
    assert sale.counts() == (9, 5, 4, 0) and len(sale.log()) == 4 and sale.redis.hget(sale.keys[1], "bad") == "garbage"


@pytest.mark.parametrize("name, admission, pays", [("buyers", 1, 0), ("orders", 1, 0), ("keys", 1, 0), ("tokens", 2, 0), ("holds", 1, 600), ("log", 1, 0)])
def test_a_key_of_another_kind_fails_a_call_before_anything_is_written(gate, name, admission, pays):
    sale = GateSale(gate, admission=admission, pay_within=pays)
    assert admission != 2 or sale.token("eve", nonce="77")[0] == "DONE"
    key = sale.keys[KEYS.index(name)]
    sale.redis.delete(key)
    sale.redis.set(key, "x")
    standing = lambda: [sale.redis.execute_command("DUMP", one) for one in sale.keys]
    before = standing()
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        sale.grabs(sale.grab_words("ann", flags="t"), sale.grab_words("bob", key="k", flags="t"), sale.grab_words("eve", nonce="77"))
    assert standing() == before


def test_cancel_verdicts(gate):
    sale = GateSale(gate, grabs_max=5)
    order = sale.win()
    assert sale.cancel("5")[0] == "NO_SUCH_ORDER"
    done = sale.cancel(order.no, "x")
    assert done[:5] == ["DONE", T0, 10, "", ""] and Order.of(*done[5:]).state == CANCELLED
    assert sale.cancel(order.no, "x")[0] == "REPEATED" and sale.cancel(order.no, "y")[0] == "NOT_HELD"
    assert sale.cancel(sale.win().no)[0] == "DONE"
    assert sale.counts() == (10, 10, 0, 0) and sale.redis.hget(sale.keys[1], "ann").startswith("0 2 ")


def test_expiry_ends_what_it_names_and_no_more(gate):
    sale = GateSale(gate, grabs_max=5)
    one, two = sale.win(), sale.win("bob")
    sale.at(T0 + 1)
    three, four = sale.win("ann"), sale.win("ann")
    sale.at(one.pay_by - 1)
    assert sale.call("due") == ["DONE", one.pay_by - 1, 6, 0]
    sale.at(one.pay_by)
    assert sale.call("due")[3:] == [2]
    assert sale.pay(four.no)[0] == "DONE"
    assert sale.expire("5", one.no, four.no, two.no) == ["DONE", one.pay_by, 8, "NO_SUCH_ORDER", "DONE", "NOT_HELD", "DONE"]
    assert sale.expire(one.no, two.no)[3:] == ["NOT_HELD", "NOT_HELD"]
    assert sale.counts() == (10, 8, 1, 1) and sale.call("due")[3:] == [0] and sale.order(three.no).state == HELD
    assert sale.redis.hget(sale.keys[1], "ann").startswith("2 1 ")
    assert sale.expire(*[str(no) for no in range(1, 201)])[3:] == ["NO_SUCH_ORDER"] * 200
    for numbers in ([], ["7", "7"], [str(no) for no in range(1, 202)]):
        refused(sale, "expire", numbers)


def test_a_win_undone_never_was(gate):
    sale = GateSale(gate, admission=2, grabs_max=1)
    sale.token(nonce="7")
    before = sale.everything()
    answer = sale.grab(key="k", nonce="7")
    no, entry = answer[5], answer[4]
    assert sale.undo(no, "bob")[0] == "NO_SUCH_ORDER" and sale.undo(no, "ann", "retake")[0] == "NOT_HELD"
    assert sale.undo(no, entry=entry)[:3] == ["DONE", T0, 10]
    after = sale.everything()
    assert after[1:] == before[1:] and sale.peek()["orders_made"] == 1, "a claim number is not given again"
    assert sale.undo(no)[0] == "NO_SUCH_ORDER" and sale.grab(key="k", nonce="7", no=no)[0] == "WON"
    assert sale.undo(no, entry=sale.redis.xrange(sale.keys[6])[0][0]) == ["BAD_INPUT"], "the entry of the token"
    plain = GateSale(gate, pay_within=0)
    assert plain.undo(plain.win().no)[0] == "DONE" and plain.counts() == (10, 10, 0, 0)


def test_who_does_not_know_the_entry_of_a_win_undoes_it_too(gate):
    """However long the log is, nobody waits for its end: the entry stays, for the ledger to refuse it again."""
    sale = GateSale(gate)
    order = sale.win("ann")
    assert sale.undo(order.no)[0] == "DONE" and sale.counts() == (10, 10, 0, 0) and sale.order(order.no) is None
    assert [entry["no"] for entry in sale.log()] == [order.no] and sale.undo(order.no)[0] == "NO_SUCH_ORDER"
    other = sale.win("bob")
    sale.redis.delete(sale.keys[6])
    assert sale.undo(other.no, "bob", entry="1-1")[0] == "DONE", "filed by somebody, and deleted"


def test_stock_verdicts(gate):
    sale = GateSale(gate, offered=5)
    sale.win(units=2)
    for add in (-4, 10 ** 9 - 4, 10 ** 9, -10 ** 9):
        refused(sale, "restock", ("r", add, 0), "NOT_AVAILABLE")
    assert sale.restock(-3, "a")[:3] == ["DONE", T0, 0] and sale.restock(-3, "a")[0] == "REPEATED" and sale.restock(-2, "a")[0] == "KEY_REUSED"
    assert sale.restock(10 ** 9 - 2, "b")[0] == "DONE" and sale.counts() == (10 ** 9, 10 ** 9 - 2, 2, 0) and sale.restock(0, "c")[0] == "DONE"
    assert sale.log()[1] == {"kind": "stock_added", "epoch": "1", "at": str(T0), "id": "a", "add": "-3"}
    assert sale.call("restock", ..., "d", 1, 1) == ["BAD_INPUT"], "what is filed must say in which epoch"
    sale.change(closed=1)
    assert sale.restock(1)[0] == "CLOSED" and sale.restock(-3, "a")[0] == "REPEATED"


def test_a_sale_told_whole_is_as_the_ledger_has_it(gate):
    """Told in any order, the newest counts: each tells all there is."""
    sale = GateSale(gate)
    assert sale.change(version=5, paused=1, units_max=3)[0] == "DONE" and sale.grab()[0] == "PAUSED"
    assert sale.call("change", *sale.changed(version=4, paused=0))[0] == sale.call("change", *sale.changed(version=5, paused=0))[0] == "REPEATED"
    assert sale.grab()[0] == "PAUSED"
    assert sale.change(version=6, paused=0)[0] == "DONE" and sale.grab(units=4)[0] == "OVER_LIMIT" and sale.grab(units=3)[0] == "WON"
    assert sale.change(version=8, closed=1)[0] == "DONE" and sale.grab("bob")[0] == "CLOSED"
    assert sale.change(closed=0, price=5, grabs_max=3, opens=T0, closes=0, pay_within=0)[0] == "DONE", "the ledger has the last word, also in a sale that is open"
    assert {name: sale.peek()[name] for name in NUMBERS[7:16]} == {name: sale.fields[name] for name in NUMBERS[7:16]} and sale.peek()["version"] == 9
    assert sale.win("bob").amount == 5 and len(sale.log()) == 2
    words = sale.changed()
    for wrong in (words[:-1], [*words, 0], [*words[:-1], 2], [*words[:-2], "", 0], [*words[:-2], -1, 0], [0, *words[1:]]):
        refused(sale, "change", wrong)


def test_a_sale_that_is_given_more_time_keeps_its_keys(gate):
    sale = GateSale(gate, closes=T0 + 10)
    sale.win()

    def ends(ms):
        for key in sale.keys:
            sale.redis.pexpire(key, ms)

    def lives():
        return {sale.redis.pttl(key) < 0 for key in sale.keys if sale.redis.exists(key)}

    sale.at(T0 + 10)
    ends(3_600_000)
    assert sale.change(pay_within=60)[0] == "DONE" and lives() == {False}, "it is over as before"
    assert sale.change(closes=T0 + 1000)[0] == "DONE" and lives() == {True} and sale.grab("bob")[0] == "WON"
    ends(3_600_000)
    assert sale.change(closed=1)[0] == "DONE" and lives() == {False}
    sale.epoch += 1
    assert sale.load()[0] == "DONE" and lives() == {True}


def test_terms_that_contradict_each_other_are_refused(gate):
    sale = GateSale(gate, opens=T0 + 10, load=True)
    for changes in ({"closes": T0 + 10}, {"price": 10 ** 12, "units_max": 9008}, {"units_max": 0}, {"grabs_max": 0}, {"grabs_max": 10 ** 6 + 1}, {"admission": 4},
                    {"late_payment": 2}, {"price": -2}, {"price": 10 ** 12 + 1}, {"pay_within": 31536001}, {"tokens_max": 10 ** 9 + 1}, {"opens": 253402300800000}):
        refused(sale, "change", sale.changed(**changes))
        assert GateSale(gate, load=False, opens=T0 + 10).begin(**changes) == ["BAD_INPUT"], changes
    assert sale.change(price=9007199254740991 // 9008, units_max=9008)[0] == "DONE"
    sale.at(T0 + 10)
    assert sale.restock(9000)[0] == "DONE"
    assert sale.win(units=9008).amount == 9007199254740991 // 9008 * 9008, "not a unit is rounded away"


EVERY = {"grab": ("1", "ann", "", "", 1, "0", ""), "token": ("1", "ann", 2, "0"), "pay": ("1", "r", 0, "paid"), "retake": ("1", "r", 0),
         "cancel": ("1", "x"), "expire": ("1",), "undo": ("win", "1", "ann", ""), "restock": ("id", 1, 0), "change": (1, -1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0),
         "peek": (), "due": (), "load": ("end", 0, 0)}


@pytest.mark.parametrize("script", sorted(EVERY))
def test_whose_sale_it_is_comes_first(gate, script):
    assert set(EVERY) == set(re.findall(r"ROW\([A-Z]+, (\w+)\)", HEADER.read_text().split("GATE_NODE_SCRIPTS")[0]))
    sale = GateSale(gate, load=False)
    refused(sale, script, EVERY[script], "NOT_LOADED")
    assert sale.begin()[0] == "DONE"
    if script != "load":
        refused(sale, script, EVERY[script], "LOADING")
    sale.run = "another"
    refused(sale, script, EVERY[script], "STALE")
    sale.run = RUN
    assert sale.call("load", "end", 0, 0)[0] == "DONE"
    for epoch in (2, 0 if script != "load" else 3, "x" if script != "load" else 4, "1.0" if script != "load" else 5):
        sale.epoch = epoch
        refused(sale, script, EVERY[script], "STALE")
    sale.epoch, sale.run = 1, "another"
    refused(sale, script, EVERY[script], "STALE")
    sale.run = RUN
    if script != "load":
        assert sale.call(script, ..., *EVERY[script])[0] not in ("STALE", "BAD_INPUT"), "whatever the epoch is"
