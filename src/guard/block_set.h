/* block_set: the entries of a block list, built once and then only read.
 *
 * One open-addressing table holds users and addresses. A byte of the hash of each entry stands in an array of its own, so
 * that the look-ups that find nothing, which is almost all of them, end in memory that stays in the cache, also at a million
 * entries. An address would have to be looked for once for each length of prefix that occurs in the list; a filter says of
 * nearly all of these that they need not be.
 *
 * Building is for one thread; look-ups are for any once the set is finished. */
#ifndef STAMPEDE_GUARD_BLOCK_SET_H
#define STAMPEDE_GUARD_BLOCK_SET_H

#include "base/fault.h"
#include "guard/block_entry.h"

struct block_set;

/* For at most entries_max entries whose names have name_bytes_max bytes together; FAULT_MEMORY. Memory is touched as it is
 * used. key is for the hashes and must be random; sets of one list share it. */
enum fault block_set_open(struct block_set **out, const uint8_t key[16], uint32_t entries_max,
                          size_t name_bytes_max) MUST_USE;
void block_set_close(struct block_set *set);
/* False if it is there already. serial is its place in lists: larger is later; each is given once. */
bool block_set_put(struct block_set *set, const struct block_entry *entry, uint64_t serial);
/* After the last put, before the first list; FAULT_MEMORY. */
enum fault block_set_finish(struct block_set *set) MUST_USE;

/* The serial of just this entry (a network does not find an address within it), or 0. */
uint64_t block_set_serial(const struct block_set *set, const struct block_entry *entry);
/* The hash of a name, the same in all sets of a list, and 0 in one that is empty. Asks memory for what a look-up reads, so
 * that the wait for that passes meanwhile. */
uint64_t block_set_expect_user(const struct block_set *set, struct slice name);
bool block_set_has_user(const struct block_set *set, struct slice name, uint64_t hash);
bool block_set_has_address(const struct block_set *set, const uint8_t address[16]);
uint32_t block_set_count(const struct block_set *set);
size_t block_set_name_bytes(const struct block_set *set);
/* Entries with a serial after this one, in order of serials, at most limit. */
void block_set_each(const struct block_set *set, uint64_t after, uint32_t limit,
                    void (*visit)(void *arg, const struct block_entry *entry, uint64_t serial), void *arg);

#endif
