#include "redis/url.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#define PORT_REDIS 6379
#define PORT_SENTINEL 26379
#define URL_BYTES_MAX 4096

static const struct {
    const char *prefix;
    enum redis_kind kind;
} schemes[] = {
    { "redis://", REDIS_SINGLE },
    { "redis+sentinel://", REDIS_SENTINEL },
    { "redis+cluster://", REDIS_CLUSTER },
};

static bool refuse(char mistake[REDIS_SENTENCE_BYTES], const char *sentence)
{
    snprintf(mistake, REDIS_SENTENCE_BYTES, "%s", sentence);
    return false;
}

static bool refuse_part(char mistake[REDIS_SENTENCE_BYTES], const char *format, struct slice part)
{
    int shown = part.len < 100 ? (int)part.len : 100;
    snprintf(mistake, REDIS_SENTENCE_BYTES, format, shown, part.data);
    return false;
}

/* What is before the first such letter goes to head; what is after it stays. False: there is none. */
static bool cut(struct slice *text, char letter, struct slice *head)
{
    const char *at = memchr(text->data, letter, text->len);
    if (at == NULL) return false;
    size_t len = (size_t)(at - text->data);
    *head = (struct slice){ text->data, len };
    *text = (struct slice){ at + 1, text->len - len - 1 };
    return true;
}

static bool starts(struct slice text, const char *prefix)
{
    size_t len = strlen(prefix);
    return text.len >= len && strncasecmp(text.data, prefix, len) == 0;
}

static bool text_take(char *out, size_t bytes_max, struct slice text)
{
    if (text.len == 0 || text.len > bytes_max) return false;
    memcpy(out, text.data, text.len);
    out[text.len] = '\0';
    return true;
}

static bool name_letters(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char letter = (unsigned char)text.data[i];
        if (!isalnum(letter) && strchr("._-", letter) == NULL) return false;
    }
    return true;
}

static bool host_take(struct redis_address *out, struct slice host, bool bracketed, char *mistake)
{
    struct in6_addr v6;
    if (host.len == 0) return refuse(mistake, "A host is missing in the Redis URL: write redis://HOST:PORT.");
    if (!text_take(out->host, REDIS_HOST_BYTES_MAX, host)) {
        return refuse_part(mistake, "The host %.*s… of the Redis URL is too long: 253 letters at most.", host);
    }
    if (bracketed && inet_pton(AF_INET6, out->host, &v6) != 1) {
        return refuse_part(mistake, "[%.*s] in the Redis URL is not an IPv6 address.", host);
    }
    if (!bracketed && memchr(host.data, ':', host.len) != NULL) {
        return refuse_part(mistake, "Write the IPv6 address %.*s of the Redis URL in brackets: [ADDRESS]:PORT.", host);
    }
    if (!bracketed && !name_letters(host)) {
        return refuse_part(mistake, "\"%.*s\" in the Redis URL is not a host: letters, digits, '.', '-' and '_' only.",
                           host);
    }
    return true;
}

/* HOST, HOST:PORT, [IPV6] or [IPV6]:PORT. */
static bool seed_take(struct redis_place *out, struct slice text, uint16_t port_default, char *mistake)
{
    struct slice host = text, port = { NULL, 0 };
    uint64_t number = port_default;
    bool bracketed = text.len > 0 && text.data[0] == '[';
    bool with_port = false;
    if (bracketed) {
        struct slice rest = { text.data + 1, text.len - 1 };
        if (!cut(&rest, ']', &host) || (rest.len > 0 && rest.data[0] != ':')) {
            return refuse_part(mistake, "\"%.*s\" in the Redis URL is not [IPV6]:PORT.", text);
        }
        with_port = rest.len > 0;
        if (with_port) port = (struct slice){ rest.data + 1, rest.len - 1 };
    } else {
        const char *colon = memrchr(text.data, ':', text.len);
        /* Two colons without brackets are an IPv6 address, which host_take() explains. */
        if (colon != NULL && memchr(text.data, ':', text.len) == colon) {
            host.len = (size_t)(colon - text.data);
            port = (struct slice){ colon + 1, text.len - host.len - 1 };
            with_port = true;
        }
    }
    if (with_port && (!text_to_u64(port, &number) || number == 0 || number > UINT16_MAX)) {
        return refuse_part(mistake, "The port of \"%.*s\" in the Redis URL is not a number from 1 to 65535.", text);
    }
    if (out->seeds_count == REDIS_SEEDS_MAX) {
        return refuse(mistake,
                      "The Redis URL names more than 16 hosts: a few are enough, the others are found by asking them.");
    }
    struct redis_address *seed = &out->seeds[out->seeds_count];
    if (!host_take(seed, host, bracketed, mistake)) return false;
    seed->port = (uint16_t)number;
    out->seeds_count++;
    return true;
}

static bool user_take(struct redis_place *out, struct slice user, char *mistake)
{
    if (memchr(user.data, ':', user.len) != NULL) {
        return refuse(mistake, "A password does not belong into the Redis URL, where process lists and logs show it: put it "
                               "into a file named by redis_password_file, or into the environment as "
                               "STAMPEDE_REDIS_PASSWORD, and leave only the user before the @.");
    }
    if (user.len == 0)
        return refuse(mistake, "The user before the @ of the Redis URL is missing: name one or leave out the @.");
    if (text_has_control(user) || memchr(user.data, ' ', user.len) != NULL || memchr(user.data, '%', user.len) != NULL ||
        !text_take(out->user, REDIS_USER_BYTES_MAX, user)) {
        return refuse(mistake, "The user in the Redis URL is not one: 64 letters at most, without spaces and without %.");
    }
    return true;
}

static bool path_take(struct redis_place *out, struct slice path, char *mistake)
{
    uint64_t db = 0;
    if (out->kind == REDIS_SENTINEL) {
        struct slice name = path;
        if (!cut(&path, '/', &name)) path = (struct slice){ NULL, 0 };
        if (name.len == 0) {
            return refuse(mistake, "The Redis URL does not say which master the Sentinels watch: end it with /NAME, the "
                                   "name in their \"sentinel monitor NAME …\" line.");
        }
        if (!name_letters(name) || !text_take(out->master_name, REDIS_MASTER_NAME_BYTES_MAX, name)) {
            return refuse_part(mistake,
                               "\"%.*s\" in the Redis URL is not the name of a master: at most 64 letters, digits, "
                               "'.', '-' and '_'.",
                               name);
        }
    }
    if (path.len == 0) return true;
    if (out->kind == REDIS_CLUSTER) {
        return refuse(mistake, "A Redis Cluster has only database 0: leave out what follows the hosts in the URL.");
    }
    if (!text_to_u64(path, &db) || db > REDIS_DB_MAX) {
        return refuse_part(mistake, "\"%.*s\" at the end of the Redis URL is not the number of a database.", path);
    }
    out->db = (uint32_t)db;
    return true;
}

static bool scheme_take(struct redis_place *out, struct slice *url, char *mistake)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (!starts(*url, schemes[i].prefix)) continue;
        size_t len = strlen(schemes[i].prefix);
        out->kind = schemes[i].kind;
        *url = (struct slice){ url->data + len, url->len - len };
        return true;
    }
    if (starts(*url, "rediss")) {
        return refuse(mistake, "TLS to Redis is not spoken here: let stunnel carry it and write redis:// with stunnel's "
                               "local address.");
    }
    return refuse(mistake, "A Redis URL begins with redis://, redis+sentinel:// or redis+cluster://.");
}

bool redis_url_parse(struct redis_place *out, struct slice url, char mistake[REDIS_SENTENCE_BYTES])
{
    *out = (struct redis_place){ 0 };
    if (url.len > URL_BYTES_MAX) return refuse(mistake, "The Redis URL is too long: 4096 letters at most.");
    if (url.len == 0 || !text_is_printable(url)) {
        return refuse(mistake, "The Redis URL is empty or has letters that are no text.");
    }
    if (!scheme_take(out, &url, mistake)) return false;

    /* A password may have any letter, so the last @ is the one that ends it. */
    const char *at = memrchr(url.data, '@', url.len);
    if (at != NULL) {
        struct slice user = { url.data, (size_t)(at - url.data) };
        url = (struct slice){ at + 1, url.len - user.len - 1 };
        if (!user_take(out, user, mistake)) return false;
    }
    if (memchr(url.data, '?', url.len) != NULL || memchr(url.data, '#', url.len) != NULL) {
        return refuse(mistake, "A Redis URL has no part after ? or #: what it cannot say is an option.");
    }
    struct slice hosts = url, host;
    if (cut(&url, '/', &hosts)) {
        if (!path_take(out, url, mistake)) return false;
    } else if (out->kind == REDIS_SENTINEL) {
        if (!path_take(out, (struct slice){ hosts.data, 0 }, mistake)) return false;
    }
    uint16_t port_default = out->kind == REDIS_SENTINEL ? PORT_SENTINEL : PORT_REDIS;
    while (cut(&hosts, ',', &host)) {
        if (!seed_take(out, host, port_default, mistake)) return false;
    }
    if (!seed_take(out, hosts, port_default, mistake)) return false;
    if (out->kind == REDIS_SINGLE && out->seeds_count > 1) {
        return refuse(mistake, "redis:// names one host: for several write redis+cluster:// or redis+sentinel://.");
    }
    return true;
}

void redis_address_print(char out[REDIS_ADDRESS_TEXT_BYTES], const struct redis_address *address)
{
    const char *format = strchr(address->host, ':') != NULL ? "[%s]:%u" : "%s:%u";
    snprintf(out, REDIS_ADDRESS_TEXT_BYTES, format, address->host, (unsigned)address->port);
}

bool redis_address_equal(const struct redis_address *a, const struct redis_address *b)
{
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}
