#include "publisher/batch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "courier/endpoint.h"

#include <inttypes.h>
#include <stdio.h>

#define TRIES_MAX (BATCH_MAX / 2)
#define TRY_MS_MIN 250
#define TRY_MS_MAX 15000

void batch_init(struct batch *batch)
{
    streams_clear(&batch->seen);
    streams_clear(&batch->held);
    batch->held_tries = 0;
}

/* One event as it goes out. */

static void message_key(char out[SINK_KEY_BYTES], const struct notice *notice)
{
    if (notice->order_no != 0) {
        snprintf(out, SINK_KEY_BYTES, "%" PRIu64, notice->order_no);
    } else {
        snprintf(out, SINK_KEY_BYTES, "sale:%" PRIu64, notice->sale_id);
    }
}

/* *there is false for an event whose order is gone, of which nothing can be told. */
static enum fault message_make(struct batch *batch, size_t at, const struct batch_source *source, bool *there)
{
    const struct notice *notice = &batch->notices[at];
    struct sink_message *message = &batch->messages[at];
    struct ledger_order order;
    *there = true;
    enum fault fault = notice->order_no != 0 ? ledger_order(source->ledger, notice->order_no, &order, there) : FAULT_NONE;
    if (fault != FAULT_NONE || !*there) return fault;
    *message = (struct sink_message){ .type = notice_kind_word(notice->kind), .at_ms = notice->at_ms, .fate = SINK_SENT };
    message_key(message->key, notice);
    snprintf(message->id, sizeof message->id, "evt_%s_%" PRIu64, source->name, notice->id);
    char *body = batch->bodies[at];
    message->body = (struct slice){ body, message_render(body, notice, &order) };
    return FAULT_NONE;
}

/* The look at the ledger. */

/* Any of the held ones, for those that a queue is bound for by now may be anywhere among them. */
static bool held_is_tried(struct batch *batch)
{
    uint32_t dice;
    if (!batch->trying || batch->trying_count == TRIES_MAX) return false;
    random_bytes(&dice, sizeof dice);
    return batch->held.count <= TRIES_MAX || dice % batch->held.count < TRIES_MAX;
}

struct look {
    struct batch *batch;
    const _Atomic bool *closing;
};

static bool batch_take(void *arg, const struct notice *notice)
{
    struct look *look = arg;
    struct batch *batch = look->batch;
    if (atomic_load(look->closing)) return false;
    if (!streams_add(&batch->seen, notice)) return true;
    if (streams_has(&batch->held, notice)) {
        if (!held_is_tried(batch)) return true;
        batch->trying_count++;
    }
    batch->notices[batch->count++] = *notice;
    return batch->count < BATCH_MAX;
}

static enum fault batch_look(struct batch *batch, const struct batch_source *source)
{
    uint64_t now_ms = mono_ms();
    struct look look = { batch, source->closing };
    streams_clear(&batch->seen);
    batch->count = batch->trying_count = 0;
    batch->trying = batch->held.count > 0 && now_ms >= batch->held_try_ms;
    /* With nothing held the first ones are enough to look at: all of them will leave. */
    batch->look_ms = 0;
    if (batch->held.count == 0) return ledger_publications(source->ledger, BATCH_MAX, batch_take, &look);
    enum fault fault = ledger_publications_all(source->ledger, batch_take, &look);
    batch->look_ms = mono_ms() - now_ms;
    return fault;
}

enum fault batch_read(struct batch *batch, const struct batch_source *source)
{
    enum fault fault = batch_look(batch, source);
    if (fault != FAULT_NONE) return fault;
    size_t kept = 0;
    for (size_t i = 0; i < batch->count; i++) {
        bool there;
        batch->notices[kept] = batch->notices[i];
        fault = message_make(batch, kept, source, &there);
        if (fault != FAULT_NONE) return fault;
        if (there) {
            kept++;
            continue;
        }
        uint64_t id = batch->notices[kept].id;
        log_error("publisher", "event %" PRIu64 " tells of order %" PRIu64 ", which is not in the ledger: it is left out",
                  id, batch->notices[kept].order_no);
        fault = ledger_publications_delete(source->ledger, &id, 1);
        if (fault != FAULT_NONE) return fault;
    }
    batch->count = kept;
    return FAULT_NONE;
}

/* What became of it. */

/* One that was held and is wanted now says that a queue has been bound: so all are tried. None of them found, after a look
 * at all, says that they have gone otherwise. */
static void held_judge(struct batch *batch)
{
    bool over = batch->trying && batch->trying_count == 0 && batch->count < BATCH_MAX;
    for (size_t i = 0; i < batch->count && !over; i++)
        over = batch->messages[i].fate == SINK_CONFIRMED && streams_has(&batch->held, &batch->notices[i]);
    if (over) streams_clear(&batch->held);
    if (batch->held.count == 0) batch->held_tries = 0;
}

void batch_settle(struct batch *batch)
{
    static const struct backoff backoff = { TRY_MS_MIN, TRY_MS_MAX };
    size_t given_back = 0;
    batch->arrived_count = batch->unwanted_kinds = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->messages[i].fate == SINK_CONFIRMED) batch->arrived[batch->arrived_count++] = batch->notices[i].id;
        if (batch->messages[i].fate == SINK_GIVEN_BACK) given_back++;
    }
    held_judge(batch);
    bool first = batch->held.count == 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->messages[i].fate != SINK_GIVEN_BACK) continue;
        (void)streams_add(&batch->held, &batch->notices[i]);
        batch->unwanted_kinds |= UINT32_C(1) << batch->notices[i].kind;
    }
    if (given_back == 0 || !(first || batch->trying)) return;
    uint32_t dice;
    random_bytes(&dice, sizeof dice);
    batch->held_try_ms = mono_ms() + backoff_ms(&backoff, ++batch->held_tries, dice);
}
