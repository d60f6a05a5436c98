#include "ledger/watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "ledger/mysql.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ASK_MS 500
/* Between two probes while it is away. */
#define PAUSE_MS_MIN 100
#define PAUSE_MS_MAX 400
/* No answer for so long: it hangs. What failed sooner is the loss of one connection, and another may do better. */
#define SILENCE_MS 1000
/* To connect, in all, and to write, which may wait a second for a lock; a database that wakes up takes whoever waits for it.
 */
#define ANSWER_S_MAX 3
/* A start waits so long for one that is away, and for the probe that is under way then. */
#define START_MS_MAX 8000
/* For so long it must have kept what it commits. */
#define SAFE_MS_MIN 3000

#define SAID_MAX 8
#define SAID_AGAIN_MS 10000
struct watch_said {
    uint64_t at_ms;
    char sentence[LEDGER_SENTENCE_BYTES];
};

struct ledger_watch {
    struct ledger_place place; /* without the watch, which would stand in its own way */
    bool unsafe;               /* it may lose what it has committed: the operator has allowed it */
    struct ledger *ledger;     /* NULL: not connected */
    pthread_t thread;
    _Atomic enum ledger_health health;
    _Atomic bool doubted;
    uint64_t since_ms;  /* it was well last */
    uint64_t unsafe_ms; /* it was found unsafe last; 0: never */

    pthread_mutex_t lock; /* of these */
    pthread_cond_t wake;
    bool started, ending, stopping;
    struct watch_line *lines;
    struct watch_said said[SAID_MAX];
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

/* Whether it was said a short while ago; if not, it is now. Under the lock. */
static bool sentence_known(struct ledger_watch *watch, const char *sentence)
{
    uint64_t now_ms = mono_ms();
    struct watch_said *oldest = &watch->said[0];
    for (size_t i = 0; i < SAID_MAX; i++) {
        struct watch_said *said = &watch->said[i];
        if (strcmp(said->sentence, sentence) == 0 && now_ms - said->at_ms < SAID_AGAIN_MS) return true;
        if (said->at_ms < oldest->at_ms) oldest = said;
    }
    oldest->at_ms = now_ms;
    snprintf(oldest->sentence, sizeof(oldest->sentence), "%s", sentence);
    return false;
}

void ledger_watch_say(struct ledger_watch *watch, const char *sentence)
{
    bool known = false;
    if (watch != NULL) {
        thread_must(pthread_mutex_lock(&watch->lock));
        known = sentence_known(watch, sentence);
        thread_must(pthread_mutex_unlock(&watch->lock));
    }
    if (!known) log_error("ledger", "%s", sentence);
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

void ledger_watch_adopt(struct ledger_watch *watch, struct ledger *ledger)
{
    if (watch == NULL) return;
    struct mysql_connection *connection = mysql_of(ledger);
    ledger->place.watch = watch;
    ledger_watch_line_in(watch, &connection->line, (int)mysql_get_socket(&connection->handle));
}

/* Of one that is away; by the thread of the watch, or once it is ending. */
static void hang_up(struct ledger_watch *watch)
{
    thread_must(pthread_mutex_lock(&watch->lock));
    bool due = watch->ending || (!watch->started && mono_ms() - watch->since_ms >= START_MS_MAX);
    for (struct watch_line *line = due ? watch->lines : NULL; line != NULL; line = line->next) {
        if (line->fd >= 0) shutdown(line->fd, SHUT_RDWR);
    }
    thread_must(pthread_mutex_unlock(&watch->lock));
}

void ledger_watch_started(struct ledger_watch *watch)
{
    if (watch == NULL) return;
    thread_must(pthread_mutex_lock(&watch->lock));
    watch->started = true;
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

static bool answers(struct ledger_watch *watch)
{
    static const char question[] = "DO 1";
    if (!reach(watch)) return false;
    mysql_patience_begin(SILENCE_MS, NULL);
    bool answered = mysql_real_query(&mysql_of(watch->ledger)->handle, question, sizeof(question) - 1) == 0;
    mysql_patience_end();
    if (!answered) disconnect(watch);
    return answered;
}

/* One that lets nobody write takes nothing, whatever it answers: it was demoted, or its disk is full. */
static bool writes(struct ledger_watch *watch)
{
    mysql_patience_begin(1000 * ANSWER_S_MAX, NULL);
    enum fault fault = mysql_run(watch->ledger, "INSERT INTO fences (job, number) VALUES ('watch', 1)"
                                                " ON DUPLICATE KEY UPDATE number = number + 1");
    mysql_patience_end();
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
    mysql_patience_begin(SILENCE_MS, NULL);
    enum fault fault = mysql_safety(watch->ledger, &wrong);
    mysql_patience_end();
    if (fault != FAULT_NONE) {
        disconnect(watch);
        return false;
    }
    if (wrong != NULL && ledger_watch_health(watch) != LEDGER_UNSAFE) mysql_safety_say(watch->ledger, wrong);
    if (wrong != NULL) watch->unsafe_ms = mono_ms();
    *out = watch->unsafe_ms == 0 || mono_ms() - watch->unsafe_ms >= SAFE_MS_MIN;
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

/* Under the lock. */
static void sleep_until(struct ledger_watch *watch, uint64_t until_ms, bool doubts_wake)
{
    struct timespec until = { (time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000 };
    int rc = 0;
    while (!watch->stopping && !(doubts_wake && atomic_load(&watch->doubted)) && rc == 0)
        rc = pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
}

/* Whoever doubts is heard at once, but where each of many connections doubts that is no reason to ask without a pause.
 * False: it is over. */
static bool rest(struct ledger_watch *watch, uint64_t ms)
{
    uint64_t began_ms = mono_ms();
    thread_must(pthread_mutex_lock(&watch->lock));
    sleep_until(watch, began_ms + (ms < PAUSE_MS_MIN ? ms : PAUSE_MS_MIN), false);
    sleep_until(watch, began_ms + ms, true);
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
