/* P4 for what sellers are told: a notice is in the outbox once for each thing that happened, and leaves it in order.
 *
 * tidy: long because each way out of the outbox is tried from several sides. */
#include "fixture.h"
#include "ledger/outbox.h"
#include "ledger/sqlite.h"

#include <stdio.h>
#include <string.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

static void hook_make(struct fixture *f, const char *seller, uint64_t since_ms)
{
    struct hook hook;
    bool fresh;
    const struct hook_put put = {
        .seller = slice_of(seller), .url = SLICE("https://example.com/hook"), .secret = SLICE(SECRET), .now_ms = since_ms
    };
    assert_int_equal(ledger_hook_put(f->ledger, &put, &hook, &fresh), FAULT_NONE);
    assert_true(fresh);
}

static void end_file(struct fixture *f, enum decision_kind kind, uint64_t sale_id, uint64_t order_no)
{
    struct decision d = end_of(f, kind, sale_id, order_no, 1);
    decision_must(f, &d);
}

/* Kinds and numbers of rows as text, "won:2 sold_out:0 …", in the order of a list. */
struct heard {
    char text[1024];
    uint64_t ids[32];
    uint32_t count;
};

static void hear(void *arg, const struct notice *notice)
{
    struct heard *heard = arg;
    size_t len = strlen(heard->text);
    const char *word = strchr(notice_kind_word(notice->kind), '.') + 1;
    snprintf(heard->text + len, sizeof(heard->text) - len, "%s%s:%llu", len > 0 ? " " : "", word,
             (unsigned long long)notice->order_no);
    heard->ids[heard->count++] = notice->id;
}

static struct heard due(struct fixture *f, const char *seller, uint64_t now_ms)
{
    struct heard heard = { .count = 0 };
    const struct outbox_due ask = { slice_of(seller), now_ms, 20 };
    assert_int_equal(ledger_outbox_due(f->ledger, &ask, hear, &heard), FAULT_NONE);
    return heard;
}

static struct heard listed(struct fixture *f, const char *seller, enum notice_state state)
{
    struct heard heard = { .count = 0 };
    const struct outbox_query ask = { .seller = slice_of(seller), .state = state, .limit = 20 };
    assert_int_equal(ledger_outbox_list(f->ledger, &ask, hear, &heard), FAULT_NONE);
    return heard;
}

/* What is kept for each seller, against the rows themselves. */
static void counts_are_true(struct fixture *f)
{
    assert_int_equal(outside_number(f,
                                    "SELECT count(*) FROM outbox_counts AS c WHERE"
                                    " pending <> (SELECT count(*) FROM outbox AS o WHERE o.seller = c.seller AND state = 0)"
                                    " OR failed <> (SELECT count(*) FROM outbox AS o WHERE o.seller = c.seller AND"
                                    " state = 1)"),
                     0);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox WHERE seller NOT IN (SELECT seller FROM outbox_counts)"),
                     0);
}

static void outcome_is(struct fixture *f, uint64_t id, int outcome, uint64_t next_ms)
{
    char sql[80];
    snprintf(sql, sizeof(sql), "SELECT since_ms FROM outbox WHERE id = %llu", (unsigned long long)id);
    const struct outbox_result result = { .since_ms = (uint64_t)outside_number(f, sql),
                                          .id = id,
                                          .seller = SLICE("shop"),
                                          .outcome = outcome,
                                          .next_ms = next_ms,
                                          .status = 500,
                                          .error = "HTTP status 500" };
    const struct outbox_result *results[] = { &result };
    uint64_t given_up;
    assert_int_equal(ledger_outbox_record(f->ledger, &(struct outbox_results){ results, 1, 8000 }, &given_up), FAULT_NONE);
    assert_int_equal(given_up, outcome == TRY_GIVEN_UP);
    counts_are_true(f);
}

static void every_change_of_an_order_is_told_once_and_in_order(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 0);
    struct sale_terms terms = terms_named("phones");
    uint64_t sale = sale_file(f, "shop", &terms, 10);
    uint64_t paid = hold_file(f, sale, "ann", 1, 9000), cancelled = hold_file(f, sale, "bob", 1, 9000),
             expired = hold_file(f, sale, "cat", 1, 9000);
    uint64_t retaken = hold_file(f, sale, "dan", 1, 9000);
    end_file(f, DECISION_PAID, sale, paid);
    end_file(f, DECISION_CANCELLED, sale, cancelled);
    end_file(f, DECISION_EXPIRED, sale, expired);
    end_file(f, DECISION_EXPIRED, sale, retaken);
    end_file(f, DECISION_REFUND_DUE, sale, expired);
    end_file(f, DECISION_RETAKEN, sale, retaken);

    /* Only the first of each order is due. */
    struct heard first = due(f, "shop", 9999);
    assert_string_equal(first.text, "won:2 won:3 won:4 won:5");
    for (uint32_t i = 0; i < first.count; i++) outcome_is(f, first.ids[i], TRY_DELIVERED, 0);
    struct heard second = due(f, "shop", 9999);
    assert_string_equal(second.text, "paid:2 cancelled:3 expired:4 expired:5");
    for (uint32_t i = 0; i < second.count; i++) outcome_is(f, second.ids[i], TRY_DELIVERED, 0);
    struct heard third = due(f, "shop", 9999);
    assert_string_equal(third.text, "refund_due:4 paid:5");
    assert_int_equal(outside_number(f, "SELECT kind FROM outbox WHERE order_no = 5"), NOTICE_ORDER_PAID_LATE);
    for (uint32_t i = 0; i < third.count; i++) outcome_is(f, third.ids[i], TRY_DELIVERED, 0);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox"), 0);
}

static void one_that_comes_after_the_last_was_delivered_is_due_at_once(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 0);
    struct sale_terms terms = terms_named("phones");
    uint64_t sale = sale_file(f, "shop", &terms, 10);
    uint64_t order = hold_file(f, sale, "ann", 1, 9000);
    outcome_is(f, due(f, "shop", 9999).ids[0], TRY_DELIVERED, 0);
    end_file(f, DECISION_PAID, sale, order);
    assert_string_equal(due(f, "shop", 9999).text, "paid:2");
}

static void a_failed_try_holds_back_its_order_and_no_other(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 0);
    struct sale_terms terms = terms_named("phones");
    uint64_t sale = sale_file(f, "shop", &terms, 10);
    uint64_t order = hold_file(f, sale, "ann", 1, 9000);
    hold_file(f, sale, "bob", 1, 9000);
    outcome_is(f, due(f, "shop", 9999).ids[0], TRY_FAILED, 20000);
    end_file(f, DECISION_PAID, sale, order);
    assert_string_equal(due(f, "shop", 19999).text, "won:3");
    assert_string_equal(due(f, "shop", 20000).text, "won:3 won:2");
    assert_int_equal(outside_number(f, "SELECT attempts FROM outbox WHERE order_no = 2 AND kind = 1"), 1);

    /* Given up, it holds back nothing any more, and can be sent again. */
    struct heard both = due(f, "shop", 20000);
    outcome_is(f, both.ids[1], TRY_GIVEN_UP, 0);
    assert_string_equal(due(f, "shop", 20000).text, "won:3 paid:2");
    counts_are_true(f);
    assert_string_equal(listed(f, "shop", NOTICE_FAILED).text, "won:2");
    assert_string_equal(listed(f, "shop", NOTICE_PENDING).text, "paid:2 won:3");
    uint64_t count;
    assert_int_equal(ledger_outbox_retry(f->ledger, SLICE("other"), both.ids[1], 30000, &count), FAULT_NONE);
    assert_int_equal(count, 0);
    assert_int_equal(ledger_outbox_retry(f->ledger, SLICE("shop"), both.ids[1], 30000, &count), FAULT_NONE);
    assert_int_equal(count, 1);
    assert_string_equal(listed(f, "shop", NOTICE_FAILED).text, "");
    assert_string_equal(due(f, "shop", 30000).text, "won:3 paid:2 won:2");
}

static void all_that_failed_comes_back_in_order(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 0);
    struct sale_terms terms = terms_named("phones");
    uint64_t sale = sale_file(f, "shop", &terms, 10);
    uint64_t order = hold_file(f, sale, "ann", 1, 9000);
    end_file(f, DECISION_PAID, sale, order);
    hold_file(f, sale, "bob", 1, 9000);
    const struct outbox_age young = { SLICE("shop"), 4000, 9999 }, old = { SLICE("shop"), 9999, 9999 };
    uint64_t count;
    assert_int_equal(ledger_outbox_give_up(f->ledger, &young, &count), FAULT_NONE);
    assert_int_equal(count, 0);
    assert_int_equal(ledger_outbox_give_up(f->ledger, &old, &count), FAULT_NONE);
    assert_int_equal(count, 3);
    counts_are_true(f);
    assert_string_equal(due(f, "shop", 99999).text, "");
    assert_int_equal(ledger_outbox_retry(f->ledger, SLICE("shop"), 0, 30000, &count), FAULT_NONE);
    assert_int_equal(count, 3);
    struct heard heard = due(f, "shop", 30000);
    assert_string_equal(heard.text, "won:2 won:4");
    outcome_is(f, heard.ids[0], TRY_DELIVERED, 0);
    assert_string_equal(due(f, "shop", 30000).text, "paid:2 won:4");
}

/* So many orders, won and paid, of which nothing was told. */
static void backlog_make(struct fixture *f, int orders)
{
    char sql[640];
    snprintf(sql, sizeof(sql),
             "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %d) INSERT INTO outbox (seller,"
             " kind, stream, sale, order_no, event, at_ms, state, since_ms, next_ms, attempts, status, error)"
             " SELECT 'shop', 1 + i %% 2, (1000 + i / 2) * 4, 1, 1000 + i / 2, 0, 5000, 0, 5000,"
             " CASE WHEN i %% 2 THEN 9223372036854775807 ELSE 5000 END, 0, 0, '' FROM n",
             2 * orders);
    outside(f, sql);
}

static int64_t steps_take(struct fixture *f)
{
    static const enum statement used[] = { STATEMENT_OUTBOX_STALE_SPAN, STATEMENT_OUTBOX_FAILED_SPAN,
                                           STATEMENT_OUTBOX_GIVE_UP, STATEMENT_OUTBOX_RETRY_ALL, STATEMENT_OUTBOX_UNPARK };
    int64_t steps = 0;
    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++)
        steps += sqlite3_stmt_status(sqlite_statement(f->ledger->statements[used[i]]), SQLITE_STMTSTATUS_VM_STEP, 1);
    return steps;
}

/* Gives all up, has all sent again, and answers the work it took, in steps of SQLite. */
static int64_t backlog_turn(struct fixture *f, int orders)
{
    const struct outbox_age old = { SLICE("shop"), 9999, 9999 };
    uint64_t count = 1, all = 0;
    backlog_make(f, orders);
    while (count > 0) {
        assert_int_equal(ledger_outbox_give_up(f->ledger, &old, &count), FAULT_NONE);
        all += count;
    }
    assert_int_equal(all, 2 * orders);
    for (count = OUTBOX_AT_ONCE, all = 0; count == OUTBOX_AT_ONCE; all += count)
        assert_int_equal(ledger_outbox_retry(f->ledger, SLICE("shop"), 0, 30000, &count), FAULT_NONE);
    assert_int_equal(all, 2 * orders);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox WHERE state = 0 AND kind = 1 AND next_ms = 30000"),
                     orders);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox WHERE state = 0 AND kind = 2 AND next_ms > 30000"),
                     orders);
    counts_are_true(f);
    outside(f, "DELETE FROM outbox");
    return steps_take(f);
}

static void sending_all_again_takes_work_in_proportion(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 0);
    int64_t few = backlog_turn(f, 10000), many = backlog_turn(f, 40000);
    assert_true(many < 6 * few);
}

/* What was sent again and has failed again meanwhile waits for the next who asks: else one answer might never come. */
static void a_part_is_of_bounded_size_and_takes_nothing_twice(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 0);
    backlog_make(f, OUTBOX_AT_ONCE);
    outside(f, "UPDATE outbox SET state = 1");
    uint64_t count;
    for (int part = 0; part < 2; part++) {
        assert_int_equal(ledger_outbox_retry(f->ledger, SLICE("shop"), 0, 30000, &count), FAULT_NONE);
        assert_int_equal(count, OUTBOX_AT_ONCE);
        outside(f, "UPDATE outbox SET state = 1");
    }
    assert_int_equal(ledger_outbox_retry(f->ledger, SLICE("shop"), 0, 30000, &count), FAULT_NONE);
    assert_int_equal(count, 0);
    assert_int_equal(ledger_outbox_retry(f->ledger, SLICE("shop"), 0, 30001, &count), FAULT_NONE);
    assert_int_equal(count, OUTBOX_AT_ONCE);
    assert_int_equal(ledger_outbox_drop(f->ledger, SLICE("shop"), 0, &count), FAULT_NONE);
    assert_int_equal(count, OUTBOX_AT_ONCE);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox WHERE state = 1"), 0);
}

static void what_became_of_a_try_before_it_was_asked_for_again_does_not_count(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 0);
    struct sale_terms terms = terms_named("phones");
    hold_file(f, sale_file(f, "shop", &terms, 10), "ann", 1, 9000);
    uint64_t id = due(f, "shop", 9999).ids[0], count;
    const struct outbox_age old = { SLICE("shop"), 9999, 9999 };
    const struct outbox_result late = {
        .id = id, .since_ms = 5002, .seller = SLICE("shop"), .outcome = TRY_GIVEN_UP, .error = ""
    };
    const struct outbox_result *results[] = { &late };
    assert_int_equal(ledger_outbox_give_up(f->ledger, &old, &count), FAULT_NONE);
    assert_int_equal(ledger_outbox_retry(f->ledger, SLICE("shop"), id, 30000, &count), FAULT_NONE);
    assert_int_equal(count, 1);
    assert_int_equal(ledger_outbox_record(f->ledger, &(struct outbox_results){ results, 1, 30010 }, &count), FAULT_NONE);
    assert_int_equal(count, 0);
    assert_string_equal(due(f, "shop", 30010).text, "won:2");
}

static void giving_up_the_old_lets_the_young_behind_them_go(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 0);
    struct sale_terms terms = terms_named("phones");
    uint64_t sale = sale_file(f, "shop", &terms, 10);
    uint64_t order = hold_file(f, sale, "ann", 1, 9000);
    end_file(f, DECISION_PAID, sale, order);
    const struct outbox_age age = { SLICE("shop"), 5002, 9999 }; /* the win was at 5002 */
    uint64_t count;
    assert_int_equal(ledger_outbox_give_up(f->ledger, &age, &count), FAULT_NONE);
    assert_int_equal(count, 2 - 1);
    assert_string_equal(due(f, "shop", 9999).text, "paid:2");
}

/* Each row: a decision on a sale of 3, and whether the sale has sold out by it. */
static void sold_out_is_told_each_time_nothing_is_left(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 0);
    struct sale_terms terms = terms_named("phones");
    uint64_t sale = sale_file(f, "shop", &terms, 3);
    /* In one transaction: the counts of the sale's row are behind all the while. */
    struct decision d[8] = { win_of(2, sale, "ann", "", 2), win_of(3, sale, "bob", "", 1) };
    d[2] = (struct decision){ .seq = 4, .at_ms = 5004, .kind = DECISION_STOCK_ADDED, .sale_id = sale, .stock_added = 1 };
    d[3] = (struct decision){ .seq = 5, .at_ms = 5005, .kind = DECISION_STOCK_ADDED, .sale_id = sale, .stock_added = -1 };
    d[4] = (struct decision){ .seq = 6, .at_ms = 5006, .kind = DECISION_STOCK_ADDED, .sale_id = sale, .stock_added = 1 };
    d[5] = win_of(7, sale, "cat", "", 1);
    d[5].won.pay_by_ms = 9000;
    d[6] = (struct decision){ .seq = 8, .at_ms = 5008, .kind = DECISION_EXPIRED, .sale_id = sale };
    d[6].ended.order_no = 7;
    d[6].ended.units = 1;
    d[7] = (struct decision){ .seq = 9, .at_ms = 5009, .kind = DECISION_RETAKEN, .sale_id = sale };
    d[7].ended.order_no = 7;
    d[7].ended.units = 1;
    d[7].ended.ref = SLICE("pay-1");
    assert_int_equal(decisions_try(f, d, 8), FAULT_NONE);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox WHERE kind = 7"), 4);
    assert_int_equal(outside_number(f, "SELECT group_concat(at_ms, '') = '5003500550075009' FROM"
                                       " (SELECT at_ms FROM outbox WHERE kind = 7 ORDER BY id)"),
                     1);
    /* And across transactions. */
    struct decision more = { .seq = 10, .at_ms = 5010, .kind = DECISION_STOCK_ADDED, .sale_id = sale, .stock_added = 2 };
    decision_must(f, &more);
    win_file(f, sale, "dan", "", 1);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox WHERE kind = 7"), 4);
    win_file(f, sale, "eve", "", 1);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox WHERE kind = 7"), 5);
}

static void sellers_without_a_hook_are_told_nothing(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("phones");
    uint64_t other = sale_file(f, "other", &terms, 1), shop = sale_file(f, "shop", &terms, 5);
    win_file(f, shop, "ann", "", 1);
    hook_make(f, "shop", 0);
    win_file(f, other, "ann", "", 1);
    win_file(f, shop, "bob", "", 1);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox"), 1);
    bool found;
    assert_int_equal(ledger_hook_delete(f->ledger, SLICE("shop"), &found), FAULT_NONE);
    assert_true(found);
    counts_are_true(f);
    win_file(f, shop, "cat", "", 1);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox"), 0);
    assert_int_equal(ledger_hook_delete(f->ledger, SLICE("shop"), &found), FAULT_NONE);
    assert_false(found);
}

static void what_was_decided_before_the_hook_is_not_told_though_it_is_filed_later(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("phones");
    uint64_t sale = sale_file(f, "shop", &terms, 5);
    hook_make(f, "shop", 5003);
    win_file(f, sale, "ann", "", 1); /* at 5002 */
    win_file(f, sale, "bob", "", 1); /* at 5003 */
    assert_string_equal(due(f, "shop", 9999).text, "won:3");
}

static void a_transaction_rolled_back_leaves_no_notice(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 0);
    struct sale_terms terms = terms_named("phones");
    uint64_t sale = sale_file(f, "shop", &terms, 2);
    struct ledger_point from;
    struct decision win = win_of(2, sale, "ann", "", 2);
    assert_int_equal(ledger_file_begin(f->ledger, &from), FAULT_NONE);
    assert_int_equal(ledger_file(f->ledger, &win), FAULT_NONE);
    ledger_file_rollback(f->ledger);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox"), 0);
    /* What was available is not remembered from it either. */
    decision_must(f, &win);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox WHERE kind = 7"), 1);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox"), 2);
}

static void sales_closed_by_time_are_told_once(void **state)
{
    struct fixture *f = *state;
    hook_make(f, "shop", 5000);
    struct sale_terms terms = terms_named("one");
    terms.closes_ms = 7000;
    uint64_t first = sale_file(f, "shop", &terms, 5);
    terms = terms_named("two");
    terms.closes_ms = 7500;
    sale_file(f, "shop", &terms, 5);
    terms = terms_named("closed by hand");
    terms.closes_ms = 7200;
    uint64_t by_hand = sale_file(f, "shop", &terms, 5);
    terms = terms_named("of someone else");
    terms.closes_ms = 7100;
    sale_file(f, "other", &terms, 5);
    struct decision close = { .seq = 5, .at_ms = 6000, .kind = DECISION_SALE_CLOSED, .sale_id = by_hand };
    decision_must(f, &close);

    struct outbox_mark mark;
    bool any;
    assert_int_equal(ledger_outbox_mark(f->ledger, &mark), FAULT_NONE);
    assert_int_equal(mark.told_ms, 0);
    assert_int_equal(ledger_outbox_moments(f->ledger, (struct outbox_span){ 0, 6999 }, &any), FAULT_NONE);
    assert_false(any);
    assert_int_equal(ledger_outbox_moments(f->ledger, (struct outbox_span){ 0, 7000 }, &any), FAULT_NONE);
    assert_true(any);
    for (int i = 0; i < 2; i++) /* told again, nothing comes of it */
        assert_int_equal(ledger_outbox_file_moments(f->ledger, (struct outbox_span){ 0, 7400 }), FAULT_NONE);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox"), 2);
    assert_int_equal(outside_number(f, "SELECT sale FROM outbox WHERE kind = 9 AND at_ms = 7000"), (int64_t)first);
    assert_int_equal(outside_number(f, "SELECT sale FROM outbox WHERE kind = 8 AND at_ms = 6000"), (int64_t)by_hand);
    assert_int_equal(ledger_outbox_file_moments(f->ledger, (struct outbox_span){ 7400, 8000 }), FAULT_NONE);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox"), 3);
    assert_int_equal(ledger_outbox_mark(f->ledger, &mark), FAULT_NONE);
    assert_int_equal(mark.told_ms, 8000);
    counts_are_true(f);
}

static void an_id_is_never_given_twice(void **state)
{
    struct fixture *f = *state;
    uint64_t first, second;
    hook_make(f, "shop", 0);
    assert_int_equal(ledger_outbox_test(f->ledger, SLICE("shop"), 5000, &first), FAULT_NONE);
    outcome_is(f, first, TRY_DELIVERED, 0);
    fixture_reopen(f);
    assert_int_equal(ledger_outbox_test(f->ledger, SLICE("shop"), 5000, &second), FAULT_NONE);
    assert_true(second > first);
}

static void a_hook_keeps_its_secret_until_it_rotates(void **state)
{
    struct fixture *f = *state;
    struct hook hook;
    bool fresh, found;
    hook_make(f, "shop", 100);
    struct hook_put put = { .seller = SLICE("shop"),
                            .url = SLICE("https://example.com/other"),
                            .secret = SLICE("whsec_new"),
                            .now_ms = 200,
                            .before_until_ms = 900 };
    assert_int_equal(ledger_hook_put(f->ledger, &put, &hook, &fresh), FAULT_NONE);
    assert_false(fresh);
    assert_string_equal(hook.secret, SECRET);
    put.rotate = true;
    assert_int_equal(ledger_hook_put(f->ledger, &put, &hook, &fresh), FAULT_NONE);
    assert_true(fresh);
    assert_int_equal(ledger_hook(f->ledger, SLICE("shop"), &hook, &found), FAULT_NONE);
    assert_true(found);
    assert_string_equal(hook.url, "https://example.com/other");
    assert_string_equal(hook.secret, "whsec_new");
    assert_string_equal(hook.secret_before, SECRET);
    assert_int_equal(hook.before_until_ms, 900);
    assert_int_equal(hook.since_ms, 100);
    assert_int_equal(ledger_hook(f->ledger, SLICE("nobody"), &hook, &found), FAULT_NONE);
    assert_false(found);
}

static void sellers_with_something_to_hear_are_found_one_after_the_other(void **state)
{
    struct fixture *f = *state;
    static const char *const sellers[] = { "ann", "bob", "cat" };
    uint64_t id;
    for (int i = 0; i < 3; i++) {
        hook_make(f, sellers[i], 0);
        for (int k = 0; k < 3; k++)
            if (i != 1) assert_int_equal(ledger_outbox_test(f->ledger, slice_of(sellers[i]), 5000, &id), FAULT_NONE);
    }
    char seller[USERNAME_BYTES_MAX + 1] = "";
    bool found;
    assert_int_equal(ledger_outbox_seller(f->ledger, seller, &found), FAULT_NONE);
    assert_true(found);
    assert_string_equal(seller, "ann");
    assert_int_equal(ledger_outbox_seller(f->ledger, seller, &found), FAULT_NONE);
    assert_true(found);
    assert_string_equal(seller, "cat");
    assert_int_equal(ledger_outbox_seller(f->ledger, seller, &found), FAULT_NONE);
    assert_false(found);
    struct outbox_counts counts;
    assert_int_equal(ledger_outbox_counts(f->ledger, SLICE("cat"), &counts), FAULT_NONE);
    assert_int_equal(counts.pending, 3);
    assert_int_equal(counts.oldest_ms, 5000);
    assert_int_equal(ledger_outbox_counts(f->ledger, SLICE(""), &counts), FAULT_NONE);
    assert_int_equal(counts.pending, 6);
}

static void worst_visit(void *arg, const struct hook_health *health)
{
    char *text = arg;
    size_t len = strlen(text);
    snprintf(text + len, 256 - len, "%s %d/%d %d;", health->seller, (int)health->failed, (int)health->pending,
             (int)health->failed_ms);
}

static void the_hooks_that_fail_most_come_first(void **state)
{
    struct fixture *f = *state;
    static const char *const sellers[] = { "ann", "bob", "cat", "dan" };
    char text[256] = "";
    uint64_t id;
    for (int i = 0; i < 4; i++) hook_make(f, sellers[i], 100);
    assert_int_equal(ledger_outbox_test(f->ledger, SLICE("bob"), 5000, &id), FAULT_NONE);
    assert_int_equal(ledger_outbox_test(f->ledger, SLICE("cat"), 5000, &id), FAULT_NONE);
    const struct outbox_result lost = {
        .id = id, .since_ms = 5000, .seller = SLICE("cat"), .outcome = TRY_GIVEN_UP, .status = 500, .error = "500"
    };
    uint64_t given_up;
    const struct outbox_results results = { .all = (const struct outbox_result *const[]){ &lost },
                                            .count = 1,
                                            .now_ms = 7000 };
    assert_int_equal(ledger_outbox_record(f->ledger, &results, &given_up), FAULT_NONE);
    assert_int_equal(ledger_hooks_worst(f->ledger, 3, worst_visit, text), FAULT_NONE);
    assert_string_equal(text, "cat 1/0 7000;bob 0/1 0;ann 0/0 0;");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_change_of_an_order_is_told_once_and_in_order),
        CASE(one_that_comes_after_the_last_was_delivered_is_due_at_once),
        CASE(a_failed_try_holds_back_its_order_and_no_other),
        CASE(all_that_failed_comes_back_in_order),
        CASE(sending_all_again_takes_work_in_proportion),
        CASE(a_part_is_of_bounded_size_and_takes_nothing_twice),
        CASE(what_became_of_a_try_before_it_was_asked_for_again_does_not_count),
        CASE(giving_up_the_old_lets_the_young_behind_them_go),
        CASE(sold_out_is_told_each_time_nothing_is_left),
        CASE(sellers_without_a_hook_are_told_nothing),
        CASE(what_was_decided_before_the_hook_is_not_told_though_it_is_filed_later),
        CASE(a_transaction_rolled_back_leaves_no_notice),
        CASE(sales_closed_by_time_are_told_once),
        CASE(an_id_is_never_given_twice),
        CASE(a_hook_keeps_its_secret_until_it_rotates),
        CASE(the_hooks_that_fail_most_come_first),
        CASE(sellers_with_something_to_hear_are_found_one_after_the_other),
    };
    return cmocka_run_group_tests_name("outbox", tests, NULL, NULL);
}
