#include "courier/destination.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_public(const char *text)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) return destination_is_public((const struct sockaddr *)&v4);
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return destination_is_public((const struct sockaddr *)&v6);
}

/* The first and the last address of what is closed, and its neighbours. */
static void only_addresses_of_the_public_internet_are_called(void **state)
{
    (void)state;
    static const char *const closed[] = {
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "169.254.255.255",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.9",
        "192.88.99.1",
        "192.168.0.1",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.1.2.3",
        "::ffff:169.254.169.254",
        "64:ff9b::10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "fc00::1",
        "fd00:ec2::254",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
        "2001::1",
        "2001:1ff::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "3fff::1",
        "4000::1",
        "5f00::1",
    };
    static const char *const open[] = {
        "1.1.1.1",         "9.255.255.255",    "11.0.0.0",    "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.0",       "169.253.255.255",  "169.255.0.0", "172.15.255.255", "172.32.0.0",  "192.0.1.0",
        "192.0.3.0",       "192.167.255.255",  "192.169.0.0", "198.17.255.255", "198.20.0.0",  "223.255.255.255",
        "::ffff:1.1.1.1",  "64:ff9b::1.1.1.1", "2001:200::1", "2001:db7::1",    "2001:db9::1", "2002:101:101::",
        "2606:4700::1111", "2a00::1",          "3ffe::1",
    };
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        if (is_public(closed[i])) fail_msg("%s would be called", closed[i]);
    }
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        if (!is_public(open[i])) fail_msg("%s would not be called", open[i]);
    }
    struct sockaddr local = { .sa_family = AF_UNIX };
    assert_false(destination_is_public(&local));
}

static void urls_are_plain_http(void **state)
{
    (void)state;
    static const char *const good[] = {
        "https://example.com",
        "https://example.com/",
        "http://example.com:8080/a/b?c=d&e=%20",
        "https://[2606:4700::1111]/hook",
        "http://127.0.0.1/",
        "HTTPS://example.com/?from=file:///x",
        "HTTPS://EXAMPLE.COM/hook",
    };
    static const char *const bad[] = {
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "http:///path",
        "http:/example.com",
        "https:example.com",
        "http://",
        "https://user@example.com/",
        "https://user:pw@example.com/",
        "https://:pw@example.com/",
        "https://example.com/#part",
        "https://exa mple.com/",
        "https://example.com/\r\nX: y",
        "https://example.com:0x50/",
        "https://example.com:65536/",
        "http://[fe80::1%25eth0]/",
        "http://[::1/",
        "https://ex\xc3\xa4mple.com/",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const char *objection = destination_objection(slice_of(good[i]));
        if (objection != NULL) fail_msg("%s: %s", good[i], objection);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (destination_objection(slice_of(bad[i])) == NULL) fail_msg("%s was taken", bad[i]);
    }
    char longest[502];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "https://a/", 10);
    assert_null(destination_objection((struct slice){ longest, 500 }));
    assert_non_null(destination_objection((struct slice){ longest, 501 }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_addresses_of_the_public_internet_are_called),
        cmocka_unit_test(urls_are_plain_http),
    };
    return cmocka_run_group_tests_name("destination", tests, NULL, NULL);
}
