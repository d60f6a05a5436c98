/* engine_state: what the files of this room share. Nobody else includes it.
 *
 * A sale sits in slot id % SALES_OPEN_MAX, so it is found without a search; ids skip slots that are taken. */
#ifndef STAMPEDE_ENGINE_ENGINE_STATE_H
#define STAMPEDE_ENGINE_ENGINE_STATE_H

#include "base/region.h"
#include "engine/board.h"
#include "engine/deadlines.h"
#include "engine/engine.h"
#include "engine/holdings.h"
#include "engine/names.h"
#include "engine/refunds.h"
#include "engine/tokens.h"

struct sale_slot {
    struct sale sale;      /* id 0: nobody sits here */
    uint64_t seq;          /* of the last decision about it or its orders */
    uint32_t orders_first; /* head of the list of its orders, 0 if none */
    uint32_t tokens_first; /* of its tokens that are not spent */
    uint64_t loaded_held;  /* units of its orders in the ledger, held and paid */
    uint64_t loaded_sold;
    bool leaving; /* being let go of: nobody finds it any more, its place is not free yet */
};

struct engine {
    struct region slots;  /* struct sale_slot [SALES_OPEN_MAX] */
    struct region boards; /* struct board [SALES_OPEN_MAX]; never unmapped while anyone may read */
    struct holdings holdings;
    struct names names;
    struct tokens tokens;
    struct deadlines deadlines; /* of the orders that are held; hints, no part of the state */
    struct refunds refunds;
    uint32_t sales;         /* slots taken */
    uint32_t slots_touched; /* slots ever taken */
    uint64_t seq;
    uint64_t digest;
    enum digest_kind digest_kind;
    uint64_t at_ms;    /* of the last decision applied */
    uint64_t floor_ms; /* no decision is made before it: at_ms, or the time at which a sale was let go of */
    uint64_t sale_id_last;
    _Atomic uint64_t names_version;
    char load_objection[ENGINE_OBJECTION_BYTES];
};

static inline struct sale_slot *slot_at(const struct engine *engine, uint64_t sale_id)
{
    return (struct sale_slot *)(void *)engine->slots.base + sale_id % SALES_OPEN_MAX;
}

static inline struct board *board_at(const struct engine *engine, uint64_t sale_id)
{
    return (struct board *)(void *)engine->boards.base + sale_id % SALES_OPEN_MAX;
}

static inline struct sale_slot *slot_find(const struct engine *engine, uint64_t sale_id)
{
    struct sale_slot *slot = slot_at(engine, sale_id);
    return sale_id != 0 && slot->sale.id == sale_id && !slot->leaving ? slot : NULL;
}

/* slots.c */
bool slot_is_free(const struct engine *engine, uint64_t sale_id); /* of the slot this id would get */
/* Seats a sale in its slot, which is free, and puts up its board. */
void slot_take(struct engine *engine, const struct sale *sale);
/* Whether replay may give up a sale because the server had: closed by then, with nothing held. */
bool slot_is_over(const struct sale_slot *slot, uint64_t now_ms);
/* Whether giving up those that are over would give memory for another order, or another token. */
bool slots_over_have_orders(const struct engine *engine, uint64_t now_ms);
bool slots_over_have_tokens(const struct engine *engine, uint64_t now_ms);
/* Empties one slot, and all that are over. */
void slot_empty(struct engine *engine, struct sale_slot *slot);
void slots_empty_over(struct engine *engine, uint64_t now_ms);

/* Text of users that may become part of a record: 1 to bytes_max bytes, no NUL, for values hold it NUL-terminated. */
static inline bool text_may_be_kept(struct slice text, size_t bytes_max)
{
    return text.len > 0 && text.len <= bytes_max && memchr(text.data, '\0', text.len) == NULL;
}

/* Callers read the clock before they have the lock, so the times they bring may be a little out of order. Decisions are
 * not. */
static inline uint64_t decision_time(const struct engine *engine, uint64_t now_ms)
{
    return now_ms > engine->floor_ms ? now_ms : engine->floor_ms;
}

static inline struct decision decision_new(const struct engine *engine, enum decision_kind kind, uint64_t sale_id,
                                           uint64_t now_ms)
{
    return (struct decision){
        .seq = engine->seq + 1,
        .at_ms = decision_time(engine, now_ms),
        .kind = kind,
        .sale_id = sale_id,
    };
}

/* Whether a win of this sale spends the token it brings. */
static inline bool admission_takes_tokens(enum admission admission)
{
    return admission == ADMISSION_TOKEN || admission == ADMISSION_LINE;
}

/* early.c: what is wrong with a token that the guard has not found good; VERDICT_DONE where nothing is, or the guard has. */
enum verdict token_lacking(const struct grab *grab, enum admission admission);

/* decide.c */
bool grab_is_well_formed(const struct grab *grab);
/* engine_decide_grab() for a buyer that has its name already, also one that was made up for it. in_replay: what the buyer
 * has given back does not matter, for the bound on it is of the door only, and may have been another when it was decided. */
enum verdict grab_decide(const struct engine *engine, const struct grab *grab, bool in_replay, struct decision *out,
                         struct grab_answer *answer);

/* hold.c: the cell and the sale of an order that is to be found: 0 where it is not in memory, or its sale is being let go.
 */
uint32_t order_find(const struct engine *engine, uint64_t order_no, const struct sale **sale);
/* NULL where the sale of the order in this cell is being let go of. */
const struct sale *order_sale(const struct engine *engine, uint32_t cell);
/* How many hints of deadlines there is room for. */
uint32_t hints_max(uint32_t orders_max);
/* An order has come that is held. */
void hold_begin(struct engine *engine, uint32_t cell);

/* digest.c: the digest that follows, given the sale as the decision has left it (E4). NULL for REFUND_DUE: what memory has
 * of its sale is no part of what it says. */
uint64_t digest_next(enum digest_kind kind, uint64_t digest, const struct decision *decision, const struct sale *sale);

#endif
