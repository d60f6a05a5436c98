/* Errands: what the ledger has committed and a gate has still to be told. */
#include "base/clock.h"
#include "base/log.h"
#include "gate/keeper/inside.h"

#include <inttypes.h>

/* A gate that has something else than the ledger for so long is not just a moment behind. */
#define OPPOSED_MS 2 * KEEPER_LATE_MS

/* For one run: the keeper must come to what would let it tell the rest, a look at Redis or a rebuild. */
#define ERRANDS_AT_ONCE 256
#define PILES_AT_ONCE 8
#define RUN_MS 1000

struct run {
    uint64_t stop_ms; /* monotonic */
    bool done;        /* some of them */
    int piles;        /* of which something was told; to pass over the others costs little */
};

struct pile {
    struct ledger_errand errands[ERRANDS_AT_ONCE];
    uint32_t count;
};

static void pile_add(void *arg, const struct ledger_errand *errand)
{
    struct pile *pile = arg;
    if (pile->count < ERRANDS_AT_ONCE) pile->errands[pile->count++] = *errand;
}

struct judged {
    const struct ledger_errand *errand;
    const struct errand_facts *facts;
    enum errand_end end;
};

static void errand_answered(void *arg, const struct redis_reply *reply)
{
    struct judged *judged = arg;
    judged->end = errand_judge(judged->errand, judged->facts, reply);
}

/* A sale that is over and holds nothing has no gate to be told. One that is new may not be on the shelf yet. */
static bool is_over(struct keeper *keeper, uint64_t sale_id)
{
    return gate_sale_is_past(&keeper->remote->gate, sale_id);
}

static enum errand_end errand_do(struct keeper *keeper, const struct ledger_errand *errand, const struct errand_facts *facts)
{
    struct slice argv[ERRAND_ARGS_MAX];
    char text[ERRAND_TEXT_BYTES];
    struct telling telling;
    struct judged judged = { errand, facts, ERRAND_LATER };
    if (!facts->found || is_over(keeper, errand->sale_id)) return ERRAND_DONE;
    telling_init(&telling, argv, ERRAND_ARGS_MAX, text, sizeof text);
    struct script_ask ask = { .sale_id = errand->sale_id,
                              .epoch = errand->epoch,
                              .script = errand_tell(errand, facts, &telling),
                              .read = errand_answered,
                              .arg = &judged };
    ask.argv = telling.argv;
    ask.argc = telling.argc;
    return keeper_script(keeper, &ask) ? judged.end : ERRAND_LATER;
}

/* Ends of holds come in crowds: those of a sale that stand together are told together. */
struct crowd {
    const struct ledger_errand *errands;
    uint32_t count;
    enum errand_end ends[GATE_ITEMS_MAX];
};

static uint32_t crowd_count(const struct pile *pile, uint32_t from)
{
    const struct ledger_errand *first = &pile->errands[from];
    uint32_t count = 1;
    if (first->kind != ERRAND_EXPIRED) return 1;
    for (; from + count < pile->count && count < GATE_ITEMS_MAX; count++) {
        const struct ledger_errand *next = &pile->errands[from + count];
        if (next->kind != ERRAND_EXPIRED || next->sale_id != first->sale_id || next->epoch != first->epoch) break;
    }
    return count;
}

static void crowd_answered(void *arg, const struct redis_reply *reply)
{
    struct crowd *crowd = arg;
    bool done = slice_is(reply_text(reply, 0), "DONE");
    for (uint32_t i = 0; i < crowd->count; i++) {
        bool opposed = done && slice_is(reply_text(reply, 3 + i), "NO_SUCH_ORDER");
        crowd->ends[i] = !done ? errand_judge(&crowd->errands[i], NULL, reply) : opposed ? ERRAND_OPPOSED : ERRAND_DONE;
    }
}

static void crowd_do(struct keeper *keeper, struct crowd *crowd)
{
    struct slice argv[GATE_ITEMS_MAX];
    char text[24 * GATE_ITEMS_MAX];
    struct telling telling;
    telling_init(&telling, argv, GATE_ITEMS_MAX, text, sizeof text);
    for (uint32_t i = 0; i < crowd->count; i++) {
        telling_number(&telling, crowd->errands[i].order_no);
        crowd->ends[i] = is_over(keeper, crowd->errands[i].sale_id) ? ERRAND_DONE : ERRAND_LATER;
    }
    struct script_ask ask = { .sale_id = crowd->errands[0].sale_id,
                              .epoch = crowd->errands[0].epoch,
                              .script = GATE_SCRIPT_EXPIRE,
                              .argv = telling.argv,
                              .argc = telling.argc,
                              .read = crowd_answered,
                              .arg = crowd };
    if (crowd->ends[0] != ERRAND_DONE) (void)keeper_script(keeper, &ask); /* without an answer all stay LATER */
}

/* Whether it is done; what it needs to be done later is asked for. */
static bool errand_ended(struct keeper *keeper, const struct ledger_errand *errand, enum errand_end end)
{
    if (end == ERRAND_LATER && !keeper->redis_silent && !sale_is_away(keeper, errand->sale_id))
        keeper_ask_rebuild(keeper, errand->sale_id, false);
    bool opposed = end == ERRAND_OPPOSED || end == ERRAND_EARLY; /* what came before it was told before it, if it is there */
    if (opposed && remote_now_ms(&keeper->remote->gate) > errand->made_ms + OPPOSED_MS) {
        log_warn("keeper",
                 "sale %" PRIu64 ": its gate has something else than the ledger about errand %" PRIu64 " (%d, order %" PRIu64
                 ")",
                 errand->sale_id, errand->id, (int)errand->kind, errand->order_no);
        keeper_ask_rebuild(keeper, errand->sale_id, true);
    }
    return end == ERRAND_DONE;
}

/* Those of a sale whose Redis is away are passed over. False: not all of them have had their turn. */
static bool pile_do(struct keeper *keeper, struct ledger *ledger, const struct pile *pile, struct run *run)
{
    uint64_t done[ERRANDS_AT_ONCE];
    size_t done_count = 0;
    uint32_t i = 0;
    bool asked = false;
    enum fault fault = FAULT_NONE;
    while (i < pile->count && fault == FAULT_NONE && mono_ms() < run->stop_ms && !keeper_stopping(keeper)) {
        struct crowd crowd = { &pile->errands[i], crowd_count(pile, i), { ERRAND_LATER } };
        struct errand_facts facts;
        i += crowd.count;
        keeper->errands_after = pile->errands[i - 1].id;
        if (sale_is_away(keeper, crowd.errands->sale_id)) continue;
        asked = true;
        if (crowd.errands->kind == ERRAND_EXPIRED) {
            crowd_do(keeper, &crowd);
        } else {
            fault = errand_facts_read(ledger, crowd.errands, &facts);
            if (fault == FAULT_NONE) crowd.ends[0] = errand_do(keeper, crowd.errands, &facts);
        }
        for (uint32_t j = 0; j < crowd.count; j++) {
            if (errand_ended(keeper, &crowd.errands[j], crowd.ends[j])) done[done_count++] = crowd.errands[j].id;
        }
        keeper_pulse(keeper);
    }
    run->piles += asked;
    if (fault == FAULT_NONE && done_count > 0) fault = ledger_errands_done(ledger, done, done_count);
    if (fault != FAULT_NONE) keeper_ledger_failed(keeper, fault);
    run->done = run->done || (done_count > 0 && fault == FAULT_NONE); /* else the same ones would be told again at once */
    return i == pile->count && fault == FAULT_NONE;
}

uint64_t errands_do(struct keeper *keeper, uint64_t made_before_ms)
{
    struct run run = { .stop_ms = mono_ms() + RUN_MS };
    uint64_t seen = 0;
    while (run.piles < PILES_AT_ONCE && mono_ms() < run.stop_ms && !keeper_stopping(keeper)) {
        struct ledger *ledger = keeper_ledger(keeper);
        struct pile pile = { .count = 0 };
        const struct ledger_errand_page page = { keeper->errands_after, made_before_ms, ERRANDS_AT_ONCE };
        if (ledger == NULL) return seen;
        enum fault fault = ledger_errands(ledger, &page, pile_add, &pile);
        if (fault != FAULT_NONE) {
            keeper_ledger_failed(keeper, fault);
            return seen;
        }
        seen += pile.count;
        keeper_pulse(keeper);
        if (!pile_do(keeper, ledger, &pile, &run)) break;
        if (pile.count < ERRANDS_AT_ONCE) {
            keeper->errands_after = 0;
            return seen;
        }
    }
    if (run.done) keeper_errands(keeper); /* the others need not wait for the next round */
    return seen;
}
