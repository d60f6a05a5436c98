/* Look-ups against a simple truth, at the edges of networks and at a million entries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "guard/block_set.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

static const uint8_t key[16] = "a key for tests";

static struct block_set *set_of(const char *const *texts, uint32_t count)
{
    struct block_set *set;
    assert_int_equal(block_set_open(&set, key, count, (size_t)count * BUYER_BYTES_MAX), FAULT_NONE);
    for (uint32_t i = 0; i < count; i++) {
        struct block_entry entry;
        assert_null(block_entry_read(slice_of(texts[i]), &entry));
        block_set_put(set, &entry, i + 1);
    }
    assert_int_equal(block_set_finish(set), FAULT_NONE);
    return set;
}

static void address_of(const char *text, uint8_t out[16])
{
    memset(out, 0, 16);
    out[10] = out[11] = 0xff;
    if (inet_pton(AF_INET, text, out + 12) != 1) assert_int_equal(inet_pton(AF_INET6, text, out), 1);
}

static bool has_ip(const struct block_set *set, const char *text)
{
    uint8_t address[16];
    address_of(text, address);
    return block_set_has_address(set, address);
}

static bool has_user(const struct block_set *set, struct slice name)
{
    return block_set_has_user(set, name, block_set_expect_user(set, name));
}

static void networks_end_where_their_prefix_says(void **state)
{
    (void)state;
    static const struct {
        const char *entry, *address;
        bool has;
    } script[] = {
        { "ip 10.0.0.0/8", "10.0.0.0", true },
        { "ip 10.0.0.0/8", "10.255.255.255", true },
        { "ip 10.0.0.0/8", "9.255.255.255", false },
        { "ip 10.0.0.0/8", "11.0.0.0", false },
        { "ip 10.0.0.0/8", "::ffff:10.1.2.3", true },
        { "ip 10.0.0.0/8", "::a00:1", false },
        { "ip 10.0.0.0/8", "a00::", false },
        { "ip 10.0.0.4/30", "10.0.0.3", false },
        { "ip 10.0.0.4/30", "10.0.0.4", true },
        { "ip 10.0.0.4/30", "10.0.0.7", true },
        { "ip 10.0.0.4/30", "10.0.0.8", false },
        { "ip 10.0.0.1", "10.0.0.1", true },
        { "ip 10.0.0.1", "10.0.0.0", false },
        { "ip 10.0.0.1", "10.0.0.2", false },
        { "ip 255.255.255.255", "255.255.255.255", true },
        { "ip 128.0.0.0/1", "127.255.255.255", false },
        { "ip 128.0.0.0/1", "255.255.255.255", true },
        { "ip 0.0.0.0/0", "203.0.113.9", true },
        { "ip 0.0.0.0/0", "2001:db8::1", false },
        { "ip 0.0.0.0/0", "::", false },
        { "ip ::/0", "2001:db8::1", true },
        { "ip ::/0", "::", true },
        { "ip ::/0", "203.0.113.9", false },
        { "ip ::/64", "203.0.113.9", false },
        { "ip ::", "::", true },
        { "ip ::", "::1", false },
        { "ip ::", "0.0.0.0", false },
        { "ip 2001:db8::/32", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true },
        { "ip 2001:db8::/32", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", false },
        { "ip 2001:db8::/32", "2001:db9::", false },
        { "ip 2001:db8::/63", "2001:db8:0:1:ffff:ffff:ffff:ffff", true },
        { "ip 2001:db8::/63", "2001:db8:0:2::", false },
        { "ip 2001:db8::/64", "2001:db8:0:0:ffff:ffff:ffff:ffff", true },
        { "ip 2001:db8::/64", "2001:db8:0:1::", false },
        { "ip 2001:db8::8000:0:0:0/65", "2001:db8::7fff:ffff:ffff:ffff", false },
        { "ip 2001:db8::8000:0:0:0/65", "2001:db8::8000:0:0:0", true },
        { "ip 2001:db8::2/127", "2001:db8::1", false },
        { "ip 2001:db8::2/127", "2001:db8::3", true },
        { "ip 2001:db8::2/127", "2001:db8::4", false },
        { "ip 8000::/1", "7fff::", false },
        { "ip 8000::/1", "ffff::", true },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct block_set *set = set_of(&script[i].entry, 1);
        if (has_ip(set, script[i].address) != script[i].has) fail_msg("%s, %s", script[i].entry, script[i].address);
        block_set_close(set);
    }
}

static void users_are_found_by_every_byte_and_are_no_addresses(void **state)
{
    (void)state;
    static const char *const texts[] = { "user ann", "user 10.0.0.1", "ip 10.0.0.2", "user ann", "user a", "user an" };
    struct block_set *set = set_of(texts, 6);
    assert_int_equal(block_set_count(set), 5);
    static const char *const has[] = { "ann", "10.0.0.1", "a", "an" };
    static const char *const has_not[] = { "", "Ann", "anna", "nn", "10.0.0.2", "bob", "user ann" };
    for (size_t i = 0; i < sizeof has / sizeof *has; i++) assert_true(has_user(set, slice_of(has[i])));
    for (size_t i = 0; i < sizeof has_not / sizeof *has_not; i++) assert_false(has_user(set, slice_of(has_not[i])));
    assert_false(has_user(set, SLICE("ann\0")));
    assert_false(has_ip(set, "10.0.0.1"));
    assert_true(has_ip(set, "10.0.0.2"));
    block_set_close(set);
}

static uint64_t dice(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Few bits and many lengths, so that networks stand within each other; every address is checked against all of them. */
static void networks_within_networks_agree_with_a_slow_search(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252;
    enum { COUNT = 60, ROUNDS = 40 };
    for (int round = 0; round < ROUNDS; round++) {
        struct block_set *set;
        struct block_entry entries[COUNT];
        assert_int_equal(block_set_open(&set, key, COUNT, 0), FAULT_NONE);
        for (int i = 0; i < COUNT; i++) {
            bool ipv4 = dice(&seed) % 2 == 0;
            unsigned prefix = ipv4 ? 108 + (unsigned)(dice(&seed) % 21) : 50 + (unsigned)(dice(&seed) % 30);
            uint64_t high = ipv4 ? 0 : dice(&seed) & 0xfff,
                     low = ipv4 ? 0xffff00000000 | (dice(&seed) & 0xff0ff) : dice(&seed);
            entries[i] = (struct block_entry){ .high = high & prefix_mask(prefix, 0),
                                               .low = low & prefix_mask(prefix, 1),
                                               .prefix = (uint8_t)prefix };
            block_set_put(set, &entries[i], (uint64_t)i + 1);
        }
        for (int i = 0; i < 2000; i++) {
            bool ipv4 = dice(&seed) % 2 == 0, want = false;
            uint64_t high = ipv4 ? 0 : dice(&seed) & 0xfff,
                     low = ipv4 ? 0xffff00000000 | (dice(&seed) & 0xff0ff) : dice(&seed);
            for (int k = 0; k < COUNT; k++)
                want |= ipv4 == (entries[k].prefix >= 108) &&
                        (high & prefix_mask(entries[k].prefix, 0)) == entries[k].high &&
                        (low & prefix_mask(entries[k].prefix, 1)) == entries[k].low;
            uint64_t halves[2] = { __builtin_bswap64(high), __builtin_bswap64(low) };
            assert_int_equal(block_set_has_address(set, (const uint8_t *)halves), want);
        }
        block_set_close(set);
    }
}

struct page {
    uint64_t serials[16];
    char first[BLOCK_ENTRY_BYTES_MAX + 1];
    int count;
};

static void page_visit(void *arg, const struct block_entry *entry, uint64_t serial)
{
    struct page *page = arg;
    if (page->count == 0) block_entry_write(page->first, entry);
    page->serials[page->count++] = serial;
}

static void lists_follow_serials_whatever_order_entries_came_in(void **state)
{
    (void)state;
    static const uint64_t serials[] = { 7, 2, 9, 4, 1 };
    static const char *const texts[] = { "user g", "user b", "ip 10.0.0.9", "user d", "user a" };
    struct block_set *set;
    assert_int_equal(block_set_open(&set, key, 5, 64), FAULT_NONE);
    for (int i = 0; i < 5; i++) {
        struct block_entry entry;
        assert_null(block_entry_read(slice_of(texts[i]), &entry));
        assert_true(block_set_put(set, &entry, serials[i]));
    }
    assert_int_equal(block_set_finish(set), FAULT_NONE);
    static const struct {
        uint64_t after;
        uint32_t limit;
        int count;
        const char *first;
    } script[] = {
        { 0, 10, 5, "user a" },     { 0, 2, 2, "user a" },    { 1, 2, 2, "user b" }, { 2, 9, 3, "user d" },
        { 3, 9, 3, "user d" },      { 4, 1, 1, "user g" },    { 0, 0, 0, "" },       { 9, 9, 0, "" },
        { 8, 9, 1, "ip 10.0.0.9" }, { UINT64_MAX, 9, 0, "" },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct page page = { .count = 0 };
        block_set_each(set, script[i].after, script[i].limit, page_visit, &page);
        assert_int_equal(page.count, script[i].count);
        assert_string_equal(page.first, script[i].first);
        for (int k = 1; k < page.count; k++) assert_true(page.serials[k - 1] < page.serials[k]);
    }
    block_set_close(set);
}

/* A million users and networks of every length there is. Times are printed; what is asserted leaves room for a sanitizer and
 * a busy machine. */
static void a_million_entries_cost_a_look_up_nothing(void **state)
{
    (void)state;
    enum { USERS = 500000, NETWORKS = 500000, LOOKS = 1000000 };
    struct block_set *set;
    uint64_t seed = 1181783497276652981;
    char name[32];
    assert_int_equal(block_set_open(&set, key, USERS + NETWORKS, (size_t)USERS * 16), FAULT_NONE);
    for (uint32_t i = 0; i < USERS; i++) {
        int len = snprintf(name, sizeof name, "buyer-%u", i);
        const struct block_entry entry = { .is_user = true, .user = { name, (size_t)len } };
        assert_true(block_set_put(set, &entry, i + 1));
    }
    for (uint32_t i = 0; i < NETWORKS; i++) {
        unsigned prefix = 104 + i % 25; /* /8 to /32, below 128.0.0.0 */
        const struct block_entry entry = { .low = (0xffff00000000 | (dice(&seed) & 0x7fffffff)) & prefix_mask(prefix, 1),
                                           .prefix = (uint8_t)prefix };
        block_set_put(set, &entry, USERS + i + 1);
    }
    assert_int_equal(block_set_finish(set), FAULT_NONE);
    assert_true(block_set_count(set) > 700000);

    static char names[LOOKS][16];
    static uint32_t addresses[LOOKS];
    uint32_t found[4] = { 0 };
    uint64_t took_ns[4];
    for (int what = 0; what < 4; what++) { /* users who are there and who are not, addresses the same */
        for (uint32_t i = 0; i < LOOKS; i++) {
            uint32_t number = (uint32_t)(dice(&seed) >> 8);
            snprintf(names[i], sizeof names[i], "buyer-%u", number % USERS + (what == 1 ? USERS : 0));
            addresses[i] = htonl(what == 2 ? number & 0x7fffffff : number | 0x80000000);
        }
        uint8_t address[16] = { [10] = 0xff, [11] = 0xff };
        uint64_t began_ns = mono_ns();
        for (uint32_t i = 0; i < LOOKS; i++) {
            memcpy(address + 12, &addresses[i], 4);
            found[what] += what < 2 ? has_user(set, slice_of(names[i])) : block_set_has_address(set, address);
        }
        took_ns[what] = (mono_ns() - began_ns) / LOOKS;
        assert_true(took_ns[what] < 200000);
    }
    assert_int_equal(found[0], LOOKS);
    assert_int_equal(found[1], 0);
    assert_true(found[2] > LOOKS / 2);
    assert_int_equal(found[3], 0);
    print_message("a user there %u ns, not there %u ns; an address of 25 lengths there %u ns, not there %u ns\n",
                  (unsigned)took_ns[0], (unsigned)took_ns[1], (unsigned)took_ns[2], (unsigned)took_ns[3]);
    block_set_close(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_end_where_their_prefix_says),
        cmocka_unit_test(users_are_found_by_every_byte_and_are_no_addresses),
        cmocka_unit_test(networks_within_networks_agree_with_a_slow_search),
        cmocka_unit_test(lists_follow_serials_whatever_order_entries_came_in),
        cmocka_unit_test(a_million_entries_cost_a_look_up_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
