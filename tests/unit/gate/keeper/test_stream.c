/* What is read from Redis: entries of a sale's log, and how a sale stands there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/keeper/inside.h"

#define SALE 7

/* An entry as XRANGE tells it: its id, then names and values. */
struct entry {
    struct redis_reply reply, parts[2], fields[24];
};

static const struct redis_reply *entry_make(struct entry *entry, const char *id, const char *const *texts)
{
    size_t count = 0;
    memset(entry, 0, sizeof *entry);
    for (; texts[count] != NULL; count++)
        entry->fields[count] = (struct redis_reply){ .type = REDIS_TEXT, .text = slice_of(texts[count]) };
    entry->parts[0] = (struct redis_reply){ .type = REDIS_TEXT, .text = slice_of(id) };
    entry->parts[1] = (struct redis_reply){ .type = REDIS_LIST, .items = entry->fields, .count = count };
    entry->reply = (struct redis_reply){ .type = REDIS_LIST, .items = entry->parts, .count = 2 };
    return &entry->reply;
}

#define FIELDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void a_win_is_read_whole(void **state)
{
    (void)state;
    struct entry made;
    struct log_entry entry;
    assert_true(log_entry_read(entry_make(&made, "1700000000000-3",
                                          FIELDS("kind", "won", "epoch", "4", "at", "1700000000000", "no", "99", "order",
                                                 "0 2 998 1700000000000 1700000600000 55 3 2 0 annk1")),
                               SALE, &entry));
    assert_true(entry.takes);
    assert_string_equal(entry.id, "1700000000000-3");
    assert_int_equal(entry.take.epoch, 4);
    const struct decision *d = &entry.take.decision;
    assert_int_equal(d->kind, DECISION_WON);
    assert_int_equal(d->seq, 99);
    assert_int_equal(d->sale_id, SALE);
    assert_int_equal(d->at_ms, UINT64_C(1700000000000));
    assert_true(slice_is(d->won.buyer, "ann") && slice_is(d->won.key, "k1"));
    assert_int_equal(d->won.units, 2);
    assert_int_equal(d->won.amount, 998);
    assert_int_equal(d->won.pay_by_ms, UINT64_C(1700000600000));
    assert_int_equal(d->won.token_nonce, 55);
}

static void the_other_takes_are_read(void **state)
{
    (void)state;
    struct entry made;
    struct log_entry entry;
    assert_true(log_entry_read(
        entry_make(&made, "1-1", FIELDS("kind", "token_given", "epoch", "1", "at", "5", "no", "8", "buyer", "bob")), SALE,
        &entry));
    assert_true(entry.takes && entry.take.decision.kind == DECISION_TOKEN_GIVEN && entry.take.decision.seq == 8);
    assert_true(slice_is(entry.take.decision.token_given.buyer, "bob"));

    assert_true(log_entry_read(
        entry_make(&made, "1-2", FIELDS("kind", "retaken", "epoch", "1", "at", "5", "no", "8", "units", "3", "ref", "p1")),
        SALE, &entry));
    assert_true(entry.takes && entry.take.decision.kind == DECISION_RETAKEN && entry.take.decision.ended.order_no == 8);
    assert_true(entry.take.decision.ended.units == 3 && slice_is(entry.take.decision.ended.ref, "p1"));

    assert_true(log_entry_read(
        entry_make(&made, "1-3", FIELDS("kind", "stock_added", "epoch", "1", "at", "5", "id", "12", "add", "-4")), SALE,
        &entry));
    assert_true(entry.takes && entry.take.decision.kind == DECISION_STOCK_ADDED && entry.take.decision.seq == 12);
    assert_int_equal(entry.take.decision.stock_added, -4);
}

/* They keep their place, so that they can be deleted, and take nothing. */
static void what_cannot_be_takes_nothing(void **state)
{
    (void)state;
    const char *const *const wrong[] = {
        FIELDS("kind", "won", "epoch", "4", "at", "1", "no", "99", "order", "0 2 998"),
        FIELDS("kind", "won", "epoch", "4", "at", "1", "no", "0", "order", "1 1 -1 1 0 0 3 0 0 ann"),
        FIELDS("kind", "won", "epoch", "4", "at", "1", "no", "9", "order", "1 0 -1 1 0 0 3 0 0 ann"),
        FIELDS("kind", "won", "epoch", "4", "at", "1", "no", "9", "order", "9 1 -1 1 0 0 3 0 0 ann"),
        FIELDS("kind", "won", "epoch", "x", "at", "1", "no", "9", "order", "1 1 -1 1 0 0 3 0 0 ann"),
        FIELDS("kind", "won", "epoch", "4", "no", "9", "order", "1 1 -1 1 0 0 3 0 0 ann"),
        FIELDS("kind", "token_given", "epoch", "1", "at", "5", "no", "8", "buyer", ""),
        FIELDS("kind", "token_given", "epoch", "1", "at", "5", "no", "9223372036854775808", "buyer", "bob"),
        FIELDS("kind", "retaken", "epoch", "1", "at", "5", "no", "8", "units", "-3", "ref", "p1"),
        FIELDS("kind", "stock_added", "epoch", "1", "at", "5", "id", "12", "add", "4"),
        FIELDS("kind", "stock_added", "epoch", "1", "at", "5", "id", "12", "add", "-0"),
        FIELDS("kind", "stock_added", "epoch", "1", "at", "5", "id", "errand:12", "add", "-4"),
        FIELDS("kind", "paid", "epoch", "1", "at", "5", "no", "8", "units", "1", "ref", "p1"),
        FIELDS("epoch", "1", "at", "5"),
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct entry made;
        struct log_entry entry;
        assert_true(log_entry_read(entry_make(&made, "5-0", wrong[i]), SALE, &entry));
        assert_false(entry.takes);
        assert_string_equal(entry.id, "5-0");
    }
    struct log_entry entry;
    assert_false(log_entry_read(&(struct redis_reply){ .type = REDIS_NIL }, SALE, &entry));
}

static void a_peek_tells_how_a_sale_stands(void **state)
{
    (void)state;
    enum { BEFORE = 8, ALL = BEFORE + 20 };
    struct redis_reply items[ALL];
    static const char *const numbers[20] = { "50", "10", "4", "3", "3", "8", "2", "-1", "1", "1",
                                             "1",  "90", "0", "1", "0", "0", "1", "0",  "9", "7" };
    items[0] = (struct redis_reply){ .type = REDIS_TEXT, .text = SLICE("DONE") };
    for (int i = 1; i < BEFORE; i++) items[i] = (struct redis_reply){ .type = REDIS_NUMBER, .number = i };
    items[1].number = 50;
    items[3] = (struct redis_reply){ .type = REDIS_TEXT, .text = SLICE("6") };
    for (int i = 0; i < 20; i++)
        items[BEFORE + i] = (struct redis_reply){ .type = REDIS_TEXT, .text = slice_of(numbers[i]) };
    struct redis_reply reply = { .type = REDIS_LIST, .items = items, .count = ALL };
    struct peek peek;
    peek_read(&reply, &peek);
    assert_int_equal(peek.state, PEEK_GOOD);
    assert_int_equal(peek.epoch, 6);
    assert_int_equal(peek.at_ms, 50);
    assert_true(peek.entries == 4 && peek.orders == 5 && peek.tokens == 6 && peek.holds == 7);
    assert_true(peek.counts.counts.offered == 10 && peek.counts.counts.available == 4 && peek.counts.counts.held == 3 &&
                peek.counts.counts.sold == 3);
    assert_true(peek.counts.orders_made == 8 && peek.counts.tokens_given == 2 && peek.counts.at_ms == 50);
    assert_true(peek.paused && !peek.closed && peek.terms.price == -1 && peek.terms.closes_ms == 90 &&
                peek.terms.admission == 1);

    reply.count = BEFORE;
    peek_read(&reply, &peek);
    assert_int_equal(peek.state, PEEK_DAMAGED);
}

static void a_peek_that_is_refused_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum peek_state want;
    } words[] = { { "NOT_LOADED", PEEK_ABSENT },
                  { "STALE", PEEK_STALE },
                  { "LOADING", PEEK_LOADING },
                  { "DAMAGED", PEEK_DAMAGED },
                  { "BAD_INPUT", PEEK_DAMAGED } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct redis_reply items[4] = { { .type = REDIS_TEXT, .text = slice_of(words[i].word) },
                                        { .type = REDIS_TEXT, .text = SLICE("run") },
                                        { .type = REDIS_TEXT, .text = SLICE("12") },
                                        { .type = REDIS_NUMBER, .number = 34 } };
        struct redis_reply reply = { .type = REDIS_LIST, .items = items, .count = 4 };
        struct peek peek;
        peek_read(&reply, &peek);
        assert_int_equal(peek.state, words[i].want);
        bool told = words[i].want == PEEK_STALE || words[i].want == PEEK_LOADING;
        assert_int_equal(peek.epoch, told ? 12 : 0);
        assert_int_equal(peek.at_ms, told ? 34 : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_win_is_read_whole),
        cmocka_unit_test(the_other_takes_are_read),
        cmocka_unit_test(what_cannot_be_takes_nothing),
        cmocka_unit_test(a_peek_tells_how_a_sale_stands),
        cmocka_unit_test(a_peek_that_is_refused_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
