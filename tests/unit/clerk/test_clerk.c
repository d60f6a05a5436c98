/* P4 and P13 with a real gate, a real journal and a real ledger: what is durable is filed once, whatever happens between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/disk.h"
#include "base/metrics.h"
#include "clerk/clerk.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 30000       /* for what comes at once on a machine that has nothing else to do */
#define PAUSE_LONG_MS 60000 /* of a clerk that nobody wakes */

struct shop {
    char folder[64], ledger_path[128], journal_folder[128];
    struct ledger *ledger;
    struct gate *gate;
    struct gate_lane *lane;
    struct clerk *clerk;
    sem_t woken;
    uint64_t sale_id;
};

static void lane_woken(void *arg)
{
    sem_post(&((struct shop *)arg)->woken);
}

static void shop_open(struct shop *shop)
{
    struct journal_damage damage;
    assert_int_equal(ledger_open(&shop->ledger, LEDGER_FILE(shop->ledger_path), LEDGER_OWNER), FAULT_NONE);
    struct gate_options options = { .folder = shop->folder, .segment_bytes = SEGMENT_BYTES_MIN, .orders_max = 10000000 };
    enum fault fault = gate_open(&shop->gate, &options, shop->ledger, &damage);
    if (fault != FAULT_NONE) fail_msg("gate: %s at %s", damage.reason, damage.file);
    assert_int_equal(gate_start(shop->gate), FAULT_NONE);
    assert_int_equal(gate_lane_open(&shop->lane, shop->gate, lane_woken, shop), FAULT_NONE);
}

static void clerk_start(struct shop *shop, uint32_t pause_ms)
{
    struct clerk_options options = { LEDGER_FILE(shop->ledger_path), shop->journal_folder, pause_ms };
    assert_int_equal(clerk_open(&shop->clerk, &options, shop->gate), FAULT_NONE);
}

static void shop_close(struct shop *shop, uint32_t wait_ms)
{
    if (shop->clerk != NULL) clerk_close(shop->clerk, wait_ms);
    shop->clerk = NULL;
    gate_lane_close(shop->lane);
    gate_close(shop->gate);
    ledger_close(shop->ledger);
}

static int shop_setup(void **state)
{
    struct shop *shop = calloc(1, sizeof(*shop));
    snprintf(shop->folder, sizeof(shop->folder), "/tmp/stampede-clerk-XXXXXX");
    if (mkdtemp(shop->folder) == NULL) return -1;
    snprintf(shop->ledger_path, sizeof(shop->ledger_path), "%s/ledger.db", shop->folder);
    snprintf(shop->journal_folder, sizeof(shop->journal_folder), "%s/journal", shop->folder);
    sem_init(&shop->woken, 0, 0);
    shop_open(shop);
    *state = shop;
    return 0;
}

static void file_remove(void *arg, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", (const char *)arg, name);
    unlink(path);
}

static int shop_teardown(void **state)
{
    struct shop *shop = *state;
    shop_close(shop, 0);
    if (disk_each(shop->journal_folder, file_remove, shop->journal_folder) != FAULT_NONE) return -1;
    rmdir(shop->journal_folder);
    if (disk_each(shop->folder, file_remove, shop->folder) != FAULT_NONE) return -1;
    rmdir(shop->folder);
    sem_destroy(&shop->woken);
    free(shop);
    return 0;
}

static void ticket_done(struct gate_ticket *ticket)
{
    ticket->done = NULL;
}

static void ticket_wait(struct shop *shop, struct gate_ticket *ticket)
{
    for (;;) {
        gate_lane_rest(shop->lane);
        if (ticket->done == NULL) break;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        (void)sem_timedwait(&shop->woken, &until);
        gate_lane_rise(shop->lane);
    }
    gate_lane_rise(shop->lane);
}

static uint64_t sale_make(struct shop *shop, const char *name)
{
    struct sale_terms terms = {
        .price = 100, .units_per_grab_max = 2, .grabs_per_buyer_max = GRABS_PER_BUYER_MAX, .admission = ADMISSION_LOGIN
    };
    snprintf(terms.name, sizeof(terms.name), "%s", name);
    terms.opens_ms = gate_now_ms(shop->gate);
    struct gate_ticket ticket = { .done = ticket_done };
    gate_create(shop->lane, &(struct asker){ .name = SLICE("sam") }, &terms, 100000000, &ticket);
    ticket_wait(shop, &ticket);
    assert_int_equal(ticket.verdict, VERDICT_DONE);
    return ticket.sale.id;
}

static void grab(struct shop *shop, uint64_t sale_id, struct gate_ticket *ticket)
{
    struct grab grab = { .sale_id = sale_id, .buyer = SLICE("ann"), .units = 1 };
    ticket->done = ticket_done;
    gate_grab(shop->lane, &grab, ticket);
}

/* count wins, all durable when it returns. The number of the last. BUSY is an answer too: the segments here are small, and
 * the next one may not be ready yet. */
static uint64_t wins_make(struct shop *shop, uint64_t sale_id, int count)
{
    struct gate_ticket *tickets = calloc((size_t)count, sizeof(*tickets));
    uint64_t last = 0;
    for (int i = 0; i < count; i++) grab(shop, sale_id, &tickets[i]);
    for (int i = 0; i < count; i++) {
        ticket_wait(shop, &tickets[i]);
        while (tickets[i].verdict == VERDICT_BUSY) {
            usleep(1000);
            grab(shop, sale_id, &tickets[i]);
            ticket_wait(shop, &tickets[i]);
        }
        assert_int_equal(tickets[i].verdict, VERDICT_WON);
        if (tickets[i].grab.order.no > last) last = tickets[i].grab.order.no;
    }
    free(tickets);
    return last;
}

static int64_t number_of(const struct shop *shop, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(shop->ledger_path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 2000);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    int rc = sqlite3_step(s);
    int64_t number = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
    assert_true(rc == SQLITE_ROW || rc == SQLITE_DONE);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return number;
}

static void what_is_durable_is_filed_and_waited_for(void **state)
{
    struct shop *shop = *state;
    uint64_t filed_before = metrics_total(METRIC_FILED, 0);
    clerk_start(shop, PAUSE_LONG_MS); /* a pause nobody would sit through: whoever waits ends it */
    uint64_t sale_id = sale_make(shop, "lamp");
    for (int round = 1; round <= 5; round++) {
        uint64_t no = wins_make(shop, sale_id, 300);
        uint64_t before_ms = mono_ms();
        assert_int_equal(clerk_wait(shop->clerk, no, WAIT_MS), FAULT_NONE);
        assert_true(mono_ms() - before_ms < WAIT_MS);
        assert_int_equal(number_of(shop, "SELECT count(*) FROM orders"), 300 * round);
        assert_int_equal(number_of(shop, "SELECT seq FROM point"), no);
    }
    assert_int_equal(number_of(shop, "SELECT sold FROM sales"), 1500);
    assert_int_equal(metrics_total(METRIC_FILED, 0) - filed_before, 1501);
    struct clerk_status status;
    clerk_status(shop->clerk, &status);
    assert_int_equal(status.seq_filed, 1501);
    assert_false(status.failing || status.stopped);
}

static void what_is_not_decided_is_waited_for_only_so_long(void **state)
{
    struct shop *shop = *state;
    clerk_start(shop, 10);
    uint64_t before_ms = mono_ms();
    assert_int_equal(clerk_wait(shop->clerk, 1000, 120), FAULT_TIMEOUT);
    uint64_t took_ms = mono_ms() - before_ms;
    assert_in_range(took_ms, 110, WAIT_MS);
    assert_int_equal(clerk_wait(shop->clerk, 0, 0), FAULT_NONE);
}

static void nobody_needs_to_wait_or_poke_for_filing_to_happen(void **state)
{
    struct shop *shop = *state;
    clerk_start(shop, 30);
    wins_make(shop, sale_make(shop, "lamp"), 50);
    uint64_t until_ms = mono_ms() + WAIT_MS;
    while (number_of(shop, "SELECT count(*) FROM orders") < 50 && mono_ms() < until_ms) usleep(5000);
    assert_int_equal(number_of(shop, "SELECT count(*) FROM orders"), 50);
}

static void closing_files_what_is_durable_first(void **state)
{
    struct shop *shop = *state;
    uint64_t sale_id = sale_make(shop, "lamp");
    wins_make(shop, sale_id, 3000);
    clerk_start(shop, PAUSE_LONG_MS);
    shop_close(shop, WAIT_MS);
    shop_open(shop); /* checks the filed digest against the journal (P5) */
    assert_int_equal(number_of(shop, "SELECT count(*) FROM orders"), 3000);
    assert_int_equal(number_of(shop, "SELECT seq FROM point"), 3001);
    clerk_start(shop, 1);
    assert_int_equal(clerk_wait(shop->clerk, wins_make(shop, sale_id, 10), WAIT_MS), FAULT_NONE);
    assert_int_equal(number_of(shop, "SELECT count(*) FROM orders"), 3010);
    assert_int_equal(number_of(shop, "SELECT sold FROM sales"), 3010);
}

static void a_locked_ledger_is_retried_until_it_opens(void **state)
{
    struct shop *shop = *state;
    uint64_t failures_before = metrics_total(METRIC_LEDGER_FAILURES, 0);
    uint64_t sale_id = sale_make(shop, "lamp");
    clerk_start(shop, 1);
    assert_int_equal(clerk_wait(shop->clerk, 1, WAIT_MS), FAULT_NONE);

    sqlite3 *other;
    assert_int_equal(sqlite3_open(shop->ledger_path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE; UPDATE point SET at_ms = 0", NULL, NULL, NULL), SQLITE_OK);
    uint64_t no = wins_make(shop, sale_id, 500); /* selling goes on */
    struct clerk_status status = { 0 };
    for (uint64_t until_ms = mono_ms() + WAIT_MS; !status.failing && mono_ms() < until_ms; usleep(5000))
        clerk_status(shop->clerk, &status);
    assert_true(status.failing);
    assert_false(status.stopped);
    assert_int_equal(clerk_wait(shop->clerk, no, 50), FAULT_TIMEOUT);
    no = wins_make(shop, sale_id, 500);
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);

    assert_int_equal(clerk_wait(shop->clerk, no, WAIT_MS), FAULT_NONE);
    assert_int_equal(number_of(shop, "SELECT count(*) FROM orders"), 1000);
    assert_int_equal(number_of(shop, "SELECT sold FROM sales"), 1000);
    assert_true(metrics_total(METRIC_LEDGER_FAILURES, 0) > failures_before);
    for (uint64_t until_ms = mono_ms() + WAIT_MS; status.failing && mono_ms() < until_ms; usleep(2000))
        clerk_status(shop->clerk, &status);
    assert_false(status.failing);
}

static void closing_beside_a_locked_ledger_ends_in_time(void **state)
{
    struct shop *shop = *state;
    uint64_t sale_id = sale_make(shop, "lamp");
    sqlite3 *other;
    assert_int_equal(sqlite3_open(shop->ledger_path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    clerk_start(shop, 1);
    wins_make(shop, sale_id, 100);
    uint64_t before_ms = mono_ms();
    clerk_close(shop->clerk, 300);
    shop->clerk = NULL;
    assert_in_range(mono_ms() - before_ms, 250, WAIT_MS);
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);

    clerk_start(shop, 1);
    assert_int_equal(clerk_wait(shop->clerk, 101, WAIT_MS), FAULT_NONE);
    assert_int_equal(number_of(shop, "SELECT count(*) FROM orders"), 100);
}

static void a_row_that_differs_stops_the_clerk_for_good(void **state)
{
    struct shop *shop = *state;
    uint64_t sale_id = sale_make(shop, "lamp");
    number_of(shop, "INSERT INTO orders VALUES (3, 1, 'thief', 9, 0, 1, 1, 0, '', 0, '', 0, 0, '', NULL)");
    clerk_start(shop, 1);
    uint64_t no = wins_make(shop, sale_id, 10);
    assert_int_equal(clerk_wait(shop->clerk, no, WAIT_MS), FAULT_DAMAGE);
    struct clerk_status status;
    clerk_status(shop->clerk, &status);
    assert_true(status.stopped);
    assert_true(status.seq_filed < 3);
    wins_make(shop, sale_id, 10); /* selling goes on, the journal keeps it */
    assert_int_equal(number_of(shop, "SELECT count(*) FROM orders WHERE buyer = 'thief'"), 1);
    assert_int_equal(number_of(shop, "SELECT max(seq) FROM point"), status.seq_filed);
}

struct waiter {
    struct clerk *clerk;
    uint64_t seq;
    enum fault fault;
};

static void *wait_thread(void *arg)
{
    struct waiter *waiter = arg;
    waiter->fault = clerk_wait(waiter->clerk, waiter->seq, WAIT_MS);
    return NULL;
}

static void many_wait_at_once(void **state)
{
    struct shop *shop = *state;
    clerk_start(shop, PAUSE_LONG_MS);
    uint64_t sale_id = sale_make(shop, "lamp");
    struct waiter waiters[16];
    pthread_t threads[16];
    for (int i = 0; i < 16; i++) {
        waiters[i] = (struct waiter){ shop->clerk, 2 + (uint64_t)i * 20, FAULT_NONE };
        assert_int_equal(pthread_create(&threads[i], NULL, wait_thread, &waiters[i]), 0);
    }
    for (int i = 0; i < 16; i++) wins_make(shop, sale_id, 20);
    for (int i = 0; i < 16; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(waiters[i].fault, FAULT_NONE);
    }
}

/* The child sells and files until it is killed; the parent then counts. */
static void sell_until_killed(struct shop *shop)
{
    shop_open(shop);
    clerk_start(shop, 0);
    uint64_t sale_id = shop->sale_id;
    for (;;) {
        uint64_t no = wins_make(shop, sale_id, 200);
        if (no % 3 == 0 && clerk_wait(shop->clerk, no, WAIT_MS) != FAULT_NONE) _exit(1);
    }
}

static void killed_at_any_moment_files_exactly_once(void **state)
{
    struct shop *shop = *state;
    shop->sale_id = sale_make(shop, "lamp");
    shop_close(shop, 0);
    srand((unsigned)time(NULL));
    for (int cycle = 0; cycle < 8; cycle++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) sell_until_killed(shop);
        usleep((useconds_t)(30000 + rand() % 150000));
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    shop_open(shop);
    clerk_start(shop, 0);
    uint64_t no = wins_make(shop, shop->sale_id, 1);
    assert_int_equal(clerk_wait(shop->clerk, no, WAIT_MS), FAULT_NONE);
    struct sale sale;
    assert_true(gate_sale(shop->gate, shop->sale_id, &sale));
    /* Sale 1 is decision 1, every other one a win of one unit: rows = wins = units sold. */
    assert_int_equal(number_of(shop, "SELECT count(*) FROM orders"), no - 1);
    assert_int_equal(number_of(shop, "SELECT sold FROM sales"), no - 1);
    assert_int_equal(sale.counts.sold, no - 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, shop_setup, shop_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_durable_is_filed_and_waited_for),           CASE(what_is_not_decided_is_waited_for_only_so_long),
        CASE(nobody_needs_to_wait_or_poke_for_filing_to_happen), CASE(closing_files_what_is_durable_first),
        CASE(a_locked_ledger_is_retried_until_it_opens),         CASE(closing_beside_a_locked_ledger_ends_in_time),
        CASE(a_row_that_differs_stops_the_clerk_for_good),       CASE(many_wait_at_once),
        CASE(killed_at_any_moment_files_exactly_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
