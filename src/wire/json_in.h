/* json_in: a request body against a table of its fields. Strict: UTF-8, no duplicate keys, nothing after the value, nothing
 * unknown. What is wrong is said with the field's name, a member's after its field's: "line.size". Integers are JSON
 * integers: 5.0, "5", 1e3 are not.
 *
 * Plain bodies (json_short.h) are read without memory being taken; the rest, and all that is refused, goes through jansson.
 * A file that includes jansson.h cannot include this header as it stands: both have a JSON_INTEGER. */
#ifndef STAMPEDE_WIRE_JSON_IN_H
#define STAMPEDE_WIRE_JSON_IN_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_kind {
    JSON_TEXT,    /* to char[max + 1]: min..max bytes, no control characters but those JSON_LINES allows */
    JSON_LINES,   /* the same, newline and tab allowed */
    JSON_INTEGER, /* to int64_t: min..max */
    JSON_TIME,    /* RFC 3339 to uint64_t ms */
    JSON_FLAG,    /* true or false, to bool */
    JSON_NAME,    /* a text as JSON_TEXT, or an integer from 0 on that is taken as the text of its digits */
    JSON_EITHER,  /* a text as JSON_TEXT, or an object with a table of its own: members, into the same target struct */
};

struct json_field {
    const char *name;
    enum json_kind kind;
    bool required;
    bool nullable; /* null clears: the bit in nulled is set, the target is left alone */
    int64_t min, max;
    size_t offset;                    /* into the target struct */
    const struct json_field *members; /* of JSON_EITHER; none of them has members itself */
    size_t members_count;
};

/* Bits follow the row numbers of the table. */
struct json_found {
    uint32_t given; /* with a value */
    uint32_t nulled;
    char objection[256]; /* when refused: a sentence that names the field */
};

/* An empty body is an empty object. False: found has the objection. */
bool json_read(struct slice body, const struct json_field *fields, size_t count, void *target, struct json_found *found);

#endif
