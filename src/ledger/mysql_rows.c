/* Rows that are inserted many at a time: a row by itself costs a round trip, and a database that is asked for one order
 * after the other files a tenth of what it could.
 *
 * What is bound is copied until there are enough rows, or somebody has to see them. The statement is "INSERT … VALUES (…)"
 * with its tuple repeated, or an UPDATE of the rows that tuples of questions name, prepared for a few numbers of rows. */
#include "ledger/mysql_cursor.h"

#include <assert.h>
#include <errmsg.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned sizes[MYSQL_ROWS_SIZES] = { MYSQL_ROWS_MAX, 128, 32, 8, 2, 1 };

struct mysql_value {
    enum enum_field_types type;
    int64_t number;
    size_t offset; /* of bytes, in rows->bytes */
    unsigned long len;
};

void mysql_rows_free(struct mysql_rows *rows)
{
    for (int i = 0; i < MYSQL_ROWS_SIZES; i++) {
        if (rows->statements[i] != NULL) mysql_stmt_close(rows->statements[i]);
    }
    free(rows->values);
    free(rows->binds);
    free(rows->bytes);
}

static void rows_plan(struct mysql_cursor *cursor)
{
    struct mysql_rows *rows = &cursor->rows;
    const char *sql = statement_sql[cursor->cursor.id];
    if (mysql_bulk_of(cursor->cursor.id, &rows->bulk)) {
        rows->head_len = strlen(rows->bulk.head);
    } else {
        const char *tuple = strstr(cursor->text.sql, " VALUES ");
        assert(tuple != NULL);
        rows->head_len = (size_t)(tuple - cursor->text.sql) + strlen(" VALUES ");
        rows->bulk = (struct mysql_bulk){ cursor->text.sql, strstr(sql, " VALUES ") + strlen(" VALUES "), ",", "", false };
    }
    bool fits = mysql_translate(&rows->tuple, rows->bulk.tuple);
    assert(fits);
}

static bool rows_room(struct mysql_cursor *cursor, size_t bytes)
{
    struct mysql_rows *rows = &cursor->rows;
    size_t all = (size_t)MYSQL_ROWS_MAX * cursor->rows.tuple.positions;
    if (rows->values == NULL) rows->values = calloc(all, sizeof(*rows->values));
    if (rows->binds == NULL) rows->binds = calloc(all, sizeof(*rows->binds));
    if (rows->values == NULL || rows->binds == NULL) return false;
    if (rows->used + bytes <= rows->size) return true;
    size_t size = rows->size * 2 > rows->used + bytes ? rows->size * 2 : rows->used + bytes + 4096;
    char *more = realloc(rows->bytes, size);
    if (more == NULL) return false;
    rows->bytes = more;
    rows->size = size;
    return true;
}

/* The statement for so many rows; NULL: it could not be made, and mysql_note() has why. */
static MYSQL_STMT *statement_for(struct mysql_cursor *cursor, int size)
{
    struct mysql_connection *connection = mysql_of(cursor->cursor.ledger);
    struct mysql_rows *rows = &cursor->rows;
    if (rows->statements[size] != NULL && rows->generations[size] == connection->generation) return rows->statements[size];
    const struct mysql_bulk *bulk = &rows->bulk;
    size_t room = rows->head_len + sizes[size] * (strlen(rows->tuple.sql) + strlen(bulk->separator)) + strlen(bulk->tail) +
                  1;
    char *sql = malloc(room);
    if (sql == NULL) {
        mysql_note(cursor->cursor.ledger, CR_OUT_OF_MEMORY, "no memory for a statement");
        return NULL;
    }
    size_t len = (size_t)snprintf(sql, room, "%.*s", (int)rows->head_len, bulk->head);
    for (unsigned i = 0; i < sizes[size]; i++)
        len += (size_t)snprintf(sql + len, room - len, "%s%s", i == 0 ? "" : bulk->separator, rows->tuple.sql);
    len += (size_t)snprintf(sql + len, room - len, "%s", bulk->tail);
    if (rows->statements[size] != NULL) mysql_stmt_close(rows->statements[size]);
    rows->statements[size] = mysql_stmt_init(&connection->handle);
    MYSQL_STMT *statement = rows->statements[size];
    bool good = statement != NULL && mysql_stmt_prepare(statement, sql, (unsigned long)len) == 0;
    free(sql);
    if (good) rows->generations[size] = connection->generation;
    if (!good && statement != NULL)
        mysql_note(cursor->cursor.ledger, mysql_stmt_errno(statement), mysql_stmt_error(statement));
    return good ? statement : NULL;
}

/* Inserts so many rows from the first one on. */
static enum step rows_send(struct mysql_cursor *cursor, unsigned first, int size)
{
    struct mysql_rows *rows = &cursor->rows;
    MYSQL_STMT *statement = statement_for(cursor, size);
    if (statement == NULL) return STEP_FAILED;
    size_t count = (size_t)sizes[size] * cursor->rows.tuple.positions;
    memset(rows->binds, 0, count * sizeof(*rows->binds));
    for (size_t i = 0; i < count; i++) {
        struct mysql_value *value = &rows->values[(size_t)first * cursor->rows.tuple.positions + i];
        bool number = value->type == MYSQL_TYPE_LONGLONG;
        rows->binds[i].buffer_type = value->type;
        rows->binds[i].buffer = number ? (void *)&value->number : (void *)(rows->bytes + value->offset);
        rows->binds[i].buffer_length = value->len;
        if (!number) rows->binds[i].length = &value->len;
    }
    if (mysql_stmt_bind_param(statement, rows->binds) == 0 && mysql_stmt_execute(statement) == 0) {
        if (!rows->bulk.found || mysql_stmt_affected_rows(statement) == sizes[size]) return STEP_DONE;
        mysql_note(cursor->cursor.ledger, ER_KEY_NOT_FOUND, "not every row is as its decision found it");
        return STEP_CONFLICT;
    }
    mysql_note(cursor->cursor.ledger, mysql_stmt_errno(statement), mysql_stmt_error(statement));
    return mysql_failure(mysql_of(cursor->cursor.ledger));
}

enum step mysql_flush(struct cursor *cursor)
{
    struct mysql_cursor *mine = (struct mysql_cursor *)cursor;
    unsigned count = mine->rows.count, first = 0;
    mine->rows.count = 0;
    enum step step = STEP_DONE;
    for (int size = 0; size < MYSQL_ROWS_SIZES && step == STEP_DONE; size++) {
        while (count - first >= sizes[size] && step == STEP_DONE) {
            step = rows_send(mine, first, size);
            first += sizes[size];
        }
    }
    mine->rows.used = 0;
    return step;
}

size_t mysql_fit(size_t count)
{
    int size = 0;
    while (sizes[size] > count) size++;
    return sizes[size];
}

enum step mysql_queue(struct cursor *cursor)
{
    struct mysql_cursor *mine = (struct mysql_cursor *)cursor;
    struct mysql_rows *rows = &mine->rows;
    size_t bytes = 0;
    if (rows->bulk.tuple == NULL) rows_plan(mine);
    for (unsigned i = 0; i < rows->tuple.positions; i++) bytes += mine->values[rows->tuple.numbers[i]].bytes.len;
    if (!rows_room(mine, bytes)) {
        mysql_note(cursor->ledger, CR_OUT_OF_MEMORY, "no memory for a row");
        return STEP_FAILED;
    }
    for (unsigned i = 0; i < rows->tuple.positions; i++) {
        unsigned number = rows->tuple.numbers[i];
        struct mysql_value *value = &rows->values[(size_t)rows->count * rows->tuple.positions + i];
        *value = (struct mysql_value){ .type = mine->values[number].type, .number = mine->values[number].number };
        if (value->type == MYSQL_TYPE_LONGLONG) continue;
        value->offset = rows->used;
        value->len = (unsigned long)mine->values[number].bytes.len;
        if (value->len > 0) memcpy(rows->bytes + rows->used, mine->values[number].bytes.data, value->len);
        rows->used += value->len;
    }
    return ++rows->count < MYSQL_ROWS_MAX ? STEP_DONE : mysql_flush(cursor);
}

void mysql_rows_forget(struct ledger *ledger)
{
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        struct mysql_cursor *cursor = (struct mysql_cursor *)ledger->statements[i];
        if (cursor != NULL) cursor->rows.count = 0;
        if (cursor != NULL) cursor->rows.used = 0;
    }
}
