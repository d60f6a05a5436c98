#include "engine/verdict.h"

#include <assert.h>

const char *verdict_word(enum verdict verdict)
{
#define VERDICT_WORD(name) [VERDICT_##name] = #name,
    static const char *const words[VERDICT_COUNT] = { VERDICTS(VERDICT_WORD) };
#undef VERDICT_WORD
    assert(verdict < VERDICT_COUNT);
    return words[verdict];
}
