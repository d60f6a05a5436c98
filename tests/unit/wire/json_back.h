/* json_back: reads with jansson what the writer wrote. */
#ifndef STAMPEDE_TESTS_JSON_BACK_H
#define STAMPEDE_TESTS_JSON_BACK_H

#include "base/slice.h"

/* Fails the test unless text is a strict JSON object whose member has this string. */
void json_back_same(struct slice text, const char *member, struct slice want);
/* The same for a number. */
void json_back_same_number(struct slice text, const char *member, long long want);

#endif
