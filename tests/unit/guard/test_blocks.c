/* The list as its interface changes it, and the threads that look meanwhile. */
#include "list_stage.h"

#include "base/clock.h"
#include "guard/blocks_state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A sanitizer makes everything ten times as slow. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define PAIRS_MANY 50000u
#else
#define PAIRS_MANY 500000u
#endif

static void adding_and_removing_write_the_file_and_keep_what_is_others(void **state)
{
    struct list_stage *stage = *state;
    list_open(stage);
    assert_false(list_add(stage, "user ann"));
    assert_true(list_has_user(stage, "ann"));
    assert_string_equal(list_file_text(stage->path), "user ann\n");
    assert_true(list_add(stage, "user   ann"));
    assert_string_equal(list_file_text(stage->path), "user ann\n");

    list_file_put(stage->path, "# why\n\nuser ann  # spam\r\nip 2001:DB8::/32 # theirs\nuser  ann\nuser bob");
    assert_false(list_add(stage, "ip 10.0.0.0/8"));
    assert_string_equal(list_file_text(stage->path),
                        "# why\n\nuser ann  # spam\r\nip 2001:DB8::/32 # theirs\nuser  ann\nuser bob\n"
                        "ip 10.0.0.0/8\n");
    /* What was in the file is in force too, whether or not the watcher has seen it. */
    assert_true(list_has_user(stage, "bob") && list_has_ip(stage, "2001:db8::1") && list_has_ip(stage, "10.0.0.1"));
    assert_true(list_add(stage, "ip 2001:db8::/32"));

    assert_true(list_take(stage, "user ann")); /* both lines of it */
    assert_false(list_has_user(stage, "ann"));
    assert_string_equal(list_file_text(stage->path), "# why\n\nip 2001:DB8::/32 # theirs\nuser bob\nip 10.0.0.0/8\n");
    assert_false(list_take(stage, "user ann"));
    assert_false(list_take(stage, "ip 10.0.0.1")); /* within a network is not the network */
    assert_true(list_take(stage, "ip ::ffff:10.0.0.0/104"));
    assert_false(list_has_ip(stage, "10.0.0.1"));
    assert_int_equal(blocks_count(stage->blocks), 2);
    assert_int_equal(access(stage->aside, F_OK), -1);
}

static void a_rewritten_file_keeps_its_rights(void **state)
{
    struct list_stage *stage = *state;
    struct stat info;
    list_open(stage);
    list_add(stage, "user ann");
    assert_int_equal(stat(stage->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(chmod(stage->path, 0644), 0);
    list_add(stage, "user bob");
    assert_int_equal(stat(stage->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0644);
}

static void what_was_added_is_there_after_a_restart(void **state)
{
    struct list_stage *stage = *state;
    list_open(stage);
    list_add(stage, "user ann");
    list_add(stage, "ip 2001:db8::/48");
    list_take(stage, "user ann");
    blocks_reader_close(stage->reader);
    blocks_close(stage->blocks);
    list_open(stage);
    assert_int_equal(blocks_count(stage->blocks), 1);
    assert_true(list_has_ip(stage, "2001:db8::9"));
    assert_false(list_has_user(stage, "ann"));
}

static void what_is_expected_is_looked_for_in_the_list_of_then(void **state)
{
    struct list_stage *stage = *state;
    list_file_put(stage->path, "user eve\n");
    list_open(stage);
    uint64_t ann = blocks_expect_user(stage->reader, SLICE("ann")), eve = blocks_expect_user(stage->reader, SLICE("eve"));
    assert_false(blocks_has_expected(stage->reader, SLICE("ann"), ann));
    assert_true(blocks_has_expected(stage->reader, SLICE("eve"), eve));
    list_add(stage, "user ann");
    list_take(stage, "user eve");
    assert_true(blocks_has_expected(stage->reader, SLICE("ann"), ann));
    assert_false(blocks_has_expected(stage->reader, SLICE("eve"), eve));
    list_take(stage, "user ann");
    assert_false(blocks_has_expected(stage->reader, SLICE("ann"), ann));
    assert_false(blocks_has_expected(stage->reader, SLICE("bob"), blocks_expect_user(stage->reader, SLICE("bob"))));
}

static void a_list_that_has_changed_has_another_version(void **state)
{
    struct list_stage *stage = *state;
    list_open(stage);
    uint64_t before = blocks_version(stage->reader);
    assert_int_equal(blocks_version(stage->reader), before);
    list_add(stage, "ip 10.0.0.1");
    uint64_t after = blocks_version(stage->reader);
    assert_int_not_equal(after, before);
    list_has_ip(stage, "10.0.0.1");
    assert_int_equal(blocks_version(stage->reader), after);
    list_take(stage, "ip 10.0.0.1");
    assert_int_not_equal(blocks_version(stage->reader), after);
}

static void a_folder_that_takes_no_file_leaves_the_list_as_it_was(void **state)
{
    struct list_stage *stage = *state;
    bool there;
    char new_path[128];
    list_file_put(stage->path, "user ann\n");
    list_open(stage);
    snprintf(new_path, sizeof new_path, "%s.new", stage->path);
    assert_int_equal(mkdir(new_path, 0700), 0); /* holds also for a superuser, whom no rights stop */
    assert_int_not_equal(blocks_add(stage->blocks, SLICE("user bob"), &there), FAULT_NONE);
    assert_int_not_equal(blocks_remove(stage->blocks, SLICE("user ann"), &there), FAULT_NONE);
    assert_true(list_has_user(stage, "ann") && !list_has_user(stage, "bob"));
    assert_string_equal(list_file_text(stage->path), "user ann\n");
    assert_int_equal(rmdir(new_path), 0);
    assert_false(list_add(stage, "user bob"));
    assert_true(list_has_user(stage, "bob"));
}

/* A person appends by hand, and the interface adds in the same moment, before the watcher can have seen it. */
static void entries_by_hand_and_by_interface_both_count(void **state)
{
    struct list_stage *stage = *state;
    enum { PAIRS = 30 };
    char name[32];
    list_open(stage);
    for (int i = 0; i < PAIRS; i++) {
        FILE *file = fopen(stage->path, "a");
        assert_non_null(file);
        fprintf(file, "user hand-%d\n", i);
        fclose(file);
        snprintf(name, sizeof name, "user api-%d", i);
        assert_false(list_add(stage, name));
        assert_true(list_has_user(stage, name + 5));
        snprintf(name, sizeof name, "hand-%d", i);
        assert_true(list_has_user(stage, name));
    }
    list_pause_ms(LIST_STILL_MS);
    assert_int_equal(blocks_count(stage->blocks), 2 * PAIRS);
}

struct names {
    char names[64][32];
    uint32_t count;
    uint64_t last;
};

static void names_visit(void *arg, const struct block_entry *entry, uint64_t serial)
{
    struct names *names = arg;
    char text[BLOCK_ENTRY_BYTES_MAX + 1];
    block_entry_write(text, entry);
    snprintf(names->names[names->count++], 32, "%.31s", text);
    assert_true(serial > names->last);
    names->last = serial;
}

/* The script of an admin who empties the list page by page while others add to it, and a file rewritten in another order. */
static void pages_miss_nothing_while_the_list_changes(void **state)
{
    struct list_stage *stage = *state;
    char text[1024] = "", line[32];
    for (int i = 0; i < 30; i++) {
        snprintf(line, sizeof line, "user u%02d\n", i);
        memcpy(text + strlen(text), line, strlen(line) + 1);
    }
    list_file_put(stage->path, text);
    list_open(stage);
    struct names seen = { .count = 0 };
    while (seen.count < 30) {
        uint32_t before = seen.count;
        blocks_each(stage->blocks, seen.last, 7, names_visit, &seen);
        assert_true(seen.count > before && seen.count - before <= 7);
        for (uint32_t i = before; i < seen.count; i++) assert_true(list_take(stage, seen.names[i]));
        if (before == 7) { /* turned round by hand, with one more on top */
            text[0] = '\0';
            for (int i = 29; i >= 14; i--) {
                snprintf(line, sizeof line, "user u%02d\n", i);
                memcpy(text + strlen(text), line, strlen(line) + 1);
            }
            char all[1200];
            snprintf(all, sizeof all, "user top\n%s", text);
            list_file_put(stage->aside, all); /* whole at once: what came before may be read at any moment */
            assert_int_equal(rename(stage->aside, stage->path), 0);
            list_wait_user(stage, "top", true);
        }
    }
    for (int i = 0; i < 30; i++) {
        snprintf(line, sizeof line, "user u%02d", i);
        assert_string_equal(seen.names[i], line);
    }
    blocks_each(stage->blocks, seen.last, 7, names_visit, &seen);
    assert_int_equal(seen.count, 31);
    assert_string_equal(seen.names[30], "user top");
}

/* Four threads look all the time for one who is always on the list and one who never is, while it is replaced, added to,
 * removed from and taken away piece by piece. */
enum { LOOKERS = 4, ROUNDS = 60 };

struct crowd {
    struct list_stage *stage;
    _Atomic bool stop;
    _Atomic uint64_t looked, wrong;
};

static void *look(void *arg)
{
    struct crowd *crowd = arg;
    struct blocks_reader *reader = blocks_reader_open(crowd->stage->blocks);
    uint8_t inside[16] = { [10] = 0xff, 0xff, 10, 1, 2, 3 }, outside[16] = { [10] = 0xff, 0xff, 11, 1, 2, 3 };
    while (!atomic_load(&crowd->stop)) {
        bool right = blocks_has_user(reader, SLICE("always")) && !blocks_has_user(reader, SLICE("never")) &&
                     blocks_has_address(reader, inside) && !blocks_has_address(reader, outside);
        if (!right) atomic_fetch_add(&crowd->wrong, 1);
        /* A thread that did nothing but look would always be caught looking when its time is up, and be waited for. */
        if (atomic_fetch_add(&crowd->looked, 1) % 16 == 0) nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
    }
    blocks_reader_close(reader);
    return NULL;
}

static void nobody_who_looks_ever_sees_half_a_list(void **state)
{
    struct list_stage *stage = *state;
    struct crowd crowd = { .stage = stage };
    pthread_t threads[LOOKERS];
    char text[128];
    list_file_put(stage->path, "user always\nip 10.0.0.0/8\n");
    list_open(stage);
    for (int i = 0; i < LOOKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, look, &crowd), 0);
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(text, sizeof text, "user round-%d\nuser always\nip 10.0.0.0/8\n", i);
        list_file_put(stage->aside, text);
        assert_int_equal(rename(stage->aside, stage->path), 0);
        snprintf(text, sizeof text, "user other-%d", i);
        list_add(stage, text);
        assert_true(list_take(stage, text));
        assert_true(blocks_count(stage->blocks) >= 2);
        if (i % 20 == 0) list_pause_ms(80); /* lets the watcher read, too */
    }
    uint64_t end_ms = mono_ms() + LIST_WAIT_MS_MAX;
    while (atomic_load(&crowd.looked) < 1000 && mono_ms() < end_ms) list_pause_ms(5);
    atomic_store(&crowd.stop, true);
    for (int i = 0; i < LOOKERS; i++) pthread_join(threads[i], NULL);
    assert_true(atomic_load(&crowd.looked) >= 1000);
    assert_int_equal(atomic_load(&crowd.wrong), 0);
}

/* Sets that come and go as fast as they can be made: a reader that had one a moment too long would read freed memory. */
static void a_set_is_freed_only_when_nobody_has_it_in_hand(void **state)
{
    enum { PUBLISHED_MIN = 5000, LOOKED_MIN = 5000 };
    struct list_stage *stage = *state;
    struct crowd crowd = { .stage = stage };
    struct block_entry user, network;
    pthread_t threads[LOOKERS];
    assert_null(block_entry_read(SLICE("user always"), &user));
    assert_null(block_entry_read(SLICE("ip 10.0.0.0/8"), &network));
    list_file_put(stage->path, "user always\nip 10.0.0.0/8\n");
    list_open(stage);
    for (int i = 0; i < LOOKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, look, &crowd), 0);
    uint64_t end_ms = mono_ms() + LIST_WAIT_MS_MAX;
    for (int i = 0; (i < PUBLISHED_MIN || atomic_load(&crowd.looked) < LOOKED_MIN) && mono_ms() < end_ms; i++) {
        struct block_set *set;
        assert_int_equal(block_set_open(&set, stage->blocks->key, 2, 16), FAULT_NONE);
        assert_true(block_set_put(set, &user, 1) && block_set_put(set, &network, 2));
        pthread_mutex_lock(&stage->blocks->change);
        blocks_publish(stage->blocks, set);
        pthread_mutex_unlock(&stage->blocks->change);
    }
    atomic_store(&crowd.stop, true);
    for (int i = 0; i < LOOKERS; i++) pthread_join(threads[i], NULL);
    assert_true(atomic_load(&crowd.looked) >= LOOKED_MIN);
    assert_int_equal(atomic_load(&crowd.wrong), 0);
}

static uint64_t cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Time of the processor is asserted, which a busy machine does not change much; what is promised is 2 s. */
static void a_million_lines_are_read_while_others_look(void **state)
{
    struct list_stage *stage = *state;
    FILE *file = fopen(stage->aside, "w");
    assert_non_null(file);
    for (uint32_t i = 0; i < PAIRS_MANY; i++)
        fprintf(file, "user buyer-%07u\nip 10.%u.%u.%u\n", i, i >> 16, i >> 8 & 255, i & 255);
    fputs("user last\n", file);
    fclose(file);
    list_file_put(stage->path, "user ann\n");
    list_open(stage);
    assert_int_equal(rename(stage->aside, stage->path), 0);
    uint64_t began_ms = cpu_ms();
    while (!list_has_user(stage, "last")) {
        assert_true(list_has_user(stage, "ann") || list_has_user(stage, "last"));
        list_pause_ms(1);
        assert_true(cpu_ms() - began_ms < 4000);
    }
    print_message("%u lines read in %u ms of the processor\n", 2 * PAIRS_MANY, (unsigned)(cpu_ms() - began_ms));
    assert_int_equal(blocks_count(stage->blocks), 2 * PAIRS_MANY + 1);
    assert_true(list_has_ip(stage, "10.0.161.31") && !list_has_ip(stage, "10.7.161.32") && !list_has_user(stage, "ann"));
    began_ms = cpu_ms();
    assert_false(list_add(stage, "user one-more"));
    print_message("one more in %u ms of the processor\n", (unsigned)(cpu_ms() - began_ms));
    assert_int_equal(blocks_count(stage->blocks), 2 * PAIRS_MANY + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(adding_and_removing_write_the_file_and_keep_what_is_others),
        STAGED(a_rewritten_file_keeps_its_rights),
        STAGED(what_was_added_is_there_after_a_restart),
        STAGED(what_is_expected_is_looked_for_in_the_list_of_then),
        STAGED(a_list_that_has_changed_has_another_version),
        STAGED(a_folder_that_takes_no_file_leaves_the_list_as_it_was),
        STAGED(entries_by_hand_and_by_interface_both_count),
        STAGED(pages_miss_nothing_while_the_list_changes),
        STAGED(nobody_who_looks_ever_sees_half_a_list),
        STAGED(a_set_is_freed_only_when_nobody_has_it_in_hand),
        STAGED(a_million_lines_are_read_while_others_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
