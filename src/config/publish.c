#include "config/publish.h"

#include "base/text.h"

#include <assert.h>
#include <stdio.h>

/* What differs between the schemes. */
static const struct scheme {
    const char *word;
    uint16_t port;
    bool user, several;
    const char *name; /* what the path is called in a mistake */
} schemes[PUBLISH_KINDS] = {
    [PUBLISH_OFF] = { .word = "off" },
    [PUBLISH_REDIS] = { "redis", 6379, true, false, "the stream" },
    [PUBLISH_AMQP] = { "amqp", 5672, true, false, "the virtual host" },
    [PUBLISH_KAFKA] = { "kafka", 9092, false, true, "the topic" },
};

const char *publish_kind_word(enum publish_kind kind)
{
    assert(kind < PUBLISH_KINDS);
    return schemes[kind].word;
}

static bool refuse(char mistake[PUBLISH_MISTAKE_BYTES], const char *why)
{
    snprintf(mistake, PUBLISH_MISTAKE_BYTES, "%s", why);
    return false;
}

/* The part before the first of the letter, which is skipped in rest; all of it where there is none. */
static struct slice part_take(struct slice *rest, char letter)
{
    const char *at = rest->len > 0 ? memchr(rest->data, letter, rest->len) : NULL;
    struct slice part = *rest;
    if (at == NULL) {
        *rest = (struct slice){ rest->data + rest->len, 0 };
        return part;
    }
    part.len = (size_t)(at - rest->data);
    *rest = (struct slice){ at + 1, rest->len - part.len - 1 };
    return part;
}

/* Percent-decoded, whole, and text; at least one byte. */
static bool name_take(char out[PUBLISH_NAME_BYTES_MAX + 1], struct slice text)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.data[i];
        if (text.data[i] == '%') {
            if (text.len - i < 3 || !hex_decode(&byte, (struct slice){ text.data + i + 1, 2 })) return false;
            i += 2;
        }
        if (len == PUBLISH_NAME_BYTES_MAX) return false;
        out[len++] = (char)byte;
    }
    out[len] = '\0';
    struct slice name = { out, len };
    return len > 0 && text_is_printable(name);
}

/* Letters of a host's name or of an address; who has others in it meant something else. */
static bool host_good(struct slice host, bool brackets)
{
    if (host.len == 0 || host.len > PUBLISH_NAME_BYTES_MAX) return false;
    for (size_t i = 0; i < host.len; i++) {
        char c = host.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
                      c == '_';
        if (!letter && !(brackets && c == ':')) return false;
    }
    return true;
}

/* HOST, HOST:PORT, [IPV6] or [IPV6]:PORT into host and port. */
static bool server_take(struct publish_place *out, struct slice text)
{
    struct slice host;
    bool brackets = text.len > 0 && text.data[0] == '[';
    uint64_t port = out->port;
    if (brackets) {
        text = (struct slice){ text.data + 1, text.len - 1 };
        size_t before = text.len;
        host = part_take(&text, ']');
        if (host.len == before) return false;
        if (text.len > 0 && text.data[0] != ':') return false;
        if (text.len > 0)
            text = (struct slice){ text.data + 1, text.len - 1 };
        else
            text = (struct slice){ NULL, 0 };
    } else {
        size_t before = text.len;
        host = part_take(&text, ':');
        if (host.len == before) text.data = NULL;
    }
    if (!host_good(host, brackets)) return false;
    if (text.data != NULL && (!text_to_u64(text, &port) || port == 0 || port > UINT16_MAX)) return false;
    memcpy(out->host, host.data, host.len);
    out->host[host.len] = '\0';
    out->port = (uint16_t)port;
    return true;
}

static bool servers_take(struct publish_place *out, struct slice text, const struct scheme *scheme)
{
    size_t len = 0;
    for (bool last = false; !last;) {
        size_t before = text.len;
        struct slice one = scheme->several ? part_take(&text, ',') : text;
        last = one.len == before; /* no comma after it */
        out->port = scheme->port;
        if (!server_take(out, one)) return false;
        if (!scheme->several) return true;
        bool brackets = strchr(out->host, ':') != NULL;
        int wrote = snprintf(out->servers + len, sizeof out->servers - len, "%s%s%s%s:%u", len > 0 ? "," : "",
                             brackets ? "[" : "", out->host, brackets ? "]" : "", (unsigned)out->port);
        if (wrote < 0 || (size_t)wrote >= sizeof out->servers - len) return false;
        len += (size_t)wrote;
    }
    return true;
}

static bool word_take(struct slice value, bool *off)
{
    *off = slice_is(value, "off");
    return *off || slice_is(value, "on");
}

static bool parameter_take(struct publish_place *out, struct slice name, struct slice value)
{
    if (out->kind == PUBLISH_REDIS && slice_is(name, "maxlen"))
        return text_to_u64(value, &out->length_max) && out->length_max > 0 && out->length_max <= INT64_MAX;
    if (out->kind != PUBLISH_AMQP) return false;
    if (slice_is(name, "exchange")) return name_take(out->exchange, value);
    if (slice_is(name, "routing_key")) return name_take(out->routing_key, value);
    return slice_is(name, "mandatory") && word_take(value, &out->unrouted_dropped);
}

static bool parameters_take(struct publish_place *out, struct slice text, char mistake[PUBLISH_MISTAKE_BYTES])
{
    static const char *const known[PUBLISH_KINDS] = {
        [PUBLISH_REDIS] = "after the question mark stands maxlen=N, from 1",
        [PUBLISH_AMQP] = "after the question mark stand exchange=NAME, routing_key=KEY and mandatory=on or off, joined by &",
        [PUBLISH_KAFKA] = "a kafka URL ends with its topic",
    };
    while (text.len > 0) {
        struct slice value = part_take(&text, '&');
        struct slice name = part_take(&value, '=');
        if (!parameter_take(out, name, value)) return refuse(mistake, known[out->kind]);
    }
    if (out->kind == PUBLISH_AMQP && out->exchange[0] == '\0' && out->routing_key[0] == '\0')
        return refuse(mistake, "an amqp URL says where to: ?exchange=NAME, or ?routing_key=QUEUE for a queue by its name");
    return true;
}

static bool path_take(struct publish_place *out, struct slice path, char mistake[PUBLISH_MISTAKE_BYTES])
{
    if (out->kind == PUBLISH_AMQP && path.len == 0) path = SLICE("/");
    if (name_take(out->name, path)) return true;
    snprintf(mistake, PUBLISH_MISTAKE_BYTES, "%s stands after the slash of a %s URL, at most %d bytes of text",
             schemes[out->kind].name, schemes[out->kind].word, PUBLISH_NAME_BYTES_MAX);
    return false;
}

/* A topic has fewer letters than a name: librdkafka would say so only when it is too late. */
static bool topic_good(const char *topic)
{
    size_t len = strspn(topic, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return topic[len] == '\0' && len <= 249 && strcmp(topic, ".") != 0 && strcmp(topic, "..") != 0;
}

static bool authority_take(struct publish_place *out, struct slice text, char mistake[PUBLISH_MISTAKE_BYTES])
{
    const struct scheme *scheme = &schemes[out->kind];
    const char *at = text.len > 0 ? memrchr(text.data, '@', text.len) : NULL;
    if (at != NULL) {
        struct slice user = { text.data, (size_t)(at - text.data) };
        text = (struct slice){ at + 1, text.len - user.len - 1 };
        if (memchr(user.data, ':', user.len) != NULL)
            return refuse(mistake, "the password does not stand in the URL: put it into publish_password_file, or into the"
                                   " environment as STAMPEDE_PUBLISH_PASSWORD");
        if (!scheme->user) return refuse(mistake, "a kafka URL has no user: there is no login to Kafka yet");
        if (!name_take(out->user, user)) return refuse(mistake, "the user before the @ is not a name");
    }
    if (servers_take(out, text, scheme)) return true;
    snprintf(mistake, PUBLISH_MISTAKE_BYTES, "a %s URL names %s, such as %s:%u", scheme->word,
             scheme->several ? "hosts and ports, separated by commas" : "a host and a port", scheme->word,
             (unsigned)scheme->port);
    return false;
}

bool publish_place_parse(struct publish_place *out, struct slice text, char mistake[PUBLISH_MISTAKE_BYTES])
{
    *out = (struct publish_place){ .kind = PUBLISH_OFF };
    if (slice_is(text, "off")) return true;
    struct slice rest = text;
    struct slice word = part_take(&rest, ':');
    enum publish_kind kind = PUBLISH_OFF + 1;
    while (kind < PUBLISH_KINDS && !slice_is(word, schemes[kind].word)) kind++;
    if (kind == PUBLISH_KINDS || rest.len < 2 || memcmp(rest.data, "//", 2) != 0)
        return refuse(mistake, "it is off, redis://HOST:PORT/STREAM, amqp://USER@HOST:PORT/VHOST?exchange=NAME or"
                               " kafka://HOST:PORT,HOST:PORT/TOPIC");
    rest = (struct slice){ rest.data + 2, rest.len - 2 };
    out->kind = kind;
    if (memchr(rest.data, '#', rest.len) != NULL) return refuse(mistake, "a # in a name is written %23");
    struct slice before = part_take(&rest, '?'), parameters = rest;
    struct slice authority = part_take(&before, '/');
    if (!authority_take(out, authority, mistake) || !path_take(out, before, mistake)) return false;
    if (kind == PUBLISH_KAFKA && !topic_good(out->name))
        return refuse(mistake, "a topic of Kafka has letters, digits, full stops, underscores and hyphens, 249 at most");
    return parameters_take(out, parameters, mistake);
}
