/* texts: short texts of users in cells of 16, 32 and 64 bytes, each found again by its cell and its length.
 *
 * Room for texts_max texts is reserved in every size, and touched as it is used: whoever counts texts, not bytes, always
 * finds a cell. Not for several threads at once. */
#ifndef STAMPEDE_ENGINE_TEXTS_H
#define STAMPEDE_ENGINE_TEXTS_H

#include "base/fault.h"
#include "base/pool.h"
#include "base/slice.h"

#include <stdint.h>
#include <string.h>

#define TEXT_SIZES 3
#define TEXT_BYTES_MAX 64

struct texts {
    struct pool sizes[TEXT_SIZES];
};

enum fault texts_open(struct texts *texts, uint32_t texts_max) MUST_USE;
void texts_close(struct texts *texts);
uint32_t texts_put(struct texts *texts, struct slice text); /* at most TEXT_BYTES_MAX; there is room */
void texts_drop(struct texts *texts, uint32_t cell, uint8_t len);
uint64_t texts_bytes(const struct texts *texts); /* of memory asked for */

static inline int text_size(size_t len)
{
    return len <= 16 ? 0 : len <= 32 ? 1 : 2;
}

static inline struct slice texts_at(const struct texts *texts, uint32_t cell, uint8_t len)
{
    return (struct slice){ pool_cell(&texts->sizes[text_size(len)], cell), len };
}

/* The text and a NUL. out has room for a whole cell and one more: copying all of a cell is quicker than as much as is
 * needed. */
static inline void texts_copy(const struct texts *texts, uint32_t cell, uint8_t len, char out[TEXT_BYTES_MAX + 1])
{
    const char *text = texts_at(texts, cell, len).data;
    switch (text_size(len)) {
    case 0:
        memcpy(out, text, 16);
        break;
    case 1:
        memcpy(out, text, 32);
        break;
    default:
        memcpy(out, text, TEXT_BYTES_MAX);
    }
    out[len] = '\0';
}

#endif
