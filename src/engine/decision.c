#include "engine/decision.h"

#include <assert.h>

const char *canceller_word(enum canceller canceller)
{
    static const char *const words[] = { "", "buyer", "seller", "admin" };
    assert((unsigned)canceller < sizeof words / sizeof *words);
    return words[canceller];
}
