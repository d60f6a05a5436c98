#include "base/random.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

static void bytes_fill_exactly_what_was_asked(void **state)
{
    (void)state;
    /* Every byte must change in some of many fills. */
    static uint8_t memory[5000 + 2], changed[5000];
    for (int round = 0; round < 20; round++) {
        memset(memory, 0, sizeof memory);
        random_bytes(memory + 1, 5000);
        assert_int_equal(memory[0], 0);
        assert_int_equal(memory[5001], 0);
        for (size_t i = 0; i < 5000; i++) changed[i] |= memory[i + 1];
    }
    for (size_t i = 0; i < 5000; i++) assert_int_not_equal(changed[i], 0);
}

static volatile sig_atomic_t rings;

static void alarm_ring(int number)
{
    (void)number;
    rings++;
}

/* A signal makes the kernel stop half-way through a large request. */
static void a_request_cut_short_by_signals_is_filled_to_the_end(void **state)
{
    (void)state;
    struct sigaction action = { .sa_handler = alarm_ring }, before;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    const struct itimerval every_ms = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
    size_t size = 16 << 20;
    uint8_t *memory = calloc(size, 1), zeros[64] = { 0 };
    assert_non_null(memory);

    assert_int_equal(setitimer(ITIMER_REAL, &every_ms, NULL), 0);
    while (rings < 20) random_bytes(memory, size);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);

    for (size_t at = 0; at < size; at += 64) assert_memory_not_equal(memory + at, zeros, 64);
    free(memory);
}

static void none_asked_is_none_written(void **state)
{
    (void)state;
    uint8_t byte = 7;
    random_bytes(&byte, 0);
    assert_int_equal(byte, 7);
}

static void two_keys_are_never_alike(void **state)
{
    (void)state;
    uint8_t keys[200][16];
    for (size_t i = 0; i < 200; i++) random_bytes(keys[i], 16);
    for (size_t i = 0; i < 200; i++) {
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(keys[i], keys[j], 16);
    }
}

static void bits_are_set_half_of_the_time(void **state)
{
    (void)state;
    static uint8_t memory[100000];
    random_bytes(memory, sizeof memory);
    size_t ones = 0;
    for (size_t i = 0; i < sizeof memory; i++) ones += (size_t)__builtin_popcount(memory[i]);
    /* 800,000 bits: mean 400,000, deviation 447; ten deviations either way. */
    assert_in_range(ones, 395528, 404472);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_fill_exactly_what_was_asked),
        cmocka_unit_test(a_request_cut_short_by_signals_is_filled_to_the_end),
        cmocka_unit_test(none_asked_is_none_written),
        cmocka_unit_test(two_keys_are_never_alike),
        cmocka_unit_test(bits_are_set_half_of_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
