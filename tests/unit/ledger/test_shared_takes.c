/* What becomes of decisions that take, in a ledger that several nodes file into. */
#include "shared_stand.h"

#include "ledger/outbox.h"

#include <stdio.h>
#include <string.h>

static void a_win_is_filed_once_however_often_it_comes(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("one", 1, 0);
    uint64_t sale = stand_sale(stand, &terms, 10), epoch = stand_epoch(stand, sale);
    struct ledger_take take = stand_win(stand, sale, "bob", epoch);
    assert_int_equal(stand_file(stand->a, &take), TAKE_FILED);
    assert_int_equal(stand_file(stand->b, &take), TAKE_FILED_BEFORE);
    assert_int_equal(take.there.no, take.decision.seq);
    assert_int_equal(take.there.state, ORDER_PAID);
    assert_int_equal(stand_file(stand->a, &take), TAKE_FILED_BEFORE);
    assert_counts(stand_read(stand, sale), 9, 0, 1);
    assert_int_equal(stand_read(stand, sale).orders_made, 1);
    stand_adds_up(stand);
}

/* Also after its epoch is over, and after the order has ended. */
static void a_win_that_was_filed_stays_filed(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("one", 1, 1);
    uint64_t sale = stand_sale(stand, &terms, 1), epoch = stand_epoch(stand, sale);
    struct ledger_take take = stand_hold(stand, sale, "bob", epoch);
    assert_int_equal(stand_file(stand->a, &take), TAKE_FILED);
    assert_int_equal(stand_epoch(stand, sale), epoch + 1);
    assert_int_equal(stand_file(stand->b, &take), TAKE_FILED_BEFORE);

    struct cancel cancel = { .order_no = take.decision.seq, .by = CANCELLER_BUYER, .name = SLICE("bob"), .now_ms = 2500 };
    enum verdict verdict;
    struct order order;
    assert_int_equal(ledger_cancel(stand->a, &cancel, &verdict, &order, &stand->errand), FAULT_NONE);
    assert_int_equal(verdict, VERDICT_DONE);
    assert_int_equal(stand_file(stand->b, &take), TAKE_FILED_BEFORE);
    assert_int_equal(take.there.state, ORDER_CANCELLED);
    assert_counts(stand_read(stand, sale), 1, 0, 0);
}

static void another_order_of_its_number_is_refused(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("one", 1, 0);
    uint64_t sale = stand_sale(stand, &terms, 10), epoch = stand_epoch(stand, sale);
    struct ledger_take take = stand_win(stand, sale, "bob", epoch);
    assert_int_equal(stand_file(stand->a, &take), TAKE_FILED);
    struct ledger_take other = stand_win(stand, sale, "eve", epoch);
    other.decision.seq = take.decision.seq;
    assert_int_equal(stand_file(stand->b, &other), TAKE_REFUSED);
    assert_string_equal(other.there.buyer, "bob");
    other = take;
    other.decision.won.units = 2;
    assert_int_equal(stand_file(stand->b, &other), TAKE_REFUSED);
    assert_counts(stand_read(stand, sale), 9, 0, 1);
}

static void another_epoch_is_stale(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("one", 1, 0);
    uint64_t sale = stand_sale(stand, &terms, 10), epoch = stand_epoch(stand, sale);
    struct ledger_take take = stand_win(stand, sale, "bob", epoch);
    assert_int_equal(stand_epoch(stand, sale), epoch + 1);
    assert_int_equal(stand_file(stand->b, &take), TAKE_STALE);
    take.epoch = epoch + 2;
    assert_int_equal(stand_file(stand->b, &take), TAKE_STALE);
    assert_counts(stand_read(stand, sale), 10, 0, 0);
    take.epoch = epoch + 1;
    assert_int_equal(stand_file(stand->b, &take), TAKE_FILED);
}

static void a_key_wins_once(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("one", 5, 0);
    uint64_t sale = stand_sale(stand, &terms, 10), epoch = stand_epoch(stand, sale);
    struct ledger_take first = stand_win(stand, sale, "bob", epoch), second = stand_win(stand, sale, "bob", epoch);
    struct ledger_take eves = stand_win(stand, sale, "eve", epoch);
    first.decision.won.key = second.decision.won.key = eves.decision.won.key = SLICE("k-1");
    assert_int_equal(stand_file(stand->a, &first), TAKE_FILED);
    assert_int_equal(stand_file(stand->b, &second), TAKE_REPEATED);
    assert_int_equal(second.there.no, first.decision.seq);
    assert_int_equal(stand_file(stand->b, &eves), TAKE_FILED);
    assert_counts(stand_read(stand, sale), 8, 0, 2);
}

static void a_buyer_wins_no_more_than_allowed(void **state)
{
    struct stand *stand = *state;
    for (uint32_t grabs = 1; grabs <= 3; grabs++) {
        char name[8];
        snprintf(name, sizeof(name), "of%u", grabs);
        struct sale_terms terms = stand_terms(name, grabs, 1);
        uint64_t sale = stand_sale(stand, &terms, 10), epoch = stand_epoch(stand, sale), middle = 0;
        for (uint32_t i = 0; i < grabs; i++) {
            struct ledger_take take = stand_hold(stand, sale, "bob", epoch);
            assert_int_equal(stand_file(i % 2 == 0 ? stand->a : stand->b, &take), TAKE_FILED);
            if (i == grabs / 2) middle = take.decision.seq;
        }
        struct ledger_take more = stand_hold(stand, sale, "bob", epoch);
        assert_int_equal(stand_file(stand->b, &more), TAKE_ALREADY_WON);
        assert_string_equal(more.there.buyer, "bob");
        assert_true(order_state_counts(more.there.state));
        /* Names that begin alike are other buyers. */
        struct ledger_take bobs = stand_hold(stand, sale, "bob ", epoch), bobby = stand_hold(stand, sale, "bob!", epoch);
        assert_int_equal(stand_file(stand->b, &bobs), TAKE_FILED);
        assert_int_equal(stand_file(stand->b, &bobby), TAKE_FILED);

        /* The place of one that was given back is free again. */
        struct cancel cancel = { .order_no = middle, .by = CANCELLER_BUYER, .name = SLICE("bob"), .now_ms = 2500 };
        enum verdict verdict;
        struct order order;
        assert_int_equal(ledger_cancel(stand->a, &cancel, &verdict, &order, &stand->errand), FAULT_NONE);
        assert_int_equal(verdict, VERDICT_DONE);
        assert_int_equal(stand_file(stand->b, &more), TAKE_REFUSED); /* its buyer was told so */
        more = stand_hold(stand, sale, "bob", epoch);
        assert_int_equal(stand_file(stand->b, &more), TAKE_FILED);
        more = stand_hold(stand, sale, "bob", epoch);
        assert_int_equal(stand_file(stand->a, &more), TAKE_ALREADY_WON);
        assert_counts(stand_read(stand, sale), 10 - grabs - 2, grabs + 2, 0);
    }
    stand_adds_up(stand);
}

static void no_more_is_taken_than_there_is(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("two", 1, 0);
    uint64_t sale = stand_sale(stand, &terms, 3), epoch = stand_epoch(stand, sale);
    struct ledger_take takes[4];
    static const char *const buyers[] = { "b1", "b2", "b3", "b4" };
    for (size_t i = 0; i < 4; i++) takes[i] = stand_win(stand, sale, buyers[i], epoch);
    takes[1].decision.won.units = 2;
    takes[2].decision.won.units = 2;
    assert_int_equal(ledger_takes(stand->a, takes, 4), FAULT_NONE);
    assert_int_equal(takes[0].result, TAKE_FILED);
    assert_int_equal(takes[1].result, TAKE_FILED);
    assert_int_equal(takes[2].result, TAKE_SOLD_OUT);
    assert_int_equal(takes[3].result, TAKE_SOLD_OUT);
    assert_counts(stand_read(stand, sale), 0, 0, 3);
    /* What was filed is told so, and whoever won is, before anybody is told that nothing is left. */
    assert_int_equal(ledger_takes(stand->b, takes, 4), FAULT_NONE);
    assert_int_equal(takes[0].result, TAKE_FILED_BEFORE);
    assert_int_equal(takes[3].result, TAKE_SOLD_OUT);
    struct ledger_take again = stand_win(stand, sale, "b1", epoch);
    assert_int_equal(stand_file(stand->b, &again), TAKE_ALREADY_WON);
    struct ledger_numbers numbers;
    bool found;
    assert_int_equal(ledger_numbers(stand->b, sale, &numbers, &found), FAULT_NONE);
    assert_int_equal(numbers.sold_out_ms, 2000);
    stand_adds_up(stand);
}

/* Where it is not filed after all, it is; and one that was won after it, in the same transaction, has its place. */
static void what_comes_again_is_filed_once(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("again", 1, 0);
    uint64_t sale = stand_sale(stand, &terms, 4), epoch = stand_epoch(stand, sale);
    struct ledger_take first = stand_win(stand, sale, "b1", epoch), lost = stand_win(stand, sale, "b2", epoch);
    assert_int_equal(stand_file(stand->a, &first), TAKE_FILED);
    struct ledger_take takes[6] = { first, stand_win(stand, sale, "b3", epoch), lost, stand_win(stand, sale, "b4", epoch),
                                    lost,  stand_win(stand, sale, "b5", epoch) };
    takes[0].again = takes[2].again = takes[4].again = true;
    takes[0].result = TAKE_STALE;
    assert_int_equal(ledger_takes(stand->b, takes, 6), FAULT_NONE);
    assert_int_equal(takes[0].result, TAKE_FILED_BEFORE);
    assert_string_equal(takes[0].there.buyer, "b1");
    assert_int_equal(takes[1].result, TAKE_FILED);
    assert_int_equal(takes[3].result, TAKE_FILED);
    assert_int_equal(takes[5].result, TAKE_FILED);
    /* The ledger has the last word: all is sold, whatever the gate has told. */
    assert_int_equal(takes[2].result, TAKE_SOLD_OUT);
    assert_int_equal(takes[4].result, TAKE_SOLD_OUT);
    assert_counts(stand_read(stand, sale), 0, 0, 4);

    terms = stand_terms("once more", 1, 0);
    sale = stand_sale(stand, &terms, 4);
    epoch = stand_epoch(stand, sale);
    struct ledger_take more = stand_win(stand, sale, "b1", epoch);
    struct ledger_take both[2] = { more, more };
    both[0].again = true;
    assert_int_equal(ledger_takes(stand->a, both, 2), FAULT_NONE);
    assert_int_equal(both[0].result, TAKE_FILED_BEFORE);
    assert_int_equal(both[1].result, TAKE_FILED);
    stand_adds_up(stand);
}

static struct ledger_take token_take(struct stand *stand, uint64_t sale_id, const char *buyer, uint64_t epoch)
{
    struct ledger_take take = stand_win(stand, sale_id, buyer, epoch);
    struct decision d = { .seq = stand->no, .at_ms = 1500, .kind = DECISION_TOKEN_GIVEN, .sale_id = sale_id };
    d.token_given.buyer = slice_of(buyer);
    take.decision = d;
    return take;
}

static void tokens_are_given_within_their_number_and_spent_once(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("token", 3, 0);
    terms.admission = ADMISSION_TOKEN;
    terms.tokens_max = 2;
    uint64_t sale = stand_sale(stand, &terms, 10), epoch = stand_epoch(stand, sale);
    /* One batch: given, and spent by the win after it. */
    struct ledger_take takes[3];
    takes[0] = token_take(stand, sale, "bob", epoch);
    takes[1] = stand_win(stand, sale, "bob", epoch);
    takes[2] = stand_win(stand, sale, "bob", epoch);
    takes[1].decision.won.token_nonce = takes[2].decision.won.token_nonce = takes[0].decision.seq;
    assert_int_equal(ledger_takes(stand->a, takes, 3), FAULT_NONE);
    assert_int_equal(takes[0].result, TAKE_FILED);
    assert_int_equal(takes[1].result, TAKE_FILED);
    assert_int_equal(takes[2].result, TAKE_REFUSED);
    assert_int_equal(stand_file(stand->b, &takes[0]), TAKE_FILED_BEFORE);
    assert_int_equal(stand_file(stand->b, &takes[1]), TAKE_FILED_BEFORE);

    struct ledger_take second = token_take(stand, sale, "cid", epoch), third = token_take(stand, sale, "dan", epoch);
    assert_int_equal(stand_file(stand->b, &second), TAKE_FILED);
    assert_int_equal(stand_file(stand->b, &third), TAKE_REFUSED);
    struct ledger_take eves = stand_win(stand, sale, "eve", epoch);
    eves.decision.won.token_nonce = second.decision.seq; /* another buyer's */
    assert_int_equal(stand_file(stand->b, &eves), TAKE_REFUSED);
    eves = stand_win(stand, sale, "eve", epoch);
    eves.decision.won.token_nonce = UINT64_C(12345); /* one more than there are */
    assert_int_equal(stand_file(stand->b, &eves), TAKE_REFUSED);
    third = second;
    third.decision.token_given.buyer = SLICE("dan");
    assert_int_equal(stand_file(stand->b, &third), TAKE_REFUSED);
    assert_int_equal(stand_read(stand, sale).tokens_given, 2);
    stand_epoch(stand, sale);
    third = token_take(stand, sale, "dan", epoch);
    assert_int_equal(stand_file(stand->b, &third), TAKE_STALE);
    assert_counts(stand_read(stand, sale), 9, 0, 1);
}

static struct ledger_take withdrawal(struct stand *stand, uint64_t sale_id, int64_t units, uint64_t epoch)
{
    struct ledger_take take = stand_win(stand, sale_id, "", epoch);
    take.decision = (struct decision){ .seq = stand->no, .at_ms = 2000, .kind = DECISION_STOCK_ADDED, .sale_id = sale_id };
    take.decision.stock_added = -units;
    return take;
}

/* Told before they are filed, the two come by different threads. */
static void a_win_brings_the_token_that_it_has_spent(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("token", 3, 0);
    terms.admission = ADMISSION_TOKEN;
    terms.tokens_max = 2;
    uint64_t sale = stand_sale(stand, &terms, 10), epoch = stand_epoch(stand, sale);
    struct ledger_take given = token_take(stand, sale, "bob", epoch), takes[2];
    takes[0] = stand_win(stand, sale, "bob", epoch);
    takes[1] = stand_win(stand, sale, "bob", epoch);
    takes[0].decision.won.token_nonce = takes[1].decision.won.token_nonce = given.decision.seq;
    assert_int_equal(ledger_takes(stand->a, takes, 2), FAULT_NONE);
    assert_int_equal(takes[0].result, TAKE_FILED);
    assert_int_equal(takes[1].result, TAKE_REFUSED); /* it is spent */
    assert_int_equal(stand_file(stand->b, &given), TAKE_FILED_BEFORE);
    struct ledger_token token;
    bool found;
    assert_int_equal(ledger_token(stand->b, given.decision.seq, &token, &found), FAULT_NONE);
    assert_true(found);
    assert_int_equal(token.spent, takes[0].decision.seq);
    assert_string_equal(token.buyer, "bob");
    assert_int_equal(stand_read(stand, sale).tokens_given, 1);
    assert_counts(stand_read(stand, sale), 9, 0, 1);
    stand_adds_up(stand);
}

static void hold_cancel(struct stand *stand, uint64_t no, const char *buyer)
{
    struct cancel cancel = { .order_no = no, .by = CANCELLER_BUYER, .name = slice_of(buyer), .now_ms = 2500 };
    enum verdict verdict;
    struct order order;
    assert_int_equal(ledger_cancel(stand->a, &cancel, &verdict, &order, &stand->errand), FAULT_NONE);
    assert_int_equal(verdict, VERDICT_DONE);
}

/* One node was told that its win is refused, and has told the buyer; another has read it in the log before it was undone. */
static void what_was_refused_stays_refused(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("one", 1, 1);
    uint64_t sale = stand_sale(stand, &terms, 2), epoch = stand_epoch(stand, sale);
    struct ledger_take bob = stand_hold(stand, sale, "bob", epoch), cid = stand_hold(stand, sale, "cid", epoch);
    assert_int_equal(stand_file(stand->a, &bob), TAKE_FILED);
    assert_int_equal(stand_file(stand->a, &cid), TAKE_FILED);
    struct ledger_take more = stand_hold(stand, sale, "bob", epoch), late = stand_hold(stand, sale, "dan", epoch);
    struct ledger_take less = withdrawal(stand, sale, 1, epoch);
    assert_int_equal(stand_file(stand->a, &more), TAKE_ALREADY_WON);
    assert_int_equal(stand_file(stand->a, &late), TAKE_SOLD_OUT);
    assert_int_equal(stand_file(stand->a, &less), TAKE_SOLD_OUT);
    hold_cancel(stand, bob.decision.seq, "bob");
    hold_cancel(stand, cid.decision.seq, "cid");

    /* Alone, and among others that nothing stands against. */
    struct ledger_take takes[4] = { stand_hold(stand, sale, "eve", epoch), more, late, less };
    assert_int_equal(stand_file(stand->b, &late), TAKE_REFUSED);
    assert_int_equal(ledger_takes(stand->b, takes, 4), FAULT_NONE);
    assert_int_equal(takes[0].result, TAKE_FILED);
    assert_int_equal(takes[1].result, TAKE_REFUSED);
    assert_int_equal(takes[2].result, TAKE_REFUSED);
    assert_int_equal(takes[3].result, TAKE_SOLD_OUT);
    assert_counts(stand_read(stand, sale), 1, 1, 0);

    /* Asked of the gate anew, which was built from here, the same number is a new decision. */
    epoch = stand_epoch(stand, sale);
    assert_int_equal(stand_file(stand->b, &late), TAKE_STALE);
    late.epoch = epoch;
    assert_int_equal(stand_file(stand->b, &late), TAKE_FILED);
    stand_adds_up(stand);
}

static void stock_is_withdrawn_once(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("one", 1, 0);
    uint64_t sale = stand_sale(stand, &terms, 10), epoch = stand_epoch(stand, sale);
    struct ledger_take take = withdrawal(stand, sale, 4, epoch);
    assert_int_equal(stand_file(stand->a, &take), TAKE_FILED);
    assert_int_equal(stand_file(stand->b, &take), TAKE_FILED_BEFORE);
    assert_counts(stand_read(stand, sale), 6, 0, 0);
    assert_int_equal(stand_read(stand, sale).counts.offered, 6);
    struct ledger_take other = take;
    other.decision.stock_added = -5;
    assert_int_equal(stand_file(stand->b, &other), TAKE_REFUSED);
    other = withdrawal(stand, sale, 7, epoch);
    assert_int_equal(stand_file(stand->b, &other), TAKE_SOLD_OUT);
    other = withdrawal(stand, sale, 6, epoch + 1);
    assert_int_equal(stand_file(stand->b, &other), TAKE_STALE);
    other.epoch = epoch;
    assert_int_equal(stand_file(stand->b, &other), TAKE_FILED);
    assert_counts(stand_read(stand, sale), 0, 0, 0);
}

static void takes_of_no_sale_are_refused(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("one", 1, 0);
    uint64_t sale = stand_sale(stand, &terms, 10), epoch = stand_epoch(stand, sale);
    struct ledger_take takes[3];
    takes[0] = stand_win(stand, sale + 1024, "bob", epoch); /* its sums would stand in the same place */
    takes[1] = stand_win(stand, sale, "bob", epoch);
    takes[2] = stand_win(stand, sale + 1, "bob", epoch);
    assert_int_equal(ledger_takes(stand->a, takes, 3), FAULT_NONE);
    assert_int_equal(takes[0].result, TAKE_REFUSED);
    assert_int_equal(takes[1].result, TAKE_FILED);
    assert_int_equal(takes[2].result, TAKE_REFUSED);
    assert_counts(stand_read(stand, sale), 9, 0, 1);
}

/* As many as go at once, in three sales, most plain, some with something against them. */
static void a_batch_mixes_results(void **state)
{
    struct stand *stand = *state;
    static char buyers[LEDGER_TAKES_MAX][16];
    static struct ledger_take takes[LEDGER_TAKES_MAX];
    uint64_t sales[3], epochs[3], wins[3] = { 0 };
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof(name), "s%d", i);
        struct sale_terms terms = stand_terms(name, (uint32_t)i + 1, 0);
        sales[i] = stand_sale(stand, &terms, i == 2 ? 100 : 1000);
        epochs[i] = stand_epoch(stand, sales[i]);
    }
    enum take_result want[LEDGER_TAKES_MAX];
    for (size_t i = 0; i < LEDGER_TAKES_MAX; i++) {
        size_t s = i % 3;
        snprintf(buyers[i], sizeof(buyers[i]), "buyer%zu", i);
        takes[i] = stand_win(stand, sales[s], buyers[i], epochs[s]);
        want[i] = TAKE_FILED;
        if (i % 50 == 3) { /* the same buyer as three before, in the same sale */
            takes[i].decision.won.buyer = slice_of(buyers[i - 3]);
            want[i] = s == 0 ? TAKE_ALREADY_WON : TAKE_FILED;
        } else if (i % 50 == 20) {
            takes[i].epoch++;
            want[i] = TAKE_STALE;
        } else if (i % 50 == 30) { /* the same take as three before */
            takes[i].decision = takes[i - 3].decision;
            want[i] = TAKE_FILED_BEFORE;
        }
        if (want[i] == TAKE_FILED && s == 2 && wins[2] == 100) want[i] = TAKE_SOLD_OUT;
        if (want[i] == TAKE_FILED_BEFORE && want[i - 3] == TAKE_SOLD_OUT) want[i] = TAKE_SOLD_OUT;
        if (want[i] == TAKE_FILED) wins[s]++;
    }
    assert_int_equal(ledger_takes(stand->a, takes, LEDGER_TAKES_MAX), FAULT_NONE);
    for (size_t i = 0; i < LEDGER_TAKES_MAX; i++) {
        if (takes[i].result != want[i]) fail_msg("take %zu: %d, not %d", i, (int)takes[i].result, (int)want[i]);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(stand_read(stand, sales[i]).counts.sold, wins[i]);
    stand_adds_up(stand);

    assert_int_equal(ledger_takes(stand->b, takes, LEDGER_TAKES_MAX), FAULT_NONE);
    for (size_t i = 0; i < LEDGER_TAKES_MAX; i++)
        assert_int_equal(takes[i].result, want[i] == TAKE_FILED ? TAKE_FILED_BEFORE : want[i]);
    for (int i = 0; i < 3; i++) assert_int_equal(stand_read(stand, sales[i]).counts.sold, wins[i]);
}

static void sellers_are_told_of_takes(void **state)
{
    struct stand *stand = *state;
    struct hook hook;
    bool fresh;
    struct hook_put put = { .seller = SLICE("ann"), .url = SLICE("https://ann/h"), .secret = SLICE("s"), .now_ms = 100 };
    assert_int_equal(ledger_hook_put(stand->b, &put, &hook, &fresh), FAULT_NONE);
    struct sale_terms terms = stand_terms("one", 1, 0);
    uint64_t sale = stand_sale(stand, &terms, 20), epoch = stand_epoch(stand, sale);
    static char buyers[20][16];
    struct ledger_take takes[20];
    for (size_t i = 0; i < 20; i++) {
        snprintf(buyers[i], sizeof(buyers[i]), "buyer%zu", i);
        takes[i] = stand_win(stand, sale, buyers[i], epoch);
    }
    assert_int_equal(ledger_takes(stand->a, takes, 20), FAULT_NONE);
    assert_int_equal(ledger_takes(stand->b, takes, 20), FAULT_NONE);
    struct outbox_counts counts;
    assert_int_equal(ledger_outbox_counts(stand->b, SLICE("ann"), &counts), FAULT_NONE);
    assert_int_equal(counts.pending, 21); /* each win once, and that it is sold out */
    stand_adds_up(stand);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, stand_setup, stand_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_win_is_filed_once_however_often_it_comes),
        TEST(a_win_that_was_filed_stays_filed),
        TEST(another_order_of_its_number_is_refused),
        TEST(another_epoch_is_stale),
        TEST(a_key_wins_once),
        TEST(a_buyer_wins_no_more_than_allowed),
        TEST(no_more_is_taken_than_there_is),
        TEST(what_comes_again_is_filed_once),
        TEST(tokens_are_given_within_their_number_and_spent_once),
        TEST(a_win_brings_the_token_that_it_has_spent),
        TEST(stock_is_withdrawn_once),
        TEST(what_was_refused_stays_refused),
        TEST(takes_of_no_sale_are_refused),
        TEST(a_batch_mixes_results),
        TEST(sellers_are_told_of_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
