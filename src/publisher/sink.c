#include "publisher/sink.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

static const struct sink_kind *const kinds[PUBLISH_KINDS] = {
    [PUBLISH_REDIS] = &sink_redis,
    [PUBLISH_AMQP] = &sink_amqp,
    [PUBLISH_KAFKA] = &sink_kafka,
};

struct sink *sink_open(const struct sink_options *options, char error[SINK_ERROR_BYTES])
{
    const struct sink_kind *kind = kinds[options->place->kind];
    assert(kind != NULL);
    return kind->open(options, error);
}

bool sink_send(struct sink *sink, struct sink_message *message)
{
    message->fate = SINK_SENT;
    return sink->kind->send(sink, message);
}

bool sink_confirm(struct sink *sink, struct sink_message *messages, size_t count)
{
    return sink->kind->confirm(sink, messages, count);
}

void sink_close(struct sink *sink)
{
    if (sink != NULL) sink->kind->close(sink);
}

bool sink_failed(struct sink *sink, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(sink->error, sizeof sink->error, format, args);
    va_end(args);
    return false;
}
