#include "redis/error.h"

#include "base/text.h"

/* Within a script the error of a command stops it. Those marked so are given for the first write only, before anything was
 * changed, and so are as certain there; the others may follow writes. */
static const struct {
    const char *word;
    enum error_kind kind;
    bool within_script;
} errors[] = {
    { "MOVED", ERROR_MOVED, false },      { "ASK", ERROR_ASK, false },           { "NOSCRIPT", ERROR_NOSCRIPT, false },
    { "TRYAGAIN", ERROR_LATER, false },   { "CLUSTERDOWN", ERROR_LATER, false }, { "LOADING", ERROR_LATER, false },
    { "MASTERDOWN", ERROR_LATER, false }, { "BUSY", ERROR_LATER, false },        { "READONLY", ERROR_DEMOTED, true },
    { "OOM", ERROR_REFUSED, true },       { "MISCONF", ERROR_REFUSED, true },    { "NOREPLICAS", ERROR_REFUSED, true },
    { "NOPERM", ERROR_REFUSED, false },   { "NOAUTH", ERROR_REFUSED, false },
};

static struct slice after(struct slice text, const char *what)
{
    const char *found = memmem(text.data, text.len, what, strlen(what));
    if (found == NULL) return (struct slice){ text.data, 0 };
    const char *end = found + strlen(what);
    return (struct slice){ end, text.len - (size_t)(end - text.data) };
}

/* Redis 7: "OOM command … script: SHA, on @user_script:1."; before it: "ERR Error running script (call to f_SHA):
 * @user_script:1: -OOM command …". */
static struct slice first_word(struct slice text, bool *in_script)
{
    struct slice within = after(text, "@user_script");
    *in_script = within.len > 0;
    if (*in_script && text.len > 4 && memcmp(text.data, "ERR ", 4) == 0) text = after(within, ": -");
    const char *space = text.len > 0 ? memchr(text.data, ' ', text.len) : NULL;
    return (struct slice){ text.data, space != NULL ? (size_t)(space - text.data) : text.len };
}

const char *error_advice(struct slice text)
{
    static const struct {
        const char *word, *advice;
    } rows[] = {
        { "OOM", "Redis has no memory left for writing: raise its maxmemory." },
        { "MISCONF", "Redis takes no writes because it cannot save to its disk: see its log." },
        { "NOREPLICAS",
          "Redis takes no writes because too few replicas follow it: start them, or see min-replicas-to-write." },
    };
    bool in_script;
    struct slice word = first_word(text, &in_script);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (slice_is(word, rows[i].word)) return rows[i].advice;
    }
    return NULL;
}

enum error_kind error_kind(struct slice text)
{
    bool in_script;
    struct slice word = first_word(text, &in_script);
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (!slice_is(word, errors[i].word)) continue;
        return in_script && !errors[i].within_script ? ERROR_OTHER : errors[i].kind;
    }
    return ERROR_OTHER;
}

bool error_target(struct slice text, const struct redis_address *answered, struct redis_address *out)
{
    /* WORD SLOT HOST:PORT */
    const char *space = text.len > 0 ? memrchr(text.data, ' ', text.len) : NULL;
    if (space == NULL) return false;
    struct slice place = { space + 1, text.len - (size_t)(space + 1 - text.data) };
    const char *colon = place.len > 0 ? memrchr(place.data, ':', place.len) : NULL;
    if (colon == NULL) return false;
    struct slice host = { place.data, (size_t)(colon - place.data) };
    struct slice port = { colon + 1, place.len - host.len - 1 };
    uint64_t number;
    if (!text_to_u64(port, &number) || number == 0 || number > UINT16_MAX || host.len > REDIS_HOST_BYTES_MAX) return false;
    *out = (struct redis_address){ .port = (uint16_t)number };
    if (host.len == 0 || slice_is(host, "?")) {
        memcpy(out->host, answered->host, sizeof(out->host));
    } else {
        memcpy(out->host, host.data, host.len);
    }
    return true;
}
