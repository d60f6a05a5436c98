#include "base/text.h"

bool text_to_u64(struct slice text, uint64_t *out)
{
    if (text.len == 0 || text.len > 20) return false;
    if (text.data[0] == '0' && text.len > 1) return false;

    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)(unsigned char)text.data[i] - '0';
        if (digit > 9) return false;
        if (__builtin_mul_overflow(value, UINT64_C(10), &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)digit, &value)) return false;
    }
    *out = value;
    return true;
}

/* Each bit is worth 0.30103 digits; where that many are one too few or too many the power says. */
size_t text_digits(uint64_t value)
{
    static const uint64_t powers[] = {
        UINT64_C(0),
        UINT64_C(10),
        UINT64_C(100),
        UINT64_C(1000),
        UINT64_C(10000),
        UINT64_C(100000),
        UINT64_C(1000000),
        UINT64_C(10000000),
        UINT64_C(100000000),
        UINT64_C(1000000000),
        UINT64_C(10000000000),
        UINT64_C(100000000000),
        UINT64_C(1000000000000),
        UINT64_C(10000000000000),
        UINT64_C(100000000000000),
        UINT64_C(1000000000000000),
        UINT64_C(10000000000000000),
        UINT64_C(100000000000000000),
        UINT64_C(1000000000000000000),
        UINT64_C(10000000000000000000),
    };
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    unsigned digits = bits * 1233 >> 12;
    return digits + (value >= powers[digits]);
}

static void pair_put(char *out, uint32_t value)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    memcpy(out, pairs + 2 * value, 2);
}

/* Four digits at a time, from the last: every answer has numbers, and each division waits for the one before. */
size_t text_from_u64(char out[20], uint64_t value)
{
    size_t len = value < 10 ? 1 : text_digits(value), at = len; /* most lengths and counts have one */
    for (; at >= 4; value /= 10000) {
        uint32_t four = (uint32_t)(value % 10000);
        at -= 4;
        pair_put(out + at, four / 100);
        pair_put(out + at + 2, four % 100);
    }
    uint32_t rest = (uint32_t)value;
    if (at >= 2) {
        at -= 2;
        pair_put(out + at, rest % 100);
        rest /= 100;
    }
    if (at == 1) out[0] = (char)('0' + rest);
    return len;
}

/* How much of a text is eights of printable ASCII, which needs no closer look: next to all of what people send. In a word
 * without high bits, taking a blank from each byte sets one only where the byte is less, adding one only where it is 0x7f.
 */
static size_t plain_len(struct slice text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t at = 0;
    for (; text.len - at >= sizeof ones; at += sizeof ones) {
        uint64_t word;
        memcpy(&word, text.data + at, sizeof word);
        if (((word | (word - ones * ' ') | (word + ones)) & ones * 0x80) != 0) break;
    }
    return at;
}

/* The bytes of the character that begins here, or 0 if none does. The first two bytes decide overlong forms, surrogates and
 * what lies beyond U+10FFFF (RFC 3629, section 4). */
static size_t utf8_char_len(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;

    size_t len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (left < len) return 0;
    unsigned char low = 0x80, high = 0xbf;
    if (p[0] == 0xe0) low = 0xa0;
    if (p[0] == 0xed) high = 0x9f;
    if (p[0] == 0xf0) low = 0x90;
    if (p[0] == 0xf4) high = 0x8f;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    return len;
}

bool utf8_valid(struct slice text)
{
    const unsigned char *p = (const unsigned char *)text.data;
    for (size_t at = plain_len(text); at < text.len;) {
        size_t len = utf8_char_len(p + at, text.len - at);
        if (len == 0) return false;
        at += len;
    }
    return true;
}

size_t utf8_chars(struct slice text)
{
    size_t chars = 0;
    for (size_t i = 0; i < text.len; i++) chars += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return chars;
}

bool text_has_control(struct slice text)
{
    for (size_t i = plain_len(text); i < text.len; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte < 0x20 || byte == 0x7f) return true;
    }
    return false;
}

bool text_is_printable(struct slice text)
{
    size_t plain = plain_len(text); /* looked at once for both */
    struct slice rest = { text.data + plain, text.len - plain };
    return utf8_valid(rest) && !text_has_control(rest);
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

struct slice text_trim(struct slice text)
{
    while (text.len > 0 && is_blank(text.data[text.len - 1])) text.len--;
    while (text.len > 0 && is_blank(text.data[0])) text = (struct slice){ text.data + 1, text.len - 1 };
    return text;
}

size_t hex_encode(char *out, const uint8_t *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[data[i] >> 4];
        out[2 * i + 1] = digits[data[i] & 15];
    }
    return 2 * len;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool hex_decode(uint8_t *out, struct slice text)
{
    if (text.len % 2 != 0) return false;
    for (size_t i = 0; i < text.len / 2; i++) {
        int high = hex_value(text.data[2 * i]), low = hex_value(text.data[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

size_t base64url_encode(char *out, const uint8_t *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t written = 0;
    for (size_t at = 0; at < len; at += 3) {
        size_t left = len - at;
        uint32_t bits = (uint32_t)data[at] << 16;
        if (left > 1) bits |= (uint32_t)data[at + 1] << 8;
        if (left > 2) bits |= data[at + 2];
        out[written++] = digits[bits >> 18];
        out[written++] = digits[bits >> 12 & 63];
        if (left > 1) out[written++] = digits[bits >> 6 & 63];
        if (left > 2) out[written++] = digits[bits & 63];
    }
    return written;
}

/* A table, because every request brings a token; 0 is "not a digit", so digits are stored plus one. */
static const uint8_t base64url_values[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,  ['I'] = 9,  ['J'] = 10,
    ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20,
    ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30,
    ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50,
    ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60,
    ['8'] = 61, ['9'] = 62, ['-'] = 63, ['_'] = 64,
};

/* More than 63 for what is not a digit. */
static uint32_t base64url_value(char digit)
{
    return base64url_values[(unsigned char)digit] - UINT32_C(1);
}

/* Bits left over in the last digit must be zero: otherwise several texts would stand for the same bytes, and a signature
 * could be respelled. */
bool base64url_decode(uint8_t *out, size_t out_max, struct slice text, size_t *len)
{
    if (text.len % 4 == 1) return false;
    size_t bytes = text.len / 4 * 3 + (text.len % 4 == 0 ? 0 : text.len % 4 - 1);
    if (bytes > out_max) return false;

    size_t written = 0, at = 0;
    for (; text.len - at >= 4; at += 4) {
        uint32_t a = base64url_value(text.data[at]), b = base64url_value(text.data[at + 1]);
        uint32_t c = base64url_value(text.data[at + 2]), d = base64url_value(text.data[at + 3]);
        if ((a | b | c | d) > 63) return false;
        uint32_t bits = a << 18 | b << 12 | c << 6 | d;
        out[written++] = (uint8_t)(bits >> 16);
        out[written++] = (uint8_t)(bits >> 8);
        out[written++] = (uint8_t)bits;
    }
    if (at < text.len) {
        uint32_t a = base64url_value(text.data[at]), b = base64url_value(text.data[at + 1]);
        uint32_t c = text.len - at == 3 ? base64url_value(text.data[at + 2]) : 0;
        if ((a | b | c) > 63) return false;
        uint32_t bits = a << 18 | b << 12 | c << 6;
        if ((bits & (text.len - at == 3 ? 0xff : 0xffff)) != 0) return false;
        out[written++] = (uint8_t)(bits >> 16);
        if (text.len - at == 3) out[written++] = (uint8_t)(bits >> 8);
    }
    *len = written;
    return true;
}
