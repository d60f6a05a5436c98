/* The courier with a real gate, clerk and ledger, and an endpoint that is a socket of this test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/disk.h"
#include "courier/courier.h"
#include "ledger/outbox.h"
#include "wire/signature.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SELLER "shop"

struct shop {
    char folder[64], ledger_path[128], journal_folder[128];
    struct ledger *ledger;
    struct gate *gate;
    struct clerk *clerk;
    struct courier *courier;

    int listener;
    uint16_t port;
    pthread_t thread;
    _Atomic int refusals; /* tries still to be answered with 500 */
    _Atomic int taken, tries;
    char head[4096]; /* of the last request */
};

/* One request after the other, each on a connection of its own. */
static void *endpoint_run(void *arg)
{
    struct shop *shop = arg;
    int fd;
    while ((fd = accept(shop->listener, NULL, NULL)) >= 0) {
        char bytes[8192];
        size_t len = 0;
        ssize_t got;
        while ((got = recv(fd, bytes + len, sizeof(bytes) - 1 - len, 0)) > 0) {
            len += (size_t)got;
            bytes[len] = '\0';
            if (strstr(bytes, "\"data\":{}}") != NULL) break;
        }
        snprintf(shop->head, sizeof(shop->head), "%.4000s", bytes);
        bool refuse = atomic_load(&shop->refusals) > 0;
        if (refuse) atomic_fetch_sub(&shop->refusals, 1);
        const char *answer = refuse ? "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                                    : "HTTP/1.1 204 Yes\r\nConnection: close\r\n\r\n";
        atomic_fetch_add(&shop->tries, 1); /* before anybody can hear of it */
        if (!refuse) atomic_fetch_add(&shop->taken, 1);
        send(fd, answer, strlen(answer), MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static void endpoint_open(struct shop *shop)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    shop->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(shop->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(shop->listener, 64), 0);
    assert_int_equal(getsockname(shop->listener, (struct sockaddr *)&address, &len), 0);
    shop->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&shop->thread, NULL, endpoint_run, shop), 0);
}

static void courier_start(struct shop *shop, bool private_allowed)
{
    const struct courier_options options = {
        .ledger = LEDGER_FILE(shop->ledger_path),
        .ca_path = "",
        .private_allowed = private_allowed,
        .pace = { .timeout_ms = 60000, .retry_ms_min = 20, .retry_ms_max = 100, .give_up_ms = 3600000 },
    };
    assert_int_equal(courier_open(&shop->courier, &options, shop->gate, shop->clerk), FAULT_NONE);
}

static int shop_setup(void **state)
{
    struct shop *shop = calloc(1, sizeof(*shop));
    struct journal_damage damage;
    snprintf(shop->folder, sizeof(shop->folder), "/tmp/stampede-courier-XXXXXX");
    if (mkdtemp(shop->folder) == NULL) return -1;
    snprintf(shop->ledger_path, sizeof(shop->ledger_path), "%s/ledger.db", shop->folder);
    snprintf(shop->journal_folder, sizeof(shop->journal_folder), "%s/journal", shop->folder);
    assert_int_equal(ledger_open(&shop->ledger, LEDGER_FILE(shop->ledger_path), LEDGER_OWNER), FAULT_NONE);
    struct gate_options options = { .folder = shop->folder, .segment_bytes = SEGMENT_BYTES_MIN, .orders_max = 1000 };
    assert_int_equal(gate_open(&shop->gate, &options, shop->ledger, &damage), FAULT_NONE);
    assert_int_equal(gate_start(shop->gate), FAULT_NONE);
    struct clerk_options clerk = { LEDGER_FILE(shop->ledger_path), shop->journal_folder, 10 };
    assert_int_equal(clerk_open(&shop->clerk, &clerk, shop->gate), FAULT_NONE);
    endpoint_open(shop);
    *state = shop;
    return 0;
}

static void file_remove(void *arg, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", (const char *)arg, name);
    unlink(path);
}

static int shop_teardown(void **state)
{
    struct shop *shop = *state;
    courier_close(shop->courier);
    clerk_close(shop->clerk, 1000);
    gate_close(shop->gate);
    ledger_close(shop->ledger);
    shutdown(shop->listener, SHUT_RDWR);
    pthread_join(shop->thread, NULL);
    close(shop->listener);
    if (disk_each(shop->journal_folder, file_remove, shop->journal_folder) != FAULT_NONE) return -1;
    rmdir(shop->journal_folder);
    if (disk_each(shop->folder, file_remove, shop->folder) != FAULT_NONE) return -1;
    rmdir(shop->folder);
    free(shop);
    return 0;
}

static void hook_make(struct shop *shop, char secret[SIGNATURE_SECRET_TEXT_BYTES + 1])
{
    char url[64];
    struct hook hook;
    bool fresh;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/hook", shop->port);
    signature_secret_make(secret);
    const struct hook_put put = { .seller = SLICE(SELLER), .url = slice_of(url), .secret = slice_of(secret), .now_ms = 1 };
    assert_int_equal(ledger_hook_put(shop->ledger, &put, &hook, &fresh), FAULT_NONE);
}

static uint64_t notice_make(struct shop *shop)
{
    uint64_t id;
    assert_int_equal(ledger_outbox_test(shop->ledger, SLICE(SELLER), gate_now_ms(shop->gate), &id), FAULT_NONE);
    return id;
}

static uint64_t pending(struct shop *shop)
{
    struct outbox_counts counts;
    assert_int_equal(ledger_outbox_counts(shop->ledger, SLICE(SELLER), &counts), FAULT_NONE);
    return counts.pending;
}

static void until_told(struct shop *shop)
{
    for (uint64_t until_ms = mono_ms() + 30000; pending(shop) > 0;) {
        if (mono_ms() > until_ms) fail_msg("%llu notices are still to be sent", (unsigned long long)pending(shop));
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
}

/* What stands after a header's name in the last request, up to its end. */
static void header_read(const struct shop *shop, const char *name, char *out, size_t size)
{
    const char *at = strstr(shop->head, name);
    assert_non_null(at);
    at += strlen(name) + 2;
    snprintf(out, size, "%.*s", (int)strcspn(at, "\r"), at);
}

static void a_notice_is_sent_signed_and_leaves_the_outbox(void **state)
{
    struct shop *shop = *state;
    char secret[SIGNATURE_SECRET_TEXT_BYTES + 1], id[128], timestamp[32], signature[128];
    hook_make(shop, secret);
    notice_make(shop);
    courier_start(shop, true);
    until_told(shop);
    assert_int_equal(atomic_load(&shop->tries), 1);
    assert_memory_equal(shop->head, "POST /hook HTTP/1.1\r\n", 21);
    header_read(shop, "webhook-id", id, sizeof(id));
    header_read(shop, "webhook-timestamp", timestamp, sizeof(timestamp));
    header_read(shop, "webhook-signature", signature, sizeof(signature));
    const char *body = strstr(shop->head, "\r\n\r\n") + 4;
    struct signature_secret key;
    assert_true(signature_secret_parse(slice_of(secret), &key));
    const struct signed_message message = { slice_of(id), strtoull(timestamp, NULL, 10), slice_of(body) };
    assert_true(signature_fits(&key, 1, &message, slice_of(signature)));
}

static void what_fails_is_sent_again_until_it_is_taken(void **state)
{
    struct shop *shop = *state;
    char secret[SIGNATURE_SECRET_TEXT_BYTES + 1];
    hook_make(shop, secret);
    atomic_store(&shop->refusals, 7);
    for (int i = 0; i < 5; i++) notice_make(shop);
    courier_start(shop, true);
    until_told(shop);
    assert_int_equal(atomic_load(&shop->tries), 12);
    assert_int_equal(atomic_load(&shop->taken), 5);
}

static void what_was_not_sent_is_sent_by_the_next_courier(void **state)
{
    struct shop *shop = *state;
    char secret[SIGNATURE_SECRET_TEXT_BYTES + 1];
    hook_make(shop, secret);
    atomic_store(&shop->refusals, INT32_MAX);
    notice_make(shop);
    courier_start(shop, true);
    while (atomic_load(&shop->tries) < 2) nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    courier_close(shop->courier);
    assert_int_equal(pending(shop), 1);
    atomic_store(&shop->refusals, 0);
    courier_start(shop, true);
    until_told(shop);
    assert_int_equal(atomic_load(&shop->taken), 1);
}

static void a_private_address_is_not_called(void **state)
{
    struct shop *shop = *state;
    char secret[SIGNATURE_SECRET_TEXT_BYTES + 1];
    struct hook hook = { .failed_ms = 0 };
    bool found = true;
    hook_make(shop, secret);
    notice_make(shop);
    courier_start(shop, false);
    while (hook.failed_ms == 0) {
        assert_int_equal(ledger_hook(shop->ledger, SLICE(SELLER), &hook, &found), FAULT_NONE);
        assert_true(found);
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    assert_non_null(strstr(hook.error, "webhooks_private"));
    assert_int_equal(atomic_load(&shop->tries), 0);
    assert_int_equal(pending(shop), 1);
}

static void a_ledger_that_is_locked_for_a_while_loses_nothing(void **state)
{
    struct shop *shop = *state;
    char secret[SIGNATURE_SECRET_TEXT_BYTES + 1];
    struct ledger_point point;
    hook_make(shop, secret);
    notice_make(shop);
    /* As long as this transaction is open nobody else writes: what was taken cannot be recorded. */
    assert_int_equal(ledger_file_begin(shop->ledger, &point), FAULT_NONE);
    courier_start(shop, true);
    while (atomic_load(&shop->taken) < 1) nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    nanosleep(&(struct timespec){ .tv_sec = 1, .tv_nsec = 300000000 }, NULL);
    ledger_file_rollback(shop->ledger);
    until_told(shop);
    assert_int_equal(atomic_load(&shop->taken), 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, shop_setup, shop_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_notice_is_sent_signed_and_leaves_the_outbox),     CASE(what_fails_is_sent_again_until_it_is_taken),
        CASE(what_was_not_sent_is_sent_by_the_next_courier),     CASE(a_private_address_is_not_called),
        CASE(a_ledger_that_is_locked_for_a_while_loses_nothing),
    };
    return cmocka_run_group_tests_name("courier", tests, NULL, NULL);
}
