#include "base/text.h"

#include "bounds.h"

#include <assert.h>

#define MS_PER_DAY INT64_C(86400000)
#define DAYS_PER_400_YEARS INT64_C(146097)

static bool year_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int64_t month_days(int64_t year, int64_t month)
{
    static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return month == 2 && year_is_leap(year) ? 29 : days[month - 1];
}

/* Days from 0000-01-01 to the first of this year. Year 0 is a leap year in the calendar run backwards. */
static int64_t days_before_year(int64_t year)
{
    if (year == 0) return 0;
    int64_t past = year - 1;
    return year * 365 + past / 4 - past / 100 + past / 400 + 1;
}

static int64_t days_of_epoch(void)
{
    return days_before_year(1970);
}

static void digits_put(char *out, size_t width, uint64_t value)
{
    for (size_t i = width; i > 0; i--) {
        out[i - 1] = (char)('0' + value % 10);
        value /= 10;
    }
}

void time_to_text(char out[TIME_TEXT_BYTES + 1], uint64_t ms)
{
    assert(ms <= TIME_MS_MAX);
    int64_t days = (int64_t)ms / MS_PER_DAY + days_of_epoch();
    uint64_t in_day = ms % (uint64_t)MS_PER_DAY;

    /* The mean length of a year is at most one year off. */
    int64_t year = days * 400 / DAYS_PER_400_YEARS;
    while (days_before_year(year) > days) year--;
    while (days_before_year(year + 1) <= days) year++;
    int64_t day = days - days_before_year(year);
    int64_t month = 1;
    while (day >= month_days(year, month)) day -= month_days(year, month++);

    static const char shape[TIME_TEXT_BYTES + 1] = "0000-00-00T00:00:00.000Z";
    memcpy(out, shape, sizeof shape);
    digits_put(out, 4, (uint64_t)year);
    digits_put(out + 5, 2, (uint64_t)month);
    digits_put(out + 8, 2, (uint64_t)day + 1);
    digits_put(out + 11, 2, in_day / 3600000);
    digits_put(out + 14, 2, in_day / 60000 % 60);
    digits_put(out + 17, 2, in_day / 1000 % 60);
    digits_put(out + 20, 3, in_day % 1000);
}

/* What is still unread; every taker moves on only when it finds what it looks for. */
struct scan {
    const char *at;
    size_t left;
};

static bool take_digits(struct scan *scan, size_t width, int64_t *value)
{
    if (scan->left < width) return false;
    int64_t sum = 0;
    for (size_t i = 0; i < width; i++) {
        if (scan->at[i] < '0' || scan->at[i] > '9') return false;
        sum = sum * 10 + (scan->at[i] - '0');
    }
    *value = sum;
    scan->at += width;
    scan->left -= width;
    return true;
}

static bool take_char(struct scan *scan, char want)
{
    if (scan->left == 0 || *scan->at != want) return false;
    scan->at++;
    scan->left--;
    return true;
}

static bool take_date(struct scan *scan, int64_t *days)
{
    int64_t year, month, day;
    if (!take_digits(scan, 4, &year) || !take_char(scan, '-')) return false;
    if (!take_digits(scan, 2, &month) || !take_char(scan, '-')) return false;
    if (!take_digits(scan, 2, &day)) return false;
    if (month < 1 || month > 12 || day < 1 || day > month_days(year, month)) return false;

    *days = days_before_year(year) + day - 1;
    for (int64_t m = 1; m < month; m++) *days += month_days(year, m);
    return true;
}

/* A leap second has no number of its own in the time we count by, so :60 is refused rather than moved. */
static bool take_time(struct scan *scan, int64_t *ms)
{
    int64_t hour, minute, second;
    if (!take_digits(scan, 2, &hour) || !take_char(scan, ':')) return false;
    if (!take_digits(scan, 2, &minute) || !take_char(scan, ':')) return false;
    if (!take_digits(scan, 2, &second)) return false;
    if (hour > 23 || minute > 59 || second > 59) return false;
    *ms = ((hour * 60 + minute) * 60 + second) * 1000;

    if (!take_char(scan, '.')) return true;
    size_t digits = 0;
    int64_t digit;
    for (int64_t worth = 100; take_digits(scan, 1, &digit); worth /= 10) {
        if (++digits > 9) return false;
        *ms += digit * worth;
    }
    return digits > 0;
}

static bool take_offset(struct scan *scan, int64_t *ms)
{
    *ms = 0;
    if (take_char(scan, 'Z') || take_char(scan, 'z')) return true;

    int64_t sign = take_char(scan, '-') ? -1 : 1;
    if (sign == 1 && !take_char(scan, '+')) return false;
    int64_t hour, minute;
    if (!take_digits(scan, 2, &hour) || !take_char(scan, ':') || !take_digits(scan, 2, &minute)) return false;
    if (hour > 23 || minute > 59) return false;
    *ms = sign * (hour * 60 + minute) * 60000;
    return true;
}

bool time_from_text(struct slice text, uint64_t *ms)
{
    struct scan scan = { text.data, text.len };
    int64_t days, in_day, offset;
    if (!take_date(&scan, &days)) return false;
    if (!take_char(&scan, 'T') && !take_char(&scan, 't')) return false;
    if (!take_time(&scan, &in_day)) return false;
    if (!take_offset(&scan, &offset)) return false;
    if (scan.left != 0) return false;

    int64_t time = (days - days_of_epoch()) * MS_PER_DAY + in_day - offset;
    if (time < 0 || (uint64_t)time > TIME_MS_MAX) return false;
    *ms = (uint64_t)time;
    return true;
}
