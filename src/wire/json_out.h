/* json_out: the one writer of JSON. Writes into a buffer of fixed size; what does not fit sets overflow and writes no more.
 * Commas and escapes are its business. Strings must be valid UTF-8.
 *
 * jansson exports functions called json_object, json_array, json_string and json_null. Ours of those names are inline, so
 * the linker never meets two of one name; a file that includes jansson.h cannot include this header. */
#ifndef STAMPEDE_WIRE_JSON_OUT_H
#define STAMPEDE_WIRE_JSON_OUT_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct json_out {
    char *data;
    size_t len, size;
    bool comma, overflow;
};

void json_out_init(struct json_out *out, char *data, size_t size);

/* The bricks of what follows. A raw value is JSON already: a word, a number, members, or what another json_out wrote. */
void json_out_open(struct json_out *out, char bracket);
void json_out_close(struct json_out *out, char bracket);
void json_out_quoted(struct json_out *out, struct slice value);
void json_out_raw(struct json_out *out, struct slice value);

static inline void json_object(struct json_out *out)
{
    json_out_open(out, '{');
}

static inline void json_object_end(struct json_out *out)
{
    json_out_close(out, '}');
}

static inline void json_array(struct json_out *out)
{
    json_out_open(out, '[');
}

static inline void json_array_end(struct json_out *out)
{
    json_out_close(out, ']');
}

static inline void json_string(struct json_out *out, struct slice value)
{
    json_out_quoted(out, value);
}

static inline void json_text(struct json_out *out, const char *value)
{
    json_out_quoted(out, slice_of(value));
}

static inline void json_bool(struct json_out *out, bool value)
{
    json_out_raw(out, value ? SLICE("true") : SLICE("false"));
}

static inline void json_null(struct json_out *out)
{
    json_out_raw(out, SLICE("null"));
}

void json_key(struct json_out *out, const char *key);
void json_u64(struct json_out *out, uint64_t value);
void json_i64(struct json_out *out, int64_t value);
void json_time(struct json_out *out, uint64_t ms); /* RFC 3339 */
void json_id(struct json_out *out, uint64_t id);   /* a number as an opaque string */
/* Whole members whose value may be none, which is null: an empty text, time 0, id 0. */
void json_text_or_null(struct json_out *out, const char *key, const char *text);
void json_time_or_null(struct json_out *out, const char *key, uint64_t ms);
void json_id_or_null(struct json_out *out, const char *key, uint64_t id);

#endif
