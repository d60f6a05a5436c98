#include "json_back.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static json_t *load(struct slice text)
{
    json_error_t error;
    json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) fail_msg("%s in %.*s", error.text, (int)text.len, text.data);
    return root;
}

void json_back_same(struct slice text, const char *member, struct slice want)
{
    json_t *root = load(text);
    const json_t *value = json_object_get(root, member);
    assert_true(json_is_string(value));
    assert_int_equal(json_string_length(value), want.len);
    assert_memory_equal(json_string_value(value), want.data, want.len);
    json_decref(root);
}

void json_back_same_number(struct slice text, const char *member, long long want)
{
    json_t *root = load(text);
    const json_t *value = json_object_get(root, member);
    assert_true(json_is_integer(value));
    assert_true(json_integer_value(value) == want);
    json_decref(root);
}
