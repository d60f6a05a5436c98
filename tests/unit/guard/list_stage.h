/* list_stage: a block list in a folder of its own, with its log in a file, for the tests of guard/blocks.h. */
#ifndef STAMPEDE_TESTS_LIST_STAGE_H
#define STAMPEDE_TESTS_LIST_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard/blocks.h"

#define LIST_WAIT_MS_MAX 60000
#define LIST_STILL_MS 300 /* several times what the watcher waits before it reads */

struct list_stage {
    char folder[64], path[96], aside[96], log[96];
    struct blocks *blocks;
    struct blocks_reader *reader;
    int stderr_fd;
};

/* Of a test: what is logged goes to the file log, so that it can see what was said. */
int list_set(void **state);
int list_clear(void **state);
void list_open(struct list_stage *stage);

bool list_has_user(struct list_stage *stage, const char *name);
bool list_has_ip(struct list_stage *stage, const char *text);
void list_wait_user(struct list_stage *stage, const char *name, bool has);
/* Whether it was on the list before. */
bool list_add(struct list_stage *stage, const char *entry);
bool list_take(struct list_stage *stage, const char *entry);
bool list_logged(struct list_stage *stage, const char *words);
void list_wait_logged(struct list_stage *stage, const char *words);

void list_pause_ms(long ms);
void list_file_put(const char *path, const char *text);
const char *list_file_text(const char *path); /* until the next call; NULL: there is none */

#define STAGED(test) cmocka_unit_test_setup_teardown(test, list_set, list_clear)

#endif
