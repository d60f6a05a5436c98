/* What becomes of orders and sales in a ledger that several nodes write to, and what their gates are told of it.
 *
 * tidy: long because every verdict of every call is asked for in one place. */
#include "shared_stand.h"

#include "base/clock.h"
#include "ledger/publications.h"

#include <stdio.h>
#include <string.h>

struct shop {
    struct stand *stand;
    uint64_t sale, epoch;
    enum verdict verdict;
    struct order order;
    struct ledger_errand errand;
};

static struct shop shop_of(void **state, uint32_t grabs, uint32_t stock)
{
    struct shop shop = { .stand = *state };
    struct sale_terms terms = stand_terms("one", grabs, 1);
    shop.sale = stand_sale(shop.stand, &terms, stock);
    shop.epoch = stand_epoch(shop.stand, shop.sale);
    return shop;
}

static uint64_t shop_hold(struct shop *shop, const char *buyer)
{
    struct ledger_take take = stand_hold(shop->stand, shop->sale, buyer, shop->epoch);
    assert_int_equal(stand_file(shop->stand->a, &take), TAKE_FILED);
    return take.decision.seq;
}

static enum verdict shop_pay(struct shop *shop, uint64_t no, const char *ref, int64_t amount, struct decision *retake)
{
    struct ledger_payment ask = { .payment = { no, slice_of(ref), amount, 2600 }, .retake = retake };
    assert_int_equal(ledger_pay(shop->stand->b, &ask, &shop->verdict, &shop->order, &shop->errand), FAULT_NONE);
    return shop->verdict;
}

static enum verdict shop_cancel(struct shop *shop, uint64_t no, enum canceller by, const char *name, const char *reason)
{
    struct cancel cancel = { no, by, slice_of(name), slice_of(reason), 2600 };
    assert_int_equal(ledger_cancel(shop->stand->b, &cancel, &shop->verdict, &shop->order, &shop->errand), FAULT_NONE);
    return shop->verdict;
}

static uint32_t shop_expire(struct shop *shop, uint64_t now_ms, uint32_t max)
{
    struct ledger_fence fence = { .job = "expiry" };
    uint32_t expired;
    assert_int_equal(ledger_fence_raise(shop->stand->a, &fence), FAULT_NONE);
    struct ledger_expiry expiry = { shop->sale, now_ms, max };
    assert_int_equal(ledger_expire(shop->stand->b, &fence, &expiry, &expired), FAULT_NONE);
    return expired;
}

static void errand_is(const struct shop *shop, enum errand_kind kind, uint64_t no)
{
    assert_int_not_equal(shop->errand.id, 0);
    assert_int_equal(shop->errand.kind, kind);
    assert_int_equal(shop->errand.sale_id, shop->sale);
    assert_int_equal(shop->errand.order_no, no);
    assert_int_equal(shop->errand.epoch, shop->epoch);
}

static void a_payment_gets_every_verdict(void **state)
{
    struct shop shop = shop_of(state, 1, 10);
    uint64_t no = shop_hold(&shop, "bob");
    char long_ref[PAYMENT_REF_BYTES_MAX + 2];
    memset(long_ref, 'r', sizeof(long_ref));
    long_ref[sizeof(long_ref) - 1] = '\0';
    assert_int_equal(shop_pay(&shop, no, "", 250, NULL), VERDICT_BAD_INPUT);
    assert_int_equal(shop_pay(&shop, no, long_ref, 250, NULL), VERDICT_BAD_INPUT);
    assert_int_equal(shop_pay(&shop, no + 1, "p-1", 250, NULL), VERDICT_NO_SUCH_ORDER);
    assert_int_equal(shop_pay(&shop, no, "p-1", 249, NULL), VERDICT_AMOUNT_MISMATCH);
    assert_int_equal(shop.errand.id, 0);
    assert_counts(stand_read(shop.stand, shop.sale), 9, 1, 0);

    assert_int_equal(shop_pay(&shop, no, "p-1", 250, NULL), VERDICT_DONE);
    assert_int_equal(shop.order.state, ORDER_PAID);
    errand_is(&shop, ERRAND_PAID, no);
    assert_counts(stand_read(shop.stand, shop.sale), 9, 0, 1);
    assert_string_equal(stand_order(shop.stand, no).payment_ref, "p-1");
    assert_int_equal(shop_pay(&shop, no, "p-1", 250, NULL), VERDICT_REPEATED);
    assert_int_equal(shop.errand.id, 0);
    assert_int_equal(shop_pay(&shop, no, "p-2", 250, NULL), VERDICT_ALREADY_PAID);
    /* One that is paid counts: its buyer does not win again. */
    struct ledger_take more = stand_hold(shop.stand, shop.sale, "bob", shop.epoch);
    assert_int_equal(stand_file(shop.stand->a, &more), TAKE_ALREADY_WON);
    stand_adds_up(shop.stand);
}

static void a_late_payment_takes_again_what_is_there(void **state)
{
    struct shop shop = shop_of(state, 1, 1);
    uint64_t no = shop_hold(&shop, "bob");
    assert_int_equal(shop_expire(&shop, 3000, 10), 1);
    assert_counts(stand_read(shop.stand, shop.sale), 1, 0, 0);
    struct decision retake;
    assert_int_equal(shop_pay(&shop, no, "p-1", 250, &retake), VERDICT_DONE);
    assert_int_equal(retake.kind, DECISION_RETAKEN);
    assert_int_equal(shop.order.state, ORDER_PAID);
    assert_int_equal(shop.errand.id, 0);
    assert_counts(stand_read(shop.stand, shop.sale), 1, 0, 0); /* nothing is written yet */
    assert_true(retake.at_ms >= 3000);                         /* the clock of that node was behind */

    struct ledger_take take = { .decision = retake, .epoch = shop.epoch };
    assert_int_equal(stand_file(shop.stand->a, &take), TAKE_FILED);
    assert_int_equal(stand_file(shop.stand->b, &take), TAKE_FILED_BEFORE);
    assert_counts(stand_read(shop.stand, shop.sale), 0, 0, 1);
    assert_int_equal(shop_pay(&shop, no, "p-1", 250, &retake), VERDICT_REPEATED);
    assert_int_equal(retake.kind, 0);
    struct ledger_take more = stand_hold(shop.stand, shop.sale, "bob", shop.epoch);
    assert_int_equal(stand_file(shop.stand->a, &more), TAKE_ALREADY_WON); /* it counts again */
    stand_adds_up(shop.stand);
}

static void what_stands_against_taking_again(void **state)
{
    struct shop shop = shop_of(state, 1, 2);
    uint64_t bobs = shop_hold(&shop, "bob"), eves = shop_hold(&shop, "eve");
    assert_int_equal(shop_expire(&shop, 3000, 10), 2);
    struct decision retake;
    assert_int_equal(shop_pay(&shop, bobs, "p-1", 250, &retake), VERDICT_DONE);
    assert_int_equal(retake.kind, DECISION_RETAKEN);
    struct ledger_take take = { .decision = retake, .epoch = shop.epoch + 1 };
    assert_int_equal(stand_file(shop.stand->a, &take), TAKE_STALE);
    take.decision.ended.units = 2;
    take.epoch = shop.epoch;
    assert_int_equal(stand_file(shop.stand->a, &take), TAKE_REFUSED);
    take.decision = retake;
    take.decision.ended.order_no = eves + 1;
    assert_int_equal(stand_file(shop.stand->a, &take), TAKE_REFUSED);

    /* Bob has won anew, dan has the last unit. */
    uint64_t second = shop_hold(&shop, "bob");
    take.decision = retake;
    assert_int_equal(stand_file(shop.stand->a, &take), TAKE_ALREADY_WON);
    assert_int_equal(take.there.no, second);
    shop_hold(&shop, "dan");
    take.decision.ended.order_no = eves;
    assert_int_equal(stand_file(shop.stand->a, &take), TAKE_SOLD_OUT);
    assert_int_equal(shop_pay(&shop, bobs, "p-1", 250, &retake), VERDICT_DONE);
    assert_int_equal(retake.kind, 0); /* the ledger has seen it itself: a refund */
    assert_int_equal(shop.order.state, ORDER_REFUND_DUE);
    assert_int_equal(shop_pay(&shop, bobs, "p-1", 250, &retake), VERDICT_REPEATED);
    assert_int_equal(shop_pay(&shop, bobs, "p-9", 250, &retake), VERDICT_ALREADY_PAID);
    take.decision.ended.order_no = bobs;
    assert_int_equal(stand_file(shop.stand->a, &take), TAKE_REFUSED);
    assert_counts(stand_read(shop.stand, shop.sale), 0, 2, 0);
    stand_adds_up(shop.stand);
}

static void without_a_retake_the_money_goes_back(void **state)
{
    struct shop shop = shop_of(state, 1, 5);
    uint64_t no = shop_hold(&shop, "bob");
    assert_int_equal(shop_expire(&shop, 3000, 10), 1);
    assert_int_equal(shop_pay(&shop, no, "p-1", 250, NULL), VERDICT_DONE);
    assert_int_equal(shop.order.state, ORDER_REFUND_DUE);
    errand_is(&shop, ERRAND_REFUND, no);
    assert_int_equal(stand_order(shop.stand, no).order.state, ORDER_REFUND_DUE);
    uint64_t cancelled = shop_hold(&shop, "eve");
    struct decision retake;
    assert_int_equal(shop_cancel(&shop, cancelled, CANCELLER_SELLER, "ann", "why"), VERDICT_DONE);
    assert_int_equal(shop_pay(&shop, cancelled, "p-2", 250, &retake), VERDICT_DONE);
    assert_int_equal(retake.kind, 0);
    assert_int_equal(shop.order.state, ORDER_REFUND_DUE);
    errand_is(&shop, ERRAND_REFUND, cancelled);
    assert_int_equal(shop_pay(&shop, cancelled, "p-2", 250, &retake), VERDICT_REPEATED);
    assert_int_equal(shop.errand.id, 0);
    assert_counts(stand_read(shop.stand, shop.sale), 5, 0, 0);
    stand_adds_up(shop.stand);
}

static void a_cancel_gets_every_verdict(void **state)
{
    struct shop shop = shop_of(state, 1, 5);
    uint64_t no = shop_hold(&shop, "bob");
    assert_int_equal(shop_cancel(&shop, no, CANCELLER_SELLER, "ann", ""), VERDICT_BAD_INPUT);
    assert_int_equal(shop_cancel(&shop, no + 1, CANCELLER_BUYER, "bob", ""), VERDICT_NO_SUCH_ORDER);
    assert_int_equal(shop_cancel(&shop, no, CANCELLER_BUYER, "eve", ""), VERDICT_NO_SUCH_ORDER);
    assert_int_equal(shop_cancel(&shop, no, CANCELLER_SELLER, "eve", "why"), VERDICT_NO_SUCH_ORDER);
    assert_counts(stand_read(shop.stand, shop.sale), 4, 1, 0);
    assert_int_equal(shop_cancel(&shop, no, CANCELLER_BUYER, "bob", ""), VERDICT_DONE);
    assert_int_equal(shop.order.state, ORDER_CANCELLED);
    errand_is(&shop, ERRAND_CANCELLED, no);
    assert_int_equal(shop.errand.units, 1);
    assert_int_equal(shop_cancel(&shop, no, CANCELLER_BUYER, "bob", ""), VERDICT_NOT_HELD);
    assert_int_equal(shop.errand.id, 0);
    no = shop_hold(&shop, "bob");
    assert_int_equal(shop_cancel(&shop, no, CANCELLER_ADMIN, "root", "why"), VERDICT_DONE);
    assert_int_equal(stand_order(shop.stand, no).canceller, CANCELLER_ADMIN);
    assert_counts(stand_read(shop.stand, shop.sale), 5, 0, 0);
    stand_adds_up(shop.stand);
}

static void holds_expire_when_they_are_due_and_not_before(void **state)
{
    struct shop shop = shop_of(state, 1, 10);
    char name[8];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "b%d", i);
        struct ledger_take take = stand_hold(shop.stand, shop.sale, name, shop.epoch);
        take.decision.won.pay_by_ms = 3000 + (uint64_t)i;
        assert_int_equal(stand_file(shop.stand->a, &take), TAKE_FILED);
    }
    struct ledger_take paid = stand_win(shop.stand, shop.sale, "paid", shop.epoch);
    assert_int_equal(stand_file(shop.stand->a, &paid), TAKE_FILED);
    assert_int_equal(shop_expire(&shop, 2999, 10), 0);
    assert_int_equal(shop_expire(&shop, 3003, 3), 3);
    assert_int_equal(shop_expire(&shop, 3003, 3), 1);
    assert_int_equal(shop_expire(&shop, 3003, 3), 0);
    assert_counts(stand_read(shop.stand, shop.sale), 8, 1, 1);
    struct ledger_take again = stand_hold(shop.stand, shop.sale, "b0", shop.epoch);
    assert_int_equal(stand_file(shop.stand->a, &again), TAKE_FILED);
    shop.sale += 7;
    assert_int_equal(shop_expire(&shop, 9000, 10), 0); /* there is no such sale */
    stand_adds_up(shop.stand);
}

struct errands {
    struct ledger_errand all[16];
    size_t count;
};
static void errand_note(void *arg, const struct ledger_errand *errand)
{
    struct errands *errands = arg;
    errands->all[errands->count++] = *errand;
}

static struct errands errands_page(struct shop *shop, const struct ledger_errand_page *page)
{
    struct errands errands = { .count = 0 };
    assert_int_equal(ledger_errands(shop->stand->a, page, errand_note, &errands), FAULT_NONE);
    return errands;
}

static struct errands errands_read(struct shop *shop, uint64_t before_ms, uint32_t max)
{
    return errands_page(shop, &(struct ledger_errand_page){ .made_before_ms = before_ms, .max = max });
}

static void errands_stand_in_order_until_they_are_done(void **state)
{
    struct shop shop = shop_of(state, 1, 10);
    uint64_t b0 = shop_hold(&shop, "b0"), b1 = shop_hold(&shop, "b1"), b2 = shop_hold(&shop, "b2");
    assert_int_equal(shop_pay(&shop, b1, "p", 250, NULL), VERDICT_DONE);
    assert_int_equal(shop_cancel(&shop, b0, CANCELLER_BUYER, "b0", ""), VERDICT_DONE);
    shop.epoch = stand_epoch(shop.stand, shop.sale);
    struct ledger_change add = { .asker = { SLICE("ann"), false, 2700 }, .sale_id = shop.sale };
    add.kind = DECISION_STOCK_ADDED;
    add.add = 5;
    assert_int_equal(stand_change(shop.stand, &add), VERDICT_DONE);
    assert_int_equal(shop_expire(&shop, 3000, 9), 1);

    struct errands found = errands_read(&shop, 4000, 16);
    static const enum errand_kind kinds[] = { ERRAND_PAID, ERRAND_CANCELLED, ERRAND_STOCK, ERRAND_EXPIRED };
    const uint64_t orders[] = { b1, b0, 0, b2 };
    assert_int_equal(found.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(found.all[i].kind, kinds[i]);
        assert_int_equal(found.all[i].order_no, orders[i]);
        assert_int_equal(found.all[i].units, i == 2 ? 5 : 1);
        assert_int_equal(found.all[i].epoch, i < 2 ? shop.epoch - 1 : shop.epoch);
        if (i > 0) assert_true(found.all[i].id > found.all[i - 1].id);
    }
    assert_int_equal(errands_read(&shop, 2700, 16).count, 2);
    assert_int_equal(errands_read(&shop, 4000, 3).count, 3);
    struct ledger_errand_page page = { 0, 4000, 1 };
    for (size_t i = 0; i < 4; i++) {
        struct errands next = errands_page(&shop, &page);
        assert_int_equal(next.count, 1);
        assert_int_equal(next.all[0].id, found.all[i].id);
        page.id_after = next.all[0].id;
    }
    assert_int_equal(errands_page(&shop, &page).count, 0);
    uint64_t done[] = { found.all[0].id, found.all[2].id };
    assert_int_equal(ledger_errands_done(shop.stand->b, done, 2), FAULT_NONE);
    assert_int_equal(ledger_errands_done(shop.stand->b, done, 2), FAULT_NONE);
    struct errands left = errands_read(&shop, 4000, 16);
    assert_int_equal(left.count, 2);
    assert_int_equal(left.all[0].id, found.all[1].id);
    assert_int_equal(left.all[1].id, found.all[3].id);
}

static void only_the_last_owner_of_a_job_writes(void **state)
{
    struct shop shop = shop_of(state, 1, 10);
    uint64_t no = shop_hold(&shop, "bob"), epoch;
    uint32_t expired;
    struct ledger_fence old = { .job = "j" }, new = { .job = "j" }, other = { .job = "k" }, none = { .job = "never" };
    struct ledger_expiry expiry = { shop.sale, 3000, 10 };
    assert_int_equal(ledger_fence_raise(shop.stand->a, &old), FAULT_NONE);
    assert_int_equal(ledger_fence_raise(shop.stand->b, &new), FAULT_NONE);
    assert_int_equal(ledger_fence_raise(shop.stand->b, &other), FAULT_NONE);
    assert_true(new.number > old.number);
    assert_int_equal(ledger_expire(shop.stand->a, &old, &expiry, &expired), FAULT_FENCED);
    assert_int_equal(ledger_epoch_raise(shop.stand->a, &old, shop.sale, &epoch), FAULT_FENCED);
    none.number = 1;
    assert_int_equal(ledger_expire(shop.stand->a, &none, &expiry, &expired), FAULT_FENCED);
    assert_int_equal(stand_order(shop.stand, no).order.state, ORDER_HELD);
    assert_int_equal(ledger_expire(shop.stand->b, &new, &expiry, &expired), FAULT_NONE);
    assert_int_equal(expired, 1);
}

/* Of two couriers, the one that was the owner before: whatever it comes to record, it does not. */
static void only_the_last_owner_of_the_outbox_writes(void **state)
{
    struct stand *stand = *state;
    struct ledger_fence old = { .job = "j" }, new = { .job = "j" }, nobody = { .job = NULL };
    uint64_t id, given_up, published[] = { 1 };
    assert_int_equal(ledger_fence_raise(stand->a, &old), FAULT_NONE);
    assert_int_equal(ledger_fence_raise(stand->b, &new), FAULT_NONE);
    assert_int_equal(ledger_outbox_test(stand->a, SLICE("ann"), 1000, &id), FAULT_NONE);
    struct outbox_result result = { .id = id, .seller = SLICE("ann"), .outcome = TRY_DELIVERED };
    const struct outbox_result *results[] = { &result };
    const struct outbox_results all = { results, 1, 2000 };
    const struct outbox_age age = { SLICE("ann"), 5000, 6000 };
    const struct outbox_span span = { 0, 9000 };
    ledger_set_fence(stand->a, &old);
    ledger_set_fence(stand->b, &new);
    assert_int_equal(ledger_outbox_record(stand->a, &all, &given_up), FAULT_FENCED);
    assert_int_equal(ledger_outbox_give_up(stand->a, &age, &given_up), FAULT_FENCED);
    assert_int_equal(ledger_outbox_file_moments(stand->a, span), FAULT_FENCED);
    assert_int_equal(ledger_publications_delete(stand->a, published, 1), FAULT_FENCED);
    assert_int_equal(ledger_publications_file_moments(stand->a, span), FAULT_FENCED);
    struct outbox_counts counts;
    assert_int_equal(ledger_outbox_counts(stand->b, SLICE("ann"), &counts), FAULT_NONE);
    assert_int_equal(counts.pending, 1);
    assert_int_equal(counts.failed, 0);
    assert_int_equal(ledger_outbox_record(stand->b, &all, &given_up), FAULT_NONE);
    assert_int_equal(ledger_outbox_counts(stand->b, SLICE("ann"), &counts), FAULT_NONE);
    assert_int_equal(counts.pending, 0);
    ledger_set_fence(stand->a, &nobody);
    assert_int_equal(ledger_outbox_test(stand->a, SLICE("ann"), 3000, &id), FAULT_NONE);
}

static void a_change_gets_every_verdict(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("one", 1, 1), bad = terms;
    struct ledger_change create = { .asker = { SLICE("ann"), false, 500 }, .kind = DECISION_SALE_CREATED, .add = 10 };
    bad.units_per_grab_max = 0;
    create.terms = &bad;
    assert_int_equal(stand_change(stand, &create), VERDICT_BAD_INPUT);
    assert_int_equal(stand->sale.terms.units_per_grab_max, 0);
    create.terms = &terms;
    create.add = (int64_t)STOCK_MAX + 1;
    assert_int_equal(stand_change(stand, &create), VERDICT_BAD_INPUT);
    create.add = 10;
    create.asker.name = SLICE("");
    assert_int_equal(stand_change(stand, &create), VERDICT_BAD_INPUT);
    create.asker.name = SLICE("ann");
    assert_int_equal(stand_change(stand, &create), VERDICT_DONE);
    assert_int_equal(stand->errand.id, 0);
    uint64_t id = stand->sale.id, last;
    assert_counts(stand->sale, 10, 0, 0);
    assert_int_equal(ledger_sale_id_last(stand->b, &last), FAULT_NONE);
    assert_int_equal(last, id);
    assert_int_equal(stand_change(stand, &create), VERDICT_NAME_TAKEN);
    struct sale_terms second = stand_terms("two", 1, 1);
    create.terms = &second;
    create.sales_per_seller_max = 1;
    assert_int_equal(stand_change(stand, &create), VERDICT_TOO_MANY_SALES);
    create.sales_per_seller_max = 2;
    assert_int_equal(stand_change(stand, &create), VERDICT_DONE);
    assert_int_equal(stand->sale.id, id + 1);

    struct ledger_change change = { .asker = { SLICE("eve"), false, 600 }, .sale_id = id, .terms = &second };
    change.kind = DECISION_SALE_CHANGED;
    change.mask = TERM_NAME;
    assert_int_equal(stand_change(stand, &change), VERDICT_NO_SUCH_SALE);
    change.asker.admin = true;
    assert_int_equal(stand_change(stand, &change), VERDICT_NAME_TAKEN);
    change.mask = TERM_PRICE;
    second.price = 300;
    assert_int_equal(stand_change(stand, &change), VERDICT_DONE);
    assert_int_equal(stand->errand.kind, ERRAND_SALE);
    assert_int_equal(stand_read(stand, id).terms.price, 300);
    assert_string_equal(stand_read(stand, id).terms.name, "one");
    second.price = 400;
    change.asked_mono_ms = mono_ms() - 500; /* it opened while the row was waited for */
    assert_int_equal(stand_change(stand, &change), VERDICT_SALE_OPEN);
    change.asked_mono_ms = 0;
    change.asker.now_ms = 1000;
    assert_int_equal(stand_change(stand, &change), VERDICT_SALE_OPEN);
    change.mask = TERM_UNITS;
    change.terms = &bad;
    assert_int_equal(stand_change(stand, &change), VERDICT_BAD_INPUT);
    change.sale_id = id + 9;
    assert_int_equal(stand_change(stand, &change), VERDICT_NO_SUCH_SALE);
}

static void stock_and_switches_get_every_verdict(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("one", 1, 1);
    uint64_t id = stand_sale(stand, &terms, 10);
    static const struct {
        enum decision_kind kind;
        int64_t add;
        enum verdict want;
    } script[] = {
        { DECISION_STOCK_ADDED, 5, VERDICT_DONE },        { DECISION_STOCK_ADDED, STOCK_MAX, VERDICT_NOT_AVAILABLE },
        { DECISION_SALE_RESUMED, 0, VERDICT_NOT_PAUSED }, { DECISION_SALE_PAUSED, 0, VERDICT_DONE },
        { DECISION_SALE_PAUSED, 0, VERDICT_PAUSED },      { DECISION_SALE_RESUMED, 0, VERDICT_DONE },
        { DECISION_SALE_CLOSED, 0, VERDICT_DONE },        { DECISION_SALE_CLOSED, 0, VERDICT_CLOSED },
        { DECISION_SALE_PAUSED, 0, VERDICT_CLOSED },      { DECISION_STOCK_ADDED, 1, VERDICT_CLOSED },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct ledger_change change = { .asker = { SLICE("ann"), false, 2000 }, .sale_id = id };
        change.kind = script[i].kind;
        change.add = script[i].add;
        assert_int_equal(stand_change(stand, &change), script[i].want);
        assert_int_equal(stand->errand.id != 0, script[i].want == VERDICT_DONE);
        struct sale row = stand_read(stand, id);
        assert_int_equal(row.paused, stand->sale.paused);
        assert_int_equal(row.closed, stand->sale.closed);
        assert_memory_equal(&row.counts, &stand->sale.counts, sizeof(row.counts));
    }
    assert_counts(stand_read(stand, id), 15, 0, 0);
}

struct seen {
    uint64_t ids[16], versions[16], epochs[16];
    size_t count;
};
static void sale_note(void *arg, const struct ledger_shelved *sale)
{
    struct seen *seen = arg;
    seen->ids[seen->count] = sale->sale.id;
    seen->versions[seen->count] = sale->version;
    seen->epochs[seen->count++] = sale->epoch;
}

static struct seen changed(struct stand *stand, uint64_t version, uint64_t now_ms)
{
    struct seen seen = { .count = 0 };
    assert_int_equal(ledger_each_changed_sale(stand->b, version, now_ms, sale_note, &seen), FAULT_NONE);
    return seen;
}

static void nodes_see_every_change_once(void **state)
{
    struct stand *stand = *state;
    struct sale_terms one = stand_terms("one", 1, 1), two = stand_terms("two", 1, 1);
    uint64_t first = stand_sale(stand, &one, 10), second = stand_sale(stand, &two, 10);
    struct seen seen = changed(stand, 0, 600);
    assert_int_equal(seen.count, 2);
    uint64_t version = seen.versions[1];
    assert_true(version > seen.versions[0]);
    assert_int_equal(changed(stand, version, 600).count, 0);

    uint64_t epoch = stand_epoch(stand, first);
    struct ledger_take take = stand_hold(stand, first, "bob", epoch);
    seen = changed(stand, version, 600);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.ids[0], first);
    assert_int_equal(seen.epochs[0], epoch);
    version = seen.versions[0];
    assert_int_equal(stand_file(stand->a, &take), TAKE_FILED);
    assert_int_equal(changed(stand, version, 600).count, 0); /* what is taken is no change */

    /* Nodes that have it must hear that it is over; those that start need not. */
    struct ledger_change close = { .asker = { SLICE("ann"), false, 700 }, .sale_id = second };
    close.kind = DECISION_SALE_CLOSED;
    assert_int_equal(stand_change(stand, &close), VERDICT_DONE);
    seen = changed(stand, version, 700);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.ids[0], second);
    assert_int_equal(changed(stand, 0, 700).count, 1);
    assert_int_equal(changed(stand, 0, 9000).count, 1); /* the first is over by time, and holds something */
    struct ledger_shelved shelved;
    bool found;
    assert_int_equal(ledger_shelved(stand->b, first, &shelved, &found), FAULT_NONE);
    assert_true(found);
    assert_int_equal(shelved.epoch, epoch);
    assert_counts(shelved.sale, 9, 1, 0);
    assert_int_equal(ledger_shelved(stand->b, first + 9, &shelved, &found), FAULT_NONE);
    assert_false(found);
}

struct rebuilt {
    struct ledger_shelved sale;
    uint64_t orders[16], tokens[16], withdrawals[16];
    uint32_t nths[16];
    size_t sales_count, orders_count, tokens_count, withdrawals_count;
};
static enum fault rebuilt_sale(void *arg, const struct ledger_shelved *sale)
{
    struct rebuilt *rebuilt = arg;
    rebuilt->sale = *sale;
    rebuilt->sales_count++;
    return FAULT_NONE;
}
static enum fault rebuilt_order(void *arg, const struct ledger_order *order, uint32_t nth)
{
    struct rebuilt *rebuilt = arg;
    rebuilt->nths[rebuilt->orders_count] = nth;
    rebuilt->orders[rebuilt->orders_count++] = order->order.no;
    return FAULT_NONE;
}
static enum fault rebuilt_token(void *arg, const struct ledger_token *token)
{
    struct rebuilt *rebuilt = arg;
    rebuilt->tokens[rebuilt->tokens_count++] = token->nonce;
    return FAULT_NONE;
}
static enum fault rebuilt_withdrawal(void *arg, uint64_t number, uint32_t units)
{
    struct rebuilt *rebuilt = arg;
    assert_int_equal(units, 2);
    rebuilt->withdrawals[rebuilt->withdrawals_count++] = number;
    return FAULT_NONE;
}
static enum fault rebuilt_stop(void *arg, const struct ledger_shelved *sale)
{
    (void)arg, (void)sale;
    return FAULT_SPACE;
}

/* Who did not hear that they are withdrawn asks again by their number: the gate must know it. */
static void a_gate_hears_of_what_was_withdrawn_just_before(void **state)
{
    struct shop shop = shop_of(state, 3, 10);
    static struct rebuilt rebuilt;
    rebuilt = (struct rebuilt){ .sales_count = 0 };
    struct sale_terms terms = stand_terms("other", 1, 1);
    uint64_t numbers[3], sales[3] = { shop.sale, shop.sale, stand_sale(shop.stand, &terms, 10) };
    const uint64_t epochs[3] = { shop.epoch, shop.epoch, stand_epoch(shop.stand, sales[2]) };
    for (int i = 0; i < 3; i++) {
        struct ledger_take take = stand_win(shop.stand, sales[i], "", epochs[i]);
        numbers[i] = take.decision.seq;
        take.decision = (struct decision){ .seq = numbers[i], .kind = DECISION_STOCK_ADDED, .sale_id = sales[i] };
        take.decision.stock_added = -2;
        assert_int_equal(stand_file(shop.stand->a, &take), TAKE_FILED);
    }
    struct ledger_rebuild visit = { .sale = rebuilt_sale,
                                    .order = rebuilt_order,
                                    .token = rebuilt_token,
                                    .withdrawal = rebuilt_withdrawal,
                                    .arg = &rebuilt,
                                    .withdrawn_after = numbers[0] - 1 };
    assert_int_equal(ledger_rebuild(shop.stand->b, shop.sale, &visit), FAULT_NONE);
    assert_int_equal(rebuilt.withdrawals_count, 2);
    assert_int_equal(rebuilt.withdrawals[0], numbers[0]);
    assert_int_equal(rebuilt.withdrawals[1], numbers[1]);
    visit.withdrawn_after = numbers[0];
    assert_int_equal(ledger_rebuild(shop.stand->b, shop.sale, &visit), FAULT_NONE);
    assert_int_equal(rebuilt.withdrawals_count, 3);
    assert_int_equal(rebuilt.withdrawals[2], numbers[1]);
}

static void a_gate_is_rebuilt_from_all_that_stands(void **state)
{
    struct shop shop = shop_of(state, 3, 10);
    uint64_t b0 = shop_hold(&shop, "bob"), b1 = shop_hold(&shop, "bob"), eve = shop_hold(&shop, "eve");
    assert_int_equal(shop_cancel(&shop, b0, CANCELLER_BUYER, "bob", ""), VERDICT_DONE);
    struct ledger_take token = stand_win(shop.stand, shop.sale, "dan", shop.epoch);
    struct decision given = { .seq = token.decision.seq, .kind = DECISION_TOKEN_GIVEN, .sale_id = shop.sale };
    given.token_given.buyer = SLICE("dan");
    token.decision = given;
    assert_int_equal(stand_file(shop.stand->a, &token), TAKE_FILED);

    static struct rebuilt rebuilt;
    rebuilt = (struct rebuilt){ .sales_count = 0 };
    struct ledger_rebuild visit = { .sale = rebuilt_sale, .order = rebuilt_order, .token = rebuilt_token, .arg = &rebuilt };
    assert_int_equal(ledger_rebuild(shop.stand->b, shop.sale, &visit), FAULT_NONE);
    assert_int_equal(rebuilt.sales_count, 1);
    assert_int_equal(rebuilt.sale.epoch, shop.epoch);
    assert_counts(rebuilt.sale.sale, 8, 2, 0);
    assert_int_equal(rebuilt.orders_count, 3);
    assert_int_equal(rebuilt.orders[0], b0);
    assert_int_equal(rebuilt.orders[1], b1);
    assert_int_equal(rebuilt.orders[2], eve);
    assert_int_equal(rebuilt.nths[0], 0);
    assert_int_equal(rebuilt.nths[1], 2);
    assert_int_equal(rebuilt.nths[2], 1);
    assert_int_equal(rebuilt.tokens_count, 1);
    assert_int_equal(rebuilt.tokens[0], token.decision.seq);

    visit.sale = rebuilt_stop;
    assert_int_equal(ledger_rebuild(shop.stand->b, shop.sale, &visit), FAULT_SPACE);
    assert_int_equal(ledger_rebuild(shop.stand->b, shop.sale + 9, &visit), FAULT_NONE);
    assert_int_equal(rebuilt.orders_count, 3);
    shop_hold(&shop, "fay"); /* the snapshot is over */
    stand_adds_up(shop.stand);
}

/* A sale that one engine has sold from goes on with several nodes: what was won counts. */
static void the_first_epoch_counts_what_one_engine_decided(void **state)
{
    struct stand *stand = *state;
    struct sale_terms terms = stand_terms("local", 2, 0);
    struct ledger_point from, to;
    assert_int_equal(ledger_file_begin(stand->a, &from), FAULT_NONE);
    struct decision create = { .seq = 1, .at_ms = 500, .kind = DECISION_SALE_CREATED, .sale_id = 1 };
    create.created.seller = SLICE("ann");
    create.created.terms = &terms;
    create.created.stock = 10;
    assert_int_equal(ledger_file(stand->a, &create), FAULT_NONE);
    for (uint64_t seq = 2; seq <= 4; seq++) {
        struct decision won = stand_win(stand, 1, seq == 4 ? "eve" : "bob", 0).decision;
        won.seq = seq;
        assert_int_equal(ledger_file(stand->a, &won), FAULT_NONE);
    }
    to = from;
    to.seq = 4;
    assert_int_equal(ledger_file_commit(stand->a, &from, &to), FAULT_NONE);

    uint64_t epoch = stand_epoch(stand, 1);
    struct ledger_take bobs = stand_win(stand, 1, "bob", epoch), eves = stand_win(stand, 1, "eve", epoch);
    assert_int_equal(stand_file(stand->b, &bobs), TAKE_ALREADY_WON);
    assert_int_equal(stand_file(stand->b, &eves), TAKE_FILED);
    eves = stand_win(stand, 1, "eve", epoch);
    assert_int_equal(stand_file(stand->b, &eves), TAKE_ALREADY_WON);
    assert_counts(stand_read(stand, 1), 6, 0, 4);
    uint64_t none;
    struct ledger_fence fence = { .job = "j" };
    assert_int_equal(ledger_fence_raise(stand->a, &fence), FAULT_NONE);
    assert_int_equal(ledger_epoch_raise(stand->a, &fence, 99, &none), FAULT_NONE);
    assert_int_equal(none, 0);
}

static void revoked_note(void *arg, uint64_t token_id, uint64_t expires_ms)
{
    uint64_t *sum = arg;
    *sum += token_id * 100 + expires_ms;
}

static void logouts_of_other_nodes_are_seen_once(void **state)
{
    struct stand *stand = *state;
    uint64_t last = 0, sum = 0;
    assert_int_equal(ledger_revoke(stand->a, 7, 50), FAULT_NONE);
    assert_int_equal(ledger_revoke(stand->b, 3, 60), FAULT_NONE);
    assert_int_equal(ledger_revoke(stand->b, 7, 50), FAULT_NONE); /* again */
    assert_int_equal(ledger_each_revoked_after(stand->b, &last, revoked_note, &sum), FAULT_NONE);
    assert_int_equal(sum, 750 + 360);
    sum = 0;
    assert_int_equal(ledger_each_revoked_after(stand->b, &last, revoked_note, &sum), FAULT_NONE);
    assert_int_equal(sum, 0);
    assert_int_equal(ledger_forget_revoked(stand->a, 60), FAULT_NONE);
    assert_int_equal(ledger_revoke(stand->a, 2, 70), FAULT_NONE);
    assert_int_equal(ledger_each_revoked_after(stand->b, &last, revoked_note, &sum), FAULT_NONE);
    assert_int_equal(sum, 270);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, stand_setup, stand_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_payment_gets_every_verdict),
        TEST(a_late_payment_takes_again_what_is_there),
        TEST(what_stands_against_taking_again),
        TEST(without_a_retake_the_money_goes_back),
        TEST(a_cancel_gets_every_verdict),
        TEST(holds_expire_when_they_are_due_and_not_before),
        TEST(errands_stand_in_order_until_they_are_done),
        TEST(only_the_last_owner_of_a_job_writes),
        TEST(only_the_last_owner_of_the_outbox_writes),
        TEST(a_change_gets_every_verdict),
        TEST(stock_and_switches_get_every_verdict),
        TEST(nodes_see_every_change_once),
        TEST(a_gate_is_rebuilt_from_all_that_stands),
        TEST(a_gate_hears_of_what_was_withdrawn_just_before),
        TEST(the_first_epoch_counts_what_one_engine_decided),
        TEST(logouts_of_other_nodes_are_seen_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
