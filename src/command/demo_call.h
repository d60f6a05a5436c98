/* call: one request to the server of the demo, and its answer. A call is used again and again, for one request at a time. */
#ifndef STAMPEDE_COMMAND_DEMO_CALL_H
#define STAMPEDE_COMMAND_DEMO_CALL_H

#include "base/slice.h"
#include "bounds.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#define CALL_URL_BYTES 256
#define CALL_BODY_BYTES 1024
#define CALL_ANSWER_BYTES 8192 /* what is longer counts as no answer */
#define CALL_WAIT_MS_MAX 10000

struct call {
    CURL *curl;
    struct curl_slist *headers;
    char url[CALL_URL_BYTES];
    char body[CALL_BODY_BYTES], answer[CALL_ANSWER_BYTES];
    size_t answer_len;
};

/* What is asked. Only the call's own copies are used once call_prepare() has returned. */
struct call_ask {
    const char *base; /* http://HOST:PORT */
    const char *path;
    const char *token; /* the login; NULL: nobody's */
    const char *key;   /* the Idempotency-Key; NULL: none */
    struct slice body; /* JSON, up to CALL_BODY_BYTES; data NULL: it is a GET */
};

/* False: out of memory. A call that is zeroed may be closed. */
bool call_open(struct call *call);
void call_close(struct call *call);
bool call_prepare(struct call *call, const struct call_ask *ask);
/* Prepares it, waits, and has the status of the answer; 0: there was none. */
long call_make(struct call *call, const struct call_ask *ask);
/* Of one that is done, however it was run. result: what libcurl said of it. */
long call_status(const struct call *call, CURLcode result);

/* The fields of answers that the demo looks at; those an answer does not have stay empty. */
struct call_sale {
    char id[21];
    int64_t offered, available, held, sold;
};
struct call_order {
    char no[21], sale[21], buyer[BUYER_BYTES_MAX + 1], state[16];
    int64_t units, amount;
    uint64_t won_ms, pay_by_ms, now_ms;
};
bool call_read_sale(const struct call *call, struct call_sale *out);
bool call_read_order(const struct call *call, struct call_order *out); /* the order alone: paid, cancelled */
bool call_read_win(const struct call *call, struct call_order *out);   /* the order within the answer to a grab */
#define CALL_CODE_BYTES_MAX 32
void call_read_code(const struct call *call, char out[CALL_CODE_BYTES_MAX + 1]); /* of a problem; empty: none */
bool call_read_token(const struct call *call, char out[TOKEN_BYTES_MAX + 1]);    /* of a login */

#endif
