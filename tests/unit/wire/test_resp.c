#include "wire/resp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct resp_limits wide = { RESP_ARGS_MAX, RESP_COMMAND_BYTES_MAX };

/* What a stream of bytes comes to, as text: "[a|b][c]", "()" for nothing to answer, "!mistake" at its end. */
struct reading {
    char text[4096];
    size_t len;
};

static void reading_add(struct reading *reading, const char *text, size_t len)
{
    assert_true(reading->len + len < sizeof reading->text);
    memcpy(reading->text + reading->len, text, len);
    reading->len += len;
    reading->text[reading->len] = '\0';
}

static void reading_command(struct reading *reading, const struct resp_command *command)
{
    reading_add(reading, "[", 1);
    for (uint32_t i = 0; i < command->argc; i++) {
        if (i > 0) reading_add(reading, "|", 1);
        reading_add(reading, command->argv[i].data, command->argv[i].len);
    }
    reading_add(reading, "]", 1);
}

/* Puts the command back and reads it once more, after its bytes have moved. */
static char *read_again(struct resp_reader *reader, const struct resp_limits *limits, char *bytes, size_t len,
                        struct resp_command *command)
{
    char *moved = malloc(len + 1);
    memcpy(moved, bytes, len);
    resp_put_back(reader, bytes, command);
    free(bytes);
    assert_int_equal(resp_read(reader, limits, moved, len, command), RESP_COMMAND);
    return moved;
}

/* Feeds the bytes in two parts, in memory of exactly their size, moved in between; commands after an odd split twice. */
static void feed(const char *bytes, size_t len, size_t split, const struct resp_limits *limits, struct reading *out)
{
    struct resp_reader reader;
    struct resp_command command;
    size_t begin = 0;
    resp_reader_init(&reader);
    out->len = 0;
    out->text[0] = '\0';
    char *whole = malloc(len + 1);
    memcpy(whole, bytes, len);
    for (int part = 0; part < 2; part++) {
        size_t end = part == 0 ? split : len;
        for (;;) {
            char *copy = malloc(end - begin + 1);
            memcpy(copy, whole + begin, end - begin);
            enum resp_progress progress = resp_read(&reader, limits, copy, end - begin, &command);
            if (progress == RESP_COMMAND && split % 2 != 0) copy = read_again(&reader, limits, copy, end - begin, &command);
            if (progress == RESP_COMMAND) reading_command(out, &command);
            if (progress == RESP_EMPTY) reading_add(out, "()", 2);
            if (progress == RESP_MALFORMED) {
                reading_add(out, "!", 1);
                reading_add(out, command.mistake, strlen(command.mistake));
                part = 2;
            }
            free(copy);
            if (progress == RESP_MORE || progress == RESP_MALFORMED) break;
            assert_true(command.bytes > 0 && command.bytes <= end - begin);
            begin += command.bytes;
        }
    }
    free(whole);
}

static const struct {
    const char *bytes, *want;
} streams[] = {
    { "*1\r\n$4\r\nPING\r\n", "[PING]" },
    { "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "[ECHO|]" },
    { "*2\r\n$3\r\nGET\r\n$7\r\na\r\nb\n\r*\r\nPING\r\n", "[GET|a\r\nb\n\r*][PING]" },
    { "PING\r\nPING\n  PING  \r\n", "[PING][PING][PING]" },
    { "\r\n\n*0\r\n*-1\r\nPING\r\n", "()()()()[PING]" },
    { "SET \"a b\" 'c d' \"\\x41\\n\\\"\" 'it\\'s' \"\"\r\n", "[SET|a b|c d|A\n\"|it's|]" },
    { "SET a\"b c\" d\r\n", "[SET|ab c|d]" },
    { "*3\r\n$9\r\nSALE.GRAB\r\n$1\r\n1\r\n$3\r\nann\r\n*1\r\n$4\r\nQUIT\r\n", "[SALE.GRAB|1|ann][QUIT]" },
    { "*1\r\n$-1\r\n", "!invalid bulk length" },
    { "*1\r\n$+4\r\nPING\r\n", "!invalid bulk length" },
    { "*1\r\n$0x4\r\nPING\r\n", "!invalid bulk length" },
    { "*1\r\n$ 4\r\nPING\r\n", "!invalid bulk length" },
    { "*1\r\n$4\nPING\r\n", "!invalid bulk length" },
    { "*1\r\n$\r\nPING\r\n", "!invalid bulk length" },
    { "*1\r\n$99999999999999999999\r\n", "!invalid bulk length" },
    { "*1\r\n$4294967300\r\n", "!the command is too long" },
    { "*1\r\n$2147483648\r\n", "!the command is too long" },
    { "*1\r\n$16384\r\n", "!the command is too long" },
    { "*1\r\n$4\r\nPINGS\r\n", "!an argument is not as long as it says" },
    { "*1\r\n$4\r\nPING\n\r", "!an argument is not as long as it says" },
    { "*1\r\n:4\r\n", "!expected '$' and the length of an argument" },
    { "*1\r\n*1\r\n$4\r\nPING\r\n", "!expected '$' and the length of an argument" },
    { "*1\r\n\r\n", "!expected '$' and the length of an argument" },
    { "*x\r\n", "!invalid multibulk length" },
    { "*\r\n", "!invalid multibulk length" },
    { "*1\n$4\r\nPING\r\n", "!invalid multibulk length" },
    { "*+1\r\n", "!invalid multibulk length" },
    { "*33\r\n", "!too many arguments" },
    { "*2147483648\r\n", "!too many arguments" },
    { "*99999999999\r\n", "!invalid multibulk length" },
    { "SET \"a\r\n", "!unbalanced quotes in an inline command" },
    { "SET \"a\"b\r\n", "!unbalanced quotes in an inline command" },
    { "PING\r\n*1\r\n$4\r\nPI", "[PING]" },
};

static void every_split_of_a_stream_reads_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        size_t len = strlen(streams[i].bytes);
        for (size_t split = 0; split <= len; split++) {
            struct reading reading;
            feed(streams[i].bytes, len, split, &wide, &reading);
            if (strcmp(reading.text, streams[i].want) != 0)
                fail_msg("row %zu split at %zu: %s, not %s", i, split, reading.text, streams[i].want);
        }
    }
}

static void limits_end_a_command_before_its_bytes_have_come(void **state)
{
    (void)state;
    static const struct resp_limits tight = { 3, 64 };
    static const struct {
        const char *bytes, *want;
    } rows[] = {
        { "*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n", "[AUTH|a|b]" },
        { "*2\r\n$4\r\nAUTH\r\n$43\r\n0123456789012345678901234567890123456789012\r\n",
          "[AUTH|0123456789012345678901234567890123456789012]" },
        { "*2\r\n$4\r\nAUTH\r\n$44\r\n01234567890123456789012345678901234567890124\r\n", "!the command is too long" },
        { "*4\r\n", "!too many arguments" },
        { "*2\r\n$4\r\nAUTH\r\n$60\r\n", "!the command is too long" },
        { "AUTH a b c\r\n", "!too many arguments in an inline command" },
        { "AUTH 0123456789012345678901234567890123456789012345678901234567890123456789", "!the command is too long" },
        { "*1\r\n$0000000000000000000000000000000000000000000000000000000000000000000", "!the command is too long" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t len = strlen(rows[i].bytes);
        for (size_t split = 0; split <= len; split++) {
            struct reading reading;
            feed(rows[i].bytes, len, split, &tight, &reading);
            assert_string_equal(reading.text, rows[i].want);
        }
    }
}

static void a_dripping_command_is_scanned_once(void **state)
{
    (void)state;
    enum { LEN = 16000 };
    struct resp_reader reader;
    struct resp_command command;
    char *bytes = malloc(LEN + 1);
    memset(bytes, 'x', LEN);
    bytes[LEN] = '\n';
    resp_reader_init(&reader);
    for (size_t len = 1; len <= LEN; len++) {
        assert_int_equal(resp_read(&reader, &wide, bytes, len, &command), RESP_MORE);
        assert_int_equal(reader.scanned, len);
    }
    assert_int_equal(resp_read(&reader, &wide, bytes, LEN + 1, &command), RESP_COMMAND);
    assert_int_equal(command.argv[0].len, LEN);
    free(bytes);
}

static void replies_are_as_their_version_writes_them(void **state)
{
    (void)state;
    static const char *const want[] = {
        [2] = "+OK\r\n-BUSY try  again\r\n:0\r\n:-9223372036854775808\r\n$0\r\n\r\n$2\r\n42\r\n$-1\r\n*2\r\n*4\r\n",
        [3] = "+OK\r\n-BUSY try  again\r\n:0\r\n:-9223372036854775808\r\n$0\r\n\r\n$2\r\n42\r\n_\r\n*2\r\n%2\r\n",
    };
    for (uint8_t version = 2; version <= 3; version++) {
        char data[256];
        struct resp_out out = { .data = data, .size = sizeof data, .version = version };
        resp_simple(&out, SLICE("OK"));
        resp_error(&out, "BUSY", SLICE("try\r\nagain"));
        resp_integer(&out, 0);
        resp_integer(&out, INT64_MIN);
        resp_bulk(&out, SLICE(""));
        resp_number_text(&out, 42);
        resp_nil(&out);
        resp_array(&out, 2);
        resp_map(&out, 2);
        assert_false(out.overflow);
        assert_int_equal(out.len, strlen(want[version]));
        assert_memory_equal(data, want[version], out.len);
    }
}

static void a_reply_that_does_not_fit_writes_nothing_more(void **state)
{
    (void)state;
    char data[32];
    struct resp_out out = { .data = data, .size = sizeof data, .version = 2 };
    resp_bulk(&out, SLICE("0123456789"));
    assert_true(out.overflow);
    resp_simple(&out, SLICE("OK"));
    assert_int_equal(out.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_of_a_stream_reads_the_same),
        cmocka_unit_test(limits_end_a_command_before_its_bytes_have_come),
        cmocka_unit_test(a_dripping_command_is_scanned_once),
        cmocka_unit_test(replies_are_as_their_version_writes_them),
        cmocka_unit_test(a_reply_that_does_not_fit_writes_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
