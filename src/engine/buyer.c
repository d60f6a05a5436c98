#include "engine/buyer.h"

#include "base/siphash.h"
#include "base/text.h"

#include <string.h>

#define PREFIX_BYTES 4
#define HASH_BYTES 16
#define KEY_WHOLE_BYTES_MAX (BUYER_BYTES_MAX - PREFIX_BYTES)
#define KEY_CUT_BYTES (KEY_WHOLE_BYTES_MAX - HASH_BYTES)

static struct slice name_end(char *out, size_t len)
{
    out[len] = '\0';
    return (struct slice){ out, len };
}

/* A key too long for "key:" is cut, at the start of a character, and told apart by a hash of the whole. The other prefix
 * keeps it apart from whole keys too. The hash's key is fixed: the name must come out the same after a restart. */
static struct slice name_of_long_key(struct slice key, char *out)
{
    static const uint8_t hash_key[16] = "stampede.key.cut";
    size_t cut = KEY_CUT_BYTES;
    while (cut > 0 && ((uint8_t)key.data[cut] & 0xc0) == 0x80) cut--;

    uint64_t hash = siphash(hash_key, key.data, key.len);
    memcpy(out, "cut:", PREFIX_BYTES);
    memcpy(out + PREFIX_BYTES, key.data, cut);
    hex_encode(out + PREFIX_BYTES + cut, (const uint8_t *)&hash, sizeof hash);
    return name_end(out, PREFIX_BYTES + cut + HASH_BYTES);
}

static struct slice name_of_key(struct slice key, char *out)
{
    if (key.len > KEY_WHOLE_BYTES_MAX) return name_of_long_key(key, out);
    memcpy(out, "key:", PREFIX_BYTES);
    memcpy(out + PREFIX_BYTES, key.data, key.len);
    return name_end(out, PREFIX_BYTES + key.len);
}

static struct slice name_of_claim(uint64_t claim_no, char *out)
{
    memcpy(out, "claim:", 6);
    return name_end(out, 6 + text_from_u64(out + 6, claim_no));
}

struct slice buyer_of(const struct grab *grab, enum admission admission, uint64_t claim_no, char out[BUYER_BYTES_MAX + 1])
{
    if (grab->buyer.len > 0) {
        memcpy(out, grab->buyer.data, grab->buyer.len);
        return name_end(out, grab->buyer.len);
    }
    if (admission != ADMISSION_OPEN) return name_end(out, 0);
    if (grab->key.len > 0) return name_of_key(grab->key, out);
    return name_of_claim(claim_no, out);
}

static bool begins_with(struct slice text, struct slice prefix)
{
    return text.len >= prefix.len && memcmp(text.data, prefix.data, prefix.len) == 0;
}

bool buyer_is_made_up(struct slice buyer)
{
    return begins_with(buyer, SLICE("claim:")) || begins_with(buyer, SLICE("key:")) || begins_with(buyer, SLICE("cut:"));
}
