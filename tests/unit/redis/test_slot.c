/* Which slot a key is in; expected values are those of CLUSTER KEYSLOT. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/slot.h"

static void the_checksum_is_that_of_redis(void **state)
{
    (void)state;
    assert_int_equal(redis_crc16(SLICE("123456789")), 0x31c3);
    assert_int_equal(redis_crc16(SLICE("")), 0);
    assert_int_equal(redis_crc16(SLICE("\xff\x80\x00\x7f")), 0xff81);
}

static void keys_of_one_tag_share_a_slot(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint16_t slot;
    } rows[] = {
        { "foo", 12182 },
        { "bar", 5061 },
        { "hello", 866 },
        { "{user1000}.following", 3443 },
        { "{user1000}.followers", 3443 },
        { "foo{}{bar}", 8363 },
        { "foo{{bar}}zap", 4015 },
        { "foo{bar}{zap}", 5061 },
        { "{}", 15257 },
        { "{", 4092 },
        { "}", 12090 },
        { "a}{b", 11640 },
        { "{a", 10276 },
        { "stampede:{sale:1}:state", 4774 },
        { "stampede:{sale:1}:log", 4774 },
        { "other:{sale:1}", 4774 },
        { "sale:1", 4774 },
        { "键", 16043 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint16_t slot = redis_slot(slice_of(rows[i].key));
        if (slot != rows[i].slot) fail_msg("%s: %u", rows[i].key, (unsigned)slot);
    }
    assert_int_equal(redis_slot((struct slice){ NULL, 0 }), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checksum_is_that_of_redis),
        cmocka_unit_test(keys_of_one_tag_share_a_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
