/* mysql_cursor: a statement of MySQL, and the rows that wait to be inserted by it. Inside the driver only. */
#ifndef STAMPEDE_LEDGER_MYSQL_CURSOR_H
#define STAMPEDE_LEDGER_MYSQL_CURSOR_H

#include "ledger/mysql.h"

#define MYSQL_ROWS_MAX 512
#define MYSQL_ROWS_SIZES 6

struct mysql_value;

/* A statement for many rows: tuples between a head and a tail. */
struct mysql_bulk {
    const char *head, *tuple, *separator, *tail;
    bool found; /* it must find a row for each tuple */
};

struct mysql_rows {
    struct mysql_bulk bulk;
    size_t head_len;         /* the head is not its own string where it is cut off a statement */
    struct mysql_text tuple; /* with the parameters of one row */
    unsigned count;
    struct mysql_value *values; /* row by row, by position */
    MYSQL_BIND *binds;
    char *bytes;
    size_t used, size;
    MYSQL_STMT *statements[MYSQL_ROWS_SIZES];
    uint32_t generations[MYSQL_ROWS_SIZES];
};

struct mysql_cursor {
    struct cursor cursor;
    MYSQL_STMT *statement;
    uint32_t generation;
    struct mysql_text text;
    bool question; /* it changes nothing: may be asked again */
    bool executed;
    struct {
        enum enum_field_types type;
        int64_t number;
        struct slice bytes;
    } values[MYSQL_PARAMETERS_MAX + 1]; /* by number, from 1 */
    unsigned long lengths[MYSQL_POSITIONS_MAX];
    unsigned columns_count;
    struct column *columns;
    struct mysql_rows rows;
};

/* statements_mysql.c: for a statement that changes rows; false if it is an INSERT … VALUES (…), which is its own. */
bool mysql_bulk_of(enum statement id, struct mysql_bulk *out);

enum step mysql_failure(const struct mysql_connection *connection); /* a conflict, or all else */
void mysql_rows_free(struct mysql_rows *rows);

#endif
