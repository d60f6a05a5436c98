/* Filing: what becomes of a sale and its stock. */
#include "ledger/file.h"

static void bind_terms(struct cursor *s, const struct sale_terms *terms)
{
    bind_string(s, 3, terms->name);
    bind_string(s, 4, terms->description);
    bind_string(s, 5, terms->currency);
    bind_signed(s, 6, terms->price);
    bind_number(s, 7, terms->units_per_grab_max);
    bind_number(s, 8, terms->grabs_per_buyer_max);
    bind_number(s, 9, terms->opens_ms);
    bind_number(s, 10, terms->closes_ms);
    bind_number(s, 11, terms->pay_within_s);
    bind_number(s, 12, (uint64_t)terms->admission);
    bind_number(s, 13, terms->tokens_max);
    bind_number(s, 14, terms->admit_max);
    bind_number(s, 15, terms->line_rate_per_s);
    bind_number(s, 16, terms->line_size);
    bind_number(s, 17, terms->line_timeout_ms);
    bind_string(s, 18, terms->line_name);
    bind_number(s, 19, (uint64_t)terms->late_payment);
    bind_number(s, 20, terms->event_id);
}

enum fault file_created(struct ledger *ledger, const struct decision *d)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALE_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->sale_id);
    bind_slice(s, 2, d->created.seller);
    bind_terms(s, d->created.terms);
    bind_number(s, 21, d->created.stock);

    bool conflict;
    fault = filing_write(ledger, STATEMENT_SALE_INSERT, &conflict);
    if (fault != FAULT_NONE || !conflict) return fault;

    struct sale there;
    bool found;
    fault = ledger_sale(ledger, d->sale_id, &there, &found);
    if (fault != FAULT_NONE) return fault;
    bool equal = found && slice_is(d->created.seller, there.seller) && sale_terms_equal(&there.terms, d->created.terms) &&
                 there.counts.offered == d->created.stock && there.counts.available == d->created.stock && !there.paused &&
                 !there.closed;
    return equal ? FAULT_NONE : filing_damage(ledger, d->seq, "another sale with its id or name is there");
}

enum fault file_changed(struct ledger *ledger, const struct decision *d)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALE_TERMS, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->sale_id);
    bind_terms(s, d->changed);
    return filing_update(ledger, STATEMENT_SALE_TERMS, d->seq);
}

enum fault file_switched(struct ledger *ledger, const struct decision *d)
{
    enum statement id = d->kind == DECISION_SALE_CLOSED ? STATEMENT_SALE_CLOSED : STATEMENT_SALE_PAUSED;
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->sale_id);
    if (d->kind != DECISION_SALE_CLOSED) bind_number(s, 2, d->kind == DECISION_SALE_PAUSED);
    return filing_update(ledger, id, d->seq);
}

enum fault file_stock(struct ledger *ledger, const struct decision *d)
{
    struct tally *tally;
    enum fault fault = tally_find(ledger, d->sale_id, &tally);
    tally->offered += d->stock_added;
    tally->available += d->stock_added;
    return fault;
}
