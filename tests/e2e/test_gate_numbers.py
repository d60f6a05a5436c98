"""Numbers and texts that the scripts of the gate are given: what is no number, or beyond its bounds, is refused and nothing is written."""

import pytest
import redis
from gate_scripts import HELD, Gate, GateSale, connect, refused
from redis_servers import RedisServer

# No number that a script takes may be written like this.
WRONG = ["", " 5", "5 ", "+5", "-0", "05", "5.0", "0x5", "1e3", "nan", "inf", "-", "5\n", "5\0", "٥", "1" * 20, str(2 ** 64), "-1" * 9]
# Bounds of what are numbers of orders, and what is one past them.
NUMBERS_GOOD = ["1", str(2 ** 31 - 1), str(2 ** 31), str(2 ** 32), str(2 ** 53 - 1), str(2 ** 53), str(2 ** 53 + 1), str(2 ** 63 - 1)]
NUMBERS_BAD = WRONG + ["0", "-1", str(2 ** 63), str(2 ** 63 + 1), str(2 ** 64 - 1)]


@pytest.fixture(scope="module")
def gate():
    with RedisServer() as server:
        yield Gate(connect(server))


# Every number that a script takes: script, arguments with ... in its place, and the least and the most that it may be.
NUMERIC = [
    ("grab", ("1", "ann", "", "", ..., "0", ""), 1, 2 ** 32 - 1),
    ("token", ("1", "ann", ..., "0"), 2, 3),
    ("pay", ("1", "r", ..., "paid"), -1, 2 ** 53 - 1),
    ("retake", ("1", "r", ...), -1, 2 ** 53 - 1),
    ("restock", ("id", ..., "0"), -10 ** 9, 10 ** 9),
    ("restock", ("id", "0", ...), 0, 1),
    ("change", (..., "-1", "1", "1", "0", "0", "0", "1", "0", "0", "0", "0"), 1, 2 ** 53 - 1),
]
NUMBERED = [
    ("grab", (..., "ann", "", "", "1", "0", "")), ("grab", ("1", "ann", "", "", "1", ..., "")), ("token", (..., "ann", "2", "0")), ("token", ("1", "ann", "2", ...)),
    ("pay", (..., "r", "0", "paid")), ("retake", (..., "r", "0")), ("cancel", (..., "x")), ("expire", (...,)), ("undo", ("win", ..., "ann", "")),
]


def put(args, value):
    return tuple(value if arg is ... else arg for arg in args)


@pytest.mark.parametrize("script, args, least, most", NUMERIC)
def test_numbers_are_numbers_within_bounds(gate, script, args, least, most):
    sale = GateSale(gate, admission=2)
    bad = WRONG + [str(edge + step) for edge, step in ((least, -1), (most, 1))]
    edges = [-1, 0, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, 2 ** 53 - 1, 2 ** 53, 2 ** 53 + 1, 2 ** 63 - 1, 2 ** 63, 2 ** 63 + 1]
    bad += [str(edge) for edge in edges if not least <= edge <= most]
    for value in bad:
        refused(sale, script, put(args, value))
    for value in [least, most, *(edge for edge in edges if least <= edge <= most)]:
        assert sale.call(script, *put(args, value))[0] not in ("BAD_INPUT", "DAMAGED"), value


@pytest.mark.parametrize("script, args", NUMBERED)
def test_order_numbers_are_exact(gate, script, args):
    sale = GateSale(gate, admission=2)
    zero_means_none = script in ("grab", "token") and args[0] == "1"
    for value in NUMBERS_BAD:
        if value != "0" or not zero_means_none:
            refused(sale, script, put(args, value))
    for value in NUMBERS_GOOD:
        assert sale.call(script, *put(args, value))[0] != "BAD_INPUT", value


def test_neighbours_beyond_what_a_double_holds_are_two_orders(gate):
    sale = GateSale(gate, grabs_max=9)
    numbers = [str(2 ** 53 + step) for step in range(3)] + [str(2 ** 63 - 1), str(2 ** 63 - 2)]
    for no in numbers:
        sale.win(no=no)
    assert sorted(sale.orders()) == sorted(numbers) and sale.cancel(numbers[3])[5] == numbers[3]
    assert sale.order(numbers[4]).state == HELD and sorted(sale.redis.zrange(sale.keys[5], 0, -1)) == sorted(set(numbers) - {numbers[3]})


@pytest.mark.parametrize("script, args", [row[:2] for row in NUMERIC] + [("cancel", ("1", "x")), ("due", ())])
def test_too_few_or_too_many_words_are_refused(gate, script, args):
    sale = GateSale(gate)
    whole = put(args, "1")
    for words_wrong in [whole[:count] for count in range(len(whole))] + [whole + ("1",)]:
        before = sale.everything()
        try:
            assert sale.call(script, *words_wrong) == ["BAD_INPUT"], words_wrong
        except redis.ResponseError as error:
            raise AssertionError(f"{script} {words_wrong} broke the script: {error}") from error
        assert sale.everything() == before


def test_texts_are_bounded(gate):
    sale = GateSale(gate)
    for args in (("n" * 65, 1), ("a\0b", 1), ("ann", 1, "k" * 65), ("ann", 1, "k\0")):
        assert sale.grab(*args) == ["BAD_INPUT"], args
    assert sale.grab(flags="x") == ["BAD_INPUT"]
    assert sale.win("n" * 64, 1, "k" * 64).buyer == "n" * 64
    order = sale.win()
    for ref in ("", "r" * 65, "r\0"):
        assert sale.pay(order.no, ref) == ["BAD_INPUT"]
    assert sale.token("") == sale.token("n" * 65) == ["BAD_INPUT"]
    assert sale.pay(order.no, kind="retaken") == sale.pay(order.no, kind="") == sale.undo(order.no, what="x") == sale.undo(order.no, entry="1") == ["BAD_INPUT"]
    assert sale.cancel(order.no, id="i" * 65) == sale.cancel(order.no, id="") == sale.restock(1, "") == ["BAD_INPUT"]
