/* The first line is a secret as an operator would write it, the second the header webhook-signature as a stranger would send
 * it, the rest a body. Whatever they are, only a header that has the right signature as one of its words fits. */
#include "base/text.h"
#include "wire/signature.h"

#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                                                     \
    do {                                                                                                                    \
        if (!(condition)) abort();                                                                                          \
    } while (0)

static struct slice line_take(struct slice *rest)
{
    const char *newline = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
    size_t len = newline != NULL ? (size_t)(newline - rest->data) : rest->len;
    struct slice line = { rest->data, len };
    size_t used = newline != NULL ? len + 1 : len;
    *rest = (struct slice){ rest->data + used, rest->len - used };
    return line;
}

static bool has_word(struct slice header, const char *word)
{
    size_t len = strlen(word);
    for (size_t at = 0; at + len <= header.len; at++) {
        bool begins = at == 0 || header.data[at - 1] == ' ';
        bool ends = at + len == header.len || header.data[at + len] == ' ';
        if (begins && ends && memcmp(header.data + at, word, len) == 0) return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = { (const char *)data, size };
    struct slice secret_text = line_take(&rest), header = line_take(&rest);
    struct signature_secret secret;
    if (!signature_secret_parse(secret_text, &secret)) {
        MUST(secret.len == 0);
        return 0;
    }
    MUST(secret.len >= SIGNATURE_SECRET_BYTES_MIN && secret.len <= SIGNATURE_SECRET_BYTES_MAX);
    const struct signed_message message = { .id = SLICE("msg_1"), .timestamp_s = 1700000000, .body = rest };
    char right[SIGNATURE_TEXT_BYTES + 1], joined[2 * SIGNATURE_TEXT_BYTES + 2];
    signature_make(&secret, &message, right);
    MUST(strlen(right) == SIGNATURE_TEXT_BYTES);
    MUST(signature_fits(&secret, 1, &message, header) == has_word(header, right));

    /* With the right one beside it, any first word is passed over. */
    size_t len = header.len < SIGNATURE_TEXT_BYTES ? header.len : SIGNATURE_TEXT_BYTES;
    memcpy(joined, header.data, len);
    joined[len] = ' ';
    memcpy(joined + len + 1, right, SIGNATURE_TEXT_BYTES);
    MUST(signature_fits(&secret, 1, &message, (struct slice){ joined, len + 1 + SIGNATURE_TEXT_BYTES }));
    return 0;
}
