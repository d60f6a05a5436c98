/* number: order numbers and nonces of one node among several, each given once.
 *
 * 63 bits: 41 of milliseconds since 2024, 10 of the node, 8 that count within the millisecond, 4 of the sale's id. They rise
 * on each node, and where more are wanted than a millisecond has they run ahead of it. Nothing in Redis counts: a failover
 * would count again.
 *
 * A node's number is leased, and none is given under a lease that may have ended: whoever has the number then begins behind
 * all that were given before. So two nodes never make the same, also where one of them has slept meanwhile.
 *
 * The sale's bits say which sales an order can be of: whoever looks for one that only Redis has asks a sixteenth of them. */
#ifndef STAMPEDE_GATE_REMOTE_NUMBER_H
#define STAMPEDE_GATE_REMOTE_NUMBER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define NODES_MAX 1023
#define NUMBER_MARKS 16 /* sales have one of so many */

struct numbers {
    _Atomic uint64_t last;     /* that was given, without the bits of the sale: node and time change together */
    _Atomic uint64_t until_ms; /* monotonic: none from then on */
};

/* A lease begins: of this node, 1 to NODES_MAX, none below this time. Given until then. */
void numbers_lease(struct numbers *numbers, uint32_t node, uint64_t floor_ms, uint64_t until_ms);
/* It lasts longer; 0: it is over. */
void numbers_extend(struct numbers *numbers, uint64_t until_ms);
bool numbers_are_given(const struct numbers *numbers, uint64_t mono_ms);
uint32_t numbers_node(const struct numbers *numbers); /* 0: it never began */
/* 0: none is given now. mono_ms is read after wall_ms: what was in time bears no time beyond the lease. */
uint64_t numbers_next(struct numbers *numbers, uint64_t sale_id, uint64_t wall_ms, uint64_t mono_ms);
uint64_t number_ms(uint64_t number); /* when it was made, about */
uint64_t number_first(uint64_t ms);  /* the lowest that any node makes at this time */
bool number_is_of_a_node(uint64_t number);
uint32_t number_mark(uint64_t number); /* that its sale has: under NUMBER_MARKS */
uint32_t sale_mark(uint64_t sale_id);

#endif
