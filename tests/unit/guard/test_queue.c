/* The queue against a plain array that is shifted by hand. */
#include "guard/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PEOPLE 400

static struct queue_node people[PEOPLE];
static struct queue_node *model[PEOPLE];
static size_t model_count;

static void queue_is_the_model(const struct queue *queue)
{
    assert_int_equal(queue_count(queue), model_count);
    assert_ptr_equal(queue->first, model_count > 0 ? model[0] : NULL);
    assert_ptr_equal(queue->last, model_count > 0 ? model[model_count - 1] : NULL);
    for (size_t i = 0; i < model_count; i++) assert_int_equal(queue_ahead(model[i]), i);
}

static size_t model_find(const struct queue_node *node)
{
    for (size_t i = 0; i < model_count; i++) {
        if (model[i] == node) return i;
    }
    return PEOPLE;
}

static void joining_leaving_and_handing_over_keep_order_and_count(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct queue queue = { .lot = seed };
        model_count = 0;
        srandom((unsigned)seed);
        /* First more come than go, then more go than come, so that it is empty and full in turn. */
        for (int step = 0; step < 3000; step++) {
            struct queue_node *node = &people[random() % PEOPLE];
            size_t at = model_find(node);
            bool growing = step % 1000 < 600;
            if (at == PEOPLE && (growing || random() % 4 == 0)) {
                queue_append(&queue, node);
                model[model_count++] = node;
            } else if (at != PEOPLE && (!growing || random() % 4 == 0)) {
                queue_remove(&queue, node);
                memmove(&model[at], &model[at + 1], (--model_count - at) * sizeof model[0]);
            } else if (at == PEOPLE && model_count > 0) {
                size_t other = (size_t)random() % model_count;
                queue_replace(&queue, model[other], node);
                model[other] = node;
            }
            if (step % 37 == 0) queue_is_the_model(&queue);
        }
        while (model_count > 0) {
            queue_remove(&queue, model[0]);
            memmove(&model[0], &model[1], --model_count * sizeof model[0]);
            queue_is_the_model(&queue);
        }
        assert_null(queue.root);
    }
}

/* A hundred thousand who come in order must not make a chain: the deepest stands a few dozen below the root. */
static void a_long_queue_is_shallow(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    struct queue_node *many = calloc(MANY, sizeof *many);
    assert_non_null(many);
    struct queue queue = { .lot = 7 };
    for (size_t i = 0; i < MANY; i++) queue_append(&queue, &many[i]);
    size_t deepest = 0;
    for (size_t i = 0; i < MANY; i++) {
        size_t depth = 0;
        for (struct queue_node *node = &many[i]; node->up != NULL; node = node->up) depth++;
        if (depth > deepest) deepest = depth;
    }
    assert_true(deepest < 80);
    assert_int_equal(queue_ahead(&many[MANY - 1]), MANY - 1);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joining_leaving_and_handing_over_keep_order_and_count),
        cmocka_unit_test(a_long_queue_is_shallow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
