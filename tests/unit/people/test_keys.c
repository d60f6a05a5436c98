#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "people/keys.h"
#include "tests/unit/people/secret_folder.h"

#define OLD "old 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
#define NEW "new ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100\n"

static size_t token_make(struct jwt_ring *ring, char *out, size_t size)
{
    struct jwt_mac *mac;
    assert_int_equal(jwt_mac_open(&mac, ring), FAULT_NONE);
    struct jwt_claims claims = {
        .subject = "ann", .role = "customer", .token_id = 5, .issued_s = 1000, .not_before_s = 1000, .expires_s = 2000
    };
    size_t len = jwt_make(mac, &claims, out, size);
    jwt_mac_close(mac);
    assert_true(len > 0);
    return len;
}

static enum jwt_check token_check(struct jwt_ring *ring, const char *token, size_t len)
{
    struct jwt_mac *mac;
    assert_int_equal(jwt_mac_open(&mac, ring), FAULT_NONE);
    struct jwt_claims claims;
    enum jwt_check check = jwt_check(mac, (struct slice){ token, len }, 1500, &claims);
    jwt_mac_close(mac);
    return check;
}

static void a_missing_file_is_made_for_its_owner_alone_and_kept(void **state)
{
    (void)state;
    struct jwt_ring *ring;
    assert_int_equal(keys_open(&ring, path, (struct slice){ 0 }), FAULT_NONE);
    char token[TOKEN_BYTES_MAX];
    size_t len = token_make(ring, token, sizeof(token));
    jwt_ring_close(ring);

    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(keys_open(&ring, path, (struct slice){ 0 }), FAULT_NONE);
    assert_int_equal(token_check(ring, token, len), JWT_GOOD);
    jwt_ring_close(ring);

    /* Another start elsewhere makes another key. */
    unlink(path);
    assert_int_equal(keys_open(&ring, path, (struct slice){ 0 }), FAULT_NONE);
    assert_int_equal(token_check(ring, token, len), JWT_BAD);
    jwt_ring_close(ring);
}

static void a_file_others_may_touch_is_refused(void **state)
{
    (void)state;
    static const mode_t modes[] = { 0640, 0604, 0620, 0602, 0644, 0666, 0610, 0601 };
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        file_write(OLD, modes[i]);
        struct jwt_ring *ring = (struct jwt_ring *)1;
        assert_int_equal(keys_open(&ring, path, (struct slice){ 0 }), FAULT_CONFIG);
        assert_null(ring);
    }
    struct jwt_ring *ring;
    file_write(OLD, 0400);
    assert_int_equal(keys_open(&ring, path, (struct slice){ 0 }), FAULT_NONE);
    jwt_ring_close(ring);
}

static void a_file_that_cannot_be_understood_is_refused_and_kept(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "# nothing\n", "old\n", "old 0011\n",
                                         "old zz112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n" };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        file_write(texts[i], 0600);
        struct jwt_ring *ring;
        assert_int_equal(keys_open(&ring, path, (struct slice){ 0 }), FAULT_CONFIG);
        struct stat about;
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_size, strlen(texts[i]));
    }
}

static void after_rotation_old_tokens_still_count_until_the_line_goes(void **state)
{
    (void)state;
    struct jwt_ring *ring;
    char before[TOKEN_BYTES_MAX], after[TOKEN_BYTES_MAX];
    file_write(OLD, 0600);
    assert_int_equal(keys_open(&ring, path, (struct slice){ 0 }), FAULT_NONE);
    size_t before_len = token_make(ring, before, sizeof(before));
    jwt_ring_close(ring);

    file_write(NEW OLD, 0600);
    assert_int_equal(keys_open(&ring, path, (struct slice){ 0 }), FAULT_NONE);
    size_t after_len = token_make(ring, after, sizeof(after));
    assert_int_equal(token_check(ring, before, before_len), JWT_GOOD);
    assert_int_equal(token_check(ring, after, after_len), JWT_GOOD);
    jwt_ring_close(ring);

    file_write(NEW, 0600);
    assert_int_equal(keys_open(&ring, path, (struct slice){ 0 }), FAULT_NONE);
    assert_int_equal(token_check(ring, before, before_len), JWT_BAD);
    assert_int_equal(token_check(ring, after, after_len), JWT_GOOD);
    jwt_ring_close(ring);
}

static void keys_of_the_environment_win_and_no_file_is_made(void **state)
{
    (void)state;
    struct jwt_ring *ring;
    assert_int_equal(keys_open(&ring, path, SLICE(OLD)), FAULT_NONE);
    jwt_ring_close(ring);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(keys_open(&ring, path, SLICE("secret")), FAULT_CONFIG);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_missing_file_is_made_for_its_owner_alone_and_kept),
        CASE(a_file_others_may_touch_is_refused),
        CASE(a_file_that_cannot_be_understood_is_refused_and_kept),
        CASE(after_rotation_old_tokens_still_count_until_the_line_goes),
        cmocka_unit_test_setup_teardown(keys_of_the_environment_win_and_no_file_is_made, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
