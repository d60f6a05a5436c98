/* place: where a ledger is. A plain value; the strings of MySQL's are in it, the path of SQLite's file is not. Whoever
 * copies a place keeps that path. */
#ifndef STAMPEDE_LEDGER_PLACE_H
#define STAMPEDE_LEDGER_PLACE_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define LEDGER_PLACE_BYTES 512
#define LEDGER_MISTAKE_BYTES 256

struct ledger_watch;

enum place_tls { PLACE_TLS_OFF, PLACE_TLS_REQUIRED, PLACE_TLS_VERIFY };

struct ledger_place {
    const char *path;              /* of SQLite's file; NULL: MySQL, where the rest says */
    char name[LEDGER_PLACE_BYTES]; /* the URL, for the log */
    char user[LEDGER_PLACE_BYTES], host[LEDGER_PLACE_BYTES], socket[LEDGER_PLACE_BYTES], database[LEDGER_PLACE_BYTES];
    char password[LEDGER_PLACE_BYTES], tls_ca[LEDGER_PLACE_BYTES]; /* empty: none */
    uint16_t port;
    enum place_tls tls;
    bool unsafe;                /* also on a database that may lose what it has committed */
    bool patient;               /* an answer may take as long as it likes: tools that read everything */
    bool quiet;                 /* what fails is not logged: whoever asks has said it before */
    unsigned answer_s_max;      /* longer the database must not be silent; 0: half a minute, or less where it is watched */
    struct ledger_watch *watch; /* see watch.h; NULL: nobody watches */
};

/* SQLite's file as a place. */
#define LEDGER_FILE(file) (&(struct ledger_place){ .path = (file) })

/* mysql://user@host:port/database or mariadb://…, with ?socket=PATH for a socket of this machine. False: said why. */
bool ledger_place_read(struct ledger_place *out, struct slice url, char mistake[LEDGER_MISTAKE_BYTES]);

#endif
