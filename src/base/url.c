#include "base/url.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

static struct slice piece(const char *from, const char *to)
{
    return (struct slice){ from, (size_t)(to - from) };
}

/* Cuts text at the first of this letter: what is before it, and in *after what follows. All of it if there is none. */
static struct slice cut(struct slice text, char letter, struct slice *after)
{
    const char *at = memchr(text.data, letter, text.len);
    const char *end = text.data + text.len;
    *after = at == NULL ? piece(end, end) : piece(at + 1, end);
    return piece(text.data, at == NULL ? end : at);
}

static bool refuse(char mistake[URL_MISTAKE_BYTES], const char *why)
{
    snprintf(mistake, URL_MISTAKE_BYTES, "%s", why);
    return false;
}

static bool port_read(struct url *out, struct slice text, char mistake[URL_MISTAKE_BYTES])
{
    uint64_t port;
    if (!text_to_u64(text, &port) || port == 0 || port > UINT16_MAX)
        return refuse(mistake, "the port of the URL is a number from 1 to 65535");
    out->port = (uint16_t)port;
    return true;
}

static bool host_read(struct url *out, struct slice text, char mistake[URL_MISTAKE_BYTES])
{
    struct slice port;
    if (text.len > 0 && text.data[0] == '[') {
        struct slice rest;
        out->host = cut((struct slice){ text.data + 1, text.len - 1 }, ']', &rest);
        if (rest.len > 0 && rest.data[0] != ':') return refuse(mistake, "after the ] of the URL's host comes :PORT or /");
        if (out->host.len + 2 > text.len) return refuse(mistake, "the URL's host begins with [ and has no ]");
        if (rest.len == 0) return true;
        port = (struct slice){ rest.data + 1, rest.len - 1 };
    } else {
        out->host = cut(text, ':', &port);
        if (out->host.len == text.len) return true;
    }
    return port_read(out, port, mistake);
}

bool url_read(struct url *out, struct slice text, char mistake[URL_MISTAKE_BYTES])
{
    *out = (struct url){ .port = 0 };
    const char *sign = memmem(text.data, text.len, "://", 3);
    if (sign == NULL) return refuse(mistake, "it is a URL such as mysql://user@host:3306/database");
    out->scheme = piece(text.data, sign);
    struct slice rest = piece(sign + 3, text.data + text.len), after;

    struct slice address = cut(cut(rest, '?', &out->query), '/', &out->path);
    const char *at = memrchr(address.data, '@', address.len);
    if (at != NULL) {
        out->user = cut(piece(address.data, at), ':', &after);
        if (out->user.len != (size_t)(at - address.data))
            return refuse(mistake, "the URL has a password, which others could see: leave it out, and give it in a file or "
                                   "in the environment");
        address = piece(at + 1, address.data + address.len);
    }
    return host_read(out, address, mistake);
}

struct slice url_query(const struct url *url, const char *key)
{
    for (struct slice rest = url->query; rest.len > 0;) {
        struct slice value, name = cut(cut(rest, '&', &rest), '=', &value);
        if (slice_is(name, key)) return value;
    }
    return SLICE("");
}
