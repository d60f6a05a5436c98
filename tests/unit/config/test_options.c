#include "config/options.h"

#include "bounds.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct config config;
static struct config_mistake why;

static bool set(const char *name, const char *value)
{
    const struct option *option = option_find(slice_of(name), '_');
    assert_non_null(option);
    return option_set(&config, option, slice_of(value), &why);
}

/* Every field of struct config, so that one without a row, or two rows for one field, are seen. */
static void every_field_of_the_config_has_one_row(void **state)
{
    (void)state;
    size_t bytes = 0;
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const struct option *option = &options[i];
        assert_non_null(option->name);
        bytes += option->kind == OPTION_INTEGER ? sizeof(int64_t) : CONFIG_TEXT_BYTES;
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(options[j].offset, option->offset);
            assert_string_not_equal(options[j].name, option->name);
        }
    }
    assert_int_equal(bytes, offsetof(struct config, lines)); /* after these, what repeats: test_lines.c */
}

static void every_row_has_a_default_that_fits_and_a_sentence_of_help(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const struct option *option = &options[i];
        assert_true(option_set(&config, option, slice_of(option->fallback), &why));
        assert_true(strlen(option->help) > 20 && option->help[strlen(option->help) - 1] == '.');
        if (option->kind == OPTION_INTEGER) assert_true(option->min < option->max);
    }
}

/* tidy: long function because it is a table of all options. */
static void defaults_are_those_of_the_interface(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
    } script[] = {
        { "data", "./data" },
        { "ledger", "sqlite" },
        { "ledger_read", "" },
        { "ledger_password_file", "" },
        { "ledger_tls", "off" },
        { "ledger_tls_ca", "" },
        { "ledger_unsafe", "off" },
        { "gate", "local" },
        { "redis_password_file", "" },
        { "redis_sentinel_password_file", "" },
        { "redis_prefix", "stampede:" },
        { "ack", "ledger" },
        { "replicas", "1" },
        { "replica_ms", "100" },
        { "node", "0" },
        { "stream_max", "1000000" },
        { "filer_threads", "2" },
        { "warm_before_s", "60" },
        { "share_percent", "0" },
        { "http", "127.0.0.1:20080" },
        { "resp", "127.0.0.1:20081" },
        { "resp_accounts", "" },
        { "log_level", "info" },
        { "keys", "" },
        { "tls_cert", "" },
        { "tls_key", "" },
        { "reactors", "0" },
        { "connections_max", "50000" },
        { "orders_max", "16000000" },
        { "sales_per_seller_max", "1000" },
        { "journal_segment_mb", "64" },
        { "space_mb_min", "256" },
        { "clerk_pause_ms", "100" },
        { "token_ttl_s", "3600" },
        { "password_threads", "0" },
        { "query_threads", "2" },
        { "drain_ms_max", "10000" },
        { "identity_keys", "" },
        { "identity_alg", "RS256" },
        { "identity_issuer", "" },
        { "identity_audience", "" },
        { "identity_role_claim", "" },
        { "identity_subject_claim", "sub" },
        { "identity_leeway_s", "30" },
        { "identity_roles", "seller=seller" },
        { "breaker_window_ms", "10000" },
        { "breaker_share_percent", "50" },
        { "breaker_slow_ms", "1000" },
        { "breaker_open_ms", "5000" },
        { "breaker_probes", "5" },
        { "memory_mb_max", "0" },
        { "place_heartbeat_ms", "15000" },
        { "proxies", "" },
        { "limits", "" },
        { "blocks", "" },
        { "token_purchase_ttl_s", "600" },
        { "payment_keys", "" },
        { "payment_tolerance_s", "300" },
        { "webhooks_private", "off" },
        { "webhook_ca", "" },
        { "webhook_timeout_ms", "10000" },
        { "webhook_retry_ms_min", "1000" },
        { "webhook_retry_ms_max", "3600000" },
        { "webhook_give_up_s", "259200" },
        { "publish", "off" },
        { "publish_password_file", "" },
        { "publish_waiting_max", "10000000" },
        { "door_coupon", "on" },
        { "door_ticket", "on" },
        { "door_claim", "on" },
        { "door_luck_sale", "0" },
        { "door_cart", "on" },
        { "pages", "on" },
        { "demo_payments", "off" },
    };
    assert_int_equal(sizeof(script) / sizeof(script[0]), OPTIONS_COUNT);
    for (size_t i = 0; i < OPTIONS_COUNT; i++)
        assert_string_equal(option_find(slice_of(script[i].name), '_')->fallback, script[i].value);
}

static void integers_take_digits_within_bounds_and_nothing_else(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        " ",
        "-1",
        "+5",
        "0x5",
        "5 ",
        " 5",
        "05",
        "5.0",
        "1e3",
        "5k",
        "five",
        "1,000",
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775808",
        "99999999999999999999",
        "4294967296000000",
    };
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const struct option *option = &options[i];
        if (option->kind != OPTION_INTEGER) continue;
        assert_true(option_set(&config, option, slice_of(option->fallback), &why));
        struct config before = config;
        for (size_t j = 0; j < sizeof(wrong) / sizeof(wrong[0]); j++) {
            assert_false(option_set(&config, option, slice_of(wrong[j]), &why));
            assert_non_null(strstr(why.text, option->name));
            assert_memory_equal(&config, &before, sizeof(config));
        }
        char text[32];
        const int64_t *field = (const int64_t *)(const void *)((const char *)&config + option->offset);
        for (int64_t edge = 0; edge < 2; edge++) {
            int64_t bound = edge == 0 ? option->min : option->max;
            snprintf(text, sizeof(text), "%" PRId64, bound);
            assert_true(option_set(&config, option, slice_of(text), &why));
            assert_int_equal(*field, bound);
            int64_t beyond = edge == 0 ? option->min - 1 : option->max + 1;
            snprintf(text, sizeof(text), "%" PRId64, beyond);
            assert_false(option_set(&config, option, slice_of(text), &why));
            assert_int_equal(*field, bound);
        }
    }
}

static void bounds_keep_within_the_limits(void **state)
{
    (void)state;
    assert_true(set("orders_max", "100000000"));
    assert_false(set("orders_max", "0"));
    assert_false(set("journal_segment_mb", "0"));
    assert_true(set("journal_segment_mb", "1"));
    assert_int_equal((uint64_t)option_find(SLICE("journal_segment_mb"), '_')->max << 20, SEGMENT_BYTES_MAX);
    assert_int_equal(option_find(SLICE("reactors"), '_')->max, REACTORS_MAX);
}

static void addresses_are_numeric_with_a_port(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool want;
    } script[] = {
        { "127.0.0.1:20080", true },
        { "0.0.0.0:0", true },
        { "255.255.255.255:65535", true },
        { "[::1]:20080", true },
        { "[2001:db8::1]:443", true },
        { "[::ffff:127.0.0.1]:1", true },
        { "", false },
        { ":20080", false },
        { "20080", false },
        { "127.0.0.1", false },
        { "127.0.0.1:", false },
        { "127.0.0.1:65536", false },
        { "127.0.0.1:-1", false },
        { "127.0.0.1:+80", false },
        { "127.0.0.1:080", false },
        { "127.0.0.1:80 ", false },
        { "127.0.0.1:8x", false },
        { "127.0.0:80", false },
        { "256.0.0.1:80", false },
        { "localhost:80", false },
        { "::1:80", false },
        { "[::1:80", false },
        { "[]:80", false },
        { "[:80", false },
        { "[127.0.0.1]:80", false },
        { "[::1]80", false },
        { "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb]:80", false },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++)
        assert_int_equal(set("http", script[i].value), script[i].want);
}

static void choices_are_whole_words(void **state)
{
    (void)state;
    assert_true(set("log_level", "debug"));
    assert_true(set("log_level", "error"));
    static const char *const wrong[] = { "", "deb", "debugx", "DEBUG", "debug info", " debug", "trace" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) assert_false(set("log_level", wrong[i]));
    assert_string_equal(why.text, "log_level is one of these words: debug info warn error");
    assert_string_equal(config.log_level, "error");
}

static void paths_are_text_of_bounded_length(void **state)
{
    (void)state;
    char path[CONFIG_TEXT_BYTES + 1];
    memset(path, 'a', sizeof(path));
    path[CONFIG_TEXT_BYTES] = '\0';
    assert_false(set("data", path));
    path[CONFIG_TEXT_BYTES - 1] = '\0';
    assert_true(set("data", path));
    assert_string_equal(config.data, path);
    assert_false(set("data", ""));
    assert_false(set("data", "a\tb"));
    assert_false(set("data", "a\xff"));
    assert_true(set("data", "/srv/caf\xc3\xa9 one"));
    assert_true(set("tls_cert", ""));
}

static void texts_with_a_form_of_their_own_are_looked_at(void **state)
{
    (void)state;
    static const struct {
        const char *name, *good, *wrong, *says;
    } script[] = {
        { "proxies", "10.0.0.0/8, 2001:db8::1", "10.0.0.1/8", "proxies: \"10.0.0.1/8\"" },
        { "proxies", "127.0.0.1", "localhost", "proxies: \"localhost\"" },
        { "proxies", "", ",", "proxies: " },
        { "limits", "ip_grab_per_s=1, ip_grab_burst=2", "ip_grab_burst=0", "limits: ip_grab_burst" },
        { "limits", "", "ip_grabs=1", "limits: There is no limit \"ip_grabs\"" },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        assert_true(set(script[i].name, script[i].good));
        struct config before = config;
        assert_false(set(script[i].name, script[i].wrong));
        if (strstr(why.text, script[i].says) == NULL) fail_msg("%s", why.text);
        assert_memory_equal(&config, &before, sizeof(config));
    }
}

static void a_near_name_is_suggested_and_a_far_one_is_not(void **state)
{
    (void)state;
    static const struct {
        const char *given, *want;
    } script[] = {
        { "htpp", "http" },
        { "log-level", "log_level" },
        { "loglevel", "log_level" },
        { "conections_max", "connections_max" },
        { "token_ttl", "token_ttl_s" },
        { "dta", "data" },
        { "colour", NULL },
        { "x", NULL },
        { "", NULL },
        { "connections_max_connections_max_connections_max", NULL },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        const char *near = option_nearest(slice_of(script[i].given));
        if (script[i].want == NULL) {
            assert_null(near);
        } else {
            assert_non_null(near);
            assert_string_equal(near, script[i].want);
        }
    }
}

static void a_name_is_found_in_its_own_spelling_only(void **state)
{
    (void)state;
    assert_non_null(option_find(SLICE("log_level"), '_'));
    assert_non_null(option_find(SLICE("log-level"), '-'));
    assert_null(option_find(SLICE("log-level"), '_'));
    assert_null(option_find(SLICE("log_level"), '-'));
    assert_null(option_find(SLICE("LOG_LEVEL"), '_'));
    assert_null(option_find(SLICE("log_leve"), '_'));
    assert_null(option_find(SLICE(""), '_'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_the_config_has_one_row),
        cmocka_unit_test(every_row_has_a_default_that_fits_and_a_sentence_of_help),
        cmocka_unit_test(defaults_are_those_of_the_interface),
        cmocka_unit_test(integers_take_digits_within_bounds_and_nothing_else),
        cmocka_unit_test(bounds_keep_within_the_limits),
        cmocka_unit_test(addresses_are_numeric_with_a_port),
        cmocka_unit_test(choices_are_whole_words),
        cmocka_unit_test(paths_are_text_of_bounded_length),
        cmocka_unit_test(texts_with_a_form_of_their_own_are_looked_at),
        cmocka_unit_test(a_near_name_is_suggested_and_a_far_one_is_not),
        cmocka_unit_test(a_name_is_found_in_its_own_spelling_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
