#include "gate/keeper/facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool room_make(struct facts *facts, size_t bytes)
{
    if (facts->count == facts->room) {
        size_t room = facts->room == 0 ? 256 : 2 * facts->room;
        size_t *lines = realloc(facts->lines, room * sizeof *lines);
        if (lines == NULL) return false;
        facts->lines = lines;
        facts->room = room;
    }
    if (facts->size - facts->used < bytes) {
        size_t size = 2 * facts->size + bytes + 4096;
        char *text = realloc(facts->text, size);
        if (text == NULL) return false;
        facts->text = text;
        facts->size = size;
    }
    return true;
}

void facts_add(struct facts *facts, const char *format, ...)
{
    char line[FACT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    size_t bytes = len < 0 ? 0 : (size_t)len < sizeof line ? (size_t)len + 1 : sizeof line;
    if (bytes == 0 || !room_make(facts, bytes)) {
        facts->failed = true;
        return;
    }
    memcpy(facts->text + facts->used, line, bytes);
    facts->lines[facts->count++] = facts->used;
    facts->used += bytes;
}

const char *facts_line(const struct facts *facts, size_t at)
{
    return facts->text + facts->lines[at];
}

static int line_compare(const void *a, const void *b, void *text)
{
    return strcmp((const char *)text + *(const size_t *)a, (const char *)text + *(const size_t *)b);
}

void facts_sort(struct facts *facts)
{
    if (facts->count < 2) return;
    qsort_r(facts->lines, facts->count, sizeof *facts->lines, line_compare, facts->text);
    size_t kept = 1;
    for (size_t i = 1; i < facts->count; i++) {
        if (strcmp(facts_line(facts, i), facts_line(facts, kept - 1)) != 0) facts->lines[kept++] = facts->lines[i];
    }
    facts->count = kept;
}

void facts_compare(const struct facts *one, const struct facts *two,
                   void (*differ)(void *arg, const char *line, bool in_one), void *arg)
{
    for (size_t i = 0, j = 0; i < one->count || j < two->count;) {
        int order = i == one->count ? 1 : j == two->count ? -1 : strcmp(facts_line(one, i), facts_line(two, j));
        if (order < 0) differ(arg, facts_line(one, i), true);
        if (order > 0) differ(arg, facts_line(two, j), false);
        if (order <= 0) i++;
        if (order >= 0) j++;
    }
}

bool facts_has(const struct facts *facts, const char *line)
{
    size_t low = 0, high = facts->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(facts_line(facts, middle), line);
        if (order == 0) return true;
        if (order < 0) low = middle + 1;
        if (order > 0) high = middle;
    }
    return false;
}

void facts_free(struct facts *facts)
{
    free(facts->text);
    free(facts->lines);
    *facts = (struct facts){ .text = NULL };
}
