/* refile: files the same decisions twice, as after a point that was put back by hand.
 *
 *   refile URL    of an empty database, whose password STAMPEDE_LEDGER_PASSWORD has; prints what each transaction answered
 *
 * In a ledger of MySQL rows are inserted many at a time, and one that is there already is seen too late to compare it: the
 * transaction fails once, and is then done one row at a time. */
#include "ledger/mysql.h"

#include <stdio.h>
#include <stdlib.h>

#define WINS 1200

static void decision_make(struct decision *d, char name[32], int nth)
{
    static const struct sale_terms terms = {
        .name = "x", .price = -1, .units_per_grab_max = 1, .grabs_per_buyer_max = 1, .pay_within_s = 900
    };
    if (d->seq == 1) {
        d->kind = DECISION_SALE_CREATED;
        d->created.seller = SLICE("seller");
        d->created.terms = &terms;
        d->created.stock = 100000;
    } else if (nth < WINS) {
        snprintf(name, 32, "buyer%d", nth);
        d->kind = DECISION_WON;
        d->won.buyer = slice_of(name);
        d->won.units = 1;
        d->won.amount = -1;
        d->won.pay_by_ms = 900;
    } else {
        d->kind = nth % 2 == 0 ? DECISION_PAID : DECISION_EXPIRED;
        d->ended.order_no = (uint64_t)(2 + nth - WINS);
        d->ended.units = 1;
        if (d->kind == DECISION_PAID) d->ended.ref = SLICE("ref");
    }
}

/* From where the point is: the sale if it is not there, all wins, and so many ends. */
static enum fault transaction(struct ledger *ledger, int ends)
{
    struct ledger_point from, to;
    enum fault fault = ledger_file_begin(ledger, &from);
    if (fault != FAULT_NONE) return fault;
    to = from;
    for (int nth = from.seq == 0 ? -1 : 0; nth < WINS + ends && fault == FAULT_NONE; nth++) {
        char name[32];
        struct decision d = { .seq = ++to.seq, .at_ms = 10, .sale_id = 1 };
        decision_make(&d, name, nth);
        fault = ledger_file(ledger, &d);
    }
    if (fault == FAULT_NONE) return ledger_file_commit(ledger, &from, &to);
    ledger_file_rollback(ledger);
    return fault;
}

int main(int argc, char **argv)
{
    static const int ends[] = { 0, 0, 0, 700, 700, 700, 700 };
    struct ledger_place place;
    struct ledger *ledger;
    char mistake[LEDGER_MISTAKE_BYTES];
    const char *password = getenv("STAMPEDE_LEDGER_PASSWORD");
    if (argc != 2 || password == NULL || !ledger_place_read(&place, slice_of(argv[1]), mistake)) return 2;
    snprintf(place.password, sizeof place.password, "%s", password);
    if (ledger_open(&ledger, &place, LEDGER_OWNER) != FAULT_NONE) return 1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        printf("%d ", (int)transaction(ledger, ends[i]));
        if (mysql_run(ledger, "UPDATE point SET seq = 1") != FAULT_NONE) return 1;
    }
    ledger_close(ledger);
    return 0;
}
