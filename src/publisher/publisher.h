/* publisher: hands order events to the operator's own queue: a Redis stream, RabbitMQ or Kafka.
 *
 * One thread with a connection to the ledger takes publications in the order of their ids, hands a batch of them to the
 * broker, and deletes them once it has confirmed them: at least once, a repetition with the same id, the events of an order
 * in order. It begins where it was stopped, however that was. A broker that is slow or gone is tried again and again, and
 * nothing that sells waits for it: what is to be published waits in the ledger, up to a bound. */
#ifndef STAMPEDE_PUBLISHER_PUBLISHER_H
#define STAMPEDE_PUBLISHER_PUBLISHER_H

#include "base/fault.h"
#include "clerk/clerk.h"
#include "gate/gate.h"

struct publisher;

struct publisher_options {
    const struct ledger_place *ledger; /* its path outlives the publisher */
    const char *url;                   /* as config/publish.h takes it */
    const char *password_file;         /* empty: STAMPEDE_PUBLISH_PASSWORD of the environment */
};

/* Starts the thread; for the URL off there is none. A password that cannot be read is FAULT_CONFIG. Texts are copied. */
enum fault publisher_open(struct publisher **out, const struct publisher_options *options, struct gate *gate,
                          struct clerk *clerk) MUST_USE;
/* What is under way is given up, and sent again after the next start. A broker that is just being reached is waited for, 5 s
 * at most. */
void publisher_close(struct publisher *publisher);

struct publisher_status {
    uint64_t waiting, dropped; /* as of the last count, a few seconds ago */
    uint64_t oldest_ms;        /* age of the oldest that waits */
    bool failing;              /* the broker does not take what it is sent */
};
void publisher_status(struct publisher *publisher, struct publisher_status *out); /* any thread */

/* Whether the broker can be reached and takes us, as far as that can be told without publishing, or the URL is off; else
 * error is a sentence without its full stop. Waits 5 s or so at most. */
#define PUBLISHER_ERROR_BYTES 256
bool publisher_try(const char *url, const char *password_file, char error[PUBLISHER_ERROR_BYTES]);

#endif
