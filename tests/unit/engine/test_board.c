#include "stage.h"

#include "base/clock.h"
#include "engine/board.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define WRITE_NS_MIN UINT64_C(300000000)
#define READS_MIN 20000

/* Every number on the board follows from its version of the sale, so that a mixture of two shows. */
static struct sale sale_of(uint64_t n)
{
    struct sale sale = { .id = n, .paused = n % 2 == 0, .closed = n % 3 == 0 };
    sale.terms.opens_ms = n + 1;
    sale.terms.closes_ms = n + 2;
    sale.terms.units_per_grab_max = (uint32_t)(n + 3);
    sale.counts.available = (uint32_t)(n + 4);
    sale.terms.admission = (enum admission)(n % 4);
    sale.orders_made = n + 5;
    sale.terms.admit_max = (uint32_t)(n + 6);
    sale.terms.line_rate_per_s = (uint32_t)(n + 7);
    sale.terms.line_size = (uint32_t)(n + 8);
    sale.terms.line_timeout_ms = (uint32_t)(n + 9);
    if (n % 5 == 0) sale.terms.line_name[0] = 'a';
    return sale;
}

static bool is_of(const struct board_notice *notice, uint64_t n)
{
    return notice->sale_id == n && notice->opens_ms == n + 1 && notice->closes_ms == n + 2 &&
           notice->units_per_grab_max == n + 3 && notice->available == n + 4 && notice->paused == (n % 2 == 0) &&
           notice->closed == (n % 3 == 0) && notice->admission == (enum admission)(n % 4) && notice->orders_made == n + 5 &&
           notice->admit_max == n + 6 && notice->line_rate_per_s == n + 7 && notice->line_size == n + 8 &&
           notice->line_timeout_ms == n + 9 && notice->line_named == (n % 5 == 0);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct board board = { 0 };
    struct board_notice notice;
    for (uint64_t n = 1; n <= 30; n++) {
        struct sale sale = sale_of(n);
        board_write(&board, &sale);
        assert_true(board_read(&board, &notice));
        assert_true(is_of(&notice, n));
    }
    board_clear(&board);
    assert_true(board_read(&board, &notice));
    assert_int_equal(notice.sale_id, 0);
}

static void a_board_that_is_being_written_says_so(void **state)
{
    (void)state;
    struct board board = { 0 };
    struct board_notice notice;
    struct sale sale = sale_of(1);
    board_write(&board, &sale);
    atomic_fetch_add(&board.version, 1);
    assert_false(board_read(&board, &notice));
    atomic_fetch_add(&board.version, 1);
    assert_true(board_read(&board, &notice));
}

static void a_notice_that_was_replaced_stands_no_more(void **state)
{
    (void)state;
    struct board board = { 0 };
    struct board_notice notice;
    struct sale sale = sale_of(1);
    board_write(&board, &sale);
    assert_true(board_read(&board, &notice));
    assert_true(board_is_still(&board, &notice));
    board_write(&board, &sale); /* the same once more: something has happened in between */
    assert_false(board_is_still(&board, &notice));
    assert_true(board_read(&board, &notice));
    board_clear(&board);
    assert_false(board_is_still(&board, &notice));
}

struct shared {
    struct board board;
    _Atomic bool over;
    _Atomic uint64_t reads, torn;
};

static void *reader_run(void *arg)
{
    struct shared *shared = arg;
    while (!atomic_load_explicit(&shared->over, memory_order_relaxed)) {
        struct board_notice notice;
        if (!board_read(&shared->board, &notice)) continue;
        if (!is_of(&notice, notice.sale_id)) atomic_fetch_add(&shared->torn, 1);
        atomic_fetch_add_explicit(&shared->reads, 1, memory_order_relaxed);
    }
    return NULL;
}

/* The sales are made beforehand, so that the writer is at the board nearly all the time. */
static void a_snapshot_is_never_a_mixture(void **state)
{
    (void)state;
    enum { SALES = 64 };
    struct shared shared = { 0 };
    struct sale *sales = calloc(SALES, sizeof *sales);
    assert_non_null(sales);
    for (uint64_t n = 0; n < SALES; n++) sales[n] = sale_of(n + 1);
    board_write(&shared.board, &sales[0]);

    pthread_t readers[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&readers[i], NULL, reader_run, &shared), 0);
    uint64_t end_ns = mono_ns() + WRITE_NS_MIN;
    while (mono_ns() < end_ns || atomic_load_explicit(&shared.reads, memory_order_relaxed) < READS_MIN)
        for (uint32_t i = 0; i < 1000; i++) board_write(&shared.board, &sales[i % SALES]);
    atomic_store(&shared.over, true);
    for (int i = 0; i < 3; i++) pthread_join(readers[i], NULL);
    assert_int_equal(atomic_load(&shared.torn), 0);
    free(sales);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_board_that_is_being_written_says_so),
        cmocka_unit_test(a_notice_that_was_replaced_stands_no_more),
        cmocka_unit_test(a_snapshot_is_never_a_mixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
