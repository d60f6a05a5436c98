/* Orders that somebody was told of and that the ledger does not have yet (ack = gate, replica: of any node, for while
 * options change not all have the same). Their numbers say when they were made and which sixteenth of the sales they are of;
 * each of these sales is asked.
 *
 * Numbers can be made up by anybody, so what all who look for one cost Redis together is bounded: of a lane one search is
 * under way, for up to SOUGHT_MAX orders, and asks SALES_AT_ONCE sales every STEP_MS at most, each once for all of them. Who
 * comes meanwhile waits for the next; whose time is over hears that nobody knows. */
#include "base/clock.h"
#include "gate/remote/change.h"

#include <assert.h>
#include <stdlib.h>

/* An order is filed within seconds of its win, or of the ledger's return. */
#define UNFILED_MS_MAX 600000
#define SOUGHT_MAX 32
#define SALES_AT_ONCE 16
#define STEP_MS 5
#define WAITING_MAX 1024

struct search_question {
    struct redis_call call; /* first */
    struct search *search;
    uint64_t sale_id;
    struct change *sought[SOUGHT_MAX];
    char keys[GATE_KEYS][FLIGHT_KEY_BYTES];
    struct slice argv[2 + SOUGHT_MAX];
};

struct search {
    struct remote_lane *lane;
    struct change *waiting, *waiting_last; /* for the next search, in their order */
    uint32_t waiting_count;
    struct change *sought[SOUGHT_MAX]; /* not found yet */
    uint32_t sought_count;
    struct shelf_sought where;
    uint32_t from;       /* of the shelf's pages */
    uint64_t stepped_ms; /* monotonic: when the last step began */
    uint32_t under_way;  /* questions, and one while they are being asked */
    struct search_question questions[SALES_AT_ONCE];
};

enum fault search_open(struct remote_lane *lane)
{
    lane->search = calloc(1, sizeof *lane->search);
    if (lane->search == NULL) return FAULT_MEMORY;
    lane->search->lane = lane;
    for (int i = 0; i < SALES_AT_ONCE; i++) lane->search->questions[i].search = lane->search;
    return FAULT_NONE;
}

void search_close(struct remote_lane *lane)
{
    assert(lane->search == NULL || (lane->search->sought_count == 0 && lane->search->waiting == NULL));
    free(lane->search);
}

static void question_answered(struct redis_call *call, const struct redis_reply *reply);

/* The orders of one sale that have its mark. */
static void question_ask(struct search_question *question, uint64_t sale_id)
{
    struct search *search = question->search;
    struct redis_call *call = &question->call;
    uint32_t argc = 2;
    question->sale_id = sale_id;
    sale_keys(search->lane->remote, sale_id, question->keys);
    question->argv[0] = SLICE("HMGET");
    question->argv[1] = slice_of(question->keys[2]);
    for (uint32_t i = 0; i < search->sought_count; i++) {
        struct change *change = search->sought[i];
        if (number_mark(change->order_no) != sale_mark(sale_id)) continue;
        question->sought[argc - 2] = change;
        question->argv[argc++] = change_number(change, 1, (int64_t)change->order_no);
    }
    call->key = question->argv[1];
    call->script = REDIS_NO_SCRIPT;
    call->argc = argc;
    call->argv = question->argv;
    call->done = question_answered;
    search->under_way++;
    redis_call(search->lane->client, call);
}

static void found_take(const struct search_question *question, uint32_t at, const struct redis_reply *reply)
{
    struct change *change = question->sought[at];
    struct order order;
    struct slice ref;
    if (!script_order(question->argv[2 + at], reply_text(reply, at), question->sale_id, &order, &ref)) return;
    change->order = order;
    change->sale_id = question->sale_id;
    change->verdict = VERDICT_DONE;
}

/* Takes those out whose search is over, and then tells them: they may look for another at once. */
static void search_settle(struct search *search)
{
    struct change *over[SOUGHT_MAX];
    uint32_t count = 0, kept = 0;
    uint64_t now_ms = mono_ms();
    search->where.marks = 0; /* of those that are kept */
    for (uint32_t i = 0; i < search->sought_count; i++) {
        struct change *change = search->sought[i];
        bool found = change->verdict == VERDICT_DONE;
        bool late = now_ms >= change->until_ms || !search->lane->attached;
        if (!found && late) change->fault = FAULT_TIMEOUT;
        if (found || late || search->from == 0) {
            over[count++] = change;
        } else {
            search->sought[kept++] = change;
            search->where.marks |= UINT32_C(1) << number_mark(change->order_no);
        }
    }
    search->sought_count = kept;
    for (uint32_t i = 0; i < count; i++) over[i]->again(over[i]);
}

static void search_step(struct search *search);

static void search_next(uv_timer_t *timer)
{
    struct remote_lane *lane = timer->data;
    search_step(lane->search);
}

static void search_begin(struct search *search)
{
    search->from = SHELF_PAGE_FIRST;
    search->where = (struct shelf_sought){ .marks = 0 };
    while (search->waiting != NULL && search->sought_count < SOUGHT_MAX) {
        struct change *change = search->waiting;
        /* Made before the sale was asked, and that may have taken as long as a flight does. */
        uint64_t open_by_ms = number_ms(change->order_no) + FLIGHT_MS;
        search->waiting = change->next;
        search->waiting_count--;
        change->next = NULL;
        search->sought[search->sought_count++] = change;
        search->where.marks |= UINT32_C(1) << number_mark(change->order_no);
        if (open_by_ms > search->where.open_by_ms) search->where.open_by_ms = open_by_ms;
    }
}

/* A step is over when all are answered: goes on in a moment, with the rest of the sales or for those who have come
 * meanwhile. */
static void step_end(struct search *search)
{
    if (search->under_way > 1) {
        search->under_way--;
        return;
    }
    search_settle(search);
    search->under_way = 0;
    if (search->sought_count == 0 && search->waiting == NULL) return;
    if (search->lane->attached) {
        uv_timer_start(&search->lane->search_next, search_next, STEP_MS, 0);
    } else {
        search_step(search);
    }
}

static void question_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct search_question *question = (struct search_question *)call;
    bool answered = call->result == REDIS_ANSWERED;
    for (uint32_t i = 0; i + 2 < call->argc; i++) {
        if (answered) {
            found_take(question, i, reply);
        } else {
            question->sought[i]->fault = FAULT_TIMEOUT;
        }
    }
    step_end(question->search);
}

static void search_step(struct search *search)
{
    uint64_t ids[SALES_AT_ONCE];
    if (search->sought_count == 0) search_begin(search);
    search->stepped_ms = mono_ms();
    search->under_way = 1;
    uint32_t count = shelf_page(search->lane->remote->shelf, &search->where, &search->from, ids, SALES_AT_ONCE);
    for (uint32_t i = 0; i < count && search->lane->attached; i++) question_ask(&search->questions[i], ids[i]);
    step_end(search);
}

bool search_is_possible(const struct change *change)
{
    const struct remote *remote = change->lane->remote;
    if (!number_is_of_a_node(change->order_no)) return false;
    /* While the ledger does not say what it has, an older one may be among it; where it has the last word, it is waited for.
     */
    if (change->fault != FAULT_NONE) return remote->options.ack != GATE_ACK_LEDGER;
    return number_ms(change->order_no) + UNFILED_MS_MAX >= remote_now_ms(&remote->gate);
}

void search_for(struct change *change, void (*then)(struct change *change))
{
    struct search *search = change->lane->search;
    change->verdict = VERDICT_NO_SUCH_ORDER;
    change->again = then;
    bool possible = search_is_possible(change), room = search->waiting_count < WAITING_MAX && change->lane->attached;
    if (!possible || !room) {
        if (possible) change->fault = FAULT_TIMEOUT;
        then(change);
        return;
    }
    if (search->waiting == NULL) {
        search->waiting = change;
    } else {
        search->waiting_last->next = change;
    }
    search->waiting_last = change;
    search->waiting_count++;
    if (search->under_way > 0 || uv_is_active((uv_handle_t *)&search->lane->search_next)) return;
    if (mono_ms() >= search->stepped_ms + STEP_MS) {
        search_step(search);
    } else {
        uv_timer_start(&search->lane->search_next, search_next, STEP_MS, 0);
    }
}
