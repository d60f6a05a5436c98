/* Whether a ledger has the tables, columns, indexes and triggers that it was made with, by their names. Whoever puts back a
 * copy by hand may have forgotten one, and the unique indexes are the last word about who wins. What is made is read off the
 * statements that make it, so that it is written once; what there is beside it is the operator's. */
#include "ledger/mysql.h"

#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 40
#define SQL_BYTES 8192

enum part_kind { PART_TABLE, PART_COLUMN, PART_UNIQUE, PART_INDEX, PART_TRIGGER, PART_KINDS };
struct part {
    enum part_kind kind;
    char table[NAME_BYTES], name[NAME_BYTES];
};

/* How many of the parts of a kind are there: what comes before the list of them, and one of the list. */
static const struct {
    const char *word, *ask, *row;
} kinds[PART_KINDS] = {
    { "table", "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND (table_name, table_name)",
      "('%s', '%s')" },
    { "column",
      "SELECT count(*) FROM information_schema.columns WHERE table_schema = database() AND (table_name, column_name)",
      "('%s', '%s')" },
    { "unique index",
      "SELECT count(DISTINCT table_name, index_name) FROM information_schema.statistics WHERE table_schema = database()"
      " AND (table_name, index_name, non_unique)",
      "('%s', '%s', 0)" },
    { "index",
      "SELECT count(DISTINCT table_name, index_name) FROM information_schema.statistics WHERE table_schema = database()"
      " AND (table_name, index_name)",
      "('%s', '%s')" },
    { "trigger",
      "SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = database()"
      " AND (event_object_table, trigger_name)",
      "('%s', '%s')" },
};

/* What is asked for at once, and how many must be there. */
struct question {
    char sql[SQL_BYTES];
    size_t used;
    int64_t count;
};

static void question_add(struct question *question, const struct part *part)
{
    char row[3 * NAME_BYTES];
    snprintf(row, sizeof(row), kinds[part->kind].row, part->table, part->name);
    size_t room = sizeof(question->sql) - question->used;
    int len = question->count == 0 ? snprintf(question->sql, room, "%s IN (%s", kinds[part->kind].ask, row)
                                   : snprintf(question->sql + question->used, room, ", %s", row);
    question->used += (size_t)len;
    assert(question->used + 1 < sizeof(question->sql));
    question->count++;
}

static enum fault question_ask(struct ledger *ledger, struct question *question, int64_t *there)
{
    bool found;
    *there = 0;
    if (question->count == 0) return FAULT_NONE;
    question->sql[question->used] = ')';
    question->sql[question->used + 1] = '\0';
    return mysql_ask(ledger, question->sql, there, 1, &found);
}

struct visit {
    enum fault (*part)(void *arg, const struct part *part);
    void *arg;
};

static size_t word_copy(char out[NAME_BYTES], const char *text)
{
    size_t begin = strspn(text, " `"), len = strcspn(text + begin, " `(");
    assert(len < NAME_BYTES);
    memcpy(out, text + begin, len);
    out[len] = '\0';
    return begin + len;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* One of those that stand between the commas of a table: an index, a check or a column, which may have an index of its own.
 */
static enum fault item_visit(const struct visit *visit, struct part *part, const char *item, size_t len)
{
    char text[512];
    snprintf(text, sizeof(text), "%.*s", (int)len, item + strspn(item, " "));
    if (begins(text, "CHECK")) return FAULT_NONE;
    if (begins(text, "KEY ") || begins(text, "UNIQUE KEY ")) {
        part->kind = text[0] == 'K' ? PART_INDEX : PART_UNIQUE;
        word_copy(part->name, strstr(text, "KEY ") + strlen("KEY "));
        return visit->part(visit->arg, part);
    }
    bool primary = strstr(text, "PRIMARY KEY") != NULL, unique = strstr(text, " UNIQUE") != NULL;
    if (!begins(text, "PRIMARY KEY")) {
        part->kind = PART_COLUMN;
        word_copy(part->name, text);
        enum fault fault = visit->part(visit->arg, part);
        if (fault != FAULT_NONE || (!primary && !unique)) return fault;
    }
    part->kind = PART_UNIQUE;
    if (primary) snprintf(part->name, sizeof(part->name), "PRIMARY");
    return visit->part(visit->arg, part);
}

static enum fault table_visit(const struct visit *visit, const char *sql)
{
    struct part part = { .kind = PART_TABLE };
    const char *at = sql + word_copy(part.table, sql);
    memcpy(part.name, part.table, sizeof(part.name));
    enum fault fault = visit->part(visit->arg, &part);
    at = strchr(at, '(') + 1;
    int depth = 0;
    for (const char *item = at; fault == FAULT_NONE && depth >= 0; at++) {
        if (*at == '(') depth++;
        if (*at == ')') depth--;
        if ((*at == ',' && depth == 0) || depth < 0) {
            fault = item_visit(visit, &part, item, (size_t)(at - item));
            item = at + 1;
        }
    }
    return fault;
}

static enum fault trigger_visit(const struct visit *visit, const char *sql)
{
    struct part part = { .kind = PART_TRIGGER };
    const char *on = strstr(sql, " ON ");
    word_copy(part.name, sql);
    word_copy(part.table, on + strlen(" ON "));
    return visit->part(visit->arg, &part);
}

static enum fault statements_visit(const struct visit *visit, const char *const *statements, size_t count)
{
    static const char table[] = "CREATE TABLE ", trigger[] = "CREATE TRIGGER ";
    enum fault fault = FAULT_NONE;
    for (size_t i = 0; i < count && fault == FAULT_NONE; i++) {
        if (begins(statements[i], table)) fault = table_visit(visit, statements[i] + strlen(table));
        if (begins(statements[i], trigger)) fault = trigger_visit(visit, statements[i] + strlen(trigger));
    }
    return fault;
}

static enum fault part_gather(void *arg, const struct part *part)
{
    struct question *questions = arg;
    question_add(&questions[part->kind], part);
    return FAULT_NONE;
}

/* The first of a kind that is not there is named. */
struct naming {
    struct ledger *ledger;
    enum part_kind kind;
};

static enum fault part_name(void *arg, const struct part *part)
{
    struct naming *naming = arg;
    struct ledger *ledger = naming->ledger;
    struct question question = { .used = 0 };
    int64_t there;
    if (part->kind != naming->kind) return FAULT_NONE;
    question_add(&question, part);
    enum fault fault = question_ask(ledger, &question, &there);
    if (fault != FAULT_NONE || there > 0) return fault;
    const char *of = part->kind == PART_TABLE ? "" : " of the table ";
    log_error("ledger", "%s lacks the %s %s%s%s: put it back from a copy, and start again", ledger->path,
              kinds[part->kind].word, part->name, of, part->kind == PART_TABLE ? "" : part->table);
    return FAULT_LEDGER;
}

/* Whoever lacks the right to them sees no trigger. */
static enum fault triggers_see(struct ledger *ledger, bool *seen)
{
    bool found;
    int64_t rights = 0;
    enum fault fault = mysql_ask(ledger,
                                 "SELECT (SELECT count(*) FROM information_schema.user_privileges WHERE privilege_type ="
                                 " 'TRIGGER') + (SELECT count(*) FROM information_schema.schema_privileges"
                                 " WHERE privilege_type = 'TRIGGER' AND database() LIKE table_schema)",
                                 &rights, 1, &found);
    *seen = rights > 0;
    return fault;
}

enum fault mysql_whole_check(struct ledger *ledger, const char *const *statements, size_t count)
{
    struct question questions[PART_KINDS] = { { .used = 0 } };
    struct naming naming = { ledger, PART_TABLE };
    const struct visit gather = { part_gather, questions }, name = { part_name, &naming };
    bool seen = true;
    enum fault fault = statements_visit(&gather, statements, count);
    for (; naming.kind < PART_KINDS && fault == FAULT_NONE; naming.kind++) {
        int64_t there;
        fault = question_ask(ledger, &questions[naming.kind], &there);
        if (fault != FAULT_NONE || there == questions[naming.kind].count) continue;
        if (naming.kind == PART_TRIGGER) fault = triggers_see(ledger, &seen);
        if (fault == FAULT_NONE && seen) fault = statements_visit(&name, statements, count);
    }
    return fault;
}
