/* One struct of limits, changed while running; a request takes from all that count it or from none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard/allowance.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct address address_of(const char *text)
{
    struct address address;
    assert_true(address_parse(&address, slice_of(text)));
    return address;
}

/* No limit anywhere. */
static struct allowance_terms terms_none(void)
{
    struct allowance_terms terms;
    allowance_terms_default(&terms);
    for (int scope = 0; scope < RATE_SCOPES; scope++) {
        for (int class = 0; class < RATE_CLASSES; class ++) terms.rates[scope][class] = (struct rate_terms){ 0, 1 };
    }
    terms.connections_per_ip = 0;
    return terms;
}

static int takes(struct allowance *allowance, struct allowance_ask ask, int tries)
{
    struct allowance_answer answer;
    int passed = 0;
    for (int i = 0; i < tries; i++) passed += allowance_take(allowance, &ask, &answer);
    return passed;
}

static void every_number_has_a_row_with_bounds_and_a_sentence(void **state)
{
    (void)state;
    struct allowance_terms terms;
    memset(&terms, 0xff, sizeof(terms));
    allowance_terms_default(&terms);
    char mistake[ALLOWANCE_MISTAKE_BYTES];
    assert_true(allowance_terms_valid(&terms, mistake));
    assert_int_equal(sizeof(terms), ALLOWANCE_ROWS * sizeof(int64_t));
    for (size_t i = 0; i < ALLOWANCE_ROWS; i++) {
        const struct allowance_row *row = &allowance_rows[i];
        assert_true(strlen(row->name) <= 32); /* as long as an option's name may be */
        assert_int_equal(row->help[strlen(row->help) - 1], '.');
        assert_int_equal(allowance_terms_get(&terms, row), row->fallback);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(row->name, allowance_rows[j].name);
            assert_int_not_equal(row->offset, allowance_rows[j].offset);
        }
    }
}

static void a_row_names_the_number_it_sets(void **state)
{
    (void)state;
    for (int scope = 0; scope < RATE_SCOPES; scope++) {
        for (int class = 0; class < RATE_CLASSES; class ++) {
            struct allowance_terms terms = terms_none();
            char per_s[64], burst[64];
            snprintf(per_s, sizeof(per_s), "%s_%s_per_s", rate_scope_name(scope), rate_class_name(class));
            snprintf(burst, sizeof(burst), "%s_%s_burst", rate_scope_name(scope), rate_class_name(class));
            int set = 0;
            for (size_t i = 0; i < ALLOWANCE_ROWS; i++) {
                if (strcmp(allowance_rows[i].name, per_s) == 0) allowance_terms_set(&terms, &allowance_rows[i], 7), set++;
                if (strcmp(allowance_rows[i].name, burst) == 0) allowance_terms_set(&terms, &allowance_rows[i], 8), set++;
            }
            assert_int_equal(set, 2);
            assert_int_equal(terms.rates[scope][class].per_s, 7);
            assert_int_equal(terms.rates[scope][class].burst, 8);
        }
    }
}

static void numbers_out_of_bounds_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALLOWANCE_ROWS; i++) {
        const struct allowance_row *row = &allowance_rows[i];
        const int64_t wrong[] = { row->min - 1, row->max + 1, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 32 };
        for (size_t j = 0; j < sizeof(wrong) / sizeof(wrong[0]); j++) {
            struct allowance_terms terms = terms_none();
            char mistake[ALLOWANCE_MISTAKE_BYTES] = "";
            allowance_terms_set(&terms, row, wrong[j]);
            assert_false(allowance_terms_valid(&terms, mistake));
            assert_non_null(strstr(mistake, row->name));
        }
        struct allowance_terms terms = terms_none();
        char mistake[ALLOWANCE_MISTAKE_BYTES];
        allowance_terms_set(&terms, row, row->max);
        assert_true(allowance_terms_valid(&terms, mistake));
        allowance_terms_set(&terms, row, row->min);
        assert_true(allowance_terms_valid(&terms, mistake));
    }
}

static void terms_go_to_json_and_back_and_absent_ones_stay(void **state)
{
    (void)state;
    struct json_field fields[ALLOWANCE_ROWS];
    allowance_fields(fields);
    struct allowance_terms terms = terms_none(), back;
    memset(&back, 0, sizeof(back));
    for (size_t i = 0; i < ALLOWANCE_ROWS; i++) allowance_terms_set(&terms, &allowance_rows[i], (int64_t)i + 1);
    char text[4096];
    struct json_out out;
    json_out_init(&out, text, sizeof(text));
    allowance_render(&out, &terms);
    assert_false(out.overflow);
    struct json_found found;
    if (!json_read((struct slice){ text, out.len }, fields, ALLOWANCE_ROWS, &back, &found)) fail_msg("%s", found.objection);
    assert_memory_equal(&back, &terms, sizeof(terms));

    assert_true(json_read(SLICE("{\"ip_grab_per_s\": 0}"), fields, ALLOWANCE_ROWS, &back, &found));
    terms.rates[RATE_IP][RATE_GRAB].per_s = 0;
    assert_memory_equal(&back, &terms, sizeof(terms));

    static const char *const bad[] = {
        "{\"ip_grab_per_s\": -1}",   "{\"ip_grab_per_s\": 10000001}", "{\"ip_grab_burst\": 0}",
        "{\"ip_grab_per_s\": 1.5}",  "{\"ip_grab_per_s\": \"5\"}",    "{\"ip_grab_per_s\": 18446744073709551616}",
        "{\"ip_grab_per_s\": null}", "{\"ip_grabs_per_s\": 5}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (json_read(slice_of(bad[i]), fields, ALLOWANCE_ROWS, &back, &found)) fail_msg("%s was taken", bad[i]);
        assert_non_null(strstr(found.objection, "ip_grab"));
    }
}

/* An office of 80 behind one address, each as fast as a person with a nervous finger: nobody is refused. */
static void with_the_defaults_an_office_can_buy(void **state)
{
    (void)state;
    struct allowance *allowance;
    struct allowance_terms terms;
    allowance_terms_default(&terms);
    assert_int_equal(allowance_open(&allowance, 4096, &terms), FAULT_NONE);
    struct address office = address_of("192.0.2.7");
    for (uint64_t ms = 0; ms < 5000; ms += 100) {
        for (int person = 0; person < 80; person++) {
            char name[16];
            snprintf(name, sizeof(name), "person%d", person);
            struct allowance_answer answer;
            struct allowance_ask ask = { RATE_GRAB, slice_of(name), &office, SECOND + ms * 1000000 };
            assert_true(allowance_take(allowance, &ask, &answer));
            assert_true(answer.limited);
        }
    }
    /* A program among them is refused as a user, and the others still buy. */
    assert_int_equal(takes(allowance, (struct allowance_ask){ RATE_GRAB, SLICE("program"), &office, 7 * SECOND }, 100000),
                     10000);
    assert_int_equal(takes(allowance, (struct allowance_ask){ RATE_GRAB, SLICE("person1"), &office, 7 * SECOND }, 10), 10);
    allowance_close(allowance);
}

static void a_refused_request_takes_from_nobody(void **state)
{
    (void)state;
    struct allowance *allowance;
    struct allowance_terms terms = terms_none();
    terms.rates[RATE_USER][RATE_GRAB] = (struct rate_terms){ 1, 5 };
    terms.rates[RATE_IP][RATE_GRAB] = (struct rate_terms){ 1, 10 };
    terms.rates[RATE_GLOBAL][RATE_GRAB] = (struct rate_terms){ 1, 12 };
    assert_int_equal(allowance_open(&allowance, 64, &terms), FAULT_NONE);
    struct address here = address_of("192.0.2.7"), there = address_of("192.0.2.8");
    struct allowance_answer answer;
    struct allowance_ask ann = { RATE_GRAB, SLICE("ann"), &here, SECOND }, bob = { RATE_GRAB, SLICE("bob"), &here, SECOND };
    struct allowance_ask cat = { RATE_GRAB, SLICE("cat"), &here, SECOND }, dan = { RATE_GRAB, SLICE("dan"), &there, SECOND };

    assert_int_equal(takes(allowance, ann, 100), 5);
    assert_false(allowance_take(allowance, &ann, &answer));
    assert_int_equal(answer.scope, RATE_USER);
    assert_int_equal(answer.limit.burst, 5);
    assert_int_equal(answer.rate.retry_ms, 1000);
    assert_int_equal(takes(allowance, bob, 4), 4);
    assert_true(allowance_take(allowance, &bob, &answer));
    assert_int_equal(takes(allowance, cat, 100), 0); /* the address has nothing left */
    assert_false(allowance_take(allowance, &cat, &answer));
    assert_int_equal(answer.scope, RATE_IP);
    assert_int_equal(takes(allowance, dan, 100), 2); /* nor has everyone */
    assert_false(allowance_take(allowance, &dan, &answer));
    assert_int_equal(answer.scope, RATE_GLOBAL);
    /* cat and dan lost nothing of their own by being refused. */
    cat.address = NULL;
    terms.rates[RATE_GLOBAL][RATE_GRAB].per_s = 0;
    allowance_change(allowance, &terms);
    assert_int_equal(takes(allowance, cat, 100), 5);
    assert_int_equal(takes(allowance, dan, 100), 3);
    allowance_close(allowance);
}

static void classes_users_and_addresses_are_counted_apart(void **state)
{
    (void)state;
    struct allowance *allowance;
    struct allowance_terms terms = terms_none();
    for (int class = 0; class < RATE_CLASSES; class ++) {
        terms.rates[RATE_USER][class] = (struct rate_terms){ 1, 3 };
        terms.rates[RATE_IP][class] = (struct rate_terms){ 1, 7 };
    }
    assert_int_equal(allowance_open(&allowance, 1024, &terms), FAULT_NONE);
    struct address here = address_of("2001:db8::1"), neighbour = address_of("2001:db8::2"),
                   away = address_of("2001:db8:1::");
    for (int class = 0; class < RATE_CLASSES; class ++) {
        struct allowance_ask ask = { (enum rate_class) class, SLICE("ann"), NULL, SECOND };
        assert_int_equal(takes(allowance, ask, 20), 3);
        ask.user = SLICE("bob");
        assert_int_equal(takes(allowance, ask, 20), 3);
        ask = (struct allowance_ask){ (enum rate_class) class, SLICE(""), &here, SECOND };
        assert_int_equal(takes(allowance, ask, 4), 4);
        ask.address = &neighbour; /* of the same /64 */
        assert_int_equal(takes(allowance, ask, 20), 3);
        ask.address = &away;
        assert_int_equal(takes(allowance, ask, 20), 7);
    }
    allowance_close(allowance);
}

static void without_limits_nothing_is_counted(void **state)
{
    (void)state;
    struct allowance *allowance;
    struct allowance_terms terms = terms_none();
    assert_int_equal(allowance_open(&allowance, 8, &terms), FAULT_NONE);
    struct allowance_answer answer;
    struct address here = address_of("192.0.2.7");
    struct allowance_ask ask = { RATE_GRAB, SLICE("ann"), &here, SECOND };
    for (int i = 0; i < 10000; i++) assert_true(allowance_take(allowance, &ask, &answer));
    assert_false(answer.limited);
    allowance_close(allowance);
}

/* While terms change between two sets, every answer is by one of the two, never by a mixture of rate and burst. */
struct scene {
    struct allowance *allowance;
    _Atomic bool stop;
    _Atomic uint64_t strange, asked;
};

static void *scene_ask(void *arg)
{
    struct scene *scene = arg;
    struct address here = address_of("192.0.2.7");
    for (uint64_t now = SECOND; !atomic_load(&scene->stop); now += 1000) {
        struct allowance_answer answer;
        struct allowance_ask ask = { RATE_QUERY, SLICE("ann"), &here, now };
        (void)allowance_take(scene->allowance, &ask, &answer);
        bool first = answer.limit.interval_ns == SECOND / 10 && answer.limit.burst == 10;
        bool second = answer.limit.interval_ns == SECOND / 1000 && answer.limit.burst == 1000;
        if (!first && !second) atomic_fetch_add(&scene->strange, 1);
        atomic_fetch_add(&scene->asked, 1);
    }
    return NULL;
}

static void terms_change_while_threads_ask(void **state)
{
    (void)state;
    struct scene scene = { 0 };
    struct allowance_terms a = terms_none(), b = terms_none(), read;
    a.rates[RATE_IP][RATE_QUERY] = (struct rate_terms){ 10, 10 };
    b.rates[RATE_IP][RATE_QUERY] = (struct rate_terms){ 1000, 1000 };
    assert_int_equal(allowance_open(&scene.allowance, 64, &a), FAULT_NONE);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, scene_ask, &scene), 0);
    for (int i = 0; i < 2000 || atomic_load(&scene.asked) < 1000; i++) {
        const struct allowance_terms *next = i % 2 == 0 ? &b : &a;
        allowance_change(scene.allowance, next);
        allowance_read(scene.allowance, &read);
        assert_memory_equal(&read, next, sizeof(read));
    }
    atomic_store(&scene.stop, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&scene.strange), 0);
    allowance_close(scene.allowance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_a_row_with_bounds_and_a_sentence),
        cmocka_unit_test(a_row_names_the_number_it_sets),
        cmocka_unit_test(numbers_out_of_bounds_are_named),
        cmocka_unit_test(terms_go_to_json_and_back_and_absent_ones_stay),
        cmocka_unit_test(with_the_defaults_an_office_can_buy),
        cmocka_unit_test(a_refused_request_takes_from_nobody),
        cmocka_unit_test(classes_users_and_addresses_are_counted_apart),
        cmocka_unit_test(without_limits_nothing_is_counted),
        cmocka_unit_test(terms_change_while_threads_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
