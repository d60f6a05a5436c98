#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "people/resp_accounts.h"
#include "tests/unit/people/secret_folder.h"

#define SHOP "correct-horse-battery-staple"
#define OTHER "another-secret-of-a-machine"

static const struct resp_account *check(struct resp_accounts *accounts, const char *name, const char *password)
{
    return resp_accounts_check(accounts, slice_of(name), slice_of(password));
}

static void without_a_file_there_is_one_account_that_needs_no_password(void **state)
{
    (void)state;
    struct resp_accounts *accounts;
    assert_int_equal(resp_accounts_open(&accounts, ""), FAULT_NONE);
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
    assert_int_equal(resp_accounts_open(&accounts, path), FAULT_NONE);
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
        assert_int_equal(resp_accounts_open(&accounts, path), FAULT_CONFIG);
        assert_null(accounts);
    }
    file_write("shop " SHOP "\n", 0640);
    assert_int_equal(resp_accounts_open(&accounts, path), FAULT_CONFIG);
    unlink(path);
    assert_int_not_equal(resp_accounts_open(&accounts, path), FAULT_NONE);
}

static void a_reload_takes_changes_and_a_mistake_changes_nothing(void **state)
{
    (void)state;
    struct resp_accounts *accounts;
    file_write("shop " SHOP "\nother " OTHER "\n", 0600);
    assert_int_equal(resp_accounts_open(&accounts, path), FAULT_NONE);
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
    assert_int_equal(resp_accounts_open(&accounts, path), FAULT_NONE);
    file_write("another " SHOP "\n", 0600);
    resp_accounts_reload(accounts);
    assert_null(check(accounts, "another", SHOP));
    assert_non_null(check(accounts, "shop63", SHOP));
    resp_accounts_close(accounts);
    snprintf(text + len, sizeof(text) - len, "another " SHOP "\n");
    file_write(text, 0600);
    assert_int_equal(resp_accounts_open(&accounts, path), FAULT_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_file_there_is_one_account_that_needs_no_password, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(with_a_file_everybody_says_a_password_and_the_right_one, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_used_is_refused, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_reload_takes_changes_and_a_mistake_changes_nothing, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(more_names_than_there_is_room_for_change_nothing, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
