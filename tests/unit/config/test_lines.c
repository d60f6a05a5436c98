/* Lines declared by name. */
#include "config/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct config config;
static struct config_mistake mistake;
static char path[] = "/tmp/stampede-lines-XXXXXX";

static int file_make(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int file_remove(void **state)
{
    (void)state;
    return unlink(path);
}

static void file_write(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static enum fault load_file(const char *text)
{
    file_write(text);
    return config_load(&config, path, 0, NULL, &mistake);
}

static void line_is(uint32_t at, const char *name, int64_t rate, int64_t size, int64_t timeout_ms)
{
    assert_string_equal(config.lines[at].name, name);
    assert_int_equal(config.lines[at].rate, rate);
    assert_int_equal(config.lines[at].size, size);
    assert_int_equal(config.lines[at].timeout_ms, timeout_ms);
}

static void without_any_there_are_none(void **state)
{
    (void)state;
    assert_int_equal(load_file("reactors = 1\n"), FAULT_NONE);
    assert_int_equal(config.lines_count, 0);
}

static void a_line_has_the_numbers_given_and_the_defaults_of_the_others(void **state)
{
    (void)state;
    assert_int_equal(load_file("line.front.rate = 200\n"
                               "line.back_2.timeout_ms=5 # soon\n"
                               "line.front.size = 1000000\n"
                               "line.back_2.rate = 1\n"),
                     FAULT_NONE);
    assert_int_equal(config.lines_count, 2);
    line_is(0, "front", 200, 1000000, 30000);
    line_is(1, "back_2", 1, 10000, 5);
}

static void mistakes_name_the_line_and_what_to_do(void **state)
{
    (void)state;
#define NAME_32 "a2345678901234567890123456789012"
    static const struct {
        const char *text, *want;
    } script[] = {
        { "line.a.rate = 0\n", " line 1: line.a.rate is a whole number from 1 to 1000000" },
        { "line.a.rate = -1\n", " line 1: line.a.rate is a whole number from 1 to 1000000" },
        { "line.a.rate = 1.5\n", " line 1: line.a.rate is a whole number from 1 to 1000000" },
        { "line.a.rate = 1000001\n", " line 1: line.a.rate is a whole number from 1 to 1000000" },
        { "line.a.rate = 18446744073709551617\n", " line 1: line.a.rate is a whole number from 1 to 1000000" },
        { "line.a.rate =\n", " line 1: line.a.rate is a whole number from 1 to 1000000" },
        { "line.a.rate = 1\nline.a.size = 0\n", " line 2: line.a.size is a whole number from 1 to 1000000" },
        { "line.a.timeout_ms = 3600001\n", " line 1: line.a.timeout_ms is a whole number from 1 to 3600000" },
        { "line.a.rate = 1\n\nline.a.rate = 1\n", " line 3: line.a.rate was given before, in line 1" },
        { "line.a.speed = 1\n",
          " line 1: there is no option line.a.speed; a line has line.NAME.rate, .size and .timeout_ms" },
        { "line.rate = 1\n", " line 1: there is no option line.rate; a line has line.NAME.rate, .size and .timeout_ms" },
        { "line. = 1\n", " line 1: there is no option line.; a line has line.NAME.rate, .size and .timeout_ms" },
        { "line..rate = 1\n",
          " line 1: line..rate: the name of a line is a lower-case letter, then letters, digits and _, 32 at most" },
        { "line.A.rate = 1\n",
          " line 1: line.A.rate: the name of a line is a lower-case letter, then letters, digits and _, 32 at most" },
        { "line.1a.rate = 1\n",
          " line 1: line.1a.rate: the name of a line is a lower-case letter, then letters, digits and _, 32 at most" },
        { "line.a.b.rate = 1\n",
          " line 1: line.a.b.rate: the name of a line is a lower-case letter, then letters, digits and _, 32 at most" },
        { "line." NAME_32 "x.rate = 1\n",
          " line 1: line." NAME_32
          "x.rate: the name of a line is a lower-case letter, then letters, digits and _, 32 at most" },
        { "lines.a.rate = 1\n", " line 1: there is no option lines.a.rate" },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        assert_int_equal(load_file(script[i].text), FAULT_CONFIG);
        assert_memory_equal(mistake.text, path, strlen(path));
        assert_string_equal(mistake.text + strlen(path), script[i].want);
    }
    assert_int_equal(load_file("line." NAME_32 ".rate = 1\n"), FAULT_NONE);
    assert_int_equal(load_file("line.a.size = 5\n"), FAULT_CONFIG);
    assert_string_equal(mistake.text, "line.a.rate is missing: a line must say its rate");
}

static void sixteen_lines_and_no_more(void **state)
{
    (void)state;
    char text[1024] = "";
    for (int i = 0; i < LINES_DECLARED_MAX; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof(text) - len, "line.l%d.rate = %d\n", i, i + 1);
    }
    assert_int_equal(load_file(text), FAULT_NONE);
    assert_int_equal(config.lines_count, LINES_DECLARED_MAX);
    line_is(LINES_DECLARED_MAX - 1, "l15", 16, 10000, 30000);
    size_t len = strlen(text);
    snprintf(text + len, sizeof(text) - len, "line.l3.size = 9\nline.more.rate = 1\n");
    assert_int_equal(load_file(text), FAULT_CONFIG);
    assert_non_null(strstr(mistake.text, " line 18: line.more.rate: there are 16 lines already, and there can be no more"));
}

static void a_check_tells_every_mistake(void **state)
{
    (void)state;
    char *report;
    size_t size;
    file_write("line.a.rate = 0\nline.b.rate = 5\nline.b.rate = 5\nline.c.size = 5\n");
    FILE *out = open_memstream(&report, &size);
    assert_int_equal(config_check(path, out), 3);
    fclose(out);
    assert_non_null(strstr(report, " line 1: line.a.rate is a whole number from 1 to 1000000\n"));
    assert_non_null(strstr(report, " line 3: line.b.rate was given before, in line 2\n"));
    assert_non_null(strstr(report, "rate is missing"));
    free(report);
}

static void the_environment_wins_over_the_file_and_may_declare(void **state)
{
    (void)state;
    setenv("STAMPEDE_LINE_FRONT_RATE", "7", 1);
    setenv("STAMPEDE_LINE_SIDE_RATE_TIMEOUT_MS", "8", 1); /* of a line called side_rate */
    setenv("STAMPEDE_LINE_SIDE_RATE_RATE", "9", 1);
    setenv("STAMPEDE_LINE_SERVICE_HOST", "10.0.0.1", 1); /* a cluster's own */
    setenv("STAMPEDE_LINE_RATE", "x", 1);
    assert_int_equal(load_file("line.front.rate = 200\nline.front.size = 3\n"), FAULT_NONE);
    assert_int_equal(config.lines_count, 2);
    line_is(0, "front", 7, 3, 30000);
    line_is(1, "side_rate", 9, 10000, 8);

    setenv("STAMPEDE_LINE_FRONT_RATE", "07", 1);
    assert_int_equal(config_load(&config, NULL, 0, NULL, &mistake), FAULT_CONFIG);
    assert_string_equal(mistake.text,
                        "environment STAMPEDE_LINE_FRONT_RATE: line.front.rate is a whole number from 1 to 1000000");
    static const char *const names[] = { "FRONT_RATE", "SIDE_RATE_TIMEOUT_MS", "SIDE_RATE_RATE", "SERVICE_HOST", "RATE" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[64];
        snprintf(name, sizeof(name), "STAMPEDE_LINE_%s", names[i]);
        unsetenv(name);
    }
}

static void lines_are_no_flags(void **state)
{
    (void)state;
    char *argv[] = { "--line.front.rate", "5" };
    assert_int_equal(config_load(&config, NULL, 2, argv, &mistake), FAULT_CONFIG);
    assert_string_equal(mistake.text, "flag --line.front.rate: there is no option line.front.rate");
}

static void a_reload_takes_new_lines(void **state)
{
    (void)state;
    struct config fresh;
    assert_int_equal(load_file("line.front.rate = 1\nline.side.rate = 2\n"), FAULT_NONE);
    struct config running = config;
    assert_int_equal(load_file("line.front.rate = 1\nline.side.rate = 3\nline.back.rate = 4\n"), FAULT_NONE);
    fresh = config;
    assert_int_equal(config_reload(&running, &fresh, &mistake), 1);
    assert_string_equal(mistake.text, "");
    assert_true(lines_equal(&running, &fresh));
    assert_int_equal(config_reload(&running, &fresh, &mistake), 0);
}

/* The example in the sample file, with its # taken away, is one line with the defaults; its comments are the table. */
static void the_sample_file_shows_the_table(void **state)
{
    (void)state;
    FILE *file = fopen("conf/stampede.conf", "r");
    assert_non_null(file);
    char *line = NULL, comment[4096] = "", example[1024] = "", want[256];
    size_t size = 0, next = 0;
    while (getline(&line, &size, file) >= 0) {
        if (line[0] != '#' || line[1] == '\n') {
            comment[0] = '\0';
            continue;
        }
        if (strncmp(line, "#line.front.", 12) != 0) {
            size_t used = strlen(comment);
            snprintf(comment + used, sizeof(comment) - used, "%s", line + 1);
            continue;
        }
        assert_true(next < LINE_OPTIONS_COUNT);
        const struct option *option = &line_options[next++];
        assert_memory_equal(line + 12, option->name, strlen(option->name));
        assert_memory_equal(comment + 1, option->help, strlen(option->help) - 1);
        snprintf(want, sizeof(want), "From %lld to %lld.", (long long)option->min, (long long)option->max);
        assert_non_null(strstr(comment, want));
        assert_int_equal(option->fallback == NULL, strstr(comment, "Must be given.") != NULL);
        size_t used = strlen(example);
        snprintf(example + used, sizeof(example) - used, "%s", line + 1);
        comment[0] = '\0';
    }
    assert_int_equal(next, LINE_OPTIONS_COUNT);
    free(line);
    fclose(file);
    assert_int_equal(load_file(example), FAULT_NONE);
    line_is(0, "front", 200, 10000, 30000);
}

static void help_names_every_option_of_a_line(void **state)
{
    (void)state;
    char *text, want[64];
    size_t size;
    FILE *out = open_memstream(&text, &size);
    config_help(out);
    fclose(out);
    for (size_t i = 0; i < LINE_OPTIONS_COUNT; i++) {
        snprintf(want, sizeof(want), "  line.NAME.%s (file and environment)\n", line_options[i].name);
        assert_non_null(strstr(text, want));
        assert_non_null(strstr(text, line_options[i].help));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_any_there_are_none),
        cmocka_unit_test(a_line_has_the_numbers_given_and_the_defaults_of_the_others),
        cmocka_unit_test(mistakes_name_the_line_and_what_to_do),
        cmocka_unit_test(sixteen_lines_and_no_more),
        cmocka_unit_test(a_check_tells_every_mistake),
        cmocka_unit_test(the_environment_wins_over_the_file_and_may_declare),
        cmocka_unit_test(lines_are_no_flags),
        cmocka_unit_test(a_reload_takes_new_lines),
        cmocka_unit_test(the_sample_file_shows_the_table),
        cmocka_unit_test(help_names_every_option_of_a_line),
    };
    return cmocka_run_group_tests(tests, file_make, file_remove);
}
