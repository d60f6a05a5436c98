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
static struct limit_terms terms_none(void)
{
    struct limit_terms terms;
    limit_terms_default(&terms);
    for (int scope = 0; scope < RATE_SCOPES; scope++) {
        for (int class = 0; class < RATE_CLASSES; class ++) terms.rates[scope][class] = (struct rate_terms){ 0, 1 };
    }
    terms.connections_per_ip = 0;
    return terms;
}

static struct allowance_ask ask_of(enum rate_class class, const char *user, const struct address *address, uint64_t now_ns)
{
    return (struct allowance_ask){ .class = class, .user = slice_of(user), .address = address, .now_ns = now_ns };
}

/* As a request asks: its address, everyone, its user. The scope that refused, or RATE_SCOPES. */
static enum rate_scope asked(struct allowance *allowance, struct allowance_ask ask, struct allowance_answer *answer)
{
    static const enum rate_scope scopes[] = { RATE_IP, RATE_GLOBAL, RATE_USER };
    for (int i = 0; i < RATE_SCOPES; i++) {
        if (allowance_take(allowance, scopes[i], &ask, answer)) continue;
        assert_int_equal(ask.taken_count, 0);
        return scopes[i];
    }
    return RATE_SCOPES;
}

static int takes(struct allowance *allowance, struct allowance_ask ask, int tries)
{
    struct allowance_answer answer;
    int passed = 0;
    for (int i = 0; i < tries; i++) passed += asked(allowance, ask, &answer) == RATE_SCOPES;
    return passed;
}

static void terms_go_to_json_and_back_and_absent_ones_stay(void **state)
{
    (void)state;
    struct json_field fields[LIMIT_ROWS];
    allowance_fields(fields);
    struct limit_terms terms, back;
    limit_terms_default(&terms);
    memset(&back, 0, sizeof(back));
    for (size_t i = 0; i < LIMIT_ROWS; i++) limit_terms_set(&terms, &limit_rows[i], (int64_t)i + 1);
    char text[4096];
    struct json_out out;
    json_out_init(&out, text, sizeof(text));
    allowance_render(&out, &terms);
    assert_false(out.overflow);
    struct json_found found;
    if (!json_read((struct slice){ text, out.len }, fields, LIMIT_ROWS, &back, &found)) fail_msg("%s", found.objection);
    assert_memory_equal(&back, &terms, sizeof(terms));

    assert_true(json_read(SLICE("{\"ip_grab_per_s\": 0}"), fields, LIMIT_ROWS, &back, &found));
    terms.rates[RATE_IP][RATE_GRAB].per_s = 0;
    assert_memory_equal(&back, &terms, sizeof(terms));

    static const char *const bad[] = {
        "{\"ip_grab_per_s\": -1}",   "{\"ip_grab_per_s\": 10000001}", "{\"ip_grab_burst\": 0}",
        "{\"ip_grab_per_s\": 1.5}",  "{\"ip_grab_per_s\": \"5\"}",    "{\"ip_grab_per_s\": 18446744073709551616}",
        "{\"ip_grab_per_s\": null}", "{\"ip_grabs_per_s\": 5}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (json_read(slice_of(bad[i]), fields, LIMIT_ROWS, &back, &found)) fail_msg("%s was taken", bad[i]);
        assert_non_null(strstr(found.objection, "ip_grab"));
    }
}

/* An office of 80 behind one address, each as fast as a person with a nervous finger: nobody is refused. */
static void with_the_defaults_an_office_can_buy(void **state)
{
    (void)state;
    struct allowance *allowance;
    struct limit_terms terms;
    limit_terms_default(&terms);
    assert_int_equal(allowance_open(&allowance, 4096, &terms), FAULT_NONE);
    struct address office = address_of("192.0.2.7");
    for (uint64_t ms = 0; ms < 5000; ms += 100) {
        for (int person = 0; person < 80; person++) {
            char name[16];
            snprintf(name, sizeof(name), "person%d", person);
            struct allowance_answer answer;
            struct allowance_ask ask = ask_of(RATE_GRAB, name, &office, SECOND + ms * 1000000);
            assert_int_equal(asked(allowance, ask, &answer), RATE_SCOPES);
            assert_true(answer.limited);
        }
    }
    /* A program among them is refused as a user, and the others still buy. */
    assert_int_equal(takes(allowance, ask_of(RATE_GRAB, "program", &office, 7 * SECOND), 100000), 10000);
    assert_int_equal(takes(allowance, ask_of(RATE_GRAB, "person1", &office, 7 * SECOND), 10), 10);
    allowance_close(allowance);
}

static void a_refused_request_takes_from_nobody(void **state)
{
    (void)state;
    struct allowance *allowance;
    struct limit_terms terms = terms_none();
    terms.rates[RATE_USER][RATE_GRAB] = (struct rate_terms){ 1, 5 };
    terms.rates[RATE_IP][RATE_GRAB] = (struct rate_terms){ 1, 10 };
    terms.rates[RATE_GLOBAL][RATE_GRAB] = (struct rate_terms){ 1, 12 };
    assert_int_equal(allowance_open(&allowance, 64, &terms), FAULT_NONE);
    struct address here = address_of("192.0.2.7"), there = address_of("192.0.2.8");
    struct allowance_answer answer;
    struct allowance_ask ann = ask_of(RATE_GRAB, "ann", &here, SECOND), bob = ask_of(RATE_GRAB, "bob", &here, SECOND);
    struct allowance_ask cat = ask_of(RATE_GRAB, "cat", &here, SECOND), dan = ask_of(RATE_GRAB, "dan", &there, SECOND);

    assert_int_equal(takes(allowance, ann, 100), 5);
    assert_int_equal(asked(allowance, ann, &answer), RATE_USER);
    assert_int_equal(answer.limit.burst, 5);
    assert_int_equal(answer.rate.retry_ms, 1000);
    assert_int_equal(takes(allowance, bob, 4), 4);
    assert_int_equal(asked(allowance, bob, &answer), RATE_SCOPES);
    assert_int_equal(takes(allowance, cat, 100), 0); /* the address has nothing left */
    assert_int_equal(asked(allowance, cat, &answer), RATE_IP);
    assert_int_equal(takes(allowance, dan, 100), 2); /* nor has everyone */
    assert_int_equal(asked(allowance, dan, &answer), RATE_GLOBAL);
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
    struct limit_terms terms = terms_none();
    for (int class = 0; class < RATE_CLASSES; class ++) {
        terms.rates[RATE_USER][class] = (struct rate_terms){ 1, 3 };
        terms.rates[RATE_IP][class] = (struct rate_terms){ 1, 7 };
    }
    assert_int_equal(allowance_open(&allowance, 1024, &terms), FAULT_NONE);
    struct address here = address_of("2001:db8::1"), neighbour = address_of("2001:db8::2"),
                   away = address_of("2001:db8:1::");
    for (int class = 0; class < RATE_CLASSES; class ++) {
        struct allowance_ask ask = ask_of((enum rate_class) class, "ann", NULL, SECOND);
        assert_int_equal(takes(allowance, ask, 20), 3);
        ask.user = SLICE("bob");
        assert_int_equal(takes(allowance, ask, 20), 3);
        ask = ask_of((enum rate_class) class, "", &here, SECOND);
        assert_int_equal(takes(allowance, ask, 4), 4);
        ask.address = &neighbour; /* of the same /64 */
        assert_int_equal(takes(allowance, ask, 20), 3);
        ask.address = &away;
        assert_int_equal(takes(allowance, ask, 20), 7);
    }
    allowance_close(allowance);
}

/* Announced or not, a request finds the same buckets, also where the limit is set in between. */
static void a_take_that_was_expected_counts_like_any_other(void **state)
{
    (void)state;
    struct allowance *allowance;
    struct limit_terms terms = terms_none();
    assert_int_equal(allowance_open(&allowance, 1024, &terms), FAULT_NONE);
    struct address here = address_of("192.0.2.1");
    struct allowance_ask early = ask_of(RATE_GRAB, "ann", &here, SECOND);
    for (enum rate_scope scope = 0; scope < RATE_SCOPES; scope++) allowance_expect(allowance, scope, &early);
    for (int scope = 0; scope < RATE_SCOPES; scope++) terms.rates[scope][RATE_GRAB] = (struct rate_terms){ 1, 10 };
    terms.rates[RATE_USER][RATE_GRAB].burst = 4;
    allowance_change(allowance, &terms);
    struct allowance_ask late = ask_of(RATE_GRAB, "ann", &here, SECOND);
    for (enum rate_scope scope = 0; scope < RATE_SCOPES; scope++) allowance_expect(allowance, scope, &late);
    assert_int_equal(takes(allowance, early, 1), 1);
    assert_int_equal(takes(allowance, late, 1), 1);
    assert_int_equal(takes(allowance, ask_of(RATE_GRAB, "ann", &here, SECOND), 9), 2);
    assert_int_equal(takes(allowance, ask_of(RATE_GRAB, "bob", &here, SECOND), 9), 4);
    assert_int_equal(takes(allowance, ask_of(RATE_GRAB, "cat", &here, SECOND), 9), 2); /* all that is left to the address */
    allowance_close(allowance);
}

static void without_limits_nothing_is_counted(void **state)
{
    (void)state;
    struct allowance *allowance;
    struct limit_terms terms = terms_none();
    assert_int_equal(allowance_open(&allowance, 8, &terms), FAULT_NONE);
    struct allowance_answer answer;
    struct address here = address_of("192.0.2.7");
    struct allowance_ask ask = ask_of(RATE_GRAB, "ann", &here, SECOND);
    for (int i = 0; i < 10000; i++) assert_int_equal(asked(allowance, ask, &answer), RATE_SCOPES);
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
        struct allowance_ask ask = ask_of(RATE_QUERY, "ann", &here, now);
        (void)asked(scene->allowance, ask, &answer);
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
    struct limit_terms a = terms_none(), b = terms_none(), read;
    a.rates[RATE_IP][RATE_QUERY] = (struct rate_terms){ 10, 10 };
    b.rates[RATE_IP][RATE_QUERY] = (struct rate_terms){ 1000, 1000 };
    assert_int_equal(allowance_open(&scene.allowance, 64, &a), FAULT_NONE);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, scene_ask, &scene), 0);
    for (int i = 0; i < 2000 || atomic_load(&scene.asked) < 1000; i++) {
        const struct limit_terms *next = i % 2 == 0 ? &b : &a;
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
        cmocka_unit_test(terms_go_to_json_and_back_and_absent_ones_stay),
        cmocka_unit_test(with_the_defaults_an_office_can_buy),
        cmocka_unit_test(a_refused_request_takes_from_nobody),
        cmocka_unit_test(classes_users_and_addresses_are_counted_apart),
        cmocka_unit_test(a_take_that_was_expected_counts_like_any_other),
        cmocka_unit_test(without_limits_nothing_is_counted),
        cmocka_unit_test(terms_change_while_threads_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
