/* facts: what is so in one place, each fact a line of text, to be held against what is so in another. Inside this room only;
 * no thread's in particular. */
#ifndef STAMPEDE_GATE_KEEPER_FACTS_H
#define STAMPEDE_GATE_KEEPER_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#define FACT_BYTES 640

struct facts {
    char *text; /* lines, each with its NUL */
    size_t used, size;
    size_t *lines; /* where each begins */
    size_t count, room;
    bool failed; /* no memory for all of them */
};

void facts_add(struct facts *facts, const char *format, ...) __attribute__((format(printf, 2, 3)));
void facts_sort(struct facts *facts); /* and drops what is there twice */
const char *facts_line(const struct facts *facts, size_t at);
/* Of two that are sorted: each line that only one of them has, in order. */
void facts_compare(const struct facts *one, const struct facts *two,
                   void (*differ)(void *arg, const char *line, bool in_one), void *arg);
bool facts_has(const struct facts *facts, const char *line); /* sorted */
void facts_free(struct facts *facts);

#endif
