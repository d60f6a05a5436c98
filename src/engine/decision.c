#include "engine/decision.h"

#include <assert.h>

const char *canceller_word(enum canceller canceller)
{
    static const char *const words[] = { "", "buyer", "seller", "admin" };
    assert((unsigned)canceller < sizeof words / sizeof *words);
    return words[canceller];
}

struct decision decision_of_win(const struct order *order)
{
    return (struct decision){ .seq = order->no,
                              .at_ms = order->won_ms,
                              .kind = DECISION_WON,
                              .sale_id = order->sale_id,
                              .won = { .buyer = slice_of(order->buyer),
                                       .key = slice_of(order->key),
                                       .units = order->units,
                                       .amount = order->amount,
                                       .pay_by_ms = order->pay_by_ms,
                                       .token_nonce = order->token_nonce } };
}
