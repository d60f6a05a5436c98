#include "ledger/watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "ledger/mysql.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ASK_MS 500
/* Between two probes while it is away. */
#define PAUSE_MS_MIN 100
#define PAUSE_MS_MAX 400
/* No answer for so long: it hangs. What failed sooner is the loss of one connection, and another may do better. */
#define SILENCE_MS 1000
/* To connect and to write; a database that wakes up takes whoever waits for it. */
#define ANSWER_S_MAX 3

struct ledger_watch {
    struct ledger_place place; /* without the watch, which would stand in its own way */
    bool unsafe;               /* it may lose what it has committed: the operator has allowed it */
    struct ledger *ledger;     /* NULL: not connected */
    pthread_t thread;
    _Atomic enum ledger_health health;
    _Atomic bool doubted;
    uint64_t since_ms; /* it was well last */

    pthread_mutex_t lock; /* of these */
    pthread_cond_t wake;
    bool ending, stopping;
    struct watch_line *lines;
};

enum ledger_health ledger_watch_health(const struct ledger_watch *watch)
{
    return watch == NULL ? LEDGER_WELL : atomic_load_explicit(&watch->health, memory_order_relaxed);
}

void ledger_watch_doubt(struct ledger_watch *watch)
{
    if (watch == NULL || ledger_watch_health(watch) != LEDGER_WELL || atomic_exchange(&watch->doubted, true)) return;
    thread_must(pthread_mutex_lock(&watch->lock));
    thread_must(pthread_cond_signal(&watch->wake));
    thread_must(pthread_mutex_unlock(&watch->lock));
}

void ledger_watch_line_in(struct ledger_watch *watch, struct watch_line *line, int fd)
{
    if (watch == NULL) return;
    thread_must(pthread_mutex_lock(&watch->lock));
    line->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    line->next = watch->lines;
    watch->lines = line;
    thread_must(pthread_mutex_unlock(&watch->lock));
}

void ledger_watch_line_out(struct ledger_watch *watch, struct watch_line *line)
{
    if (watch == NULL) return;
    thread_must(pthread_mutex_lock(&watch->lock));
    struct watch_line **at = &watch->lines;
    while (*at != NULL && *at != line) at = &(*at)->next;
    bool in = *at == line;
    if (in) *at = line->next;
    thread_must(pthread_mutex_unlock(&watch->lock));
    if (in && line->fd >= 0) close(line->fd);
}

static void hang_up(struct ledger_watch *watch)
{
    thread_must(pthread_mutex_lock(&watch->lock));
    for (struct watch_line *line = watch->ending ? watch->lines : NULL; line != NULL; line = line->next) {
        if (line->fd >= 0) shutdown(line->fd, SHUT_RDWR);
    }
    thread_must(pthread_mutex_unlock(&watch->lock));
}

void ledger_watch_end(struct ledger_watch *watch)
{
    if (watch == NULL) return;
    thread_must(pthread_mutex_lock(&watch->lock));
    watch->ending = true;
    thread_must(pthread_mutex_unlock(&watch->lock));
    if (ledger_watch_health(watch) >= LEDGER_GONE) hang_up(watch);
    ledger_watch_doubt(watch);
}

static void disconnect(struct ledger_watch *watch)
{
    if (watch->ledger != NULL) ledger_close(watch->ledger);
    watch->ledger = NULL;
}

/* Why it cannot be reached is said once, not with every probe. */
static bool reach(struct ledger_watch *watch)
{
    if (watch->ledger != NULL) return true;
    watch->place.quiet = ledger_watch_health(watch) != LEDGER_WELL;
    return ledger_open(&watch->ledger, &watch->place, LEDGER_WRITER) == FAULT_NONE;
}

/* The library counts in seconds, and begins again where it may. */
static bool answers(struct ledger_watch *watch)
{
    static const char question[] = "DO 1";
    if (!reach(watch)) return false;
    MYSQL *handle = &mysql_of(watch->ledger)->handle;
    struct pollfd line = { .fd = (int)mysql_get_socket(handle), .events = POLLIN };
    if (mysql_send_query(handle, question, sizeof(question) - 1) == 0 && poll(&line, 1, SILENCE_MS) == 1 &&
        mysql_read_query_result(handle) == 0)
        return true;
    disconnect(watch);
    return false;
}

/* One that lets nobody write takes nothing, whatever it answers: it was demoted, or its disk is full. */
static bool writes(struct ledger_watch *watch)
{
    enum fault fault = mysql_run(watch->ledger, "INSERT INTO fences VALUES ('watch', 1)"
                                                " ON DUPLICATE KEY UPDATE number = number + 1");
    if (fault == FAULT_NONE || fault == FAULT_TIMEOUT) return true; /* it waits for another: it is busy, and there */
    disconnect(watch);
    return false;
}

/* False: it is gone after all. */
static bool keeps(struct ledger_watch *watch, bool *out)
{
    const char *wrong = NULL;
    *out = true;
    if (watch->unsafe) return true;
    if (mysql_safety(watch->ledger, &wrong) != FAULT_NONE) {
        disconnect(watch);
        return false;
    }
    *out = wrong == NULL;
    if (wrong != NULL && ledger_watch_health(watch) != LEDGER_UNSAFE) mysql_safety_say(watch->ledger, wrong);
    return true;
}

static enum ledger_health probe_once(struct ledger_watch *watch, bool writing)
{
    bool kept;
    if (!answers(watch) || !keeps(watch, &kept)) return LEDGER_GONE;
    if (!kept) return LEDGER_UNSAFE;
    return !writing || writes(watch) ? LEDGER_WELL : LEDGER_READ_ONLY;
}

static enum ledger_health probe(struct ledger_watch *watch)
{
    bool writing = atomic_exchange(&watch->doubted, false) || ledger_watch_health(watch) != LEDGER_WELL;
    uint64_t began_ms = mono_ms();
    enum ledger_health health = probe_once(watch, writing);
    if (health == LEDGER_GONE && mono_ms() - began_ms < SILENCE_MS) health = probe_once(watch, true);
    return health == LEDGER_GONE && mono_ms() - began_ms >= SILENCE_MS ? LEDGER_SILENT : health;
}

static void health_set(struct ledger_watch *watch, enum ledger_health health)
{
    enum ledger_health before = ledger_watch_health(watch);
    uint64_t now_ms = mono_ms();
    atomic_store(&watch->health, health);
    if (health == before) {
        if (health == LEDGER_WELL) watch->since_ms = now_ms;
    } else if (health == LEDGER_WELL) {
        log_info("ledger", "%s takes orders again, after %" PRIu64 " ms", watch->place.name, now_ms - watch->since_ms);
        watch->since_ms = now_ms;
    } else {
        static const char *const words[] = { "", "lets nobody write", "may lose what it has committed", "is gone",
                                             "does not answer" };
        log_error("ledger", "%s %s: what needs it is refused until it is well again", watch->place.name, words[health]);
    }
}

/* False: it is over. */
static bool rest(struct ledger_watch *watch, uint64_t ms)
{
    uint64_t until_ms = mono_ms() + ms;
    struct timespec until = { (time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000 };
    int rc = 0;
    thread_must(pthread_mutex_lock(&watch->lock));
    while (!watch->stopping && !atomic_load(&watch->doubted) && rc == 0)
        rc = pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
    bool stopping = watch->stopping;
    thread_must(pthread_mutex_unlock(&watch->lock));
    return !stopping;
}

static void *watch_run(void *arg)
{
    struct ledger_watch *watch = arg;
    uint64_t pause_ms = PAUSE_MS_MIN;
    for (uint64_t ms = 0; rest(watch, ms);) {
        enum ledger_health health = probe(watch);
        health_set(watch, health);
        if (health >= LEDGER_GONE) hang_up(watch);
        ms = health == LEDGER_WELL ? ASK_MS : pause_ms;
        pause_ms = health == LEDGER_WELL ? PAUSE_MS_MIN : 2 * pause_ms < PAUSE_MS_MAX ? 2 * pause_ms : PAUSE_MS_MAX;
    }
    disconnect(watch);
    return NULL;
}

static void watch_free(struct ledger_watch *watch)
{
    thread_must(pthread_cond_destroy(&watch->wake));
    thread_must(pthread_mutex_destroy(&watch->lock));
    explicit_bzero(watch->place.password, sizeof(watch->place.password));
    free(watch);
}

enum fault ledger_watch_open(struct ledger_watch **out, struct ledger_place *place)
{
    pthread_condattr_t monotonic;
    *out = NULL;
    if (place->path != NULL) return FAULT_NONE;
    struct ledger_watch *watch = calloc(1, sizeof(*watch));
    if (watch == NULL) return FAULT_MEMORY;
    watch->place = *place;
    watch->place.watch = NULL;
    watch->unsafe = place->unsafe;
    watch->place.unsafe = true; /* the watch looks for itself, to say what it finds */
    watch->place.answer_s_max = ANSWER_S_MAX;
    watch->since_ms = mono_ms();
    thread_must(pthread_condattr_init(&monotonic));
    thread_must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
    thread_must(pthread_cond_init(&watch->wake, &monotonic));
    thread_must(pthread_condattr_destroy(&monotonic));
    thread_must(pthread_mutex_init(&watch->lock, NULL));
    if (pthread_create(&watch->thread, NULL, watch_run, watch) != 0) {
        watch_free(watch);
        return FAULT_MEMORY;
    }
    *out = place->watch = watch;
    return FAULT_NONE;
}

void ledger_watch_close(struct ledger_watch *watch)
{
    if (watch == NULL) return;
    thread_must(pthread_mutex_lock(&watch->lock));
    watch->stopping = true;
    thread_must(pthread_cond_signal(&watch->wake));
    thread_must(pthread_mutex_unlock(&watch->lock));
    thread_must(pthread_join(watch->thread, NULL));
    watch_free(watch);
}
