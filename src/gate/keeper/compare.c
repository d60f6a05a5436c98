/* What the ledger and Redis have of a sale, each as lines of text, and which of these only one of them has. */
#include "base/text.h"
#include "gate/keeper/facts.h"
#include "gate/keeper/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void order_fact(struct facts *facts, const struct order *order, const char *ref)
{
    /* What ended an order is known by the payment; the ids of other ends are Redis's own. */
    bool paid = order->state == ORDER_PAID || order->state == ORDER_REFUND_DUE;
    facts_add(facts,
              "order %" PRIu64 ": %s, %u units, amount %" PRId64 ", won %" PRIu64 ", pay by %" PRIu64 ", token %" PRIu64
              ", buyer '%s', key '%s', payment '%s'",
              order->no, order_state_word(order->state), order->units, order->amount, order->won_ms, order->pay_by_ms,
              order->token_nonce, order->buyer, order->key, paid ? ref : "");
}

static void counts_fact(struct facts *facts, const struct sale_counts *counts, uint64_t orders_made, uint64_t tokens_given)
{
    facts_add(facts, "offered %u, available %u, held %u, sold %u, orders made %" PRIu64 ", tokens given %" PRIu64,
              counts->offered, counts->available, counts->held, counts->sold, orders_made, tokens_given);
}

/* Those that the gate has, too. */
static struct peek_terms terms_known(const struct sale_terms *terms)
{
    return (struct peek_terms){ .price = terms->price,
                                .units_per_grab_max = terms->units_per_grab_max,
                                .grabs_per_buyer_max = terms->grabs_per_buyer_max,
                                .opens_ms = terms->opens_ms,
                                .closes_ms = terms->closes_ms,
                                .pay_within_s = terms->pay_within_s,
                                .admission = (uint64_t)terms->admission,
                                .tokens_max = terms->tokens_max,
                                .late_payment = (uint64_t)terms->late_payment };
}

static void terms_fact(struct facts *facts, const struct peek_terms *terms)
{
    facts_add(facts,
              "price %" PRId64 ", at most %" PRIu64 " units a grab and %" PRIu64 " grabs a buyer, opens %" PRIu64
              ", closes %" PRIu64 ", pay within %" PRIu64 " s, admission %" PRIu64 ", at most %" PRIu64
              " tokens, late payment %" PRIu64,
              terms->price, terms->units_per_grab_max, terms->grabs_per_buyer_max, terms->opens_ms, terms->closes_ms,
              terms->pay_within_s, terms->admission, terms->tokens_max, terms->late_payment);
}

static void switch_fact(struct facts *facts, bool paused, bool closed)
{
    facts_add(facts, "%s, %s", paused ? "paused" : "not paused",
              closed ? "closed by its seller" : "not closed by its seller");
}

/* The ledger's side. Of buyers only a word for each order is noted, and counted when all have come; of their tokens the last
 * one is good. */
struct side {
    struct facts facts, ends, tokens;
};

static enum fault ledger_sale_fact(void *arg, const struct ledger_shelved *sale)
{
    struct side *side = arg;
    const struct peek_terms terms = terms_known(&sale->sale.terms);
    terms_fact(&side->facts, &terms);
    counts_fact(&side->facts, &sale->sale.counts, sale->sale.orders_made, sale->sale.tokens_given);
    switch_fact(&side->facts, sale->sale.paused, sale->sale.closed);
    return FAULT_NONE;
}

static enum fault ledger_order_fact(void *arg, const struct ledger_order *row, uint32_t nth)
{
    struct side *side = arg;
    const struct order *order = &row->order;
    (void)nth;
    order_fact(&side->facts, order, row->payment_ref);
    if (order->state == ORDER_HELD) facts_add(&side->facts, "hold %" PRIu64 " until %" PRIu64, order->no, order->pay_by_ms);
    if (order->key[0] != '\0')
        facts_add(&side->facts, "key '%s' of '%s' is order %" PRIu64, order->key, order->buyer, order->no);
    facts_add(&side->ends, "%s%c%" PRIu64, order->buyer, order_state_counts(order->state) ? 1 : 2, order->no);
    return FAULT_NONE;
}

static enum fault ledger_token_fact(void *arg, const struct ledger_token *token)
{
    struct side *side = arg;
    facts_add(&side->tokens, "%s%c%019" PRIu64, token->buyer, 1, token->nonce);
    return FAULT_NONE;
}

static void tokens_choose(struct side *side)
{
    facts_sort(&side->tokens);
    for (size_t i = 0; i < side->tokens.count; i++) {
        const char *line = facts_line(&side->tokens, i);
        const char *next = i + 1 < side->tokens.count ? facts_line(&side->tokens, i + 1) : "";
        size_t len = strcspn(line, "\1");
        if (strncmp(line, next, len + 1) == 0) continue;
        facts_add(&side->facts, "token %s of '%.*s'", line + len + 1 + strspn(line + len + 1, "0"), (int)len, line);
    }
}

static void buyer_fact(struct facts *facts, struct slice buyer, uint64_t grabs, uint64_t returns)
{
    facts_add(facts, "buyer '%.*s': %" PRIu64 " orders that count, %" PRIu64 " that ended", (int)buyer.len, buyer.data,
              grabs, returns);
}

static void buyers_count(struct side *side)
{
    struct slice buyer = { NULL, 0 };
    uint64_t ends[3] = { 0, 0, 0 };
    facts_sort(&side->ends);
    for (size_t i = 0; i < side->ends.count; i++) {
        const char *line = facts_line(&side->ends, i);
        struct slice next = { line, strcspn(line, "\1\2") };
        if (buyer.data != NULL && !slice_equal(buyer, next)) {
            buyer_fact(&side->facts, buyer, ends[1], ends[2]);
            ends[1] = ends[2] = 0;
        }
        buyer = next;
        ends[(unsigned char)line[next.len] % 3]++;
    }
    if (buyer.data != NULL) buyer_fact(&side->facts, buyer, ends[1], ends[2]);
}

static enum fault ledger_read(struct keeper *keeper, uint64_t sale_id, struct facts *out)
{
    struct side side = { .facts = { .text = NULL } };
    const struct ledger_rebuild visit = {
        .sale = ledger_sale_fact, .order = ledger_order_fact, .token = ledger_token_fact, .arg = &side
    };
    struct ledger *ledger = keeper_ledger(keeper);
    enum fault fault = ledger == NULL ? FAULT_LEDGER : ledger_rebuild(ledger, sale_id, &visit);
    if (fault == FAULT_NONE) buyers_count(&side);
    if (fault == FAULT_NONE) tokens_choose(&side);
    if (fault == FAULT_NONE && (side.facts.failed || side.ends.failed || side.tokens.failed)) fault = FAULT_MEMORY;
    facts_free(&side.ends);
    facts_free(&side.tokens);
    *out = side.facts;
    return fault;
}

/* Redis's side, key by key. */
struct scan {
    struct facts *facts;
    uint64_t sale_id;
    void (*item)(struct facts *facts, uint64_t sale_id, struct slice name, struct slice value);
    char cursor[24];
    bool good;
};

static void order_item(struct facts *facts, uint64_t sale_id, struct slice name, struct slice value)
{
    struct order order;
    struct slice ref;
    char text[PAYMENT_REF_BYTES_MAX + 1];
    if (!script_order(name, value, sale_id, &order, &ref)) {
        facts_add(facts, "order %.*s: cannot be read", (int)name.len, name.data);
        return;
    }
    snprintf(text, sizeof text, "%.*s", (int)ref.len, ref.data);
    order_fact(facts, &order, text);
}

static void buyer_item(struct facts *facts, uint64_t sale_id, struct slice name, struct slice value)
{
    uint64_t numbers[2] = { 0, 0 };
    (void)sale_id;
    for (int i = 0; i < 2; i++) {
        const char *space = memchr(value.data, ' ', value.len);
        size_t len = space == NULL ? 0 : (size_t)(space - value.data);
        if (len == 0 || !text_to_u64((struct slice){ value.data, len }, &numbers[i])) {
            facts_add(facts, "buyer '%.*s': cannot be read", (int)name.len, name.data);
            return;
        }
        value = (struct slice){ space + 1, value.len - len - 1 };
    }
    buyer_fact(facts, name, numbers[0], numbers[1]);
}

/* Ids of stock that was added have no buyer; the ledger does not keep them. */
static void key_item(struct facts *facts, uint64_t sale_id, struct slice name, struct slice value)
{
    const char *nul = memchr(name.data, '\0', name.len);
    (void)sale_id;
    if (nul == NULL || nul == name.data) return;
    size_t len = (size_t)(nul - name.data);
    facts_add(facts, "key '%.*s' of '%.*s' is order %.*s", (int)(name.len - len - 1), nul + 1, (int)len, name.data,
              (int)value.len, value.data);
}

static void token_item(struct facts *facts, uint64_t sale_id, struct slice name, struct slice value)
{
    (void)sale_id;
    facts_add(facts, "token %.*s of '%.*s'", (int)value.len, value.data, (int)name.len, name.data);
}

static void hold_item(struct facts *facts, uint64_t sale_id, struct slice name, struct slice value)
{
    (void)sale_id;
    facts_add(facts, "hold %.*s until %.*s", (int)name.len, name.data, (int)value.len, value.data);
}

static void scan_read(void *arg, const struct redis_reply *reply)
{
    struct scan *scan = arg;
    struct slice cursor = reply_text(reply, 0);
    scan->good = reply->type == REDIS_LIST && reply->count == 2 && reply->items[1].type == REDIS_LIST && cursor.len > 0 &&
                 cursor.len < sizeof scan->cursor;
    if (!scan->good) return;
    const struct redis_reply *items = &reply->items[1];
    for (size_t i = 0; i + 1 < items->count; i += 2)
        scan->item(scan->facts, scan->sale_id, reply_text(items, i), reply_text(items, i + 1));
    memcpy(scan->cursor, cursor.data, cursor.len);
    scan->cursor[cursor.len] = '\0';
}

static enum fault key_scan(struct keeper *keeper, struct scan *scan, const char *command, const char *key)
{
    snprintf(scan->cursor, sizeof scan->cursor, "0");
    do {
        const struct slice argv[] = { slice_of(command), slice_of(key), slice_of(scan->cursor), SLICE("COUNT"),
                                      SLICE("1000") };
        struct command_ask ask = { .argv = argv, .argc = 5, .key = argv[1], .read = scan_read, .arg = scan };
        if (!keeper_command(keeper, &ask) || !scan->good) return FAULT_TIMEOUT;
        keeper_pulse(keeper);
    } while (strcmp(scan->cursor, "0") != 0);
    return FAULT_NONE;
}

static enum fault redis_read(struct keeper *keeper, uint64_t sale_id, const struct peek *peek, struct facts *out)
{
    static const struct {
        const char *command;
        int key;
        void (*item)(struct facts *facts, uint64_t sale_id, struct slice name, struct slice value);
    } scans[] = {
        { "HSCAN", 1, buyer_item }, { "HSCAN", 2, order_item }, { "HSCAN", 3, key_item },
        { "HSCAN", 4, token_item }, { "ZSCAN", 5, hold_item },
    };
    char keys[GATE_KEYS][FLIGHT_KEY_BYTES];
    enum fault fault = FAULT_NONE;
    sale_keys(keeper->remote, sale_id, keys);
    terms_fact(out, &peek->terms);
    counts_fact(out, &peek->counts.counts, peek->counts.orders_made, peek->counts.tokens_given);
    switch_fact(out, peek->paused, peek->closed);
    for (size_t i = 0; i < sizeof scans / sizeof *scans && fault == FAULT_NONE; i++) {
        struct scan scan = { .facts = out, .sale_id = sale_id, .item = scans[i].item };
        fault = key_scan(keeper, &scan, scans[i].command, keys[scans[i].key]);
    }
    return fault == FAULT_NONE && out->failed ? FAULT_MEMORY : fault;
}

/* One try: the lines that differ. */
static void differ(void *arg, const char *line, bool in_ledger)
{
    facts_add(arg, "%s: %s", in_ledger ? "in the ledger, not in Redis" : "in Redis, not in the ledger", line);
}

static void state_fact(struct facts *facts, const struct peek *peek)
{
    switch (peek->state) {
    case PEEK_ABSENT:
        facts_add(facts, "it is not in Redis");
        break;
    case PEEK_STALE:
        facts_add(facts, "Redis has it under another epoch, or as another server's");
        break;
    case PEEK_LOADING:
        facts_add(facts, "a load into Redis has not ended");
        break;
    case PEEK_DAMAGED:
        facts_add(facts, "what Redis has of it cannot be used: %s", peek->why);
        break;
    case PEEK_NONE:
    case PEEK_GOOD:
        break;
    }
}

enum fault sale_compare(struct keeper *keeper, const struct ledger_shelved *row, struct facts *out)
{
    uint64_t sale_id = row->sale.id;
    struct facts ledger = { .text = NULL }, redis = { .text = NULL };
    struct peek peek;
    sale_peek(keeper, sale_id, row->epoch, &peek);
    if (peek.state == PEEK_NONE) return FAULT_TIMEOUT;
    if (peek.state != PEEK_GOOD) {
        /* One that has not opened, or is over, need not be there. */
        uint64_t now_ms = remote_now_ms(&keeper->remote->gate);
        bool needless = row->sale.terms.opens_ms > now_ms || sale_is_over(keeper->remote, row);
        if (peek.state != PEEK_ABSENT || !needless) state_fact(out, &peek);
        return FAULT_NONE;
    }
    enum fault fault = redis_read(keeper, sale_id, &peek, &redis);
    if (fault == FAULT_NONE) fault = ledger_read(keeper, sale_id, &ledger);
    if (fault == FAULT_NONE) {
        facts_sort(&redis);
        facts_sort(&ledger);
        facts_compare(&ledger, &redis, differ, out);
        facts_sort(out);
        if (out->failed) fault = FAULT_MEMORY;
    }
    facts_free(&ledger);
    facts_free(&redis);
    return fault;
}
