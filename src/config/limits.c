#include "config/limits.h"

#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

/* clang-format off */
#define AT(scope, class, field) offsetof(struct limit_terms, rates[RATE_##scope][RATE_##class].field)
#define RATE(name, scope, class, per_s_default, burst_default, what)                                                        \
    { name "_per_s", AT(scope, class, per_s), 0, RATE_PER_S_MAX, per_s_default, what " a second; 0 is no limit." },         \
    { name "_burst", AT(scope, class, burst), 1, RATE_BURST_MAX, burst_default, what " that may come at once." }

const struct limit_row limit_rows[LIMIT_ROWS] = {
    RATE("global_grab",  GLOBAL, GRAB,  0, 10000, "Grabs of everyone together"),
    RATE("global_query", GLOBAL, QUERY, 0, 10000, "Reads of everyone together"),
    RATE("global_login", GLOBAL, LOGIN, 0, 1000,  "Logins of everyone together"),
    RATE("global_register", GLOBAL, REGISTER, 0, 1000, "Registrations of everyone together"),
    RATE("global_write", GLOBAL, WRITE, 0, 10000, "Changes by everyone together"),
    RATE("user_grab",  USER, GRAB,  1000, 10000, "Grabs of one user"),
    RATE("user_query", USER, QUERY, 20000, 50000, "Reads of one user"),
    RATE("user_write", USER, WRITE, 5000, 10000, "Changes by one user"),
    RATE("ip_grab",  IP, GRAB,  50000, 100000, "Grabs from one address"),
    RATE("ip_query", IP, QUERY, 50000, 100000, "Reads from one address"),
    RATE("ip_login", IP, LOGIN, 1000,  5000, "Logins from one address"),
    RATE("ip_register", IP, REGISTER, 100, 5000, "Registrations from one address"),
    RATE("ip_write", IP, WRITE, 20000, 40000, "Changes from one address"),
    { "connections_per_ip", offsetof(struct limit_terms, connections_per_ip), 0, CONNECTIONS_PER_IP_MAX, 20000,
      "Connections from one address at once; 0 is no limit." },
};
/* clang-format on */

static const char *const class_names[RATE_CLASSES] = { "grab", "query", "login", "register", "write" };

const char *rate_class_name(enum rate_class class)
{
    assert((unsigned)class < RATE_CLASSES);
    return class_names[class];
}

int64_t limit_terms_get(const struct limit_terms *terms, const struct limit_row *row)
{
    int64_t value;
    memcpy(&value, (const char *)terms + row->offset, sizeof(value));
    return value;
}

void limit_terms_set(struct limit_terms *terms, const struct limit_row *row, int64_t value)
{
    memcpy((char *)terms + row->offset, &value, sizeof(value));
}

void limit_terms_default(struct limit_terms *terms)
{
    *terms = (struct limit_terms){ .connections_per_ip = 0 };
    for (size_t i = 0; i < LIMIT_ROWS; i++) limit_terms_set(terms, &limit_rows[i], limit_rows[i].fallback);
}

bool limit_terms_valid(const struct limit_terms *terms, char mistake[LIMIT_MISTAKE_BYTES])
{
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        const struct limit_row *row = &limit_rows[i];
        int64_t value = limit_terms_get(terms, row);
        if (value >= row->min && value <= row->max) continue;
        snprintf(mistake, LIMIT_MISTAKE_BYTES, "%s is a whole number from %" PRId64 "%s to %" PRId64 ".", row->name,
                 row->min, row->min == 0 ? ", which is no limit," : "", row->max);
        return false;
    }
    return true;
}

static const struct limit_row *row_named(struct slice name)
{
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        if (slice_is(name, limit_rows[i].name)) return &limit_rows[i];
    }
    return NULL;
}

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && text.data[0] == ' ') text = (struct slice){ text.data + 1, text.len - 1 };
    while (text.len > 0 && text.data[text.len - 1] == ' ') text.len--;
    return text;
}

/* One "name=value". */
static bool entry_read(struct limit_terms *terms, struct slice entry, char mistake[LIMIT_MISTAKE_BYTES])
{
    const char *equals = memchr(entry.data, '=', entry.len);
    struct slice name = equals == NULL ? entry : trimmed((struct slice){ entry.data, (size_t)(equals - entry.data) });
    const struct limit_row *row = row_named(name);
    uint64_t value = 0;
    if (row == NULL) {
        snprintf(mistake, LIMIT_MISTAKE_BYTES, "There is no limit \"%.*s\"; GET /v1/limits lists the names.",
                 (int)(name.len < 64 ? name.len : 64), name.data);
        return false;
    }
    struct slice number = { "", 0 };
    if (equals != NULL) number = trimmed((struct slice){ equals + 1, entry.len - (size_t)(equals + 1 - entry.data) });
    /* What is no number is as much out of bounds as -1 is. */
    bool whole = text_to_u64(number, &value) && value <= INT64_MAX;
    limit_terms_set(terms, row, whole ? (int64_t)value : -1);
    return limit_terms_valid(terms, mistake);
}

bool limit_terms_read(struct limit_terms *terms, struct slice text, char mistake[LIMIT_MISTAKE_BYTES])
{
    struct limit_terms fresh;
    limit_terms_default(&fresh);
    while (text.len > 0) {
        const char *comma = memchr(text.data, ',', text.len);
        size_t len = comma == NULL ? text.len : (size_t)(comma - text.data);
        struct slice entry = trimmed((struct slice){ text.data, len });
        if (entry.len > 0 && !entry_read(&fresh, entry, mistake)) return false;
        text = comma == NULL ? (struct slice){ "", 0 } : (struct slice){ comma + 1, text.len - len - 1 };
    }
    *terms = fresh;
    return true;
}
