#include "people/remembered.h"

#include "base/siphash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WAYS 4
#define SETS (REMEMBERED_MAX / WAYS)
_Static_assert((SETS & (SETS - 1)) == 0, "a set is found by some bits of the hash");

struct remembered {
    uint8_t hash_keys[2][16];
    uint64_t turn;
    struct remembered_token tokens[SETS][WAYS];
};

enum fault remembered_open(struct remembered **out, const uint8_t hash_keys[2][16])
{
    struct remembered *remembered = calloc(1, sizeof(*remembered));
    *out = remembered;
    if (remembered == NULL) return FAULT_MEMORY;
    memcpy(remembered->hash_keys, hash_keys, sizeof(remembered->hash_keys));
    return FAULT_NONE;
}

void remembered_close(struct remembered *remembered)
{
    free(remembered);
}

static struct remembered_token *set_of(struct remembered *remembered, struct slice token, uint64_t hash[2])
{
    for (size_t i = 0; i < 2; i++) hash[i] = siphash(remembered->hash_keys[i], token.data, token.len);
    return remembered->tokens[hash[0] & (SETS - 1)];
}

const struct remembered_token *remembered_find(struct remembered *remembered, struct slice token, uint64_t version)
{
    uint64_t hash[2];
    struct remembered_token *set = set_of(remembered, token, hash);
    for (size_t i = 0; i < WAYS; i++) {
        struct remembered_token *at = &set[i];
        if (at->version != version || at->hash[0] != hash[0] || at->hash[1] != hash[1]) continue;
        at->used = ++remembered->turn;
        return at;
    }
    return NULL;
}

/* How much a place is worth keeping. A token of other keys or of the past is worth nothing. */
static uint64_t worth(const struct remembered_token *at, uint64_t version, uint64_t now_ms)
{
    return at->version == version && at->expires_ms > now_ms ? at->used : 0;
}

void remembered_put(struct remembered *remembered, struct slice token, const struct remembered_token *fresh, uint64_t now_ms)
{
    uint64_t hash[2];
    assert(fresh->version != 0);
    struct remembered_token *set = set_of(remembered, token, hash), *place = set;
    for (size_t i = 0; i < WAYS; i++) {
        struct remembered_token *at = &set[i];
        bool same = at->hash[0] == hash[0] && at->hash[1] == hash[1];
        if (same || worth(at, fresh->version, now_ms) < worth(place, fresh->version, now_ms)) place = at;
        if (same) break;
    }
    *place = *fresh;
    memcpy(place->hash, hash, sizeof(hash));
    place->used = ++remembered->turn;
}
