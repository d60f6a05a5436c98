#include "command/outcomes.h"

#include <stddef.h>
#include <stdlib.h>

#define ROOM_FIRST 1024

void outcomes_close(struct outcomes *outcomes)
{
    free(outcomes->sales);
}

enum fault outcomes_sale(struct outcomes *outcomes)
{
    if (outcomes->count == outcomes->room) {
        uint64_t room = outcomes->room == 0 ? ROOM_FIRST : 2 * outcomes->room;
        struct ledger_numbers *sales = reallocarray(outcomes->sales, room, sizeof *sales);
        if (sales == NULL) return FAULT_MEMORY;
        outcomes->sales = sales;
        outcomes->room = room;
    }
    outcomes->sales[outcomes->count++] = (struct ledger_numbers){ .holds_made = 0 };
    return FAULT_NONE;
}

static struct ledger_numbers *numbers_of(const struct outcomes *outcomes, uint64_t sale_id)
{
    return sale_id == 0 || sale_id > outcomes->count ? NULL : &outcomes->sales[sale_id - 1];
}

static void state_add(struct ledger_numbers *numbers, enum order_state state, uint32_t units)
{
    numbers->orders[state]++;
    numbers->units[state] += units;
}

/* The last unit went to a buyer: the first time counts. */
static void sold_out_note(struct ledger_numbers *numbers, uint64_t at_ms, uint32_t available)
{
    if (numbers->sold_out_ms == 0 && available == 0) numbers->sold_out_ms = at_ms;
}

void outcomes_won(struct outcomes *outcomes, const struct decision *decision, uint32_t available)
{
    struct ledger_numbers *numbers = numbers_of(outcomes, decision->sale_id);
    if (numbers == NULL) return;
    bool held = decision->won.pay_by_ms != 0;
    numbers->holds_made += held;
    state_add(numbers, held ? ORDER_HELD : ORDER_PAID, decision->won.units);
    sold_out_note(numbers, decision->at_ms, available);
}

void outcomes_ended(struct outcomes *outcomes, const struct decision *decision, enum order_state before, uint32_t available)
{
    static const enum order_state after[] = {
        [DECISION_PAID] = ORDER_PAID,    [DECISION_CANCELLED] = ORDER_CANCELLED,   [DECISION_EXPIRED] = ORDER_EXPIRED,
        [DECISION_RETAKEN] = ORDER_PAID, [DECISION_REFUND_DUE] = ORDER_REFUND_DUE,
    };
    struct ledger_numbers *numbers = numbers_of(outcomes, decision->sale_id);
    if (numbers == NULL) return;
    uint32_t units = decision->ended.units;
    numbers->orders[before]--;
    numbers->units[before] -= units;
    state_add(numbers, after[decision->kind], units);
    numbers->holds_paid += decision->kind == DECISION_PAID || decision->kind == DECISION_RETAKEN;
    if (decision->kind == DECISION_CANCELLED || decision->kind == DECISION_EXPIRED) numbers->units_returned += units;
    if (decision->kind == DECISION_RETAKEN) sold_out_note(numbers, decision->at_ms, available);
}

#define NUMBER(field, text)                                                                                                 \
    {                                                                                                                       \
        text, offsetof(struct ledger_numbers, field)                                                                        \
    }
#define STATE(state, word) NUMBER(orders[state], "orders " word), NUMBER(units[state], "units " word)

bool outcomes_differ(const struct outcomes *outcomes, uint64_t sale_id, const struct ledger_numbers *ledger,
                     struct outcome_difference *out)
{
    static const struct {
        const char *name;
        size_t offset;
    } numbers[] = {
        STATE(ORDER_HELD, "held"),
        STATE(ORDER_PAID, "paid"),
        STATE(ORDER_CANCELLED, "cancelled"),
        STATE(ORDER_EXPIRED, "expired"),
        STATE(ORDER_REFUND_DUE, "refund_due"),
        NUMBER(holds_made, "holds_made"),
        NUMBER(holds_paid, "holds_paid"),
        NUMBER(units_returned, "units_returned"),
        NUMBER(sold_out_ms, "sold_out_ms"),
    };
    const struct ledger_numbers *journal = numbers_of(outcomes, sale_id);
    if (journal == NULL) return false; /* that the journal did not create it is told by the count of sales */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        out->name = numbers[i].name;
        out->journal = *(const uint64_t *)(const void *)((const char *)journal + numbers[i].offset);
        out->ledger = *(const uint64_t *)(const void *)((const char *)ledger + numbers[i].offset);
        if (out->journal != out->ledger) return true;
    }
    return false;
}
