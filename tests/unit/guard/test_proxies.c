/* A client chooses what its X-Forwarded-For says; it must not thereby choose its address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard/proxies.h"

#include <stdio.h>
#include <string.h>

static struct networks proxies_of(const char *text)
{
    struct networks proxies;
    char mistake[ADDRESS_MISTAKE_BYTES];
    if (!networks_parse(&proxies, slice_of(text), mistake)) fail_msg("%s", mistake);
    return proxies;
}

/* Proxies are 10.0.0.0/8 and 2001:db8:1::/48. */
static void only_what_proxies_saw_is_believed(void **state)
{
    (void)state;
    static const struct {
        const char *peer, *forwarded, *client;
    } rows[] = {
        /* Not from a proxy: the header is the client's own writing. */
        { "203.0.113.5", "", "203.0.113.5" },
        { "203.0.113.5", "198.51.100.1", "203.0.113.5" },
        { "203.0.113.5", "10.0.0.1", "203.0.113.5" },
        { "203.0.113.5", "198.51.100.1, 10.0.0.1", "203.0.113.5" },
        { "2001:db8:2::1", "198.51.100.1", "2001:db8:2::1" },
        { "11.0.0.1", "198.51.100.1", "11.0.0.1" },
        /* From a proxy. */
        { "10.0.0.1", "", "10.0.0.1" },
        { "10.0.0.1", "198.51.100.1", "198.51.100.1" },
        { "::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1" },
        { "2001:db8:1::9", "2001:db8:2::7", "2001:db8:2::7" },
        { "10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1" },
        { "10.0.0.1", "198.51.100.1, 10.0.0.2", "198.51.100.1" },
        { "10.0.0.1", "198.51.100.1, 10.0.0.3,10.0.0.2", "198.51.100.1" },
        { "10.0.0.1", "198.51.100.1, 2001:db8:1::2", "198.51.100.1" },
        /* What the client wrote stands left of what the proxy saw. */
        { "10.0.0.1", "192.0.2.66, 198.51.100.1", "198.51.100.1" },
        { "10.0.0.1", "10.0.0.9, 198.51.100.1", "198.51.100.1" },
        { "10.0.0.1", "192.0.2.66, 198.51.100.1, 10.0.0.2", "198.51.100.1" },
        { "10.0.0.1", "rubbish, 198.51.100.1", "198.51.100.1" },
        { "10.0.0.1", ",,,, 198.51.100.1", "198.51.100.1" },
        { "10.0.0.1", "192.0.2.66, 10.0.0.7, 198.51.100.1, 10.0.0.2", "198.51.100.1" },
        /* Ports and brackets. */
        { "10.0.0.1", "198.51.100.1:4711", "198.51.100.1" },
        { "10.0.0.1", "[2001:db8:2::7]:4711", "2001:db8:2::7" },
        { "10.0.0.1", "[2001:db8:2::7]", "2001:db8:2::7" },
        { "10.0.0.1", "\t198.51.100.1 , 10.0.0.2:80 ", "198.51.100.1" },
        /* All proxies: the leftmost is the client. */
        { "10.0.0.1", "10.0.0.2", "10.0.0.2" },
        { "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3" },
        /* What cannot be followed: the peer. */
        { "10.0.0.1", "unknown", "10.0.0.1" },
        { "10.0.0.1", " ", "10.0.0.1" },
        { "10.0.0.1", ",", "10.0.0.1" },
        { "10.0.0.1", "198.51.100.1,", "10.0.0.1" },
        { "10.0.0.1", "198.51.100.1, unknown", "10.0.0.1" },
        { "10.0.0.1", "198.51.100.1, unknown, 10.0.0.2", "10.0.0.1" },
        { "10.0.0.1", "198.51.100.1 10.0.0.2", "10.0.0.1" },
        { "10.0.0.1", "198.51.100.1; 10.0.0.2", "10.0.0.1" },
        { "10.0.0.1", "for=198.51.100.1", "10.0.0.1" },
        { "10.0.0.1", "198.51.100.1:99999", "10.0.0.1" },
        { "10.0.0.1", "fe80::1%eth0", "10.0.0.1" },
    };
    struct networks proxies = proxies_of("10.0.0.0/8, 2001:db8:1::/48");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct address peer;
        assert_true(address_parse(&peer, slice_of(rows[i].peer)));
        struct address client = proxies_client(&proxies, &peer, slice_of(rows[i].forwarded));
        char text[ADDRESS_TEXT_BYTES];
        address_print(text, &client);
        if (strcmp(text, rows[i].client) != 0)
            fail_msg("peer %s, \"%s\": %s, not %s", rows[i].peer, rows[i].forwarded, text, rows[i].client);
    }
}

static void without_proxies_the_header_means_nothing(void **state)
{
    (void)state;
    struct networks none = proxies_of("");
    struct address peer;
    assert_true(address_parse(&peer, SLICE("127.0.0.1")));
    assert_false(networks_have(&none, &peer));
    struct address client = proxies_client(&none, &peer, SLICE("127.0.0.1, 198.51.100.1"));
    assert_true(address_equal(&client, &peer));
}

/* However long the client's own writing is, it is not read; a chain of proxies without end is not followed. */
static void a_long_header_neither_hides_the_client_nor_costs(void **state)
{
    (void)state;
    struct networks proxies = proxies_of("10.0.0.0/8");
    struct address peer, want;
    assert_true(address_parse(&peer, SLICE("10.0.0.1")));
    assert_true(address_parse(&want, SLICE("198.51.100.1")));

    char header[8192];
    memset(header, ',', sizeof(header));
    const char tail[] = ",198.51.100.1";
    memcpy(header + sizeof(header) - strlen(tail), tail, strlen(tail));
    struct address client = proxies_client(&proxies, &peer, (struct slice){ header, sizeof(header) });
    assert_true(address_equal(&client, &want));

    for (int proxies_named = PROXY_HOPS_MAX - 1; proxies_named <= PROXY_HOPS_MAX; proxies_named++) {
        size_t len = (size_t)snprintf(header, sizeof(header), "198.51.100.1");
        for (int i = 0; i < proxies_named; i++) len += (size_t)snprintf(header + len, sizeof(header) - len, ",10.0.0.%d", i);
        client = proxies_client(&proxies, &peer, (struct slice){ header, len });
        assert_true(address_equal(&client, proxies_named < PROXY_HOPS_MAX ? &want : &peer));
    }
}

static void a_list_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int count; /* -1: refused */
    } rows[] = {
        { "", 0 },
        { "   ", 0 },
        { "10.0.0.1", 1 },
        { " 10.0.0.1 ,2001:db8::/32 ", 2 },
        { "10.0.0.1,", -1 },
        { ",10.0.0.1", -1 },
        { "10.0.0.1,,10.0.0.2", -1 },
        { "10.0.0.1 10.0.0.2", -1 },
        { "10.0.0.1/8", -1 },
        { "proxy.example", -1 },
        { "10.0.0.1:80", -1 },
    };
    char mistake[ADDRESS_MISTAKE_BYTES];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct networks proxies = proxies_of("192.0.2.1"), before = proxies;
        bool taken = networks_parse(&proxies, slice_of(rows[i].text), mistake);
        if (taken != (rows[i].count >= 0)) fail_msg("\"%s\"", rows[i].text);
        if (taken) {
            assert_int_equal(proxies.count, rows[i].count);
        } else {
            assert_memory_equal(&proxies, &before, sizeof(before));
            assert_true(strlen(mistake) > 10);
        }
    }

    char many[64 * NETWORKS_MAX] = "10.0.0.0";
    for (int i = 1; i < NETWORKS_MAX; i++) snprintf(many + strlen(many), sizeof(many) - strlen(many), ",10.0.0.%d", i);
    assert_int_equal(proxies_of(many).count, NETWORKS_MAX);
    snprintf(many + strlen(many), sizeof(many) - strlen(many), ",10.0.1.0");
    struct networks proxies;
    assert_false(networks_parse(&proxies, slice_of(many), mistake));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_proxies_saw_is_believed),
        cmocka_unit_test(without_proxies_the_header_means_nothing),
        cmocka_unit_test(a_long_header_neither_hides_the_client_nor_costs),
        cmocka_unit_test(a_list_is_taken_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
