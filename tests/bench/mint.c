/* mint: writes many tokens to standard output, one a line, all equally long.
 *
 *   mint KEYS ROLE NAME            one token for NAME
 *   mint KEYS ROLE PREFIX COUNT    for PREFIX0000000000 and on, ten digits each
 *
 * KEYS is the server's own file of signing keys; tokens live for a day. They are in the form the server writes, so that what
 * is measured is the checking of a token that a login gave. */
#include "base/random.h"
#include "base/text.h"
#include "wire/jwt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define KEYS_BYTES_MAX 16384
#define LIFE_S 86400

static int mint_one(struct jwt_mac *mac, struct jwt_claims *claims)
{
    char token[TOKEN_BYTES_MAX + 1];

    claims->token_id++;
    size_t len = jwt_make(mac, claims, token, sizeof token - 1);
    if (len == 0) {
        fprintf(stderr, "mint: a token for %s does not fit\n", claims->subject);
        return 1;
    }
    token[len] = '\n';
    return fwrite(token, len + 1, 1, stdout) == 1 ? 0 : 1;
}

static struct jwt_mac *mac_from_file(const char *path)
{
    static char text[KEYS_BYTES_MAX];
    char objection[256] = "";
    struct jwt_ring *ring;
    struct jwt_mac *mac;

    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        return NULL;
    }
    size_t len = fread(text, 1, sizeof text, file);
    fclose(file);
    if (jwt_ring_open(&ring, (struct slice){ text, len }, objection) != FAULT_NONE) {
        fprintf(stderr, "mint: %s: %s\n", path, objection);
        return NULL;
    }
    /* The ring lives until the process ends, as the contexts made from it do. */
    return jwt_mac_open(&mac, ring) == FAULT_NONE ? mac : NULL;
}

int main(int argc, char **argv)
{
    uint64_t count = 0;

    if ((argc != 4 && argc != 5) || (argc == 5 && !text_to_u64(slice_of(argv[4]), &count))) {
        fprintf(stderr, "usage: mint KEYS ROLE NAME | mint KEYS ROLE PREFIX COUNT\n");
        return 2;
    }
    struct jwt_mac *mac = mac_from_file(argv[1]);
    if (mac == NULL) return 1;

    uint64_t now_s = (uint64_t)time(NULL);
    struct jwt_claims claims = { .issued_s = now_s, .not_before_s = now_s, .expires_s = now_s + LIFE_S };
    random_bytes(&claims.token_id, sizeof claims.token_id);
    snprintf(claims.role, sizeof claims.role, "%s", argv[2]);
    if (argc == 4) {
        snprintf(claims.subject, sizeof claims.subject, "%s", argv[3]);
        if (mint_one(mac, &claims) != 0) return 1;
    }
    for (uint64_t i = 0; i < count; i++) {
        snprintf(claims.subject, sizeof claims.subject, "%s%010" PRIu64, argv[3], i);
        if (mint_one(mac, &claims) != 0) return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
