/* P6 in the ledger: a hold ends once, what comes back is what was held, and a late payment is a decision of its own. A token
 * is spent once. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

static struct sale_counts counts_of(const struct fixture *f, uint64_t sale_id)
{
    struct sale sale;
    bool found;
    assert_int_equal(ledger_sale(f->ledger, sale_id, &sale, &found), FAULT_NONE);
    assert_true(found);
    return sale.counts;
}

static struct ledger_order order_of(const struct fixture *f, uint64_t no)
{
    struct ledger_order row;
    bool found;
    assert_int_equal(ledger_order(f->ledger, no, &row, &found), FAULT_NONE);
    assert_true(found);
    return row;
}

/* Every way an order goes, and where its 3 units stand after each step; the other order of the sale, of 2, stays held. */
static void every_end_of_an_order_is_filed_with_its_counts(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum decision_kind kind;
        enum decision_kind then; /* 0: nothing */
        enum order_state want;
        uint32_t available, held, sold;
        const char *ref;
        enum canceller canceller;
    } script[] = {
        { DECISION_PAID, 0, ORDER_PAID, 5, 2, 3, "pay-1", CANCELLER_NONE },
        { DECISION_CANCELLED, 0, ORDER_CANCELLED, 8, 2, 0, "", CANCELLER_SELLER },
        { DECISION_EXPIRED, 0, ORDER_EXPIRED, 8, 2, 0, "", CANCELLER_NONE },
        { DECISION_EXPIRED, DECISION_RETAKEN, ORDER_PAID, 5, 2, 3, "pay-1", CANCELLER_NONE },
        { DECISION_EXPIRED, DECISION_REFUND_DUE, ORDER_REFUND_DUE, 8, 2, 0, "pay-1", CANCELLER_NONE },
        { DECISION_CANCELLED, DECISION_REFUND_DUE, ORDER_REFUND_DUE, 8, 2, 0, "pay-1", CANCELLER_SELLER },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "thing %d", (int)i);
        struct sale_terms terms = terms_named(name);
        uint64_t id = sale_file(f, "sam", &terms, 10);
        hold_file(f, id, "bob", 2, 9000);
        uint64_t no = hold_file(f, id, "ann", 3, 9000);
        struct decision d = end_of(f, script[i].kind, id, no, 3);
        decision_must(f, &d);
        if (script[i].then != 0) {
            d = end_of(f, script[i].then, id, no, 3);
            decision_must(f, &d);
        }
        struct sale_counts want = { 10, script[i].available, script[i].held, script[i].sold }, counts = counts_of(f, id);
        assert_memory_equal(&counts, &want, sizeof(want));
        struct ledger_order row = order_of(f, no);
        assert_int_equal(row.order.state, script[i].want);
        assert_int_equal(row.ended_ms, d.at_ms);
        assert_int_equal(row.order.pay_by_ms, 9000);
        assert_string_equal(row.payment_ref, script[i].ref);
        assert_int_equal(row.canceller, script[i].canceller);
        assert_string_equal(row.reason, script[i].canceller == CANCELLER_NONE ? "" : "it's broken");
    }
}

/* All in one transaction, as the clerk files them: the sums of a sale must be those of the decisions one by one. */
static void a_whole_life_in_one_transaction_adds_up(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 2);
    uint64_t no = f->seq + 1;
    struct decision d[] = {
        win_of(no, id, "ann", "", 2),
        end_of(f, DECISION_EXPIRED, id, no, 2),
        win_of(no + 2, id, "bob", "", 2), /* what came back is sold again */
        end_of(f, DECISION_CANCELLED, id, no + 2, 2),
        end_of(f, DECISION_RETAKEN, id, no, 2),
        end_of(f, DECISION_REFUND_DUE, id, no + 2, 2),
    };
    d[0].won.pay_by_ms = d[2].won.pay_by_ms = 9000;
    for (size_t i = 0; i < sizeof(d) / sizeof(d[0]); i++) d[i].seq = no + i;
    assert_int_equal(decisions_try(f, d, sizeof(d) / sizeof(d[0])), FAULT_NONE);
    struct sale_counts want = { 2, 0, 0, 2 }, counts = counts_of(f, id);
    assert_memory_equal(&counts, &want, sizeof(want));
    assert_int_equal(order_of(f, no).order.state, ORDER_PAID);
    assert_int_equal(order_of(f, no + 2).order.state, ORDER_REFUND_DUE);
}

/* From each state, what must not follow: damage, and nothing changes. */
static void an_end_that_does_not_fit_the_order_is_damage(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum decision_kind before[2];
        enum decision_kind kind;
    } script[] = {
        { { 0 }, DECISION_RETAKEN },
        { { 0 }, DECISION_REFUND_DUE },
        { { DECISION_PAID }, DECISION_PAID },
        { { DECISION_PAID }, DECISION_CANCELLED },
        { { DECISION_PAID }, DECISION_EXPIRED },
        { { DECISION_PAID }, DECISION_RETAKEN },
        { { DECISION_PAID }, DECISION_REFUND_DUE },
        { { DECISION_CANCELLED }, DECISION_PAID },
        { { DECISION_CANCELLED }, DECISION_CANCELLED },
        { { DECISION_CANCELLED }, DECISION_EXPIRED },
        { { DECISION_CANCELLED }, DECISION_RETAKEN },
        { { DECISION_EXPIRED }, DECISION_PAID },
        { { DECISION_EXPIRED }, DECISION_CANCELLED },
        { { DECISION_EXPIRED }, DECISION_EXPIRED },
        { { DECISION_EXPIRED, DECISION_RETAKEN }, DECISION_RETAKEN },
        { { DECISION_EXPIRED, DECISION_RETAKEN }, DECISION_REFUND_DUE },
        { { DECISION_EXPIRED, DECISION_REFUND_DUE }, DECISION_RETAKEN },
        { { DECISION_EXPIRED, DECISION_REFUND_DUE }, DECISION_EXPIRED },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "thing %d", (int)i);
        struct sale_terms terms = terms_named(name);
        uint64_t id = sale_file(f, "sam", &terms, 10);
        uint64_t no = hold_file(f, id, "ann", 3, 9000);
        for (int k = 0; k < 2 && script[i].before[k] != 0; k++) {
            struct decision d = end_of(f, script[i].before[k], id, no, 3);
            decision_must(f, &d);
        }
        struct ledger_order row = order_of(f, no), after;
        struct sale_counts counts = counts_of(f, id), counts_after;
        struct decision d = end_of(f, script[i].kind, id, no, 3);
        assert_int_equal(decisions_try(f, &d, 1), FAULT_DAMAGE);
        after = order_of(f, no);
        assert_int_equal(after.order.state, row.order.state);
        assert_int_equal(after.ended_ms, row.ended_ms);
        assert_string_equal(after.payment_ref, row.payment_ref);
        counts_after = counts_of(f, id);
        assert_memory_equal(&counts, &counts_after, sizeof(counts));
        assert_int_equal(outside_number(f, "SELECT seq FROM point"), f->seq);
    }
}

static void an_end_of_another_order_sale_or_size_is_damage(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp"), other = terms_named("desk");
    uint64_t id = sale_file(f, "sam", &terms, 10), desk = sale_file(f, "sam", &other, 10);
    uint64_t no = hold_file(f, id, "ann", 3, 9000), paid = win_file(f, id, "bob", "", 1);
    static const enum decision_kind kinds[] = { DECISION_PAID, DECISION_CANCELLED, DECISION_EXPIRED };
    for (size_t i = 0; i < 3; i++) {
        struct decision bad[] = {
            end_of(f, kinds[i], id, no + 100, 3), /* no such order */
            end_of(f, kinds[i], desk, no, 3),     /* of another sale */
            end_of(f, kinds[i], id, no, 2),       /* what comes back is not what was held */
            end_of(f, kinds[i], id, no, 4),       end_of(f, kinds[i], id, paid, 1), /* paid at once: there is no hold */
        };
        for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++)
            assert_int_equal(decisions_try(f, &bad[k], 1), FAULT_DAMAGE);
    }
    struct sale_counts want = { 10, 6, 3, 1 }, counts = counts_of(f, id);
    assert_memory_equal(&counts, &want, sizeof(want));
}

/* The point is put back by hand: an end that is there already is passed over only if it is the same to the last byte. */
static void an_equal_end_is_passed_over_and_a_different_one_is_damage(void **state)
{
    struct fixture *f = *state;
    static const enum decision_kind kinds[] = { DECISION_PAID, DECISION_CANCELLED, DECISION_EXPIRED };
    for (size_t i = 0; i < 3; i++) {
        char name[32], back[96];
        snprintf(name, sizeof(name), "thing %d", (int)i);
        struct sale_terms terms = terms_named(name);
        uint64_t id = sale_file(f, "sam", &terms, 10);
        uint64_t no = hold_file(f, id, "ann", 3, 9000);
        snprintf(back, sizeof(back), "UPDATE point SET seq = %d, digest = %d", (int)f->seq, (int)f->seq * 31);
        struct decision good = end_of(f, kinds[i], id, no, 3);
        decision_must(f, &good);
        struct sale_counts before = counts_of(f, id), after;
        outside(f, back);
        assert_int_equal(decisions_try(f, &good, 1), FAULT_NONE);
        after = counts_of(f, id);
        assert_memory_equal(&before, &after, sizeof(before));

        struct decision bad[5] = { good, good, good, good, good };
        bad[0].at_ms++;
        bad[1].kind = kinds[(i + 1) % 3];
        bad[2].ended.units = 2;
        bad[3].ended.ref = SLICE("pay-2");
        if (kinds[i] == DECISION_CANCELLED) bad[4].ended.reason = SLICE("");
        for (size_t k = 0; k < (kinds[i] == DECISION_CANCELLED ? 5 : 4); k++) {
            outside(f, back);
            assert_int_equal(decisions_try(f, &bad[k], 1), FAULT_DAMAGE);
        }
        outside(f, back);
        decision_must(f, &good);
    }
}

/* Memory that has let go of an order may take one payment for it twice; the ledger keeps the first. */
static void a_refund_told_twice_is_one(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 10);
    uint64_t no = hold_file(f, id, "ann", 3, 9000);
    struct decision d = end_of(f, DECISION_EXPIRED, id, no, 3);
    decision_must(f, &d);
    d = end_of(f, DECISION_REFUND_DUE, id, no, 3);
    decision_must(f, &d);
    uint64_t first_ms = d.at_ms;
    d = end_of(f, DECISION_REFUND_DUE, id, no, 3);
    decision_must(f, &d);
    assert_int_equal(order_of(f, no).ended_ms, first_ms);
    struct sale_counts want = { 10, 10, 0, 0 }, counts = counts_of(f, id);
    assert_memory_equal(&counts, &want, sizeof(want));
}

static void texts_of_an_end_come_back_as_they_were(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 10);
    uint64_t a = hold_file(f, id, "ann", 1, 9000), b = hold_file(f, id, "bob", 1, 9000);
    char reason[CANCEL_REASON_BYTES_MAX + 1] = { 0 }, ref[PAYMENT_REF_BYTES_MAX + 1] = { 0 };
    memset(reason, '\'', CANCEL_REASON_BYTES_MAX);
    memset(ref, '"', PAYMENT_REF_BYTES_MAX);
    struct decision d = end_of(f, DECISION_CANCELLED, id, a, 1);
    d.ended.reason = slice_of(reason);
    d.ended.by = CANCELLER_ADMIN;
    decision_must(f, &d);
    d = end_of(f, DECISION_PAID, id, b, 1);
    d.ended.ref = slice_of(ref);
    decision_must(f, &d);
    assert_string_equal(order_of(f, a).reason, reason);
    assert_int_equal(order_of(f, a).canceller, CANCELLER_ADMIN);
    assert_string_equal(order_of(f, b).payment_ref, ref);
}

static struct decision token_of(uint64_t seq, uint64_t sale_id, const char *buyer)
{
    struct decision d = { .seq = seq, .at_ms = 5000 + seq, .kind = DECISION_TOKEN_GIVEN, .sale_id = sale_id };
    d.token_given.buyer = slice_of(buyer);
    return d;
}

static void a_token_is_filed_and_spent_once(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    terms.admission = ADMISSION_TOKEN;
    uint64_t id = sale_file(f, "sam", &terms, 100);
    struct decision ann = token_of(2, id, "ann"), bob = token_of(3, id, "bob");
    decision_must(f, &ann);
    decision_must(f, &bob);
    struct sale sale;
    struct ledger_token token;
    struct ledger_order row;
    bool found;
    assert_int_equal(ledger_sale(f->ledger, id, &sale, &found), FAULT_NONE);
    assert_int_equal(sale.tokens_given, 2);
    assert_int_equal(ledger_token(f->ledger, 2, &token, &found), FAULT_NONE);
    assert_true(found && token.spent == 0 && token.sale_id == id && token.given_ms == 5002);
    assert_string_equal(token.buyer, "ann");
    assert_int_equal(ledger_token(f->ledger, 4, &token, &found), FAULT_NONE);
    assert_false(found);

    struct decision win = win_of(4, id, "ann", "", 1);
    win.won.token_nonce = 2;
    struct decision impossible[4];
    for (size_t i = 0; i < 4; i++) impossible[i] = win;
    impossible[0].won.token_nonce = 3; /* bob's */
    impossible[1].won.token_nonce = 1; /* nobody's */
    impossible[2].won.buyer = SLICE("Ann");
    impossible[3].sale_id = id + 1;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(decisions_try(f, &impossible[i], 1), FAULT_DAMAGE);
        assert_int_equal(outside_number(f, "SELECT count(*) FROM tokens WHERE spent <> 0"), 0);
        assert_int_equal(outside_number(f, "SELECT count(*) FROM orders"), 0);
    }
    decision_must(f, &win);
    assert_int_equal(ledger_order(f->ledger, 4, &row, &found), FAULT_NONE);
    assert_int_equal(row.order.token_nonce, 2);
    assert_int_equal(outside_number(f, "SELECT spent FROM tokens WHERE nonce = 2"), 4);
    struct decision twice = win;
    twice.seq = 5;
    assert_int_equal(decisions_try(f, &twice, 1), FAULT_DAMAGE);

    /* Filed again after a crash that hid the commit: equal rows are passed over, others are damage. */
    outside(f, "UPDATE point SET seq = 2, digest = 62");
    struct decision rest[] = { bob, win };
    assert_int_equal(decisions_try(f, rest, 2), FAULT_NONE);
    assert_int_equal(outside_number(f, "SELECT tokens_given FROM sales"), 2);
    outside(f, "UPDATE point SET seq = 2, digest = 62");
    rest[0].token_given.buyer = SLICE("cat");
    assert_int_equal(decisions_try(f, rest, 2), FAULT_DAMAGE);
    rest[0] = bob;
    rest[1].won.token_nonce = 3;
    assert_int_equal(decisions_try(f, rest, 2), FAULT_DAMAGE);
}

/* Also behind those that have ended, and whatever other sales have sold between. */
static void the_place_of_an_order_counts_those_of_its_sale_before_it(void **state)
{
    struct fixture *f = *state;
    struct sale_terms one = terms_named("one"), two = terms_named("two");
    uint64_t first = sale_file(f, "sam", &one, 10), second = sale_file(f, "sam", &two, 10);
    uint64_t ended = hold_file(f, first, "ann", 3, 9000);
    struct decision end = end_of(f, DECISION_EXPIRED, first, ended, 3);
    decision_must(f, &end);
    uint64_t other = win_file(f, second, "ann", "", 1), last = win_file(f, first, "bob", "k", 1), place = 0;
    assert_int_equal(ledger_order_place(f->ledger, first, ended, &place), FAULT_NONE);
    assert_int_equal(place, 1);
    assert_int_equal(ledger_order_place(f->ledger, first, last, &place), FAULT_NONE);
    assert_int_equal(place, 2);
    assert_int_equal(ledger_order_place(f->ledger, second, other, &place), FAULT_NONE);
    assert_int_equal(place, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_end_of_an_order_is_filed_with_its_counts),
        CASE(a_whole_life_in_one_transaction_adds_up),
        CASE(an_end_that_does_not_fit_the_order_is_damage),
        CASE(an_end_of_another_order_sale_or_size_is_damage),
        CASE(an_equal_end_is_passed_over_and_a_different_one_is_damage),
        CASE(a_refund_told_twice_is_one),
        CASE(texts_of_an_end_come_back_as_they_were),
        CASE(a_token_is_filed_and_spent_once),
        CASE(the_place_of_an_order_counts_those_of_its_sale_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
