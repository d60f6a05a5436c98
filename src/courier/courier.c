#include "courier/courier.h"

#include "base/log.h"
#include "base/thread.h"
#include "courier/desk.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define COURIER_NICE 5
#define IDLE_MS_MAX 1000

struct courier {
    struct desk desk; /* the thread's own */
    pthread_t thread;
    _Atomic bool closing;
    pthread_mutex_t pace_lock;
    struct courier_pace pace;
};

static void *courier_run(void *arg)
{
    struct courier *courier = arg;
    thread_be_nice("courier", COURIER_NICE);
    while (!atomic_load(&courier->closing)) {
        thread_must(pthread_mutex_lock(&courier->pace_lock));
        courier->desk.pace = courier->pace;
        thread_must(pthread_mutex_unlock(&courier->pace_lock));
        uint32_t wait_ms = desk_turn(&courier->desk);
        curl_multi_poll(courier->desk.multi, NULL, 0, (int)(wait_ms < IDLE_MS_MAX ? wait_ms : IDLE_MS_MAX), NULL);
    }
    return NULL;
}

enum fault courier_ca_check(const char *ca_path)
{
    return ca_path[0] == '\0' || delivery_ca_good(ca_path) ? FAULT_NONE : FAULT_CONFIG;
}

enum fault courier_open(struct courier **out, const struct courier_options *options, struct gate *gate, struct clerk *clerk)
{
    *out = NULL;
    enum fault fault = courier_ca_check(options->ca_path);
    if (fault != FAULT_NONE) return fault;
    struct courier *courier = calloc(1, sizeof *courier);
    if (courier == NULL) return FAULT_MEMORY;
    courier->pace = options->pace;
    thread_must(pthread_mutex_init(&courier->pace_lock, NULL));
    fault = desk_init(&courier->desk, options, gate, clerk);

    /* Signals belong to the main thread. */
    sigset_t all, before;
    sigfillset(&all);
    thread_must(pthread_sigmask(SIG_SETMASK, &all, &before));
    if (fault == FAULT_NONE && pthread_create(&courier->thread, NULL, courier_run, courier) != 0) {
        log_error("courier", "cannot start its thread");
        fault = FAULT_MEMORY;
    }
    thread_must(pthread_sigmask(SIG_SETMASK, &before, NULL));
    if (fault != FAULT_NONE) {
        desk_deinit(&courier->desk);
        thread_must(pthread_mutex_destroy(&courier->pace_lock));
        free(courier);
        return fault;
    }
    (void)pthread_setname_np(courier->thread, "courier");
    *out = courier;
    return FAULT_NONE;
}

void courier_close(struct courier *courier)
{
    if (courier == NULL) return;
    atomic_store(&courier->closing, true);
    courier_wake(courier);
    thread_must(pthread_join(courier->thread, NULL));
    desk_deinit(&courier->desk);
    thread_must(pthread_mutex_destroy(&courier->pace_lock));
    free(courier);
}

void courier_set_pace(struct courier *courier, const struct courier_pace *pace)
{
    thread_must(pthread_mutex_lock(&courier->pace_lock));
    courier->pace = *pace;
    thread_must(pthread_mutex_unlock(&courier->pace_lock));
}

void courier_wake(struct courier *courier)
{
    curl_multi_wakeup(courier->desk.multi);
}

void courier_status(struct courier *courier, struct courier_status *out)
{
    uint64_t oldest_ms = atomic_load(&courier->desk.oldest_ms), now_ms = gate_now_ms(courier->desk.gate);
    *out = (struct courier_status){
        .pending = atomic_load(&courier->desk.pending),
        .failed = atomic_load(&courier->desk.failed),
        .oldest_ms = oldest_ms != 0 && oldest_ms < now_ms ? now_ms - oldest_ms : 0,
    };
}
