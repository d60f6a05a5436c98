/* The statements are written once, in SQLite's words. What MySQL only calls by another name is put right here; what it does
 * in another way has a text of its own in statements_mysql.c. */
#include "ledger/mysql.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct writer {
    struct mysql_text *out;
    size_t len;
};

static void put(struct writer *writer, const char *data, size_t len)
{
    size_t room = sizeof(writer->out->sql) - writer->len;
    if (len < room) memcpy(writer->out->sql + writer->len, data, len);
    writer->len += len < room ? len : room;
}

static bool letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t word_len(const char *at)
{
    size_t len = 0;
    while (letter(at[len])) len++;
    return len;
}

static bool begins(const char *at, const char *words)
{
    size_t len = strlen(words);
    return strncmp(at, words, len) == 0 && !letter(at[len]);
}

/* ?12: the number's length. */
static size_t parameter(struct mysql_text *out, const char *at)
{
    unsigned number = 0;
    size_t len = 1;
    for (; isdigit((unsigned char)at[len]); len++) number = number * 10 + (unsigned)(at[len] - '0');
    if (out->positions < MYSQL_POSITIONS_MAX) out->numbers[out->positions] = (uint8_t)number;
    out->positions++;
    return len;
}

/* A word at the beginning of one; answers how much of the text it was. */
static size_t word(struct writer *writer, const char *at)
{
    if (begins(at, "INDEXED BY")) {
        size_t skip = strlen("INDEXED BY "), len = word_len(at + skip);
        put(writer, "FORCE INDEX (", 13);
        put(writer, at + skip, len);
        put(writer, ")", 1);
        return skip + len;
    }
    if (begins(at, "CROSS JOIN")) {
        put(writer, "STRAIGHT_JOIN", 13);
        return strlen("CROSS JOIN");
    }
    if (begins(at, "key")) {
        put(writer, "`key`", 5);
        return 3;
    }
    size_t len = word_len(at);
    put(writer, at, len);
    return len;
}

bool mysql_translate(struct mysql_text *out, const char *sql)
{
    out->positions = 0;
    struct writer writer = { .out = out };
    while (*sql != '\0') {
        size_t len = 1;
        if (*sql == '\'' || *sql == '`') {
            const char *end = strchr(sql + 1, *sql);
            len = end == NULL ? strlen(sql) : (size_t)(end - sql) + 1;
            put(&writer, sql, len);
        } else if (*sql == '?') {
            len = parameter(out, sql);
            put(&writer, "?", 1);
        } else if (letter(*sql)) {
            len = word(&writer, sql);
        } else {
            put(&writer, sql, 1);
        }
        sql += len;
    }
    if (writer.len >= sizeof(out->sql) || out->positions > MYSQL_POSITIONS_MAX) return false;
    out->sql[writer.len] = '\0';
    return true;
}
