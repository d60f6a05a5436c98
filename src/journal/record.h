/* record: one decision as bytes, and back. The layout stands in journal/format.h.
 *
 * Every decision has exactly one encoding: what decodes, encodes to the same bytes again. */
#ifndef STAMPEDE_JOURNAL_RECORD_H
#define STAMPEDE_JOURNAL_RECORD_H

#include "engine/decision.h"

#include <stddef.h>
#include <stdint.h>

/* A decoded record. The decision's slices point into the bytes it came from, its terms into terms, so a record is not
 * copied. */
struct record {
    struct decision decision;
    struct sale_terms terms;
    size_t bytes;
};

/* out has room for RECORD_BYTES_MAX. Returns how many were used. A decision beyond the limits is an assertion. */
size_t record_encode(const struct decision *decision, uint8_t *out);

/* Trusts no byte: reads at most len, and says why they are no record, or NULL. The sequence number is not stored, it
 * follows from the place. Whether the decision makes sense where it stands is the engine's to say. */
const char *record_decode(const uint8_t *bytes, size_t len, uint64_t seq, struct record *out);

#endif
