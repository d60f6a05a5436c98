/* sink: a broker that events are handed to, chosen by the scheme of its URL. The publisher's thread only.
 *
 * A message has arrived when the broker says so, not before: Redis by its reply, RabbitMQ by a confirm, Kafka by a delivery
 * report of all replicas in sync. What has not arrived in time may have arrived all the same: it is sent again, with the
 * same id. After a failure a sink is of no more use: close it and open another. */
#ifndef STAMPEDE_PUBLISHER_SINK_H
#define STAMPEDE_PUBLISHER_SINK_H

#include "base/slice.h"
#include "config/publish.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SINK_ERROR_BYTES 256
#define SINK_ID_BYTES 48
#define SINK_KEY_BYTES 32
/* How long a broker may take to be reached, and then to take what it was sent. */
#define SINK_OPEN_MS 5000
#define SINK_CONFIRM_MS 10000

/* Of a message: handed over, or taken by the broker, or given back by it because nobody there wants it. */
enum sink_fate { SINK_SENT, SINK_CONFIRMED, SINK_GIVEN_BACK };

struct sink_message {
    char id[SINK_ID_BYTES];   /* of the event: what consumers tell repetitions by */
    char key[SINK_KEY_BYTES]; /* the order's number, or sale:ID: what is in order among itself */
    const char *type;         /* order.won */
    uint64_t at_ms;
    struct slice body; /* JSON */
    enum sink_fate fate;
};

struct sink_options {
    const struct publish_place *place; /* outlives the sink; not PUBLISH_OFF */
    const char *password;              /* outlives the sink; empty: none */
    const _Atomic bool *closing;       /* nothing is waited for any more once this is true */
};

struct sink;

/* One kind of broker. */
struct sink_kind {
    struct sink *(*open)(const struct sink_options *options, char error[SINK_ERROR_BYTES]);
    bool (*send)(struct sink *sink, struct sink_message *message);
    bool (*confirm)(struct sink *sink, struct sink_message *messages, size_t count);
    void (*close)(struct sink *sink);
};
extern const struct sink_kind sink_redis, sink_amqp, sink_kafka;

/* What every kind begins with. */
struct sink {
    const struct sink_kind *kind;
    struct sink_options options;
    char error[SINK_ERROR_BYTES]; /* why the last call failed, or what was given back: a sentence without its full stop */
};

/* NULL: error says why. Also finds out whether what is named there exists, as far as the broker tells. */
struct sink *sink_open(const struct sink_options *options, char error[SINK_ERROR_BYTES]);
/* Hands one message over. It and its body stay as they are until sink_confirm() or sink_close(). */
bool sink_send(struct sink *sink, struct sink_message *message);
/* Waits until all that were sent since the last time are confirmed or given back; of the latter the sink's error tells.
 * False: of some nothing was heard; of which, they say themselves. */
bool sink_confirm(struct sink *sink, struct sink_message *messages, size_t count);
void sink_close(struct sink *sink); /* also NULL */

/* For the kinds: writes error and answers false. */
bool sink_failed(struct sink *sink, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
