#include "config/options.h"

#include "base/address.h"
#include "base/text.h"
#include "base/url.h"
#include "bounds.h"
#include "config/limits.h"
#include "config/publish.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PASSWORD_THREADS_MAX 16
#define QUERY_THREADS_MAX 12
#define NAME_BYTES_MAX 32
#define REDIS_PREFIX_BYTES_MAX 64
#define NODE_MAX 1023
#define STREAM_MAX 100000000
#define FILER_THREADS_MAX 8
#define SHARE_PERCENT_MAX 100000

/* The other threads are the committer, the clerk and the one that started them all. */
_Static_assert(REACTORS_MAX + PASSWORD_THREADS_MAX + QUERY_THREADS_MAX + 3 <= THREADS_MAX,
               "every thread has its own metrics");

#define AT(field) offsetof(struct config, field)
#define WHOLE(field, low, high) .kind = OPTION_INTEGER, .offset = AT(field), .min = (low), .max = (high)

static bool networks_check(struct slice value, char mistake[256])
{
    struct networks networks;
    return networks_parse(&networks, value, mistake);
}

static bool limits_check(struct slice value, char mistake[256])
{
    struct limit_terms terms;
    return limit_terms_read(&terms, value, mistake);
}

static bool ledger_url_check(struct slice value, char mistake[256])
{
    struct url url;
    if (value.len == 0) return true;
    if (!url_read(&url, value, mistake)) return false;
    if (slice_is(url.scheme, "mysql") || slice_is(url.scheme, "mariadb")) return true;
    snprintf(mistake, 256, "its URL begins with mysql:// or mariadb://");
    return false;
}

static bool ledger_check(struct slice value, char mistake[256])
{
    return slice_is(value, "sqlite") || ledger_url_check(value, mistake);
}

/* What stands behind the scheme is the client's to read: see command/places.c. */
static bool gate_check(struct slice value, char mistake[256])
{
    static const char *const schemes[] = { "redis://", "redis+sentinel://", "redis+cluster://" };
    if (slice_is(value, "local")) return true;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (value.len > strlen(schemes[i]) && memcmp(value.data, schemes[i], strlen(schemes[i])) == 0) return true;
    }
    snprintf(mistake, 256, "it is local, redis://HOST, redis+sentinel://HOST,HOST/NAME or redis+cluster://HOST,HOST");
    return false;
}

/* It stands before "{sale:ID}" in every key: braces of its own would be taken for those. */
static bool prefix_check(struct slice value, char mistake[256])
{
    bool good = value.len <= REDIS_PREFIX_BYTES_MAX;
    for (size_t i = 0; i < value.len; i++)
        good = good && value.data[i] > ' ' && value.data[i] < 127 && value.data[i] != '{' && value.data[i] != '}';
    if (!good)
        snprintf(mistake, 256, "it is at most %d printable bytes of ASCII without spaces and braces",
                 REDIS_PREFIX_BYTES_MAX);
    return good;
}

static bool address_or_off(struct slice value, char mistake[256])
{
    struct address address;
    uint16_t port;
    if (slice_is(value, "off") || address_parse_port(&address, &port, value)) return true;
    snprintf(mistake, 256, "it is an address and a port, such as 127.0.0.1:20081 or [::1]:20081, or off");
    return false;
}

static bool publish_check(struct slice value, char mistake[256])
{
    struct publish_place place;
    return publish_place_parse(&place, value, mistake);
}
_Static_assert(ADDRESS_MISTAKE_BYTES <= 256 && URL_MISTAKE_BYTES <= 256 && LIMIT_MISTAKE_BYTES <= 256 &&
                   PUBLISH_MISTAKE_BYTES <= 256,
               "the mistakes fit");

/* clang-format off */
const struct option options[OPTIONS_COUNT] = {
    { "data", .kind = OPTION_PATH, .offset = AT(data), .fallback = "./data",
      .help = "Folder of the journal, the ledger and the keys; made if it is not there." },
    { "ledger", .kind = OPTION_TEXT, .offset = AT(ledger), .fallback = "sqlite", .check = ledger_check,
      .help = "The ledger: sqlite is a file in the data folder, mysql://user@host:port/database is elsewhere." },
    { "ledger_read", .kind = OPTION_TEXT, .offset = AT(ledger_read), .fallback = "", .check = ledger_url_check,
      .help = "URL of a read replica, for lists, statistics and exports; with gate in Redis for exports; empty: none." },
    { "ledger_password_file", .kind = OPTION_PATH, .offset = AT(ledger_password_file), .fallback = "", .secret = true,
      .help = "File of the ledger's password; empty means that STAMPEDE_LEDGER_PASSWORD has it, if anything." },
    { "ledger_tls", .kind = OPTION_CHOICE, .offset = AT(ledger_tls), .fallback = "off", .choices = "off required verify",
      .help = "TLS to the ledger: required hides what is said, verify checks who answers." },
    { "ledger_tls_ca", .kind = OPTION_PATH, .offset = AT(ledger_tls_ca), .fallback = "",
      .help = "PEM file of the authorities for ledger_tls = verify; empty means those of the system." },
    { "ledger_unsafe", .kind = OPTION_CHOICE, .offset = AT(ledger_unsafe), .fallback = "off", .choices = "off on",
      .help = "Whether to run on a database that may lose what it has committed when it crashes." },
    { "gate", .kind = OPTION_TEXT, .offset = AT(gate), .fallback = "local", .check = gate_check,
      .help = "Where it is decided who wins: local is this process, the URL of a Redis is several machines together." },
    { "redis_password_file", .kind = OPTION_PATH, .offset = AT(redis_password_file), .fallback = "", .secret = true,
      .help = "File of the password of gate; empty means that STAMPEDE_REDIS_PASSWORD has it, if anything." },
    { "redis_sentinel_password_file", .kind = OPTION_PATH, .offset = AT(redis_sentinel_password_file), .fallback = "",
      .secret = true,
      .help = "File of the Sentinels' password; empty means that STAMPEDE_REDIS_SENTINEL_PASSWORD has it, if any." },
    { "redis_prefix", .kind = OPTION_TEXT, .offset = AT(redis_prefix), .fallback = "stampede:", .check = prefix_check,
      .help = "What every key in Redis begins with; another for each shop that shares the Redis." },
    { "ack", .kind = OPTION_CHOICE, .offset = AT(ack), .fallback = "ledger", .choices = "gate replica ledger",
      .help = "Who must have a win, with gate in Redis, before it is told." },
    { "replicas", WHOLE(replicas, 1, 16), .fallback = "1",
      .help = "Replicas that must have a win before it is told, with ack = replica." },
    { "replica_ms", WHOLE(replica_ms, 1, 10000), .fallback = "100",
      .help = "How long to wait for them; then the outcome is unknown." },
    { "node", WHOLE(node, 0, NODE_MAX), .fallback = "0",
      .help = "Number of this node among those that share gate, another for each; 0 takes one that is free." },
    { "stream_max", WHOLE(stream_max, 100, STREAM_MAX), .fallback = "1000000",
      .help = "Decisions of a sale in Redis that may wait to be filed; beyond them it is BUSY." },
    { "filer_threads", WHOLE(filer_threads, 1, FILER_THREADS_MAX), .fallback = "2",
      .help = "Threads that file what was won in Redis into the ledger, a connection each." },
    { "warm_before_s", WHOLE(warm_before_s, 0, 86400), .fallback = "60",
      .help = "Sales are put into Redis so long before they open, in seconds." },
    { "share_percent", WHOLE(share_percent, 0, SHARE_PERCENT_MAX), .fallback = "0",
      .help = "Percent of an even share that a node asks Redis for at once; 0 asks for all who come." },
    { "http", .kind = OPTION_ADDRESS, .offset = AT(http), .fallback = "127.0.0.1:20080",
      .help = "Address and port of HTTP; port 0 picks a free one." },
    { "resp", .kind = OPTION_TEXT, .offset = AT(resp), .fallback = "127.0.0.1:20081", .check = address_or_off,
      .help = "Address and port of the Redis protocol, or off; beyond this machine only with resp_accounts." },
    { "resp_accounts", .kind = OPTION_PATH, .offset = AT(resp_accounts), .fallback = "", .secret = true,
      .help = "File of backends and their passwords for the Redis protocol; empty means one without a password." },
    { "tls_cert", .kind = OPTION_PATH, .offset = AT(tls_cert), .fallback = "",
      .help = "PEM file with the certificate chain; empty serves plain HTTP." },
    { "tls_key", .kind = OPTION_PATH, .offset = AT(tls_key), .fallback = "", .secret = true,
      .help = "PEM file with the private key of tls_cert." },
    { "keys", .kind = OPTION_PATH, .offset = AT(keys), .fallback = "", .secret = true,
      .help = "File of the keys that sign logins; empty means the file keys in the data folder." },
    { "proxies", .kind = OPTION_TEXT, .offset = AT(proxies), .fallback = "", .check = networks_check,
      .help = "Addresses and networks of proxies whose X-Forwarded-For counts, separated by commas." },
    { "limits", .kind = OPTION_TEXT, .offset = AT(limits), .fallback = "", .reloads = true, .check = limits_check,
      .help = "Limits of the guard that differ from their defaults, as name=value,name=value." },
    { "blocks", .kind = OPTION_PATH, .offset = AT(blocks), .fallback = "",
      .help = "File of the users and addresses that are turned away; empty means the file blocks in the data folder." },
    { "log_level", .kind = OPTION_CHOICE, .offset = AT(log_level), .fallback = "info", .choices = "debug info warn error",
      .reloads = true, .help = "The least level that is logged." },
    { "reactors", WHOLE(reactors, 0, REACTORS_MAX), .fallback = "0",
      .help = "Threads that serve connections; 0 means one per core." },
    { "connections_max", WHOLE(connections_max, 1, 1000000), .fallback = "50000",
      .help = "Connections held at once; those beyond are refused." },
    { "orders_max", WHOLE(orders_max, 1, ORDERS_OPEN_MAX), .fallback = "16000000",
      .help = "Orders of open sales kept in memory, about 90 bytes each once they exist." },
    { "sales_per_seller_max", WHOLE(sales_per_seller_max, 1, SALES_OPEN_MAX), .fallback = "1000",
      .help = "Upcoming or running sales that one seller may have at once." },
    { "journal_segment_mb", WHOLE(journal_segment_mb, SEGMENT_BYTES_MIN >> 20, SEGMENT_BYTES_MAX >> 20), .fallback = "64",
      .help = "Size of a journal file in MiB." },
    { "space_mb_min", WHOLE(space_mb_min, 0, 1 << 20), .fallback = "256",
      .help = "Free disk space in MiB under which grabs are answered BUSY." },
    { "clerk_pause_ms", WHOLE(clerk_pause_ms, 1, 60000), .fallback = "100",
      .help = "How long the clerk lets decisions gather before it files them into the ledger." },
    { "token_ttl_s", WHOLE(token_ttl_s, 1, 31536000), .fallback = "3600",
      .help = "How long a login lasts, in seconds; at the coupon door an hour at most." },
    { "token_purchase_ttl_s", WHOLE(token_purchase_ttl_s, 1, 31536000), .fallback = "600",
      .help = "How long a purchase token can be used, in seconds; asked for again it lasts as long anew." },
    { "password_threads", WHOLE(password_threads, 0, PASSWORD_THREADS_MAX), .fallback = "0",
      .help = "Threads that check passwords, 19 MiB each; 0 means half the cores, at least 1." },
    { "query_threads", WHOLE(query_threads, 1, QUERY_THREADS_MAX), .fallback = "2",
      .help = "Threads that read lists from the ledger." },
    { "payment_keys", .kind = OPTION_PATH, .offset = AT(payment_keys), .fallback = "", .secret = true,
      .help = "File of secrets of the payment provider; empty means the file payment_keys in the data folder." },
    { "payment_tolerance_s", WHOLE(payment_tolerance_s, 1, 86400), .fallback = "300",
      .help = "How far the provider's clock and ours may be apart for a signed payment to count, in seconds." },
    { "drain_ms_max", WHOLE(drain_ms_max, 0, 600000), .fallback = "10000",
      .help = "How long answers may take after SIGTERM." },
    { "identity_keys", .kind = OPTION_PATH, .offset = AT(identity_keys), .fallback = "",
      .help = "Public keys of your own identity provider, a PEM or JWKS file; empty means there is none." },
    { "identity_alg", .kind = OPTION_CHOICE, .offset = AT(identity_alg), .fallback = "RS256", .choices = "RS256 ES256 EdDSA",
      .help = "The only algorithm that tokens of the provider may be signed with." },
    { "identity_issuer", .kind = OPTION_TEXT, .offset = AT(identity_issuer), .fallback = "",
      .help = "The issuer (iss) that the provider's tokens must name; buyers are called issuer:subject." },
    { "identity_audience", .kind = OPTION_TEXT, .offset = AT(identity_audience), .fallback = "",
      .help = "The audience (aud) that tokens of the provider must name." },
    { "identity_subject_claim", .kind = OPTION_TEXT, .offset = AT(identity_subject_claim), .fallback = "sub",
      .help = "The claim of the provider's tokens that says who someone is." },
    { "identity_role_claim", .kind = OPTION_TEXT, .offset = AT(identity_role_claim), .fallback = "",
      .help = "The claim that identity_roles looks at; empty makes everybody a customer." },
    { "identity_roles", .kind = OPTION_TEXT, .offset = AT(identity_roles), .fallback = "seller=seller",
      .help = "Values of identity_role_claim that mean more than a customer, as value=role,value=role." },
    { "identity_leeway_s", WHOLE(identity_leeway_s, 0, 300), .fallback = "30",
      .help = "How far the provider's clock and ours may be apart, in seconds." },
    { "breaker_window_ms", WHOLE(breaker_window_ms, 100, 600000), .fallback = "10000",
      .help = "How far back the breaker of a class of routes looks, in milliseconds." },
    { "breaker_share_percent", WHOLE(breaker_share_percent, 0, 100), .fallback = "50",
      .help = "Share of failed or slow answers that opens the breaker; 0 turns it off." },
    { "breaker_slow_ms", WHOLE(breaker_slow_ms, 0, 600000), .fallback = "1000",
      .help = "An answer that takes longer counts as failed; 0 does not judge slowness." },
    { "breaker_open_ms", WHOLE(breaker_open_ms, 100, 600000), .fallback = "5000",
      .help = "How long an open breaker answers BUSY before it lets probes through." },
    { "breaker_probes", WHOLE(breaker_probes, 1, 1000), .fallback = "5",
      .help = "Requests that must succeed, one after the other, to close the breaker." },
    { "memory_mb_max", WHOLE(memory_mb_max, 0, 1 << 24), .fallback = "0", .reloads = true,
      .help = "Memory in MiB near which requests are turned away; 0 means 80 percent of the machine's." },
    { "place_heartbeat_ms", WHOLE(place_heartbeat_ms, 1000, 3600000), .fallback = "15000",
      .help = "A place in line that is not looked at for so long is given up, in milliseconds." },
    { "webhooks_private", .kind = OPTION_CHOICE, .offset = AT(webhooks_private), .fallback = "off", .choices = "off on",
      .help = "Whether webhooks may call addresses that are not of the public Internet." },
    { "webhook_ca", .kind = OPTION_PATH, .offset = AT(webhook_ca), .fallback = "",
      .help = "PEM file of the authorities for https webhooks; empty means those of the system." },
    { "webhook_timeout_ms", WHOLE(webhook_timeout_ms, 100, 60000), .fallback = "10000", .reloads = true,
      .help = "How long a webhook may take to answer." },
    { "webhook_retry_ms_min", WHOLE(webhook_retry_ms_min, 10, 3600000), .fallback = "1000", .reloads = true,
      .help = "How long a webhook message waits after its first failed try; then twice as long." },
    { "webhook_retry_ms_max", WHOLE(webhook_retry_ms_max, 10, 86400000), .fallback = "3600000", .reloads = true,
      .help = "The longest wait between two tries of a webhook message." },
    { "webhook_give_up_s", WHOLE(webhook_give_up_s, 1, 31536000), .fallback = "259200", .reloads = true,
      .help = "How long a webhook message is tried before it is given up, in seconds." },
    { "publish", .kind = OPTION_TEXT, .offset = AT(publish), .fallback = "off", .check = publish_check,
      .help = "Queue that order events are published to: off, or a URL of redis://, amqp:// or kafka://." },
    { "publish_password_file", .kind = OPTION_PATH, .offset = AT(publish_password_file), .fallback = "", .secret = true,
      .help = "File whose first line is the password of the queue; empty means there is none." },
    { "publish_waiting_max", WHOLE(publish_waiting_max, 1, INT64_C(1000000000)), .fallback = "10000000",
      .help = "Events that wait for the queue at most; those beyond are counted, not published." },
    { "door_coupon", .kind = OPTION_CHOICE, .offset = AT(door_coupon), .fallback = "on", .choices = "on off",
      .help = "Whether clients of the coupon system are answered, under /api." },
    { "door_ticket", .kind = OPTION_CHOICE, .offset = AT(door_ticket), .fallback = "on", .choices = "on off",
      .help = "Whether SECKILL of the ticket system is a command of the Redis protocol." },
    { "door_claim", .kind = OPTION_CHOICE, .offset = AT(door_claim), .fallback = "on", .choices = "on off",
      .help = "Whether sales with admission open can be claimed by a link, /luck/ID." },
    { "door_luck_sale", WHOLE(door_luck_sale, 0, INT64_C(1000000000000)), .fallback = "0", .reloads = true,
      .help = "The id of the sale that /luck without one means; 0 is none." },
    { "door_cart", .kind = OPTION_CHOICE, .offset = AT(door_cart), .fallback = "on", .choices = "on off",
      .help = "Whether clients of the cart system are answered, at /shop/cart/add." },
    { "pages", .kind = OPTION_CHOICE, .offset = AT(pages), .fallback = "on", .choices = "on off",
      .help = "Whether the storefront at / and the console at /console are served." },
    { "demo_payments", .kind = OPTION_CHOICE, .offset = AT(demo_payments), .fallback = "off", .choices = "off on",
      .help = "Whether buyers may play the payment provider, for demonstrations: they pay without money." },
};
/* clang-format on */

static bool name_is(const char *name, struct slice given, char dash)
{
    if (strlen(name) != given.len) return false;
    for (size_t i = 0; i < given.len; i++) {
        char want = name[i] == '_' ? dash : name[i];
        if (given.data[i] != want) return false;
    }
    return true;
}

const struct option *option_find(struct slice name, char dash)
{
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        if (name_is(options[i].name, name, dash)) return &options[i];
    }
    return NULL;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Letters to insert, remove or change to make one name of the other; '-' and '_' are the same letter. */
static unsigned distance(struct slice a, const char *b)
{
    unsigned row[NAME_BYTES_MAX + 1];
    size_t b_len = strlen(b);
    assert(a.len <= NAME_BYTES_MAX && b_len <= NAME_BYTES_MAX);

    for (size_t j = 0; j <= b_len; j++) row[j] = (unsigned)j;
    for (size_t i = 0; i < a.len; i++) {
        unsigned corner = row[0];
        row[0] = (unsigned)i + 1;
        char letter = a.data[i] == '-' ? '_' : a.data[i];
        for (size_t j = 0; j < b_len; j++) {
            unsigned change = corner + (letter != b[j]);
            corner = row[j + 1];
            row[j + 1] = least(change, least(row[j], row[j + 1]) + 1);
        }
    }
    return row[b_len];
}

const char *option_nearest(struct slice name)
{
    if (name.len > NAME_BYTES_MAX) return NULL;
    const char *nearest = NULL;
    unsigned nearest_distance = 4; /* more letters than three make another word */
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        unsigned letters = distance(name, options[i].name);
        if (letters >= nearest_distance || letters >= strlen(options[i].name)) continue;
        nearest = options[i].name;
        nearest_distance = letters;
    }
    return nearest;
}

static bool choice_has(const char *choices, struct slice word)
{
    while (*choices != '\0') {
        size_t len = strcspn(choices, " ");
        if (slice_equal((struct slice){ choices, len }, word)) return true;
        choices += len;
        choices += strspn(choices, " ");
    }
    return false;
}

static bool address_valid(struct slice value)
{
    struct address address;
    uint16_t port;
    return address_parse_port(&address, &port, value);
}

static bool integer_set(struct config *config, const struct option *option, struct slice value, struct config_mistake *why)
{
    uint64_t number;
    if (!text_to_u64(value, &number) || number > INT64_MAX || (int64_t)number < option->min ||
        (int64_t)number > option->max) {
        snprintf(why->text, sizeof(why->text), "%s is a whole number from %" PRId64 " to %" PRId64, option->name,
                 option->min, option->max);
        return false;
    }
    *(int64_t *)(void *)((char *)config + option->offset) = (int64_t)number;
    return true;
}

static const char *text_objection(const struct option *option, struct slice value)
{
    if (value.len >= CONFIG_TEXT_BYTES) return "is too long";
    if (!text_is_printable(value)) return "has bytes that are not text";
    switch (option->kind) {
    case OPTION_CHOICE:
        return choice_has(option->choices, value) ? NULL : "is one of these words:";
    case OPTION_ADDRESS:
        return address_valid(value) ? NULL : "is an address and a port, such as 127.0.0.1:20080 or [::1]:20080";
    case OPTION_PATH:
    case OPTION_TEXT:
        return value.len > 0 || option->fallback[0] == '\0' ? NULL : "must not be empty";
    case OPTION_INTEGER:
        break;
    }
    assert(option->kind != OPTION_INTEGER);
    return "is not a text";
}

bool option_set(struct config *config, const struct option *option, struct slice value, struct config_mistake *why)
{
    if (option->kind == OPTION_INTEGER) return integer_set(config, option, value, why);

    const char *objection = text_objection(option, value);
    if (objection != NULL) {
        const char *choices = option->kind == OPTION_CHOICE ? option->choices : "";
        const char *space = choices[0] != '\0' ? " " : "";
        snprintf(why->text, sizeof(why->text), "%s %s%s%s", option->name, objection, space, choices);
        return false;
    }
    char mistake[256];
    if (option->check != NULL && !option->check(value, mistake)) {
        snprintf(why->text, sizeof(why->text), "%s: %s", option->name, mistake);
        return false;
    }
    char *text = (char *)config + option->offset;
    memcpy(text, value.data, value.len);
    text[value.len] = '\0';
    return true;
}

void option_copy(struct config *to, const struct config *from, const struct option *option)
{
    size_t size = option->kind == OPTION_INTEGER ? sizeof(int64_t) : CONFIG_TEXT_BYTES;
    memcpy((char *)to + option->offset, (const char *)from + option->offset, size);
}

bool option_equal(const struct config *a, const struct config *b, const struct option *option)
{
    const char *left = (const char *)a + option->offset;
    const char *right = (const char *)b + option->offset;
    return option->kind == OPTION_INTEGER ? memcmp(left, right, sizeof(int64_t)) == 0 : strcmp(left, right) == 0;
}
