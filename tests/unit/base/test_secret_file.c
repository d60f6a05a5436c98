/* Passwords for other servers: from the environment or from a file that only its owner may read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/secret_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLE "STAMPEDE_TEST_PASSWORD"
static char path[] = "/tmp/stampede-secret-XXXXXX";

static enum fault find(const char *text, mode_t mode, char out[PASSWORD_TEXT_BYTES])
{
    const struct password_source source = { "test", "password of a test", text != NULL ? path : "", VARIABLE };
    if (text != NULL) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
        assert_int_equal(chmod(path, mode), 0);
    }
    return password_find(out, &source);
}

static void neither_file_nor_environment_is_no_password(void **state)
{
    (void)state;
    char out[PASSWORD_TEXT_BYTES] = "x";
    assert_int_equal(find(NULL, 0, out), FAULT_NONE);
    assert_string_equal(out, "");
}

static void the_first_line_of_the_file_is_the_password(void **state)
{
    (void)state;
    static const char *const texts[] = { "pass word", "pass word\n", "pass word\r\n", "pass word\nmore\n" };
    char out[PASSWORD_TEXT_BYTES];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(find(texts[i], 0600, out), FAULT_NONE);
        assert_string_equal(out, "pass word");
    }
}

static void the_environment_counts_where_there_is_no_file(void **state)
{
    (void)state;
    char out[PASSWORD_TEXT_BYTES];
    setenv(VARIABLE, "from outside", 1);
    assert_int_equal(find(NULL, 0, out), FAULT_NONE);
    assert_string_equal(out, "from outside");
    assert_int_equal(find("from the file", 0600, out), FAULT_NONE);
    assert_string_equal(out, "from the file");
    unsetenv(VARIABLE);
}

static void a_file_that_others_may_read_is_refused(void **state)
{
    (void)state;
    char out[PASSWORD_TEXT_BYTES];
    assert_int_equal(find("secret", 0640, out), FAULT_CONFIG);
    assert_string_equal(out, "");
    assert_int_equal(find("secret", 0604, out), FAULT_CONFIG);
}

/* As systemd's credentials and secrets of Kubernetes and Docker come: owned by somebody else, readable through a group. */
static void a_group_may_read_what_somebody_else_hands_to_us(void **state)
{
    (void)state;
    static const struct {
        mode_t mode;
        bool ours, theirs;
    } script[] = {
        { 0400, true, true },   { 0600, true, true },   { 0440, false, true },  { 0640, false, true },
        { 0660, false, false }, { 0444, false, false }, { 0604, false, false }, { 0450, false, false },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct stat about = { .st_mode = S_IFREG | script[i].mode, .st_uid = geteuid() };
        assert_int_equal(secret_file_kept(&about), script[i].ours);
        about.st_uid = geteuid() + 1;
        assert_int_equal(secret_file_kept(&about), script[i].theirs);
    }
}

static void an_empty_or_endless_line_is_refused(void **state)
{
    (void)state;
    char out[PASSWORD_TEXT_BYTES], text[PASSWORD_TEXT_BYTES + 1];
    assert_int_equal(find("", 0600, out), FAULT_CONFIG);
    assert_int_equal(find("\nsecret\n", 0600, out), FAULT_CONFIG);
    memset(text, 'a', PASSWORD_TEXT_BYTES);
    text[PASSWORD_TEXT_BYTES] = '\0';
    assert_int_equal(find(text, 0600, out), FAULT_CONFIG);
    text[PASSWORD_TEXT_BYTES - 1] = '\0';
    assert_int_equal(find(text, 0600, out), FAULT_NONE);
}

static void a_file_that_is_not_there_is_a_fault(void **state)
{
    (void)state;
    char out[PASSWORD_TEXT_BYTES];
    const struct password_source source = { "test", "password of a test", "/nonexistent/password", VARIABLE };
    assert_int_not_equal(password_find(out, &source), FAULT_NONE);
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    unsetenv(VARIABLE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neither_file_nor_environment_is_no_password),
        cmocka_unit_test(the_first_line_of_the_file_is_the_password),
        cmocka_unit_test(the_environment_counts_where_there_is_no_file),
        cmocka_unit_test(a_file_that_others_may_read_is_refused),
        cmocka_unit_test(a_group_may_read_what_somebody_else_hands_to_us),
        cmocka_unit_test(an_empty_or_endless_line_is_refused),
        cmocka_unit_test(a_file_that_is_not_there_is_a_fault),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
