#include "gate/keeper/owned.h"

#include "base/random.h"
#include "base/text.h"
#include "gate/keeper/inside.h"

#include <stdio.h>

void owned_sign(struct owned *owned, const char *who)
{
    uint8_t bytes[8];
    char hex[2 * sizeof bytes + 1] = "";
    random_bytes(bytes, sizeof bytes);
    hex_encode(hex, bytes, sizeof bytes);
    snprintf(owned->owner, sizeof owned->owner, "%s %s", who, hex);
}

static void answer_read(void *arg, const struct redis_reply *reply)
{
    struct owned_answer *answer = arg;
    struct slice owner = reply_text(reply, 0);
    snprintf(answer->owner, sizeof answer->owner, "%.*s", (int)owner.len, owner.data);
    answer->left_ms = reply_number(reply, 1);
}

static bool owned_ask(const struct owned *owned, struct keeper *keeper, uint32_t ms, bool take, struct owned_answer *out)
{
    char text[24];
    snprintf(text, sizeof text, "%u", ms);
    const struct slice argv[] = { slice_of(owned->key), slice_of(owned->owner), slice_of(text),
                                  take ? SLICE("1") : SLICE("0") };
    struct command_ask ask = { .argv = argv, .argc = 4, .key = argv[0], .read = answer_read, .arg = out };
    *out = (struct owned_answer){ .ours = false };
    bool answered = keeper_node_script(keeper, GATE_SCRIPT_OWN, &ask);
    out->ours = answered && slice_is(slice_of(out->owner), owned->owner);
    return answered;
}

bool owned_take(const struct owned *owned, struct keeper *keeper, uint32_t ms, struct owned_answer *out)
{
    return owned_ask(owned, keeper, ms, true, out);
}

bool owned_renew(const struct owned *owned, struct keeper *keeper, uint32_t ms, struct owned_answer *out)
{
    return owned_ask(owned, keeper, ms, false, out);
}

bool owned_release(const struct owned *owned, struct keeper *keeper)
{
    const struct slice argv[] = { slice_of(owned->key), slice_of(owned->owner) };
    struct command_ask ask = { .argv = argv, .argc = 2, .key = argv[0] };
    return keeper_node_script(keeper, GATE_SCRIPT_DISOWN, &ask);
}
