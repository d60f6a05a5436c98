/* The list of checks: in their order, each counted under its name, and what is refused costs nobody else anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/metrics.h"
#include "guard/guard.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

/* A guard without limits but those a test sets, and a block list in a folder of its own. */
struct stage {
    struct guard *guard;
    struct blocks *blocks;
    struct blocks_reader *reader;
    char folder[64], path[96];
};

static void stage_open(struct stage *stage, const char *limits, const char *blocked)
{
    struct guard_options options = { .connections_max = 100, .breaker = BREAKER_NUMBERS_DEFAULT };
    char mistake[LIMIT_MISTAKE_BYTES];
    limit_terms_default(&options.limits);
    if (!limit_terms_read(&options.limits, slice_of(limits), mistake)) fail_msg("%s", mistake);
    assert_true(networks_parse(&options.proxies, SLICE("10.0.0.0/8"), mistake));
    assert_int_equal(guard_open(&stage->guard, &options), FAULT_NONE);
    snprintf(stage->folder, sizeof stage->folder, "/tmp/stampede-guard-XXXXXX");
    assert_non_null(mkdtemp(stage->folder));
    snprintf(stage->path, sizeof stage->path, "%s/blocks", stage->folder);
    FILE *file = fopen(stage->path, "w");
    assert_non_null(file);
    fputs(blocked, file);
    fclose(file);
    assert_int_equal(blocks_open(&stage->blocks, stage->path), FAULT_NONE);
    stage->reader = blocks_reader_open(stage->blocks);
    assert_non_null(stage->reader);
}

static void stage_close(struct stage *stage)
{
    blocks_reader_close(stage->reader);
    blocks_close(stage->blocks);
    guard_close(stage->guard);
    unlink(stage->path);
    rmdir(stage->folder);
}

/* The check that refuses a request, or GUARD_CHECKS. */
struct asked {
    enum rate_class class;
    const char *address, *user;
    uint64_t now_ns;
};

static enum guard_check check_counted(const uint64_t before[GUARD_CHECKS])
{
    enum guard_check found = GUARD_CHECKS;
    for (enum guard_check check = 0; check < GUARD_CHECKS; check++) {
        uint64_t more = metrics_total(METRIC_GUARD_REFUSED, check) - before[check];
        if (more == 0) continue;
        assert_int_equal(more, 1);
        assert_int_equal(found, GUARD_CHECKS);
        found = check;
    }
    return found;
}

static enum guard_check ask(struct stage *stage, struct asked asked)
{
    uint64_t before[GUARD_CHECKS];
    for (enum guard_check check = 0; check < GUARD_CHECKS; check++)
        before[check] = metrics_total(METRIC_GUARD_REFUSED, check);
    struct guard_visit visit = {
        .class = asked.class, .blocks = stage->reader, .method = "POST", .path = "/somewhere", .entered_ns = asked.now_ns
    };
    assert_true(address_parse(&visit.client, slice_of(asked.address)));
    uint32_t retry_s = 77;
    enum problem problem = guard_arrive(stage->guard, &visit, &retry_s);
    if (problem == PROBLEM_NONE) {
        guard_know(stage->guard, &visit, slice_of(asked.user));
        problem = guard_enter(stage->guard, &visit, &retry_s);
    }
    enum guard_check check = check_counted(before);
    assert_int_equal(problem == PROBLEM_NONE, check == GUARD_CHECKS);
    if (problem == PROBLEM_NONE) assert_int_equal(retry_s, 0);
    if (problem == PROBLEM_BLOCKED) assert_int_equal(retry_s, 0);
    if (problem == PROBLEM_RATE_LIMITED || problem == PROBLEM_BUSY) assert_true(retry_s >= 1);
    if (visit.inside) guard_leave(stage->guard, &visit, 200, asked.now_ns);
    assert_false(visit.inside);
    return check;
}

static void the_first_check_that_refuses_is_the_one_told(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage,
               "ip_grab_per_s=1,ip_grab_burst=1,global_grab_per_s=1,global_grab_burst=2,user_grab_per_s=1,user_grab_burst=1",
               "ip 192.0.2.66\nuser eve\n");
    static const struct {
        struct asked asked;
        enum guard_check want;
    } script[] = {
        { { RATE_GRAB, "192.0.2.66", "eve", SECOND }, GUARD_BLOCKED_ADDRESS },
        { { RATE_GRAB, "192.0.2.66", "ann", SECOND }, GUARD_BLOCKED_ADDRESS },
        { { RATE_GRAB, "192.0.2.1", "ann", SECOND }, GUARD_CHECKS },
        { { RATE_GRAB, "192.0.2.1", "eve", SECOND }, GUARD_RATE_IP },
        { { RATE_GRAB, "192.0.2.2", "ann", SECOND }, GUARD_RATE_USER },
        { { RATE_GRAB, "192.0.2.2", "eve", SECOND },
          GUARD_BLOCKED_USER }, /* what ann was refused was given back, this is not */
        { { RATE_GRAB, "192.0.2.3", "bob", SECOND }, GUARD_RATE_GLOBAL },
        { { RATE_GRAB, "192.0.2.2", "bob", SECOND }, GUARD_RATE_IP },
        { { RATE_QUERY, "192.0.2.3", "bob", SECOND }, GUARD_CHECKS },
        { { RATE_CLASSES, "192.0.2.1", "ann", SECOND }, GUARD_CHECKS }, /* not counted, and yet: */
        { { RATE_CLASSES, "192.0.2.66", "ann", SECOND }, GUARD_BLOCKED_ADDRESS },
        { { RATE_CLASSES, "192.0.2.1", "eve", SECOND }, GUARD_BLOCKED_USER },
        { { RATE_GRAB, "192.0.2.1", "ann", 3 * SECOND }, GUARD_CHECKS },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        enum guard_check got = ask(&stage, script[i].asked);
        if (got != script[i].want) fail_msg("row %zu: check %u", i, got);
    }
    stage_close(&stage);
}

/* Each number of the table, alone, makes a request be refused that passes without it. */
static void every_limit_can_refuse(void **state)
{
    (void)state;
    size_t fired = 0;
    for (int scope = 0; scope < RATE_SCOPES; scope++) {
        for (enum rate_class class = 0; class < RATE_CLASSES; class ++) {
            static const char *const scopes[RATE_SCOPES] = { "global", "user", "ip" };
            static const enum guard_check wants[RATE_SCOPES] = { GUARD_RATE_GLOBAL, GUARD_RATE_USER, GUARD_RATE_IP };
            if (scope == RATE_USER && (class == RATE_LOGIN || class == RATE_REGISTER)) continue;
            char limits[128];
            snprintf(limits, sizeof limits, "%s_%s_per_s=1,%s_%s_burst=2", scopes[scope], rate_class_name(class),
                     scopes[scope], rate_class_name(class));
            struct stage stage;
            stage_open(&stage, limits, "");
            struct asked asked = { class, "192.0.2.1", class == RATE_LOGIN || class == RATE_REGISTER ? "" : "ann", SECOND };
            for (int i = 0; i < 2; i++) assert_int_equal(ask(&stage, asked), GUARD_CHECKS);
            if (ask(&stage, asked) != wants[scope]) fail_msg("%s", limits);
            asked.class = (class + 1) % RATE_CLASSES;
            assert_int_equal(ask(&stage, asked), GUARD_CHECKS);
            stage_close(&stage);
            fired += 2; /* the rate, or the third would pass; the burst, or the second would not */
        }
    }
    struct stage stage;
    stage_open(&stage, "connections_per_ip=1", "");
    struct address peer, proxy;
    bool counted;
    uint64_t before = metrics_total(METRIC_GUARD_REFUSED, GUARD_CONNECTIONS);
    assert_true(address_parse(&peer, SLICE("192.0.2.1")) && address_parse(&proxy, SLICE("10.0.0.1")));
    assert_true(guard_greet(stage.guard, &peer, SECOND, &counted) && counted);
    assert_false(guard_greet(stage.guard, &peer, SECOND, &counted) || counted);
    assert_int_equal(metrics_total(METRIC_GUARD_REFUSED, GUARD_CONNECTIONS), before + 1);
    for (int i = 0; i < 5; i++) assert_true(guard_greet(stage.guard, &proxy, SECOND, &counted) && !counted);
    stage_close(&stage);
    assert_int_equal(fired + 1, LIMIT_ROWS);
}

static void every_check_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < GUARD_CHECKS; i++) {
        assert_non_null(guard_check_name(i));
        for (uint32_t k = 0; k < i; k++) assert_string_not_equal(guard_check_name(i), guard_check_name(k));
    }
    assert_null(guard_check_name(GUARD_CHECKS));
}

enum { CHANGES = 3000 };

struct changer {
    struct guard *guard;
    uint32_t row;
};

/* Counts its own row up; whatever others do meanwhile, what it set is what it finds. */
static void *changer_run(void *arg)
{
    struct changer *changer = arg;
    struct limit_terms terms, now;
    memset(&terms, 0xff, sizeof terms);
    for (int64_t i = 1; i <= CHANGES; i++) {
        limit_terms_set(&terms, &limit_rows[changer->row], i);
        guard_change_limits(changer->guard, &terms, UINT32_C(1) << changer->row, &now);
        if (limit_terms_get(&now, &limit_rows[changer->row]) != i) return changer;
        allowance_read(changer->guard->allowance, &now);
        if (limit_terms_get(&now, &limit_rows[changer->row]) != i) return changer;
    }
    return NULL;
}

static void changes_at_once_lose_nothing_of_each_other(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage, "", "");
    enum { THREADS = 4 };
    struct changer changers[THREADS];
    pthread_t threads[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        changers[i] = (struct changer){ stage.guard, i == 0 ? LIMIT_ROWS - 1 : i };
        assert_int_equal(pthread_create(&threads[i], NULL, changer_run, &changers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        void *lost;
        pthread_join(threads[i], &lost);
        assert_null(lost);
    }
    struct limit_terms now;
    allowance_read(stage.guard->allowance, &now);
    for (uint32_t row = 0; row < LIMIT_ROWS; row++) {
        bool changed = row == LIMIT_ROWS - 1 || (row >= 1 && row < THREADS);
        assert_int_equal(limit_terms_get(&now, &limit_rows[row]), changed ? CHANGES : limit_rows[row].fallback);
    }
    stage_close(&stage);
}

/* How many connections of one address are let in. */
static int greeted(struct guard *guard, const char *text)
{
    struct address address;
    bool counted;
    int count = 0;
    assert_true(address_parse(&address, slice_of(text)));
    while (count < 1000 && guard_greet(guard, &address, SECOND, &counted)) count++;
    for (int i = 0; i < count; i++) peers_leave(guard->peers, &address);
    return count;
}

static void one_address_has_at_most_half_of_what_can_be_held(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage, "connections_per_ip=90", "");
    assert_int_equal(greeted(stage.guard, "192.0.2.1"), 90);
    guard_hold(stage.guard, 60);
    assert_int_equal(greeted(stage.guard, "192.0.2.1"), 30);
    struct limit_terms terms, now;
    limit_terms_default(&terms);
    static const struct {
        int64_t asked;
        int want;
    } rows[] = { { 31, 30 }, { 30, 30 }, { 7, 7 }, { 20000, 30 }, { 0, 100 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        terms.connections_per_ip = rows[i].asked;
        guard_change_limits(stage.guard, &terms, LIMITS_ALL, &now);
        assert_int_equal(greeted(stage.guard, "192.0.2.1"), rows[i].want);
        assert_int_equal(now.connections_per_ip, rows[i].asked); /* what was asked for is what is shown */
    }
    guard_hold(stage.guard, 1);
    terms.connections_per_ip = 5;
    guard_change_limits(stage.guard, &terms, LIMITS_ALL, &now);
    assert_int_equal(greeted(stage.guard, "192.0.2.1"), 1);
    stage_close(&stage);
}

static enum problem visit_enter(struct stage *stage, struct guard_visit *visit, uint64_t now_ns)
{
    uint32_t retry_s;
    *visit = (struct guard_visit){ .class = RATE_GRAB,
                                   .blocks = stage->reader,
                                   .method = "POST",
                                   .path = "/",
                                   .heartbeat = visit->heartbeat,
                                   .entered_ns = now_ns };
    assert_int_equal(guard_arrive(stage->guard, visit, &retry_s), PROBLEM_NONE);
    return guard_enter(stage->guard, visit, &retry_s);
}

/* All probes of a breaker go to wait in a line. Others must be able to close it meanwhile. */
static void who_waits_on_purpose_keeps_no_breaker_half_open(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage, "", "");
    const struct breaker_numbers numbers = BREAKER_NUMBERS_DEFAULT;
    struct guard_visit visit = { 0 }, parked = { 0 };
    uint64_t now_ns = 1000 * SECOND;
    for (uint32_t i = 0; i < numbers.answers_min; i++) {
        assert_int_equal(visit_enter(&stage, &visit, now_ns), PROBLEM_NONE);
        guard_leave(stage.guard, &visit, 500, now_ns);
    }
    assert_int_equal(visit_enter(&stage, &visit, now_ns), PROBLEM_BUSY);
    visit.heartbeat = true;
    assert_int_equal(visit_enter(&stage, &visit, now_ns), PROBLEM_NONE);
    guard_leave(stage.guard, &visit, 500, now_ns); /* is not judged */
    visit.heartbeat = false;

    now_ns += numbers.open_ms * UINT64_C(1000000);
    for (uint32_t i = 0; i < 3 * numbers.probes; i++) {
        assert_int_equal(visit_enter(&stage, &parked, now_ns), PROBLEM_NONE);
        guard_leave(stage.guard, &parked, 0, now_ns);
    }
    for (uint32_t i = 0; i < numbers.probes; i++) {
        assert_int_equal(visit_enter(&stage, &visit, now_ns), PROBLEM_NONE);
        guard_leave(stage.guard, &visit, 201, now_ns);
    }
    assert_int_equal(breaker_state(&stage.guard->breakers[RATE_GRAB]), BREAKER_CLOSED);

    /* Called from the line it is judged again, though not refused while the breaker is open. */
    for (uint32_t i = 0; i < numbers.answers_min; i++) {
        parked.inside = false;
        parked.entered_ns = now_ns;
        guard_return(stage.guard, &parked);
        assert_true(parked.inside);
        guard_leave(stage.guard, &parked, 500, now_ns);
    }
    assert_int_equal(breaker_state(&stage.guard->breakers[RATE_GRAB]), BREAKER_OPEN);
    guard_return(stage.guard, &parked);
    assert_false(parked.inside);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_check_that_refuses_is_the_one_told),
        cmocka_unit_test(every_limit_can_refuse),
        cmocka_unit_test(every_check_has_a_name_of_its_own),
        cmocka_unit_test(changes_at_once_lose_nothing_of_each_other),
        cmocka_unit_test(one_address_has_at_most_half_of_what_can_be_held),
        cmocka_unit_test(who_waits_on_purpose_keeps_no_breaker_half_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
