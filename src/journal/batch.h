/* batch: the unit of commit, in memory; and the chain of SHA-256 over all of them. */
#ifndef STAMPEDE_JOURNAL_BATCH_H
#define STAMPEDE_JOURNAL_BATCH_H

#include "base/fault.h"
#include "journal/format.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>

/* A batch being filled. Records go to bytes from BATCH_HEADER_BYTES on. */
struct batch {
    uint8_t *bytes;
    uint32_t length; /* header and records */
    uint32_t count;
    uint32_t awaited; /* of them, those that someone waits for: all but expiries */
    uint64_t seq_first;
    uint64_t at_ms;  /* of the last record */
    uint64_t digest; /* after the last record */
};

/* What the header of a stored batch says. */
struct batch_header {
    uint32_t version;
    uint32_t length;
    uint32_t count;
    uint64_t seq_first;
    uint64_t at_ms;
    uint64_t digest;
    uint8_t chain[CHAIN_BYTES];
    uint32_t records_crc;
};

struct chain {
    EVP_MD *sha256; /* fetched once: a fetch costs more than the hash of a small batch */
    EVP_MD_CTX *context;
    uint8_t value[CHAIN_BYTES];
};

enum fault chain_open(struct chain *chain) MUST_USE;
void chain_close(struct chain *chain);
/* Begins a segment: the value of the chain is the digest of its header. */
void chain_begin(struct chain *chain, const uint8_t header[SECTOR_BYTES]);
/* Goes on over a batch of span bytes, of which the stored chain and checksums do not count. */
void chain_advance(struct chain *chain, const uint8_t *batch, uint32_t span);

/* Bytes on disk of a batch: whole sectors. */
static inline uint32_t batch_span(uint32_t length)
{
    return (length + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES;
}

void batch_reset(struct batch *batch);
/* Fills in header and padding and advances the chain. Returns the span. bytes has room for it. */
uint32_t batch_seal(struct batch *batch, uint32_t seed, struct chain *chain);

/* Reads the header at the start of a sector, which is all of it that may be read yet. Says why it is none, or NULL. */
const char *batch_header_get(const uint8_t *sector, uint32_t seed, struct batch_header *out);
/* Whether the records and padding are what the header was written for. */
bool batch_intact(const uint8_t *bytes, const struct batch_header *header, uint32_t seed);

#endif
