/* What a username and a password may be. */
#include "base/text.h"
#include "people/people.h"

#include <stdint.h>

/* Characters nobody sees, or sees as a space: two names that look the same must not be two people. */
static const struct {
    uint32_t first, last;
} unseen[] = {
    { 0x0080, 0x00a0 }, { 0x00ad, 0x00ad }, { 0x034f, 0x034f },    { 0x061c, 0x061c }, { 0x115f, 0x1160 },
    { 0x1680, 0x1680 }, { 0x17b4, 0x17b5 }, { 0x180b, 0x180f },    { 0x2000, 0x200f }, { 0x2028, 0x202f },
    { 0x205f, 0x206f }, { 0x3000, 0x3000 }, { 0x3164, 0x3164 },    { 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff },
    { 0xffa0, 0xffa0 }, { 0xfff0, 0xffff }, { 0xe0000, 0x10ffff },
};

/* The character at *at of valid UTF-8; moves *at behind it. */
static uint32_t char_next(struct slice text, size_t *at)
{
    uint8_t lead = (uint8_t)text.data[(*at)++];
    if (lead < 0x80) return lead;
    int tails = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    uint32_t value = lead & (0x3fu >> tails);
    for (; tails > 0; tails--) value = value << 6 | ((uint8_t)text.data[(*at)++] & 0x3fu);
    return value;
}

const char *people_username_objection(struct slice username)
{
    if (username.len == 0) return "a username has at least one character";
    if (username.len > USERNAME_BYTES_MAX) return "a username has at most 64 bytes";
    if (slice_is(username, ".") || slice_is(username, "..")) return "a username is not . or .., which paths do without";
    if (!utf8_valid(username)) return "a username is UTF-8";
    if (text_has_control(username)) return "a username has no control characters";
    for (size_t at = 0; at < username.len;) {
        uint32_t value = char_next(username, &at);
        if (value < 0x80 && memchr(" \"'`\\/:", (int)value, 7) != NULL)
            return "a username has no spaces, quotes, slashes, backslashes or colons";
        for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++) {
            if (value >= unseen[i].first && value <= unseen[i].last) return "a username has no invisible characters";
        }
    }
    return NULL;
}

const char *people_password_objection(struct slice password)
{
    if (!utf8_valid(password)) return "a password is UTF-8";
    if (password.len > 0 && memchr(password.data, 0, password.len) != NULL) return "a password has no NUL";
    size_t chars = utf8_chars(password);
    if (chars < PASSWORD_CHARS_MIN) return "a password has at least 8 characters";
    if (chars > PASSWORD_CHARS_MAX) return "a password has at most 128 characters";
    return NULL;
}
