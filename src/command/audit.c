/* audit: proves the promises offline. Replays the whole journal through an engine of its own and compares what it leads to
 * with every row of the ledger. P1, P2: no decision of the journal breaks the stock identity or a limit, and the counts of a
 * sale are what its held and paid orders add up to. P4: every order and every purchase token stands in the ledger once and
 * as it was decided, and nothing else does; what was spent was spent by one order. P5: the digests of journal and ledger are
 * those of the replay. P6: every hold ends once, and the ledger tells when and by what.
 *
 * What the engine does not keep of an order's end (its payment, who cancelled and why) is compared as the journal tells it;
 * a later end of the same order, which only an expired or a cancelled one may have, takes the place of the first.
 *
 * Notices to sellers, events and their subscribers are in the ledger alone: those are held against the rest of it. */
#include "base/log.h"
#include "base/random.h"
#include "command/audit_shared.h"
#include "command/command.h"
#include "command/outcomes.h"
#include "engine/engine.h"
#include "journal/journal.h"
#include "ledger/agreed.h"
#include "ledger/ledger.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define FINDINGS_SHOWN_MAX 100
/* Sales kept in memory before those that are over are compared and let go of. */
#define SALES_SWEEP (SALES_OPEN_MAX / 2)

struct audit {
    struct engine *engine;
    struct ledger *ledger;
    struct ledger_point filed;
    uint64_t findings;
    uint64_t decisions, batches, sales_created, orders_won; /* in the journal */
    uint64_t sales_won_filed, orders_won_filed;             /* of them, up to the filed point */
    uint64_t tokens_given_filed, tokens_spent_filed;
    uint64_t ends_filed, refunds_found; /* ends of orders in the journal, and refunds of it that the ledger has */
    uint64_t refund_rows;
    uint64_t sale_rows, order_rows, sales_compared, orders_compared, token_rows, token_rows_spent;
    uint64_t over[64]; /* ids found over by one sweep */
    uint32_t over_count;
    uint64_t sweep_ms;
    struct outcomes outcomes; /* up to the filed point */
};

static void finding(struct audit *audit, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void finding(struct audit *audit, const char *format, ...)
{
    if (audit->findings++ >= FINDINGS_SHOWN_MAX) return;
    va_list arguments;
    va_start(arguments, format);
    fputs("wrong: ", stdout);
    vprintf(format, arguments);
    fputc('\n', stdout);
    va_end(arguments);
}

static void compare_sale(struct audit *audit, const struct sale *replayed, const struct sale *row)
{
    const struct sale_counts *a = &replayed->counts, *b = &row->counts;
    audit->sales_compared++;
    if (memcmp(a, b, sizeof *a) != 0)
        finding(audit,
                "P4 sale %" PRIu64
                ": the journal leads to offered %u available %u held %u sold %u, the ledger has %u %u %u %u",
                row->id, a->offered, a->available, a->held, a->sold, b->offered, b->available, b->held, b->sold);
    if (!sale_terms_equal(&replayed->terms, &row->terms) || strcmp(replayed->seller, row->seller) != 0 ||
        replayed->paused != row->paused || replayed->closed != row->closed || replayed->orders_made != row->orders_made ||
        replayed->tokens_given != row->tokens_given)
        finding(audit, "P4 sale %" PRIu64 ": the ledger's terms or state differ from the journal's", row->id);
}

static void compare_number(struct audit *audit, uint64_t order_no, const char *what, uint64_t journal, uint64_t ledger)
{
    if (journal != ledger)
        finding(audit, "P4 order %" PRIu64 ": %s is %" PRIu64 " by the journal, %" PRIu64 " in the ledger", order_no, what,
                journal, ledger);
}

/* The texts themselves are not shown: in a row that was tampered with they may be anything. */
static void compare_text(struct audit *audit, uint64_t order_no, const char *what, struct slice journal, const char *ledger)
{
    if (!slice_is(journal, ledger))
        finding(audit, "P4 order %" PRIu64 ": %s is not the journal's in the ledger", order_no, what);
}

/* A refund may come after memory has let go of the order's sale: that it came is found out by refund_found(). */
static bool state_fits(enum order_state journal, enum order_state ledger)
{
    return journal == ledger || (ledger == ORDER_REFUND_DUE && (journal == ORDER_EXPIRED || journal == ORDER_CANCELLED));
}

static void compare_order(struct audit *audit, const struct order *replayed, const struct order *row)
{
    audit->orders_compared++;
    compare_number(audit, row->no, "sale", replayed->sale_id, row->sale_id);
    compare_text(audit, row->no, "buyer", slice_of(replayed->buyer), row->buyer);
    compare_text(audit, row->no, "key", slice_of(replayed->key), row->key);
    compare_number(audit, row->no, "units", replayed->units, row->units);
    compare_number(audit, row->no, "amount", (uint64_t)replayed->amount, (uint64_t)row->amount);
    compare_number(audit, row->no, "won_ms", replayed->won_ms, row->won_ms);
    compare_number(audit, row->no, "pay_by_ms", replayed->pay_by_ms, row->pay_by_ms);
    compare_number(audit, row->no, "token_nonce", replayed->token_nonce, row->token_nonce);
    if (!state_fits(replayed->state, row->state))
        finding(audit, "P6 order %" PRIu64 ": state is %s by the journal, %s in the ledger", row->no,
                order_state_word(replayed->state), order_state_word(row->state));
}

/* What the ledger must tell of an order's end, and of one that has none. */
static void compare_end(struct audit *audit, const struct ledger_order *row, const struct ledger_order *want)
{
    compare_number(audit, row->order.no, "ended_ms", want->ended_ms, row->ended_ms);
    compare_text(audit, row->order.no, "payment_ref", slice_of(want->payment_ref), row->payment_ref);
}

static void compare_canceller(struct audit *audit, const struct ledger_order *row, enum canceller by, struct slice reason)
{
    if (row->canceller != by)
        finding(audit, "P4 order %" PRIu64 ": canceller is '%s' by the journal, '%s' in the ledger", row->order.no,
                canceller_word(by), canceller_word(row->canceller));
    compare_text(audit, row->order.no, "reason", reason, row->reason);
}

/* A refund that was told twice is the first. */
static bool refund_found(struct audit *audit, const struct decision *d, const struct ledger_order *row)
{
    bool again = row->order.state == ORDER_REFUND_DUE && row->ended_ms < d->at_ms;
    if (!again) audit->refunds_found++;
    return !again;
}

/* What the order was before its end; a refund's may be gone from memory, and only a cancelled one has a canceller. */
static enum order_state state_before(const struct decision *d, const struct ledger_order *row)
{
    if (d->kind == DECISION_RETAKEN) return ORDER_EXPIRED;
    if (d->kind != DECISION_REFUND_DUE) return ORDER_HELD;
    return row->canceller != CANCELLER_NONE ? ORDER_CANCELLED : ORDER_EXPIRED;
}

static uint32_t available_after(const struct audit *audit, uint64_t sale_id)
{
    struct sale sale;
    return engine_sale(audit->engine, sale_id, &sale) ? sale.counts.available : UINT32_MAX;
}

static void audit_end(struct audit *audit, const struct decision *d)
{
    struct ledger_order row, want = { .ended_ms = d->at_ms };
    uint64_t no = d->ended.order_no;
    bool found = false;
    audit->ends_filed++;
    if (ledger_order(audit->ledger, no, &row, &found) != FAULT_NONE || !found) {
        finding(audit, "P4 order %" PRIu64 " has an end in the journal and is not in the ledger", no);
        return;
    }
    compare_number(audit, no, "sale", d->sale_id, row.order.sale_id);
    compare_number(audit, no, "units", d->ended.units, row.order.units);
    enum order_state is = row.order.state;
    bool later = false; /* another end may have taken the place of this one */
    switch (d->kind) {
    case DECISION_EXPIRED:
        later = is == ORDER_PAID || is == ORDER_REFUND_DUE;
        compare_canceller(audit, &row, CANCELLER_NONE, SLICE(""));
        break;
    case DECISION_CANCELLED:
        later = is == ORDER_REFUND_DUE;
        compare_canceller(audit, &row, d->ended.by, d->ended.reason);
        break;
    case DECISION_REFUND_DUE:
        later = !refund_found(audit, d, &row);
        break;
    default:
        compare_canceller(audit, &row, CANCELLER_NONE, SLICE(""));
        break;
    }
    if (d->kind != DECISION_REFUND_DUE || !later)
        outcomes_ended(&audit->outcomes, d, state_before(d, &row), available_after(audit, d->sale_id));
    if (later && row.ended_ms >= d->at_ms) return;
    if (later && d->kind == DECISION_REFUND_DUE) return;
    snprintf(want.payment_ref, sizeof want.payment_ref, "%.*s", (int)d->ended.ref.len, d->ended.ref.data);
    compare_end(audit, &row, &want);
}

static bool sweep_sale(void *arg, const struct sale *sale)
{
    struct audit *audit = arg;
    if (sale_state_at(sale, audit->sweep_ms) == SALE_CLOSED && sale->counts.held == 0)
        audit->over[audit->over_count++] = sale->id;
    return audit->over_count < sizeof audit->over / sizeof *audit->over;
}

static bool sweep_order(void *arg, const struct order *order)
{
    struct audit *audit = arg;
    for (uint32_t i = 0; i < audit->over_count; i++) {
        if (order->sale_id != audit->over[i] || order->no > audit->filed.seq) continue;
        struct ledger_order row;
        bool found = false;
        if (ledger_order(audit->ledger, order->no, &row, &found) != FAULT_NONE || !found) {
            finding(audit, "P4 order %" PRIu64 " is in the journal and not in the ledger", order->no);
        } else {
            compare_order(audit, order, &row.order);
        }
    }
    return true;
}

/* A history may have more sales than fit in memory at once: those that are over are final but for refunds, so they are
 * compared now. What is let go of beyond the filed point was compared when the replay passed it. */
static void audit_sweep(struct audit *audit, uint64_t now_ms)
{
    bool compares = engine_seq(audit->engine) < audit->filed.seq;
    audit->sweep_ms = now_ms;
    do {
        audit->over_count = 0;
        engine_each_sale(audit->engine, sweep_sale, audit);
        if (compares) engine_each_order(audit->engine, sweep_order, audit);
        for (uint32_t i = 0; i < audit->over_count; i++) {
            struct sale sale, row;
            bool found = false;
            if (compares && engine_sale(audit->engine, audit->over[i], &sale) &&
                ledger_sale(audit->ledger, sale.id, &row, &found) == FAULT_NONE && found)
                compare_sale(audit, &sale, &row);
            while (!engine_forget(audit->engine, audit->over[i], UINT32_MAX, now_ms)) continue;
        }
    } while (audit->over_count > 0);
}

static bool decision_ends(const struct decision *decision)
{
    return decision->kind >= DECISION_PAID;
}

static const char *audit_decision(void *arg, const struct decision *decision)
{
    struct audit *audit = arg;
    if (decision->kind == DECISION_SALE_CREATED) {
        struct engine_usage usage;
        engine_usage(audit->engine, &usage);
        if (usage.sales >= SALES_SWEEP) audit_sweep(audit, decision->at_ms);
    }
    const char *objection = engine_objection(audit->engine, decision);
    if (objection != NULL) {
        finding(audit, "%s decision %" PRIu64 ": %s", decision_ends(decision) ? "P6" : "P1/P2", decision->seq, objection);
        return objection;
    }
    engine_apply(audit->engine, decision);
    bool filed = decision->seq <= audit->filed.seq;
    audit->decisions++;
    audit->sales_created += decision->kind == DECISION_SALE_CREATED;
    audit->sales_won_filed += decision->kind == DECISION_SALE_CREATED && filed;
    if (decision->kind == DECISION_SALE_CREATED && filed && outcomes_sale(&audit->outcomes) != FAULT_NONE) {
        finding(audit, "there is not enough memory for %" PRIu64 " sales", audit->sales_won_filed);
        return "memory";
    }
    if (decision->kind == DECISION_WON && filed)
        outcomes_won(&audit->outcomes, decision, available_after(audit, decision->sale_id));
    audit->orders_won += decision->kind == DECISION_WON;
    audit->orders_won_filed += decision->kind == DECISION_WON && filed;
    audit->tokens_given_filed += decision->kind == DECISION_TOKEN_GIVEN && filed;
    audit->tokens_spent_filed += decision->kind == DECISION_WON && decision->won.token_nonce != 0 && filed;
    if (decision_ends(decision) && filed) audit_end(audit, decision);

    struct sale sale;
    if (!engine_sale(audit->engine, decision->sale_id, &sale)) return NULL;
    const struct sale_counts *c = &sale.counts;
    if ((uint64_t)c->available + c->held + c->sold != c->offered)
        finding(audit, "P1 decision %" PRIu64 ": available + held + sold is not offered in sale %" PRIu64, decision->seq,
                sale.id);
    return NULL;
}

static void audit_batch_begin(void *arg, uint32_t version)
{
    struct audit *audit = arg;
    engine_digest_by(audit->engine, (enum digest_kind)version);
}

static const char *audit_batch_end(void *arg, uint64_t seq, uint64_t digest)
{
    struct audit *audit = arg;
    audit->batches++;
    if (digest != engine_digest(audit->engine)) {
        finding(audit, "P5 decision %" PRIu64 ": the state replayed is not the state the batch was written with", seq);
        return "digest";
    }
    if (seq == audit->filed.seq && digest != audit->filed.digest)
        finding(audit, "P5 the ledger's digest at %" PRIu64 " is not the journal's", seq);
    return NULL;
}

static enum fault ledger_sale_row(void *arg, const struct sale *row)
{
    struct audit *audit = arg;
    struct sale sale;
    audit->sale_rows++;
    if (engine_sale(audit->engine, row->id, &sale)) compare_sale(audit, &sale, row);
    struct ledger_numbers numbers;
    struct outcome_difference differs;
    bool found = false;
    enum fault fault = ledger_numbers(audit->ledger, row->id, &numbers, &found);
    if (fault == FAULT_NONE && found && outcomes_differ(&audit->outcomes, row->id, &numbers, &differs))
        finding(audit,
                "P4 sale %" PRIu64 ": its numbers are not the journal's: %s is %" PRIu64 " by the journal, %" PRIu64
                " in the ledger",
                row->id, differs.name, differs.journal, differs.ledger);
    return fault;
}

static enum fault ledger_order_row(void *arg, const struct ledger_order *row)
{
    static const struct ledger_order no_end;
    struct audit *audit = arg;
    struct order order;
    uint64_t no = row->order.no;
    audit->order_rows++;
    audit->refund_rows += row->order.state == ORDER_REFUND_DUE;
    if (engine_order(audit->engine, no, &order)) compare_order(audit, &order, &row->order);
    if (no > audit->filed.seq) finding(audit, "P4 order %" PRIu64 " is in the ledger beyond what it says it has filed", no);
    if (row->order.state == ORDER_HELD || row->order.pay_by_ms == 0) {
        compare_end(audit, row, &no_end);
        compare_canceller(audit, row, CANCELLER_NONE, SLICE(""));
    }
    return FAULT_NONE;
}

static enum fault ledger_uneven_sale(void *arg, uint64_t id, uint64_t held, uint64_t sold)
{
    finding(arg,
            "P1 sale %" PRIu64 ": its held and paid orders add up to held %" PRIu64 " sold %" PRIu64 ", its counts do not",
            id, held, sold);
    return FAULT_NONE;
}

static void ledger_miscounted_sale(void *arg, uint64_t id)
{
    finding(arg, "P4 sale %" PRIu64 ": its numbers are not what its orders add up to", id);
}

static void ledger_contradiction(void *arg, const char *text)
{
    finding(arg, "P4 %s", text);
}

static enum fault ledger_token_row(void *arg, const struct ledger_token *row)
{
    struct audit *audit = arg;
    audit->token_rows++;
    audit->token_rows_spent += row->spent != 0;
    struct ledger_order spender;
    struct sale sale;
    bool found = false;
    if (row->spent != 0) {
        enum fault fault = ledger_order(audit->ledger, row->spent, &spender, &found);
        bool spent_it = fault == FAULT_NONE && found && spender.order.token_nonce == row->nonce &&
                        spender.order.sale_id == row->sale_id && strcmp(spender.order.buyer, row->buyer) == 0;
        if (!spent_it)
            finding(audit, "P4 token %" PRIu64 ": the ledger has it spent by order %" PRIu64 ", which did not", row->nonce,
                    row->spent);
    } else if (engine_sale(audit->engine, row->sale_id, &sale) &&
               engine_token(audit->engine, row->sale_id, slice_of(row->buyer)) != row->nonce) {
        finding(audit, "P4 token %" PRIu64 ": the ledger has it not spent, the journal leads elsewhere", row->nonce);
    }
    return FAULT_NONE;
}

/* The engine stands at the filed point: the ledger must say the same. */
static void audit_ledger(struct audit *audit)
{
    if (ledger_each_sale(audit->ledger, ledger_sale_row, audit) != FAULT_NONE ||
        ledger_each_order(audit->ledger, ledger_order_row, audit) != FAULT_NONE ||
        ledger_each_token(audit->ledger, ledger_token_row, audit) != FAULT_NONE ||
        ledger_each_uneven_sale(audit->ledger, ledger_uneven_sale, audit) != FAULT_NONE ||
        ledger_each_miscounted_sale(audit->ledger, ledger_miscounted_sale, audit) != FAULT_NONE ||
        ledger_each_contradiction(audit->ledger, ledger_contradiction, audit) != FAULT_NONE) {
        finding(audit, "the ledger cannot be read");
        return;
    }
    if (audit->sale_rows != audit->sales_won_filed || audit->sales_compared != audit->sale_rows)
        finding(audit, "P4 the ledger has %" PRIu64 " sales, the journal up to there created %" PRIu64, audit->sale_rows,
                audit->sales_won_filed);
    if (audit->order_rows != audit->orders_won_filed || audit->orders_compared != audit->order_rows)
        finding(audit,
                "P4 the ledger has %" PRIu64 " orders, the journal up to there has %" PRIu64 " wins (%" PRIu64
                " rows match one)",
                audit->order_rows, audit->orders_won_filed, audit->orders_compared);
    if (audit->token_rows != audit->tokens_given_filed || audit->token_rows_spent != audit->tokens_spent_filed)
        finding(audit,
                "P4 the ledger has %" PRIu64 " tokens, %" PRIu64 " of them spent; the journal up to there gave %" PRIu64
                " and spent %" PRIu64,
                audit->token_rows, audit->token_rows_spent, audit->tokens_given_filed, audit->tokens_spent_filed);
    if (audit->refund_rows != audit->refunds_found)
        finding(audit, "P6 the ledger has %" PRIu64 " orders due a refund, the journal up to there %" PRIu64,
                audit->refund_rows, audit->refunds_found);
}

static void compare_identity(struct audit *audit, const uint8_t uuid[16])
{
    if (ledger_point_is_new(&audit->filed)) {
        if (audit->decisions > 0)
            finding(audit, "P5 the ledger has never belonged to a journal, but the journal has %" PRIu64 " decisions",
                    audit->decisions);
    } else if (memcmp(audit->filed.uuid, uuid, sizeof audit->filed.uuid) != 0) {
        finding(audit, "P5 the ledger belongs to another journal");
    }
}

static enum fault audit_journal(struct audit *audit, const char *folder, struct journal_damage *damage)
{
    struct journal_scan *scan;
    enum fault fault = journal_scan_open(&scan, folder, NULL, 0, damage);
    if (fault != FAULT_NONE) return fault;
    const struct journal_reader reader = {
        .batch_begin = audit_batch_begin, .decision = audit_decision, .batch_end = audit_batch_end, .arg = audit
    };
    bool more = true, compared = audit->filed.seq == 0;
    if (compared) audit_ledger(audit);
    while (more && (fault = journal_scan_batch(scan, &reader, &more, damage)) == FAULT_NONE) {
        if (compared || engine_seq(audit->engine) < audit->filed.seq) continue;
        audit_ledger(audit);
        compared = true;
    }
    if (fault == FAULT_NONE && !compared)
        finding(audit, "P4 the ledger has filed up to %" PRIu64 ", the journal ends at %" PRIu64, audit->filed.seq,
                engine_seq(audit->engine));
    if (fault == FAULT_NONE) compare_identity(audit, journal_scan_uuid(scan));
    journal_scan_close(scan);
    return fault;
}

static int audit_run(const struct config *config)
{
    struct audit audit = { 0 };
    struct journal_damage damage = { .file = "" };
    char folder[CONFIG_TEXT_BYTES + 16];
    snprintf(folder, sizeof folder, "%s/journal", config->data);
    static struct command_places places;
    if (!command_places(&places, config)) return EXIT_USAGE;
    places.ledger.patient = true;
    const char *name = places.ledger.path != NULL ? places.ledger.path : places.ledger.name;
    uint8_t hash_key[16];
    random_bytes(hash_key, sizeof hash_key);
    enum fault fault = ledger_open(&audit.ledger, &places.ledger, LEDGER_READER);
    if (fault == FAULT_NONE) fault = ledger_point(audit.ledger, &audit.filed);
    if (fault == FAULT_NONE) fault = engine_open(&audit.engine, ORDERS_OPEN_MAX, hash_key);
    if (fault == FAULT_NONE) fault = audit_journal(&audit, folder, &damage);
    if (fault != FAULT_NONE && audit.findings == 0)
        finding(&audit, "%s at offset %" PRIu64 ": %s", damage.file[0] ? damage.file : name, damage.offset,
                damage.reason[0] ? damage.reason : "cannot be read");

    printf("journal: %" PRIu64 " decisions in %" PRIu64 " batches: %" PRIu64 " sales, %" PRIu64 " wins\n", audit.decisions,
           audit.batches, audit.sales_created, audit.orders_won);
    printf("ledger: filed up to decision %" PRIu64 ": %" PRIu64 " sales, %" PRIu64 " orders\n", audit.filed.seq,
           audit.sale_rows, audit.order_rows);
    printf("checked: P1 stock identity after %" PRIu64 " decisions, P2 limits of %" PRIu64 " wins, P4 %" PRIu64
           " sales and %" PRIu64 " orders row by row, P5 digest of %" PRIu64 " batches, P6 %" PRIu64 " ends of orders\n",
           audit.decisions, audit.orders_won, audit.sales_compared, audit.orders_compared, audit.batches, audit.ends_filed);
    printf("%s\n", audit.findings == 0 ? "audit: all promises hold" : "audit: FAILED");
    if (audit.findings > FINDINGS_SHOWN_MAX) printf("%" PRIu64 " findings in all\n", audit.findings);
    if (audit.engine != NULL) engine_close(audit.engine);
    if (audit.ledger != NULL) ledger_close(audit.ledger);
    outcomes_close(&audit.outcomes);
    return audit.findings == 0 ? EXIT_OK : EXIT_FAILED;
}

/* A ledger of several nodes is audited where it is, whoever is at work; -1: it is not one. */
static int audit_nodes(const struct config *config)
{
    static struct command_places places;
    struct ledger *ledger;
    char kept[AGREED_BYTES];
    int code = -1;
    if (!command_places(&places, config)) return EXIT_USAGE;
    if (places.ledger.path != NULL && access(places.ledger.path, F_OK) != 0) return code;
    places.ledger.patient = true;
    log_keep_only(places.ledger.path != NULL); /* why a file cannot be opened is said by the audit itself */
    enum fault fault = ledger_open(&ledger, &places.ledger, LEDGER_READER);
    log_keep_only(false);
    if (fault != FAULT_NONE) return code;
    if (ledger_agreed(ledger, AGREED_GATE, kept) == FAULT_NONE && kept[0] != '\0') code = audit_shared(ledger);
    ledger_close(ledger);
    return code;
}

int command_audit(int argc, char **argv)
{
    struct config config;
    int lock_fd;
    if (!command_options(&config, argc, argv)) return EXIT_USAGE;
    int nodes = audit_nodes(&config);
    if (nodes >= 0) return nodes;
    if (!command_lock_reading(&config, &lock_fd)) return EXIT_FAILED;
    int code = audit_run(&config);
    if (lock_fd >= 0) close(lock_fd);
    return code;
}
