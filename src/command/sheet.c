#include "command/sheet.h"

#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES (1u << 20)
/* The longest row, a sale whose description is all escapes, has less than half of this. */
#define ROW_BYTES_MAX (32u << 10)

static enum fault fail(const struct sheet *sheet, const char *doing)
{
    int error = errno;
    fprintf(stderr, "stampede: cannot %s %s: %s\n", doing, sheet->path != NULL ? sheet->path : "standard output",
            strerror(error));
    return error == ENOSPC || error == EDQUOT ? FAULT_SPACE : FAULT_DISK;
}

/* Only what is no file, or none yet, may be written to by its name: a pipe or a device is never replaced by a file. */
static bool replaces_file(const char *path)
{
    struct stat info;
    return stat(path, &info) != 0 || S_ISREG(info.st_mode);
}

enum fault sheet_open(struct sheet *sheet, enum sheet_format format, const char *path)
{
    *sheet = (struct sheet){ .format = format, .fd = STDOUT_FILENO, .path = path, .buffer = malloc(BUFFER_BYTES) };
    if (sheet->buffer == NULL) return fail(sheet, "take memory for");
    if (path == NULL) return FAULT_NONE;
    if (replaces_file(path) && asprintf(&sheet->part_path, "%s.part", path) < 0) {
        sheet->part_path = NULL;
        sheet->fd = -1;
        return fail(sheet, "take memory for");
    }
    const char *name = sheet->part_path != NULL ? sheet->part_path : path;
    sheet->fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return sheet->fd < 0 ? fail(sheet, "create") : FAULT_NONE;
}

static enum fault buffer_write(struct sheet *sheet)
{
    for (size_t at = 0; at < sheet->len;) {
        ssize_t written = write(sheet->fd, sheet->buffer + at, sheet->len - at);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return fail(sheet, "write to");
        at += (size_t)written;
    }
    /* Begun now, so that the sync at the end finds little to do. Where it cannot be, that sync does it all. */
    if (sheet->part_path != NULL) (void)sync_file_range(sheet->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    sheet->len = 0;
    return FAULT_NONE;
}

static enum fault part_finish(struct sheet *sheet)
{
    if (fsync(sheet->fd) != 0) return fail(sheet, "sync");
    return rename(sheet->part_path, sheet->path) != 0 ? fail(sheet, "give its name to") : FAULT_NONE;
}

enum fault sheet_close(struct sheet *sheet, bool keep)
{
    enum fault fault = FAULT_NONE;
    bool opened = sheet->fd >= 0 && sheet->buffer != NULL;
    if (keep && opened) {
        fault = buffer_write(sheet);
        if (fault == FAULT_NONE && sheet->part_path != NULL) fault = part_finish(sheet);
    }
    if (sheet->part_path != NULL && (!keep || fault != FAULT_NONE)) unlink(sheet->part_path);
    if (sheet->path != NULL && sheet->fd >= 0) close(sheet->fd);
    free(sheet->part_path);
    free(sheet->buffer);
    return fault;
}

static void put_run(struct sheet *sheet, const char *data, size_t len)
{
    assert(len <= BUFFER_BYTES - sheet->len);
    memcpy(sheet->buffer + sheet->len, data, len);
    sheet->len += len;
}

static void put(struct sheet *sheet, char byte)
{
    put_run(sheet, &byte, 1);
}

/* A spreadsheet would run what begins like this as a formula; and the apostrophe, so that one put before a text can be told
 * from one that is its own. */
static bool text_is_marked(struct slice text)
{
    return text.len > 0 && memchr("=+-@\t\r\n'", text.data[0], 8) != NULL;
}

/* RFC 4180: what has a comma, a quote or an end of line in it stands in quotes, and a quote in it twice. Texts are by
 * whoever buys or sells, and a CSV is opened by whoever trusts it: one that could be a formula has an apostrophe before it.
 */
static void put_text(struct sheet *sheet, struct slice text)
{
    bool quoted = false;
    for (size_t i = 0; i < text.len && !quoted; i++)
        quoted = text.data[i] == ',' || text.data[i] == '"' || text.data[i] == '\n' || text.data[i] == '\r';
    if (!quoted) {
        if (text_is_marked(text)) put(sheet, '\'');
        put_run(sheet, text.data, text.len);
        return;
    }
    put(sheet, '"');
    if (text_is_marked(text)) put(sheet, '\'');
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '"') put(sheet, '"');
        put(sheet, text.data[i]);
    }
    put(sheet, '"');
}

void sheet_row(struct sheet *sheet)
{
    sheet->first = true;
    if (sheet->format == SHEET_CSV) return;
    json_out_init(&sheet->json, sheet->buffer + sheet->len, BUFFER_BYTES - sheet->len);
    json_object(&sheet->json);
}

enum fault sheet_row_end(struct sheet *sheet)
{
    if (sheet->format == SHEET_CSV) {
        put_run(sheet, "\r\n", 2);
    } else {
        json_object_end(&sheet->json);
        assert(!sheet->json.overflow);
        sheet->len += sheet->json.len;
        put(sheet, '\n');
    }
    return sheet->len > BUFFER_BYTES - ROW_BYTES_MAX ? buffer_write(sheet) : FAULT_NONE;
}

/* True where the value of a CSV's cell is to follow. */
static bool cell(struct sheet *sheet, const char *name)
{
    if (!sheet->first) put(sheet, ',');
    sheet->first = false;
    if (sheet->heading) put_run(sheet, name, strlen(name));
    return !sheet->heading;
}

void sheet_none(struct sheet *sheet, const char *name)
{
    if (sheet->format == SHEET_CSV) {
        cell(sheet, name);
        return;
    }
    json_key(&sheet->json, name);
    json_null(&sheet->json);
}

void sheet_text(struct sheet *sheet, const char *name, const char *text)
{
    if (sheet->format == SHEET_CSV) {
        if (cell(sheet, name)) put_text(sheet, slice_of(text));
        return;
    }
    json_key(&sheet->json, name);
    json_text(&sheet->json, text);
}

void sheet_text_or_none(struct sheet *sheet, const char *name, const char *text)
{
    if (text[0] != '\0') {
        sheet_text(sheet, name, text);
    } else {
        sheet_none(sheet, name);
    }
}

void sheet_number(struct sheet *sheet, const char *name, uint64_t value)
{
    if (sheet->format == SHEET_CSV) {
        char digits[20];
        if (cell(sheet, name)) put_run(sheet, digits, text_from_u64(digits, value));
        return;
    }
    json_key(&sheet->json, name);
    json_u64(&sheet->json, value);
}

void sheet_number_or_none(struct sheet *sheet, const char *name, uint64_t value)
{
    if (value != 0) {
        sheet_number(sheet, name, value);
    } else {
        sheet_none(sheet, name);
    }
}

void sheet_id(struct sheet *sheet, const char *name, uint64_t id)
{
    if (sheet->format == SHEET_CSV) {
        sheet_number(sheet, name, id);
        return;
    }
    json_key(&sheet->json, name);
    json_id(&sheet->json, id);
}

void sheet_id_or_none(struct sheet *sheet, const char *name, uint64_t id)
{
    if (id != 0) {
        sheet_id(sheet, name, id);
    } else {
        sheet_none(sheet, name);
    }
}

void sheet_amount(struct sheet *sheet, const char *name, int64_t amount)
{
    if (amount >= 0) {
        sheet_number(sheet, name, (uint64_t)amount);
    } else {
        sheet_none(sheet, name);
    }
}

void sheet_time(struct sheet *sheet, const char *name, uint64_t ms)
{
    if (sheet->format == SHEET_CSV) {
        char text[TIME_TEXT_BYTES + 1];
        if (!cell(sheet, name)) return;
        time_to_text(text, ms);
        put_run(sheet, text, TIME_TEXT_BYTES);
        return;
    }
    json_key(&sheet->json, name);
    json_time(&sheet->json, ms);
}

void sheet_time_or_none(struct sheet *sheet, const char *name, uint64_t ms)
{
    if (ms != 0) {
        sheet_time(sheet, name, ms);
    } else {
        sheet_none(sheet, name);
    }
}
