/* queue: people in order of arrival, any of whom may leave, and each of whom can be told how many stand before him.
 *
 * A treap ordered by arrival, because a plain list could not count and an array could not be left: to join, to leave and to
 * count are all of the order of the logarithm of its length. The node lies in whoever waits; nothing is allocated. Not for
 * several threads at once. */
#ifndef STAMPEDE_GUARD_QUEUE_H
#define STAMPEDE_GUARD_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct queue_node {
    struct queue_node *up, *left, *right;
    uint32_t count;  /* of this node and all below it */
    uint32_t weight; /* drawn by lot; never less than that of a node below */
};

struct queue {
    struct queue_node *root, *first, *last;
    uint64_t lot; /* of the weights; any number but 0 */
};

void queue_append(struct queue *queue, struct queue_node *node);
void queue_remove(struct queue *queue, struct queue_node *node); /* which is in it */
/* The new node, which is in no queue, stands where the old one stood, and that one is out. */
void queue_replace(struct queue *queue, struct queue_node *old, struct queue_node *fresh);
uint32_t queue_ahead(const struct queue_node *node); /* how many came before and are still there */

static inline uint32_t queue_count(const struct queue *queue)
{
    return queue->root != NULL ? queue->root->count : 0;
}

#endif
