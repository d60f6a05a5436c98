/* What is an entry, what is not, and how each is written back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard/block_entry.h"

#define N64 "0123456789012345678901234567890123456789012345678901234567890123"

static void entries_have_one_normal_form(void **state)
{
    (void)state;
    static const struct {
        const char *text, *normal;
    } script[] = {
        { "user ann", "user ann" },
        { "user  \t ann", "user ann" },
        { "user Ann", "user Ann" },
        { "user #ann", "user #ann" },
        { "user ann#1", "user ann#1" },
        { "user ip", "user ip" },
        { "user 10.0.0.1", "user 10.0.0.1" },
        { "user ann smith", "user ann smith" },
        { "user https://id.example:7f3/a|b", "user https://id.example:7f3/a|b" },
        { "user \xe5\xbc\xa0\xe4\xb8\x89", "user \xe5\xbc\xa0\xe4\xb8\x89" },
        { "user " N64, "user " N64 },
        { "ip 10.0.0.1", "ip 10.0.0.1" },
        { "ip 10.0.0.1/32", "ip 10.0.0.1" },
        { "ip 10.0.0.0/8", "ip 10.0.0.0/8" },
        { "ip 10.0.0.254/31", "ip 10.0.0.254/31" },
        { "ip 0.0.0.0/0", "ip 0.0.0.0/0" },
        { "ip 255.255.255.255", "ip 255.255.255.255" },
        { "ip 128.0.0.0/1", "ip 128.0.0.0/1" },
        { "ip ::/0", "ip ::/0" },
        { "ip ::", "ip ::" },
        { "ip ::1/128", "ip ::1" },
        { "ip 2001:DB8:0:0::/32", "ip 2001:db8::/32" },
        { "ip 2001:db8::/64", "ip 2001:db8::/64" },
        { "ip 2001:db8::8000:0:0:0/65", "ip 2001:db8:0:0:8000::/65" },
        { "ip 8000::/1", "ip 8000::/1" },
        { "ip ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127", "ip ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127" },
        { "ip ::ffff:10.0.0.1", "ip 10.0.0.1" },
        { "ip ::ffff:10.0.0.0/104", "ip 10.0.0.0/8" },
        { "ip ::ffff:0:0/96", "ip 0.0.0.0/0" },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct block_entry entry, again;
        char normal[BLOCK_ENTRY_BYTES_MAX + 1], twice[BLOCK_ENTRY_BYTES_MAX + 1];
        assert_null(block_entry_read(slice_of(script[i].text), &entry));
        assert_int_equal(block_entry_write(normal, &entry), strlen(script[i].normal));
        assert_string_equal(normal, script[i].normal);
        assert_null(block_entry_read(slice_of(normal), &again));
        assert_true(block_entry_equal(&entry, &again));
        block_entry_write(twice, &again);
        assert_string_equal(twice, normal);
    }
}

static void what_is_no_entry_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word;
    } script[] = {
        { "", "user NAME" },
        { "user", "name" },
        { "user ", "name" },
        { "ip", "address" },
        { "ip \t", "address" },
        { "users ann", "user NAME" },
        { "USER ann", "user NAME" },
        { "ann", "user NAME" },
        { " user ann", "user NAME" },
        { "user=ann", "user NAME" },
        { "\xef\xbb\xbfuser ann", "user NAME" },
        { "user ann ", "end with a space" },
        { "user a\tb", "control" },
        { "user a\x7f", "control" },
        { "user \xff", "UTF-8" },
        { "user \xc0\xaf", "UTF-8" },
        { "user " N64 "x", "64 bytes" },
        { "user ann # why", "comment" },
        { "ip 10.0.0.1 # why", "IPv4" },
        { "ip 10.0.0", "IPv4" },
        { "ip 10.0.0.256", "IPv4" },
        { "ip 010.0.0.1", "IPv4" },
        { "ip 10.0.0.1.", "IPv4" },
        { "ip 0x0a.0.0.1", "IPv4" },
        { "ip 10.0.0.1:80", "IPv4" },
        { "ip [::1]", "IPv4" },
        { "ip :::", "IPv4" },
        { "ip fe80::1%eth0", "IPv4" },
        { "ip example.org", "IPv4" },
        { "ip ann bob", "IPv4" },
        { "ip 10.0.0.1 ", "IPv4" },
        { "ip 10.0.0.0/", "0 to 32" },
        { "ip 10.0.0.0/33", "0 to 32" },
        { "ip 10.0.0.0/-1", "0 to 32" },
        { "ip 10.0.0.0/+8", "0 to 32" },
        { "ip 10.0.0.0/08", "0 to 32" },
        { "ip 10.0.0.0/8/8", "0 to 32" },
        { "ip 10.0.0.0/255.0.0.0", "0 to 32" },
        { "ip 10.0.0.0/18446744073709551624", "0 to 32" },
        { "ip ::/129", "0 to 128" },
        { "ip ::/ 8", "0 to 128" },
        { "ip 10.0.0.1/8", "zero" },
        { "ip 10.0.0.1/31", "zero" },
        { "ip 0.0.0.1/0", "zero" },
        { "ip 2001:db8::1/64", "zero" },
        { "ip 2001:db8::1/127", "zero" },
        { "ip 2001:db9::/31", "zero" },
        { "ip ::ffff:10.0.0.0/95", "zero" },
        { "ip 0000:0000:0000:0000:0000:0000:0000:0000:0000:0000", "IPv4" },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct block_entry entry;
        const char *objection = block_entry_read(slice_of(script[i].text), &entry);
        if (objection == NULL) fail_msg("taken: '%s'", script[i].text);
        if (strstr(objection, script[i].word) == NULL) fail_msg("'%s': %s", script[i].text, objection);
    }
    struct block_entry entry;
    assert_non_null(block_entry_read(SLICE("user a\0b"), &entry));
    assert_non_null(block_entry_read(SLICE("ip 10.0.0.1\0"), &entry));
    assert_non_null(block_entry_read(SLICE("ip 10.0.0.1\0/8"), &entry));
}

static void a_line_loses_its_blanks_and_its_comment(void **state)
{
    (void)state;
    static const struct {
        const char *line, *text;
    } script[] = {
        { "", "" },
        { "   \t\r", "" },
        { "# all of it", "" },
        { "  # all of it", "" },
        { "#user ann", "" },
        { "user ann", "user ann" },
        { "  user ann\t ", "user ann" },
        { "user ann\r", "user ann" },
        { "user ann # why", "user ann" },
        { "user ann #why # so", "user ann" },
        { "user ann#1", "user ann#1" },
        { "user #ann", "user #ann" },
        { "user #ann #bob", "user #ann" },
        { "ip 10.0.0.0/8\t# office", "ip 10.0.0.0/8" },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct slice text = block_line_text(slice_of(script[i].line));
        if (!slice_is(text, script[i].text)) fail_msg("'%s': '%.*s'", script[i].line, (int)text.len, text.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_have_one_normal_form),
        cmocka_unit_test(what_is_no_entry_is_refused_with_a_sentence),
        cmocka_unit_test(a_line_loses_its_blanks_and_its_comment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
