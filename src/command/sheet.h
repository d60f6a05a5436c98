/* sheet: rows of named cells, written as CSV (RFC 4180, with a header) or as JSON Lines, to a file or to standard output.
 *
 * The cells of a row are named where they are written, so the header of a CSV is the same code run once before the first
 * row. What is none (no price, never) is an empty cell in CSV and null in JSON. A text of a CSV that begins with = + - @ ' a
 * tab or an end of line has an apostrophe before it; in JSON texts are as they are. A file gets its name when all of it is
 * on disk: until then it is called FILE.part, and it goes away when something fails. */
#ifndef STAMPEDE_COMMAND_SHEET_H
#define STAMPEDE_COMMAND_SHEET_H

#include "base/fault.h"
#include "base/slice.h"
#include "wire/json_out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sheet_format { SHEET_CSV, SHEET_JSONL };

struct sheet {
    enum sheet_format format;
    bool heading; /* cells write their names */
    bool first;   /* no cell of this row is written yet */
    int fd;
    const char *path; /* NULL: standard output */
    char *part_path;  /* NULL: what is written has its name already */
    char *buffer;
    size_t len;
    struct json_out json; /* the row under way, at the end of the buffer */
};

/* path: NULL for standard output; it must outlive the sheet. A fault, here and below, has been told on standard error. */
enum fault sheet_open(struct sheet *sheet, enum sheet_format format, const char *path) MUST_USE;
/* Writes what is left; keep: all rows are there, so the file gets its name. */
enum fault sheet_close(struct sheet *sheet, bool keep) MUST_USE;

void sheet_row(struct sheet *sheet);
enum fault sheet_row_end(struct sheet *sheet) MUST_USE;

void sheet_none(struct sheet *sheet, const char *name);
void sheet_text(struct sheet *sheet, const char *name, const char *text);
void sheet_text_or_none(struct sheet *sheet, const char *name, const char *text); /* empty: none */
void sheet_id(struct sheet *sheet, const char *name, uint64_t id);                /* opaque: text in JSON */
void sheet_id_or_none(struct sheet *sheet, const char *name, uint64_t id);        /* 0: none */
void sheet_number(struct sheet *sheet, const char *name, uint64_t value);
void sheet_number_or_none(struct sheet *sheet, const char *name, uint64_t value); /* 0: none */
void sheet_amount(struct sheet *sheet, const char *name, int64_t amount);         /* -1: none */
void sheet_time(struct sheet *sheet, const char *name, uint64_t ms);
void sheet_time_or_none(struct sheet *sheet, const char *name, uint64_t ms); /* 0: none */

#endif
