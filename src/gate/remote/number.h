/* number: order numbers and nonces of one node among several, each given once.
 *
 * 63 bits: 41 of milliseconds since 2024, 10 of the node, 8 that count within the millisecond, 4 of the sale's id. They rise
 * on each node, and where more are wanted than a millisecond has they run ahead of it. Nothing in Redis counts: a failover
 * would count again.
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
    _Atomic uint32_t node; /* 1 to NODES_MAX */
    _Atomic uint64_t last; /* milliseconds and count, above the bits of the sale */
};

void numbers_init(struct numbers *numbers, uint32_t node, uint64_t floor_ms); /* none below this time */
void numbers_rename(struct numbers *numbers, uint32_t node);                  /* another node's from now on */
uint32_t numbers_node(const struct numbers *numbers);
uint64_t numbers_next(struct numbers *numbers, uint64_t wall_ms); /* of no sale */
uint64_t numbers_next_of(struct numbers *numbers, uint64_t sale_id, uint64_t wall_ms);
uint64_t number_ms(uint64_t number); /* when it was made, about */
uint64_t number_first(uint64_t ms);  /* the lowest that any node makes at this time */
bool number_is_of_a_node(uint64_t number);
uint32_t number_mark(uint64_t number); /* that its sale has: under NUMBER_MARKS */
uint32_t sale_mark(uint64_t sale_id);

#endif
