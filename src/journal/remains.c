#include "journal/remains.h"

#include <string.h>

enum fault remains_look(struct walk *walk, uint64_t from, uint64_t to, struct remains *out)
{
    memset(out, 0, sizeof *out);
    for (uint64_t at = from; at < to; at += SECTOR_BYTES) {
        enum fault fault;
        const uint8_t *sector = walk_bytes(walk, at, SECTOR_BYTES, &fault);
        if (sector == NULL) {
            out->ends_at = at;
            return fault;
        }
        if (sector_is_zero(sector)) {
            out->zero_sector = true;
            continue;
        }
        out->other = true;
        out->other_last = at;
        struct batch_header header;
        if (!out->batch && batch_header_get(sector, walk->seed, &header) == NULL) {
            out->batch = true;
            out->batch_at = at;
        }
    }
    return FAULT_NONE;
}
