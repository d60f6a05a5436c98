#include "stage.h"

#include "engine/buyer.h"

#include <stdio.h>
#include <string.h>

static void the_name_follows_from_the_grab_and_the_admission(void **state)
{
    (void)state;
    static const struct {
        const char *buyer, *key;
        enum admission admission;
        uint64_t claim_no;
        const char *want;
    } rows[] = {
        { "ann", "", ADMISSION_LOGIN, 1, "ann" }, { "ann", "k", ADMISSION_LOGIN, 1, "ann" },
        { "", "", ADMISSION_LOGIN, 1, "" },       { "", "k", ADMISSION_LOGIN, 1, "" },
        { "", "", ADMISSION_OPEN, 1, "claim:1" }, { "", "", ADMISSION_OPEN, UINT64_MAX, "claim:18446744073709551615" },
        { "", "k", ADMISSION_OPEN, 1, "key:k" },  { "ann", "k", ADMISSION_OPEN, 1, "ann" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[BUYER_BYTES_MAX + 1];
        struct grab grab = { .buyer = slice_of(rows[i].buyer), .key = slice_of(rows[i].key), .units = 1 };
        struct slice got = buyer_of(&grab, rows[i].admission, rows[i].claim_no, name);
        assert_string_equal(name, rows[i].want);
        assert_true(slice_is(got, rows[i].want));
    }
}

static void name_of_key(const char *key, size_t len, char out[BUYER_BYTES_MAX + 1])
{
    struct grab grab = { .key = { key, len }, .units = 1 };
    struct slice name = buyer_of(&grab, ADMISSION_OPEN, 1, out);
    assert_int_equal(name.len, strlen(out));
    assert_true(name.len <= BUYER_BYTES_MAX);
}

static void keys_of_every_length_give_names_of_their_own(void **state)
{
    (void)state;
    char key[IDEMPOTENCY_KEY_BYTES_MAX], names[IDEMPOTENCY_KEY_BYTES_MAX + 1][BUYER_BYTES_MAX + 1];
    memset(key, 'x', sizeof key);
    for (size_t len = 1; len <= sizeof key; len++) {
        name_of_key(key, len, names[len]);
        for (size_t other = 1; other < len; other++) assert_string_not_equal(names[len], names[other]);
    }

    /* Long keys that differ only where they are cut off. */
    char a[BUYER_BYTES_MAX + 1], b[BUYER_BYTES_MAX + 1];
    name_of_key(key, 64, a);
    key[63] = 'y';
    name_of_key(key, 64, b);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 64);
    name_of_key(key, 64, a);
    assert_string_equal(a, b);
}

/* The name of a long key written down, for a repeat after a restart must find it. */
static void the_name_of_a_long_key_never_changes(void **state)
{
    (void)state;
    char name[BUYER_BYTES_MAX + 1];
    static const char key[] = "0123456789012345678901234567890123456789012345678901234567890123";
    name_of_key(key, 64, name);
    assert_string_equal(name, "cut:0123456789012345678901234567890123456789012368186a25ef69c5b2");
}

static void a_short_key_cannot_pose_as_a_long_one(void **state)
{
    (void)state;
    char key[IDEMPOTENCY_KEY_BYTES_MAX], of_long[BUYER_BYTES_MAX + 1], of_short[BUYER_BYTES_MAX + 1];
    memset(key, 'x', sizeof key);
    name_of_key(key, 64, of_long);
    name_of_key(of_long + 4, strlen(of_long) - 4, of_short);
    assert_string_not_equal(of_long, of_short);
}

/* A name is shown in JSON: it may not end in half a character. */
static void a_long_key_is_cut_between_characters(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        char key[80] = "abc", name[BUYER_BYTES_MAX + 1];
        size_t len = shift;
        for (; len + 3 <= 64; len += 3) memcpy(key + len, "\xe2\x82\xac", 3);
        name_of_key(key, len, name);
        size_t cut = strlen(name) - 16 - 4;
        assert_int_equal((cut - shift) % 3, 0);
        assert_memory_equal(name + 4, key, cut);
    }
}

static void made_up_names_are_known_as_such(void **state)
{
    (void)state;
    assert_true(buyer_is_made_up(SLICE("claim:1")));
    assert_true(buyer_is_made_up(SLICE("claim:")));
    assert_true(buyer_is_made_up(SLICE("key:x")));
    assert_true(buyer_is_made_up(SLICE("cut:x")));
    assert_false(buyer_is_made_up(SLICE("")));
    assert_false(buyer_is_made_up(SLICE("claim")));
    assert_false(buyer_is_made_up(SLICE("keys")));
    assert_false(buyer_is_made_up(SLICE("Key:x")));
}

static void nobody_else_can_take_a_made_up_name_in_an_open_sale(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    uint64_t login = stage_sale(engine, &terms, 5);
    terms.admission = ADMISSION_OPEN;
    stage_rename(&terms, "for all");
    uint64_t open = stage_sale(engine, &terms, 5);
    assert_int_equal(stage_buy(engine, open, "claim:1", 1), VERDICT_BAD_INPUT);
    assert_int_equal(stage_buy(engine, open, "key:abc", 1), VERDICT_BAD_INPUT);
    assert_int_equal(stage_buy(engine, open, "ann", 1), VERDICT_WON);
    assert_int_equal(stage_buy(engine, login, "claim:1", 1), VERDICT_WON);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_name_follows_from_the_grab_and_the_admission),
        cmocka_unit_test(keys_of_every_length_give_names_of_their_own),
        cmocka_unit_test(the_name_of_a_long_key_never_changes),
        cmocka_unit_test(a_short_key_cannot_pose_as_a_long_one),
        cmocka_unit_test(a_long_key_is_cut_between_characters),
        cmocka_unit_test(made_up_names_are_known_as_such),
        cmocka_unit_test(nobody_else_can_take_a_made_up_name_in_an_open_sale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
