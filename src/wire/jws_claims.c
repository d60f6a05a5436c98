#include "wire/jws_claims.h"

#include "base/text.h"
#include "wire/json_load.h"

#include <jansson.h>
#include <math.h>
#include <strings.h>

#define SECONDS_MAX (TIME_MS_MAX / 1000)

static struct slice text_of(const json_t *value)
{
    if (!json_is_string(value)) return SLICE("");
    return (struct slice){ json_string_value(value), json_string_length(value) };
}

/* The claim of this name, or the one its dots lead to. */
static const json_t *claim_find(const json_t *root, const char *name)
{
    const json_t *at = json_object_get(root, name);
    if (at != NULL || strchr(name, '.') == NULL) return at;
    at = root;
    while (at != NULL && *name != '\0') {
        size_t len = strcspn(name, ".");
        at = json_object_getn(at, name, len);
        name += len + (name[len] == '.');
    }
    return at;
}

/* A type of ours to be: a token for another purpose (a logout notice, a signed request) is no login. */
static bool type_is_token(const json_t *type)
{
    static const char *const words[] = { "JWT", "at+jwt", "application/at+jwt" };
    if (type == NULL) return true;
    if (!json_is_string(type)) return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(json_string_value(type), words[i]) == 0) return true;
    }
    return false;
}

bool jws_header_read(struct slice text, enum jws_alg alg, char kid[JWKS_KID_BYTES_MAX + 1])
{
    json_t *root = json_object_load(text, 0);
    if (root == NULL) return false;

    const json_t *kid_value = json_object_get(root, "kid");
    struct slice name = text_of(kid_value);
    bool good = slice_is(text_of(json_object_get(root, "alg")), jws_alg_word(alg));
    good = good && type_is_token(json_object_get(root, "typ"));
    good = good && json_object_get(root, "crit") == NULL;
    good = good && (kid_value == NULL || name.len > 0) && name.len <= JWKS_KID_BYTES_MAX;
    if (good) {
        memcpy(kid, name.data, name.len);
        kid[name.len] = '\0';
    }
    json_decref(root);
    return good;
}

/* A text that is the word, or a list of texts with it. */
static bool value_has(const json_t *value, struct slice word)
{
    size_t i;
    const json_t *item;
    if (json_is_string(value)) return slice_equal(text_of(value), word);
    json_array_foreach(value, i, item)
    {
        if (json_is_string(item) && slice_equal(text_of(item), word)) return true;
    }
    return false;
}

static int role_find(const json_t *root, const struct jws_rules *rules)
{
    if (rules->role_claim[0] == '\0') return -1;
    const json_t *value = claim_find(root, rules->role_claim);
    for (size_t i = 0; i < rules->roles_count; i++) {
        if (value_has(value, rules->roles[i])) return (int)i;
    }
    return -1;
}

/* Seconds, which may have a fraction (RFC 7519); one beyond all times is the last of them. */
static bool time_read(double *out, const json_t *value)
{
    if (!json_is_real(value) || json_real_value(value) < 0) return false;
    *out = fmin(json_real_value(value), (double)SECONDS_MAX);
    return true;
}

/* Fractions are rounded to where the token is good for less time: its end down, its beginning up. */
static bool copy_end(uint64_t *out, const json_t *value)
{
    double seconds;
    if (!time_read(&seconds, value)) return false;
    *out = (uint64_t)floor(seconds);
    return true;
}

/* Absent is 0. */
static bool copy_beginning(uint64_t *out, const json_t *value)
{
    double seconds = 0;
    if (value != NULL && !time_read(&seconds, value)) return false;
    *out = (uint64_t)ceil(seconds);
    return true;
}

static bool copy_subject(char out[BUYER_BYTES_MAX + 1], struct slice subject)
{
    if (subject.len == 0 || subject.len > BUYER_BYTES_MAX || text_has_control(subject)) return false;
    memcpy(out, subject.data, subject.len);
    out[subject.len] = '\0';
    return true;
}

bool jws_claims_read(struct slice text, const struct jws_rules *rules, struct jws_claims *out)
{
    json_t *root = json_object_load(text, JSON_DECODE_INT_AS_REAL); /* every number, however large, is of one kind */
    if (root == NULL) return false;

    bool good = slice_is(text_of(json_object_get(root, "iss")), rules->issuer);
    good = good && value_has(json_object_get(root, "aud"), slice_of(rules->audience));
    good = good && copy_subject(out->subject, text_of(claim_find(root, rules->subject_claim)));
    good = good && copy_beginning(&out->issued_s, json_object_get(root, "iat"));
    good = good && copy_beginning(&out->not_before_s, json_object_get(root, "nbf"));
    good = good && copy_end(&out->expires_s, json_object_get(root, "exp"));
    out->role = good ? role_find(root, rules) : -1;
    json_decref(root);
    return good;
}
