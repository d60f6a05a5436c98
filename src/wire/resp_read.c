#include "wire/resp.h"

#include <assert.h>

void resp_reader_init(struct resp_reader *reader)
{
    reader->at = reader->scanned = reader->args_due = reader->argc = reader->bulk_len = 0;
    reader->in_bulk = reader->put_back = false;
}

static enum resp_progress malformed(struct resp_command *out, const char *mistake)
{
    out->mistake = mistake;
    return RESP_MALFORMED;
}

/* The line that begins at reader->at, without its end. RESP_COMMAND: there is one, and reader->at stands after it. */
static enum resp_progress line_read(struct resp_reader *reader, const struct resp_limits *limits, const char *data,
                                    size_t len, struct slice *line)
{
    uint32_t from = reader->scanned > reader->at ? reader->scanned : reader->at;
    const char *end = from < len ? memchr(data + from, '\n', len - from) : NULL;
    if (end == NULL) {
        reader->scanned = (uint32_t)len;
        return len > limits->bytes_max ? RESP_MALFORMED : RESP_MORE;
    }
    *line = (struct slice){ data + reader->at, (size_t)(end - data) - reader->at };
    reader->at = (uint32_t)(end - data) + 1;
    return reader->at > limits->bytes_max ? RESP_MALFORMED : RESP_COMMAND;
}

/* "N\r" behind the sign of its kind. */
static bool line_number(struct slice line, int64_t *out)
{
    bool negative = line.len > 1 && line.data[1] == '-';
    size_t at = negative ? 2 : 1;
    if (line.len < at + 2 || line.len > at + 11 || line.data[line.len - 1] != '\r') return false;
    int64_t value = 0;
    for (; at < line.len - 1; at++) {
        if (line.data[at] < '0' || line.data[at] > '9') return false;
        value = value * 10 + (line.data[at] - '0');
    }
    *out = negative ? -value : value;
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* What a backslash in double quotes stands for; *from is at the character after it, and moves to the last one used. */
static char escape_read(const char **from, const char *end)
{
    static const char plain[] = "nrtba", meaning[] = "\n\r\t\b\a";
    char c = **from;
    if (c == 'x' && end - *from > 2 && hex_value((*from)[1]) >= 0 && hex_value((*from)[2]) >= 0) {
        *from += 2;
        return (char)(hex_value((*from)[-1]) << 4 | hex_value(**from));
    }
    const char *found = strchr(plain, c);
    return c != '\0' && found != NULL ? meaning[found - plain] : c;
}

/* One argument of an inline command, unquoted in place from *from on. False: its quotes do not close, or something stands
 * right behind them. */
static bool inline_argument(char **from, char *end, struct slice *out)
{
    char *at = *from, *into = *from, quote = 0;
    out->data = at;
    for (; at < end && (quote != 0 || !is_space(*at)); at++) {
        if (quote != 0 && *at == quote) {
            quote = 0;
            if (at + 1 < end && !is_space(at[1])) return false;
        } else if (quote == 0 && (*at == '"' || *at == '\'')) {
            quote = *at;
        } else if (quote == '"' && *at == '\\' && at + 1 < end) {
            const char *escaped = at + 1;
            *into++ = escape_read(&escaped, end);
            at += escaped - at;
        } else if (quote == '\'' && *at == '\\' && at + 1 < end && at[1] == '\'') {
            *into++ = *++at;
        } else {
            *into++ = *at;
        }
    }
    out->len = (size_t)(into - out->data);
    *from = at;
    return quote == 0;
}

static enum resp_progress inline_read(const struct resp_limits *limits, char *line, size_t len, struct resp_command *out)
{
    char *end = line + len;
    if (len > 0 && end[-1] == '\r') end--;
    out->argc = 0;
    for (;;) {
        while (line < end && is_space(*line)) line++;
        if (line == end) break;
        if (out->argc == limits->args_max) return malformed(out, "too many arguments in an inline command");
        if (!inline_argument(&line, end, &out->argv[out->argc++]))
            return malformed(out, "unbalanced quotes in an inline command");
    }
    return out->argc == 0 ? RESP_EMPTY : RESP_COMMAND;
}

/* "*N": how many arguments are due. */
static enum resp_progress array_begin(struct resp_reader *reader, const struct resp_limits *limits, struct slice line,
                                      struct resp_command *out)
{
    int64_t count;
    if (!line_number(line, &count)) return malformed(out, "invalid multibulk length");
    if (count > limits->args_max) return malformed(out, "too many arguments");
    if (count <= 0) return RESP_EMPTY;
    reader->args_due = (uint32_t)count;
    reader->argc = 0;
    return RESP_MORE;
}

/* "$N": how long the next argument is. */
static enum resp_progress bulk_begin(struct resp_reader *reader, const struct resp_limits *limits, struct slice line,
                                     struct resp_command *out)
{
    int64_t size;
    if (line.len == 0 || line.data[0] != '$') return malformed(out, "expected '$' and the length of an argument");
    if (!line_number(line, &size) || size < 0) return malformed(out, "invalid bulk length");
    if (size > limits->bytes_max || reader->at + (uint64_t)size + 2 > limits->bytes_max)
        return malformed(out, "the command is too long");
    reader->bulk_len = (uint32_t)size;
    reader->in_bulk = true;
    return RESP_MORE;
}

static enum resp_progress bulk_end(struct resp_reader *reader, const char *data, size_t len, struct resp_command *out)
{
    if (len - reader->at < (size_t)reader->bulk_len + 2) return RESP_MORE;
    const char *after = data + reader->at + reader->bulk_len;
    if (after[0] != '\r' || after[1] != '\n') return malformed(out, "an argument is not as long as it says");
    reader->args[reader->argc].at = reader->at;
    reader->args[reader->argc++].len = reader->bulk_len;
    reader->at += reader->bulk_len + 2;
    reader->in_bulk = false;
    reader->args_due--;
    return RESP_COMMAND;
}

static enum resp_progress command_end(struct resp_reader *reader, const char *data, struct resp_command *out)
{
    out->argc = reader->argc;
    for (uint32_t i = 0; i < reader->argc; i++)
        out->argv[i] = (struct slice){ data + reader->args[i].at, reader->args[i].len };
    out->bytes = reader->at;
    resp_reader_init(reader);
    return RESP_COMMAND;
}

/* A sign, one or two digits, the end of the line, as nearly all are: how many bytes that takes; 0: it is something else. */
static size_t tiny_number(const char *data, size_t len, char sign, uint32_t *out)
{
    if (len < 5 || data[0] != sign) return 0;
    uint32_t first = (uint32_t)(uint8_t)data[1] - '0', second = (uint32_t)(uint8_t)data[2] - '0';
    if (first > 9) return 0;
    bool alone = second > 9;
    const char *end = data + (alone ? 2 : 3);
    if (end[0] != '\r' || end[1] != '\n') return 0;
    *out = alone ? first : first * 10 + second;
    return alone ? 4 : 5;
}

/* A sign, up to four digits, the end of the line: how many bytes that takes; 0: it is something else, or not there yet. */
static size_t short_number(const char *data, size_t len, char sign, uint32_t *out)
{
    size_t tiny = tiny_number(data, len, sign, out);
    if (tiny > 0) return tiny;
    size_t at = 1;
    uint32_t value = 0;
    if (len < 4 || data[0] != sign) return 0;
    for (; at < 5 && at < len && data[at] >= '0' && data[at] <= '9'; at++) value = value * 10 + (uint32_t)(data[at] - '0');
    if (at == 1 || len - at < 2 || data[at] != '\r' || data[at + 1] != '\n') return 0;
    *out = value;
    return at + 2;
}

/* Next to all commands are there whole, and as clients write them: these are read in one go, with nothing to remember.
 * False: one that has to be read with more care. */
static bool whole_read(const struct resp_limits *limits, const char *data, size_t len, struct resp_command *out)
{
    uint32_t count;
    size_t at = short_number(data, len, '*', &count);
    if (at == 0 || count == 0 || count > limits->args_max) return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size;
        size_t head = short_number(data + at, len - at, '$', &size);
        at += head;
        if (head == 0 || len - at < size + 2 || at + size + 2 > limits->bytes_max) return false;
        if (data[at + size] != '\r' || data[at + size + 1] != '\n') return false;
        out->argv[i] = (struct slice){ data + at, size };
        at += size + 2;
    }
    out->argc = count;
    out->bytes = at;
    return true;
}

enum resp_progress resp_read(struct resp_reader *reader, const struct resp_limits *limits, char *data, size_t len,
                             struct resp_command *out)
{
    assert(limits->args_max <= RESP_ARGS_MAX && limits->bytes_max <= RESP_COMMAND_BYTES_MAX);
    bool begun = reader->at > 0 || reader->scanned > 0;
    if (reader->put_back) return command_end(reader, data, out);
    if (!begun && whole_read(limits, data, len, out)) return RESP_COMMAND;
    for (;;) {
        enum resp_progress progress;
        if (reader->in_bulk) {
            progress = bulk_end(reader, data, len, out);
            if (progress != RESP_COMMAND) return progress;
            if (reader->args_due == 0) return command_end(reader, data, out);
            continue;
        }

        struct slice line;
        uint32_t begin = reader->at;
        progress = line_read(reader, limits, data, len, &line);
        if (progress == RESP_MORE) return RESP_MORE;
        if (progress == RESP_MALFORMED) return malformed(out, "the command is too long");
        if (reader->args_due > 0) {
            progress = bulk_begin(reader, limits, line, out);
        } else if (line.len > 0 && line.data[0] == '*') {
            progress = array_begin(reader, limits, line, out);
        } else {
            progress = inline_read(limits, data + begin, line.len, out);
        }
        if (progress == RESP_MORE) continue;
        out->bytes = reader->at;
        if (progress != RESP_MALFORMED) resp_reader_init(reader);
        return progress;
    }
}

void resp_put_back(struct resp_reader *reader, const char *data, const struct resp_command *command)
{
    for (uint32_t i = 0; i < command->argc; i++) {
        reader->args[i].at = (uint32_t)(command->argv[i].data - data);
        reader->args[i].len = (uint32_t)command->argv[i].len;
    }
    reader->argc = command->argc;
    reader->at = (uint32_t)command->bytes;
    reader->put_back = true;
}
