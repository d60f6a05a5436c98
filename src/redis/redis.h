/* redis: a client of Redis (or Valkey) for libuv loops: one server, a master under Sentinels, or a Cluster.
 *
 * struct redis is what all threads share: the place, the scripts, the status. struct redis_client belongs to one loop and is
 * used by its thread alone. Its calls to a master share one connection; those of one turn of the loop leave in one write.
 *
 * A call ends with what is certain, never with a guess:
 *   ANSWERED  the reply is the server's; it ran
 *   FAILED    the server answered with an error (reply is of type REDIS_FAIL); a script may have run up to it
 *   REFUSED   the same, and it certainly changed nothing
 *   BUSY      not sent: too many calls are under way
 *   DOWN      not sent, or sent and certainly not run: the master is not there, or was not until the call's time was over
 *   UNKNOWN   sent, and no answer came: it may have run, may run yet, or may not. Ask again, by something idempotent.
 * What certainly did not run (MOVED, ASK, NOSCRIPT, LOADING, CLUSTERDOWN, TRYAGAIN, READONLY …) is repeated inside, within
 * the call's time; nothing else ever is. A call whose time is over closes its connection, which makes all that were sent on
 * it UNKNOWN: a late answer must not be taken for that to a later question.
 *
 * Calls with keys of one slot leave in the order they were made, unless one is repeated.
 *
 * What a server has is known by its lineage: its run id, '-', and its replication id (master_replid). The run id is another
 * after a restart; the replication id also where a master was made a replica, took over the data of another, and is master
 * again. A server is asked for it four times a second, and where it has changed the connection is made anew. */
#ifndef STAMPEDE_REDIS_REDIS_H
#define STAMPEDE_REDIS_REDIS_H

#include "base/fault.h"
#include "redis/url.h"
#include "redis/wheel.h"

#include <stdint.h>
#include <uv.h>

#define REDIS_SCRIPTS_MAX 32
#define REDIS_PASSWORD_BYTES_MAX 512
#define REDIS_RUN_ID_BYTES 40
#define REDIS_REPLID_BYTES 40
#define REDIS_LINEAGE_BYTES_MAX (REDIS_RUN_ID_BYTES + 1 + REDIS_REPLID_BYTES)
#define REDIS_VERSION_BYTES_MAX 31
#define REDIS_NODES_MAX 256
#define REDIS_REPLY_BYTES_MAX (64u << 20)  /* in memory, parsed */
#define REDIS_OUTPUT_BYTES_MAX (64u << 20) /* on the way to one server; beyond it calls are BUSY */
#define REDIS_NO_SCRIPT (-1)

struct redis_script {
    const char *name; /* for the log */
    const char *text;
};

struct redis_options {
    struct redis_place place;
    char password[REDIS_PASSWORD_BYTES_MAX + 1];          /* empty: none */
    char sentinel_password[REDIS_PASSWORD_BYTES_MAX + 1]; /* empty: none */
    const struct redis_script *scripts;                   /* as long as the struct redis */
    uint32_t scripts_count;
    uint32_t in_flight_max; /* calls of one client; 0: 10000 */
    uint32_t call_ms;       /* time of a call that brings none; 0: 1000 */
    uint32_t connect_ms;    /* for connecting and for getting to know the server; 0: 1000 */
};

/* A password: the first line of a file that others may not read if path is not empty; else of the environment if it has the
 * name; else none. False: sentence says what is wrong. */
bool redis_password_find(char out[REDIS_PASSWORD_BYTES_MAX + 1], const char *path, const char *environment,
                         char sentence[REDIS_SENTENCE_BYTES]) MUST_USE;

struct redis;
/* No network yet. FAULT_MEMORY only. */
enum fault redis_open(struct redis **out, const struct redis_options *options) MUST_USE;
void redis_close(struct redis *redis); /* after its clients have been closed and their loops have ended; wipes passwords */
/* Waits, on a loop of its own, until every master has been reached and found fit. A thing an operator must mend (a wrong
 * password, eviction, too old a version) ends the waiting at once. While it waits it says so. Any fault: the sentence says
 * why, and what to do. */
enum fault redis_reach(struct redis *redis, uint32_t wait_ms, char sentence[REDIS_SENTENCE_BYTES]) MUST_USE;

struct redis_status {
    bool connected;      /* every client has all its masters */
    const char *refuses; /* NULL, or why a master takes no writes, for seconds now, and what to do */
    uint32_t clients;    /* figures below are sums over these */
    uint32_t masters;    /* that the clients know of */
    uint32_t masters_connected;
    uint32_t in_flight;
    uint64_t calls, answered, failed, refused, busy, down, unknown; /* since the start */
    uint64_t repeats;                                               /* of what certainly did not run */
    uint64_t reconnects;                                            /* connections after the first to the same server */
    uint64_t latency_us;                 /* of answers, the last ones most; the slowest client's */
    char run_id[REDIS_RUN_ID_BYTES + 1]; /* of the master that was reached last; empty: none */
    char version[REDIS_VERSION_BYTES_MAX + 1];
    char error[REDIS_SENTENCE_BYTES]; /* the last one, also when it has passed; empty: none */
};
void redis_status(struct redis *redis, struct redis_status *out); /* any thread */

enum redis_type {
    REDIS_NIL,
    REDIS_NUMBER,
    REDIS_TEXT,
    REDIS_WORD, /* a status, such as OK; in text */
    REDIS_FAIL, /* an error; in text */
    REDIS_LIST,
};

/* Valid until done() returns. */
struct redis_reply {
    enum redis_type type;
    int64_t number;
    struct slice text;
    const struct redis_reply *items; /* of a list */
    size_t count;
};

enum redis_result { REDIS_ANSWERED, REDIS_FAILED, REDIS_REFUSED, REDIS_BUSY, REDIS_DOWN, REDIS_UNKNOWN };
const char *redis_result_word(enum redis_result result);

/* What the room keeps in a call. */
struct redis_node;
struct redis_call_state {
    struct redis_node *node; /* that has it, waiting or sent */
    struct redis_call *next, *prev;
    struct wheel_timer deadline, retry;
    uint64_t sequence; /* among what was sent on the connection */
    uint8_t stage;
    uint8_t tries; /* repeats so far */
    uint8_t loads; /* of these, because the script was missing */
    bool asking, inner;
};

struct redis_call {
    /* The caller's, unchanged until done. */
    struct slice key; /* says which master; empty: any */
    int script;       /* its number in the table, or REDIS_NO_SCRIPT: argv is a whole command */
    uint32_t keys;    /* of a script: so many of argv, the first, are KEYS; the others are ARGV */
    uint32_t argc;
    const struct slice *argv;
    uint32_t time_ms;  /* 0: as the options say */
    bool with_lineage; /* of a script: the lineage of the server goes before ARGV */
    bool fresh;        /* the server is asked before it whether its lineage is still so: if not, there is no answer */
    bool lenient; /* when its time is over it is UNKNOWN, and the connection stays: for what may be late and nobody minds */
    bool holds;   /* nothing else is answered on its connection meanwhile (WAIT): nobody behind it is late before it is */
    /* Just once, on the loop's thread, and never within redis_call(), whosever call that is: who makes one may be in the
     * midst of an answer to somebody else. (On a client that was closed it is.) The reply is NULL unless ANSWERED, FAILED or
     * REFUSED. The call may be used again, or its memory be given back, from here on; whoever makes it again because it was
     * BUSY or DOWN waits a little first. */
    void (*done)(struct redis_call *call, const struct redis_reply *reply);

    /* For done(). */
    enum redis_result result;
    const char *lineage; /* of the server that answered; "" if none did */
    uint64_t connection; /* that the answer came over; WAIT says something only about writes of the same one */

    struct redis_call_state state; /* zero before the first use */
};

struct redis_client;
/* Connects by itself. FAULT_MEMORY only: a server that is not there is found later. */
enum fault redis_client_open(struct redis_client **out, struct redis *redis, uv_loop_t *loop) MUST_USE;
/* Ends all calls before it returns; not from inside done(). The loop must go on until it has closed the handles; the memory
 * goes with the last of them. */
void redis_client_close(struct redis_client *client);
bool redis_client_ready(const struct redis_client *client); /* all its masters are there */
/* Whether a call for this key would be sent: its master is there, or is not known to be away. */
bool redis_client_reaches(struct redis_client *client, struct slice key);

/* argv and key stay as they are until done. No memory is taken for a call but what buffers grow by. */
void redis_call(struct redis_client *client, struct redis_call *call);
/* The loop comes to its next turn without resting. */
void redis_client_hurry(struct redis_client *client);
/* The same as redis_call(), and runs the loop until it is done: for tools, on a loop that nobody else runs. */
void redis_call_wait(struct redis_client *client, struct redis_call *call);

#endif
