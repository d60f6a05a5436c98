/* What a sink says of each message when a broker takes only a part of them: Redis by the replies of a server that reads them
 * out, Kafka by the cluster that librdkafka mocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "publisher/sink.h"

#include <arpa/inet.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGES 3

static _Atomic bool closing;

/* A server of one connection that says what it has to say and then listens until the other side leaves. */
struct parrot {
    int fd;
    uint16_t port;
    const char *says;
    const char *then; /* what it says once it has heard of the last message; NULL: nothing */
    bool leaves;      /* after its last word */
    char heard[8192];
    size_t heard_len;
    pthread_t thread;
};

static void parrot_say(int fd, const char *text)
{
    size_t len = strlen(text);
    if (write(fd, text, len) != (ssize_t)len) perror("parrot");
}

static void *parrot_run(void *arg)
{
    struct parrot *parrot = arg;
    int fd = accept(parrot->fd, NULL, NULL);
    if (fd < 0) return NULL;
    const char *then = parrot->then;
    ssize_t got = 1;
    parrot_say(fd, parrot->says);
    if (then == NULL && parrot->leaves) shutdown(fd, SHUT_WR);
    while (got > 0) {
        got = read(fd, parrot->heard + parrot->heard_len, sizeof(parrot->heard) - 1 - parrot->heard_len);
        if (got > 0) parrot->heard_len += (size_t)got;
        parrot->heard[parrot->heard_len] = '\0';
        if (then == NULL || strstr(parrot->heard, "evt_2") == NULL) continue;
        parrot_say(fd, then);
        then = NULL;
        if (parrot->leaves) shutdown(fd, SHUT_WR);
    }
    close(fd);
    return NULL;
}

static void parrot_start(struct parrot *parrot, const char *says, const char *then, bool leaves)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    *parrot = (struct parrot){ .fd = socket(AF_INET, SOCK_STREAM, 0), .says = says, .then = then, .leaves = leaves };
    assert_int_equal(bind(parrot->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(parrot->fd, 1), 0);
    assert_int_equal(getsockname(parrot->fd, (struct sockaddr *)&address, &len), 0);
    parrot->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&parrot->thread, NULL, parrot_run, parrot), 0);
}

static void parrot_end(struct parrot *parrot)
{
    pthread_join(parrot->thread, NULL);
    close(parrot->fd);
}

static struct publish_place place_of(const char *url)
{
    struct publish_place place;
    char mistake[PUBLISH_MISTAKE_BYTES];
    assert_true(publish_place_parse(&place, slice_of(url), mistake));
    return place;
}

static void messages_make(struct sink_message messages[MESSAGES])
{
    for (int i = 0; i < MESSAGES; i++) {
        messages[i] = (struct sink_message){ .type = "order.won",
                                             .at_ms = 1700000000000,
                                             .body = SLICE("{\"a\":\"\r\n\"}") };
        snprintf(messages[i].id, sizeof(messages[i].id), "evt_%d", i);
        snprintf(messages[i].key, sizeof(messages[i].key), "%d", 100 + i);
    }
}

static bool messages_send(struct sink *sink, struct sink_message messages[MESSAGES])
{
    messages_make(messages);
    for (int i = 0; i < MESSAGES; i++) {
        if (!sink_send(sink, &messages[i])) return false;
    }
    return sink_confirm(sink, messages, MESSAGES);
}

/* What a Redis says to three XADDs, what becomes of each, and a word of why. */
static const struct {
    const char *says;
    bool leaves, good;
    enum sink_fate fates[MESSAGES];
    const char *error;
} redis_rows[] = {
    { "$3\r\n1-1\r\n$3\r\n1-2\r\n$3\r\n1-3\r\n", false, true, { SINK_CONFIRMED, SINK_CONFIRMED, SINK_CONFIRMED }, "" },
    { "$3\r\n1-1\r\n-OOM no memory\r\n$3\r\n1-3\r\n", false, false, { SINK_CONFIRMED, SINK_SENT, SINK_CONFIRMED }, "OOM" },
    { "-READONLY replica\r\n-READONLY replica\r\n-READONLY replica\r\n", false, false, { SINK_SENT }, "READONLY" },
    { "$3\r\n1-1\r\n", true, false, { SINK_CONFIRMED, SINK_SENT, SINK_SENT }, "closed" },
    { "$3\r\n1-1\r\n$-1\r\n$3\r\n1-3\r\n", false, false, { SINK_CONFIRMED, SINK_SENT, SINK_CONFIRMED }, "none to XADD" },
    { "$3\r\n1-1\r\nrubbish\r\n", false, false, { SINK_CONFIRMED, SINK_SENT, SINK_SENT }, "Protocol error" },
};

static void each_reply_of_redis_counts_for_its_own_entry(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof(redis_rows) / sizeof(redis_rows[0]); row++) {
        struct parrot parrot;
        parrot_start(&parrot, ":0\r\n", redis_rows[row].says, redis_rows[row].leaves);
        char url[64], error[SINK_ERROR_BYTES] = "";
        snprintf(url, sizeof(url), "redis://127.0.0.1:%u/orders?maxlen=9", (unsigned)parrot.port);
        const struct publish_place place = place_of(url);
        struct sink *sink = sink_open(&(struct sink_options){ &place, "", &closing }, error);
        if (sink == NULL) fail_msg("row %zu: %s", row, error);
        struct sink_message messages[MESSAGES];
        bool good = messages_send(sink, messages);
        if (good != redis_rows[row].good || strstr(sink->error, redis_rows[row].error) == NULL)
            fail_msg("row %zu: %s", row, sink->error);
        for (int i = 0; i < MESSAGES; i++) assert_int_equal(messages[i].fate, redis_rows[row].fates[i]);
        sink_close(sink);
        parrot_end(&parrot);
        assert_non_null(
            strstr(parrot.heard, "\r\nXADD\r\n$6\r\norders\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$1\r\n9\r\n$1\r\n*\r\n"));
        assert_non_null(strstr(parrot.heard, "$2\r\nid\r\n$5\r\nevt_0\r\n$3\r\nkey\r\n$3\r\n100\r\n"));
    }
}

static void a_redis_that_refuses_is_told_with_its_own_words(void **state)
{
    (void)state;
    static const char *const rows[][2] = { { "-WRONGPASS invalid username-password pair\r\n", "AUTH: WRONGPASS" },
                                           { "+OK\r\n-MOVED 3999 10.0.0.1:6381\r\n", "XLEN: MOVED" },
                                           { "+OK\r\n-LOADING Redis is loading\r\n", "XLEN: LOADING" } };
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        struct parrot parrot;
        parrot_start(&parrot, rows[row][0], NULL, false);
        char url[64], error[SINK_ERROR_BYTES] = "";
        snprintf(url, sizeof(url), "redis://ann@127.0.0.1:%u/orders", (unsigned)parrot.port);
        const struct publish_place place = place_of(url);
        assert_null(sink_open(&(struct sink_options){ &place, "hunter2", &closing }, error));
        if (strstr(error, rows[row][1]) == NULL) fail_msg("%s", error);
        assert_null(strstr(error, "hunter2"));
        parrot_end(&parrot);
        assert_non_null(strstr(parrot.heard, "$4\r\nAUTH\r\n$3\r\nann\r\n$7\r\nhunter2\r\n"));
    }
}

/* A user who may add entries and nothing else is good enough. */
static void a_redis_user_who_may_only_add_is_let_in(void **state)
{
    (void)state;
    struct parrot parrot;
    parrot_start(&parrot, "-NOPERM this user has no permissions to run the 'xlen' command\r\n", NULL, false);
    char url[64], error[SINK_ERROR_BYTES] = "";
    snprintf(url, sizeof(url), "redis://127.0.0.1:%u/orders", (unsigned)parrot.port);
    const struct publish_place place = place_of(url);
    struct sink *sink = sink_open(&(struct sink_options){ &place, "", &closing }, error);
    if (sink == NULL) fail_msg("%s", error);
    sink_close(sink);
    parrot_end(&parrot);
}

/* An AMQP server would begin with Connection.Start. */
static void a_broker_that_speaks_something_else_is_a_failure(void **state)
{
    (void)state;
    static const char *const schemes[][2] = { { "redis", "s" }, { "amqp", "?exchange=e" } };
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        struct parrot parrot;
        parrot_start(&parrot, "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n", NULL, true);
        char url[64], error[SINK_ERROR_BYTES] = "";
        snprintf(url, sizeof(url), "%s://127.0.0.1:%u/%s", schemes[i][0], (unsigned)parrot.port, schemes[i][1]);
        const struct publish_place place = place_of(url);
        assert_null(sink_open(&(struct sink_options){ &place, "", &closing }, error));
        assert_non_null(strstr(error, "127.0.0.1"));
        parrot_end(&parrot);
    }
}

struct cluster {
    rd_kafka_t *host;
    rd_kafka_mock_cluster_t *mock;
    char url[256];
};

static void cluster_start(struct cluster *cluster)
{
    char why[128];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "0", why, sizeof(why));
    cluster->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
    assert_non_null(cluster->host);
    cluster->mock = rd_kafka_mock_cluster_new(cluster->host, 1);
    assert_non_null(cluster->mock);
    rd_kafka_mock_topic_create(cluster->mock, "orders", 2, 1);
    snprintf(cluster->url, sizeof(cluster->url), "kafka://%s/orders", rd_kafka_mock_cluster_bootstraps(cluster->mock));
}

static void cluster_end(struct cluster *cluster)
{
    rd_kafka_mock_cluster_destroy(cluster->mock);
    rd_kafka_destroy(cluster->host);
}

static void kafka_confirms_what_it_has(void **state)
{
    (void)state;
    struct cluster cluster;
    cluster_start(&cluster);
    char error[SINK_ERROR_BYTES] = "";
    const struct publish_place place = place_of(cluster.url);
    struct sink *sink = sink_open(&(struct sink_options){ &place, "", &closing }, error);
    if (sink == NULL) fail_msg("%s", error);
    struct sink_message messages[MESSAGES];
    for (int round = 0; round < 3; round++) {
        if (!messages_send(sink, messages)) fail_msg("%s", sink->error);
        for (int i = 0; i < MESSAGES; i++) assert_int_equal(messages[i].fate, SINK_CONFIRMED);
    }
    sink_close(sink);
    cluster_end(&cluster);
}

/* Told to stop while the cluster is away, it neither waits nor counts anything as arrived. */
static void kafka_gives_up_what_is_under_way_when_the_server_stops(void **state)
{
    (void)state;
    struct cluster cluster;
    cluster_start(&cluster);
    char error[SINK_ERROR_BYTES] = "";
    const struct publish_place place = place_of(cluster.url);
    struct sink *sink = sink_open(&(struct sink_options){ &place, "", &closing }, error);
    if (sink == NULL) fail_msg("%s", error);
    rd_kafka_mock_broker_set_down(cluster.mock, 1);
    struct sink_message messages[MESSAGES];
    atomic_store(&closing, true);
    assert_false(messages_send(sink, messages));
    atomic_store(&closing, false);
    for (int i = 0; i < MESSAGES; i++) assert_int_equal(messages[i].fate, SINK_SENT);
    sink_close(sink);
    cluster_end(&cluster);
}

/* A broker that refuses one request for good: some arrive, some do not, and each message knows. */
static void kafka_says_which_message_was_refused(void **state)
{
    (void)state;
    struct cluster cluster;
    cluster_start(&cluster);
    char error[SINK_ERROR_BYTES] = "";
    const struct publish_place place = place_of(cluster.url);
    struct sink *sink = sink_open(&(struct sink_options){ &place, "", &closing }, error);
    if (sink == NULL) fail_msg("%s", error);
    struct sink_message messages[MESSAGES];
    messages_make(messages);
    assert_true(sink_send(sink, &messages[0]));
    assert_true(sink_confirm(sink, messages, 1));
    rd_kafka_mock_push_request_errors(cluster.mock, 0 /* Produce */, 1, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_true(sink_send(sink, &messages[1]));
    assert_false(sink_confirm(sink, &messages[1], 1));
    assert_int_equal(messages[0].fate, SINK_CONFIRMED);
    assert_int_equal(messages[1].fate, SINK_SENT);
    assert_non_null(strstr(sink->error, "uthorization"));
    sink_close(sink);
    cluster_end(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reply_of_redis_counts_for_its_own_entry),
        cmocka_unit_test(a_redis_that_refuses_is_told_with_its_own_words),
        cmocka_unit_test(a_redis_user_who_may_only_add_is_let_in),
        cmocka_unit_test(a_broker_that_speaks_something_else_is_a_failure),
        cmocka_unit_test(kafka_confirms_what_it_has),
        cmocka_unit_test(kafka_gives_up_what_is_under_way_when_the_server_stops),
        cmocka_unit_test(kafka_says_which_message_was_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
