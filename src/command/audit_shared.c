/* The audit of a ledger that nodes file into without a journal. What it holds is proved against itself, in one snapshot,
 * also while nodes are at work: P1 the counts of each sale add up and are what its orders add up to; P2 nobody has more
 * orders than the sale allows; P4 each number, key and token stands for one order. */
#include "command/audit_shared.h"

#include "ledger/agreed.h"
#include "ledger/ledger.h"
#include "ledger/shared.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define FINDINGS_SHOWN_MAX 100

struct proof {
    struct ledger *ledger;
    uint64_t findings;
    uint64_t sales, orders, tokens, errands;
    uint64_t order_no_last;
};

static void finding(struct proof *proof, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void finding(struct proof *proof, const char *format, ...)
{
    if (proof->findings++ >= FINDINGS_SHOWN_MAX) return;
    va_list arguments;
    va_start(arguments, format);
    fputs("wrong: ", stdout);
    vprintf(format, arguments);
    fputc('\n', stdout);
    va_end(arguments);
}

static enum fault sale_prove(void *arg, const struct sale *sale)
{
    struct proof *proof = arg;
    const struct sale_counts *counts = &sale->counts;
    proof->sales++;
    if (!sale_counts_add_up(counts))
        finding(proof, "P1 sale %" PRIu64 ": available %u + held %u + sold %u is not offered %u", sale->id,
                counts->available, counts->held, counts->sold, counts->offered);
    if (sale->terms.tokens_max != 0 && sale->tokens_given > sale->terms.tokens_max)
        finding(proof, "P2 sale %" PRIu64 ": %" PRIu64 " tokens were given, %u may be", sale->id, sale->tokens_given,
                sale->terms.tokens_max);
    return FAULT_NONE;
}

/* What an order says of itself. */
static const char *order_objection(const struct ledger_order *row)
{
    const struct order *order = &row->order;
    bool ended = row->ended_ms != 0, at_once = order->pay_by_ms == 0;
    if (order->units == 0) return "it has no units";
    if (ended && row->ended_ms < order->won_ms) return "it ended before it was won";
    switch (order->state) {
    case ORDER_HELD:
        return at_once ? "it is held, and was paid at once" : ended ? "it is held, and has ended" : NULL;
    case ORDER_PAID:
        if (at_once) return NULL;
        return row->payment_ref[0] == '\0' ? "it is paid by no payment" : NULL;
    case ORDER_REFUND_DUE:
        return row->payment_ref[0] == '\0' ? "it is due a refund of no payment" : NULL;
    case ORDER_CANCELLED:
    case ORDER_EXPIRED:
        return ended ? NULL : "it has ended at no time";
    }
    return "its state is none that there is";
}

static enum fault order_prove(void *arg, const struct ledger_order *row)
{
    struct proof *proof = arg;
    proof->orders++;
    const char *objection = order_objection(row);
    if (objection != NULL) finding(proof, "P6 order %" PRIu64 ": %s", row->order.no, objection);
    if (row->order.no <= proof->order_no_last) finding(proof, "P4 order %" PRIu64 " is there twice", row->order.no);
    proof->order_no_last = row->order.no;
    return FAULT_NONE;
}

static enum fault token_prove(void *arg, const struct ledger_token *row)
{
    struct proof *proof = arg;
    struct ledger_order spender;
    bool found = false;
    proof->tokens++;
    if (row->spent == 0) return FAULT_NONE;
    enum fault fault = ledger_order(proof->ledger, row->spent, &spender, &found);
    bool spent_it = fault == FAULT_NONE && found && spender.order.token_nonce == row->nonce &&
                    spender.order.sale_id == row->sale_id && strcmp(spender.order.buyer, row->buyer) == 0;
    if (!spent_it)
        finding(proof, "P4 token %" PRIu64 ": it is spent by order %" PRIu64 ", which did not", row->nonce, row->spent);
    return fault;
}

static enum fault uneven_say(void *arg, uint64_t id, uint64_t held, uint64_t sold)
{
    finding(arg, "P1 sale %" PRIu64 ": its orders hold %" PRIu64 " and have sold %" PRIu64 ", its counts say otherwise", id,
            held, sold);
    return FAULT_NONE;
}

static void miscounted_say(void *arg, uint64_t id)
{
    finding(arg, "P4 sale %" PRIu64 ": its numbers are not what its orders add up to", id);
}

static void contradiction_say(void *arg, const char *text)
{
    finding(arg, "P4 %s", text);
}

static void over_say(void *arg, uint64_t sale_id, uint64_t orders, uint64_t max)
{
    finding(arg, "P2 sale %" PRIu64 ": a buyer has %" PRIu64 " orders that count, %" PRIu64 " may be", sale_id, orders, max);
}

static void errand_count(void *arg, const struct ledger_errand *errand)
{
    struct proof *proof = arg;
    (void)errand;
    proof->errands++;
}

static enum fault ledger_prove(struct proof *proof)
{
    struct ledger *ledger = proof->ledger;
    const struct ledger_errand_page all = { .made_before_ms = UINT64_MAX >> 1, .max = UINT32_MAX >> 1 };
    enum fault fault = ledger_each_sale(ledger, sale_prove, proof);
    if (fault == FAULT_NONE) fault = ledger_each_order(ledger, order_prove, proof);
    if (fault == FAULT_NONE) fault = ledger_each_token(ledger, token_prove, proof);
    if (fault == FAULT_NONE) fault = ledger_each_over_limit(ledger, over_say, proof);
    if (fault == FAULT_NONE) fault = ledger_each_uneven_sale(ledger, uneven_say, proof);
    if (fault == FAULT_NONE) fault = ledger_each_miscounted_sale(ledger, miscounted_say, proof);
    if (fault == FAULT_NONE) fault = ledger_each_contradiction(ledger, contradiction_say, proof);
    if (fault == FAULT_NONE) fault = ledger_errands(ledger, &all, errand_count, proof);
    return fault;
}

int audit_shared(struct ledger *ledger)
{
    struct proof proof = { .ledger = ledger };
    struct ledger_size size;
    enum fault fault = ledger_snapshot_begin(ledger, &size);
    if (fault == FAULT_NONE) fault = ledger_prove(&proof);
    if (fault == FAULT_NONE) ledger_snapshot_end(ledger);
    if (fault != FAULT_NONE) finding(&proof, "the ledger cannot be read");
    printf("ledger: filed by nodes whose gate is in Redis: %" PRIu64 " sales, %" PRIu64 " orders, %" PRIu64
           " tokens; %" PRIu64 " releases and changes are still to be told to Redis\n",
           proof.sales, proof.orders, proof.tokens, proof.errands);
    printf("checked: P1 stock identity of %" PRIu64 " sales, against %" PRIu64
           " orders; P2 limits of every buyer; P4 numbers, keys and tokens stand once; P6 how orders ended\n",
           proof.sales, proof.orders);
    printf("not checked: there is no journal, so that nothing tells of decisions beside the ledger: P3 and P5 rest on the "
           "database, and wins that wait in Redis are not in it yet\n");
    printf("%s\n", proof.findings == 0 ? "audit: all promises hold" : "audit: FAILED");
    if (proof.findings > FINDINGS_SHOWN_MAX) printf("%" PRIu64 " findings in all\n", proof.findings);
    return proof.findings == 0 ? EXIT_OK : EXIT_FAILED;
}
