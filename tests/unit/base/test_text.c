#include "base/text.h"

#include "tests/unit/base/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The numbers of promises.md, and what a lenient reader would let through. */
static void a_number_is_digits_within_64_bits_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        struct slice text;
        bool good;
        uint64_t want;
    } rows[] = {
        { SLICE("0"), true, 0 },
        { SLICE("1"), true, 1 },
        { SLICE("2147483647"), true, 2147483647 },
        { SLICE("2147483648"), true, 2147483648 },
        { SLICE("2147483649"), true, 2147483649 },
        { SLICE("4294967295"), true, 4294967295 },
        { SLICE("4294967296"), true, 4294967296 },
        { SLICE("4294967297"), true, 4294967297 },
        { SLICE("9223372036854775807"), true, INT64_MAX },
        { SLICE("9223372036854775808"), true, UINT64_C(9223372036854775808) },
        { SLICE("9223372036854775809"), true, UINT64_C(9223372036854775809) },
        { SLICE("18446744073709551615"), true, UINT64_MAX },
        { SLICE("10000000000000000000"), true, UINT64_C(10000000000000000000) },
        { SLICE("18446744073709551616"), false, 0 },
        { SLICE("18446744073709551620"), false, 0 },
        { SLICE("20000000000000000000"), false, 0 },
        { SLICE("99999999999999999999"), false, 0 },
        { SLICE("100000000000000000000"), false, 0 },
        { SLICE("184467440737095516150"), false, 0 },
        { SLICE("-1"), false, 0 },
        { SLICE("-0"), false, 0 },
        { SLICE("+5"), false, 0 },
        { SLICE("0x5"), false, 0 },
        { SLICE(""), false, 0 },
        { SLICE("00"), false, 0 },
        { SLICE("05"), false, 0 },
        { SLICE(" 5"), false, 0 },
        { SLICE("5 "), false, 0 },
        { SLICE("5\n"), false, 0 },
        { SLICE("5\0"), false, 0 },
        { SLICE("\0"), false, 0 },
        { SLICE("5.0"), false, 0 },
        { SLICE("5e1"), false, 0 },
        { SLICE("1_000"), false, 0 },
        { SLICE("1,000"), false, 0 },
        { SLICE("/"), false, 0 },
        { SLICE(":"), false, 0 },
        { SLICE("٣"), false, 0 },
        { SLICE("five"), false, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t value = 12345;
        if (text_to_u64(rows[i].text, &value) != rows[i].good) fail_msg("row %zu: %s", i, rows[i].text.data);
        if (value != (rows[i].good ? rows[i].want : 12345)) fail_msg("row %zu gave %" PRIu64, i, value);
    }
    uint64_t value;
    assert_false(text_to_u64((struct slice){ NULL, 0 }, &value));
}

static void every_number_comes_back_as_it_was(void **state)
{
    (void)state;
    uint64_t dice = dice_seed();
    for (int i = 0; i < 200000; i++) {
        uint64_t value = dice_roll(&dice) >> dice_below(&dice, 64), back;
        char text[20], other[32];
        size_t len = text_from_u64(text, value);
        assert_int_equal(len, snprintf(other, sizeof other, "%" PRIu64, value));
        assert_memory_equal(text, other, len);
        assert_true(text_to_u64((struct slice){ text, len }, &back));
        assert_true(back == value);
    }
    char text[20];
    size_t digits = 1;
    for (uint64_t power = 10; digits < 20; power *= 10) {
        assert_int_equal(text_from_u64(text, power - 1), digits);
        assert_int_equal(text_from_u64(text, power), ++digits);
        assert_int_equal(text[0], '1');
        assert_int_equal(text_digits(power), digits);
    }
    assert_int_equal(text_from_u64(text, UINT64_MAX), 20);
    assert_memory_equal(text, "18446744073709551615", 20);
    assert_int_equal(text_from_u64(text, 0), 1);
    assert_int_equal(text[0], '0');
}

static size_t utf8_put(char out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf0 << (4 - len) & 0xff) | c);
    return len;
}

/* Every code point, alone: valid unless it is a surrogate; no shorter piece of it is. */
static void every_character_but_the_surrogates_is_valid(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        char text[4];
        size_t len = utf8_put(text, c);
        bool surrogate = c >= 0xd800 && c <= 0xdfff;
        if (utf8_valid((struct slice){ text, len }) == surrogate) fail_msg("U+%04X", c);
        if (!surrogate && utf8_chars((struct slice){ text, len }) != 1) fail_msg("U+%04X counts wrongly", c);
        for (size_t cut = 1; cut < len; cut++) {
            if (utf8_valid((struct slice){ text, cut })) fail_msg("U+%04X cut to %zu bytes", c, cut);
            if (utf8_valid((struct slice){ text + cut, len - cut })) fail_msg("U+%04X without its head", c);
        }
    }
    assert_true(utf8_valid(SLICE("")));
    assert_true(utf8_valid(SLICE("抢购 café 🎫")));
    assert_int_equal(utf8_chars(SLICE("抢购 café 🎫")), 9);
    assert_int_equal(utf8_chars(SLICE("")), 0);
}

static void broken_utf8_is_refused(void **state)
{
    (void)state;
    static const struct slice rows[] = {
        SLICE("\x80"),
        SLICE("\xbf"),
        SLICE("a\xff"),
        SLICE("\xfe"),
        SLICE("\xc0\x80"),
        SLICE("\xc0\xaf"),
        SLICE("\xc1\xbf"),
        SLICE("\xe0\x80\x80"),
        SLICE("\xe0\x9f\xbf"),
        SLICE("\xf0\x80\x80\x80"),
        SLICE("\xf0\x8f\xbf\xbf"),
        SLICE("\xed\xa0\x80"),
        SLICE("\xed\xbf\xbf"),
        SLICE("\xf4\x90\x80\x80"),
        SLICE("\xf5\x80\x80\x80"),
        SLICE("\xf8\x88\x80\x80\x80"),
        SLICE("\xfc\x84\x80\x80\x80\x80"),
        SLICE("\xc3\x28"),
        SLICE("\xe2\x28\xa1"),
        SLICE("\xe2\x82\x28"),
        SLICE("\xf0\x9f\x28\xbc"),
        SLICE("\xf0\x9f\x98\x28"),
        SLICE("ok\xe2\x82"),
        SLICE("\xc3\xc3\xa9"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (utf8_valid(rows[i])) fail_msg("row %zu was taken", i);
    }
}

static void control_characters_are_those_of_ascii(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char text[3] = { 'a', (char)byte, 'b' };
        assert_int_equal(text_has_control((struct slice){ text, 3 }), byte < 0x20 || byte == 0x7f);
    }
    assert_false(text_has_control(SLICE("")));
    assert_true(text_has_control(SLICE("\n")));
}

/* Printable ASCII is passed over eight bytes at a time: what is not must be seen wherever it stands among them. */
static void one_bad_byte_is_seen_at_every_place(void **state)
{
    (void)state;
    for (size_t len = 1; len <= 26; len++) {
        for (size_t at = 0; at < len; at++) {
            for (int byte = 0; byte < 256; byte++) {
                char text[26];
                memset(text, byte % 2 == 0 ? ' ' : '~', sizeof text);
                text[at] = (char)byte;
                struct slice slice = { text, len };
                if (utf8_valid(slice) != (byte < 0x80)) fail_msg("byte %02x at %zu of %zu: not UTF-8 or is", byte, at, len);
                bool control = byte < 0x20 || byte == 0x7f;
                if (text_has_control(slice) != control)
                    fail_msg("byte %02x at %zu of %zu: no control or one", byte, at, len);
            }
        }
    }
}

static void hexadecimal_comes_back_and_nothing_else_is_taken(void **state)
{
    (void)state;
    uint8_t data[256], back[256];
    char text[512];
    for (size_t i = 0; i < 256; i++) data[i] = (uint8_t)i;
    assert_int_equal(hex_encode(text, data, 256), 512);
    assert_true(hex_decode(back, (struct slice){ text, 512 }));
    assert_memory_equal(back, data, 256);
    assert_true(hex_decode(back, SLICE("00aAFf")));
    assert_memory_equal(back, "\x00\xaa\xff", 3);
    assert_true(hex_decode(back, SLICE("")));
    assert_false(hex_decode(back, SLICE("a")));
    assert_false(hex_decode(back, SLICE("abc")));

    for (int byte = 0; byte < 256; byte++) {
        bool digit = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
        assert_int_equal(hex_decode(back, (struct slice){ (char[]){ '0', (char)byte }, 2 }), digit);
        assert_int_equal(hex_decode(back, (struct slice){ (char[]){ (char)byte, '0' }, 2 }), digit);
    }
}

static void base64url_has_the_known_answers(void **state)
{
    (void)state;
    /* RFC 4648, section 10, without padding, and the two letters that differ from plain base64. */
    static const struct {
        struct slice plain, text;
    } rows[] = {
        { SLICE(""), SLICE("") },
        { SLICE("f"), SLICE("Zg") },
        { SLICE("fo"), SLICE("Zm8") },
        { SLICE("foo"), SLICE("Zm9v") },
        { SLICE("foob"), SLICE("Zm9vYg") },
        { SLICE("fooba"), SLICE("Zm9vYmE") },
        { SLICE("foobar"), SLICE("Zm9vYmFy") },
        { SLICE("\xfb\xff\xbf"), SLICE("-_-_") },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[16];
        uint8_t back[16];
        size_t len = base64url_encode(text, (const uint8_t *)rows[i].plain.data, rows[i].plain.len);
        assert_true(slice_equal((struct slice){ text, len }, rows[i].text));
        assert_true(base64url_decode(back, rows[i].plain.len, rows[i].text, &len));
        assert_true(slice_equal((struct slice){ (char *)back, len }, rows[i].plain));
        if (rows[i].plain.len > 0) assert_false(base64url_decode(back, rows[i].plain.len - 1, rows[i].text, &len));
    }
}

static void base64url_refuses_what_it_would_not_write(void **state)
{
    (void)state;
    static const struct slice rows[] = {
        SLICE("A"),      SLICE("AAAAA"), SLICE("Zg=="),  SLICE("Zm8="),    SLICE("Zm9v="),
        SLICE("Zm9v\n"), SLICE("Zm 9"),  SLICE("+/+/"),  SLICE("Zh"),      SLICE("Zm9"),
        SLICE("AB"),     SLICE("AAB"),   SLICE("Z\0g="), SLICE("Zm9\xc3"), SLICE("Zm9."),
    };
    uint8_t back[16];
    size_t len;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (base64url_decode(back, sizeof back, rows[i], &len)) fail_msg("row %zu was taken", i);
    }
}

/* Any bytes come back; any text that is taken is the one we would write for those bytes. */
static void base64url_is_one_to_one(void **state)
{
    (void)state;
    uint64_t dice = dice_seed();
    for (int i = 0; i < 100000; i++) {
        uint8_t data[64], back[64];
        char text[90];
        size_t len = dice_below(&dice, 64), back_len;
        for (size_t b = 0; b < len; b++) data[b] = (uint8_t)dice_roll(&dice);
        size_t text_len = base64url_encode(text, data, len);
        assert_true(text_len <= len * 4 / 3 + 2);
        assert_true(base64url_decode(back, len, (struct slice){ text, text_len }, &back_len));
        assert_int_equal(back_len, len);
        if (len > 0) assert_memory_equal(back, data, len);

        if (text_len == 0) continue;
        char other[90];
        text[dice_below(&dice, (uint32_t)text_len)] = (char)(dice_below(&dice, 96) + 32);
        if (base64url_decode(back, sizeof back, (struct slice){ text, text_len }, &back_len)) {
            assert_int_equal(base64url_encode(other, back, back_len), text_len);
            assert_memory_equal(other, text, text_len);
        }
    }
}

static void trimming_takes_blanks_from_the_ends_alone(void **state)
{
    (void)state;
    static const struct {
        struct slice text;
        const char *want;
    } rows[] = {
        { SLICE(""), "" },       { SLICE(" \t\r "), "" }, { SLICE("a"), "a" },
        { SLICE(" a"), "a" },    { SLICE("a\t\r"), "a" }, { SLICE(" \ta b\t c\r"), "a b\t c" },
        { SLICE("\na"), "\na" }, { SLICE("a\0"), "a" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows) - 1; i++)
        assert_true(slice_is(text_trim(rows[i].text), rows[i].want));
    assert_int_equal(text_trim(rows[sizeof(rows) / sizeof(*rows) - 1].text).len, 2); /* a NUL is no blank */
}

/* Wherever the byte that decides stands, and whatever stands before it. */
static void printable_is_valid_without_a_control_character(void **state)
{
    (void)state;
    static const char *const parts[] = { "a",    "12345678", "\xe6\x8a\xa2", "\xf0\x9f\x8e\xab", "\x7f", "\x1f", "\xc3",
                                         "\x80", "~ " };
    for (size_t i = 0; i < 9 * 9 * 9 * 9; i++) {
        char text[64];
        size_t len = 0;
        for (size_t rest = i, part = 0; part < 4; part++, rest /= 9) {
            const struct slice piece = slice_of(parts[rest % 9]);
            memcpy(text + len, piece.data, piece.len);
            len += piece.len;
        }
        const struct slice slice = { text, len };
        assert_int_equal(text_is_printable(slice), utf8_valid(slice) && !text_has_control(slice));
    }
    assert_true(text_is_printable(SLICE("")));
    assert_false(text_is_printable((struct slice){ "a\0b", 3 }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trimming_takes_blanks_from_the_ends_alone),
        cmocka_unit_test(a_number_is_digits_within_64_bits_and_nothing_else),
        cmocka_unit_test(every_number_comes_back_as_it_was),
        cmocka_unit_test(every_character_but_the_surrogates_is_valid),
        cmocka_unit_test(broken_utf8_is_refused),
        cmocka_unit_test(control_characters_are_those_of_ascii),
        cmocka_unit_test(one_bad_byte_is_seen_at_every_place),
        cmocka_unit_test(hexadecimal_comes_back_and_nothing_else_is_taken),
        cmocka_unit_test(base64url_has_the_known_answers),
        cmocka_unit_test(base64url_refuses_what_it_would_not_write),
        cmocka_unit_test(base64url_is_one_to_one),
        cmocka_unit_test(printable_is_valid_without_a_control_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
