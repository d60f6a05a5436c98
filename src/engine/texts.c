#include "engine/texts.h"

#include <assert.h>
#include <string.h>

static const uint32_t size_bytes[TEXT_SIZES] = { 16, 32, TEXT_BYTES_MAX };

enum fault texts_open(struct texts *texts, uint32_t texts_max)
{
    *texts = (struct texts){ 0 };
    enum fault fault = FAULT_NONE;
    for (int i = 0; i < TEXT_SIZES && fault == FAULT_NONE; i++)
        fault = pool_open(&texts->sizes[i], size_bytes[i], texts_max);
    return fault;
}

void texts_close(struct texts *texts)
{
    for (int i = 0; i < TEXT_SIZES; i++) pool_close(&texts->sizes[i]);
}

uint32_t texts_put(struct texts *texts, struct slice text)
{
    assert(text.len <= TEXT_BYTES_MAX);
    struct pool *pool = &texts->sizes[text_size(text.len)];
    uint32_t cell = pool_acquire(pool);
    assert(cell != 0);
    memcpy(pool_cell(pool, cell), text.data, text.len);
    return cell;
}

void texts_drop(struct texts *texts, uint32_t cell, uint8_t len)
{
    pool_release(&texts->sizes[text_size(len)], cell);
}

uint64_t texts_bytes(const struct texts *texts)
{
    uint64_t bytes = 0;
    for (int i = 0; i < TEXT_SIZES; i++) bytes += pool_bytes(&texts->sizes[i]);
    return bytes;
}
