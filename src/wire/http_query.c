#include "base/text.h"
#include "wire/http.h"

#include <assert.h>

/* One character of a query at *at, or -1 if its encoding is wrong. */
static int query_byte(struct slice text, size_t *at)
{
    char byte = text.data[(*at)++];
    if (byte == '+') return ' ';
    if (byte != '%') return (unsigned char)byte;

    uint8_t decoded;
    if (text.len - *at < 2 || !hex_decode(&decoded, (struct slice){ text.data + *at, 2 })) return -1;
    *at += 2;
    return decoded;
}

static bool name_matches(struct slice text, const char *name)
{
    size_t at = 0;
    while (at < text.len && *name != '\0')
        if (query_byte(text, &at) != (unsigned char)*name++) return false;
    return at == text.len && *name == '\0';
}

static bool value_decode(struct slice text, char *out, size_t size)
{
    size_t len = 0;
    for (size_t at = 0; at < text.len;) {
        int byte = query_byte(text, &at);
        if (byte <= 0 || len + 1 >= size) return false;
        out[len++] = (char)byte;
    }
    out[len] = '\0';
    return utf8_valid((struct slice){ out, len });
}

bool http_query_get(struct slice query, const char *name, char *out, size_t size, bool *bad)
{
    bool found = false;

    assert(size > 0);
    *bad = false;
    out[0] = '\0';
    for (size_t at = 0; at < query.len;) {
        const char *from = query.data + at;
        const char *ampersand = memchr(from, '&', query.len - at);
        size_t len = ampersand != NULL ? (size_t)(ampersand - from) : query.len - at;
        at += len + 1;

        const char *equals = len > 0 ? memchr(from, '=', len) : NULL;
        size_t name_len = equals != NULL ? (size_t)(equals - from) : len;
        if (!name_matches((struct slice){ from, name_len }, name)) continue;
        struct slice value = equals != NULL ? (struct slice){ equals + 1, len - name_len - 1 } : (struct slice){ from, 0 };
        if (found || !value_decode(value, out, size)) *bad = true;
        found = true;
    }
    if (*bad) out[0] = '\0';
    return found;
}

bool http_segment_decode(struct slice segment, char *out, size_t size, size_t *len)
{
    *len = 0;
    for (size_t at = 0; at < segment.len; at++) {
        uint8_t byte = (uint8_t)segment.data[at];
        if (byte == '%') {
            if (segment.len - at < 3 || !hex_decode(&byte, (struct slice){ segment.data + at + 1, 2 })) return false;
            at += 2;
        }
        if (*len + 1 >= size) return false;
        out[(*len)++] = (char)byte;
    }
    out[*len] = '\0';
    return true;
}
