/* watch: whether the database of a ledger answers, found out by one thread for all connections of the server.
 *
 * It asks every half second, and within a tenth when a connection was lost or somebody doubts; then it also writes, and only
 * what was written makes well again. A database that hangs costs whoever meets it first a second or two. From then on nobody
 * waits for it: while it is SILENT whatever the connections of the place are asked is FAULT_TIMEOUT at once, and the probe
 * of the watch alone decides when that ends. With every question it looks whether the server keeps what it commits. One that
 * did not is believed again after three seconds of doing so: behind a proxy two servers may answer in turn. */
#ifndef STAMPEDE_LEDGER_WATCH_H
#define STAMPEDE_LEDGER_WATCH_H

#include "base/fault.h"
#include "ledger/place.h"

/* From GONE on it is away. */
enum ledger_health {
    LEDGER_WELL,
    LEDGER_READ_ONLY, /* it answers, and lets nobody write */
    LEDGER_UNSAFE,    /* it answers, and may lose what is committed, which nobody has allowed: nothing is written */
    LEDGER_GONE,      /* nobody is there: whoever asks hears so at once */
    LEDGER_SILENT,    /* it hangs, or something between here and there does */
};

struct ledger;
struct ledger_watch;

/* Of a place in MySQL, whose watch it becomes; copies made of the place from then on share it, and end before it. A file is
 * watched by nobody: *out is NULL. */
enum fault ledger_watch_open(struct ledger_watch **out, struct ledger_place *place) MUST_USE;
/* A connection from before there was a watch, that which has made the tables: from here on it is one of the others. */
void ledger_watch_adopt(struct ledger_watch *watch, struct ledger *ledger);
/* The server is up. Until then a database that is away for some ten seconds is hung up on, also by those who wait for an
 * answer: nobody who starts a server waits for it longer. */
void ledger_watch_started(struct ledger_watch *watch);
/* The server is about to stop. A database that is away, or turns out to be, keeps nobody waiting from here on: connections
 * to it are hung up, also those that wait for an answer. Any thread. */
void ledger_watch_end(struct ledger_watch *watch);
void ledger_watch_close(struct ledger_watch *watch);

/* The socket of a connection to the place, by whoever has the connection: in before it is waited for, out before it is
 * closed. Nobody's watch does nothing. */
struct watch_line {
    int fd; /* a copy: the library closes its own when it likes */
    struct watch_line *next;
};
void ledger_watch_line_in(struct ledger_watch *watch, struct watch_line *line, int fd);
void ledger_watch_line_out(struct ledger_watch *watch, struct watch_line *line);

/* Any thread, no lock. Nobody's watch is WELL. */
enum ledger_health ledger_watch_health(const struct ledger_watch *watch);
/* Any thread. An error, for the log; the same sentence again, of another connection or after another try, is logged after
 * ten seconds only. Nobody's watch logs it. */
#define LEDGER_SENTENCE_BYTES 1024
void ledger_watch_say(struct ledger_watch *watch, const char *sentence);
/* Any thread. Something was not written that should have been, and locks of others were not the reason. */
void ledger_watch_doubt(struct ledger_watch *watch);

#endif
