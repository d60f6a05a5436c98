/* link: one connection to a server: what was put on it, how much of that has left, and the answers in their order. Inside
 * this room only; the loop's thread.
 *
 * What is put on it leaves when the loop turns (link_flush()), in one write. A link that was dropped belongs to nobody any
 * more and goes by itself once the loop has closed it. */
#ifndef STAMPEDE_REDIS_LINK_H
#define STAMPEDE_REDIS_LINK_H

#include "redis/reply.h"

enum link_entry_kind {
    ENTRY_CALL,
    ENTRY_GONE, /* of a call that is over already: its answer is thrown away */
    ENTRY_AUTH,
    ENTRY_SELECT,
    ENTRY_INFO,
    ENTRY_ASKING,
    ENTRY_LOAD,  /* SCRIPT LOAD */
    ENTRY_PULSE, /* INFO replication, to see whether it is still there and still the same */
};

/* An answer that is awaited. */
struct link_entry {
    struct redis_call *call;
    uint64_t start; /* of its bytes, among all that were put on the link */
    uint64_t put_ns;
    enum link_entry_kind kind;
    int script;
};

struct link_buffer {
    char *data;
    size_t len, size;
};

struct link {
    uv_tcp_t tcp; /* first: its address is the link's */
    uv_connect_t connecting;
    uv_write_t writing;
    struct redis_node *node; /* NULL once dropped */
    uint64_t number;
    struct link *next_dirty;
    bool dirty, connected, write_pending;
    struct link_buffer filling, leaving;
    uint64_t put, handed; /* bytes: all, and those that may have left */
    struct link_entry *ring;
    uint32_t ring_size;   /* a power of two */
    uint64_t first, next; /* sequence numbers: the oldest awaited, and that of the next to be put */
    uint32_t pulses;      /* of these, such as are pulses */
    uint64_t freed_ms;    /* when a call that holds it was last answered */
    uint64_t heard_ms;    /* when anything came last */
    struct reply_reader reader;
    uint64_t loads[REDIS_SCRIPTS_MAX]; /* where each SCRIPT LOAD ended; 0: never sent */
};

/* Connects; node_connected() or node_lost() tells. NULL: no memory, or no socket. */
struct link *link_open(struct redis_node *node, const struct sockaddr *address);
/* node_lost() is not called. What is awaited stays readable until the next turn of the loop. */
void link_drop(struct link *link);

static inline struct link_entry *link_entry_at(struct link *link, uint64_t sequence)
{
    return &link->ring[sequence & (link->ring_size - 1)];
}
static inline bool link_entry_left(const struct link *link, const struct link_entry *entry)
{
    return entry->start < link->handed;
}

/* A command of parts. False: no room, nothing was put. */
bool link_put(struct link *link, struct link_entry entry, const struct slice *parts, uint32_t count) MUST_USE;
/* The call's command, as an entry of the call. */
bool link_put_call(struct link *link, struct redis_call *call, const char *lineage) MUST_USE;
void link_flush(struct link *link);

#endif
