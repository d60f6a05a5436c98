#include "command/command.h"

#include "base/disk.h"
#include "doors/doors.h"
#include "gateway/pages.h"
#include "publisher/publisher.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool command_options(struct config *config, int argc, char **argv)
{
    struct config_mistake mistake;
    if (config_load(config, config_file(argc, argv), argc, argv, &mistake) == FAULT_NONE) return true;
    fprintf(stderr, "stampede: %s\n", mistake.text);
    return false;
}

bool command_lock(const struct config *config, int *lock_fd)
{
    if (access(config->data, R_OK | W_OK | X_OK) != 0) {
        fprintf(stderr, "stampede: cannot use the data folder %s: %s; name it with --data\n", config->data, strerror(errno));
        return false;
    }
    long pid = 0;
    enum fault fault = disk_lock_folder(config->data, lock_fd, &pid);
    return fault == FAULT_NONE;
}

/* Whether the queue of a good file can be reached, and takes us. A mistake in its password or its exchange shows only when
 * it is tried, and better now than in the middle of a sale. */
static bool queue_good(const char *file)
{
    struct config config;
    struct config_mistake mistake;
    if (config_load(&config, file, 0, NULL, &mistake) != FAULT_NONE) {
        printf("%s\n", mistake.text);
        return false;
    }
    char error[PUBLISHER_ERROR_BYTES];
    bool good = publisher_try(config.publish, config.publish_password_file, error);
    if (!good) printf("%s: publish: %s\n", file, error);
    return good;
}

/* What the options of the gate are together; the table has looked at each. */
static bool gate_good(const char *file)
{
    struct config config;
    struct config_mistake mistake;
    struct redis_place place;
    char sentence[REDIS_SENTENCE_BYTES];
    if (config_load(&config, file, 0, NULL, &mistake) != FAULT_NONE) return true; /* said elsewhere */
    const char *objection = command_gate_objection(&config);
    bool shared = strcmp(config.gate, "local") != 0;
    if (objection == NULL && shared && !redis_url_parse(&place, slice_of(config.gate), sentence)) objection = sentence;
    if (objection != NULL) {
        printf("%s: gate: %s\n", file, objection);
    } else if (shared && strcmp(config.ledger, "sqlite") == 0) {
        printf("%s: gate is in Redis and the ledger is a file of this machine: that is one node, and no other can join\n",
               file);
    }
    return objection == NULL;
}

/* Whether serve would take the options of the ledger and of the identity provider; neither is asked for anything. */
static bool places_good(const char *file)
{
    struct config config;
    struct config_mistake mistake;
    char sentence[LEDGER_MISTAKE_BYTES];
    if (config_load(&config, file, 0, NULL, &mistake) != FAULT_NONE) return true; /* said elsewhere */
    bool ledger_good = command_ledger_good(&config, sentence);
    if (!ledger_good) printf("%s: ledger: %s\n", file, sentence);
    const struct people_external identity = command_identity(&config);
    const char *objection = people_external_objection(&identity);
    if (objection != NULL) printf("%s: %s\n", file, objection);
    return ledger_good && objection == NULL;
}

int command_config(int argc, char **argv)
{
    if (argc < 1 || strcmp(argv[0], "check") != 0 || argc > 2) {
        fprintf(stderr, "usage: stampede config check [FILE]\n");
        return EXIT_USAGE;
    }
    const char *file = argc == 2 ? argv[1] : config_file(0, NULL);
    if (file == NULL) file = "conf/stampede.conf";
    int mistakes = config_check(file, stdout);
    if (mistakes < 0) return EXIT_FAILED; /* the file could not be read, which is said */
    if (mistakes == 0 && !places_good(file)) mistakes++;
    if (mistakes == 0 && !gate_good(file)) mistakes++;
    if (mistakes == 0 && !queue_good(file)) mistakes++;
    if (mistakes == 0) printf("%s: fine\n", file);
    return mistakes == 0 ? EXIT_OK : EXIT_FAILED;
}

int command_routes(int argc, char **argv)
{
    (void)argv;
    if (argc != 0) {
        fprintf(stderr, "usage: stampede routes\n");
        return EXIT_USAGE;
    }
    struct route_tables doors;
    doors_collect(&doors_all, &doors);
    pages_collect(&pages_all, &doors);
    routes_print(&doors, stdout);
    return EXIT_OK;
}

int command_version(int argc, char **argv)
{
    (void)argv;
    if (argc != 0) {
        fprintf(stderr, "usage: stampede version\n");
        return EXIT_USAGE;
    }
    printf("stampede %s\n", STAMPEDE_VERSION);
    return EXIT_OK;
}
