/* delivery: one try to hand one notice to one endpoint, over libcurl. The courier's thread only.
 *
 * A 2xx is a delivery; everything else is not. Redirects are not followed, proxies of the environment not used, and what the
 * endpoint says beyond its head is neither kept nor waited for. */
#ifndef STAMPEDE_COURIER_DELIVERY_H
#define STAMPEDE_COURIER_DELIVERY_H

#include "courier/endpoint.h"
#include "courier/message.h"

#include <curl/curl.h>

struct delivery_options {
    uint64_t timeout_ms;
    bool private_allowed;
    const char *ca_path; /* PEM; empty: the system's */
};

/* Whether this file of authorities can be used; what is wrong has been logged. Any thread. */
bool delivery_ca_good(const char *path);

struct delivery {
    enum { DELIVERY_FREE, DELIVERY_IN_FLIGHT, DELIVERY_DONE } state;
    struct notice notice;
    struct endpoint *endpoint;
    uint64_t started_ms; /* the courier's */

    CURL *easy; /* kept from one use to the next */
    struct curl_slist *headers;
    size_t body_len, answer_bytes;
    bool private_allowed, address_refused;
    uint64_t heard_ms; /* monotonic, when the head of the answer was whole; 0: not yet */
    char *body_long;   /* from malloc, instead of body; NULL: body it is */
    char body[MESSAGE_BYTES_MAX];
    char curl_error[CURL_ERROR_SIZE];

    struct outbox_result result;
    char error[NOTICE_ERROR_BYTES_MAX + 1];
};

struct delivery_parcel {
    const struct ledger_order *order; /* that the notice is about; NULL: none was found */
    char *body;                       /* of a message about an event, from malloc, the delivery's from now on; NULL: none */
    size_t body_len;
    const uint8_t *uuid; /* of the journal */
    uint64_t now_ms;     /* of decisions: which secrets count */
    uint64_t signed_ms;  /* that it is signed at */
};
/* Sets out with notice and endpoint as they are in the delivery. False: it could not, and error says why. */
bool delivery_start(struct delivery *delivery, CURLM *multi, const struct delivery_options *options,
                    const struct delivery_parcel *parcel);

struct delivery_answer {
    bool delivered, gone;
    uint64_t wait_ms; /* that the endpoint asked for by Retry-After; 0: none */
};
/* Whether the answer is known and only its body is still under way, for longer than a connection is worth waiting for. */
bool delivery_lingers(const struct delivery *delivery, uint64_t mono_now_ms);
/* The transfer has ended, or lingers. Fills status and error of the result. */
struct delivery_answer delivery_finish(struct delivery *delivery, CURLM *multi, CURLcode code);
/* Takes it back from wherever it is. */
void delivery_abort(struct delivery *delivery, CURLM *multi);
void delivery_deinit(struct delivery *delivery);

#endif
