/* One client, one address; what is not wholly an address or a network is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/address.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct address address_of(const char *text)
{
    struct address address;
    if (!address_parse(&address, slice_of(text))) fail_msg("%s is an address", text);
    return address;
}

static const struct {
    const char *text, *plain, *hop; /* what each of the two readers makes of it; NULL: refuses */
} texts[] = {
    { "192.0.2.7", "192.0.2.7", "192.0.2.7" },
    { "0.0.0.0", "0.0.0.0", "0.0.0.0" },
    { "255.255.255.255", "255.255.255.255", "255.255.255.255" },
    { "::ffff:192.0.2.7", "192.0.2.7", "192.0.2.7" },
    { "::FFFF:c000:0207", "192.0.2.7", "192.0.2.7" },
    { "2001:DB8:0:0:0:0:0:1", "2001:db8::1", "2001:db8::1" },
    { "::", "::", "::" },
    { "::1", "::1", "::1" },
    { "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
      "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
    /* only around a hop */
    { " 192.0.2.7\t", NULL, "192.0.2.7" },
    { "192.0.2.7:0", NULL, "192.0.2.7" },
    { "192.0.2.7:65535", NULL, "192.0.2.7" },
    { "[2001:db8::1]", NULL, "2001:db8::1" },
    { "[2001:db8::1]:443", NULL, "2001:db8::1" },
    { " [::ffff:192.0.2.7]:80 ", NULL, "192.0.2.7" },
    /* nothing */
    { "", NULL, NULL },
    { " ", NULL, NULL },
    { ":", NULL, NULL },
    { "[", NULL, NULL },
    { "[]", NULL, NULL },
    { "[]:80", NULL, NULL },
    { "unknown", NULL, NULL },
    { "_hidden", NULL, NULL },
    { "localhost", NULL, NULL },
    { "1", NULL, NULL },
    { "1.2.3", NULL, NULL },
    { "1.2.3.4.5", NULL, NULL },
    { "1.2.3.256", NULL, NULL },
    { "1.2.3.04", NULL, NULL },
    { "0x7f.0.0.1", NULL, NULL },
    { "127.1", NULL, NULL },
    { "2130706433", NULL, NULL },
    { "1.2.3.-4", NULL, NULL },
    { "1.2.3.4 5", NULL, NULL },
    { "1.2.3.4\n", NULL, NULL },
    { "192.0.2.7:", NULL, NULL },
    { "192.0.2.7:65536", NULL, NULL },
    { "192.0.2.7:+80", NULL, NULL },
    { "192.0.2.7:080", NULL, NULL },
    { "192.0.2.7/32", NULL, NULL },
    { "[192.0.2.7]:80", NULL, NULL },
    { "[2001:db8::1", NULL, NULL },
    { "[2001:db8::1]443", NULL, NULL },
    { "[2001:db8::1]:", NULL, NULL },
    { "[2001:db8::1]:70000", NULL, NULL },
    { "[[2001:db8::1]]", NULL, NULL },
    { "2001:db8::1]", NULL, NULL },
    { "fe80::1%eth0", NULL, NULL },
    { "2001:db8:::1", NULL, NULL },
    { "1:2:3:4:5:6:7:8:9", NULL, NULL },
    { "12345::", NULL, NULL },
    { "\"192.0.2.7\"", NULL, NULL },
    { "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.2555", NULL, NULL },
};

static void addresses_are_read_strictly_and_printed_shortest(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (int hop = 0; hop < 2; hop++) {
            const char *want = hop ? texts[i].hop : texts[i].plain;
            struct address address;
            bool read = hop ? address_parse_hop(&address, slice_of(texts[i].text))
                            : address_parse(&address, slice_of(texts[i].text));
            if (read != (want != NULL)) fail_msg("\"%s\" (%d): %s", texts[i].text, hop, read ? "taken" : "refused");
            if (!read) continue;
            char text[ADDRESS_TEXT_BYTES];
            address_print(text, &address);
            assert_string_equal(text, want);
        }
    }
    assert_false(address_parse(&(struct address){ { 0 } }, (struct slice){ "1.2.3.4\0", 8 }));
    assert_false(address_parse_hop(&(struct address){ { 0 } }, (struct slice){ NULL, 0 }));
}

static void where_one_listens_has_an_address_and_a_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *address; /* NULL: refused */
        uint16_t port;
    } rows[] = {
        { "127.0.0.1:20080", "127.0.0.1", 20080 },
        { "0.0.0.0:0", "0.0.0.0", 0 },
        { "[::]:65535", "::", 65535 },
        { "[::1]:1", "::1", 1 },
        { "[::ffff:127.0.0.1]:1", "127.0.0.1", 1 },
        { "", NULL, 0 },
        { ":80", NULL, 0 },
        { "127.0.0.1", NULL, 0 },
        { "127.0.0.1:", NULL, 0 },
        { "127.0.0.1:65536", NULL, 0 },
        { "127.0.0.1:080", NULL, 0 },
        { " 127.0.0.1:80", NULL, 0 },
        { "::1:80", NULL, 0 },
        { "[::1]", NULL, 0 },
        { "[::1]80", NULL, 0 },
        { "[127.0.0.1]:80", NULL, 0 },
        { "[]:80", NULL, 0 },
        { "localhost:80", NULL, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct address address;
        uint16_t port;
        char text[ADDRESS_TEXT_BYTES];
        bool read = address_parse_port(&address, &port, slice_of(rows[i].text));
        if (read != (rows[i].address != NULL)) fail_msg("\"%s\": %s", rows[i].text, read ? "taken" : "refused");
        if (!read) continue;
        address_print(text, &address);
        assert_string_equal(text, rows[i].address);
        assert_int_equal(port, rows[i].port);
    }
}

static void both_kinds_of_socket_give_one_client_one_address(void **state)
{
    (void)state;
    struct address want = address_of("192.0.2.7"), got;
    struct sockaddr_storage storage = { 0 };
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(999), .sin_addr.s_addr = htonl(0xc0000207) };
    memcpy(&storage, &v4, sizeof(v4));
    assert_true(address_from_sockaddr(&got, (struct sockaddr *)&storage));
    assert_true(address_equal(&got, &want));

    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(999) };
    memcpy(&v6.sin6_addr, want.bytes, 16);
    memcpy(&storage, &v6, sizeof(v6));
    assert_true(address_from_sockaddr(&got, (struct sockaddr *)&storage));
    assert_true(address_equal(&got, &want));
    assert_true(address_is_v4(&got));

    struct sockaddr_un local = { .sun_family = AF_UNIX };
    memcpy(&storage, &local, sizeof(local));
    assert_false(address_from_sockaddr(&got, (struct sockaddr *)&storage));
}

static void rates_count_an_ipv4_address_or_an_ipv6_64(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } rows[] = {
        { "192.0.2.7", "::ffff:192.0.2.7", true },
        { "192.0.2.7", "192.0.2.8", false },
        { "2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", true },
        { "2001:db8:0:1::1", "2001:db8:0:2::1", false },
        { "::1", "::2", true },
        { "::1", "0.0.0.1", false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct address a = address_of(rows[i].a), b = address_of(rows[i].b);
        a = address_rate_key(&a);
        b = address_rate_key(&b);
        if (address_equal(&a, &b) != rows[i].same) fail_msg("%s and %s", rows[i].a, rows[i].b);
    }
}

/* prints NULL: refused, and the sentence has says. */
static void networks_are_read_strictly_and_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *prints, *says;
    } rows[] = {
        { "10.0.0.0/8", "10.0.0.0/8", NULL },
        { "0.0.0.0/0", "0.0.0.0/0", NULL },
        { "192.0.2.7/32", "192.0.2.7", NULL },
        { "192.0.2.7", "192.0.2.7", NULL },
        { "192.0.2.6/31", "192.0.2.6/31", NULL },
        { "::ffff:10.0.0.0/104", "10.0.0.0/8", NULL },
        { "::/0", "::/0", NULL },
        { "2001:db8::/32", "2001:db8::/32", NULL },
        { "2001:db8::1/128", "2001:db8::1", NULL },
        { "2001:db8::8/125", "2001:db8::8/125", NULL },
        { "10.0.0.1/8", NULL, "10.0.0.0/8" },
        { "10.0.0.1/0", NULL, "0.0.0.0/0" },
        { "192.0.2.7/31", NULL, "192.0.2.6/31" },
        { "2001:db8::1/64", NULL, "2001:db8::/64" },
        { "10.0.0.0/33", NULL, "from 0 to 32" },
        { "10.0.0.0/", NULL, "from 0 to 32" },
        { "10.0.0.0/-1", NULL, "from 0 to 32" },
        { "10.0.0.0/+8", NULL, "from 0 to 32" },
        { "10.0.0.0/08", NULL, "from 0 to 32" },
        { "10.0.0.0/8/8", NULL, "from 0 to 32" },
        { "10.0.0.0/18446744073709551624", NULL, "from 0 to 32" },
        { "10.0.0.0/255.0.0.0", NULL, "from 0 to 32" },
        { "2001:db8::/129", NULL, "from 0 to 128" },
        { "", NULL, "not an address" },
        { "/8", NULL, "not an address" },
        { "10/8", NULL, "not an address" },
        { "example.com", NULL, "\"example.com\" is not an address" },
        { " 10.0.0.0/8", NULL, "not an address" },
        { "10.0.0.0/8 ", NULL, "from 0 to 32" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct network network;
        char mistake[ADDRESS_MISTAKE_BYTES] = "", text[NETWORK_TEXT_BYTES];
        bool read = network_parse(&network, slice_of(rows[i].text), mistake);
        if (read != (rows[i].prints != NULL)) fail_msg("\"%s\": %s", rows[i].text, read ? "taken" : mistake);
        if (!read) {
            if (strstr(mistake, rows[i].says) == NULL) fail_msg("\"%s\": %s", rows[i].text, mistake);
            assert_int_equal(mistake[strlen(mistake) - 1], '.');
            continue;
        }
        network_print(text, &network);
        assert_string_equal(text, rows[i].prints);
        struct network again;
        assert_true(network_parse(&again, slice_of(text), mistake));
        assert_memory_equal(&again, &network, sizeof(network));
    }
}

static void a_mistake_shows_no_rubbish_and_has_an_end(void **state)
{
    (void)state;
    char mistake[ADDRESS_MISTAKE_BYTES], large[5000];
    struct network network;
    memset(large, 'x', sizeof(large));
    assert_false(network_parse(&network, (struct slice){ large, sizeof(large) }, mistake));
    assert_true(strlen(mistake) < sizeof(mistake) - 1);
    assert_false(network_parse(&network, SLICE("\x1b[2J\xff"), mistake));
    assert_null(strchr(mistake, '\x1b'));
}

static void a_network_has_just_the_addresses_with_its_prefix(void **state)
{
    (void)state;
    static const struct {
        const char *network, *address;
        bool has;
    } rows[] = {
        { "10.0.0.0/8", "10.255.255.255", true },
        { "10.0.0.0/8", "11.0.0.0", false },
        { "10.0.0.0/8", "9.255.255.255", false },
        { "10.0.0.0/8", "::ffff:10.1.2.3", true },
        { "192.0.2.8/29", "192.0.2.15", true },
        { "192.0.2.8/29", "192.0.2.16", false },
        { "192.0.2.8/29", "192.0.2.7", false },
        { "192.0.2.7", "192.0.2.7", true },
        { "192.0.2.7", "192.0.2.6", false },
        { "0.0.0.0/0", "255.0.0.1", true },
        { "0.0.0.0/0", "::1", false },
        { "0.0.0.0/0", "2001:db8::1", false },
        { "::/0", "2001:db8::1", true },
        { "::/0", "::1", true },
        { "::/0", "10.0.0.1", false },
        { "::/64", "10.0.0.1", false },
        { "2001:db8::/33", "2001:db8:7fff::1", true },
        { "2001:db8::/33", "2001:db8:8000::1", false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct network network;
        char mistake[ADDRESS_MISTAKE_BYTES];
        assert_true(network_parse(&network, slice_of(rows[i].network), mistake));
        struct address address = address_of(rows[i].address);
        if (network_has(&network, &address) != rows[i].has) fail_msg("%s in %s", rows[i].address, rows[i].network);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_strictly_and_printed_shortest),
        cmocka_unit_test(where_one_listens_has_an_address_and_a_port),
        cmocka_unit_test(both_kinds_of_socket_give_one_client_one_address),
        cmocka_unit_test(rates_count_an_ipv4_address_or_an_ipv6_64),
        cmocka_unit_test(networks_are_read_strictly_and_say_what_is_wrong),
        cmocka_unit_test(a_mistake_shows_no_rubbish_and_has_an_end),
        cmocka_unit_test(a_network_has_just_the_addresses_with_its_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
