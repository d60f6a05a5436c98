/* Where the options say that the ledger and the gate are, and who vouches for people. */
#include "base/secret_file.h"
#include "command/command.h"
#include "guard/exchange.h"
#include "guard/gossip.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

/* A replica that is silent for longer is passed over: the ledger itself can be asked. */
#define REPLICA_ANSWER_S_MAX 3

/* Never among the flags: every user of the machine sees those. */
static bool password_take(const struct config *config, struct command_places *out)
{
    char password[PASSWORD_TEXT_BYTES];
    const struct password_source source = { "ledger", "password of the ledger", config->ledger_password_file,
                                            "STAMPEDE_LEDGER_PASSWORD" };
    bool found = password_find(password, &source) == FAULT_NONE;
    bool fits = strlen(password) < sizeof out->ledger.password;
    if (found && fits) {
        memcpy(out->ledger.password, password, strlen(password) + 1);
    } else {
        fprintf(stderr, "stampede: ledger_password_file or STAMPEDE_LEDGER_PASSWORD: %s\n",
                found ? "longer than a password of a database may be" : "no password could be read");
    }
    OPENSSL_cleanse(password, sizeof password);
    return found && fits;
}

static void tls_take(const struct config *config, struct ledger_place *out)
{
    bool verify = strcmp(config->ledger_tls, "verify") == 0;
    out->tls = verify ? PLACE_TLS_VERIFY : strcmp(config->ledger_tls, "off") == 0 ? PLACE_TLS_OFF : PLACE_TLS_REQUIRED;
    snprintf(out->tls_ca, sizeof out->tls_ca, "%s", config->ledger_tls_ca);
}

/* Its URLs into out; false with the sentence that says what is wrong. */
static bool ledger_read_urls(struct command_places *out, const struct config *config, char mistake[LEDGER_MISTAKE_BYTES])
{
    bool file = strcmp(config->ledger, "sqlite") == 0;
    out->replica = config->ledger_read[0] != '\0';
    if (file && out->replica)
        snprintf(mistake, LEDGER_MISTAKE_BYTES, "ledger_read is for one in MySQL; with ledger = sqlite there is no replica");
    if (file) return !out->replica;
    return ledger_place_read(&out->ledger, slice_of(config->ledger), mistake) &&
           (!out->replica || ledger_place_read(&out->read, slice_of(config->ledger_read), mistake));
}

bool command_ledger_good(const struct config *config, char mistake[LEDGER_MISTAKE_BYTES])
{
    static struct command_places places;
    return ledger_read_urls(&places, config, mistake);
}

bool command_places(struct command_places *out, const struct config *config)
{
    char mistake[LEDGER_MISTAKE_BYTES];
    memset(out, 0, sizeof *out);
    snprintf(out->path, sizeof out->path, "%s/ledger.db", config->data);
    out->ledger.path = out->path;
    if (!ledger_read_urls(out, config, mistake)) {
        fprintf(stderr, "stampede: ledger: %s\n", mistake);
        return false;
    }
    if (strcmp(config->ledger, "sqlite") == 0) return true;
    tls_take(config, &out->ledger);
    tls_take(config, &out->read);
    out->read.answer_s_max = REPLICA_ANSWER_S_MAX;
    out->ledger.unsafe = strcmp(config->ledger_unsafe, "on") == 0;
    if (!password_take(config, out)) return false;
    memcpy(out->read.password, out->ledger.password, sizeof out->read.password);
    return true;
}

void command_path(char out[COMMAND_PATH_BYTES], const char *given, const char *data, const char *name)
{
    bool chosen = given[0] != '\0';
    snprintf(out, COMMAND_PATH_BYTES, "%s%s%s", chosen ? given : data, chosen ? "" : "/", chosen ? "" : name);
}

struct people_external command_identity(const struct config *config)
{
    return (struct people_external){
        .issuer = config->identity_issuer,
        .audience = config->identity_audience,
        .key_path = config->identity_keys,
        .alg = config->identity_alg,
        .subject_claim = config->identity_subject_claim,
        .role_claim = config->identity_role_claim,
        .roles = config->identity_roles,
        .leeway_s = (uint32_t)config->identity_leeway_s,
    };
}

const char *command_gate_objection(const struct config *config)
{
    bool local = strcmp(config->gate, "local") == 0;
    if (local && strcmp(config->ack, "ledger") != 0)
        return "ack is for a gate in Redis; with gate = local a win is told when the journal has it";
    if (local && config->share_percent != 0)
        return "share_percent is for a gate in Redis; with gate = local there is nobody to share with";
    if (local && config->node != 0) return "node is for a gate in Redis; with gate = local there is one node";
    return NULL;
}

static bool redis_passwords_take(struct redis_options *out, const struct config *config)
{
    char sentence[REDIS_SENTENCE_BYTES];
    bool found = redis_password_find(out->password, config->redis_password_file, "STAMPEDE_REDIS_PASSWORD", sentence);
    if (found)
        found = redis_password_find(out->sentinel_password, config->redis_sentinel_password_file,
                                    "STAMPEDE_REDIS_SENTINEL_PASSWORD", sentence);
    if (!found) fprintf(stderr, "stampede: gate: %s\n", sentence);
    return found;
}

bool command_gate(struct command_gate *out, const struct config *config)
{
    static struct redis_script scripts[COMMAND_SCRIPT_COUNT];
    char mistake[REDIS_SENTENCE_BYTES];
    memset(out, 0, sizeof *out);
    const char *objection = command_gate_objection(config);
    if (objection != NULL) {
        fprintf(stderr, "stampede: %s\n", objection);
        return false;
    }
    if (strcmp(config->gate, "local") == 0) return true;
    out->shared = true;
    if (!redis_url_parse(&out->redis.place, slice_of(config->gate), mistake)) {
        fprintf(stderr, "stampede: gate: %s\n", mistake);
        return false;
    }
    memcpy(scripts, gate_scripts, sizeof gate_scripts);
    scripts[COMMAND_SCRIPT_SPEND] = exchange_script;
    scripts[COMMAND_SCRIPT_GOSSIP] = gossip_script;
    out->redis.scripts = scripts;
    out->redis.scripts_count = COMMAND_SCRIPT_COUNT;
    return redis_passwords_take(&out->redis, config);
}
