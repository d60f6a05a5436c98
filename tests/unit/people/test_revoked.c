/* Never a false "not revoked", whatever else happens to the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "people/revoked.h"

static void put(struct revoked *revoked, uint64_t id, uint64_t expires_ms)
{
    assert_true(revoked_reserve(revoked, 0, 1));
    revoked_put(revoked, id, expires_ms);
}

static void ids_that_meet_in_a_slot_are_all_found(void **state)
{
    (void)state;
    struct revoked revoked;
    assert_int_equal(revoked_open(&revoked, 64), FAULT_NONE);
    assert_false(revoked_has(&revoked, 7));
    for (uint64_t i = 1; i <= 40; i++) put(&revoked, i * 64 + 63, 1000);
    for (uint64_t i = 1; i <= 40; i++) assert_true(revoked_has(&revoked, i * 64 + 63));
    assert_false(revoked_has(&revoked, 41 * 64 + 63));
    assert_false(revoked_has(&revoked, 63));
    revoked_close(&revoked);
}

static void a_full_table_takes_no_more_and_forgets_nothing(void **state)
{
    (void)state;
    struct revoked revoked;
    assert_int_equal(revoked_open(&revoked, 64), FAULT_NONE);
    for (uint64_t id = 1; id <= 48; id++) put(&revoked, id, 1000);
    assert_false(revoked_reserve(&revoked, 0, 1));
    for (uint64_t id = 1; id <= 48; id++) assert_true(revoked_has(&revoked, id));
    revoked_close(&revoked);
}

static void reservations_count_as_taken(void **state)
{
    (void)state;
    struct revoked revoked;
    assert_int_equal(revoked_open(&revoked, 8), FAULT_NONE);
    for (int i = 0; i < 6; i++) assert_true(revoked_reserve(&revoked, 0, 1));
    assert_false(revoked_reserve(&revoked, 0, 1));
    revoked_unreserve(&revoked);
    assert_true(revoked_reserve(&revoked, 0, 1));
    for (int i = 0; i < 6; i++) revoked_put(&revoked, 9, 1000); /* the same logout, asked six times */
    for (uint64_t id = 1; id <= 5; id++) put(&revoked, id, 1000);
    assert_false(revoked_reserve(&revoked, 0, 1));
    revoked_close(&revoked);
}

static void the_expired_go_and_the_others_stay(void **state)
{
    (void)state;
    struct revoked revoked;
    assert_int_equal(revoked_open(&revoked, 64), FAULT_NONE);
    for (uint64_t id = 1; id <= 40; id++) put(&revoked, id, id % 2 == 0 ? 1000 : 900000);
    /* Not before the margin is over: someone may still read an earlier time. */
    assert_false(revoked_purge(&revoked, 1000 + REVOKED_MARGIN_MS - 1, 1));
    assert_true(revoked_purge(&revoked, 1000 + REVOKED_MARGIN_MS, 1));
    for (uint64_t id = 1; id <= 40; id++) assert_int_equal(revoked_has(&revoked, id), id % 2 == 1);

    put(&revoked, 50, 1000);
    uint64_t now_ms = 1000 + REVOKED_MARGIN_MS;
    assert_false(revoked_purge(&revoked, now_ms, REVOKED_PURGE_PAUSE_MS)); /* a minute has not passed */
    assert_true(revoked_has(&revoked, 50));
    assert_true(revoked_purge(&revoked, now_ms, 1 + REVOKED_PURGE_PAUSE_MS));
    assert_false(revoked_has(&revoked, 50));
    assert_true(revoked_purge(&revoked, 900000 + REVOKED_MARGIN_MS, 1 + 2 * REVOKED_PURGE_PAUSE_MS));
    for (uint64_t id = 1; id <= 50; id++) assert_false(revoked_has(&revoked, id));
    revoked_close(&revoked);
}

static void a_full_table_makes_room_by_itself_when_tokens_expired(void **state)
{
    (void)state;
    struct revoked revoked;
    assert_int_equal(revoked_open(&revoked, 64), FAULT_NONE);
    for (uint64_t id = 1; id <= 48; id++) put(&revoked, id, id <= 10 ? 1000 : 900000);
    assert_false(revoked_reserve(&revoked, 1000, 1));
    for (int i = 0; i < 10; i++) assert_true(revoked_reserve(&revoked, 1000 + REVOKED_MARGIN_MS, 1));
    assert_false(revoked_reserve(&revoked, 1000 + REVOKED_MARGIN_MS, 2));
    for (uint64_t id = 11; id <= 48; id++) assert_true(revoked_has(&revoked, id));
    revoked_close(&revoked);
}

/* Readers look all the time for ids that are revoked and stay so, while the table is rebuilt over and over. All ids meet in
 * slot 0, so that a look-up takes long, and the next purge begins at once: it clears the table under the feet of readers who
 * began in it, who must notice. */
enum { SLOTS = 4096, CHAIN = 1000, ROUNDS = 400 };

struct crowd {
    struct revoked revoked;
    _Atomic bool stop;
    _Atomic uint64_t missed, looked;
};

static void *look(void *arg)
{
    struct crowd *crowd = arg;
    while (!atomic_load(&crowd->stop)) {
        for (uint64_t id = CHAIN - 20; id <= CHAIN; id++) {
            if (!revoked_has(&crowd->revoked, id * SLOTS)) atomic_fetch_add(&crowd->missed, 1);
        }
        atomic_fetch_add(&crowd->looked, 1);
    }
    return NULL;
}

static void no_reader_misses_a_revoked_token_while_tables_change(void **state)
{
    (void)state;
    static struct crowd crowd;
    assert_int_equal(revoked_open(&crowd.revoked, SLOTS), FAULT_NONE);
    for (uint64_t id = 1; id <= CHAIN; id++) put(&crowd.revoked, id * SLOTS, UINT64_MAX / 2);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, look, &crowd), 0);
    uint64_t mono_now_ms = 1;
    for (int round = 0; round < ROUNDS || atomic_load(&crowd.looked) == 0; round++) {
        put(&crowd.revoked, SLOTS - 1, 5);
        mono_now_ms += REVOKED_PURGE_PAUSE_MS;
        assert_true(revoked_purge(&crowd.revoked, 5 + REVOKED_MARGIN_MS, mono_now_ms));
    }
    atomic_store(&crowd.stop, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    assert_true(atomic_load(&crowd.looked) > 0);
    assert_int_equal(atomic_load(&crowd.missed), 0);
    revoked_close(&crowd.revoked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_that_meet_in_a_slot_are_all_found),
        cmocka_unit_test(a_full_table_takes_no_more_and_forgets_nothing),
        cmocka_unit_test(reservations_count_as_taken),
        cmocka_unit_test(the_expired_go_and_the_others_stay),
        cmocka_unit_test(a_full_table_makes_room_by_itself_when_tokens_expired),
        cmocka_unit_test(no_reader_misses_a_revoked_token_while_tables_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
