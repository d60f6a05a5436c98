/* Kafka: an idempotent producer that waits for all replicas in sync; the key is the order's number, so that the events of an
 * order are in one partition, in order. */
#include "publisher/sink.h"

#include "base/log.h"

#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>

#define POLL_MS 100
#define TEXT_OF_(token) #token
#define TEXT_OF(macro) TEXT_OF_(macro)

struct kafka_sink {
    struct sink sink;
    rd_kafka_t *kafka;
    rd_kafka_topic_t *topic;
    size_t outstanding; /* messages without a report */
    bool failed;        /* one of them was not delivered, or the producer has failed for good */
};

static bool broken(struct kafka_sink *own, const char *why)
{
    own->failed = true;
    return sink_failed(&own->sink, "Kafka at %.100s: %.120s", own->sink.options.place->servers, why);
}

static void delivered(rd_kafka_t *kafka, const rd_kafka_message_t *report, void *opaque)
{
    (void)kafka;
    struct kafka_sink *own = opaque;
    struct sink_message *message = report->_private;
    own->outstanding--;
    if (report->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        message->fate = SINK_CONFIRMED;
    } else if (!own->failed) {
        broken(own, rd_kafka_err2str(report->err));
    }
}

static void library_says(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
    (void)kafka;
    log_debug("publisher", "librdkafka: %s: %s (level %d)", facility, text, level);
}

static bool conf_make(struct kafka_sink *own, rd_kafka_conf_t *conf)
{
    /* The partition is chosen as Java's own producer chooses it, so that others find an order where they expect it. */
    const char *const settings[][2] = {
        { "bootstrap.servers", own->sink.options.place->servers },
        { "client.id", "stampede" },
        { "enable.idempotence", "true" },
        { "acks", "all" },
        { "message.timeout.ms", TEXT_OF(SINK_CONFIRM_MS) },
        { "socket.connection.setup.timeout.ms", TEXT_OF(SINK_OPEN_MS) },
        { "reconnect.backoff.max.ms", "1000" },
        { "linger.ms", "1" },
        { "partitioner", "murmur2_random" },
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char why[128];
        if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], why, sizeof why) != RD_KAFKA_CONF_OK)
            return broken(own, why);
    }
    rd_kafka_conf_set_opaque(conf, own);
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_conf_set_log_cb(conf, library_says);
    return true;
}

static bool topic_there(struct kafka_sink *own)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t code = rd_kafka_metadata(own->kafka, 0, own->topic, &metadata, SINK_OPEN_MS);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        bool late = code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__TIMED_OUT;
        return broken(own, late ? "no broker answers" : rd_kafka_err2str(code));
    }
    code = metadata->topic_cnt == 1 ? metadata->topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    rd_kafka_metadata_destroy(metadata);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) return true;
    char why[SINK_ERROR_BYTES];
    snprintf(why, sizeof why, "topic %.60s: %s", own->sink.options.place->name, rd_kafka_err2str(code));
    return broken(own, why);
}

static bool connect_kafka(struct kafka_sink *own)
{
    char why[128];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (conf_make(own, conf)) {
        own->kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
        if (own->kafka == NULL) broken(own, why);
    }
    if (own->kafka == NULL) {
        rd_kafka_conf_destroy(conf);
        return false;
    }
    own->topic = rd_kafka_topic_new(own->kafka, own->sink.options.place->name, NULL);
    if (own->topic == NULL) return broken(own, rd_kafka_err2str(rd_kafka_last_error()));
    return topic_there(own);
}

/* Gives up what is under way, so that no report speaks of a message that is no more. */
static void purge(struct kafka_sink *own)
{
    if (own->outstanding > 0) rd_kafka_purge(own->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    while (own->outstanding > 0) rd_kafka_poll(own->kafka, POLL_MS);
}

static void kafka_close(struct sink *sink)
{
    struct kafka_sink *own = (struct kafka_sink *)sink;
    if (own->kafka != NULL) purge(own);
    if (own->topic != NULL) rd_kafka_topic_destroy(own->topic);
    if (own->kafka != NULL) rd_kafka_destroy(own->kafka);
    free(own);
}

static struct sink *kafka_open(const struct sink_options *options, char error[SINK_ERROR_BYTES])
{
    struct kafka_sink *own = calloc(1, sizeof *own);
    assert(own != NULL);
    own->sink = (struct sink){ .kind = &sink_kafka, .options = *options };
    if (connect_kafka(own)) return &own->sink;
    snprintf(error, SINK_ERROR_BYTES, "%s", own->sink.error);
    kafka_close(&own->sink);
    return NULL;
}

static bool kafka_send(struct sink *sink, struct sink_message *message)
{
    struct kafka_sink *own = (struct kafka_sink *)sink;
    rd_kafka_resp_err_t code = rd_kafka_producev(
        own->kafka, RD_KAFKA_V_RKT(own->topic), RD_KAFKA_V_KEY(message->key, strlen(message->key)),
        RD_KAFKA_V_VALUE((void *)message->body.data, message->body.len), RD_KAFKA_V_HEADER("id", message->id, -1),
        RD_KAFKA_V_HEADER("type", message->type, -1), RD_KAFKA_V_TIMESTAMP((int64_t)message->at_ms),
        RD_KAFKA_V_OPAQUE(message), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return broken(own, rd_kafka_err2str(code));
    own->outstanding++;
    return true;
}

static bool kafka_confirm(struct sink *sink, struct sink_message *messages, size_t count)
{
    (void)messages;
    (void)count;
    struct kafka_sink *own = (struct kafka_sink *)sink;
    while (own->outstanding > 0 && !atomic_load(sink->options.closing)) rd_kafka_poll(own->kafka, POLL_MS);
    if (own->outstanding > 0) broken(own, "the server stops before it is confirmed what was sent");
    purge(own);
    return !own->failed;
}

const struct sink_kind sink_kafka = { kafka_open, kafka_send, kafka_confirm, kafka_close };
