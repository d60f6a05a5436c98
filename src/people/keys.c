#include "people/keys.h"

#include "base/log.h"
#include "base/random.h"
#include "base/secret_file.h"
#include "base/text.h"

#include <openssl/crypto.h>
#include <stdio.h>

#define KEY_BYTES 32
#define KID_BYTES 4

static enum fault ring_open(struct jwt_ring **out, struct slice text, const char *where)
{
    char objection[256] = "";
    enum fault fault = jwt_ring_open(out, text, objection);
    if (fault != FAULT_NONE) log_error("people", "signing keys in %s cannot be used: %s", where, objection);
    return fault;
}

static size_t first_key(char *out, size_t size)
{
    uint8_t kid[KID_BYTES], key[KEY_BYTES];
    random_bytes(kid, sizeof(kid));
    random_bytes(key, sizeof(key));
    char kid_text[2 * KID_BYTES + 1] = "", key_text[2 * KEY_BYTES + 1] = "";
    hex_encode(kid_text, kid, sizeof(kid));
    hex_encode(key_text, key, sizeof(key));
    int len = snprintf(
        out, size,
        "# Keys that sign login tokens, one \"kid hexbytes\" a line. The first one signs, all of them verify:\n"
        "# to rotate, put a new line on top, restart, and remove the old one when its tokens have expired.\n"
        "%s %s\n",
        kid_text, key_text);
    OPENSSL_cleanse(key, sizeof(key));
    OPENSSL_cleanse(key_text, sizeof(key_text));
    return (size_t)len;
}

enum fault keys_open(struct jwt_ring **out, const char *path, struct slice env)
{
    *out = NULL;
    if (env.len > 0) return ring_open(out, env, "the environment");

    const struct secret_file file = { .room = "people", .path = path, .what = "signing keys", .first = first_key };
    struct slice text;
    enum fault fault = secret_file_read(&file, &text);
    if (fault != FAULT_NONE) return fault;
    fault = ring_open(out, text, path);
    secret_file_release(text);
    return fault;
}
