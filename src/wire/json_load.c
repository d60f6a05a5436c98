#include "wire/json_load.h"

json_t *json_object_load(struct slice text, size_t flags)
{
    json_error_t error;
    json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES | flags, &error);
    if (root != NULL && !json_is_object(root)) {
        json_decref(root);
        return NULL;
    }
    return root;
}
