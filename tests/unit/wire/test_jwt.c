#include "wire/jwt.h"

#include "base/text.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define KEY1 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY2 "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
#define NOW UINT64_C(1700000000)

static struct jwt_ring *ring;
static struct jwt_mac *mac;

static int set_up(void **state)
{
    (void)state;
    char objection[256];
    if (jwt_ring_open(&ring, SLICE("# newest first\nk2 " KEY2 "\n\nk1 " KEY1 "\n"), objection) != FAULT_NONE) return -1;
    return jwt_mac_open(&mac, ring) == FAULT_NONE ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    jwt_mac_close(mac);
    jwt_ring_close(ring);
    return 0;
}

/* A token of any header and payload, signed rightly: the one-shot HMAC of OpenSSL, not the code under test. */
static size_t forge(const char *header, const char *payload, const char *key_hex, const EVP_MD *digest, char *out)
{
    uint8_t key[64], signature[EVP_MAX_MD_SIZE];
    unsigned signature_len = 0;
    struct slice hex = slice_of(key_hex);
    assert_true(hex_decode(key, hex));
    size_t len = base64url_encode(out, (const uint8_t *)header, strlen(header));
    out[len++] = '.';
    len += base64url_encode(out + len, (const uint8_t *)payload, strlen(payload));
    assert_non_null(HMAC(digest, key, (int)(hex.len / 2), (const unsigned char *)out, len, signature, &signature_len));
    out[len++] = '.';
    len += base64url_encode(out + len, signature, signature_len);
    return len;
}

static enum jwt_check check(const char *token, size_t len, struct jwt_claims *claims)
{
    char *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, token, len);
    enum jwt_check result = jwt_check(mac, (struct slice){ copy, len }, NOW, claims);
    free(copy);
    return result;
}

static const struct jwt_claims sample = {
    .subject = "ann",
    .role = "customer",
    .token_id = UINT64_C(0x0123456789abcdef),
    .issued_s = NOW - 10,
    .not_before_s = NOW - 10,
    .expires_s = NOW + 1,
};

#define HEAD1 "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}"
#define WHO "\"sub\":\"ann\",\"role\":\"customer\""
#define TIMES "\"iat\":1699999990,\"nbf\":1699999990,\"exp\":1700000001"
#define FROM "\"iss\":\"stampede\",\"aud\":\"stampede\""
#define ID "\"jti\":\"0123456789abcdef\""
#define BODY "{" FROM "," WHO "," TIMES "," ID "}"

static void what_is_made_is_exactly_this_and_is_taken(void **state)
{
    (void)state;
    char made[TOKEN_BYTES_MAX], forged[TOKEN_BYTES_MAX];
    struct jwt_claims claims;

    size_t len = jwt_make(mac, &sample, made, sizeof(made));
    size_t want = forge("{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"k2\"}", BODY, KEY2, EVP_sha256(), forged);
    assert_int_equal(len, want);
    assert_memory_equal(made, forged, len);
    assert_int_equal(check(made, len, &claims), JWT_GOOD);
    assert_string_equal(claims.subject, "ann");
    assert_string_equal(claims.role, "customer");
    assert_true(claims.token_id == sample.token_id && claims.issued_s == sample.issued_s);
    assert_true(claims.not_before_s == sample.not_before_s && claims.expires_s == sample.expires_s);

    char *tight = malloc(len);
    assert_non_null(tight);
    assert_int_equal(jwt_make(mac, &sample, tight, len), len);
    assert_int_equal(jwt_make(mac, &sample, tight, len - 1), 0);
    free(tight);
}

/* A door's token says the same twice, in the words of its clients, and is ours on every route. */
static void a_token_of_a_door_says_username_and_kind(void **state)
{
    (void)state;
    char made[TOKEN_BYTES_MAX], forged[TOKEN_BYTES_MAX];
    struct jwt_claims claims = sample, back;
    snprintf(claims.kind, sizeof(claims.kind), "saler");

    size_t len = jwt_make(mac, &claims, made, sizeof(made));
    size_t want = forge("{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"k2\"}",
                        "{" FROM "," WHO "," TIMES "," ID ",\"username\":\"ann\",\"kind\":\"saler\"}", KEY2, EVP_sha256(),
                        forged);
    assert_int_equal(len, want);
    assert_memory_equal(made, forged, len);
    assert_int_equal(check(made, len, &back), JWT_GOOD);
    assert_string_equal(back.subject, "ann");
    assert_string_equal(back.kind, "saler");
    len = jwt_make(mac, &sample, made, sizeof(made));
    assert_int_equal(check(made, len, &back), JWT_GOOD);
    assert_string_equal(back.kind, "");

    memset(claims.subject, 'a', sizeof(claims.subject) - 1);
    claims.subject[sizeof(claims.subject) - 1] = '\0';
    len = jwt_make(mac, &claims, made, sizeof(made));
    assert_true(len > 0);
    assert_int_equal(check(made, len, &back), JWT_GOOD);
    assert_string_equal(back.subject, claims.subject);
}

static void names_that_need_escapes_or_are_long_come_back_as_they_were(void **state)
{
    (void)state;
    static const char *const names[] = { "a",
                                         "q\"uote",
                                         "back\\slash",
                                         "\xe4\xb8\xad\xe6\x96\x87",
                                         "caf\xc3\xa9",
                                         "issuer:subject",
                                         "0123456789012345678901234567890123456789012345678901234567890123" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct jwt_claims claims = sample, back;
        char token[TOKEN_BYTES_MAX];
        snprintf(claims.subject, sizeof(claims.subject), "%s", names[i]);
        size_t len = jwt_make(mac, &claims, token, sizeof(token));
        assert_true(len > 0);
        assert_int_equal(check(token, len, &back), JWT_GOOD);
        assert_string_equal(back.subject, names[i]);
    }
}

/* header, payload, key: NULL is KEY1. All are signed rightly unless the key says otherwise. */
static const struct {
    const char *header, *payload, *key;
    enum jwt_check want;
} rows[] = {
    { HEAD1, BODY, NULL, JWT_GOOD },
    { "{\"kid\":\"k1\",\"alg\":\"HS256\"}", BODY, NULL, JWT_GOOD },
    { " { \"typ\" : \"JWT\", \"kid\":\"k1\",\"alg\":\"HS256\", \"x\": [1] }", BODY, NULL, JWT_GOOD },
    { "{\"kid\":\"k2\",\"alg\":\"HS256\"}", BODY, KEY2, JWT_GOOD },
    { HEAD1, "{" ID "," TIMES "," WHO "," FROM "}", NULL, JWT_GOOD },
    { HEAD1, "{" FROM "," WHO "," TIMES "," ID ",\"more\":{\"a\":[1,2]}}", NULL, JWT_GOOD },
    { HEAD1, "{" FROM "," WHO ",\"exp\":1700000001," ID "}", NULL, JWT_GOOD },
    { HEAD1, "{" FROM ",\"sub\":\"\\u0061nn\",\"role\":\"customer\"," TIMES "," ID "}", NULL, JWT_GOOD },
    /* Algorithms. */
    { "{\"alg\":\"none\",\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"None\",\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"NONE\",\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"\",\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"hs256\",\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256 \",\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS384\",\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS512\",\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":256,\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":[\"HS256\"],\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":null,\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"typ\":\"JWT\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"none\",\"alg\":\"HS256\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"alg\":\"HS256\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":\"k1\",\"crit\":[\"b64\"],\"b64\":false}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":\"k1\",\"typ\":\"JWE\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":\"k1\",\"typ\":1}", BODY, NULL, JWT_BAD },
    /* Keys. */
    { "{\"alg\":\"HS256\",\"typ\":\"JWT\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":\"\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":\"k3\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":\"K1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":\"k1 \"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":1}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":\"../../dev/null\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":\"k2\",\"kid\":\"k1\"}", BODY, NULL, JWT_BAD },
    { "{\"alg\":\"HS256\",\"kid\":\"k2\"}", BODY, KEY1, JWT_BAD },
    { HEAD1, BODY, KEY2, JWT_BAD },
    { HEAD1, BODY, "00", JWT_BAD },
    { "", BODY, NULL, JWT_BAD },
    { "[]", BODY, NULL, JWT_BAD },
    { "not json", BODY, NULL, JWT_BAD },
    { HEAD1 " ", BODY, NULL, JWT_GOOD },
    { HEAD1 "x", BODY, NULL, JWT_BAD },
    /* Times: NOW is 1700000000. */
    { HEAD1, "{" FROM "," WHO ",\"iat\":1,\"nbf\":1,\"exp\":1700000000," ID "}", NULL, JWT_EXPIRED },
    { HEAD1, "{" FROM "," WHO ",\"exp\":1," ID "}", NULL, JWT_EXPIRED },
    { HEAD1, "{" FROM "," WHO ",\"exp\":0," ID "}", NULL, JWT_EXPIRED },
    { HEAD1, "{" FROM "," WHO ",\"iat\":1,\"nbf\":1700000005,\"exp\":1700000009," ID "}", NULL, JWT_GOOD },
    { HEAD1, "{" FROM "," WHO ",\"iat\":1,\"nbf\":1700000006,\"exp\":1700000009," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"nbf\":1700000006,\"exp\":1700000009," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"iat\":1700000006,\"nbf\":1,\"exp\":1700000009," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"iat\":1,\"nbf\":1," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"exp\":\"1700000009\"," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"exp\":1700000009.0," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"exp\":1.7e10," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"exp\":-1," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"exp\":null," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"exp\":9223372036854775807," ID "}", NULL, JWT_GOOD },
    { HEAD1, "{" FROM "," WHO ",\"iat\":1,\"nbf\":1,\"exp\":9223372036854775808," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"iat\":1,\"nbf\":1,\"exp\":99999999999999999999," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"iat\":01,\"nbf\":1,\"exp\":1700000009," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"iat\":,\"nbf\":1,\"exp\":1700000009," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"nbf\":\"1\",\"exp\":1700000009," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"iat\":true,\"exp\":1700000009," ID "}", NULL, JWT_BAD },
    /* Issuer, audience, subject, role, id. */
    { HEAD1, "{\"iss\":\"Stampede\",\"aud\":\"stampede\"," WHO "," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{\"iss\":\"other\",\"aud\":\"stampede\"," WHO "," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{\"iss\":\"stampede\",\"aud\":\"other\"," WHO "," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{\"iss\":\"stampede\",\"aud\":[\"stampede\"]," WHO "," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{\"aud\":\"stampede\"," WHO "," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{\"iss\":\"stampede\"," WHO "," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"role\":\"customer\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"sub\":\"\",\"role\":\"customer\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"sub\":5,\"role\":\"customer\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"sub\":\"a\x01\",\"role\":\"customer\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"sub\":\"a\\n\",\"role\":\"customer\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"sub\":\"a\x7f\",\"role\":\"customer\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"sub\":\"a\\u0000b\",\"role\":\"customer\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"sub\":\"\xff\",\"role\":\"customer\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1,
      "{" FROM ",\"sub\":\"01234567890123456789012345678901234567890123456789012345678901234\",\"role\":\"customer\"," TIMES
      "," ID "}",
      NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"sub\":\"ann\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"sub\":\"ann\",\"role\":[\"admin\"]," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM ",\"sub\":\"ann\",\"role\":\"0123456789012345\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO "," TIMES "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO "," TIMES ",\"jti\":\"0123456789abcde\"}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO "," TIMES ",\"jti\":\"0123456789abcdefg\"}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO "," TIMES ",\"jti\":\"0123456789abcdeg\"}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO "," TIMES ",\"jti\":1}", NULL, JWT_BAD },
    /* Claims twice, the second after the canonical order or within it. */
    { HEAD1, "{" FROM "," WHO "," TIMES "," ID ",\"role\":\"admin\"}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO ",\"role\":\"admin\"," TIMES "," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO "," TIMES ",\"exp\":1800000000," ID "}", NULL, JWT_BAD },
    { HEAD1, "{" FROM "," WHO "," TIMES "," ID ",\"x\":{\"a\":1,\"a\":2}}", NULL, JWT_BAD },
    /* Bodies that are no object, or more than one. */
    { HEAD1, "", NULL, JWT_BAD },
    { HEAD1, "[]", NULL, JWT_BAD },
    { HEAD1, BODY "x", NULL, JWT_BAD },
    { HEAD1, BODY BODY, NULL, JWT_BAD },
    { HEAD1, BODY " ", NULL, JWT_GOOD },
};

static void tokens_are_judged_row_by_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char token[2048];
        struct jwt_claims claims;
        size_t len = forge(rows[i].header, rows[i].payload, rows[i].key != NULL ? rows[i].key : KEY1, EVP_sha256(), token);
        enum jwt_check got = check(token, len, &claims);
        if (got != rows[i].want) fail_msg("row %zu: %d for %s %s", i, got, rows[i].header, rows[i].payload);
        if (got == JWT_GOOD) {
            assert_string_equal(claims.subject, "ann");
            assert_string_equal(claims.role, "customer");
            assert_true(claims.token_id == sample.token_id);
        }
    }
}

static void other_digests_do_not_sign_for_us(void **state)
{
    (void)state;
    char token[2048];
    struct jwt_claims claims;
    size_t len = forge(HEAD1, BODY, KEY1, EVP_sha512(), token);
    assert_int_equal(check(token, len, &claims), JWT_BAD);
    len = forge(HEAD1, BODY, KEY1, EVP_sha384(), token);
    assert_int_equal(check(token, len, &claims), JWT_BAD);
    len = forge(HEAD1, BODY, KEY1, EVP_sha512_256(), token);
    assert_int_equal(check(token, len, &claims), JWT_BAD);
}

/* Each character in turn made another: the spare bits of the last one of each part are among them. */
static void no_other_spelling_of_a_good_token_is_taken(void **state)
{
    (void)state;
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. ";
    char token[TOKEN_BYTES_MAX];
    struct jwt_claims claims;
    for (int round = 0; round < 2; round++) {
        size_t len = round == 0 ? jwt_make(mac, &sample, token, sizeof(token))
                                : forge("{\"kid\":\"k1\",\"alg\":\"HS256\" }", BODY " ", KEY1, EVP_sha256(), token);
        assert_int_equal(check(token, len, &claims), JWT_GOOD);
        for (size_t at = 0; at < len; at++) {
            char was = token[at];
            for (const char *other = alphabet; *other != '\0'; other++) {
                if (*other == was) continue;
                token[at] = *other;
                if (check(token, len, &claims) != JWT_BAD) fail_msg("'%c' for '%c' at %zu was taken", *other, was, at);
            }
            token[at] = was;
        }
    }
}

static void cut_stretched_and_stripped_tokens_are_refused(void **state)
{
    (void)state;
    char token[TOKEN_BYTES_MAX + 8];
    struct jwt_claims claims;
    size_t len = jwt_make(mac, &sample, token, TOKEN_BYTES_MAX);

    for (size_t cut = 0; cut < len; cut++) assert_int_equal(check(token, cut, &claims), JWT_BAD);
    for (size_t cut = 1; cut < len; cut++) assert_int_equal(check(token + cut, len - cut, &claims), JWT_BAD);
    for (const char *more = "=.A \n"; *more != '\0'; more++) {
        token[len] = *more;
        assert_int_equal(check(token, len + 1, &claims), JWT_BAD);
    }
    static const char *const stripped[] = {
        "", ".", "..", "...", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "eyJhbGciOiJub25lIn0.e30"
    };
    for (size_t i = 0; i < sizeof(stripped) / sizeof(stripped[0]); i++)
        assert_int_equal(check(stripped[i], strlen(stripped[i]), &claims), JWT_BAD);
}

static void a_token_may_have_1024_bytes_and_no_more(void **state)
{
    (void)state;
    static char payload[8192], token[16384];
    struct jwt_claims claims;
    size_t fits = 0, longest = 0, shortest_refused = SIZE_MAX;

    for (size_t filler = 400; filler < 700; filler++) {
        int at = snprintf(payload, sizeof(payload), "{" FROM "," WHO "," TIMES "," ID ",\"x\":\"");
        memset(payload + at, 'x', filler);
        memcpy(payload + at + filler, "\"}", 3);
        size_t len = forge(HEAD1, payload, KEY1, EVP_sha256(), token);
        bool taken = check(token, len, &claims) == JWT_GOOD;
        assert_int_equal(taken, len <= TOKEN_BYTES_MAX);
        if (taken) fits++;
        if (taken && len > longest) longest = len;
        if (!taken && len < shortest_refused) shortest_refused = len;
    }
    assert_true(fits > 0 && longest >= TOKEN_BYTES_MAX - 1 && shortest_refused <= TOKEN_BYTES_MAX + 2);

    memset(token, 'A', sizeof(token));
    assert_int_equal(check(token, 8192, &claims), JWT_BAD);
}

static void deep_nesting_does_no_harm(void **state)
{
    (void)state;
    char payload[601], token[2048];
    struct jwt_claims claims;
    memset(payload, '[', sizeof(payload) - 1);
    payload[sizeof(payload) - 1] = '\0';
    size_t len = forge(HEAD1, payload, KEY1, EVP_sha256(), token);
    assert_int_equal(check(token, len, &claims), JWT_BAD);
    len = forge(payload, BODY, KEY1, EVP_sha256(), token);
    assert_int_equal(check(token, len, &claims), JWT_BAD);
}

static const struct {
    const char *text, *objection;
} rings[] = {
    { "k1 " KEY1, NULL },
    { "  k1 " KEY1 " \r\n\n# x\nk2 " KEY1 "\n", NULL },
    { "", "there is no key" },
    { "# nothing\n\n", "there is no key" },
    { "k1\n", "line 1: expected a name, a space and the key in hexadecimal" },
    { KEY1 "\n", "line 1: expected a name, a space and the key in hexadecimal" },
    { "# x\n\nk/1 " KEY1 "\n", "line 3: a key's name has 1 to 32 letters, digits, dots, dashes or underscores" },
    { "k12345678901234567890123456789012 " KEY1,
      "line 1: a key's name has 1 to 32 letters, digits, dots, dashes or underscores" },
    { "k1 " KEY1 "\nk1 " KEY2 "\n", "line 2: a key of this name is there already" },
    { "k1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e",
      "line 1: a key has at least 32 bytes, which is 64 hexadecimal digits" },
    { "k1 " KEY1 "0", "line 1: the key is not an even number of hexadecimal digits" },
    { "k1  " KEY1, "line 1: the key is not an even number of hexadecimal digits" },
    { "k1 " KEY1 KEY1 KEY1 KEY1, NULL },
    { "k1 " KEY1 KEY1 KEY1 KEY1 "00", "line 1: a key has at most 128 bytes, which is 256 hexadecimal digits" },
    { "a " KEY1 "\nb " KEY1 "\nc " KEY1 "\nd " KEY1 "\ne " KEY1 "\nf " KEY1 "\ng " KEY1 "\nh " KEY1, NULL },
    { "a " KEY1 "\nb " KEY1 "\nc " KEY1 "\nd " KEY1 "\ne " KEY1 "\nf " KEY1 "\ng " KEY1 "\nh " KEY1 "\ni " KEY1,
      "line 9: too many keys" },
};

static void key_files_are_read_or_objected_to_by_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
        struct jwt_ring *opened = NULL;
        char objection[256] = "";
        enum fault fault = jwt_ring_open(&opened, slice_of(rings[i].text), objection);
        assert_int_equal(fault, rings[i].objection == NULL ? FAULT_NONE : FAULT_CONFIG);
        assert_string_equal(objection, rings[i].objection == NULL ? "" : rings[i].objection);
        assert_int_equal(opened != NULL, rings[i].objection == NULL);
        jwt_ring_close(opened);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_made_is_exactly_this_and_is_taken),
        cmocka_unit_test(a_token_of_a_door_says_username_and_kind),
        cmocka_unit_test(names_that_need_escapes_or_are_long_come_back_as_they_were),
        cmocka_unit_test(tokens_are_judged_row_by_row),
        cmocka_unit_test(other_digests_do_not_sign_for_us),
        cmocka_unit_test(no_other_spelling_of_a_good_token_is_taken),
        cmocka_unit_test(cut_stretched_and_stripped_tokens_are_refused),
        cmocka_unit_test(a_token_may_have_1024_bytes_and_no_more),
        cmocka_unit_test(deep_nesting_does_no_harm),
        cmocka_unit_test(key_files_are_read_or_objected_to_by_line),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
