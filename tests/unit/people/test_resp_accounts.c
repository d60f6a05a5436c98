#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ledger/ledger.h"
#include "people/resp_accounts.h"
#include "tests/unit/people/secret_folder.h"

#define SHOP "correct-horse-battery-staple"
#define OTHER "another-secret-of-a-machine"

static char ledger_path[160];

static int ledger_setup(void **state)
{
    struct ledger *ledger;
    if (folder_setup(state) != 0) return -1;
    snprintf(ledger_path, sizeof(ledger_path), "%s/ledger.db", folder);
    if (ledger_open(&ledger, LEDGER_FILE(ledger_path), LEDGER_OWNER) != FAULT_NONE) return -1;
    ledger_close(ledger);
    return 0;
}

static int ledger_teardown(void **state)
{
    unlink(ledger_path);
    return folder_teardown(state);
}

static enum fault accounts_open(struct resp_accounts **out, const char *file, const char *issuer)
{
    const struct resp_accounts_options options = { .path = file, .ledger = LEDGER_FILE(ledger_path), .issuer = issuer };
    return resp_accounts_open(out, &options);
}

static enum fault file_open(struct resp_accounts **out)
{
    return accounts_open(out, path, "");
}

/* As somebody who registers does it. */
static bool name_is_free(const char *name)
{
    struct ledger *ledger;
    struct ledger_user user = { .role = ROLE_SELLER, .password_hash = "hash" };
    bool taken;
    snprintf(user.username, sizeof(user.username), "%s", name);
    assert_int_equal(ledger_open(&ledger, LEDGER_FILE(ledger_path), LEDGER_WRITER), FAULT_NONE);
    assert_int_equal(ledger_user_add(ledger, &user, 1, &taken), FAULT_NONE);
    ledger_close(ledger);
    return !taken;
}

static const struct resp_account *check(struct resp_accounts *accounts, const char *name, const char *password)
{
    return resp_accounts_check(accounts, slice_of(name), slice_of(password));
}

static void without_a_file_there_is_one_account_that_needs_no_password(void **state)
{
    (void)state;
    struct resp_accounts *accounts;
    assert_int_equal(accounts_open(&accounts, "", ""), FAULT_NONE);
    const struct resp_account *account = resp_accounts_unasked(accounts);
    assert_non_null(account);
    assert_string_equal(account->name, "default");
    assert_int_equal(account->name_len, 7);
    assert_ptr_equal(check(accounts, "default", "anything"), account);
    assert_null(check(accounts, "shop", "anything"));
    assert_true(resp_accounts_have(accounts, SLICE("default")));
    assert_false(resp_accounts_have(accounts, SLICE("shop")));
    resp_accounts_reload(accounts);
    assert_false(account->gone);
    resp_accounts_close(accounts);
}

static void with_a_file_everybody_says_a_password_and_the_right_one(void **state)
{
    (void)state;
    struct resp_accounts *accounts;
    file_write("# backends\n\nshop " SHOP "\r\n\tother\t" OTHER "  \n", 0600);
    assert_int_equal(file_open(&accounts), FAULT_NONE);
    assert_null(resp_accounts_unasked(accounts));
    assert_string_equal(check(accounts, "shop", SHOP)->name, "shop");
    assert_string_equal(check(accounts, "other", OTHER)->name, "other");
    static const char *const wrong[][2] = {
        { "shop", OTHER },     { "shop", "" },
        { "other", SHOP },     { "default", SHOP },
        { "", SHOP },          { "Shop", SHOP },
        { "sho", SHOP },       { "shopp", SHOP },
        { "shop", SHOP "\r" }, { "shop", "correct-horse-battery-stapl" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) assert_null(check(accounts, wrong[i][0], wrong[i][1]));
    resp_accounts_close(accounts);
}

static void what_cannot_be_used_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "# nobody\n",
        "shop\n",
        "shop tooshort\n",
        "shop two words-of-a-password\n",
        "a-name-of-more-than-24-bytes " SHOP "\n",
        "with:colon " SHOP "\n",
        "claim " SHOP "\n",
        "key " SHOP "\n",
        "cut " SHOP "\n",
        "shop " SHOP "\nshop " OTHER "\n",
        "caf\xe9 " SHOP "\n",
    };
    struct resp_accounts *accounts;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        file_write(wrong[i], 0600);
        assert_int_equal(file_open(&accounts), FAULT_CONFIG);
        assert_null(accounts);
    }
    file_write("shop " SHOP "\n", 0640);
    assert_int_equal(file_open(&accounts), FAULT_CONFIG);
    unlink(path);
    assert_int_not_equal(file_open(&accounts), FAULT_NONE);
}

static void a_reload_takes_changes_and_a_mistake_changes_nothing(void **state)
{
    (void)state;
    struct resp_accounts *accounts;
    file_write("shop " SHOP "\nother " OTHER "\n", 0600);
    assert_int_equal(file_open(&accounts), FAULT_NONE);
    const struct resp_account *shop = check(accounts, "shop", SHOP), *other = check(accounts, "other", OTHER);
    file_write("shop " OTHER "\nthird " SHOP "\n", 0600);
    resp_accounts_reload(accounts);
    assert_ptr_equal(check(accounts, "shop", OTHER), shop); /* where it was */
    assert_null(check(accounts, "shop", SHOP));
    assert_true(other->gone);
    assert_false(shop->gone);
    assert_null(check(accounts, "other", OTHER));
    assert_true(resp_accounts_have(accounts, SLICE("other"))); /* its sales are still called so */
    assert_string_equal(check(accounts, "third", SHOP)->name, "third");

    file_write("shop short\n", 0600);
    resp_accounts_reload(accounts);
    assert_ptr_equal(check(accounts, "shop", OTHER), shop);
    file_write("other " OTHER "\n", 0600);
    resp_accounts_reload(accounts);
    assert_false(other->gone);
    assert_true(shop->gone);
    resp_accounts_close(accounts);
}

static void more_names_than_there_is_room_for_change_nothing(void **state)
{
    (void)state;
    struct resp_accounts *accounts;
    char text[8192];
    size_t len = 0;
    for (int i = 0; i < RESP_ACCOUNTS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "shop%d " SHOP "\n", i);
    file_write(text, 0600);
    assert_int_equal(file_open(&accounts), FAULT_NONE);
    file_write("another " SHOP "\n", 0600);
    resp_accounts_reload(accounts);
    assert_null(check(accounts, "another", SHOP));
    assert_non_null(check(accounts, "shop63", SHOP));
    resp_accounts_close(accounts);
    snprintf(text + len, sizeof(text) - len, "another " SHOP "\n");
    file_write(text, 0600);
    assert_int_equal(file_open(&accounts), FAULT_CONFIG);
}

static void a_name_is_kept_for_good_once_a_file_has_had_it(void **state)
{
    (void)state;
    struct resp_accounts *accounts;
    assert_true(name_is_free("early"));
    file_write("shop " SHOP "\nearly " OTHER "\n", 0600);
    assert_int_equal(file_open(&accounts), FAULT_NONE);
    assert_non_null(check(accounts, "early", OTHER)); /* its user keeps the name, too */
    file_write("third " SHOP "\n", 0600);
    resp_accounts_reload(accounts);
    file_write("fourth " SHOP "\nfourth " SHOP "\n", 0600);
    resp_accounts_reload(accounts);
    resp_accounts_close(accounts);

    file_write("last " SHOP "\n", 0600);
    assert_int_equal(file_open(&accounts), FAULT_NONE);
    assert_false(resp_accounts_have(accounts, SLICE("shop"))); /* but the ledger knows */
    resp_accounts_close(accounts);
    for (int again = 0; again < 2; again++) {
        assert_false(name_is_free("shop"));
        assert_false(name_is_free("third"));
        assert_false(name_is_free("last"));
    }
    assert_true(name_is_free("fourth")); /* a file that is not taken keeps nothing */
    assert_true(name_is_free("Shop"));
}

static void an_account_counts_only_once_its_name_is_kept(void **state)
{
    (void)state;
    struct resp_accounts *accounts;
    file_write("shop " SHOP "\n", 0600);
    assert_int_equal(file_open(&accounts), FAULT_NONE);
    file_write("other " OTHER "\n", 0600);
    unlink(ledger_path);
    resp_accounts_reload(accounts);
    assert_null(check(accounts, "other", OTHER));
    assert_non_null(check(accounts, "shop", SHOP));
    resp_accounts_close(accounts);
    assert_int_not_equal(file_open(&accounts), FAULT_NONE);
}

/* Buyers of both would have the same names. */
static void no_account_is_called_like_the_identity_provider(void **state)
{
    (void)state;
    static const char *const issuers[] = { "shop", "shop:", "shop:eu", "shop://login.example" };
    struct resp_accounts *accounts;
    for (size_t i = 0; i < sizeof(issuers) / sizeof(issuers[0]); i++) {
        file_write("shop " SHOP "\n", 0600);
        assert_int_equal(accounts_open(&accounts, path, issuers[i]), FAULT_CONFIG);
        file_write("other " OTHER "\n", 0600);
        assert_int_equal(accounts_open(&accounts, path, issuers[i]), FAULT_NONE);
        file_write("other " OTHER "\nshop " SHOP "\n", 0600);
        resp_accounts_reload(accounts);
        assert_null(check(accounts, "shop", SHOP));
        resp_accounts_close(accounts);
    }
    file_write("shop " SHOP "\n", 0600);
    assert_int_equal(accounts_open(&accounts, path, "shops"), FAULT_NONE);
    resp_accounts_close(accounts);
    assert_int_equal(accounts_open(&accounts, "", "shop:eu"), FAULT_CONFIG); /* its buyers are still called so */
    assert_true(name_is_free("people"));
    assert_int_equal(accounts_open(&accounts, "", "people"), FAULT_NONE); /* a user's buyers are called otherwise */
    resp_accounts_close(accounts);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, ledger_setup, ledger_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_a_file_there_is_one_account_that_needs_no_password),
        CASE(with_a_file_everybody_says_a_password_and_the_right_one),
        CASE(what_cannot_be_used_is_refused),
        CASE(a_reload_takes_changes_and_a_mistake_changes_nothing),
        CASE(more_names_than_there_is_room_for_change_nothing),
        CASE(a_name_is_kept_for_good_once_a_file_has_had_it),
        CASE(an_account_counts_only_once_its_name_is_kept),
        CASE(no_account_is_called_like_the_identity_provider),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
