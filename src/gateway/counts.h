/* counts: how every grab was answered, by sale: in all, and in each of the last 3,600 seconds; and how long answers took.
 *
 * Each reactor has a page of its own with a block for each sale in memory, at the sale's slot, and is the only one to write
 * there: an answer costs two additions in memory no other core writes, no lock and no allocation. Readers, any thread, add
 * the pages up. Another sale that comes to a slot begins its block anew; ids only rise, so one that is over never takes the
 * block of one that runs.
 *
 * The totals of a sale take about 1.3 KB and stay. Its seconds take up to 58 KB for each reactor, 4 KB at a time, and
 * are given back once none of them is of the last hour.
 *
 * Counted since the server started: the journal remembers wins, and nobody writes a refusal to a disk. */
#ifndef STAMPEDE_GATEWAY_COUNTS_H
#define STAMPEDE_GATEWAY_COUNTS_H

#include "base/fault.h"
#include "wire/problem.h"

#include <stdint.h>

#define COUNTS_SECONDS 3600

/* An answer is counted by its problem; two have none. */
enum { COUNTED_WON = PROBLEM_NONE, COUNTED_REPEATED = PROBLEM_COUNT, COUNTED_KINDS };
const char *counted_word(unsigned kind); /* WON, REPEATED, or the code of the problem */

struct counts;
struct counts_page;

/* A repeat of a win is a request, and neither a win nor a refusal. */
struct counts_second {
    uint32_t requests, wins, refusals;
};

enum fault counts_open(struct counts **out, uint32_t writers) MUST_USE;
void counts_close(struct counts *counts);
struct counts_page *counts_page(struct counts *counts, uint32_t writer);

/* On the page's one thread. second: since 1970. */
void counts_add(struct counts_page *page, uint64_t sale_id, unsigned kind, uint64_t second);

/* How long an answer took, in cells of microseconds: four for each power of two, so that a cell is a quarter of its
 * beginning wide at most. The last one has whatever takes half a minute and longer. */
#define COUNTS_TIMES 96

/* On the page's one thread, for an answer of a sale that counts_add() was called for. */
void counts_took(struct counts_page *page, uint64_t sale_id, uint64_t took_ns);

/* Gives back the memory of seconds that are over, a few sales each call. On the page's one thread, from time to time. */
void counts_tidy(struct counts_page *page, uint64_t second);

/* Zeros where nothing was counted. */
void counts_totals(const struct counts *counts, uint64_t sale_id, uint64_t totals[COUNTED_KINDS]);
/* Of one second, at most COUNTS_SECONDS back from the newest. */
struct counts_second counts_at(const struct counts *counts, uint64_t sale_id, uint64_t second);
/* How many answers took so long, in each cell; zeros where nothing was counted. */
void counts_times(const struct counts *counts, uint64_t sale_id, uint64_t times[COUNTS_TIMES]);
/* The microseconds that so many in a thousand of the answers took at most, as exact as a cell tells; 0 where there are none.
 */
uint64_t counts_within_us(const uint64_t times[COUNTS_TIMES], uint32_t permille);

#endif
