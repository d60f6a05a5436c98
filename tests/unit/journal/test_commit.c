/* The committer and the preparer as they run: threads, a real disk, a clerk that reads along. */
#include "journal/commit.h"

#include "base/clock.h"
#include "base/disk.h"
#include "journal/record.h"

#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define APPENDERS 2
#define PER_APPENDER UINT64_C(60000)
#define WAIT_S_MAX 60
#define HOUR_MS UINT64_C(3600000)

static char root[64], folder[96];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct desk {
    struct journal *journal;
    uint64_t seq_last;     /* under the lock */
    _Atomic uint64_t told; /* by on_durable */
    _Atomic uint32_t told_poison;
    uint64_t seen;
    uint64_t busy;
};

static void buyer_of(uint64_t seq, char out[24])
{
    snprintf(out, 24, "buyer-%012" PRIu64, seq);
}

static void told(void *arg, uint64_t seq_durable)
{
    struct desk *desk = arg;
    if (journal_poisoned(desk->journal))
        atomic_fetch_add(&desk->told_poison, 1);
    else
        atomic_store(&desk->told, seq_durable);
}

static const char *read_decision(void *arg, const struct decision *decision)
{
    struct desk *desk = arg;
    char due[24];
    buyer_of(decision->seq, due);
    if (decision->seq != desk->seen + 1) return "out of order";
    if (decision->kind != DECISION_WON || !slice_is(decision->won.buyer, due)) return "another decision";
    desk->seen++;
    return NULL;
}

static const char *read_batch_end(void *arg, uint64_t seq, uint64_t digest)
{
    const struct desk *desk = arg;
    return seq == desk->seen && digest == seq * 3 ? NULL : "another digest";
}

static void desk_open(struct desk *desk, uint32_t segment_bytes, uint64_t space_bytes_min)
{
    memset(desk, 0, sizeof *desk);
    const struct journal_options options = { folder, segment_bytes, space_bytes_min, &lock, told, desk };
    const struct journal_reader reader = { .decision = read_decision, .batch_end = read_batch_end, .arg = desk };
    const struct journal_point point = { .seq = 0 };
    struct journal_damage damage;
    assert_int_equal(journal_open(&desk->journal, &options, &point, &reader, &damage), FAULT_NONE);
    desk->seq_last = desk->seen;
    atomic_store(&desk->told, desk->seen);
}

static bool desk_append(struct desk *desk)
{
    pthread_mutex_lock(&lock);
    const bool room = journal_has_room(desk->journal);
    if (room) {
        char buyer[24];
        const uint64_t seq = ++desk->seq_last;
        buyer_of(seq, buyer);
        const struct decision win = { .seq = seq,
                                      .at_ms = 1000 + seq,
                                      .kind = DECISION_WON,
                                      .sale_id = 1,
                                      .won = { slice_of(buyer), { NULL, 0 }, 1, -1, 0 } };
        journal_append(desk->journal, &win, seq * 3);
    } else {
        desk->busy++;
    }
    pthread_mutex_unlock(&lock);
    journal_urge(desk->journal);
    return room;
}

static void *appender_run(void *arg)
{
    struct desk *desk = arg;
    for (uint64_t done = 0; done < PER_APPENDER;) {
        if (desk_append(desk))
            done++;
        else
            usleep(200);
    }
    return NULL;
}

static void wait_until_told(struct desk *desk, uint64_t seq)
{
    const uint64_t until = mono_ms() + WAIT_S_MAX * 1000;
    while (atomic_load(&desk->told) < seq) {
        if (mono_ms() > until) fail_msg("%" PRIu64 " of %" PRIu64 " durable", atomic_load(&desk->told), seq);
        usleep(100);
    }
}

static int entry_remove(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

static int folder_new(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/stampede-commit-XXXXXX");
    if (mkdtemp(root) == NULL) return -1;
    snprintf(folder, sizeof folder, "%s/journal", root);
    return 0;
}

static int folder_drop(void **state)
{
    (void)state;
    return nftw(root, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* Two deciders, one committer, one preparer, one clerk: nothing is missing and nothing is told before it can be read. */
static void many_decisions_share_syncs_and_all_come_back(void **state)
{
    (void)state;
    struct desk desk, clerk = { .seen = 0 };
    desk_open(&desk, SEGMENT_BYTES_MIN, 0);
    assert_int_equal(journal_start(desk.journal), FAULT_NONE);
    struct journal_scan *scan;
    struct journal_damage damage;
    assert_int_equal(journal_scan_open(&scan, folder, desk.journal, 0, &damage), FAULT_NONE);

    const uint64_t began = mono_ns(), total = APPENDERS * PER_APPENDER;
    pthread_t appenders[APPENDERS];
    for (int i = 0; i < APPENDERS; i++) assert_int_equal(pthread_create(&appenders[i], NULL, appender_run, &desk), 0);
    const struct journal_reader reader = { .decision = read_decision, .batch_end = read_batch_end, .arg = &clerk };
    const uint64_t until = mono_ms() + WAIT_S_MAX * 1000;
    while (clerk.seen < total && mono_ms() < until) {
        const uint64_t mark = journal_seq_durable(desk.journal);
        bool more = true;
        while (more) assert_int_equal(journal_scan_batch(scan, &reader, &more, &damage), FAULT_NONE);
        assert_true(clerk.seen >= mark);
        usleep(300);
    }
    for (int i = 0; i < APPENDERS; i++) pthread_join(appenders[i], NULL);
    wait_until_told(&desk, total);
    const double seconds = (double)(mono_ns() - began) / 1e9;
    print_message("%.0f decisions/s, %" PRIu64 " times no room\n", (double)total / seconds, desk.busy);
    assert_int_equal(clerk.seen, total);
    journal_scan_close(scan);
    journal_close(desk.journal);

    desk_open(&desk, SEGMENT_BYTES_MIN, 0);
    assert_int_equal(desk.seen, total);
    journal_close(desk.journal);
}

static void a_lone_decision_is_durable_without_company(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk, SEGMENT_BYTES_MIN, 0);
    assert_int_equal(journal_start(desk.journal), FAULT_NONE);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_true(desk_append(&desk));
        wait_until_told(&desk, i);
        if (i % 4 == 0) usleep(3000); /* long enough for the committer to fall asleep */
    }
    journal_close(desk.journal);
}

static void close_commits_what_is_open(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 10; round++) {
        struct desk desk;
        desk_open(&desk, SEGMENT_BYTES_MIN, 0);
        assert_int_equal(desk.seen, round * 7);
        if (round % 2 == 0) assert_int_equal(journal_start(desk.journal), FAULT_NONE);
        for (int i = 0; i < 7; i++) assert_true(desk_append(&desk));
        journal_close(desk.journal);
    }
}

static void no_space_is_no_room(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk, SEGMENT_BYTES_MIN, UINT64_MAX / 2);
    assert_int_equal(journal_start(desk.journal), FAULT_NONE);
    assert_false(desk_append(&desk));
    journal_close(desk.journal);
}

static void rush(struct desk *desk)
{
    for (int i = 0; i < RUSH_DECISIONS; i++) assert_true(desk_append(desk));
    assert_int_equal(journal_commit_open(desk->journal), FAULT_NONE);
}

/* Until the spare has become the segment, where a rush leaves the preparer without one. */
static void rush_into_the_spare(struct desk *desk)
{
    assert_true(desk->journal->spare_ready);
    while (desk->journal->spare_ready) rush(desk);
    assert_true(desk->journal->segment_left > SEGMENT_BYTES_MIN / 2);
}

static void spare_look(struct desk *desk, bool made)
{
    assert_int_equal(journal_prepare_spare(desk->journal), FAULT_NONE);
    assert_int_equal(desk->journal->spare_ready, made);
}

/* As if the last look had been so long ago, and the last spare had taken so long. */
static void clock_set(struct desk *desk, uint64_t looked_ms_ago, uint64_t spare_ms)
{
    desk->journal->look.ms = mono_ms() - looked_ms_ago;
    desk->journal->look.spare_ms = spare_ms;
}

/* By turns of committer and preparer on this thread, with looks far apart, so that no clock decides. */
static void a_rush_goes_before_the_spare_while_half_of_the_segment_is_left(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk, SEGMENT_BYTES_MIN, 0);
    spare_look(&desk, true);

    rush_into_the_spare(&desk);
    clock_set(&desk, HOUR_MS, 1);
    spare_look(&desk, false);
    rush(&desk);
    clock_set(&desk, HOUR_MS, 1);
    spare_look(&desk, false);
    spare_look(&desk, true); /* nobody came any more */

    rush_into_the_spare(&desk);
    while (desk.journal->segment_left > SEGMENT_BYTES_MIN / 2) {
        clock_set(&desk, HOUR_MS, 1);
        spare_look(&desk, false);
        rush(&desk);
    }
    clock_set(&desk, HOUR_MS, 1);
    spare_look(&desk, true); /* in the middle of the rush */
    rush_into_the_spare(&desk);
    clock_set(&desk, HOUR_MS, 100 * HOUR_MS);
    spare_look(&desk, true); /* for it would come too late on a disk as slow as this */
    journal_close(desk.journal);
}

/* The descriptor under the committer is closed: the write fails, and that is the end of it. */
static void a_failed_write_poisons_once_and_for_good(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk, SEGMENT_BYTES_MIN, 0);
    const int fd = desk.journal->fd;
    char path[PATH_BYTES];
    segment_path(path, folder, 1, "");
    assert_int_equal(disk_open(path, false, &desk.journal->fd), FAULT_NONE); /* which cannot be written through */
    disk_close(fd);
    assert_int_equal(journal_start(desk.journal), FAULT_NONE);
    assert_true(desk_append(&desk));
    const uint64_t until = mono_ms() + WAIT_S_MAX * 1000;
    while (atomic_load(&desk.told_poison) == 0 && mono_ms() < until) usleep(100);
    assert_true(journal_poisoned(desk.journal));
    assert_int_equal(journal_seq_durable(desk.journal), 0);
    assert_false(desk_append(&desk));
    journal_close(desk.journal);
    assert_int_equal(atomic_load(&desk.told_poison), 1);
    assert_int_equal(atomic_load(&desk.told), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many_decisions_share_syncs_and_all_come_back, folder_new, folder_drop),
        cmocka_unit_test_setup_teardown(a_lone_decision_is_durable_without_company, folder_new, folder_drop),
        cmocka_unit_test_setup_teardown(close_commits_what_is_open, folder_new, folder_drop),
        cmocka_unit_test_setup_teardown(no_space_is_no_room, folder_new, folder_drop),
        cmocka_unit_test_setup_teardown(a_rush_goes_before_the_spare_while_half_of_the_segment_is_left, folder_new,
                                        folder_drop),
        cmocka_unit_test_setup_teardown(a_failed_write_poisons_once_and_for_good, folder_new, folder_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
