#include "guard/queue.h"

#include <assert.h>

static uint32_t count_of(const struct queue_node *node)
{
    return node != NULL ? node->count : 0;
}

/* xorshift64*: the weights need no secret, for nobody outside can choose the order in which they are drawn. */
static uint32_t lot_draw(struct queue *queue)
{
    assert(queue->lot != 0);
    queue->lot ^= queue->lot >> 12;
    queue->lot ^= queue->lot << 25;
    queue->lot ^= queue->lot >> 27;
    return (uint32_t)((queue->lot * UINT64_C(0x2545F4914F6CDD1D)) >> 32);
}

/* The newest is the rightmost: it goes below the first node of the right edge that outweighs it and takes what was there. */
void queue_append(struct queue *queue, struct queue_node *node)
{
    node->weight = lot_draw(queue);
    struct queue_node *up = queue->last;
    while (up != NULL && up->weight < node->weight) up = up->up;

    struct queue_node **link = up != NULL ? &up->right : &queue->root;
    node->up = up;
    node->right = NULL;
    node->left = *link;
    node->count = 1 + count_of(node->left);
    if (node->left != NULL) node->left->up = node;
    *link = node;
    for (; up != NULL; up = up->up) up->count++;

    queue->last = node;
    if (queue->first == NULL) queue->first = node;
}

/* One tree of two, all of left before all of right, to hang below up. */
static struct queue_node *join(struct queue_node *left, struct queue_node *right, struct queue_node *up)
{
    struct queue_node *root = NULL, **link = &root;
    while (left != NULL && right != NULL) {
        struct queue_node *top = left->weight >= right->weight ? left : right;
        top->count = left->count + right->count;
        top->up = up;
        *link = top;
        up = top;
        if (top == left) {
            link = &left->right;
            left = left->right;
        } else {
            link = &right->left;
            right = right->left;
        }
    }
    *link = left != NULL ? left : right;
    if (*link != NULL) (*link)->up = up;
    return root;
}

/* The first has nobody to its left, so whoever comes after it is the leftmost to its right or the one above. */
static struct queue_node *after_first(const struct queue_node *first)
{
    struct queue_node *node = first->right;
    if (node == NULL) return first->up;
    while (node->left != NULL) node = node->left;
    return node;
}

static struct queue_node *before_last(const struct queue_node *last)
{
    struct queue_node *node = last->left;
    if (node == NULL) return last->up;
    while (node->right != NULL) node = node->right;
    return node;
}

void queue_remove(struct queue *queue, struct queue_node *node)
{
    if (queue->first == node) queue->first = after_first(node);
    if (queue->last == node) queue->last = before_last(node);

    struct queue_node *up = node->up;
    struct queue_node *rest = join(node->left, node->right, up);
    if (up == NULL) {
        assert(queue->root == node);
        queue->root = rest;
    } else if (up->left == node) {
        up->left = rest;
    } else {
        assert(up->right == node);
        up->right = rest;
    }
    for (; up != NULL; up = up->up) up->count--;
    node->up = node->left = node->right = NULL;
}

void queue_replace(struct queue *queue, struct queue_node *old, struct queue_node *fresh)
{
    *fresh = *old;
    if (queue->first == old) queue->first = fresh;
    if (queue->last == old) queue->last = fresh;
    if (old->left != NULL) old->left->up = fresh;
    if (old->right != NULL) old->right->up = fresh;
    if (old->up == NULL) {
        assert(queue->root == old);
        queue->root = fresh;
    } else if (old->up->left == old) {
        old->up->left = fresh;
    } else {
        assert(old->up->right == old);
        old->up->right = fresh;
    }
    old->up = old->left = old->right = NULL;
}

uint32_t queue_ahead(const struct queue_node *node)
{
    uint32_t ahead = count_of(node->left);
    for (; node->up != NULL; node = node->up) {
        if (node == node->up->right) ahead += 1 + count_of(node->up->left);
    }
    return ahead;
}
