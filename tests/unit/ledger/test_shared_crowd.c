/* Several nodes at once, each a thread with a connection of its own, file into the same sales what a gate without any sense
 * has decided: too much, twice, and for the same buyers. The ledger must come out exact, also where batches that were left
 * in the dark are filed again: STAMPEDE_TEST_BATCHES makes it last long enough to kill the database in the middle of it. */
#include "shared_stand.h"

#include "ledger/database.h"
#include "ledger/outbox.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NODES 4
#define SALES 4
#define BATCH 40
#define BATCHES_DEFAULT 30
#define PATIENCE_S 120
#define GRABS 2

struct crowd {
    struct stand *stand;
    uint64_t sales[SALES], epochs[SALES];
    uint32_t stock;
    int batches;
};
struct node {
    struct crowd *crowd;
    int id;
    uint64_t random, next;
    uint64_t *filed; /* numbers that it was told are filed */
    size_t filed_count;
    uint64_t refused[8]; /* some that it was told are not */
    uint64_t units[SALES];
    struct ledger_take takes[BATCH];
    char buyers[BATCH][16];
};

static uint64_t chance(struct node *node, uint64_t below)
{
    node->random = node->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (node->random >> 33) % below;
}

/* A fault leaves it in the dark: the same once more, until it is told. Deadlocks do so only where the database is killed. */
static void takes_must(struct ledger *ledger, struct ledger_take *takes, size_t count)
{
    time_t until = time(NULL) + PATIENCE_S;
    while (ledger_takes(ledger, takes, count) != FAULT_NONE) {
        assert_true(time(NULL) < until);
        assert_true(getenv("STAMPEDE_TEST_BATCHES") != NULL || strstr(ledger_error(ledger), "Deadlock") == NULL);
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
}

static void batch_make(struct node *node, size_t first, size_t second)
{
    struct crowd *crowd = node->crowd;
    for (size_t i = 0; i < BATCH; i++) {
        size_t sale = i % 5 == 0 ? second : first;
        struct ledger_take *take = &node->takes[i];
        snprintf(node->buyers[i], sizeof(node->buyers[i]), "b%llu",
                 (unsigned long long)chance(node, crowd->stock * 2 / GRABS));
        *take = (struct ledger_take){ .epoch = crowd->epochs[sale] };
        take->decision = (struct decision){ .at_ms = 2000, .kind = DECISION_WON, .sale_id = crowd->sales[sale] };
        take->decision.seq = ((uint64_t)node->id << 40) + ++node->next;
        take->decision.won.buyer = slice_of(node->buyers[i]);
        take->decision.won.units = (uint32_t)chance(node, 2) + 1;
        take->decision.won.amount = 250 * (int64_t)take->decision.won.units;
        take->decision.won.pay_by_ms = 3000;
    }
}

static void batch_note(struct node *node)
{
    for (size_t i = 0; i < BATCH; i++) {
        const struct ledger_take *take = &node->takes[i];
        assert_true(take->result == TAKE_FILED || take->result == TAKE_FILED_BEFORE || take->result == TAKE_ALREADY_WON ||
                    take->result == TAKE_SOLD_OUT);
        bool won = take->result == TAKE_FILED || take->result == TAKE_FILED_BEFORE;
        size_t sale = 0;
        while (node->crowd->sales[sale] != take->decision.sale_id) sale++;
        if (won) node->units[sale] += take->decision.won.units;
        *(won ? &node->filed[node->filed_count++] : &node->refused[i % 8]) = take->decision.seq;
    }
}

static void *node_run(void *arg)
{
    struct node *node = arg;
    struct ledger *ledger = stand_connect(node->crowd->stand);
    for (int batch = 0; batch < node->crowd->batches; batch++) {
        /* The pairs of some nodes are of the same sellers as those of others, the other way round. */
        size_t first = (size_t)(node->id + batch) % SALES;
        batch_make(node, first, first ^ 1);
        takes_must(ledger, node->takes, BATCH);
        batch_note(node);
        if (batch % 3 != 0) continue;
        takes_must(ledger, node->takes, BATCH); /* as if from a stream */
        for (size_t i = 0; i < BATCH; i++) assert_int_not_equal(node->takes[i].result, TAKE_FILED);
    }
    ledger_close(ledger);
    return NULL;
}

static struct node *nodes_run(struct crowd *crowd)
{
    struct node *nodes = calloc(NODES, sizeof(*nodes));
    pthread_t threads[NODES];
    assert_non_null(nodes);
    for (int i = 0; i < NODES; i++) {
        nodes[i] = (struct node){ .crowd = crowd, .id = i + 1, .random = (uint64_t)i * 7919 + 1 };
        nodes[i].filed = calloc((size_t)crowd->batches * BATCH, sizeof(uint64_t));
        assert_non_null(nodes[i].filed);
        assert_int_equal(pthread_create(&threads[i], NULL, node_run, &nodes[i]), 0);
    }
    for (int i = 0; i < NODES; i++) pthread_join(threads[i], NULL);
    return nodes;
}

static enum fault order_tally(void *arg, const struct ledger_order *row, uint32_t nth)
{
    uint8_t *grabs = arg;
    unsigned long buyer = strtoul(row->order.buyer + 1, NULL, 10);
    assert_true(nth >= 1 && nth <= GRABS);
    assert_int_equal(grabs[buyer] & 1 << nth, 0); /* no two have one place */
    grabs[buyer] |= (uint8_t)(1 << nth);
    return FAULT_NONE;
}
static enum fault sale_ignore(void *arg, const struct ledger_shelved *sale)
{
    (void)arg, (void)sale;
    return FAULT_NONE;
}
static enum fault token_none(void *arg, const struct ledger_token *token)
{
    (void)arg, (void)token;
    fail();
    return FAULT_NONE;
}

static void nodes_check(struct crowd *crowd, struct node *nodes)
{
    struct stand *stand = crowd->stand;
    uint64_t made = 0, filed = 0;
    for (size_t s = 0; s < SALES; s++) {
        struct sale sale = stand_read(stand, crowd->sales[s]);
        uint64_t units = 0;
        for (int i = 0; i < NODES; i++) units += nodes[i].units[s];
        assert_int_equal(sale.counts.held, units);
        assert_int_equal(sale.counts.available + sale.counts.held, crowd->stock);
        assert_true(sale.counts.available <= 1); /* all wanted it: at most what no pair fitted into is left */
        made += sale.orders_made;
        uint8_t *grabs = calloc(crowd->stock * 2, 1);
        struct ledger_rebuild visit = { .sale = sale_ignore, .order = order_tally, .token = token_none, .arg = grabs };
        assert_int_equal(ledger_rebuild(stand->b, crowd->sales[s], &visit), FAULT_NONE);
        free(grabs);
    }
    for (int i = 0; i < NODES; i++) {
        filed += nodes[i].filed_count;
        for (size_t j = 0; j < nodes[i].filed_count; j += 7) stand_order(stand, nodes[i].filed[j]);
        for (size_t j = 0; j < 8; j++) {
            struct ledger_order row;
            bool found;
            assert_int_equal(ledger_order(stand->b, nodes[i].refused[j], &row, &found), FAULT_NONE);
            assert_false(found);
        }
    }
    assert_int_equal(made, filed);
    stand_adds_up(stand);
}

static void nodes_at_once_sell_exactly_what_there_is(void **state)
{
    struct stand *stand = *state;
    const char *batches = getenv("STAMPEDE_TEST_BATCHES");
    struct crowd crowd = { .stand = stand, .batches = batches != NULL ? (int)strtol(batches, NULL, 10) : BATCHES_DEFAULT };
    crowd.stock = (uint32_t)(crowd.batches * BATCH * NODES / SALES / 2);
    for (size_t i = 0; i < SALES; i++) {
        char name[8];
        snprintf(name, sizeof(name), "s%zu", i);
        struct sale_terms terms = stand_terms(name, GRABS, 1);
        /* Sales of two sellers, who are told of each win: what counts their notices is locked after the sales are. */
        struct slice seller = i == 0 || i == 3 ? SLICE("ann") : SLICE("zoe");
        struct hook hook;
        bool fresh;
        struct hook_put put = { .seller = seller, .url = SLICE("https://h"), .secret = SLICE("s"), .now_ms = 100 };
        assert_int_equal(ledger_hook_put(stand->a, &put, &hook, &fresh), FAULT_NONE);
        struct ledger_change create = { .asker = { seller, false, 500 }, .terms = &terms, .add = crowd.stock };
        create.kind = DECISION_SALE_CREATED;
        assert_int_equal(stand_change(stand, &create), VERDICT_DONE);
        crowd.sales[i] = stand->sale.id;
        crowd.epochs[i] = stand_epoch(stand, crowd.sales[i]);
    }
    struct node *nodes = nodes_run(&crowd);
    nodes_check(&crowd, nodes);
    uint64_t filed = 0;
    for (int i = 0; i < NODES; i++) {
        filed += nodes[i].filed_count;
        free(nodes[i].filed);
    }
    free(nodes);
    print_message("%llu orders by %d nodes\n", (unsigned long long)filed, NODES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_at_once_sell_exactly_what_there_is, stand_setup, stand_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
