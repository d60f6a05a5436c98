/* The URL of the operator's queue: strict, and a mistake is a sentence that never shows what was written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/publish.h"

#include <stdio.h>
#include <string.h>

static struct publish_place place_of(const char *text)
{
    struct publish_place place;
    char mistake[PUBLISH_MISTAKE_BYTES] = "";
    if (!publish_place_parse(&place, slice_of(text), mistake)) fail_msg("%s: %s", text, mistake);
    return place;
}

static void off_is_no_place(void **state)
{
    (void)state;
    assert_int_equal(place_of("off").kind, PUBLISH_OFF);
}

static void a_redis_url_has_a_stream_and_perhaps_its_length(void **state)
{
    (void)state;
    struct publish_place place = place_of("redis://127.0.0.1:6390/shop:orders");
    assert_int_equal(place.kind, PUBLISH_REDIS);
    assert_string_equal(place.host, "127.0.0.1");
    assert_int_equal(place.port, 6390);
    assert_string_equal(place.name, "shop:orders");
    assert_string_equal(place.user, "");
    assert_int_equal(place.length_max, 0);

    place = place_of("redis://pub%40shop@redis.example/or%2fders?maxlen=100000");
    assert_string_equal(place.user, "pub@shop");
    assert_string_equal(place.host, "redis.example");
    assert_int_equal(place.port, 6379);
    assert_string_equal(place.name, "or/ders");
    assert_int_equal(place.length_max, 100000);
    assert_string_equal(place_of("redis://[::1]:7000/s").host, "::1");
    assert_int_equal(place_of("redis://[::1]:7000/s").port, 7000);
    assert_int_equal(place_of("redis://[2001:db8::1]/s").port, 6379);
}

static void an_amqp_url_names_an_exchange_or_a_queue(void **state)
{
    (void)state;
    struct publish_place place = place_of("amqp://shop@rabbit:5673/live?exchange=orders&routing_key=all");
    assert_int_equal(place.kind, PUBLISH_AMQP);
    assert_string_equal(place.user, "shop");
    assert_int_equal(place.port, 5673);
    assert_string_equal(place.name, "live");
    assert_string_equal(place.exchange, "orders");
    assert_string_equal(place.routing_key, "all");
    assert_false(place.unrouted_dropped);

    place = place_of("amqp://rabbit?exchange=orders&mandatory=off");
    assert_string_equal(place.name, "/");
    assert_string_equal(place.routing_key, "");
    assert_int_equal(place.port, 5672);
    assert_true(place.unrouted_dropped);
    assert_string_equal(place_of("amqp://rabbit/?routing_key=q").name, "/");
    assert_string_equal(place_of("amqp://rabbit/%2f?routing_key=q").name, "/");
}

static void a_kafka_url_has_brokers_and_a_topic(void **state)
{
    (void)state;
    struct publish_place place = place_of("kafka://one:9093,two,[::1]:9094/shop.orders");
    assert_int_equal(place.kind, PUBLISH_KAFKA);
    assert_string_equal(place.servers, "one:9093,two:9092,[::1]:9094");
    assert_string_equal(place.name, "shop.orders");
}

/* What is wrong, and a word of the sentence that says so. */
static const struct {
    const char *text, *says;
} wrong[] = {
    { "", "it is off" },
    { "on", "it is off" },
    { "OFF", "it is off" },
    { "http://host/x", "it is off" },
    { "redis:/host/x", "it is off" },
    { "redis", "it is off" },
    { "rediss://host/x", "it is off" },
    { "redis://", "a host and a port" },
    { "redis:///stream", "a host and a port" },
    { "redis://host:0/stream", "a host and a port" },
    { "redis://host:65536/stream", "a host and a port" },
    { "redis://host:/stream", "a host and a port" },
    { "redis://host:6379x/stream", "a host and a port" },
    { "redis://ho st/stream", "a host and a port" },
    { "redis://::1/stream", "a host and a port" },
    { "redis://[::1/stream", "a host and a port" },
    { "redis://[::1]x/stream", "a host and a port" },
    { "redis://[::1]:/stream", "a host and a port" },
    { "redis://host,other/stream", "a host and a port" },
    { "redis://host", "the stream" },
    { "redis://host/", "the stream" },
    { "redis://host/a%zz", "the stream" },
    { "redis://host/a%2", "the stream" },
    { "redis://host/a%00b", "the stream" },
    { "redis://host/a%ff", "the stream" },
    { "redis://host/a#b", "%23" },
    { "redis://@host/stream", "the user" },
    { "redis://host/stream?maxlen=0", "maxlen=N" },
    { "redis://host/stream?maxlen=-1", "maxlen=N" },
    { "redis://host/stream?maxlen=18446744073709551615", "maxlen=N" },
    { "redis://host/stream?length=5", "maxlen=N" },
    { "redis://host/stream?exchange=e", "maxlen=N" },
    { "redis://user:hunter2@host/stream", "publish_password_file" },
    { "redis://:hunter2@host/stream", "publish_password_file" },
    { "amqp://user:hunter2@host/?exchange=e", "publish_password_file" },
    { "amqp://host/vhost", "?exchange=NAME" },
    { "amqp://host/vhost?mandatory=off", "?exchange=NAME" },
    { "amqp://host/vhost?exchange=", "exchange=NAME" },
    { "amqp://host/vhost?exchange=e&mandatory=no", "mandatory=on or off" },
    { "amqp://host/vhost?exchange=e&maxlen=5", "mandatory=on or off" },
    { "kafka://host", "the topic" },
    { "kafka://host/", "the topic" },
    { "kafka://host,/topic", "hosts and ports" },
    { "kafka://,host/topic", "hosts and ports" },
    { "kafka://host:1:2/topic", "hosts and ports" },
    { "kafka://user@host/topic", "no user" },
    { "kafka://user:hunter2@host/topic", "publish_password_file" },
    { "kafka://host/a topic", "a topic of Kafka" },
    { "kafka://host/..", "a topic of Kafka" },
    { "kafka://host/topic?acks=0", "ends with its topic" },
};

static void what_is_wrong_is_said_without_showing_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct publish_place place;
        char mistake[PUBLISH_MISTAKE_BYTES] = "";
        bool taken = publish_place_parse(&place, slice_of(wrong[i].text), mistake);
        if (taken) fail_msg("%s was taken", wrong[i].text);
        if (strstr(mistake, wrong[i].says) == NULL) fail_msg("%s: %s", wrong[i].text, mistake);
        assert_null(strstr(mistake, "hunter2"));
        assert_true(strlen(mistake) > 10);
    }
}

static void names_that_are_too_long_are_refused(void **state)
{
    (void)state;
    char text[700], mistake[PUBLISH_MISTAKE_BYTES];
    struct publish_place place;
    for (int len = 254; len <= 257; len++) {
        snprintf(text, sizeof text, "redis://host/%0*d", len, 7);
        assert_int_equal(publish_place_parse(&place, slice_of(text), mistake), len <= PUBLISH_NAME_BYTES_MAX);
    }
    snprintf(text, sizeof text, "kafka://host/%0250d", 7);
    assert_false(publish_place_parse(&place, slice_of(text), mistake));
    size_t len = (size_t)snprintf(text, sizeof text, "kafka://");
    while (len < 640) len += (size_t)snprintf(text + len, sizeof text - len, "broker-%zu.example,", len);
    snprintf(text + len, sizeof text - len, "last/topic");
    assert_false(publish_place_parse(&place, slice_of(text), mistake));
}

/* Whatever is cut off or changed, it is taken or refused, and never read beyond. */
static void no_prefix_or_changed_byte_does_harm(void **state)
{
    (void)state;
    static const char *const good[] = { "redis://u@[::1]:1/s?maxlen=5",
                                        "amqp://u@h:5/v%2f?exchange=e&routing_key=r&mandatory=on",
                                        "kafka://a:1,b:2,[::1]:3/topic" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t len = strlen(good[i]);
        for (size_t cut = 0; cut <= len; cut++) {
            for (int byte = -1; byte < 256; byte++) {
                char text[128], mistake[PUBLISH_MISTAKE_BYTES] = "";
                struct publish_place place;
                memcpy(text, good[i], len);
                if (byte >= 0 && cut < len) text[cut] = (char)byte;
                bool taken = publish_place_parse(&place, (struct slice){ text, byte < 0 ? cut : len }, mistake);
                assert_true(taken || mistake[0] != '\0');
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off_is_no_place),
        cmocka_unit_test(a_redis_url_has_a_stream_and_perhaps_its_length),
        cmocka_unit_test(an_amqp_url_names_an_exchange_or_a_queue),
        cmocka_unit_test(a_kafka_url_has_brokers_and_a_topic),
        cmocka_unit_test(what_is_wrong_is_said_without_showing_it),
        cmocka_unit_test(names_that_are_too_long_are_refused),
        cmocka_unit_test(no_prefix_or_changed_byte_does_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
