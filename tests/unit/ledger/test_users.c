#include "fixture.h"

#include <string.h>

static bool user_add(struct fixture *f, const char *name, enum role role, const char *hash)
{
    struct ledger_user user = { .role = role };
    memcpy(user.username, name, strlen(name) + 1);
    memcpy(user.password_hash, hash, strlen(hash) + 1);
    bool taken;
    assert_int_equal(ledger_user_add(f->ledger, &user, 1234, &taken), FAULT_NONE);
    return !taken;
}

static void a_name_is_given_once_and_case_matters(void **state)
{
    struct fixture *f = *state;
    assert_true(user_add(f, "ann", ROLE_CUSTOMER, "hash of ann"));
    assert_false(user_add(f, "ann", ROLE_ADMIN, "hash of a thief"));
    assert_true(user_add(f, "Ann", ROLE_SELLER, "hash of Ann"));
    assert_true(user_add(f, "x' OR 'a'='a", ROLE_CUSTOMER, "h"));
    fixture_reopen(f);

    static const struct {
        const char *name;
        enum role role;
        const char *hash;
    } script[] = {
        { "ann", ROLE_CUSTOMER, "hash of ann" }, { "Ann", ROLE_SELLER, "hash of Ann" },
        { "x' OR 'a'='a", ROLE_CUSTOMER, "h" },  { "aNN", ROLE_NONE, "" },
        { "' OR '1'='1", ROLE_NONE, "" },        { "", ROLE_NONE, "" },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct ledger_user user = { 0 };
        bool found;
        assert_int_equal(ledger_user(f->ledger, slice_of(script[i].name), &user, &found), FAULT_NONE);
        assert_int_equal(found, script[i].role != ROLE_NONE);
        if (!found) continue;
        assert_string_equal(user.username, script[i].name);
        assert_int_equal(user.role, script[i].role);
        assert_string_equal(user.password_hash, script[i].hash);
    }
}

static void a_role_that_cannot_be_is_damage(void **state)
{
    struct fixture *f = *state;
    assert_true(user_add(f, "ann", ROLE_CUSTOMER, "h"));
    outside(f, "UPDATE users SET role = 4");
    struct ledger_user user;
    bool found;
    assert_int_equal(ledger_user(f->ledger, SLICE("ann"), &user, &found), FAULT_DAMAGE);
}

static bool sells(struct fixture *f, const char *name)
{
    bool found;
    assert_int_equal(ledger_sells(f->ledger, slice_of(name), &found), FAULT_NONE);
    return found;
}

static void whoever_may_sell_or_has_something_on_sale_is_a_seller(void **state)
{
    struct fixture *f = *state;
    assert_true(user_add(f, "ann", ROLE_CUSTOMER, "h"));
    assert_true(user_add(f, "kim", ROLE_SELLER, "h"));
    assert_true(user_add(f, "root", ROLE_ADMIN, "h"));
    outside(f, "INSERT INTO events (seller, name, description, opens_ms, created_ms, subscribers, told)"
               " VALUES ('https://id.example:eve', 'spring', '', 5, 1, 0, 0)");
    assert_true(sells(f, "kim") && sells(f, "root") && sells(f, "https://id.example:eve"));
    assert_false(sells(f, "ann") || sells(f, "Kim") || sells(f, "kin") || sells(f, ""));
    const struct sale_terms terms = terms_named("mug");
    assert_int_not_equal(sale_file(f, "https://id.example:rose", &terms, 1), 0);
    assert_true(sells(f, "https://id.example:rose"));
}

struct revocations {
    uint64_t ids[8], expires[8];
    size_t count;
};

static enum fault revoked_seen(void *arg, uint64_t token_id, uint64_t expires_ms)
{
    struct revocations *seen = arg;
    seen->ids[seen->count] = token_id;
    seen->expires[seen->count++] = expires_ms;
    return FAULT_NONE;
}

static void logouts_last_until_their_tokens_expire(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ledger_revoke(f->ledger, UINT64_MAX, 2000), FAULT_NONE);
    assert_int_equal(ledger_revoke(f->ledger, 5, 1000), FAULT_NONE);
    assert_int_equal(ledger_revoke(f->ledger, 5, 1000), FAULT_NONE); /* twice is once */
    fixture_reopen(f);

    struct revocations seen = { 0 };
    assert_int_equal(ledger_each_revoked(f->ledger, 999, revoked_seen, &seen), FAULT_NONE);
    assert_int_equal(seen.count, 2);
    seen.count = 0;
    assert_int_equal(ledger_forget_revoked(f->ledger, 1000), FAULT_NONE);
    assert_int_equal(ledger_each_revoked(f->ledger, 0, revoked_seen, &seen), FAULT_NONE);
    assert_int_equal(seen.count, 1);
    assert_true(seen.ids[0] == UINT64_MAX);
    assert_int_equal(seen.expires[0], 2000);
}

static void roles_have_their_words(void **state)
{
    (void)state;
    assert_string_equal(role_word(ROLE_CUSTOMER), "customer");
    assert_string_equal(role_word(ROLE_SELLER), "seller");
    assert_string_equal(role_word(ROLE_ADMIN), "admin");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_name_is_given_once_and_case_matters),
        CASE(a_role_that_cannot_be_is_damage),
        CASE(whoever_may_sell_or_has_something_on_sale_is_a_seller),
        CASE(logouts_last_until_their_tokens_expire),
        CASE(roles_have_their_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
