/* publish: where order events go for the merchant's own consumers, as the option publish says it. Plain values, any thread.
 *
 *   off
 *   redis://[USER@]HOST[:6379]/STREAM[?maxlen=N]
 *   amqp://[USER@]HOST[:5672][/VHOST]?exchange=NAME&routing_key=KEY&mandatory=on|off
 *   kafka://HOST[:9092][,HOST[:9092]…]/TOPIC
 *
 * Names may be percent-encoded. A password never stands here: the value of an option is seen by every user of the machine.
 */
#ifndef STAMPEDE_CONFIG_PUBLISH_H
#define STAMPEDE_CONFIG_PUBLISH_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define PUBLISH_MISTAKE_BYTES 256
#define PUBLISH_NAME_BYTES_MAX 255

enum publish_kind { PUBLISH_OFF, PUBLISH_REDIS, PUBLISH_AMQP, PUBLISH_KAFKA, PUBLISH_KINDS };
const char *publish_kind_word(enum publish_kind kind); /* the scheme, or off */

struct publish_place {
    enum publish_kind kind;
    char user[PUBLISH_NAME_BYTES_MAX + 1]; /* empty: the broker's own default */
    char host[PUBLISH_NAME_BYTES_MAX + 1]; /* not of Kafka; an IPv6 address without its brackets */
    uint16_t port;
    char servers[512];                            /* of Kafka: HOST:PORT,HOST:PORT */
    char name[PUBLISH_NAME_BYTES_MAX + 1];        /* the stream, the topic, or the virtual host */
    char exchange[PUBLISH_NAME_BYTES_MAX + 1];    /* of AMQP; empty: its default, which knows queues by name */
    char routing_key[PUBLISH_NAME_BYTES_MAX + 1]; /* of AMQP; empty: the kind of the event, such as order.won */
    bool unrouted_dropped;                        /* of AMQP: what no queue wants may be lost */
    uint64_t length_max;                          /* of Redis: about how many entries the stream keeps; 0: all */
};

/* False: mistake is a sentence, which never shows the text, because a password may stand in it by mistake. */
bool publish_place_parse(struct publish_place *out, struct slice text, char mistake[PUBLISH_MISTAKE_BYTES]);

#endif
