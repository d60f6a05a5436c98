#include "config/config.h"

#include "config/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct config config;
static struct config_mistake mistake;
static char path[] = "/tmp/stampede-config-XXXXXX";

static int file_make(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    return close(fd);
}

static int file_remove(void **state)
{
    (void)state;
    return unlink(path);
}

static void file_write(const char *text, size_t len)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static enum fault load_file(const char *text)
{
    file_write(text, strlen(text));
    return config_load(&config, path, 0, NULL, &mistake);
}

#define FLAGS_MAX 8
static enum fault load_flags(const char *const *words)
{
    char *argv[FLAGS_MAX];
    int argc = 0;
    for (; words[argc] != NULL; argc++) argv[argc] = strdup(words[argc]);
    enum fault fault = config_load(&config, NULL, argc, argv, &mistake);
    for (int i = 0; i < argc; i++) free(argv[i]);
    return fault;
}

#define FLAGS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void without_anything_the_defaults_count(void **state)
{
    (void)state;
    assert_int_equal(config_load(&config, NULL, 0, NULL, &mistake), FAULT_NONE);
    assert_string_equal(config.http, "127.0.0.1:20080");
    assert_string_equal(config.data, "./data");
    assert_string_equal(config.tls_cert, "");
    assert_int_equal(config.connections_max, 50000);
    assert_int_equal(config.drain_ms_max, 10000);
}

static void flags_win_over_environment_over_file_over_default(void **state)
{
    (void)state;
    file_write("query_threads = 3\n", 18);
    char *argv[] = { "--query-threads", "5" };
    assert_int_equal(config_load(&config, path, 0, NULL, &mistake), FAULT_NONE);
    assert_int_equal(config.query_threads, 3);
    setenv("STAMPEDE_QUERY_THREADS", "4", 1);
    assert_int_equal(config_load(&config, path, 0, NULL, &mistake), FAULT_NONE);
    assert_int_equal(config.query_threads, 4);
    assert_int_equal(config_load(&config, path, 2, argv, &mistake), FAULT_NONE);
    assert_int_equal(config.query_threads, 5);
    unsetenv("STAMPEDE_QUERY_THREADS");
}

static void a_file_has_names_values_comments_and_empty_lines(void **state)
{
    (void)state;
    assert_int_equal(load_file("# comment\n\n  \t\n  http=0.0.0.0:1  # open\r\n\tdata\t=\t/srv/a#b\nlog_level = warn"),
                     FAULT_NONE);
    assert_string_equal(config.http, "0.0.0.0:1");
    assert_string_equal(config.data, "/srv/a#b");
    assert_string_equal(config.log_level, "warn");
}

static void mistakes_in_a_file_name_the_line_and_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } script[] = {
        { "htpp = 127.0.0.1:1\n", " line 1: there is no option htpp; did you mean http?" },
        { "\n# c\ncolour = red\n", " line 3: there is no option colour" },
        { "reactors = 2\nreactors = 2\n", " line 2: reactors was given before, in line 1" },
        { "reactors\n", " line 1: a line is \"name = value\"" },
        { "reactors = -1\n", " line 1: reactors is a whole number from 0 to 64" },
        { "reactors = 1 2\n", " line 1: reactors is a whole number from 0 to 64" },
        { "reactors =\n", " line 1: reactors is a whole number from 0 to 64" },
        { "= 5\n", " line 1: there is no option " },
        { "log-level = info\n", " line 1: there is no option log-level; did you mean log_level?" },
        { "log_level = loud\n", " line 1: log_level is one of these words: debug info warn error" },
        { "data =\n", " line 1: data must not be empty" },
        { "config = other.conf\n", " line 1: there is no option config" },
        { "keys_text = 00\n", " line 1: there is no option keys_text" },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        assert_int_equal(load_file(script[i].text), FAULT_CONFIG);
        assert_memory_equal(mistake.text, path, strlen(path));
        assert_string_equal(mistake.text + strlen(path), script[i].want);
    }
}

static void strange_bytes_and_endless_lines_are_mistakes(void **state)
{
    (void)state;
    static char line[70000];
    memset(line, 'a', sizeof(line));
    file_write(line, sizeof(line));
    assert_int_equal(config_load(&config, path, 0, NULL, &mistake), FAULT_CONFIG);
    assert_non_null(strstr(mistake.text, "line 1: the line is too long"));
    file_write("data = a\0b\n", 11);
    assert_int_equal(config_load(&config, path, 0, NULL, &mistake), FAULT_CONFIG);
    assert_non_null(strstr(mistake.text, "line 1: the line has a NUL byte"));
    assert_int_equal(load_file("\xef\xbb\xbf"
                               "data = x\n"),
                     FAULT_NONE);
    assert_string_equal(config.data, "x");
    assert_int_equal(load_file("data = x\n\xef\xbb\xbf"
                               "reactors = 1\n"),
                     FAULT_CONFIG);
    assert_int_equal(load_file("data = \xff\n"), FAULT_CONFIG);
    assert_non_null(strstr(mistake.text, "data has bytes that are not text"));
}

static void a_file_that_cannot_be_read_is_a_mistake(void **state)
{
    (void)state;
    assert_int_equal(config_load(&config, "/no/such/file", 0, NULL, &mistake), FAULT_CONFIG);
    assert_string_equal(mistake.text, "/no/such/file: No such file or directory");
    assert_int_equal(config_load(&config, "/", 0, NULL, &mistake), FAULT_CONFIG);
    assert_string_equal(mistake.text, "/: Is a directory");
    FILE *report = tmpfile();
    assert_int_equal(config_check("/no/such/file", report), -1);
    assert_int_equal(config_check("/", report), -1);
    fclose(report);
}

static void flags_take_their_value_after_a_space_or_an_equals_sign(void **state)
{
    (void)state;
    assert_int_equal(load_flags(FLAGS("--log-level", "warn", "--http=127.0.0.1:0", "--data", "/a=b")), FAULT_NONE);
    assert_string_equal(config.log_level, "warn");
    assert_string_equal(config.http, "127.0.0.1:0");
    assert_string_equal(config.data, "/a=b");
    assert_int_equal(load_flags(FLAGS("--tls-cert=", "--config", "elsewhere.conf")), FAULT_NONE);
}

static void mistakes_among_flags_name_the_flag(void **state)
{
    (void)state;
    static const struct {
        const char *words[5];
        const char *want;
    } script[] = {
        { { "--htpp", "x" }, "flag --htpp: there is no option htpp; did you mean --http?" },
        { { "--log_level", "info" }, "flag --log_level: there is no option log_level; did you mean --log-level?" },
        { { "--http" }, "flag --http: its value is missing" },
        { { "--config" }, "flag --config: its value is missing" },
        { { "--reactors", "1", "--reactors", "1" }, "flag --reactors: it was given before" },
        { { "--config", "a", "--config=b" }, "flag --config: it was given before" },
        { { "--reactors", "many" }, "flag --reactors: reactors is a whole number from 0 to 64" },
        { { "http", "x" }, "http is not a flag: flags begin with two dashes" },
        { { "-h" }, "-h is not a flag: flags begin with two dashes" },
        { { "--" }, "-- is not a flag: flags begin with two dashes" },
        { { "--reactors", "1", "" }, " is not a flag: flags begin with two dashes" },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        assert_int_equal(load_flags(script[i].words), FAULT_CONFIG);
        assert_string_equal(mistake.text, script[i].want);
    }
}

static void mistakes_in_the_environment_name_the_variable(void **state)
{
    (void)state;
    setenv("STAMPEDE_TOKEN_TTL_S", "1h", 1);
    assert_int_equal(config_load(&config, NULL, 0, NULL, &mistake), FAULT_CONFIG);
    assert_string_equal(mistake.text, "environment STAMPEDE_TOKEN_TTL_S: token_ttl_s is a whole number from 1 to 31536000");
    unsetenv("STAMPEDE_TOKEN_TTL_S");
    setenv("STAMPEDE_SERVICE_HOST", "10.0.0.1", 1);
    assert_int_equal(config_load(&config, NULL, 0, NULL, &mistake), FAULT_NONE);
    unsetenv("STAMPEDE_SERVICE_HOST");
}

static void a_certificate_needs_its_key_and_a_key_its_certificate(void **state)
{
    (void)state;
    assert_int_equal(load_flags(FLAGS("--tls-cert", "c.pem")), FAULT_CONFIG);
    assert_int_equal(load_flags(FLAGS("--tls-key", "k.pem")), FAULT_CONFIG);
    assert_string_equal(mistake.text, "tls_cert and tls_key are given together or not at all");
    assert_int_equal(load_flags(FLAGS("--tls-key", "k.pem", "--tls-cert", "c.pem")), FAULT_NONE);
}

static void the_first_wait_of_a_webhook_is_no_longer_than_the_longest(void **state)
{
    (void)state;
    assert_int_equal(load_flags(FLAGS("--webhook-retry-ms-min", "2000", "--webhook-retry-ms-max", "1999")), FAULT_CONFIG);
    assert_non_null(strstr(mistake.text, "webhook_retry_ms_min is longer than webhook_retry_ms_max"));
    assert_int_equal(load_flags(FLAGS("--webhook-retry-ms-min", "2000", "--webhook-retry-ms-max", "2000")), FAULT_NONE);
}

/* One rule for all of them, wherever the name stands. */
static void a_relative_name_of_a_secret_is_of_the_credentials_directory(void **state)
{
    (void)state;
    static const char *const secrets[] = { "ledger_password_file", "resp_accounts", "keys", "payment_keys",
                                           "publish_password_file" };
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        char text[128];
        const char *value = (const char *)&config + option_find(slice_of(secrets[i]), '_')->offset;
        snprintf(text, sizeof text, "%s = name\n", secrets[i]);
        unsetenv("CREDENTIALS_DIRECTORY");
        assert_int_equal(load_file(text), FAULT_NONE);
        assert_string_equal(value, "name");
        setenv("CREDENTIALS_DIRECTORY", "/run/credentials/stampede.service", 1);
        assert_int_equal(load_file(text), FAULT_NONE);
        assert_string_equal(value, "/run/credentials/stampede.service/name");
        snprintf(text, sizeof text, "%s = /etc/name\n", secrets[i]);
        assert_int_equal(load_file(text), FAULT_NONE);
        assert_string_equal(value, "/etc/name");
        assert_int_equal(load_file(""), FAULT_NONE);
        assert_string_equal(value, "");
    }
    assert_int_equal(load_flags(FLAGS("--keys", "a/b", "--tls-key=k", "--tls-cert=c")), FAULT_NONE);
    assert_string_equal(config.keys, "/run/credentials/stampede.service/a/b");
    assert_string_equal(config.tls_key, "/run/credentials/stampede.service/k");
    assert_string_equal(config.tls_cert, "c"); /* no secret */
    setenv("STAMPEDE_KEYS", "k", 1);
    assert_int_equal(load_file("data = d\nblocks = b\n"), FAULT_NONE);
    assert_string_equal(config.keys, "/run/credentials/stampede.service/k");
    assert_string_equal(config.data, "d");
    assert_string_equal(config.blocks, "b");
    unsetenv("STAMPEDE_KEYS");
    setenv("CREDENTIALS_DIRECTORY", "", 1);
    assert_int_equal(load_flags(FLAGS("--keys", "k")), FAULT_NONE);
    assert_string_equal(config.keys, "k");
    unsetenv("CREDENTIALS_DIRECTORY");
}

static void a_path_of_a_secret_that_is_too_long_is_a_mistake(void **state)
{
    (void)state;
    char folder[CONFIG_TEXT_BYTES];
    memset(folder, 'a', sizeof folder - 1);
    folder[0] = '/';
    folder[sizeof folder - 1] = '\0';
    setenv("CREDENTIALS_DIRECTORY", folder, 1);
    assert_int_equal(load_file("keys = name\n"), FAULT_CONFIG);
    assert_non_null(strstr(mistake.text, "keys"));
    assert_int_equal(load_file("keys = /name\n"), FAULT_NONE);
    unsetenv("CREDENTIALS_DIRECTORY");
}

/* By its name: whoever adds a password file has it follow the rule. */
static void every_path_of_a_secret_follows_the_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const char *name = options[i].name;
        bool secret = strstr(name, "password_file") != NULL || strcmp(name, "keys") == 0 ||
                      strcmp(name, "payment_keys") == 0 || strcmp(name, "resp_accounts") == 0 ||
                      strcmp(name, "tls_key") == 0;
        assert_int_equal(options[i].secret, secret);
        if (secret) assert_int_equal(options[i].kind, OPTION_PATH);
    }
}

static void a_check_tells_every_mistake_with_its_line(void **state)
{
    (void)state;
    static const char text[] = "htpp = x\nreactors = 1\nreactors = 2\n\nclerk_pause_ms = 0\ntls_key = k\n";
    file_write(text, strlen(text));
    char *report;
    size_t size;
    FILE *out = open_memstream(&report, &size);
    assert_int_equal(config_check(path, out), 4);
    fclose(out);
    assert_non_null(strstr(report, " line 1: there is no option htpp"));
    assert_non_null(strstr(report, " line 3: reactors was given before, in line 2\n"));
    assert_non_null(strstr(report, " line 5: clerk_pause_ms is a whole number from 1 to 60000\n"));
    assert_non_null(strstr(report, ": tls_cert and tls_key are given together"));
    free(report);

    file_write("reactors = 1\n", 13);
    out = open_memstream(&report, &size);
    assert_int_equal(config_check(path, out), 0);
    fclose(out);
    assert_string_equal(report, "");
    free(report);
}

static void the_file_is_named_by_flag_or_environment(void **state)
{
    (void)state;
    char *flags[] = { "--http", "127.0.0.1:0", "--config", "a.conf" };
    char *joined[] = { "--config=b.conf" };
    char *hidden[] = { "--data", "--config", "--http", "x" };
    assert_null(config_file(0, NULL));
    assert_string_equal(config_file(4, flags), "a.conf");
    assert_string_equal(config_file(1, joined), "b.conf");
    assert_null(config_file(4, hidden));
    setenv("STAMPEDE_CONFIG", "env.conf", 1);
    assert_string_equal(config_file(0, NULL), "env.conf");
    assert_string_equal(config_file(4, flags), "a.conf");
    unsetenv("STAMPEDE_CONFIG");
}

static void a_reload_takes_what_it_may_and_names_the_rest(void **state)
{
    (void)state;
    struct config running, fresh;
    assert_int_equal(config_load(&running, NULL, 0, NULL, &mistake), FAULT_NONE);
    fresh = running;
    assert_int_equal(config_reload(&running, &fresh, &mistake), 0);
    assert_string_equal(mistake.text, "");

    memcpy(fresh.log_level, "debug", 6);
    memcpy(fresh.http, "0.0.0.0:9", 10);
    fresh.query_threads = 9;
    assert_int_equal(config_reload(&running, &fresh, &mistake), 1);
    assert_string_equal(running.log_level, "debug");
    assert_string_equal(running.http, "127.0.0.1:20080");
    assert_int_equal(running.query_threads, 2);
    assert_string_equal(mistake.text, "http, query_threads");
}

/* The sample is read by people, so it must be what the table says: every option once, in order, with its default and bounds,
 * and a comment above that begins with the sentence of help. */
static void the_sample_file_is_the_table(void **state)
{
    (void)state;
    FILE *file = fopen("conf/stampede.conf", "r");
    assert_non_null(file);
    char *line = NULL, comment[4096] = "";
    size_t size = 0, next = 0;
    ssize_t len;
    while ((len = getline(&line, &size, file)) >= 0) {
        if (line[len - 1] == '\n') line[--len] = '\0';
        if (len == 0) comment[0] = '\0';
        if (line[0] == '#') {
            size_t used = strlen(comment);
            snprintf(comment + used, sizeof(comment) - used, "%s", line + 1);
        }
        if (len == 0 || line[0] == '#') continue;

        assert_true(next < OPTIONS_COUNT);
        const struct option *option = &options[next++];
        char want[256];
        const char *space = option->fallback[0] != '\0' ? " " : "";
        snprintf(want, sizeof(want), "%s =%s%s", option->name, space, option->fallback);
        assert_string_equal(line, want);
        assert_memory_equal(comment + 1, option->help, strlen(option->help) - 1);
        snprintf(want, sizeof(want), "From %lld to %lld.", (long long)option->min, (long long)option->max);
        if (option->kind == OPTION_INTEGER) assert_non_null(strstr(comment, want));
        if (option->reloads) assert_non_null(strstr(comment, "SIGHUP"));
    }
    assert_int_equal(next, OPTIONS_COUNT);
    free(line);
    fclose(file);

    struct config defaults, sample;
    assert_int_equal(config_load(&defaults, NULL, 0, NULL, &mistake), FAULT_NONE);
    assert_int_equal(config_load(&sample, "conf/stampede.conf", 0, NULL, &mistake), FAULT_NONE);
    assert_memory_equal(&sample, &defaults, sizeof(sample));
}

static void help_names_every_option_with_default_and_sentence(void **state)
{
    (void)state;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    config_help(out);
    fclose(out);
    assert_non_null(strstr(text, "  --config PATH\n"));
    assert_non_null(strstr(text, "  --log-level WORD\n      The least level that is logged. One of: debug info warn error. "
                                 "Default: info.\n"));
    for (size_t i = 0; i < OPTIONS_COUNT; i++) assert_non_null(strstr(text, options[i].help));
    for (char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) assert_true(strchr(at, '\n') - at <= 125);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_anything_the_defaults_count),
        cmocka_unit_test(flags_win_over_environment_over_file_over_default),
        cmocka_unit_test(a_file_has_names_values_comments_and_empty_lines),
        cmocka_unit_test(mistakes_in_a_file_name_the_line_and_what_to_do),
        cmocka_unit_test(strange_bytes_and_endless_lines_are_mistakes),
        cmocka_unit_test(a_file_that_cannot_be_read_is_a_mistake),
        cmocka_unit_test(flags_take_their_value_after_a_space_or_an_equals_sign),
        cmocka_unit_test(mistakes_among_flags_name_the_flag),
        cmocka_unit_test(mistakes_in_the_environment_name_the_variable),
        cmocka_unit_test(a_certificate_needs_its_key_and_a_key_its_certificate),
        cmocka_unit_test(the_first_wait_of_a_webhook_is_no_longer_than_the_longest),
        cmocka_unit_test(a_relative_name_of_a_secret_is_of_the_credentials_directory),
        cmocka_unit_test(a_path_of_a_secret_that_is_too_long_is_a_mistake),
        cmocka_unit_test(every_path_of_a_secret_follows_the_rule),
        cmocka_unit_test(a_check_tells_every_mistake_with_its_line),
        cmocka_unit_test(the_file_is_named_by_flag_or_environment),
        cmocka_unit_test(a_reload_takes_what_it_may_and_names_the_rest),
        cmocka_unit_test(the_sample_file_is_the_table),
        cmocka_unit_test(help_names_every_option_with_default_and_sentence),
    };
    return cmocka_run_group_tests(tests, file_make, file_remove);
}
