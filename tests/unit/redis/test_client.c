/* The client against a server of this test, which answers as no real one would: too old, in rubbish, half, too much, or not
 * at all. What real servers do is tested end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "redis/redis.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define RUN_ID "0123456789012345678901234567890123456789"
#define CALLS 8
#define THREADS 4

/* One connection after the other: INFO is answered with the text, whatever comes then with the rest; "" is silence, NULL the
 * end of the connection. */
struct impostor {
    const char *version; /* NULL: not even INFO is answered */
    const char *rest;
    int listener;
    uint16_t port;
    pthread_t thread;
};

static void send_all(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void *impostor_run(void *arg)
{
    struct impostor *impostor = arg;
    char bytes[65536], info[512], text[256];
    int fd;
    snprintf(text, sizeof(text),
             "redis_version:%s\r\nredis_mode:standalone\r\nrun_id:" RUN_ID
             "\r\nmaxmemory_policy:noeviction\r\nloading:0\r\nrole:master\r\n",
             impostor->version != NULL ? impostor->version : "");
    snprintf(info, sizeof(info), "$%zu\r\n%s\r\n", strlen(text), text);
    while ((fd = accept(impostor->listener, NULL, NULL)) >= 0) {
        bool greeted = false;
        ssize_t got;
        while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
            bool pulse = greeted && strncmp(bytes, "*2\r\n$4\r\nINFO", 12) == 0;
            if (impostor->version == NULL || pulse) continue;
            if (!greeted)
                send_all(fd, info);
            else if (impostor->rest == NULL)
                break;
            else
                send_all(fd, impostor->rest);
            greeted = true;
        }
        close(fd);
    }
    return NULL;
}

static void impostor_open(struct impostor *impostor)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    impostor->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(impostor->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(impostor->listener, 64), 0);
    assert_int_equal(getsockname(impostor->listener, (struct sockaddr *)&address, &len), 0);
    impostor->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&impostor->thread, NULL, impostor_run, impostor), 0);
}

static void impostor_close(struct impostor *impostor)
{
    shutdown(impostor->listener, SHUT_RDWR);
    pthread_join(impostor->thread, NULL);
    close(impostor->listener);
}

/* A port that nobody listens on while the socket is open. */
static int port_take(uint16_t *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static struct redis *redis_at(uint16_t port, uint32_t in_flight_max)
{
    /* Also for a server whose thread has to wait for a core. */
    struct redis_options options = { .in_flight_max = in_flight_max, .call_ms = 2000, .connect_ms = 20000 };
    struct redis *redis;
    options.place = (struct redis_place){ .kind = REDIS_SINGLE, .seeds_count = 1 };
    options.place.seeds[0] = (struct redis_address){ .host = "127.0.0.1", .port = port };
    assert_int_equal(redis_open(&redis, &options), FAULT_NONE);
    return redis;
}

struct counted {
    uint32_t results[REDIS_UNKNOWN + 1], done;
};
struct counted_call {
    struct redis_call call;
    struct counted *counted;
};

static void counted_done(struct redis_call *call, const struct redis_reply *reply)
{
    struct counted *counted = ((struct counted_call *)call)->counted;
    bool with_reply = call->result <= REDIS_REFUSED;
    assert_int_equal(reply != NULL, with_reply);
    counted->results[call->result]++;
    counted->done++;
}

static const struct slice get[] = { { "GET", 3 }, { "a", 1 } };

/* Eight calls at once, on a loop of their own, until all are done. */
static struct counted calls_make(struct redis *redis, bool until_done)
{
    struct counted counted = { 0 };
    struct counted_call calls[CALLS];
    struct redis_client *client;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(redis_client_open(&client, redis, &loop), FAULT_NONE);
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct counted_call){ .counted = &counted };
        calls[i].call = (struct redis_call){ .script = REDIS_NO_SCRIPT, .argc = 2, .argv = get, .done = counted_done };
        redis_call(client, &calls[i].call);
    }
    while (until_done && counted.done < CALLS) uv_run(&loop, UV_RUN_ONCE);
    redis_client_close(client);
    assert_int_equal(counted.done, CALLS);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return counted;
}

static void where_nobody_is_calls_are_down_and_beyond_the_bound_busy(void **state)
{
    (void)state;
    uint16_t port;
    int fd = port_take(&port);
    struct redis *redis = redis_at(port, 5);
    struct counted counted = calls_make(redis, true);
    assert_int_equal(counted.results[REDIS_DOWN], 5);
    assert_int_equal(counted.results[REDIS_BUSY], 3);
    counted = calls_make(redis, false); /* closed with the calls under way */
    assert_int_equal(counted.results[REDIS_DOWN], 5);
    struct redis_status status;
    redis_status(redis, &status);
    assert_true(status.calls == 16 && status.down == 10 && status.busy == 6 && status.in_flight == 0 && !status.connected);
    char sentence[REDIS_SENTENCE_BYTES];
    assert_int_equal(redis_reach(redis, 100, sentence), FAULT_TIMEOUT);
    assert_non_null(
        strstr(sentence, "connection refused. Check that it runs there and is well, and the address in the URL;"));
    redis_close(redis);
    close(fd);
}

static void too_old_a_server_is_said_so_and_gets_no_call(void **state)
{
    (void)state;
    struct impostor impostor = { .version = "6.0.16", .rest = "" };
    char sentence[REDIS_SENTENCE_BYTES];
    impostor_open(&impostor);
    struct redis *redis = redis_at(impostor.port, 0);
    assert_int_equal(redis_reach(redis, 30000, sentence), FAULT_CONFIG);
    assert_non_null(strstr(sentence, "is version 6.0.16: 6.2 or later is needed."));
    assert_int_equal(calls_make(redis, true).results[REDIS_DOWN], CALLS);
    redis_close(redis);
    impostor_close(&impostor);
}

/* Whoever starts a server sees what it waits for. */
static void waiting_for_a_server_that_hangs_is_said(void **state)
{
    (void)state;
    static struct log_kept kept[LOG_KEPT];
    const struct log_ask ask = { .level = LOG_INFO, .max = LOG_KEPT };
    struct impostor impostor = { .version = NULL };
    char sentence[REDIS_SENTENCE_BYTES];
    bool said = false;
    impostor_open(&impostor);
    struct redis *redis = redis_at(impostor.port, 0);
    for (int tries = 0; tries < 5 && !said; tries++) { /* a machine that stands still may miss the moment for it */
        assert_int_equal(redis_reach(redis, 3500, sentence), FAULT_TIMEOUT);
        assert_non_null(strstr(sentence, "Redis does not answer. Check that it runs there and is well"));
        for (size_t i = log_tail(&ask, kept); i-- > 0;)
            said = said || strstr(kept[i].message, "Redis is not reached yet: waiting for it, ") != NULL;
    }
    assert_true(said);
    redis_close(redis);
    impostor_close(&impostor);
}

/* clang-format off */
static const struct { const char *what, *rest; uint32_t answered; } manners[] = {
    { "is silent",              "",                           0 },
    { "ends the connection",    NULL,                         0 },
    { "sends rubbish",          "HTTP/1.1 400 Bad\r\n\r\n",   0 },
    { "answers half",           "$1\r\nx\r\n$5\r\nab",        1 },
    { "answers rubbish later",  ":1\r\n:2\r\nx\r\n",          2 },
};
/* clang-format on */

static void what_was_sent_and_not_answered_is_unknown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
        struct impostor impostor = { .version = "7.0.0", .rest = manners[i].rest };
        impostor_open(&impostor);
        struct redis *redis = redis_at(impostor.port, 0);
        struct counted counted = calls_make(redis, true);
        if (counted.results[REDIS_ANSWERED] != manners[i].answered ||
            counted.results[REDIS_UNKNOWN] != CALLS - manners[i].answered) {
            fail_msg("%s: %u answered, %u unknown", manners[i].what, counted.results[REDIS_ANSWERED],
                     counted.results[REDIS_UNKNOWN]);
        }
        redis_close(redis);
        impostor_close(&impostor);
    }
}

/* What was answered stays so; what nobody asked ends the connection. */
static void answers_to_what_nobody_asked_are_not_taken(void **state)
{
    (void)state;
    struct impostor impostor = { .version = "7.0.0", .rest = ":1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n" };
    impostor_open(&impostor);
    struct redis *redis = redis_at(impostor.port, 0);
    assert_int_equal(calls_make(redis, true).results[REDIS_ANSWERED], CALLS);
    struct redis_status status;
    redis_status(redis, &status);
    assert_non_null(strstr(status.error, "it answered what nobody asked"));
    redis_close(redis);
    impostor_close(&impostor);
}

static void timer_over(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Nobody calls, and it is found all the same: whoever comes next need not wait to hear so. */
static void a_server_that_falls_silent_is_found_without_a_call(void **state)
{
    (void)state;
    struct impostor impostor = { .version = "7.0.0", .rest = "" };
    impostor_open(&impostor);
    struct redis *redis = redis_at(impostor.port, 0);
    struct redis_status status = { 0 };
    struct redis_client *client;
    uv_loop_t loop;
    uv_timer_t timer;
    bool over = false, reached = false;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(redis_client_open(&client, redis, &loop), FAULT_NONE);
    uv_timer_init(&loop, &timer);
    timer.data = &over;
    uv_timer_start(&timer, timer_over, 60000, 0);
    assert_true(redis_client_reaches(client, SLICE("a"))); /* nobody knows better */
    while (!over && strstr(status.error, "did not answer within") == NULL) {
        uv_run(&loop, UV_RUN_ONCE);
        reached = reached || redis_client_ready(client);
        redis_status(redis, &status);
    }
    assert_true(reached && !over);
    assert_false(redis_client_reaches(client, SLICE("a")));
    assert_int_equal(status.calls, 0);
    uv_close((uv_handle_t *)&timer, NULL);
    redis_client_close(client);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0) continue;
    assert_int_equal(uv_loop_close(&loop), 0);
    redis_close(redis);
    impostor_close(&impostor);
}

static void *thread_run(void *arg)
{
    for (int i = 0; i < 20; i++) calls_make(arg, true);
    return NULL;
}

static void several_loops_share_one_status(void **state)
{
    (void)state;
    struct impostor impostor = { .version = "7.0.0", .rest = NULL };
    impostor_open(&impostor);
    struct redis *redis = redis_at(impostor.port, 0);
    pthread_t threads[THREADS];
    struct redis_status status = { 0 };
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, thread_run, redis), 0);
    while (status.calls < THREADS * 20 * CALLS) redis_status(redis, &status);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    redis_status(redis, &status);
    assert_int_equal(status.calls, THREADS * 20 * CALLS);
    assert_int_equal(status.unknown + status.down, status.calls);
    assert_true(status.clients == 0 && status.in_flight == 0);
    redis_close(redis);
    impostor_close(&impostor);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_nobody_is_calls_are_down_and_beyond_the_bound_busy),
        cmocka_unit_test(too_old_a_server_is_said_so_and_gets_no_call),
        cmocka_unit_test(waiting_for_a_server_that_hangs_is_said),
        cmocka_unit_test(what_was_sent_and_not_answered_is_unknown),
        cmocka_unit_test(answers_to_what_nobody_asked_are_not_taken),
        cmocka_unit_test(a_server_that_falls_silent_is_found_without_a_call),
        cmocka_unit_test(several_loops_share_one_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
