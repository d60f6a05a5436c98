#include "wire/jwt_claims.h"

#include "base/text.h"
#include "wire/json_load.h"

#include <jansson.h>

#define TOKEN_ID_DIGITS 16

static struct slice member_text(const json_t *root, const char *name)
{
    const json_t *value = json_object_get(root, name);
    if (!json_is_string(value)) return SLICE("");
    return (struct slice){ json_string_value(value), json_string_length(value) };
}

static bool copy_text(char *out, size_t max, struct slice text)
{
    if (text.len == 0 || text.len > max) return false;
    memcpy(out, text.data, text.len);
    out[text.len] = '\0';
    return true;
}

/* Absent is 0 where it may be absent. */
static bool copy_time(uint64_t *out, const json_t *root, const char *name, bool required)
{
    const json_t *value = json_object_get(root, name);
    if (value == NULL && !required) {
        *out = 0;
        return true;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static bool copy_token_id(uint64_t *out, struct slice text)
{
    uint8_t bytes[TOKEN_ID_DIGITS / 2];
    if (text.len != TOKEN_ID_DIGITS || !hex_decode(bytes, text)) return false;
    *out = 0;
    for (size_t i = 0; i < sizeof(bytes); i++) *out = *out << 8 | bytes[i];
    return true;
}

bool jwt_header_read(struct slice text, char kid[JWT_KID_BYTES_MAX + 1])
{
    json_t *root = json_object_load(text, 0);
    if (root == NULL) return false;

    const json_t *type = json_object_get(root, "typ");
    bool good = slice_is(member_text(root, "alg"), "HS256");
    good = good && (type == NULL || slice_is(member_text(root, "typ"), "JWT"));
    good = good && json_object_get(root, "crit") == NULL;
    good = good && copy_text(kid, JWT_KID_BYTES_MAX, member_text(root, "kid"));
    json_decref(root);
    return good;
}

bool jwt_claims_read(struct slice text, struct jwt_claims *out)
{
    json_t *root = json_object_load(text, 0);
    if (root == NULL) return false;

    struct slice subject = member_text(root, "sub");
    out->kind[0] = '\0'; /* only for reading by others: nothing here rests on it */
    bool good = slice_is(member_text(root, "iss"), JWT_ISSUER) && slice_is(member_text(root, "aud"), JWT_AUDIENCE);
    good = good && !text_has_control(subject) && copy_text(out->subject, sizeof(out->subject) - 1, subject);
    good = good && copy_text(out->role, sizeof(out->role) - 1, member_text(root, "role"));
    good = good && copy_token_id(&out->token_id, member_text(root, "jti"));
    good = good && copy_time(&out->issued_s, root, "iat", false);
    good = good && copy_time(&out->not_before_s, root, "nbf", false);
    good = good && copy_time(&out->expires_s, root, "exp", true);
    json_decref(root);
    return good;
}
