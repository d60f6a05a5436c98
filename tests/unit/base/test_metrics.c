#include "base/metrics.h"

#include "bounds.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char page[1 << 16];

static const char *label(enum metric metric, uint32_t value)
{
    if (metric == METRIC_GRABS) return value == 0 ? "WON" : value == 11 ? "SOLD_OUT" : NULL;
    static const char *const classes[] = { NULL, "1xx", "2xx", "3xx", "4xx", "5xx" };
    return metric == METRIC_RESPONSES ? classes[value] : NULL;
}

static void render(void)
{
    size_t len = metrics_render(page, sizeof(page) - 1, label);
    assert_true(len > 0 && len < sizeof(page) - 1);
    page[len] = '\0';
}

/* A whole line, not a part of one. */
static bool page_has(const char *line)
{
    size_t len = strlen(line);
    for (const char *at = page; (at = strstr(at, line)) != NULL; at++) {
        if ((at == page || at[-1] == '\n') && at[len] == '\n') return true;
    }
    return false;
}

static void counters_and_families_show_what_was_added(void **state)
{
    (void)state;
    metrics_add(METRIC_TIMEOUTS, 3);
    metrics_add(METRIC_TIMEOUTS, 4);
    metrics_add_labelled(METRIC_GRABS, 0, 100);
    metrics_add_labelled(METRIC_GRABS, 11, 900);
    metrics_add_labelled(METRIC_GRABS, 12, 5);
    assert_int_equal(metrics_total(METRIC_TIMEOUTS, 0), 7);
    assert_int_equal(metrics_total(METRIC_GRABS, 11), 900);
    assert_int_equal(metrics_total(METRIC_GRABS, 1), 0);

    render();
    assert_true(page_has("# HELP stampede_connection_timeouts_total Connections ended for being too slow."));
    assert_true(page_has("# TYPE stampede_connection_timeouts_total counter"));
    assert_true(page_has("stampede_connection_timeouts_total 7"));
    assert_true(page_has("stampede_grabs_total{verdict=\"WON\"} 100"));
    assert_true(page_has("stampede_grabs_total{verdict=\"SOLD_OUT\"} 900"));
    assert_true(page_has("stampede_commits_total 0"));
}

static void a_label_value_without_a_word_is_left_out(void **state)
{
    (void)state;
    metrics_add_labelled(METRIC_RESPONSES, 0, 77);
    render();
    assert_null(strstr(page, "} 77\n"));
    assert_true(page_has("stampede_http_responses_total{status=\"2xx\"} 0"));
}

static void histogram_buckets_are_cumulative_powers_of_two(void **state)
{
    (void)state;
    static const uint64_t values[] = { 0, 1, 2, 3, 4, 5, 1024, 1025, UINT64_C(1) << 39, (UINT64_C(1) << 39) + 1 };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) metrics_observe(METRIC_BATCH_DECISIONS, values[i]);
    assert_int_equal(metrics_total(METRIC_BATCH_DECISIONS, 0), 10);

    render();
    assert_true(page_has("# TYPE stampede_commit_batch_decisions histogram"));
    static const char *const lines[] = {
        "stampede_commit_batch_decisions_bucket{le=\"1\"} 2",
        "stampede_commit_batch_decisions_bucket{le=\"2\"} 3",
        "stampede_commit_batch_decisions_bucket{le=\"4\"} 5",
        "stampede_commit_batch_decisions_bucket{le=\"8\"} 6",
        "stampede_commit_batch_decisions_bucket{le=\"512\"} 6",
        "stampede_commit_batch_decisions_bucket{le=\"1024\"} 7",
        "stampede_commit_batch_decisions_bucket{le=\"2048\"} 8",
        "stampede_commit_batch_decisions_bucket{le=\"+Inf\"} 10",
        "stampede_commit_batch_decisions_count 10",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) assert_true(page_has(lines[i]));
}

static void a_histogram_of_seconds_is_shown_in_seconds(void **state)
{
    (void)state;
    metrics_observe(METRIC_COMMIT_SECONDS, 200000);
    metrics_observe(METRIC_COMMIT_SECONDS, 800000);
    render();
    assert_true(page_has("stampede_commit_seconds_bucket{le=\"0.000131072\"} 0"));
    assert_true(page_has("stampede_commit_seconds_bucket{le=\"0.000262144\"} 1"));
    assert_true(page_has("stampede_commit_seconds_bucket{le=\"0.001048576\"} 2"));
    assert_true(page_has("stampede_commit_seconds_sum 0.001"));
    assert_true(page_has("stampede_commit_seconds_count 2"));
}

static void a_page_that_is_too_small_ends_with_a_whole_line(void **state)
{
    (void)state;
    render();
    size_t whole = strlen(page);
    static char small[1 << 16];
    for (size_t size = 0; size < whole; size += 7) {
        memset(small, '#', sizeof(small));
        size_t len = metrics_render(small, size, label);
        assert_true(len <= size);
        assert_memory_equal(small, page, len);
        assert_true(len == 0 || small[len - 1] == '\n');
        assert_int_equal(small[size], '#');
    }
}

static void *counter(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        metrics_add(METRIC_FILED, 1);
        metrics_observe(METRIC_COMMIT_SECONDS, 1);
    }
    return NULL;
}

/* More threads than there are shards, some of them at once. */
static void no_add_is_lost_however_many_threads_there_are(void **state)
{
    (void)state;
    uint64_t before = metrics_total(METRIC_COMMIT_SECONDS, 0);
    pthread_t threads[8];
    for (int round = 0; round < THREADS_MAX / 8 + 3; round++) {
        for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, counter, NULL), 0);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    uint64_t want = (THREADS_MAX / 8 + 3) * 8 * UINT64_C(1000);
    assert_int_equal(metrics_total(METRIC_FILED, 0), want);
    assert_int_equal(metrics_total(METRIC_COMMIT_SECONDS, 0) - before, want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_and_families_show_what_was_added),
        cmocka_unit_test(a_label_value_without_a_word_is_left_out),
        cmocka_unit_test(histogram_buckets_are_cumulative_powers_of_two),
        cmocka_unit_test(a_histogram_of_seconds_is_shown_in_seconds),
        cmocka_unit_test(a_page_that_is_too_small_ends_with_a_whole_line),
        cmocka_unit_test(no_add_is_lost_however_many_threads_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
