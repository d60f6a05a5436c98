/* RabbitMQ: persistent messages on one channel, with publisher confirms.
 *
 * A message that no queue wants would be confirmed and gone: it is sent as mandatory, comes back, and counts as not arrived,
 * unless the operator says otherwise. */
#include "publisher/sink.h"

#include "base/clock.h"

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CHANNEL 1
#define FRAME_BYTES_MAX 131072
#define WAIT_MS 200
#define PERSISTENT 2
#define USER_DEFAULT "guest"

struct amqp_sink {
    struct sink sink;
    amqp_connection_state_t amqp;
    uint64_t tag_first; /* delivery tag of the first message since the last confirm; tags count from 1 */
    uint64_t tag_next;
    bool given_back; /* a message was, since the last confirm */
};

static bool broken(struct amqp_sink *own, const char *why)
{
    const struct publish_place *place = own->sink.options.place;
    return sink_failed(&own->sink, "RabbitMQ at %s port %u: %.160s", place->host, (unsigned)place->port, why);
}

static bool library_good(struct amqp_sink *own, int status)
{
    return status == AMQP_STATUS_OK || broken(own, amqp_error_string2(status));
}

/* Why the broker has closed the channel or the connection, in its own words. */
static bool closed(struct amqp_sink *own, const amqp_method_t *method)
{
    amqp_bytes_t text = amqp_empty_bytes;
    if (method->id == AMQP_CONNECTION_CLOSE_METHOD) text = ((amqp_connection_close_t *)method->decoded)->reply_text;
    if (method->id == AMQP_CHANNEL_CLOSE_METHOD) text = ((amqp_channel_close_t *)method->decoded)->reply_text;
    char why[160];
    snprintf(why, sizeof why, "it says no: %.*s", text.len < 140 ? (int)text.len : 140, (const char *)text.bytes);
    return broken(own, why);
}

static bool reply_good(struct amqp_sink *own, amqp_rpc_reply_t reply)
{
    switch (reply.reply_type) {
    case AMQP_RESPONSE_NORMAL:
        return true;
    case AMQP_RESPONSE_SERVER_EXCEPTION:
        return closed(own, &reply.reply);
    case AMQP_RESPONSE_LIBRARY_EXCEPTION:
        return library_good(own, reply.library_error);
    default:
        return broken(own, "its answer is none");
    }
}

static bool login(struct amqp_sink *own)
{
    const struct sink_options *options = &own->sink.options;
    const char *user = options->place->user[0] != '\0' ? options->place->user : USER_DEFAULT;
    amqp_rpc_reply_t reply = amqp_login(own->amqp, options->place->name, 0, FRAME_BYTES_MAX, 0, AMQP_SASL_METHOD_PLAIN, user,
                                        options->password);
    return reply_good(own, reply);
}

/* Whether there is the exchange, or the queue that the default exchange would hand to. */
static bool destination_there(struct amqp_sink *own)
{
    const struct publish_place *place = own->sink.options.place;
    if (place->exchange[0] != '\0') {
        amqp_exchange_declare(own->amqp, CHANNEL, amqp_cstring_bytes(place->exchange), amqp_cstring_bytes("direct"), 1, 0, 0,
                              0, amqp_empty_table);
    } else {
        amqp_queue_declare(own->amqp, CHANNEL, amqp_cstring_bytes(place->routing_key), 1, 0, 0, 0, amqp_empty_table);
    }
    return reply_good(own, amqp_get_rpc_reply(own->amqp));
}

static bool connect_amqp(struct amqp_sink *own)
{
    const struct publish_place *place = own->sink.options.place;
    struct timeval patience = { .tv_sec = SINK_OPEN_MS / 1000 };
    own->amqp = amqp_new_connection();
    amqp_socket_t *socket = own->amqp != NULL ? amqp_tcp_socket_new(own->amqp) : NULL;
    if (socket == NULL) return broken(own, "there is no memory for a connection");
    amqp_set_handshake_timeout(own->amqp, &patience);
    amqp_set_rpc_timeout(own->amqp, &patience);
    if (!library_good(own, amqp_socket_open_noblock(socket, place->host, place->port, &patience))) return false;
    int on = 1;
    (void)setsockopt(amqp_get_sockfd(own->amqp), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (!login(own)) return false;
    amqp_channel_open(own->amqp, CHANNEL);
    if (!reply_good(own, amqp_get_rpc_reply(own->amqp)) || !destination_there(own)) return false;
    amqp_confirm_select(own->amqp, CHANNEL);
    own->tag_first = own->tag_next = 1;
    return reply_good(own, amqp_get_rpc_reply(own->amqp));
}

/* Without a farewell, which would have to be waited for. */
static void amqp_close(struct sink *sink)
{
    struct amqp_sink *own = (struct amqp_sink *)sink;
    if (own->amqp != NULL) amqp_destroy_connection(own->amqp);
    free(own);
}

static struct sink *amqp_open(const struct sink_options *options, char error[SINK_ERROR_BYTES])
{
    struct amqp_sink *own = calloc(1, sizeof *own);
    assert(own != NULL);
    own->sink = (struct sink){ .kind = &sink_amqp, .options = *options };
    if (connect_amqp(own)) return &own->sink;
    snprintf(error, SINK_ERROR_BYTES, "%s", own->sink.error);
    amqp_close(&own->sink);
    return NULL;
}

/* The library would wait for ever for a broker that reads nothing, as RabbitMQ does while it is short of memory or disk. A
 * socket that can be written has room for a message of ours. */
static bool room_wait(struct amqp_sink *own)
{
    struct pollfd fd = { .fd = amqp_get_sockfd(own->amqp), .events = POLLOUT };
    for (uint64_t until_ms = mono_ms() + SINK_CONFIRM_MS; mono_ms() < until_ms && !atomic_load(own->sink.options.closing);) {
        if (poll(&fd, 1, WAIT_MS) > 0) return true;
    }
    return broken(own, "it takes nothing, for it is stopped or short of memory or disk");
}

static bool amqp_send(struct sink *sink, struct sink_message *message)
{
    struct amqp_sink *own = (struct amqp_sink *)sink;
    const struct publish_place *place = sink->options.place;
    const char *routing_key = place->routing_key[0] != '\0' ? place->routing_key : message->type;
    const amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG |
                  AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_APP_ID_FLAG,
        .content_type = amqp_cstring_bytes("application/json"),
        .delivery_mode = PERSISTENT,
        .correlation_id = amqp_cstring_bytes(message->key),
        .message_id = amqp_cstring_bytes(message->id),
        .timestamp = message->at_ms / 1000,
        .type = amqp_cstring_bytes(message->type),
        .app_id = amqp_cstring_bytes("stampede"),
    };
    const amqp_bytes_t body = { message->body.len, (void *)message->body.data };
    if (!room_wait(own)) return false;
    own->tag_next++;
    return library_good(own,
                        amqp_basic_publish(own->amqp, CHANNEL, amqp_cstring_bytes(place->exchange),
                                           amqp_cstring_bytes(routing_key), !place->unrouted_dropped, 0, &properties, body));
}

/* The messages since the last confirm, and how many of them are still to be heard of. */
struct awaited {
    struct sink_message *messages;
    size_t count, left;
};

static void acked(const struct amqp_sink *own, const amqp_basic_ack_t *ack, struct awaited *awaited)
{
    for (size_t i = 0; i < awaited->count; i++) {
        uint64_t tag = own->tag_first + i;
        bool meant = ack->multiple ? tag <= ack->delivery_tag : tag == ack->delivery_tag;
        if (!meant || awaited->messages[i].fate != SINK_SENT) continue;
        awaited->messages[i].fate = SINK_CONFIRMED;
        awaited->left--;
    }
}

/* One sentence for all of them, which names each type once. */
static void unwanted_add(struct amqp_sink *own, const char *type)
{
    const struct publish_place *place = own->sink.options.place;
    const char *key = place->routing_key;
    char *error = own->sink.error;
    if (!own->given_back) {
        sink_failed(&own->sink, "RabbitMQ at %.80s port %u: no queue of exchange %.60s wants %s%.30s%s%s", place->host,
                    (unsigned)place->port, place->exchange[0] != '\0' ? place->exchange : "(default)",
                    key[0] != '\0' ? "routing key " : "", key, key[0] != '\0' ? " of " : "", type);
    } else if (strstr(error, type) == NULL) {
        size_t len = strlen(error);
        snprintf(error + len, SINK_ERROR_BYTES - len, ", %s", type);
    }
    own->given_back = true;
}

/* What nobody wants comes back whole, before it is acked like the others. Its own id says which it is. */
static void given_back(struct amqp_sink *own, const amqp_basic_properties_t *properties, struct awaited *awaited)
{
    const struct slice id = { properties->message_id.bytes, properties->message_id.len };
    for (size_t i = 0; i < awaited->count; i++) {
        struct sink_message *message = &awaited->messages[i];
        if (message->fate != SINK_SENT || !slice_is(id, message->id)) continue;
        message->fate = SINK_GIVEN_BACK;
        awaited->left--;
        unwanted_add(own, message->type);
    }
}

/* One frame of the broker. */
static bool frame_take(struct amqp_sink *own, const amqp_frame_t *frame, struct awaited *awaited)
{
    const amqp_method_t *method = &frame->payload.method;
    if (frame->frame_type == AMQP_FRAME_HEADER) given_back(own, frame->payload.properties.decoded, awaited);
    if (frame->frame_type != AMQP_FRAME_METHOD) return true;
    switch (method->id) {
    case AMQP_BASIC_ACK_METHOD:
        acked(own, method->decoded, awaited);
        return true;
    case AMQP_BASIC_NACK_METHOD:
        return broken(own, "it could not take a message, see its log");
    case AMQP_CHANNEL_CLOSE_METHOD:
    case AMQP_CONNECTION_CLOSE_METHOD:
        return closed(own, method);
    default:
        return true;
    }
}

static bool acks_wait(struct amqp_sink *own, struct awaited *awaited)
{
    uint64_t until_ms = mono_ms() + SINK_CONFIRM_MS;
    while (awaited->left > 0) {
        amqp_frame_t frame;
        struct timeval wait = { .tv_usec = WAIT_MS * 1000 };
        amqp_maybe_release_buffers(own->amqp);
        int status = amqp_simple_wait_frame_noblock(own->amqp, &frame, &wait);
        if (status == AMQP_STATUS_TIMEOUT) {
            if (mono_ms() < until_ms && !atomic_load(own->sink.options.closing)) continue;
            return broken(own, "it does not confirm in time what it was sent");
        }
        if (!library_good(own, status) || !frame_take(own, &frame, awaited)) return false;
        until_ms = mono_ms() + SINK_CONFIRM_MS;
    }
    return true;
}

static bool amqp_confirm(struct sink *sink, struct sink_message *messages, size_t count)
{
    struct amqp_sink *own = (struct amqp_sink *)sink;
    assert(own->tag_next - own->tag_first == count);
    struct awaited awaited = { messages, count, count };
    own->given_back = false;
    bool heard_of_all = acks_wait(own, &awaited);
    own->tag_first = own->tag_next;
    return heard_of_all;
}

const struct sink_kind sink_amqp = { amqp_open, amqp_send, amqp_confirm, amqp_close };
