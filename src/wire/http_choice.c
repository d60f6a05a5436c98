/* What a client says it would take: which coding, which kind of answer, and which version it has already. */
#include "wire/http.h"

#include <strings.h>

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t';
}

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && is_blank(text.data[0])) text = (struct slice){ text.data + 1, text.len - 1 };
    while (text.len > 0 && is_blank(text.data[text.len - 1])) text.len--;
    return text;
}

/* The text before the first separator; rest is what stands behind it, with data NULL where there is none. */
static struct slice part_take(struct slice *rest, char separator)
{
    const char *found = memchr(rest->data, separator, rest->len);
    size_t len = found != NULL ? (size_t)(found - rest->data) : rest->len;
    struct slice part = trimmed((struct slice){ rest->data, len });
    *rest = found != NULL ? (struct slice){ found + 1, rest->len - len - 1 } : (struct slice){ NULL, 0 };
    return part;
}

static bool word_is(struct slice word, const char *name)
{
    return word.len == strlen(name) && strncasecmp(word.data, name, word.len) == 0;
}

/* A weight of nothing: q=0, also with zeros behind the point (RFC 9110, 12.4.2). */
static bool weight_is_zero(struct slice parameter)
{
    struct slice rest = parameter;
    if (!word_is(part_take(&rest, '='), "q") || rest.data == NULL) return false;
    struct slice value = trimmed(rest);
    if (value.len == 0 || value.data[0] != '0') return false;
    for (size_t i = 1; i < value.len; i++) {
        if (value.data[i] != (i == 1 ? '.' : '0')) return false;
    }
    return true;
}

/* Whether what has these parameters is wanted at all. */
static bool parameters_want(struct slice parameters)
{
    bool wanted = true;
    while (parameters.data != NULL) wanted = !weight_is_zero(part_take(&parameters, ';')) && wanted;
    return wanted;
}

bool http_accepts_gzip(struct slice accept_encoding)
{
    bool any = false;
    struct slice rest = accept_encoding;
    while (rest.data != NULL) {
        struct slice parameters = part_take(&rest, ',');
        struct slice coding = part_take(&parameters, ';');
        bool wanted = parameters_want(parameters);
        if (word_is(coding, "gzip") || word_is(coding, "x-gzip")) return wanted; /* its own name outweighs the star */
        if (word_is(coding, "*")) any = wanted;
    }
    return any;
}

static bool list_has_html(struct slice list)
{
    while (list.data != NULL) {
        struct slice parameters = part_take(&list, ',');
        struct slice type = part_take(&parameters, ';');
        if (word_is(type, "text/html")) return parameters_want(parameters);
    }
    return false;
}

bool http_accepts_html(const struct http_request *request)
{
    struct slice rest = request->message;
    while (rest.data != NULL) {
        struct slice line = part_take(&rest, '\n');
        if (line.len <= 1) return false; /* the end of the head */
        line.len--;                      /* the CR: no line of a head that was read ends without one */
        if (word_is(part_take(&line, ':'), "Accept") && line.data != NULL && list_has_html(line)) return true;
    }
    return false;
}

bool http_etag_matches(struct slice if_none_match, struct slice tag)
{
    if (if_none_match.len == 0) return false;
    if (slice_is(if_none_match, "*")) return true;
    return memmem(if_none_match.data, if_none_match.len, tag.data, tag.len) != NULL;
}
