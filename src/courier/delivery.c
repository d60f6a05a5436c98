#include "courier/delivery.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/pem.h"
#include "base/text.h"
#include "courier/destination.h"

#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* An endpoint that answers and does not stop is cut off; its status has been heard. */
#define ANSWER_BYTES_MAX 65536
#define HEADER_BYTES_MAX 160
#define STATUS_GONE 410
/* A body that comes with its head leaves the connection fit for the next message; one that takes longer is cut off. */
#define BODY_MS_MAX 200
/* Every message of every seller meets a fault of this machine: it is told so often at most. */
#define OWN_FAULT_MS 10000

bool delivery_ca_good(const char *path)
{
    const char *wrong = pem_file_objection(path);
    ERR_clear_error();
    X509_STORE *store = wrong == NULL ? X509_STORE_new() : NULL;
    if (wrong == NULL && (store == NULL || X509_STORE_load_file(store, path) != 1))
        wrong = pem_reason("it has no PEM certificate");
    X509_STORE_free(store);
    if (wrong != NULL)
        log_error("courier", "cannot use the authorities %s: %s; webhook_ca must be a PEM file of certificates", path,
                  wrong);
    return wrong == NULL;
}

/* Looked at is the address that is about to be called, after any name was resolved: a name that means something else the
 * second time it is asked for gets nowhere. */
static curl_socket_t socket_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct delivery *delivery = arg;
    (void)purpose;
    if (!delivery->private_allowed && !destination_is_public(&address->addr)) {
        delivery->address_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t answer_take(char *data, size_t one, size_t count, void *arg)
{
    struct delivery *delivery = arg;
    (void)data;
    delivery->answer_bytes += one * count;
    return delivery->answer_bytes <= ANSWER_BYTES_MAX ? one * count : 0;
}

/* Called for every line of a head; the empty one ends it. An interim answer (1xx) has a head of its own. */
static size_t head_take(char *data, size_t one, size_t count, void *arg)
{
    struct delivery *delivery = arg;
    size_t len = one * count;
    if (len > 0 && (data[0] == '\r' || data[0] == '\n')) {
        long status = 0;
        curl_easy_getinfo(delivery->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 200 && delivery->heard_ms == 0) delivery->heard_ms = mono_ms();
    }
    return answer_take(data, one, count, arg);
}

static bool header_add(struct delivery *delivery, const char *name, const char *value)
{
    char line[HEADER_BYTES_MAX];
    int len = snprintf(line, sizeof line, "%s: %s", name, value);
    if (len < 0 || (size_t)len >= sizeof line) return false;
    struct curl_slist *longer = curl_slist_append(delivery->headers, line);
    if (longer != NULL) delivery->headers = longer;
    return longer != NULL;
}

static const char *body_of(const struct delivery *delivery)
{
    return delivery->body_long != NULL ? delivery->body_long : delivery->body;
}

static void body_drop(struct delivery *delivery)
{
    free(delivery->body_long);
    delivery->body_long = NULL;
}

static bool headers_make(struct delivery *delivery, const struct delivery_parcel *parcel)
{
    char id[MESSAGE_ID_BYTES_MAX], timestamp[24], signatures[MESSAGE_SIGNATURES_BYTES_MAX];
    message_id(id, parcel->uuid, delivery->notice.id);
    const struct signed_message message = { slice_of(id),
                                            parcel->signed_ms / 1000,
                                            { body_of(delivery), delivery->body_len } };
    snprintf(timestamp, sizeof timestamp, "%" PRIu64, message.timestamp_s);
    if (!message_sign(signatures, &delivery->endpoint->hook, &message, parcel->now_ms)) return false;
    return header_add(delivery, "content-type", "application/json") && header_add(delivery, "webhook-id", id) &&
           header_add(delivery, "webhook-timestamp", timestamp) && header_add(delivery, "webhook-signature", signatures);
}

/* Options that failed to be set would loosen what they tighten, so every one must be taken. */
static bool easy_set(struct delivery *delivery, const struct delivery_options *options)
{
    CURL *easy = delivery->easy;
    bool good = curl_easy_setopt(easy, CURLOPT_URL, delivery->endpoint->hook.url) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, socket_open) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, delivery) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)delivery->body_len) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body_of(delivery)) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, delivery->headers) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_USERAGENT, "Stampede/" STAMPEDE_VERSION) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, answer_take) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_WRITEDATA, delivery) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, head_take) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_HEADERDATA, delivery) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)options->timeout_ms) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)options->timeout_ms) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    /* A name server that does not answer would else be waited for, on this thread, when the time is over. */
    good &= curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, delivery->curl_error) == CURLE_OK;
    good &= curl_easy_setopt(easy, CURLOPT_PRIVATE, delivery) == CURLE_OK;
    if (options->ca_path[0] != '\0') good &= curl_easy_setopt(easy, CURLOPT_CAINFO, options->ca_path) == CURLE_OK;
    return good;
}

static void error_set(struct delivery *delivery, const char *text)
{
    size_t len = strlen(text);
    if (len > sizeof delivery->error - 1) len = sizeof delivery->error - 1;
    memcpy(delivery->error, text, len);
    delivery->error[len] = '\0';
}

bool delivery_start(struct delivery *delivery, CURLM *multi, const struct delivery_options *options,
                    const struct delivery_parcel *parcel)
{
    delivery->answer_bytes = 0;
    delivery->heard_ms = 0;
    delivery->private_allowed = options->private_allowed;
    delivery->address_refused = false;
    delivery->curl_error[0] = '\0';
    delivery->result = (struct outbox_result){ .id = delivery->notice.id,
                                               .since_ms = delivery->notice.since_ms,
                                               .seller = slice_of(delivery->notice.seller),
                                               .error = delivery->error };
    delivery->error[0] = '\0';
    bool event = delivery->notice.event_id != 0;
    bool known = event ? parcel->body != NULL : delivery->notice.order_no == 0 || parcel->order != NULL;
    delivery->body_long = parcel->body;
    delivery->body_len = event ? parcel->body_len : 0;
    if (known && !event) delivery->body_len = message_render(delivery->body, &delivery->notice, parcel->order);
    if (delivery->easy == NULL) delivery->easy = curl_easy_init();
    bool good = known && delivery->easy != NULL && headers_make(delivery, parcel) && easy_set(delivery, options) &&
                curl_multi_add_handle(multi, delivery->easy) == CURLM_OK;
    if (good) {
        delivery->state = DELIVERY_IN_FLIGHT;
        return true;
    }
    curl_slist_free_all(delivery->headers);
    delivery->headers = NULL;
    body_drop(delivery);
    error_set(delivery, known ? "the message could not be made" : "what it is about is not in the ledger");
    return false;
}

/* What is missing or broken on this machine, whoever is called. libcurl says it with paths: nothing for sellers. */
static bool fault_is_ours(CURLcode code)
{
    return code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_CRL_BADFILE || code == CURLE_SSL_CERTPROBLEM ||
           code == CURLE_SSL_CIPHER || code == CURLE_FAILED_INIT || code == CURLE_OUT_OF_MEMORY ||
           code == CURLE_FILE_COULDNT_READ_FILE || code == CURLE_INTERFACE_FAILED;
}

static void own_fault_tell(const char *text)
{
    static uint64_t told_ms; /* on the courier's thread */
    uint64_t now_ms = mono_ms();
    if (told_ms != 0 && now_ms < told_ms + OWN_FAULT_MS) return;
    told_ms = now_ms;
    log_error("courier", "webhooks are not sent: %s", text);
}

/* What libcurl says has been put together from what the other side says: only its plain characters are kept. */
static void error_tell(struct delivery *delivery, CURLcode code)
{
    const char *said = delivery->curl_error[0] != '\0' ? delivery->curl_error : curl_easy_strerror(code);
    if (delivery->result.status != 0) {
        snprintf(delivery->error, sizeof delivery->error, "HTTP status %u", delivery->result.status);
    } else if (delivery->address_refused) {
        error_set(delivery, "the address is not one of the public Internet, which webhooks_private would allow");
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        error_set(delivery, "no answer in time");
    } else if (fault_is_ours(code)) {
        error_set(delivery, "the shop could not send it; its operator has been told");
        own_fault_tell(said);
    } else {
        error_set(delivery, said);
    }
    for (char *at = delivery->error; *at != '\0'; at++) {
        if (*at < 0x20 || *at >= 0x7f) *at = '?';
    }
}

static void handle_take_back(struct delivery *delivery, CURLM *multi)
{
    curl_multi_remove_handle(multi, delivery->easy);
    curl_easy_reset(delivery->easy);
    curl_slist_free_all(delivery->headers);
    delivery->headers = NULL;
    body_drop(delivery);
}

bool delivery_lingers(const struct delivery *delivery, uint64_t mono_now_ms)
{
    return delivery->state == DELIVERY_IN_FLIGHT && delivery->heard_ms != 0 &&
           mono_now_ms > delivery->heard_ms + BODY_MS_MAX;
}

struct delivery_answer delivery_finish(struct delivery *delivery, CURLM *multi, CURLcode code)
{
    long status = 0;
    curl_off_t wait_s = 0;
    curl_easy_getinfo(delivery->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(delivery->easy, CURLINFO_RETRY_AFTER, &wait_s);
    bool heard = code == CURLE_OK || delivery->heard_ms != 0;
    struct delivery_answer answer = {
        .delivered = heard && status >= 200 && status < 300,
        .gone = heard && status == STATUS_GONE,
        .wait_ms = !heard || wait_s <= 0 ? 0 : (wait_s < UINT32_MAX ? (uint64_t)wait_s : UINT32_MAX) * 1000,
    };
    delivery->result.status = heard ? (uint32_t)status : 0;
    if (!answer.delivered) error_tell(delivery, code);
    handle_take_back(delivery, multi);
    delivery->state = DELIVERY_DONE;
    return answer;
}

void delivery_abort(struct delivery *delivery, CURLM *multi)
{
    if (delivery->state == DELIVERY_IN_FLIGHT) handle_take_back(delivery, multi);
    delivery->state = DELIVERY_FREE;
}

void delivery_deinit(struct delivery *delivery)
{
    if (delivery->easy != NULL) curl_easy_cleanup(delivery->easy);
    delivery->easy = NULL;
}
