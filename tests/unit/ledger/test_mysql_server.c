/* MySQL's driver and its watch against a server of this test, which does what no real one can be made to do at will: it
 * falls silent at a given question, and is two servers in turn.
 *
 * tidy: long because the server and all that it is asked are one. */
#include "base/clock.h"
#include "base/log.h"
#include "ledger/mysql.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PEERS_MAX 64
#define OPENS 8
#define USER_AT 36 /* in the packet of a login */
#define SAFETY "@@innodb_flush_log_at_trx_commit"
#define WRITE "INSERT INTO fences"
#define LOOK_MS 5

static struct impostor {
    int listener;
    pthread_t thread;
    struct {
        int fd; /* -1: it has gone */
        bool other;
        bool in_transaction;
    } peers[PEERS_MAX];
    unsigned count;
    _Atomic bool ending;
    /* What it is told to do. */
    const char *_Atomic mute_at;     /* a question that has this in it is not answered; NULL: each is */
    _Atomic bool unsafe_to_others;   /* who are called "other" */
    const char *_Atomic refuse_next; /* the lock of those who write, once, with this; and the transaction is rolled back */
    _Atomic bool unsafe_at_times;    /* every other time it is asked */
    _Atomic bool mysql;              /* it says that it is one, to those who come from now on */
    /* What it has seen. */
    _Atomic bool muted;
    _Atomic unsigned safety_asked, writes;
    _Atomic unsigned locks, locks_outside; /* of a transaction */
    const char *_Atomic bound;             /* for silence, that it was told last */
} impostor;

/* Seconds that nobody has to wait: where the server is mute all that is waited for it is skipped, here and in the library.
 */
static _Atomic bool skipping;
static _Thread_local bool waits_really; /* all the same */
static _Atomic uint64_t skipped_ms;
static _Atomic int waited_ms; /* what the first who met it mute was ready to wait; 0: nobody was */

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (syscall(SYS_clock_gettime, clock, out) != 0) return -1;
    uint64_t ms = clock == CLOCK_MONOTONIC ? atomic_load(&skipped_ms) : 0;
    uint64_t ns = (uint64_t)out->tv_nsec + ms % 1000 * 1000000;
    out->tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    out->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

/* By a clock that stands where that one stands. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    int64_t ms = (int64_t)until->tv_sec * 1000 + until->tv_nsec / 1000000 - (int64_t)atomic_load(&skipped_ms);
    struct timespec real = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };
    return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &real);
}

static int poll_once(struct pollfd *lines, nfds_t count, int ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000L };
    return ppoll(lines, count, ms < 0 ? NULL : &time, NULL);
}

int poll(struct pollfd *lines, nfds_t count, int ms)
{
    for (int left_ms = ms;;) {
        int step_ms = left_ms < 0 || left_ms > LOOK_MS ? LOOK_MS : left_ms;
        int rc = poll_once(lines, count, step_ms);
        if (rc != 0) return rc;
        if (atomic_load(&impostor.muted) && ms != 0) {
            atomic_compare_exchange_strong(&waited_ms, &(int){ 0 }, ms);
            if (atomic_load(&skipping) && !waits_really) {
                if (ms > 0) atomic_fetch_add(&skipped_ms, (uint64_t)ms);
                return 0;
            }
        }
        if (left_ms >= 0 && (left_ms -= step_ms) <= 0) return 0;
    }
}

static void packet_send(int fd, uint8_t number, const void *bytes, size_t len)
{
    uint8_t out[512] = { (uint8_t)len, (uint8_t)(len >> 8), 0, number };
    assert_true(len < sizeof(out) - 4);
    memcpy(out + 4, bytes, len);
    (void)send(fd, out, len + 4, MSG_NOSIGNAL); /* the other end may have lost patience */
}

static void greeting_send(int fd)
{
    static const char plugin[] = "mysql_native_password";
    const char *version = atomic_load(&impostor.mysql) ? "8.0.36" : "5.5.5-10.11.0-MariaDB";
    uint8_t out[128] = { 10 };
    size_t at = 1;
    memcpy(out + at, version, strlen(version) + 1);
    at += strlen(version) + 1 + 4;
    memset(out + at, 'x', 8); /* of the salt */
    at += 9;
    /* LONG_PASSWORD, FOUND_ROWS, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION; utf8mb4, autocommit;
     * PLUGIN_AUTH, and how long the salt is. */
    static const uint8_t flags[] = { 0x0b, 0xa2, 45, 2, 0, 0x08, 0, 21 };
    memcpy(out + at, flags, sizeof(flags));
    at += sizeof(flags) + 10;
    memset(out + at, 'x', 12);
    at += 13;
    memcpy(out + at, plugin, sizeof(plugin));
    packet_send(fd, 0, out, at + sizeof(plugin));
}

static void ok_send(int fd, uint8_t number)
{
    packet_send(fd, number, (uint8_t[]){ 0, 0, 0, 2, 0, 0, 0 }, 7);
}

/* A row of numbers of so many figures each. */
static void row_of(int fd, const char *figures, size_t width)
{
    static const uint8_t column[] = { 3, 'd', 'e', 'f', 0, 0, 0, 1, 'n', 0, 0x0c, 63, 0, 20, 0, 0, 0, 8, 0, 0, 0, 0, 0 };
    static const uint8_t end[] = { 0xfe, 0, 0, 2, 0 };
    uint8_t row[16], number = 1;
    size_t count = strlen(figures) / width, used = 0;
    packet_send(fd, number++, (uint8_t[]){ (uint8_t)count }, 1);
    for (size_t i = 0; i < count; i++) {
        packet_send(fd, number++, column, sizeof(column));
        row[used++] = (uint8_t)width;
        memcpy(row + used, figures + width * i, width);
        used += width;
    }
    packet_send(fd, number++, end, sizeof(end));
    packet_send(fd, number++, row, used);
    packet_send(fd, number, end, sizeof(end));
}

static void row_send(int fd, const char *figures)
{
    row_of(fd, figures, 1);
}

/* Of the parts of tables that are asked for all are there. */
static void parts_send(int fd, const char *question)
{
    char text[12];
    int count = 0;
    for (; (question = strstr(question, "('")) != NULL; question += 2) count++;
    row_of(fd, text, (size_t)snprintf(text, sizeof(text), "%d", count));
}

static void lock_send(unsigned peer)
{
    const char *refusal = atomic_exchange(&impostor.refuse_next, NULL);
    if (refusal != NULL) {
        impostor.peers[peer].in_transaction = false;
        packet_send(impostor.peers[peer].fd, 1, refusal, strlen(refusal));
        return;
    }
    atomic_fetch_add(impostor.peers[peer].in_transaction ? &impostor.locks : &impostor.locks_outside, 1);
    row_send(impostor.peers[peer].fd, "0");
}

static void safety_send(unsigned peer)
{
    unsigned asked = atomic_fetch_add(&impostor.safety_asked, 1);
    bool unsafe = (atomic_load(&impostor.unsafe_to_others) && impostor.peers[peer].other) ||
                  (atomic_load(&impostor.unsafe_at_times) && asked % 2 == 1);
    row_send(impostor.peers[peer].fd, unsafe ? "201" : "101");
}

/* One that has given up asks nothing any more, though its question is read only now. */
static bool peer_is_there(int fd)
{
    return recv(fd, &(char){ 0 }, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* For MariaDB and for MySQL: of one who writes, and of one who reads. */
static const char *const bounds[2][2] = {
    { "SET SESSION idle_transaction_timeout = 3", "SET SESSION idle_transaction_timeout = DEFAULT" },
    { "SET SESSION wait_timeout = 10", "SET SESSION wait_timeout = DEFAULT" },
};

static void bound_note(const char *question)
{
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(question, bounds[i / 2][i % 2]) == 0) atomic_store(&impostor.bound, bounds[i / 2][i % 2]);
    }
}

static void question_answer(unsigned peer, const char *question)
{
    bound_note(question);
    const char *mute_at = atomic_load(&impostor.mute_at);
    int fd = impostor.peers[peer].fd;
    if (mute_at != NULL && strstr(question, mute_at) != NULL)
        atomic_store(&impostor.muted, peer_is_there(fd));
    else if (strstr(question, SAFETY) != NULL)
        safety_send(peer);
    else if (strstr(question, "IN (('") != NULL)
        parts_send(fd, question);
    else if (strstr(question, "hooks_version") != NULL)
        lock_send(peer);
    else if (strstr(question, "information_schema") != NULL)
        row_send(fd, "91");
    else if (strstr(question, "FROM meta") != NULL)
        row_send(fd, (char[]){ '0' + MYSQL_SCHEMA_VERSION, '0', '1', '0', '\0' });
    else
        ok_send(fd, 1);
    if (strstr(question, WRITE) != NULL) atomic_fetch_add(&impostor.writes, 1);
    if (strcmp(question, "START TRANSACTION") == 0) impostor.peers[peer].in_transaction = true;
    if (strcmp(question, "COMMIT") == 0 || strcmp(question, "ROLLBACK") == 0) impostor.peers[peer].in_transaction = false;
}

/* One packet, which is small and comes at once; false: the peer has gone. */
static bool packet_take(unsigned peer)
{
    char bytes[16384];
    int fd = impostor.peers[peer].fd;
    ssize_t got = recv(fd, bytes, sizeof(bytes) - 1, 0);
    if (got < 5) return false;
    bytes[got] = '\0';
    if (bytes[3] != 0) {
        impostor.peers[peer].other = got > USER_AT && strcmp(bytes + USER_AT, "other") == 0;
        ok_send(fd, (uint8_t)(bytes[3] + 1));
        return true;
    }
    if (bytes[4] != COM_QUERY) return false;
    question_answer(peer, bytes + 5);
    return true;
}

static void peer_close(unsigned peer)
{
    close(impostor.peers[peer].fd);
    impostor.peers[peer].fd = -1;
}

static void *impostor_run(void *arg)
{
    (void)arg;
    while (!atomic_load(&impostor.ending)) {
        struct pollfd lines[PEERS_MAX + 1] = { { .fd = impostor.listener, .events = POLLIN } };
        unsigned count = impostor.count;
        for (unsigned i = 0; i < count; i++) lines[i + 1] = (struct pollfd){ .fd = impostor.peers[i].fd, .events = POLLIN };
        if (poll_once(lines, count + 1, LOOK_MS) <= 0) continue;
        for (unsigned i = 0; i < count; i++) {
            if (lines[i + 1].revents != 0 && !packet_take(i)) peer_close(i);
        }
        if (lines[0].revents != 0 && count < PEERS_MAX) {
            impostor.peers[count].fd = accept(impostor.listener, NULL, NULL);
            greeting_send(impostor.peers[count].fd);
            impostor.count++;
        }
    }
    for (unsigned i = 0; i < impostor.count; i++) {
        if (impostor.peers[i].fd >= 0) peer_close(i);
    }
    return NULL;
}

static int setup(void **state)
{
    static struct ledger_place place;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    char url[64], mistake[LEDGER_MISTAKE_BYTES];
    memset(&impostor, 0, sizeof(impostor));
    atomic_store(&skipping, false);
    atomic_store(&skipped_ms, 0);
    atomic_store(&waited_ms, 0);
    impostor.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(impostor.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(impostor.listener, PEERS_MAX), 0);
    assert_int_equal(getsockname(impostor.listener, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(pthread_create(&impostor.thread, NULL, impostor_run, NULL), 0);
    snprintf(url, sizeof(url), "mysql://shop@127.0.0.1:%u/x", (unsigned)ntohs(address.sin_port));
    assert_true(ledger_place_read(&place, slice_of(url), mistake));
    *state = &place;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    atomic_store(&impostor.ending, true);
    pthread_join(impostor.thread, NULL);
    close(impostor.listener);
    return 0;
}

/* Lines of this server that have the text in them. */
static unsigned lines_with(const struct ledger_place *place, const char *text)
{
    static struct log_kept kept[LOG_KEPT];
    const struct log_ask ask = { .level = LOG_DEBUG, .max = LOG_KEPT };
    unsigned count = 0;
    for (size_t i = log_tail(&ask, kept); i-- > 0;)
        count += strstr(kept[i].message, place->name) != NULL && strstr(kept[i].message, text) != NULL;
    return count;
}

static void moment(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000L }, NULL);
}

static struct ledger_watch *watch_open(struct ledger_place *place)
{
    struct ledger_watch *watch;
    assert_int_equal(ledger_watch_open(&watch, place), FAULT_NONE);
    while (atomic_load(&impostor.safety_asked) == 0) moment(); /* it is well */
    return watch;
}

/* Whichever question it is that is not answered. */
static void a_server_that_hangs_while_a_ledger_is_opened_is_said_and_given_up(void **state)
{
    struct ledger_place *place = *state;
    static const char *const questions[] = { "SET SESSION sql_mode", SAFETY };
    atomic_store(&skipping, true);
    for (unsigned i = 0; i < 2; i++) {
        struct ledger *ledger;
        atomic_store(&impostor.muted, false);
        atomic_store(&impostor.mute_at, questions[i]);
        uint64_t before_ms = atomic_load(&skipped_ms);
        unsigned said = lines_with(place, "s: waiting for it, ");
        assert_int_equal(ledger_open(&ledger, place, LEDGER_OWNER), FAULT_LEDGER);
        assert_true(atomic_load(&skipped_ms) - before_ms <= 10000);
        assert_in_range(lines_with(place, "s: waiting for it, ") - said, 1, 3);
        assert_int_equal(lines_with(place, "it has not answered in time (2013); check that the server there is well"),
                         i + 1);
    }
}

/* It reads all there is, and waits for each answer as long as that takes; but not for the first. */
static void also_one_who_is_patient_gives_up_a_server_that_never_answered(void **state)
{
    struct ledger_place *place = *state;
    struct ledger *ledger;
    place->patient = true;
    atomic_store(&skipping, true);
    atomic_store(&impostor.mute_at, "information_schema");
    assert_int_equal(ledger_open(&ledger, place, LEDGER_READER), FAULT_LEDGER);
    assert_int_equal(lines_with(place, "it has not answered in time (2013); check that the server there is well"), 1);
}

/* With it the transaction is gone, after a wait in vain where the server has innodb_rollback_on_timeout: the same lock taken
 * again would be that of nobody, and what follows would be committed piece by piece. */
static void a_first_lock_that_is_refused_is_taken_in_a_transaction_begun_again(void **state)
{
    struct ledger_place *place = *state;
    static const char *const refusals[] = { "\xff\xbd\x04#40001Deadlock found",               /* 1213 */
                                            "\xff\xb5\x04#HY000Lock wait timeout exceeded" }; /* 1205 */
    static const enum transaction kinds[] = { TRANSACTION_WRITE, TRANSACTION_FILE };
    struct ledger *ledger;
    assert_int_equal(ledger_open(&ledger, place, LEDGER_OWNER), FAULT_NONE);
    ledger_set_patience(ledger, UINT32_MAX);
    for (unsigned i = 0; i < 4; i++) {
        atomic_store(&impostor.refuse_next, refusals[i / 2]);
        assert_int_equal(ledger_begin(ledger, kinds[i % 2]), FAULT_NONE);
        assert_int_equal(atomic_load(&impostor.locks), i + 1);
        assert_int_equal(atomic_load(&impostor.locks_outside), 0);
        assert_int_equal(ledger_commit(ledger), FAULT_NONE);
    }
    ledger_set_patience(ledger, 0);
    atomic_store(&impostor.refuse_next, refusals[1]);
    assert_int_equal(ledger_begin(ledger, TRANSACTION_WRITE), FAULT_TIMEOUT);
    assert_int_equal(ledger_begin(ledger, TRANSACTION_WRITE), FAULT_NONE);
    ledger_undo(ledger);
    assert_int_equal(atomic_load(&impostor.locks_outside), 0);
    ledger_close(ledger);
}

/* Others wait for its locks. With the connection, of which MySQL says why it has ended it, the bound is gone. */
static void whoever_writes_may_not_be_silent_for_long(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct ledger *ledger;
        atomic_store(&impostor.mysql, i == 1);
        atomic_store(&impostor.bound, NULL);
        assert_int_equal(ledger_open(&ledger, *state, LEDGER_OWNER), FAULT_NONE);
        assert_int_equal(ledger_begin(ledger, TRANSACTION_READ), FAULT_NONE);
        assert_null(atomic_load(&impostor.bound));
        for (unsigned j = 0; j < 5; j++) {
            ledger_undo(ledger);
            assert_int_equal(ledger_begin(ledger, j % 2 == 0 ? TRANSACTION_FILE : TRANSACTION_READ), FAULT_NONE);
            assert_ptr_equal(atomic_load(&impostor.bound), bounds[i][j % 2]);
        }
        ledger_undo(ledger);
        atomic_store(&impostor.refuse_next, "\xff\xbf\x0f#HY000The client was disconnected"); /* 4031 */
        assert_int_equal(ledger_begin(ledger, TRANSACTION_WRITE), FAULT_LEDGER);
        atomic_store(&impostor.bound, NULL);
        assert_int_equal(ledger_begin(ledger, TRANSACTION_WRITE), FAULT_NONE);
        assert_ptr_equal(atomic_load(&impostor.bound), bounds[i][0]);
        ledger_close(ledger);
    }
}

static void the_watch_waits_a_second_for_each_answer(void **state)
{
    struct ledger_place *place = *state;
    struct ledger_watch *watch = watch_open(place);
    atomic_store(&impostor.mute_at, SAFETY);
    while (atomic_load(&waited_ms) == 0) moment();
    assert_in_range(atomic_load(&waited_ms), 1, 1000);
    while (ledger_watch_health(watch) != LEDGER_SILENT) moment();
    atomic_store(&impostor.mute_at, NULL);
    while (ledger_watch_health(watch) != LEDGER_WELL) moment();
    ledger_watch_close(watch);
}

/* Where this machine stood still the watch has found the server silent before, and nobody was asked. */
static void *ledger_ask(void *ledger)
{
    enum fault fault;
    waits_really = true;
    while ((fault = ledger_begin(ledger, TRANSACTION_READ)), !atomic_load(&impostor.muted)) moment();
    return (void *)(intptr_t)fault;
}

/* Somebody waits for an answer on the connection that was there before the watch, without an end of their own. */
static void a_start_is_not_kept_waiting_by_a_server_that_falls_silent(void **state)
{
    struct ledger_place *place = *state;
    struct ledger *ledger;
    pthread_t asker;
    void *fault;
    place->patient = true;
    assert_int_equal(ledger_open(&ledger, place, LEDGER_OWNER), FAULT_NONE);
    struct ledger_watch *watch = watch_open(place);
    ledger_watch_adopt(watch, ledger);
    atomic_store(&impostor.mute_at, "SET TRANSACTION");
    assert_int_equal(pthread_create(&asker, NULL, ledger_ask, ledger), 0);
    while (!atomic_load(&impostor.muted)) moment();
    atomic_store(&impostor.mute_at, ""); /* whatever it is asked */
    atomic_store(&skipping, true);
    pthread_join(asker, &fault);
    assert_int_not_equal((enum fault)(intptr_t)fault, FAULT_NONE);
    assert_int_equal(ledger_watch_health(watch), LEDGER_SILENT);
    ledger_close(ledger);
    ledger_watch_close(watch);
}

/* As behind a proxy: the watch has the good one, and all others get the other. */
static void what_every_connection_finds_is_said_once_and_asked_about_with_pauses(void **state)
{
    struct ledger_place *place = *state;
    uint64_t began_ms = mono_ms();
    struct ledger_watch *watch = watch_open(place);
    atomic_store(&impostor.unsafe_to_others, true);
    snprintf(place->user, sizeof(place->user), "other");
    for (int i = 0; i < OPENS; i++) {
        struct ledger *ledger;
        unsigned asked = atomic_load(&impostor.writes);
        while (ledger_watch_health(watch) != LEDGER_WELL) moment(); /* else no doubt is heard */
        assert_int_equal(ledger_open(&ledger, place, LEDGER_WRITER), FAULT_TIMEOUT);
        while (atomic_load(&impostor.writes) == asked) moment(); /* its doubt has been heard */
    }
    uint64_t took_ms = mono_ms() - began_ms;
    assert_true(took_ms >= (OPENS - 1) * 100);
    assert_true(lines_with(place, "may lose what it has committed: set innodb") <= 1 + took_ms / 10000);
    ledger_watch_close(watch);
}

/* Before it is believed it must have been safe for three seconds. */
static void one_that_is_unsafe_at_times_is_unsafe(void **state)
{
    struct ledger_place *place = *state;
    struct ledger_watch *watch = watch_open(place);
    uint64_t began_ms = mono_ms();
    atomic_store(&impostor.unsafe_at_times, true);
    unsigned asked = atomic_load(&impostor.safety_asked);
    while (atomic_load(&impostor.safety_asked) < asked + 6) moment();
    ledger_watch_close(watch);
    /* A machine that stood still may have made it silent for a moment. */
    unsigned still = lines_with(place, "does not answer") + lines_with(place, "is gone");
    unsigned again = lines_with(place, "takes orders again"), turns = 1 + again + still;
    assert_true(again <= still + (mono_ms() - began_ms) / 3000);
    assert_in_range(lines_with(place, "may lose what it has committed: set innodb"), 1, turns);
    assert_in_range(lines_with(place, "may lose what it has committed: what needs it is refused"), 1, turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_server_that_hangs_while_a_ledger_is_opened_is_said_and_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(also_one_who_is_patient_gives_up_a_server_that_never_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(a_first_lock_that_is_refused_is_taken_in_a_transaction_begun_again, setup, teardown),
        cmocka_unit_test_setup_teardown(whoever_writes_may_not_be_silent_for_long, setup, teardown),
        cmocka_unit_test_setup_teardown(the_watch_waits_a_second_for_each_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_start_is_not_kept_waiting_by_a_server_that_falls_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(what_every_connection_finds_is_said_once_and_asked_about_with_pauses, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_that_is_unsafe_at_times_is_unsafe, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
