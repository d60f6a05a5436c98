/* blocks: who is turned away: users, addresses and networks, in a file of one entry a line (guard/block_entry.h).
 *
 * The file is the truth. It is read again whenever it changes, whoever changed it, and written anew by blocks_add() and
 * blocks_remove(), which keep every line that is not theirs. A line that is no entry is reported with its number and costs
 * nothing else: the lines that are right count, and while one is wrong nobody leaves the list but by blocks_remove(), so
 * that a slip of the hand lets nobody in.
 *
 * Look-ups are for the threads that hold a reader, without a lock and without waiting: a new set is built aside, published
 * with one store, and the old one is freed when no reader has it in hand. */
#ifndef STAMPEDE_GUARD_BLOCKS_H
#define STAMPEDE_GUARD_BLOCKS_H

#include "guard/block_entry.h"

#include "base/fault.h"

struct blocks;
struct blocks_reader;

/* Reads the file, which need not be there, and begins to watch its folder, which must. FAULT_CONFIG when the file cannot be
 * used; a line that is no entry is only reported. */
enum fault blocks_open(struct blocks **out, const char *path) MUST_USE;
void blocks_close(struct blocks *blocks); /* when every reader is closed */

/* One for each thread that looks; THREADS_MAX at most. */
struct blocks_reader *blocks_reader_open(struct blocks *blocks);
void blocks_reader_close(struct blocks_reader *reader);
bool blocks_has_user(struct blocks_reader *reader, struct slice name);
/* The same in two steps: the first asks memory for what the second, a few hundred nanoseconds later, reads by the hash. A
 * name that comes onto an empty list in between is not found. */
uint64_t blocks_expect_user(struct blocks_reader *reader, struct slice name);
bool blocks_has_expected(struct blocks_reader *reader, struct slice name, uint64_t hash);
bool blocks_has_address(struct blocks_reader *reader, const uint8_t address[16]); /* IPv4 as ::ffff:a.b.c.d */
/* Another one whenever the list has changed: who reads it before a look-up need not look again while it is the same. */
uint64_t blocks_version(const struct blocks_reader *reader);

/* Any thread that may wait for the disk. What they change is durable and in force when they return. text must be an entry
 * (block_entry_read). *there: the list had it before. A fault has been logged, and the list is as it was. */
enum fault blocks_add(struct blocks *blocks, struct slice text, bool *there) MUST_USE;
enum fault blocks_remove(struct blocks *blocks, struct slice text, bool *there) MUST_USE;

/* Any thread; they wait for nothing but each other. Entries are listed in the order in which they came to be on the list;
 * after is the serial of the last one seen, or 0. What is on the list all the while is listed just once, whatever else is
 * added or removed between two calls. */
uint32_t blocks_count(struct blocks *blocks);
void blocks_each(struct blocks *blocks, uint64_t after, uint32_t limit,
                 void (*visit)(void *arg, const struct block_entry *entry, uint64_t serial), void *arg);

#endif
