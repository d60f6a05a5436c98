#include "journal/batch.h"

#include "base/checksum.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum fault chain_open(struct chain *chain)
{
    memset(chain, 0, sizeof *chain);
    chain->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    chain->context = EVP_MD_CTX_new();
    if (chain->sha256 != NULL && chain->context != NULL) return FAULT_NONE;
    chain_close(chain);
    return FAULT_MEMORY;
}

void chain_close(struct chain *chain)
{
    EVP_MD_CTX_free(chain->context);
    EVP_MD_free(chain->sha256);
    chain->context = NULL;
    chain->sha256 = NULL;
}

/* Hashing memory with a context that exists cannot fail; if it does, nothing here may go on as if it had not. */
static void hash_begin(struct chain *chain)
{
    const int ok = EVP_DigestInit_ex2(chain->context, chain->sha256, NULL);
    assert(ok == 1);
}

static void hash_add(struct chain *chain, const uint8_t *data, size_t len)
{
    const int ok = EVP_DigestUpdate(chain->context, data, len);
    assert(ok == 1);
}

static void hash_end(struct chain *chain)
{
    unsigned int len = 0;
    const int ok = EVP_DigestFinal_ex(chain->context, chain->value, &len);
    assert(ok == 1 && len == CHAIN_BYTES);
}

void chain_begin(struct chain *chain, const uint8_t header[SECTOR_BYTES])
{
    hash_begin(chain);
    hash_add(chain, header, SECTOR_BYTES);
    hash_end(chain);
}

void chain_advance(struct chain *chain, const uint8_t *batch, uint32_t span)
{
    hash_begin(chain);
    hash_add(chain, chain->value, CHAIN_BYTES);
    hash_add(chain, batch, BATCH_AT_CHAIN);
    hash_add(chain, batch + BATCH_HEADER_BYTES, span - BATCH_HEADER_BYTES);
    hash_end(chain);
}

void batch_reset(struct batch *batch)
{
    batch->length = BATCH_HEADER_BYTES;
    batch->count = 0;
    batch->awaited = 0;
}

uint32_t batch_seal(struct batch *batch, uint32_t seed, struct chain *chain)
{
    assert(batch->count > 0 && batch->length > BATCH_HEADER_BYTES);
    uint8_t *bytes = batch->bytes;
    const uint32_t span = batch_span(batch->length);
    memset(bytes + batch->length, PADDING_BYTE, span - batch->length);

    memcpy(bytes + BATCH_AT_MAGIC, BATCH_MAGIC, sizeof BATCH_MAGIC - 1);
    le32_put(bytes + BATCH_AT_VERSION, BATCH_VERSION);
    le32_put(bytes + BATCH_AT_LENGTH, batch->length);
    le32_put(bytes + BATCH_AT_COUNT, batch->count);
    le64_put(bytes + BATCH_AT_SEQ_FIRST, batch->seq_first);
    le64_put(bytes + BATCH_AT_TIME, batch->at_ms);
    le64_put(bytes + BATCH_AT_DIGEST, batch->digest);
    chain_advance(chain, bytes, span);
    memcpy(bytes + BATCH_AT_CHAIN, chain->value, CHAIN_BYTES);
    le32_put(bytes + BATCH_AT_RECORDS_CRC, crc32c(seed, bytes + BATCH_HEADER_BYTES, span - BATCH_HEADER_BYTES));
    le32_put(bytes + BATCH_AT_CRC, crc32c(seed, bytes, BATCH_AT_CRC));

    /* Recovery tells a torn tail by its zero sectors: one that was written must never look like one that was not. */
    for (uint32_t at = 0; at < span; at += SECTOR_BYTES) assert(!sector_is_zero(bytes + at));
    return span;
}

const char *batch_header_get(const uint8_t *sector, uint32_t seed, struct batch_header *out)
{
    if (memcmp(sector + BATCH_AT_MAGIC, BATCH_MAGIC, sizeof BATCH_MAGIC - 1) != 0) return "no batch where one should begin";
    if (le32_get(sector + BATCH_AT_CRC) != crc32c(seed, sector, BATCH_AT_CRC)) return "checksum of a batch header differs";
    out->version = le32_get(sector + BATCH_AT_VERSION);
    if (out->version < BATCH_VERSION_MIN || out->version > BATCH_VERSION) return "batch of an unknown version";

    out->length = le32_get(sector + BATCH_AT_LENGTH);
    out->count = le32_get(sector + BATCH_AT_COUNT);
    out->seq_first = le64_get(sector + BATCH_AT_SEQ_FIRST);
    out->at_ms = le64_get(sector + BATCH_AT_TIME);
    out->digest = le64_get(sector + BATCH_AT_DIGEST);
    memcpy(out->chain, sector + BATCH_AT_CHAIN, CHAIN_BYTES);
    out->records_crc = le32_get(sector + BATCH_AT_RECORDS_CRC);
    if (out->length <= BATCH_HEADER_BYTES || out->length > BATCH_BYTES_MAX) return "batch of an impossible length";
    if (out->count == 0 || out->seq_first == 0 || out->seq_first > UINT64_MAX - out->count) {
        return "batch of impossible sequence numbers";
    }
    return NULL;
}

bool batch_intact(const uint8_t *bytes, const struct batch_header *header, uint32_t seed)
{
    const uint32_t span = batch_span(header->length);
    return crc32c(seed, bytes + BATCH_HEADER_BYTES, span - BATCH_HEADER_BYTES) == header->records_crc;
}
