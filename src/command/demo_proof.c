#include "command/demo_proof.h"

#include "base/text.h"
#include "command/command.h"
#include "ledger/ledger.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>

/* The clerk files a moment after the server has answered, and a hold may end between two looks. */
#define LOOKS_MAX 40
#define LOOK_PAUSE_MS 100

struct proof {
    const struct crowd *crowd;
    struct crowd_win *told; /* by number */
    size_t count;
    uint32_t *counting; /* of each shopper, how many orders are held or paid */
    uint64_t sale_id;
    struct sale sale; /* as the ledger has it */
    uint64_t orders, others, units[ORDER_STATE_LAST + 1], by_state[ORDER_STATE_LAST + 1];
    uint64_t wins_found, untold, misfiled, ended_otherwise, beyond_one, winners;
    bool good;
};

static void __attribute__((format(printf, 3, 4))) proof_say(struct proof *proof, bool good, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf(good ? "  ok     " : "  WRONG  ");
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    proof->good = proof->good && good;
}

static int win_order(const void *a, const void *b)
{
    const struct crowd_win *one = a, *other = b;
    return (one->no > other->no) - (one->no < other->no);
}

/* Whether an order may be in this state whose buyer was told that. A hold that nobody has ended ends by itself, or its
 * seller ends it; paid it is only when a payment was confirmed. */
static bool state_fits(enum order_state told, enum order_state filed)
{
    return told == ORDER_HELD ? filed != ORDER_PAID : told == filed;
}

static enum fault order_look(void *arg, const struct ledger_order *row)
{
    struct proof *proof = arg;
    const struct order *order = &row->order;
    proof->orders++;
    proof->by_state[order->state]++;
    proof->units[order->state] += order->units;
    struct crowd_win *win = proof->count == 0 ? NULL
                                              : bsearch(&(struct crowd_win){ .no = order->no }, proof->told, proof->count,
                                                        sizeof *proof->told, win_order);
    if (win == NULL) {
        if (crowd_has(proof->crowd, order->buyer)) {
            proof->untold++;
        } else {
            proof->others++;
        }
        return FAULT_NONE;
    }
    char name[CROWD_NAME_BYTES];
    crowd_name(proof->crowd, win->shopper, name);
    proof->wins_found++;
    if (strcmp(name, order->buyer) != 0) proof->misfiled++;
    if (!state_fits(win->state, order->state)) proof->ended_otherwise++;
    if (order_state_counts(order->state)) {
        uint32_t counts = ++proof->counting[win->shopper];
        if (counts == 1) proof->winners++;
        if (counts == 2) proof->beyond_one++;
    }
    return FAULT_NONE;
}

/* All of the sale as it was at one moment. */
static bool ledger_look(struct proof *proof, const struct demo_shop *shop)
{
    struct ledger *ledger;
    struct ledger_size size;
    bool found = false;
    if (ledger_open(&ledger, &shop->places.ledger, LEDGER_READER) != FAULT_NONE) return false;
    enum fault fault = ledger_snapshot_begin(ledger, &size);
    if (fault == FAULT_NONE) {
        fault = ledger_sale(ledger, proof->sale_id, &proof->sale, &found);
        if (fault == FAULT_NONE && found) fault = ledger_each_order_of(ledger, proof->sale_id, order_look, proof);
        ledger_snapshot_end(ledger);
    }
    ledger_close(ledger);
    return fault == FAULT_NONE && found;
}

static bool counts_agree(const struct sale_counts *filed, const struct call_sale *told)
{
    return filed->offered == told->offered && filed->available == told->available && filed->held == told->held &&
           filed->sold == told->sold;
}

/* Forgets what was seen and looks anew. */
static bool proof_look(struct proof *proof, struct demo_shop *shop, struct call_sale *told)
{
    uint32_t shoppers = crowd_count(proof->crowd);
    *proof = (struct proof){ .crowd = proof->crowd,
                             .told = proof->told,
                             .count = proof->count,
                             .counting = proof->counting,
                             .sale_id = proof->sale_id };
    memset(proof->counting, 0, shoppers * sizeof *proof->counting);
    return demo_shop_look(shop, told) && ledger_look(proof, shop);
}

static void proof_tell(struct proof *proof, const struct call_sale *told)
{
    const struct crowd_numbers *heard = crowd_numbers(proof->crowd);
    const struct sale_counts *filed = &proof->sale.counts;
    proof->good = true;
    printf("\nDo the numbers add up?\n");
    proof_say(proof, told->offered == told->sold + told->held + told->available,
              "offered %" PRId64 " = sold %" PRId64 " + held %" PRId64 " + available %" PRId64 ", says the server",
              told->offered, told->sold, told->held, told->available);
    proof_say(proof, counts_agree(filed, told),
              "the ledger says the same: sold %" PRIu32 ", held %" PRIu32 ", available %" PRIu32, filed->sold, filed->held,
              filed->available);
    proof_say(proof, proof->wins_found == proof->count && proof->misfiled == 0,
              "%zu wins were told, %" PRIu64 " of them are in the ledger, %" PRIu64 " with another buyer", proof->count,
              proof->wins_found, proof->misfiled);
    proof_say(proof, proof->untold == 0, "%" PRIu64 " orders of the crowd are in the ledger that nobody was told of",
              proof->untold);
    proof_say(proof,
              proof->sale.orders_made == proof->orders && proof->units[ORDER_PAID] == filed->sold &&
                  proof->units[ORDER_HELD] == filed->held,
              "%" PRIu64 " orders: %" PRIu64 " paid, %" PRIu64 " cancelled, %" PRIu64 " expired, %" PRIu64 " held, %" PRIu64
              " to refund; the paid ones are what is sold",
              proof->orders, proof->by_state[ORDER_PAID], proof->by_state[ORDER_CANCELLED], proof->by_state[ORDER_EXPIRED],
              proof->by_state[ORDER_HELD], proof->by_state[ORDER_REFUND_DUE]);
    proof_say(proof, proof->ended_otherwise == 0,
              "%" PRIu64 " payments and %" PRIu64 " cancellations were confirmed, %" PRIu64 " orders ended otherwise",
              heard->paid, heard->cancelled, proof->ended_otherwise);
    proof_say(proof, proof->beyond_one == 0, "%" PRIu64 " different buyers of the crowd have one, %" PRIu64 " have more",
              proof->winners, proof->beyond_one);
    if (proof->others > 0) printf("         %" PRIu64 " orders are of somebody else: yours?\n", proof->others);
}

bool demo_prove(struct demo_shop *shop, const struct crowd *crowd)
{
    struct proof proof = { .crowd = crowd };
    struct call_sale told;
    const struct crowd_win *wins = crowd_wins(crowd, &proof.count);
    proof.told = calloc(proof.count + 1, sizeof *proof.told);
    proof.counting = calloc(crowd_count(crowd), sizeof *proof.counting);
    bool looked = proof.told != NULL && proof.counting != NULL && text_to_u64(slice_of(shop->sale), &proof.sale_id);
    if (looked) {
        if (proof.count > 0) memcpy(proof.told, wins, proof.count * sizeof *wins);
        qsort(proof.told, proof.count, sizeof *proof.told, win_order);
        for (int look = 0; looked && look < LOOKS_MAX; look++) {
            looked = proof_look(&proof, shop, &told);
            if (looked && counts_agree(&proof.sale.counts, &told)) break;
            poll(NULL, 0, LOOK_PAUSE_MS);
        }
    }
    if (looked) {
        proof_tell(&proof, &told);
    } else {
        fprintf(stderr, "stampede: the numbers could not be read\n");
    }
    free(proof.told);
    free(proof.counting);
    return looked && proof.good;
}

bool demo_audit(const struct demo_shop *shop)
{
    char *flags[] = { (char[]){ "--data" }, (char *)shop->data };
    printf("\nstampede audit --data %s\n", shop->data);
    return command_audit(2, flags) == EXIT_OK;
}
