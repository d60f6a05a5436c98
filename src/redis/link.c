#include "redis/client.h"

#include "base/text.h"

#include <assert.h>
#include <stdlib.h>

#define READ_BYTES 16384
#define BUFFER_BYTES_FIRST 4096
#define BUFFER_BYTES_KEPT (1u << 20)
#define RING_FIRST 64
#define PART_BYTES_AROUND 24 /* $, a length, two line ends, rounded up */

static void link_closed(uv_handle_t *handle)
{
    struct link *link = (struct link *)handle;
    struct redis_client *client = handle->data;
    reply_reader_close(&link->reader);
    free(link->filling.data);
    free(link->leaving.data);
    free(link->ring);
    free(link);
    client_handle_closed(client);
}

void link_drop(struct link *link)
{
    assert(link->node != NULL);
    link->node = NULL;
    client_clean(link->tcp.data, link);
    uv_close((uv_handle_t *)&link->tcp, link_closed);
}

static void link_lost(struct link *link, const char *why)
{
    if (link->node != NULL) node_lost(link->node, why);
}

static void read_place(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    /* The bytes are copied before anything else is read, so all links of a thread share the place. */
    static _Thread_local char bytes[READ_BYTES];
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(bytes, sizeof(bytes));
}

static void read_done(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct link *link = (struct link *)stream;
    if (got == 0 || link->node == NULL) return;
    if (got < 0) {
        link_lost(link, got == UV_EOF ? "it closed the connection" : uv_strerror((int)got));
        return;
    }
    link->heard_ms = uv_now(stream->loop);
    bool good = reply_reader_feed(&link->reader, buf->base, (size_t)got);
    while (good && link->node != NULL) {
        const struct redis_reply *reply;
        good = reply_reader_next(&link->reader, &reply);
        if (!good || reply == NULL) break;
        if (link->first == link->next) {
            link_lost(link, "it answered what nobody asked");
            return;
        }
        struct link_entry entry = *link_entry_at(link, link->first++);
        node_answer(link->node, entry, reply);
    }
    if (!good && link->node != NULL) node_garbled(link->node, reply_reader_error(&link->reader));
}

static void connect_done(uv_connect_t *request, int status)
{
    struct link *link = (struct link *)request->handle;
    if (link->node == NULL) return;
    if (status == 0) status = uv_read_start(request->handle, read_place, read_done);
    if (status != 0) {
        link_lost(link, uv_strerror(status));
        return;
    }
    link->connected = true;
    node_connected(link->node);
}

struct link *link_open(struct redis_node *node, const struct sockaddr *address)
{
    struct redis_client *client = node->client;
    struct link *link = calloc(1, sizeof(*link));
    if (link == NULL) return NULL;
    link->ring_size = RING_FIRST;
    link->ring = malloc(RING_FIRST * sizeof(*link->ring));
    if (link->ring == NULL || !reply_reader_open(&link->reader) || uv_tcp_init(client->loop, &link->tcp) != 0) {
        reply_reader_close(&link->reader);
        free(link->ring);
        free(link);
        return NULL;
    }
    client->handles++;
    link->tcp.data = client;
    link->node = node;
    link->number = ++client->links_made;
    if (uv_tcp_connect(&link->connecting, &link->tcp, address, connect_done) != 0) {
        link_drop(link);
        return NULL;
    }
    /* Only once there is a socket, which connecting makes. */
    uv_tcp_nodelay(&link->tcp, 1);
    uv_tcp_keepalive(&link->tcp, 1, 15);
    return link;
}

static bool buffer_reserve(struct link_buffer *buffer, size_t bytes)
{
    if (buffer->size - buffer->len >= bytes) return true;
    size_t size = buffer->size > 0 ? buffer->size : BUFFER_BYTES_FIRST;
    while (size - buffer->len < bytes) size *= 2;
    char *grown = realloc(buffer->data, size);
    if (grown == NULL) return false;
    buffer->data = grown;
    buffer->size = size;
    return true;
}

static void put_number(struct link_buffer *buffer, char sign, uint64_t number)
{
    char *at = buffer->data + buffer->len;
    at[0] = sign;
    size_t len = 1 + text_from_u64(at + 1, number);
    at[len++] = '\r';
    at[len++] = '\n';
    buffer->len += len;
}

static void put_part(struct link_buffer *buffer, struct slice part)
{
    put_number(buffer, '$', part.len);
    if (part.len > 0) memcpy(buffer->data + buffer->len, part.data, part.len);
    buffer->len += part.len;
    memcpy(buffer->data + buffer->len, "\r\n", 2);
    buffer->len += 2;
}

static size_t parts_bytes(const struct slice *parts, uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += parts[i].len + PART_BYTES_AROUND;
    return bytes;
}

static bool ring_reserve(struct link *link)
{
    if (link->next - link->first < link->ring_size) return true;
    uint32_t size = link->ring_size * 2;
    struct link_entry *grown = malloc(size * sizeof(*grown));
    if (grown == NULL) return false;
    for (uint64_t i = link->first; i < link->next; i++) grown[i & (size - 1)] = *link_entry_at(link, i);
    free(link->ring);
    link->ring = grown;
    link->ring_size = size;
    return true;
}

/* The command is what was filled in from start on. */
static void put_done(struct link *link, struct link_entry entry, size_t bytes)
{
    entry.start = link->put;
    entry.put_ns = uv_hrtime();
    *link_entry_at(link, link->next++) = entry;
    link->put += bytes;
    client_dirty(link->tcp.data, link);
}

static bool put_begin(struct link *link, size_t bytes)
{
    if (link->filling.len + link->leaving.len + bytes > REDIS_OUTPUT_BYTES_MAX) return false;
    return ring_reserve(link) && buffer_reserve(&link->filling, bytes);
}

bool link_put(struct link *link, struct link_entry entry, const struct slice *parts, uint32_t count)
{
    if (!put_begin(link, parts_bytes(parts, count) + PART_BYTES_AROUND)) return false;
    size_t before = link->filling.len;
    put_number(&link->filling, '*', count);
    for (uint32_t i = 0; i < count; i++) put_part(&link->filling, parts[i]);
    put_done(link, entry, link->filling.len - before);
    return true;
}

bool link_put_call(struct link *link, struct redis_call *call, const char *lineage)
{
    struct redis *redis = ((struct redis_client *)link->tcp.data)->redis;
    struct slice head[3] = { SLICE("EVALSHA") };
    uint32_t head_count = 0;
    struct slice id = slice_of(lineage);
    char keys_text[20];
    if (call->script != REDIS_NO_SCRIPT) {
        head[1] = slice_of(redis->sha1[call->script]);
        head[2] = (struct slice){ keys_text, text_from_u64(keys_text, call->keys) };
        head_count = 3;
    }
    bool with_id = call->script != REDIS_NO_SCRIPT && call->with_lineage;
    size_t bytes = parts_bytes(call->argv, call->argc) + parts_bytes(head, head_count) + 2 * PART_BYTES_AROUND + id.len;
    if (!put_begin(link, bytes)) return false;

    struct link_buffer *out = &link->filling;
    size_t before = out->len;
    put_number(out, '*', (uint64_t)head_count + call->argc + with_id);
    for (uint32_t i = 0; i < head_count; i++) put_part(out, head[i]);
    for (uint32_t i = 0; i < call->argc; i++) {
        if (with_id && i == call->keys) put_part(out, id);
        put_part(out, call->argv[i]);
    }
    if (with_id && call->keys == call->argc) put_part(out, id);
    call->state.sequence = link->next;
    put_done(link, (struct link_entry){ .call = call, .kind = ENTRY_CALL, .script = call->script }, out->len - before);
    return true;
}

static void buffer_empty(struct link_buffer *buffer)
{
    buffer->len = 0;
    if (buffer->size <= BUFFER_BYTES_KEPT) return;
    free(buffer->data);
    *buffer = (struct link_buffer){ 0 };
}

static void write_done(uv_write_t *request, int status)
{
    struct link *link = (struct link *)request->handle;
    link->write_pending = false;
    if (link->node == NULL) return;
    buffer_empty(&link->leaving);
    if (status != 0) {
        link_lost(link, uv_strerror(status));
        return;
    }
    if (link->filling.len > 0) client_dirty(link->tcp.data, link);
}

/* At once, as far as the system takes it; the rest when it can. From the moment a byte is handed over it may have left. */
void link_flush(struct link *link)
{
    if (link->node == NULL || !link->connected || link->write_pending || link->filling.len == 0) return;
    struct link_buffer leaving = link->filling;
    link->filling = link->leaving;
    link->leaving = leaving;
    link->handed = link->put;
    uv_buf_t buf = uv_buf_init(leaving.data, (unsigned)leaving.len);
    int wrote = uv_try_write((uv_stream_t *)&link->tcp, &buf, 1);
    if (wrote == UV_EAGAIN) wrote = 0;
    if (wrote < 0) {
        link_lost(link, uv_strerror(wrote));
        return;
    }
    if ((size_t)wrote == leaving.len) {
        buffer_empty(&link->leaving);
        return;
    }
    buf = uv_buf_init(leaving.data + wrote, (unsigned)(leaving.len - (size_t)wrote));
    int failed = uv_write(&link->writing, (uv_stream_t *)&link->tcp, &buf, 1, write_done);
    if (failed != 0) {
        link_lost(link, uv_strerror(failed));
        return;
    }
    link->write_pending = true;
}
