/* command: the server and its tools, by their words on the command line. Each takes what follows its word and answers the
 * exit code. */
#ifndef STAMPEDE_COMMAND_COMMAND_H
#define STAMPEDE_COMMAND_COMMAND_H

#include "config/config.h"
#include "gate/scripts.h"
#include "ledger/place.h"
#include "people/people.h"
#include "redis/redis.h"

enum exit_code { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DAMAGED = 3 };

int command_serve(int argc, char **argv);     /* runs the server until it is told to stop */
int command_demo(int argc, char **argv);      /* a server, a sale and a crowd, and the proof that the numbers add up */
int command_admin(int argc, char **argv);     /* admin create NAME, password on standard input */
int command_audit(int argc, char **argv);     /* proves the promises offline */
int command_export(int argc, char **argv);    /* orders or sales as CSV or JSON Lines */
int command_repair(int argc, char **argv);    /* shows, and with --yes cuts, a damaged journal */
int command_reconcile(int argc, char **argv); /* holds Redis against the ledger; with --repair builds anew what differs */
int command_config(int argc, char **argv);    /* config check [FILE] */
int command_health(int argc, char **argv);    /* asks a running server whether it is alive, or ready */
int command_routes(int argc, char **argv);    /* the route table, one line each */
int command_version(int argc, char **argv);

/* Options of a tool: what config_load() takes. False: the mistake is on standard error. */
bool command_options(struct config *config, int argc, char **argv);
/* The path an option gives, or a name in the data folder. */
#define COMMAND_PATH_BYTES (CONFIG_TEXT_BYTES + 16)
void command_path(char out[COMMAND_PATH_BYTES], const char *given, const char *data, const char *name);
/* Where the ledger is, and a replica of it if there is one. Not to be moved: the place of a file points into it. False: the
 * mistake is on standard error. */
struct command_places {
    char path[CONFIG_TEXT_BYTES + 16];
    struct ledger_place ledger, read;
    bool replica; /* read counts */
};
bool command_places(struct command_places *out, const struct config *config);
/* Whether the options of the ledger can be read together, as far as nobody has to be asked for it. False: mistake says
 * why. */
bool command_ledger_good(const struct config *config, char mistake[LEDGER_MISTAKE_BYTES]);
/* The operator's own identity provider; its texts are those of config. */
struct people_external command_identity(const struct config *config);
/* Where the gate is: shared is false for one of this process, and nothing else counts. False: the mistake is on standard
 * error. */
struct command_gate {
    bool shared;
    struct redis_options redis;
};
bool command_gate(struct command_gate *out, const struct config *config);
/* Scripts of that Redis: the gate's by their names there, then those of others. */
enum { COMMAND_SCRIPT_SPEND = GATE_SCRIPT_COUNT, COMMAND_SCRIPT_GOSSIP, COMMAND_SCRIPT_COUNT };
/* What contradicts itself among the options of the gate, as a sentence; NULL: nothing. */
const char *command_gate_objection(const struct config *config);
/* Locks the data folder, which must be there and not be in use. False: said why on standard error. */
bool command_lock(const struct config *config, int *lock_fd);
/* The same for one who only reads, also where nobody can write, and leaves nothing behind: *lock_fd is -1 where there is
 * nothing to lock, because no server has ever run there or its lock is not for us to see. */
bool command_lock_reading(const struct config *config, int *lock_fd);

#endif
