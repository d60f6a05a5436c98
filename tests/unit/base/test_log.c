#include "base/log.h"

#include "base/slice.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Standard error is turned into a file or a terminal for as long as a test needs it. */
static int stderr_kept;
static char caught[1 << 20];

static void capture(int fd)
{
    stderr_kept = dup(STDERR_FILENO);
    assert_true(stderr_kept >= 0);
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
}

static void release(void)
{
    dup2(stderr_kept, STDERR_FILENO);
    close(stderr_kept);
}

static int file_open(void)
{
    char path[] = "/tmp/stampede-log-XXXXXX";
    int fd = mkostemp(path, O_APPEND);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

static void file_read(int fd)
{
    ssize_t len = pread(fd, caught, sizeof(caught) - 1, 0);
    assert_true(len >= 0);
    caught[len] = '\0';
    close(fd);
}

static void a_line_elsewhere_than_on_a_terminal_is_one_json_object(void **state)
{
    (void)state;
    int fd = file_open();
    capture(fd);
    log_warn("journal", "commit of %d failed", 7);
    release();
    file_read(fd);

    const char *begin = "{\"time\":\"";
    assert_memory_equal(caught, begin, strlen(begin));
    uint64_t ms;
    assert_true(time_from_text((struct slice){ caught + strlen(begin), TIME_TEXT_BYTES }, &ms));
    assert_string_equal(caught + strlen(begin) + TIME_TEXT_BYTES,
                        "\",\"level\":\"warn\",\"room\":\"journal\",\"message\":\"commit of 7 failed\"}\n");
}

static void whatever_a_message_carries_a_line_stays_one_line_of_valid_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *message, *want;
    } script[] = {
        { "say \"x\" and \\", "\"message\":\"say \\\"x\\\" and \\\\\"}\n" },
        { "two\nlines\r\x1b[2J\x7f", "\"message\":\"two\\u000alines\\u000d\\u001b[2J\\u007f\"}\n" },
        { "caf\xc3\xa9", "\"message\":\"caf\xc3\xa9\"}\n" },
        { "broken \xc3", "\"message\":\"broken \\u00c3\"}\n" },
        { "", "\"message\":\"\"}\n" },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        int fd = file_open();
        capture(fd);
        log_error("wire", "%s", script[i].message);
        release();
        file_read(fd);
        assert_non_null(strstr(caught, script[i].want));
        assert_ptr_equal(strchr(caught, '\n'), caught + strlen(caught) - 1);
        assert_true(utf8_valid(slice_of(caught)));
    }
}

static void a_terminal_gets_text_and_no_commands(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);

    capture(slave);
    log_error("wire", "bell \x07 escape \x1b[2J c1 \xc2\x9b caf\xc3\xa9");
    release();
    ssize_t len = read(master, caught, sizeof(caught) - 1);
    assert_true(len > 0);
    caught[len] = '\0';
    close(slave);
    close(master);

    assert_non_null(strstr(caught, " error wire: bell ? escape ?[2J c1 ? caf\xc3\xa9"));
    assert_null(strchr(caught, '{'));
}

static void lines_below_the_level_are_not_written(void **state)
{
    (void)state;
    int fd = file_open();
    capture(fd);
    log_debug("base", "unseen at first");
    log_set_level(LOG_ERROR);
    assert_true(log_speaks(LOG_ERROR) && !log_speaks(LOG_WARN));
    log_warn("base", "unseen");
    log_error("base", "seen");
    log_set_level(LOG_DEBUG);
    log_debug("base", "seen too");
    log_set_level(LOG_INFO);
    release();
    file_read(fd);
    assert_null(strstr(caught, "unseen"));
    assert_non_null(strstr(caught, "\"seen\""));
    assert_non_null(strstr(caught, "\"seen too\""));
}

static void errno_of_the_caller_is_kept(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_RDONLY); /* the write fails, and is no terminal */
    assert_true(fd >= 0);
    capture(fd);
    errno = ENOSPC;
    log_error("base", "one");
    int after = errno;
    release();
    close(fd);
    assert_int_equal(after, ENOSPC);
}

static void a_message_too_long_is_cut_and_still_a_line(void **state)
{
    (void)state;
    char *message = test_malloc(100000);
    memset(message, '"', 99999);
    message[99999] = '\0';
    int fd = file_open();
    capture(fd);
    log_error("base", "%s", message);
    log_error("base", "next");
    release();
    file_read(fd);
    test_free(message);
    char *end = strchr(caught, '\n');
    assert_non_null(end);
    assert_memory_equal(end - 2, "\"}", 2);
    assert_non_null(strstr(end, "\"next\"}\n"));
}

static void *chatter(void *arg)
{
    for (int i = 0; i < 500; i++) log_error("crew", "%s", (const char *)arg);
    return NULL;
}

static void lines_of_several_threads_never_mix(void **state)
{
    (void)state;
    static char words[4][201];
    pthread_t threads[4];
    int fd = file_open();
    capture(fd);
    for (int i = 0; i < 4; i++) {
        memset(words[i], 'a' + i, 200);
        assert_int_equal(pthread_create(&threads[i], NULL, chatter, words[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    release();
    file_read(fd);

    int lines = 0;
    for (char *at = caught; *at != '\0'; lines++) {
        char *end = strchr(at, '\n');
        assert_non_null(end);
        assert_memory_equal(at, "{\"time\":\"", 9);
        const char *word = end - 2 - 200;
        for (int i = 0; i < 200; i++) assert_int_equal(word[i], word[0]);
        at = end + 1;
    }
    assert_int_equal(lines, 2000);
}

static void a_level_has_a_word(void **state)
{
    (void)state;
    assert_int_equal(log_level_of("debug"), LOG_DEBUG);
    assert_int_equal(log_level_of("info"), LOG_INFO);
    assert_int_equal(log_level_of("warn"), LOG_WARN);
    assert_int_equal(log_level_of("error"), LOG_ERROR);
    assert_int_equal(log_level_of("loud"), LOG_INFO);
}

static struct log_kept tail[LOG_KEPT + 1];

static size_t tail_read(uint64_t before, enum log_level level, size_t max)
{
    return log_tail(&(struct log_ask){ .before = before, .level = level, .max = max }, tail);
}

static void the_last_lines_are_kept_newest_first(void **state)
{
    (void)state;
    int fd = file_open();
    capture(fd);
    for (int i = 0; i < LOG_KEPT + 7; i++) log_line(i % 2 == 0 ? LOG_INFO : LOG_ERROR, "base", "line %d", i);
    release();
    close(fd);

    assert_int_equal(tail_read(0, LOG_DEBUG, LOG_KEPT + 1), LOG_KEPT);
    for (int i = 0; i < LOG_KEPT; i++) {
        char want[32];
        snprintf(want, sizeof want, "line %d", LOG_KEPT + 6 - i);
        assert_string_equal(tail[i].message, want);
        assert_string_equal(tail[i].room, "base");
        assert_true(i == 0 || tail[i].id + 1 == tail[i - 1].id);
    }
    uint64_t oldest = tail[LOG_KEPT - 1].id, newest = tail[0].id;
    assert_int_equal(tail_read(newest, LOG_DEBUG, 3), 3);
    assert_int_equal(tail[0].id, newest - 1);
    assert_int_equal(tail_read(0, LOG_WARN, 4), 4);
    for (int i = 0; i < 4; i++) assert_int_equal(tail[i].level, LOG_ERROR);
    assert_int_equal(tail_read(oldest, LOG_DEBUG, 3), 0);
    assert_int_equal(tail_read(1, LOG_DEBUG, 3), 0);
    assert_int_equal(tail_read(newest + 1000, LOG_DEBUG, 1), 1); /* one that is still to come: the last */
    assert_int_equal(tail[0].id, newest);
}

/* Whatever a stranger made us say, a console may show it; and it is cut between characters. */
static void what_is_kept_is_clean_text(void **state)
{
    (void)state;
    char longer[900] = "";
    for (int i = 0; i < 400; i++) memcpy(longer + 2 * i, "\xc3\xa9", 3);
    longer[0] = 'x';
    longer[1] = 'x';
    const char *said[] = { "bell \x07 <b>\n", "broken \xc3", "", longer + 1 };
    int fd = file_open();
    capture(fd);
    for (int i = 0; i < 4; i++) log_error("a-room-with-a-long-name", "%s", said[i]);
    release();
    close(fd);

    assert_int_equal(tail_read(0, LOG_DEBUG, 4), 4);
    assert_string_equal(tail[3].message, "bell ? <b>?");
    assert_string_equal(tail[2].message, "broken ?");
    assert_string_equal(tail[1].message, "");
    assert_int_equal(strlen(tail[0].message), LOG_KEPT_BYTES - 1); /* 'x' and characters of two bytes */
    assert_true(utf8_valid(slice_of(tail[0].message)));
    assert_int_equal(strlen(tail[0].room), sizeof tail[0].room - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_elsewhere_than_on_a_terminal_is_one_json_object),
        cmocka_unit_test(whatever_a_message_carries_a_line_stays_one_line_of_valid_utf8),
        cmocka_unit_test(a_terminal_gets_text_and_no_commands),
        cmocka_unit_test(lines_below_the_level_are_not_written),
        cmocka_unit_test(a_level_has_a_word),
        cmocka_unit_test(errno_of_the_caller_is_kept),
        cmocka_unit_test(a_message_too_long_is_cut_and_still_a_line),
        cmocka_unit_test(lines_of_several_threads_never_mix),
        cmocka_unit_test(the_last_lines_are_kept_newest_first),
        cmocka_unit_test(what_is_kept_is_clean_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
