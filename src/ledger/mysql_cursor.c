/* Statements of MySQL: prepared once for each connection, parameters by number, rows into memory of their own. */
#include "base/log.h"
#include "ledger/mysql_cursor.h"

#include <assert.h>
#include <errmsg.h>
#include <mysqld_error.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN_BYTES_MAX 65536 /* nothing that we wrote is longer: what is, is cut, and found damaged */
#define RETRIES_MAX 5
#define CHECK_FAILED_MYSQL 3819 /* what MySQL says for MariaDB's ER_CONSTRAINT_FAILED */

struct column {
    bool number;
    int64_t value;
    char *text;
    unsigned long size, len;
    my_bool null;
};

static struct mysql_cursor *own(struct cursor *cursor)
{
    return (struct mysql_cursor *)cursor;
}

/* How rows come. Most statements have few: they are taken at once, and the connection is free. Walks over all orders would
 * fill the memory: theirs come one by one, and nothing else can be asked meanwhile; the other walks look things up between
 * two rows, and have the server keep the rest. */
enum coming { COMING_AT_ONCE, COMING_ALONE, COMING_KEPT };
static enum coming coming_of(enum statement id)
{
    switch (id) {
    case STATEMENT_ORDERS_EACH:
    case STATEMENT_ORDERS_EACH_OF:
    case STATEMENT_ORDERS_NOT_OVER:
    case STATEMENT_ORDERS_NOT_OVER_FEW:
    case STATEMENT_TOKENS_NOT_OVER:
    case STATEMENT_NAMES_EACH:
    case STATEMENT_REBUILD_ORDERS:
    case STATEMENT_REBUILD_TOKENS:
        return COMING_ALONE;
    case STATEMENT_SALES_EACH:
    case STATEMENT_TOKENS_EACH:
        return COMING_KEPT;
    default:
        return COMING_AT_ONCE;
    }
}

static void statement_note(struct mysql_cursor *cursor)
{
    mysql_note(cursor->cursor.ledger, mysql_stmt_errno(cursor->statement), mysql_stmt_error(cursor->statement));
}

static void columns_free(struct mysql_cursor *cursor)
{
    for (unsigned i = 0; i < cursor->columns_count; i++) free(cursor->columns[i].text);
    free(cursor->columns);
    cursor->columns = NULL;
    cursor->columns_count = 0;
}

static bool type_is_number(enum enum_field_types type)
{
    return type == MYSQL_TYPE_TINY || type == MYSQL_TYPE_SHORT || type == MYSQL_TYPE_INT24 || type == MYSQL_TYPE_LONG ||
           type == MYSQL_TYPE_LONGLONG || type == MYSQL_TYPE_DECIMAL || type == MYSQL_TYPE_NEWDECIMAL;
}

static bool columns_make(struct mysql_cursor *cursor)
{
    unsigned count = mysql_stmt_field_count(cursor->statement);
    if (count == 0) return true;
    cursor->columns = calloc(count, sizeof(*cursor->columns));
    if (cursor->columns == NULL) return false;
    MYSQL_RES *about = mysql_stmt_result_metadata(cursor->statement);
    if (about == NULL) return false;
    cursor->columns_count = count;
    bool good = true;
    for (unsigned i = 0; i < count; i++) {
        const MYSQL_FIELD *field = mysql_fetch_field_direct(about, i);
        struct column *column = &cursor->columns[i];
        column->number = type_is_number(field->type);
        if (column->number) continue;
        column->size = field->length < COLUMN_BYTES_MAX ? field->length + 1 : COLUMN_BYTES_MAX;
        column->text = malloc(column->size);
        good = good && column->text != NULL;
    }
    mysql_free_result(about);
    return good;
}

static bool rows_bind(struct mysql_cursor *cursor)
{
    MYSQL_BIND binds[MYSQL_POSITIONS_MAX];
    memset(binds, 0, sizeof(binds));
    assert(cursor->columns_count <= MYSQL_POSITIONS_MAX);
    for (unsigned i = 0; i < cursor->columns_count; i++) {
        struct column *column = &cursor->columns[i];
        binds[i].buffer_type = column->number ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_STRING;
        binds[i].buffer = column->number ? (void *)&column->value : (void *)column->text;
        binds[i].buffer_length = column->number ? sizeof(column->value) : column->size;
        binds[i].length = &column->len;
        binds[i].is_null = &column->null;
    }
    return mysql_stmt_bind_result(cursor->statement, binds) == 0;
}

static bool attributes_set(struct mysql_cursor *cursor)
{
    if (coming_of(cursor->cursor.id) != COMING_KEPT) return true;
    unsigned long type = CURSOR_TYPE_READ_ONLY, rows = 1000;
    return mysql_stmt_attr_set(cursor->statement, STMT_ATTR_CURSOR_TYPE, &type) == 0 &&
           mysql_stmt_attr_set(cursor->statement, STMT_ATTR_PREFETCH_ROWS, &rows) == 0;
}

/* On the connection there is now. What could not be made whole is made anew the next time. */
static enum fault statement_make(struct mysql_cursor *cursor)
{
    struct ledger *ledger = cursor->cursor.ledger;
    uint32_t generation = mysql_of(ledger)->generation;
    cursor->generation = generation - 1;
    if (cursor->statement != NULL) mysql_stmt_close(cursor->statement);
    columns_free(cursor);
    cursor->statement = mysql_stmt_init(&mysql_of(ledger)->handle);
    if (cursor->statement == NULL) return FAULT_MEMORY;
    if (mysql_stmt_prepare(cursor->statement, cursor->text.sql, (unsigned long)strlen(cursor->text.sql)) != 0 ||
        !attributes_set(cursor)) {
        statement_note(cursor);
        return mysql_fault_say(ledger, cursor->text.sql);
    }
    assert(mysql_stmt_param_count(cursor->statement) == cursor->text.positions);
    if (!columns_make(cursor)) return FAULT_MEMORY;
    cursor->generation = generation;
    return FAULT_NONE;
}

enum fault mysql_prepare_statement(struct ledger *ledger, enum statement id, struct cursor **out)
{
    enum fault fault = mysql_ready(ledger);
    if (fault != FAULT_NONE) return fault;
    struct mysql_cursor *made = (struct mysql_cursor *)*out;
    if (made != NULL) return made->generation == mysql_of(ledger)->generation ? FAULT_NONE : statement_make(made);

    made = calloc(1, sizeof(*made));
    if (made == NULL) return FAULT_MEMORY;
    made->cursor = (struct cursor){ .ledger = ledger, .id = id };
    const char *sql = statement_mysql[id] != NULL ? statement_mysql[id] : statement_sql[id];
    bool fits = mysql_translate(&made->text, sql);
    assert(fits);
    made->question = strncmp(sql, "SELECT", 6) == 0;
    fault = statement_make(made);
    if (fault != FAULT_NONE) {
        mysql_release(&made->cursor);
        return fault;
    }
    *out = &made->cursor;
    return FAULT_NONE;
}

void mysql_release(struct cursor *cursor)
{
    if (own(cursor)->statement != NULL) mysql_stmt_close(own(cursor)->statement);
    columns_free(own(cursor));
    mysql_rows_free(&own(cursor)->rows);
    free(cursor);
}

void mysql_bind_number(struct cursor *cursor, int at, int64_t value)
{
    assert(at >= 1 && at <= MYSQL_PARAMETERS_MAX);
    own(cursor)->values[at].type = MYSQL_TYPE_LONGLONG;
    own(cursor)->values[at].number = value;
}

void mysql_bind_text(struct cursor *cursor, int at, struct slice text)
{
    assert(at >= 1 && at <= MYSQL_PARAMETERS_MAX);
    own(cursor)->values[at].type = MYSQL_TYPE_STRING;
    own(cursor)->values[at].bytes = text;
}

void mysql_bind_blob(struct cursor *cursor, int at, struct slice bytes)
{
    mysql_bind_text(cursor, at, bytes);
    own(cursor)->values[at].type = MYSQL_TYPE_BLOB;
}

static bool parameters_bind(struct mysql_cursor *cursor)
{
    MYSQL_BIND binds[MYSQL_POSITIONS_MAX];
    unsigned count = cursor->text.positions;
    if (count == 0) return true;
    memset(binds, 0, sizeof(binds[0]) * count);
    for (unsigned i = 0; i < count; i++) {
        unsigned number = cursor->text.numbers[i];
        binds[i].buffer_type = cursor->values[number].type;
        if (binds[i].buffer_type == MYSQL_TYPE_LONGLONG) {
            binds[i].buffer = &cursor->values[number].number;
        } else {
            cursor->lengths[i] = (unsigned long)cursor->values[number].bytes.len;
            binds[i].buffer = (void *)cursor->values[number].bytes.data;
            binds[i].buffer_length = cursor->lengths[i];
            binds[i].length = &cursor->lengths[i];
        }
    }
    return mysql_stmt_bind_param(cursor->statement, binds) == 0;
}

static bool execute_once(struct mysql_cursor *cursor)
{
    struct mysql_connection *connection = mysql_of(cursor->cursor.ledger);
    bool good = parameters_bind(cursor) && mysql_stmt_execute(cursor->statement) == 0;
    if (good && cursor->columns_count > 0) {
        good = rows_bind(cursor);
        if (good && coming_of(cursor->cursor.id) == COMING_AT_ONCE) good = mysql_stmt_store_result(cursor->statement) == 0;
    } else if (good) {
        connection->changes = mysql_stmt_affected_rows(cursor->statement);
        connection->last_id = mysql_stmt_insert_id(cursor->statement);
    }
    if (!good) statement_note(cursor);
    return good;
}

/* Outside a transaction a statement that met a deadlock, or waited for a lock in vain, has changed nothing; and a question
 * whose connection was lost can be asked on a new one. */
static bool execute(struct mysql_cursor *cursor)
{
    struct ledger *ledger = cursor->cursor.ledger;
    const struct mysql_connection *connection = mysql_of(ledger);
    bool reconnected = false;
    for (int tries = 0;; tries++) {
        if (execute_once(cursor)) return true;
        if (connection->in_transaction || tries == RETRIES_MAX) return false;
        if (mysql_lost(connection->error) && cursor->question && !reconnected) {
            reconnected = true;
            if (mysql_connect_again(ledger) != FAULT_NONE || statement_make(cursor) != FAULT_NONE) return false;
        } else if (!mysql_may_pass(connection->error)) {
            return false;
        }
    }
}

enum step mysql_failure(const struct mysql_connection *connection)
{
    bool conflict = connection->error == ER_DUP_ENTRY || connection->error == ER_CONSTRAINT_FAILED ||
                    connection->error == CHECK_FAILED_MYSQL;
    return conflict ? STEP_CONFLICT : STEP_FAILED;
}

enum step mysql_step(struct cursor *cursor)
{
    struct mysql_cursor *mine = own(cursor);
    if (!mine->executed) {
        if (!execute(mine)) return mysql_failure(mysql_of(cursor->ledger));
        mine->executed = true;
        if (mine->columns_count == 0) return STEP_DONE;
    }
    int rc = mysql_stmt_fetch(mine->statement);
    if (rc == 0 || rc == MYSQL_DATA_TRUNCATED) return STEP_ROW;
    if (rc == MYSQL_NO_DATA) return STEP_DONE;
    statement_note(mine);
    return STEP_FAILED;
}

void mysql_reset(struct cursor *cursor)
{
    struct mysql_cursor *mine = own(cursor);
    if (mine->executed && mine->columns_count > 0) mysql_stmt_free_result(mine->statement);
    mine->executed = false;
}

int64_t mysql_number(struct cursor *cursor, int column)
{
    const struct mysql_cursor *mine = own(cursor);
    assert(column >= 0 && (unsigned)column < mine->columns_count && mine->columns[column].number);
    return mine->columns[column].null ? 0 : mine->columns[column].value;
}

struct slice mysql_bytes(struct cursor *cursor, int column)
{
    const struct mysql_cursor *mine = own(cursor);
    assert(column >= 0 && (unsigned)column < mine->columns_count && !mine->columns[column].number);
    const struct column *found = &mine->columns[column];
    if (found->null) return (struct slice){ NULL, 0 };
    return (struct slice){ found->text, found->len < found->size ? found->len : found->size };
}
