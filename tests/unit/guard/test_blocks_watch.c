/* The list follows its file, whoever changes it and however. */
#include "list_stage.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_list_without_a_file_is_empty_and_says_nothing(void **state)
{
    struct list_stage *stage = *state;
    list_open(stage);
    assert_int_equal(blocks_count(stage->blocks), 0);
    assert_false(list_has_user(stage, "ann"));
    assert_false(list_has_ip(stage, "10.0.0.1"));
    assert_null(list_file_text(stage->path));
    assert_string_equal(list_file_text(stage->log), "");
}

static void a_file_is_read_at_the_start(void **state)
{
    struct list_stage *stage = *state;
    list_file_put(stage->path,
                  "# ours\n\nuser ann # spam\r\n  ip 10.0.0.0/8\nip 2001:db8::/32\nuser #bob\nuser ann\nuser last");
    list_open(stage);
    assert_int_equal(blocks_count(stage->blocks), 5);
    assert_true(list_has_user(stage, "ann") && list_has_user(stage, "#bob") && list_has_user(stage, "last"));
    assert_false(list_has_user(stage, "spam"));
    assert_true(list_has_ip(stage, "10.9.9.9") && list_has_ip(stage, "2001:db8::7"));
    assert_false(list_has_ip(stage, "11.0.0.1"));
}

static void rubbish_at_the_start_is_told_and_the_rest_counts(void **state)
{
    struct list_stage *stage = *state;
    list_file_put(stage->path, "user ann\nrubbish\nip 10.0.0.1/8\n\n# fine\nip 10.0.0.2\nuser \xff\n");
    list_open(stage);
    assert_int_equal(blocks_count(stage->blocks), 2);
    assert_true(list_has_user(stage, "ann") && list_has_ip(stage, "10.0.0.2"));
    assert_true(list_logged(stage, "line 2: ") && list_logged(stage, "line 3: ") && list_logged(stage, "line 7: "));
    assert_false(list_logged(stage, "line 1: ") || list_logged(stage, "line 4: ") || list_logged(stage, "line 5: "));
}

static void what_cannot_be_a_list_stops_the_start(void **state)
{
    struct list_stage *stage = *state;
    struct blocks *blocks;
    char nowhere[128];
    assert_int_equal(blocks_open(&blocks, stage->folder), FAULT_CONFIG);
    snprintf(nowhere, sizeof nowhere, "%s/no/blocks", stage->folder);
    assert_int_equal(blocks_open(&blocks, nowhere), FAULT_CONFIG);
    snprintf(nowhere, sizeof nowhere, "%s/", stage->folder);
    assert_int_equal(blocks_open(&blocks, nowhere), FAULT_CONFIG);
    assert_int_equal(blocks_open(&blocks, ""), FAULT_CONFIG);
    assert_int_equal(mkfifo(stage->path, 0600), 0); /* whoever opens it waits for a writer */
    assert_int_equal(blocks_open(&blocks, stage->path), FAULT_CONFIG);
}

static void a_file_written_in_place_is_read_again(void **state)
{
    struct list_stage *stage = *state;
    list_open(stage);
    list_file_put(stage->path, "user ann\n");
    list_wait_user(stage, "ann", true);
    list_file_put(stage->path, "user bob\n"); /* the same length */
    list_wait_user(stage, "bob", true);
    assert_false(list_has_user(stage, "ann"));
}

static void a_file_replaced_by_rename_is_read_again(void **state)
{
    struct list_stage *stage = *state;
    list_file_put(stage->path, "user ann\n");
    list_open(stage);
    for (int i = 0; i < 3; i++) {
        list_file_put(stage->aside, i % 2 == 0 ? "user bob\n" : "user ann\n");
        assert_int_equal(rename(stage->aside, stage->path), 0);
        list_wait_user(stage, i % 2 == 0 ? "bob" : "ann", true);
        assert_int_equal(blocks_count(stage->blocks), 1);
    }
}

/* As an editor does it: the old file goes aside, a new one is written bit by bit. Nobody is free in between. */
static void a_file_half_written_is_not_read(void **state)
{
    struct list_stage *stage = *state;
    list_file_put(stage->path, "user ann\nuser bob\n");
    list_open(stage);
    for (int way = 0; way < 2; way++) {
        const char *newcomer = way == 0 ? "user cat\n" : "user dan\n";
        if (way == 1) assert_int_equal(rename(stage->path, stage->aside), 0);
        FILE *file = fopen(stage->path, "w"); /* emptied, or made anew */
        assert_non_null(file);
        fputs("user ann\nuse", file);
        fflush(file);
        fchmod(fileno(file), 0640);
        for (int i = 0; i < LIST_STILL_MS / 10; i++) {
            assert_true(list_has_user(stage, "ann") && list_has_user(stage, "bob"));
            list_pause_ms(10);
        }
        fputs("r bob\n", file);
        fputs(newcomer, file);
        fclose(file);
        list_wait_user(stage, way == 0 ? "cat" : "dan", true);
        assert_int_equal(blocks_count(stage->blocks), 3);
        assert_false(list_logged(stage, "line "));
    }
}

static void a_list_cut_short_is_what_it_is_until_it_is_whole(void **state)
{
    struct list_stage *stage = *state;
    list_file_put(stage->path, "user ann\nuser bob\n");
    list_open(stage);
    list_file_put(stage->path, "user ann\nuse"); /* closed in the middle: the disk was full */
    list_wait_logged(stage, "line 2: ");
    assert_true(list_has_user(stage, "ann") && list_has_user(stage, "bob"));
    list_file_put(stage->path, "user ann\nuser cat\n");
    list_wait_user(stage, "cat", true);
    assert_true(list_has_user(stage, "ann"));
    assert_false(list_has_user(stage, "bob"));
}

static void mistakes_keep_the_old_list_and_let_new_entries_in(void **state)
{
    struct list_stage *stage = *state;
    list_file_put(stage->path, "user ann\nip 10.0.0.0/8\n");
    list_open(stage);
    list_file_put(stage->path, "user ana bob\nip 10.0.0/8\nuser cat\n");
    list_wait_logged(stage, "line 2: ");
    list_wait_user(stage, "cat", true);
    assert_true(list_has_user(stage, "ann") && list_has_ip(stage, "10.1.1.1"));
    /* Changes by the interface count all the same. */
    assert_false(list_add(stage, "user dan"));
    assert_true(list_take(stage, "user ann"));
    assert_true(list_has_user(stage, "dan") && list_has_user(stage, "cat") && list_has_ip(stage, "10.1.1.1"));
    assert_false(list_has_user(stage, "ann"));
    assert_string_equal(list_file_text(stage->path), "user ana bob\nip 10.0.0/8\nuser cat\nuser dan\n");
    /* Mended: the file alone counts. */
    list_file_put(stage->path, "user cat\n");
    list_wait_user(stage, "dan", false);
    assert_true(list_has_user(stage, "cat"));
    assert_false(list_has_ip(stage, "10.1.1.1"));
}

static void a_removed_file_is_an_empty_list_with_a_warning(void **state)
{
    struct list_stage *stage = *state;
    list_file_put(stage->path, "user ann\n");
    list_open(stage);
    assert_int_equal(unlink(stage->path), 0);
    list_wait_user(stage, "ann", false);
    assert_true(list_logged(stage, "is gone") && list_logged(stage, "warn"));
    list_file_put(stage->path, "user ann\n");
    list_wait_user(stage, "ann", true);
}

static void a_file_that_cannot_be_read_changes_nothing(void **state)
{
    struct list_stage *stage = *state;
    list_file_put(stage->path, "user ann\n");
    list_open(stage);
    assert_int_equal(unlink(stage->path), 0);
    assert_int_equal(symlink("blocks", stage->path), 0); /* a link to itself */
    list_wait_logged(stage, "stays in force");
    assert_true(list_has_user(stage, "ann"));
    bool there;
    assert_int_not_equal(blocks_add(stage->blocks, SLICE("user bob"), &there), FAULT_NONE);
    assert_true(list_has_user(stage, "ann") && !list_has_user(stage, "bob"));
    assert_int_equal(unlink(stage->path), 0);
    list_file_put(stage->path, "user cat\n");
    list_wait_user(stage, "cat", true);
    assert_false(list_has_user(stage, "ann"));
}

/* A cluster gives a file as a link through a link and replaces the one in the middle. */
static void a_file_behind_links_is_read_again(void **state)
{
    struct list_stage *stage = *state;
    list_file_put(stage->aside, "user ann\n");
    char real[96], data[96];
    snprintf(real, sizeof real, "%s/real", stage->folder);
    snprintf(data, sizeof data, "%s/data", stage->folder);
    list_file_put(real, "user bob\n");
    assert_int_equal(symlink("aside", data), 0);
    assert_int_equal(symlink("data", stage->path), 0);
    list_open(stage);
    assert_true(list_has_user(stage, "ann"));
    assert_int_equal(rename(real, data), 0);
    list_wait_user(stage, "bob", true);
    assert_false(list_has_user(stage, "ann"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGED(a_list_without_a_file_is_empty_and_says_nothing),
        STAGED(a_file_is_read_at_the_start),
        STAGED(rubbish_at_the_start_is_told_and_the_rest_counts),
        STAGED(what_cannot_be_a_list_stops_the_start),
        STAGED(a_file_written_in_place_is_read_again),
        STAGED(a_file_replaced_by_rename_is_read_again),
        STAGED(a_file_half_written_is_not_read),
        STAGED(a_list_cut_short_is_what_it_is_until_it_is_whole),
        STAGED(mistakes_keep_the_old_list_and_let_new_entries_in),
        STAGED(a_removed_file_is_an_empty_list_with_a_warning),
        STAGED(a_file_that_cannot_be_read_changes_nothing),
        STAGED(a_file_behind_links_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
