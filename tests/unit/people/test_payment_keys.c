#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "people/payment_keys.h"
#include "tests/unit/people/secret_folder.h"

#define OLD "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define NEW "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

static struct payment_keys *opened(void)
{
    struct payment_keys *keys;
    assert_int_equal(payment_keys_open(&keys, path, (struct slice){ 0 }), FAULT_NONE);
    return keys;
}

/* Whether a message signed with the secret is taken. */
static bool takes(struct payment_keys *keys, const char *secret_text)
{
    struct signature_secret secret;
    const struct signed_message message = { SLICE("msg_1"), 1700000000, SLICE("{}") };
    char text[SIGNATURE_TEXT_BYTES + 1];
    assert_true(signature_secret_parse(slice_of(secret_text), &secret));
    signature_make(&secret, &message, text);
    return payment_keys_fit(keys, &message, slice_of(text));
}

static void file_secret(char out[SIGNATURE_SECRET_TEXT_BYTES + 1])
{
    char text[1024] = "";
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    char *from = strstr(text, "\nwhsec_");
    assert_non_null(from);
    size_t len = strcspn(from + 1, "\n");
    assert_true(len <= SIGNATURE_SECRET_TEXT_BYTES);
    memcpy(out, from + 1, len);
    out[len] = '\0';
}

static void a_missing_file_is_made_for_its_owner_alone_and_kept(void **state)
{
    (void)state;
    char secret[SIGNATURE_SECRET_TEXT_BYTES + 1], again[SIGNATURE_SECRET_TEXT_BYTES + 1];
    struct stat about;
    struct payment_keys *keys = opened();
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    file_secret(secret);
    assert_true(takes(keys, secret));
    assert_false(takes(keys, OLD));
    payment_keys_close(keys);

    keys = opened();
    file_secret(again);
    assert_string_equal(secret, again);
    payment_keys_close(keys);
}

static void every_line_counts(void **state)
{
    (void)state;
    file_write("# two\n" OLD "\r\n\n  " NEW " \n", 0600);
    struct payment_keys *keys = opened();
    assert_true(takes(keys, OLD));
    assert_true(takes(keys, NEW));
    payment_keys_close(keys);
}

static void a_file_that_cannot_be_used_stops_the_start(void **state)
{
    (void)state;
    static const char *const texts[] = { "",
                                         "# none\n",
                                         "whsec_\n",
                                         OLD "\nwhsec_short\n",
                                         OLD " " NEW "\n",
                                         OLD "\n" OLD "\n" OLD "\n" OLD "\n" OLD "\n" OLD "\n" OLD "\n" OLD "\n" OLD "\n" };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct payment_keys *keys = (struct payment_keys *)1;
        file_write(texts[i], 0600);
        assert_int_equal(payment_keys_open(&keys, path, (struct slice){ 0 }), FAULT_CONFIG);
        assert_null(keys);
    }
    struct payment_keys *keys;
    file_write(OLD "\n", 0640);
    assert_int_equal(payment_keys_open(&keys, path, (struct slice){ 0 }), FAULT_CONFIG);
}

static void a_reload_takes_new_secrets_and_drops_removed_ones(void **state)
{
    (void)state;
    file_write(OLD "\n", 0600);
    struct payment_keys *keys = opened();
    assert_false(takes(keys, NEW));
    file_write(OLD "\n" NEW "\n", 0600);
    assert_false(takes(keys, NEW)); /* not before it is told */
    payment_keys_reload(keys);
    assert_true(takes(keys, OLD) && takes(keys, NEW));
    file_write(NEW "\n", 0600);
    payment_keys_reload(keys);
    assert_true(!takes(keys, OLD) && takes(keys, NEW));
    payment_keys_close(keys);
}

static void a_bad_reload_changes_nothing(void **state)
{
    (void)state;
    file_write(OLD "\n", 0600);
    struct payment_keys *keys = opened();
    file_write(NEW "\nrubbish\n", 0600);
    payment_keys_reload(keys);
    assert_true(takes(keys, OLD) && !takes(keys, NEW));
    file_write(NEW "\n", 0644);
    payment_keys_reload(keys);
    assert_true(takes(keys, OLD) && !takes(keys, NEW));
    unlink(path);
    payment_keys_reload(keys);
    assert_true(takes(keys, OLD));
    assert_int_not_equal(access(path, F_OK), 0); /* a reload makes no secret that nobody knows of */
    payment_keys_close(keys);
}

static void secrets_of_the_environment_win_and_no_file_is_made(void **state)
{
    (void)state;
    struct payment_keys *keys;
    assert_int_equal(payment_keys_open(&keys, path, SLICE(OLD)), FAULT_NONE);
    assert_true(takes(keys, OLD));
    payment_keys_reload(keys);
    assert_true(takes(keys, OLD));
    payment_keys_close(keys);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(payment_keys_open(&keys, path, SLICE("secret")), FAULT_CONFIG);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_missing_file_is_made_for_its_owner_alone_and_kept),
        CASE(every_line_counts),
        CASE(a_file_that_cannot_be_used_stops_the_start),
        CASE(a_reload_takes_new_secrets_and_drops_removed_ones),
        CASE(a_bad_reload_changes_nothing),
        CASE(secrets_of_the_environment_win_and_no_file_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
