/* One user and one address on several nodes get what the limit says, and a little more that is said, too.
 *
 * The nodes are allowances in one clock that stands still between requests; Redis is a table here, as the script of
 * guard/exchange.c keeps it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "guard/allowance.h"
#include "guard/tally.h"

#include "tests/unit/base/dice.h"

#include <inttypes.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)
#define EXCHANGE (5 * MS)
#define NODES_MAX 8
#define BUCKETS 4096

static const uint8_t secret[16] = "all have the sam";

struct scene {
    struct allowance *nodes[NODES_MAX];
    uint32_t count;
    bool away; /* Redis is */
    uint64_t now_ns, told_ns, told;
    struct {
        uint64_t key;
        int64_t full_us;
    } buckets[BUCKETS];
    struct address address;
};

static struct limit_terms terms_of(int64_t per_s, int64_t burst)
{
    struct limit_terms terms;
    limit_terms_default(&terms);
    for (int scope = 0; scope < RATE_SCOPES; scope++) {
        for (int class = 0; class < RATE_CLASSES; class ++) terms.rates[scope][class] = (struct rate_terms){ 0, 1 };
    }
    terms.rates[RATE_USER][RATE_GRAB] = (struct rate_terms){ per_s, burst };
    return terms;
}

static void scene_open(struct scene *scene, uint32_t count, const struct limit_terms *terms)
{
    memset(scene, 0, sizeof *scene);
    scene->count = count;
    scene->now_ns = scene->told_ns = mono_ns();
    assert_true(address_parse(&scene->address, SLICE("192.0.2.7")));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(allowance_open(&scene->nodes[i], 4096, terms), FAULT_NONE);
        assert_int_equal(allowance_share(scene->nodes[i], secret), FAULT_NONE);
        allowance_set_nodes(scene->nodes[i], count);
        /* Since the start, which was on the real clock. */
        struct allowance_spent spent[ALLOWANCE_SPENT_MAX];
        for (uint32_t group = 0; group < TALLY_GROUPS; group++)
            assert_int_equal(allowance_spent(scene->nodes[i], group, scene->now_ns, spent, ALLOWANCE_SPENT_MAX), 0);
    }
}

static void scene_close(struct scene *scene)
{
    for (uint32_t i = 0; i < scene->count; i++) allowance_close(scene->nodes[i]);
}

/* As the script does it. */
static int64_t redis_told(struct scene *scene, const struct allowance_spent *spent)
{
    int64_t now_us = (int64_t)(scene->now_ns / 1000), age_us = (int64_t)(scene->now_ns - spent->since_ns + MS) / 1000;
    uint32_t at = 0;
    while (at < BUCKETS && scene->buckets[at].key != 0 && scene->buckets[at].key != spent->key) at++;
    assert_true(at < BUCKETS);
    int64_t full_us = scene->buckets[at].key == spent->key ? scene->buckets[at].full_us : 0;
    if (full_us < now_us - age_us) full_us = now_us - age_us;
    if (full_us > now_us + (int64_t)(spent->owed_max / 1000)) full_us = now_us + (int64_t)(spent->owed_max / 1000);
    scene->buckets[at].key = spent->key;
    scene->buckets[at].full_us = full_us + spent->spent_ns / 1000;
    scene->told++;
    return scene->buckets[at].full_us - now_us;
}

/* All nodes tell and hear. */
static void exchange(struct scene *scene)
{
    struct allowance_spent spent[ALLOWANCE_SPENT_MAX];
    scene->told_ns = scene->now_ns;
    for (uint32_t node = 0; node < scene->count; node++) {
        for (uint32_t group = 0; group < TALLY_GROUPS; group++) {
            uint32_t count = allowance_spent(scene->nodes[node], group, scene->now_ns, spent, ALLOWANCE_SPENT_MAX);
            for (uint32_t i = 0; i < count && !scene->away; i++) {
                int64_t ahead_us = redis_told(scene, &spent[i]);
                if (ahead_us > 0) allowance_hear(scene->nodes[node], &spent[i], scene->now_ns + (uint64_t)ahead_us * 1000);
            }
        }
    }
}

static void scene_pass(struct scene *scene, uint64_t ns)
{
    scene->now_ns += ns;
    if (scene->now_ns - scene->told_ns >= EXCHANGE) exchange(scene);
}

/* As a request asks: its address, everyone, its user. */
static bool asked(struct scene *scene, uint32_t node, const char *user)
{
    static const enum rate_scope scopes[] = { RATE_IP, RATE_GLOBAL, RATE_USER };
    struct allowance_ask ask = {
        .class = RATE_GRAB, .user = slice_of(user), .address = &scene->address, .now_ns = scene->now_ns
    };
    struct allowance_answer answer;
    for (int i = 0; i < RATE_SCOPES; i++) {
        if (!allowance_take(scene->nodes[node], scopes[i], &ask, &answer)) return false;
    }
    return true;
}

/* Everything that can be had on all nodes, asked for every millisecond. */
static uint64_t hammered(struct scene *scene, uint64_t ns, const char *user)
{
    uint64_t passed = 0, end_ns = scene->now_ns + ns;
    while (scene->now_ns < end_ns) {
        for (uint32_t node = 0; node < scene->count; node++) {
            while (asked(scene, node, user)) passed++;
        }
        scene_pass(scene, MS);
    }
    return passed;
}

/* What is promised: limit, an eighth that nodes keep to themselves or one each, and what is on its way, which is paid off
 * except for that of the last moment. */
static uint64_t most(const struct scene *scene, uint64_t per_s, uint64_t burst, uint64_t ns)
{
    uint64_t limit = burst + per_s * ns / SECOND, under_way = scene->count * (2 * EXCHANGE + MS) * per_s / SECOND;
    return limit + (limit + ALLOWANCE_PARTS - 1) / ALLOWANCE_PARTS + 2 * scene->count + under_way;
}

static void all_nodes_together_give_what_the_limit_says(void **state)
{
    (void)state;
    static const struct {
        uint32_t nodes;
        int64_t per_s, burst;
        uint64_t seconds;
    } rows[] = {
        { 2, 10, 20, 20 },     { 3, 10, 20, 20 },   { 3, 1, 1, 60 },       { 3, 1, 5, 60 },    { 8, 5, 5, 40 },
        { 3, 1000, 1000, 10 }, { 3, 1000, 10, 10 }, { 2, 2000, 20000, 4 }, { 5, 50, 500, 60 }, { 1, 10, 20, 20 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static struct scene scene;
        struct limit_terms terms = terms_of(rows[i].per_s, rows[i].burst);
        scene_open(&scene, rows[i].nodes, &terms);
        uint64_t passed = hammered(&scene, rows[i].seconds * SECOND, "ann");
        uint64_t limit = (uint64_t)rows[i].burst + (uint64_t)rows[i].per_s * rows[i].seconds;
        uint64_t bound = most(&scene, (uint64_t)rows[i].per_s, (uint64_t)rows[i].burst, rows[i].seconds * SECOND);
        /* A burst that every node has given is a debt that may outlast the test. */
        uint64_t bursts = (uint64_t)rows[i].burst * rows[i].nodes;
        if (bound < bursts + bursts / 8) bound = bursts + bursts / 8;
        if (passed > bound || passed + 1 < limit * 9 / 10)
            fail_msg("row %zu: %" PRIu64 " passed, limit %" PRIu64 ", bound %" PRIu64, i, passed, limit, bound);
        scene_close(&scene);
    }
}

/* A steady pace under each node's limit, and well over that of all. */
static void a_program_that_stays_just_under_each_nodes_limit_is_seen(void **state)
{
    (void)state;
    static struct scene scene;
    struct limit_terms terms = terms_of(100, 100);
    scene_open(&scene, 3, &terms);
    uint64_t passed = 0;
    for (int i = 0; i < 2000; i++) { /* 90 a second on each, for 22 s */
        for (uint32_t node = 0; node < 3; node++) passed += asked(&scene, node, "ann");
        scene_pass(&scene, 11 * MS);
    }
    uint64_t bound = most(&scene, 100, 100, 22 * SECOND);
    if (passed > bound || passed < 2300) fail_msg("%" PRIu64 " passed of %" PRIu64, passed, bound);
    scene_close(&scene);
}

/* Whoever stays on one node gets what the limit says to the last request, also with nodes beside it that others use. */
static void one_who_stays_on_a_node_loses_nothing(void **state)
{
    (void)state;
    static const struct {
        int64_t per_s, burst;
    } rows[] = { { 10, 1 }, { 1000, 1 }, { 1000, 10 }, { 1, 1 }, { 7, 3 }, { 333, 50 } };
    uint64_t dice = dice_seed();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static struct scene scene;
        struct limit_terms terms = terms_of(rows[i].per_s, rows[i].burst);
        struct allowance *alone;
        scene_open(&scene, 3, &terms);
        assert_int_equal(allowance_open(&alone, 64, &terms), FAULT_NONE);
        uint64_t passed = 0;
        for (int request = 0; request < 3000; request++) {
            struct allowance_ask ask = { .class = RATE_GRAB, .user = SLICE("ann"), .now_ns = scene.now_ns };
            struct allowance_answer answer;
            bool would = allowance_take(alone, RATE_USER, &ask, &answer);
            if (asked(&scene, 1, "ann") != would) fail_msg("row %zu, request %d: alone %d", i, request, would);
            passed += would;
            scene_pass(&scene, dice_below(&dice, (uint32_t)(3 * SECOND / (uint64_t)rows[i].per_s / 2)));
        }
        assert_true(passed > 1000);
        allowance_close(alone);
        scene_close(&scene);
    }
}

/* A million buyers who click once or twice are nobody's business. */
static void who_asks_once_is_told_to_nobody(void **state)
{
    (void)state;
    static struct scene scene;
    struct limit_terms terms = terms_of(1000, 10000);
    scene_open(&scene, 3, &terms);
    for (uint32_t i = 0; i < 30000; i++) {
        char user[16];
        snprintf(user, sizeof user, "b%u", i);
        assert_true(asked(&scene, i % 3, user) && asked(&scene, (i + 1) % 3, user));
        scene_pass(&scene, 20000);
    }
    assert_int_equal(scene.told, 0);
    scene_close(&scene);
    terms = terms_of(1, 2); /* the smallest limits, too */
    scene_open(&scene, 3, &terms);
    for (uint32_t i = 0; i < 2000; i++) {
        char user[16];
        snprintf(user, sizeof user, "b%u", i);
        assert_true(asked(&scene, i % 3, user));
        scene_pass(&scene, MS);
    }
    assert_int_equal(scene.told, 0);
    scene_close(&scene);
}

/* What a user was refused does not use up what the address has, on any node. */
static void what_is_given_back_is_not_told(void **state)
{
    (void)state;
    static struct scene scene;
    struct limit_terms terms = terms_of(1, 5);
    terms.rates[RATE_IP][RATE_GRAB] = (struct rate_terms){ 100, 1000 };
    scene_open(&scene, 2, &terms);
    for (int i = 0; i < 100; i++) { /* what the node may keep to itself is gone */
        char user[16];
        snprintf(user, sizeof user, "a%d", i);
        assert_true(asked(&scene, 0, user));
    }
    for (int i = 0; i < 20000; i++) {
        (void)asked(&scene, 0, "program");
        if (i % 10 == 9) scene_pass(&scene, MS);
    }
    /* Of 2 s of 10,000 requests a second hardly any passed: the office of the program has its allowance, everywhere. */
    int passed = 0;
    for (int i = 0; i < 900; i++) {
        char user[16];
        snprintf(user, sizeof user, "b%d", i);
        passed += asked(&scene, 1, user);
        if (i % 50 == 49) scene_pass(&scene, EXCHANGE); /* what all have spent is heard */
    }
    assert_int_equal(passed, 900);
    scene_close(&scene);
}

static void without_redis_each_node_holds_its_own(void **state)
{
    (void)state;
    static struct scene scene;
    struct limit_terms terms = terms_of(10, 20);
    scene_open(&scene, 3, &terms);
    scene.away = true;
    uint64_t passed = hammered(&scene, 20 * SECOND, "ann");
    if (passed > 3 * 220 || passed < 3 * 219) fail_msg("%" PRIu64 " passed", passed);
    /* It is back: what was not told is not made up for, so there is a burst once more, and the limit of all holds again. */
    scene.away = false;
    passed = hammered(&scene, 20 * SECOND, "ann");
    uint64_t bound = most(&scene, 10, 20, 20 * SECOND);
    if (passed > bound || passed < 180) fail_msg("%" PRIu64 " passed again", passed);
    scene_close(&scene);
}

/* Redis's clock goes back by an hour: nobody waits for that hour. */
static void a_clock_that_goes_back_shuts_nobody_out(void **state)
{
    (void)state;
    static struct scene scene;
    struct limit_terms terms = terms_of(10, 20);
    scene_open(&scene, 2, &terms);
    (void)hammered(&scene, SECOND, "ann");
    for (uint32_t i = 0; i < BUCKETS; i++) {
        if (scene.buckets[i].key != 0) scene.buckets[i].full_us += INT64_C(3600000000);
    }
    (void)hammered(&scene, 8 * SECOND, "ann"); /* what can be owed at most: two bursts and a second */
    uint64_t passed = hammered(&scene, 10 * SECOND, "ann");
    if (passed < 90 || passed > 130) fail_msg("%" PRIu64 " passed", passed);
    scene_close(&scene);
}

static void a_raised_limit_counts_at_once_also_for_one_who_owes(void **state)
{
    (void)state;
    static struct scene scene;
    struct limit_terms terms = terms_of(1, 100), raised = terms_of(1000, 100);
    scene_open(&scene, 2, &terms);
    (void)hammered(&scene, SECOND, "ann"); /* 100 s are owed, and another 100 */
    for (uint32_t i = 0; i < 2; i++) allowance_change(scene.nodes[i], &raised);
    uint64_t passed = hammered(&scene, 3 * SECOND, "ann");
    if (passed < 500) fail_msg("%" PRIu64 " passed", passed);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_nodes_together_give_what_the_limit_says),
        cmocka_unit_test(a_program_that_stays_just_under_each_nodes_limit_is_seen),
        cmocka_unit_test(one_who_stays_on_a_node_loses_nothing),
        cmocka_unit_test(who_asks_once_is_told_to_nobody),
        cmocka_unit_test(what_is_given_back_is_not_told),
        cmocka_unit_test(without_redis_each_node_holds_its_own),
        cmocka_unit_test(a_clock_that_goes_back_shuts_nobody_out),
        cmocka_unit_test(a_raised_limit_counts_at_once_also_for_one_who_owes),
    };
    return cmocka_run_group_tests_name("sharing", tests, NULL, NULL);
}
