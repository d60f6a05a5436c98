/* Whose time is over, also while a call holds the connection (WAIT), against a server of this test, by a clock that it sets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/client.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define RUN_ID "0123456789012345678901234567890123456789"
#define INFO                                                                                                                \
    "redis_version:7.0.0\r\nredis_mode:standalone\r\nrun_id:" RUN_ID "\r\n"                                                 \
    "maxmemory_policy:noeviction\r\nloading:0\r\n" REPLICATION("a")
#define REPLICATION(letter) "role:master\r\nmaster_replid:" letter "123456789012345678901234567890123456789\r\n"
#define CALLS_MAX 6
#define CALL_MS 1000
#define BEGIN_MS 1000000
#define TURN_MS (2 * WHEEL_TICK_MS)

/* In place of libuv's, for our own code alone: its timers go on by real time, which here only makes the client look. */
static uint64_t clock_ms = BEGIN_MS;
uint64_t uv_now(const uv_loop_t *loop)
{
    (void)loop;
    return clock_ms;
}
uint64_t uv_hrtime(void)
{
    return clock_ms * 1000000;
}

struct held_call {
    struct redis_call call;
    bool done;
};

static struct stand {
    uv_loop_t loop;
    uv_timer_t timer;
    struct redis *redis;
    struct redis_client *client;
    int listener, peer; /* of the server */
    char owed[64];      /* what it has been asked and has not answered: c a call, p a pulse */
    const char *replication;
    struct held_call calls[CALLS_MAX];
    uint32_t count;
} stand;

static void timer_over(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* The client looks at its deadlines, if it has any, at least twice: one look may be left out after a leap of the clock. */
static void look(void)
{
    for (int i = 0; i < 3; i++) {
        bool over = false;
        stand.timer.data = &over;
        uv_timer_start(&stand.timer, timer_over, TURN_MS, 0);
        while (!over) uv_run(&stand.loop, UV_RUN_ONCE);
    }
}

static void send_all(const char *text)
{
    assert_int_equal(send(stand.peer, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void text_send(const char *text)
{
    char bulk[512];
    snprintf(bulk, sizeof(bulk), "$%zu\r\n%s\r\n", strlen(text), text);
    send_all(bulk);
}

static void owed_read(void)
{
    char bytes[4096];
    ssize_t got = recv(stand.peer, bytes, sizeof(bytes) - 1, MSG_DONTWAIT);
    size_t count = strlen(stand.owed);
    bytes[got > 0 ? got : 0] = '\0';
    for (const char *command = bytes; (command = strchr(command, '*')) != NULL; command++) {
        assert_true(count + 1 < sizeof(stand.owed));
        stand.owed[count++] = strncmp(command, "*2\r\n$4\r\nINFO", 12) == 0 ? 'p' : 'c';
        stand.owed[count] = '\0';
    }
}

static void owed_strike(void)
{
    assert_true(stand.owed[0] != '\0');
    memmove(stand.owed, stand.owed + 1, strlen(stand.owed));
}

/* The client asks again and again whether the server is there, and the same: that is answered when it is its turn. */
static void pulses_answer(void)
{
    owed_read();
    for (; stand.owed[0] == 'p'; owed_strike()) text_send(stand.replication);
    look();
}

/* To the oldest call. */
static void number_send(const char *number)
{
    pulses_answer();
    assert_int_equal(stand.owed[0], 'c');
    owed_strike();
    send_all(number);
}

/* So long after the beginning. */
static void at(uint64_t ms)
{
    pulses_answer();
    assert_true(clock_ms <= BEGIN_MS + ms);
    clock_ms = BEGIN_MS + ms;
    look();
}

static void call_done(struct redis_call *call, const struct redis_reply *reply)
{
    (void)reply;
    ((struct held_call *)call)->done = true;
}

enum manner { PLAIN, HOLDS, LENIENT, FRESH };
/* Its number. */
static uint32_t call_make(enum manner manner, uint32_t time_ms)
{
    static const struct slice words[] = { { "GET", 3 }, { "WAIT", 4 }, { "SPARE", 5 }, { "PING", 4 } };
    struct held_call *made = &stand.calls[stand.count];
    assert_true(stand.count < CALLS_MAX);
    *made = (struct held_call){ .call = { .script = REDIS_NO_SCRIPT,
                                          .argc = 1,
                                          .argv = &words[manner],
                                          .time_ms = time_ms,
                                          .holds = manner == HOLDS,
                                          .lenient = manner == LENIENT,
                                          .fresh = manner == FRESH,
                                          .done = call_done } };
    redis_call(stand.client, &made->call);
    look(); /* it has left */
    pulses_answer();
    return stand.count++;
}

static bool waits(uint32_t number)
{
    return !stand.calls[number].done;
}

static void answer(uint32_t number)
{
    assert_true(waits(number));
    number_send(":1\r\n");
    while (waits(number)) uv_run(&stand.loop, UV_RUN_ONCE);
    assert_int_equal(stand.calls[number].call.result, REDIS_ANSWERED);
}

static void is_unknown(uint32_t number)
{
    assert_false(waits(number));
    assert_int_equal(stand.calls[number].call.result, REDIS_UNKNOWN);
}

static int setup(void **state)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    struct redis_options options = { .call_ms = CALL_MS, .connect_ms = 60000 };
    (void)state;
    memset(&stand, 0, sizeof(stand));
    clock_ms = BEGIN_MS;
    stand.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(stand.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(stand.listener, 8), 0);
    assert_int_equal(getsockname(stand.listener, (struct sockaddr *)&address, &len), 0);
    options.place = (struct redis_place){ .kind = REDIS_SINGLE, .seeds_count = 1 };
    options.place.seeds[0] = (struct redis_address){ .host = "127.0.0.1", .port = ntohs(address.sin_port) };
    assert_int_equal(uv_loop_init(&stand.loop), 0);
    uv_timer_init(&stand.loop, &stand.timer);
    assert_int_equal(redis_open(&stand.redis, &options), FAULT_NONE);
    assert_int_equal(redis_client_open(&stand.client, stand.redis, &stand.loop), FAULT_NONE);
    stand.peer = accept(stand.listener, NULL, NULL);
    look(); /* INFO has left */
    owed_read();
    owed_strike();
    stand.replication = REPLICATION("a");
    text_send(INFO);
    while (!redis_client_ready(stand.client)) uv_run(&stand.loop, UV_RUN_ONCE);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    redis_client_close(stand.client);
    uv_close((uv_handle_t *)&stand.timer, NULL);
    while (uv_run(&stand.loop, UV_RUN_DEFAULT) != 0) continue;
    assert_int_equal(uv_loop_close(&stand.loop), 0);
    redis_close(stand.redis);
    close(stand.peer);
    close(stand.listener);
    return 0;
}

static void who_stands_behind_nobody_has_their_time_and_no_more(void **state)
{
    (void)state;
    uint32_t get = call_make(PLAIN, CALL_MS);
    at(980);
    assert_true(waits(get));
    at(1020);
    is_unknown(get);
}

/* A server that is slow with one thing could have answered the next: only WAIT keeps it from that. */
static void who_stands_behind_one_that_does_not_hold_has_no_more_either(void **state)
{
    (void)state;
    uint32_t slow = call_make(PLAIN, 5000), get = call_make(PLAIN, CALL_MS);
    at(980);
    assert_true(waits(slow) && waits(get));
    at(1020);
    is_unknown(get);
    is_unknown(slow);
}

static void who_was_sent_before_a_wait_has_ended_has_their_time_from_then(void **state)
{
    (void)state;
    uint32_t wait = call_make(HOLDS, 5000), get = call_make(PLAIN, CALL_MS);
    at(500);
    uint32_t later = call_make(PLAIN, CALL_MS);
    at(3000);
    assert_true(waits(get) && waits(later));
    answer(wait);
    at(3980);
    assert_true(waits(get) && waits(later));
    answer(get);
    at(4020);
    is_unknown(later);
}

static void who_is_sent_after_it_has_their_time_as_ever(void **state)
{
    (void)state;
    uint32_t wait = call_make(HOLDS, 5000);
    at(500);
    answer(wait);
    uint32_t get = call_make(PLAIN, CALL_MS);
    at(600);
    uint32_t later = call_make(PLAIN, CALL_MS);
    at(1480);
    answer(get);
    at(1580);
    assert_true(waits(later));
    at(1620);
    is_unknown(later);
}

/* Each has its own time after the one before it. */
static void waits_in_a_row_are_late_one_after_the_other(void **state)
{
    (void)state;
    uint32_t first = call_make(HOLDS, 1500), second = call_make(HOLDS, 1500), third = call_make(HOLDS, 1500),
             get = call_make(PLAIN, CALL_MS);
    at(1400);
    answer(first);
    at(2880);
    assert_true(waits(second) && waits(third) && waits(get));
    answer(second);
    at(4360);
    assert_true(waits(third) && waits(get));
    answer(third);
    at(5340);
    answer(get);
}

static void a_wait_that_is_late_itself_takes_those_behind_it_along(void **state)
{
    (void)state;
    uint32_t first = call_make(HOLDS, 1500), second = call_make(HOLDS, 1500), get = call_make(PLAIN, CALL_MS);
    at(1400);
    answer(first);
    uint32_t later = call_make(PLAIN, CALL_MS);
    at(2880);
    assert_true(waits(second) && waits(get) && waits(later));
    at(2920);
    is_unknown(second);
    is_unknown(get);
    is_unknown(later);
}

/* It is over in its own time, longer than that of others though it is, and costs nobody the connection. */
static void who_is_lenient_is_over_and_the_connection_stays(void **state)
{
    (void)state;
    uint32_t wait = call_make(HOLDS, 5000), spare = call_make(LENIENT, 1500), get = call_make(PLAIN, CALL_MS);
    at(1520);
    is_unknown(spare);
    at(4000);
    answer(wait);
    number_send(":2\r\n"); /* for nobody any more */
    answer(get);
    assert_int_equal(stand.calls[get].call.connection, stand.calls[wait].call.connection);
}

/* No call waits any more, and whoever comes next need not wait to hear so. */
static void a_server_that_owes_an_answer_to_nobody_is_found_silent(void **state)
{
    (void)state;
    uint32_t spare = call_make(LENIENT, 500);
    at(520);
    is_unknown(spare);
    assert_true(redis_client_reaches(stand.client, SLICE("a")));
    for (uint64_t ms = 600; redis_client_reaches(stand.client, SLICE("a")); ms += 100) {
        assert_true(ms < 5000);
        at(ms);
    }
}

/* Its data may be others: what was asked of those it had is known to nobody. */
static void a_server_with_another_replication_id_is_left_and_greeted_anew(void **state)
{
    (void)state;
    uint32_t first = call_make(PLAIN, CALL_MS);
    answer(first);
    assert_string_equal(stand.calls[first].call.lineage, RUN_ID "-a123456789012345678901234567890123456789");
    stand.replication = REPLICATION("b");
    uint32_t get = call_make(PLAIN, 60000);
    for (uint64_t ms = 200; stand.owed[1] == '\0'; ms += 200) {
        assert_true(ms < 5000);
        at(ms);
    }
    owed_strike();
    send_all(":1\r\n");
    uint32_t behind = call_make(PLAIN, 60000);
    assert_false(waits(get));
    is_unknown(behind);
    assert_false(redis_client_ready(stand.client));
}

/* One that is called fresh brings a pulse before it. */
static void who_wants_to_be_sure_of_the_lineage_has_it_looked_at_first(void **state)
{
    (void)state;
    uint32_t sure = call_make(FRESH, CALL_MS);
    answer(sure);
    stand.replication = REPLICATION("b");
    sure = call_make(FRESH, CALL_MS);
    is_unknown(sure);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_stands_behind_nobody_has_their_time_and_no_more, setup, teardown),
        cmocka_unit_test_setup_teardown(who_stands_behind_one_that_does_not_hold_has_no_more_either, setup, teardown),
        cmocka_unit_test_setup_teardown(who_was_sent_before_a_wait_has_ended_has_their_time_from_then, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_sent_after_it_has_their_time_as_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_in_a_row_are_late_one_after_the_other, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wait_that_is_late_itself_takes_those_behind_it_along, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_lenient_is_over_and_the_connection_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_with_another_replication_id_is_left_and_greeted_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(who_wants_to_be_sure_of_the_lineage_has_it_looked_at_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_that_owes_an_answer_to_nobody_is_found_silent, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
