/* config check: what is wrong with a configuration, and what serve would refuse that it names. */
#include "base/log.h"
#include "command/command.h"
#include "courier/courier.h"
#include "gateway/tls.h"
#include "guard/blocks.h"
#include "people/keys.h"
#include "people/payment_keys.h"
#include "people/resp_accounts.h"
#include "publisher/publisher.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* Files that options name. Each is read by the loader that serve has for it, and nothing is made. */

static enum fault folder_try(const char *path)
{
    struct stat about;
    int error = stat(path, &about) != 0 ? errno : S_ISDIR(about.st_mode) ? 0 : ENOTDIR;
    if (error != 0) log_error("config", "cannot use the folder %s: %s", path, strerror(error));
    return error == 0 ? FAULT_NONE : FAULT_CONFIG;
}

static enum fault folder_of_try(const char *path)
{
    char folder[COMMAND_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    return folder_try(dirname(folder));
}

static bool is_missing(const char *path)
{
    struct stat about;
    return stat(path, &about) != 0 && errno == ENOENT;
}

/* The first start makes it, but not what it is in. */
static enum fault data_try(const struct config *config)
{
    return is_missing(config->data) ? folder_of_try(config->data) : folder_try(config->data);
}

/* A file that the first start makes needs a folder; that of the data has been looked at. */
static enum fault made_try(const char *path, const char *given)
{
    return given[0] != '\0' ? folder_of_try(path) : FAULT_NONE;
}

static enum fault keys_try(const struct config *config)
{
    char path[COMMAND_PATH_BYTES];
    const char *text = getenv("STAMPEDE_KEYS_TEXT");
    struct jwt_ring *ring = NULL;
    command_path(path, config->keys, config->data, "keys");
    if ((text == NULL || text[0] == '\0') && is_missing(path)) return made_try(path, config->keys);
    enum fault fault = keys_open(&ring, path, slice_of(text != NULL ? text : ""));
    if (fault == FAULT_NONE) jwt_ring_close(ring);
    return fault;
}

static enum fault payment_keys_try(const struct config *config)
{
    char path[COMMAND_PATH_BYTES];
    const char *text = getenv("STAMPEDE_PAYMENT_KEYS_TEXT");
    struct payment_keys *keys = NULL;
    command_path(path, config->payment_keys, config->data, "payment_keys");
    if ((text == NULL || text[0] == '\0') && is_missing(path)) return made_try(path, config->payment_keys);
    enum fault fault = payment_keys_open(&keys, path, slice_of(text != NULL ? text : ""));
    payment_keys_close(keys);
    return fault;
}

static enum fault accounts_try(const struct config *config)
{
    const struct resp_accounts_options options = {
        .path = config->resp_accounts,
        .issuer = config->identity_keys[0] != '\0' ? config->identity_issuer : "",
    };
    return resp_accounts_try(&options);
}

static enum fault tls_try(const struct config *config)
{
    SSL_CTX *context = NULL;
    if (config->tls_cert[0] == '\0') return FAULT_NONE;
    enum fault fault = tls_context_open(&context, config->tls_cert, config->tls_key);
    if (fault == FAULT_NONE) tls_context_close(context);
    return fault;
}

static enum fault identity_try(const struct config *config)
{
    const struct people_external identity = command_identity(config);
    return people_external_try(&identity);
}

static enum fault blocks_try(const struct config *config)
{
    char path[COMMAND_PATH_BYTES];
    struct blocks *blocks;
    if (config->blocks[0] == '\0' && is_missing(config->data)) return FAULT_NONE;
    command_path(path, config->blocks, config->data, "blocks");
    enum fault fault = blocks_open(&blocks, path);
    if (fault == FAULT_NONE) blocks_close(blocks);
    return fault;
}

static enum fault webhook_ca_try(const struct config *config)
{
    return courier_ca_check(config->webhook_ca);
}

static const struct {
    const char *option;
    enum fault (*try)(const struct config *config);
} files[] = {
    { "data", data_try },
    { "resp_accounts", accounts_try },
    { "keys", keys_try },
    { "payment_keys", payment_keys_try },
    { "tls_cert and tls_key", tls_try },
    { "identity_keys", identity_try },
    { "blocks", blocks_try },
    { "webhook_ca", webhook_ca_try },
};

/* The sentence is what serve would log. */
static bool files_good(const char *file)
{
    struct config config;
    struct config_mistake mistake;
    uint64_t told = 0;
    bool good = true;
    if (config_load(&config, file, 0, NULL, &mistake) != FAULT_NONE) return true; /* said elsewhere */
    log_keep_only(true);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (files[i].try(&config) == FAULT_NONE) continue;
        struct log_kept line;
        const struct log_ask last = { .level = LOG_ERROR, .max = 1 };
        bool said = log_tail(&last, &line) == 1 && line.id > told;
        if (said) told = line.id;
        printf("%s: %s: %s\n", file, files[i].option, said ? line.message : "there is no memory to look at it");
        good = false;
    }
    log_keep_only(false);
    return good;
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
    if (mistakes == 0 && !files_good(file)) mistakes++;
    if (mistakes == 0 && !gate_good(file)) mistakes++;
    if (mistakes == 0 && !queue_good(file)) mistakes++;
    if (mistakes == 0) printf("%s: fine\n", file);
    return mistakes == 0 ? EXIT_OK : EXIT_FAILED;
}
