#include "base/text.h"

#include "bounds.h"
#include "tests/unit/base/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define DAY_MS UINT64_C(86400000)

static void known_instants_are_written_and_read(void **state)
{
    (void)state;
    static const struct {
        uint64_t ms;
        const char *text;
    } rows[] = {
        { 0, "1970-01-01T00:00:00.000Z" },
        { 1, "1970-01-01T00:00:00.001Z" },
        { 951782400000, "2000-02-29T00:00:00.000Z" },
        { 951868799999, "2000-02-29T23:59:59.999Z" },
        { 1234567890123, "2009-02-13T23:31:30.123Z" },
        { 4107542400000, "2100-03-01T00:00:00.000Z" },
        { 2147483648000, "2038-01-19T03:14:08.000Z" },
        { TIME_MS_MAX, "9999-12-31T23:59:59.999Z" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[TIME_TEXT_BYTES + 1];
        uint64_t ms;
        time_to_text(text, rows[i].ms);
        assert_string_equal(text, rows[i].text);
        assert_true(time_from_text(slice_of(rows[i].text), &ms));
        assert_true(ms == rows[i].ms);
    }
}

/* Every day of eight thousand years, against the C library. */
static void every_day_agrees_with_the_c_library(void **state)
{
    (void)state;
    for (uint64_t day = 0; day <= TIME_MS_MAX / DAY_MS; day++) {
        time_t seconds = (time_t)(day * 86400 + 43210);
        struct tm tm;
        assert_non_null(gmtime_r(&seconds, &tm));
        char want[64], text[TIME_TEXT_BYTES + 1];
        assert_int_equal(strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%S.000Z", &tm), TIME_TEXT_BYTES);
        time_to_text(text, (uint64_t)seconds * 1000);
        if (strcmp(text, want) != 0) fail_msg("%s, want %s", text, want);
        uint64_t ms;
        assert_true(time_from_text(slice_of(text), &ms));
        assert_true(ms == (uint64_t)seconds * 1000);
    }
}

static void every_millisecond_comes_back(void **state)
{
    (void)state;
    uint64_t dice = dice_seed();
    for (int i = 0; i < 200000; i++) {
        uint64_t ms = dice_roll(&dice) % (TIME_MS_MAX + 1), back;
        char text[TIME_TEXT_BYTES + 1];
        time_to_text(text, ms);
        assert_true(time_from_text((struct slice){ text, TIME_TEXT_BYTES }, &back));
        assert_true(back == ms);
    }
}

static void offsets_and_fractions_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *text, *same_as;
    } rows[] = {
        { "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z" },
        { "2026-01-31t12:00:00z", "2026-01-31T12:00:00.000Z" },
        { "2026-01-31T12:00:00.1Z", "2026-01-31T12:00:00.100Z" },
        { "2026-01-31T12:00:00.12Z", "2026-01-31T12:00:00.120Z" },
        { "2026-01-31T12:00:00.1239Z", "2026-01-31T12:00:00.123Z" },
        { "2026-01-31T12:00:00.999999999Z", "2026-01-31T12:00:00.999Z" },
        { "2026-01-31T12:00:00.000000001Z", "2026-01-31T12:00:00.000Z" },
        { "2026-01-31T20:00:00+08:00", "2026-01-31T12:00:00.000Z" },
        { "2026-01-31T08:30:00.5-03:30", "2026-01-31T12:00:00.500Z" },
        { "2026-01-31T12:00:00+00:00", "2026-01-31T12:00:00.000Z" },
        { "2026-01-31T12:00:00-00:00", "2026-01-31T12:00:00.000Z" },
        { "2026-03-01T00:30:00+01:00", "2026-02-28T23:30:00.000Z" },
        { "2027-01-01T00:00:00+23:59", "2026-12-31T00:01:00.000Z" },
        { "1969-12-31T23:30:00-01:00", "1970-01-01T00:30:00.000Z" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t ms;
        char text[TIME_TEXT_BYTES + 1];
        if (!time_from_text(slice_of(rows[i].text), &ms)) fail_msg("%s was refused", rows[i].text);
        time_to_text(text, ms);
        assert_string_equal(text, rows[i].same_as);
    }
}

static void what_is_not_a_time_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "2026",
        "2026-01-31",
        "2026-01-31T12:00Z",
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00:00 Z",
        " 2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00Z ",
        "2026-01-31T12:00:00ZZ",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00.1234567890Z",
        "2026-01-31T12:00:00.-5Z",
        "2026-00-10T12:00:00Z",
        "2026-13-10T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-01-32T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2100-02-29T12:00:00Z",
        "2000-02-30T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:60Z",
        "2016-12-31T23:59:60Z",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+08:60",
        "2026-01-31T12:00:00+0800",
        "2026-01-31T12:00:00+08",
        "2026-01-31T12:00:00+8:00",
        "2026-1-31T12:00:00Z",
        "26-01-31T12:00:00Z",
        "+2026-01-31T12:00:00Z",
        "-2026-01-31T12:00:00Z",
        "12026-01-31T12:00:00Z",
        "2026/01/31T12:00:00Z",
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:00:00+00:01",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999-00:01",
        "1769900000",
        "now",
        "2026-01-3\xd9\xa1T12:00:00Z",
        "\xef\xbb\xbf"
        "2026-01-31T12:00:00Z",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t ms = 77;
        if (time_from_text(slice_of(rows[i]), &ms)) fail_msg("%s was taken", rows[i]);
        assert_true(ms == 77);
    }
    uint64_t ms;
    assert_false(time_from_text(SLICE("2026-01-31T12:00:00Z\0"), &ms));
}

/* No piece of a time is a time, and reading never goes beyond the slice. */
static void every_cut_of_a_time_is_refused(void **state)
{
    (void)state;
    static const char whole[] = "2026-01-31T20:00:00.123+08:00";
    for (size_t cut = 0; cut < sizeof whole - 1; cut++) {
        char *copy = strndup(whole, cut);
        uint64_t ms;
        assert_non_null(copy);
        assert_false(time_from_text((struct slice){ copy, cut }, &ms));
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_instants_are_written_and_read), cmocka_unit_test(every_day_agrees_with_the_c_library),
        cmocka_unit_test(every_millisecond_comes_back),        cmocka_unit_test(offsets_and_fractions_are_understood),
        cmocka_unit_test(what_is_not_a_time_is_refused),       cmocka_unit_test(every_cut_of_a_time_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
