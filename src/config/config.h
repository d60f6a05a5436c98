/* config: one table of options; file, environment and flags fill one struct.
 *
 * Flags win over environment (STAMPEDE_ and the name in capitals), environment over the file, the file over the default. A
 * file has one "name = value" a line, # comments. Help, conf/stampede.conf and docs are checked against the table
 * (config/options.h).
 *
 * An unknown name in the file or among the flags is a mistake. In the environment it is not: a cluster puts names of its own
 * there, such as STAMPEDE_SERVICE_HOST. Secrets are no options, because flags are seen by every user of the machine; paths
 * of theirs are, and one that is relative is of $CREDENTIALS_DIRECTORY where that is set, whoever gave it. */
#ifndef STAMPEDE_CONFIG_CONFIG_H
#define STAMPEDE_CONFIG_CONFIG_H

#include "base/fault.h"
#include "bounds.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_TEXT_BYTES 512

/* A line that sales can name: line.NAME.rate, line.NAME.size, line.NAME.timeout_ms (config/lines.h). */
struct config_line {
    char name[LINE_NAME_BYTES_MAX + 1];
    int64_t rate;
    int64_t size;
    int64_t timeout_ms;
};

struct config {
    char data[CONFIG_TEXT_BYTES];
    char ledger[CONFIG_TEXT_BYTES];               /* sqlite, or the URL of MySQL */
    char ledger_read[CONFIG_TEXT_BYTES];          /* URL of a replica of it; empty: none */
    char ledger_password_file[CONFIG_TEXT_BYTES]; /* path; empty: the environment has it */
    char ledger_tls[CONFIG_TEXT_BYTES];           /* off, required, verify */
    char ledger_tls_ca[CONFIG_TEXT_BYTES];        /* PEM; empty: the system's */
    char ledger_unsafe[CONFIG_TEXT_BYTES];        /* off, on: also where commits may be lost */
    char gate[CONFIG_TEXT_BYTES];                 /* local, or the URL of Redis */
    char redis_password_file[CONFIG_TEXT_BYTES];  /* path; empty: the environment has it */
    char redis_sentinel_password_file[CONFIG_TEXT_BYTES];
    char redis_prefix[CONFIG_TEXT_BYTES]; /* of every key */
    char ack[CONFIG_TEXT_BYTES];          /* gate, replica, ledger: when "won" is said */
    int64_t replicas, replica_ms;
    int64_t node;       /* 0: one that nobody has */
    int64_t stream_max; /* decisions of a sale that may wait to be filed */
    int64_t filer_threads;
    int64_t warm_before_s;
    int64_t share_percent;                 /* 0: a node asks for as much as comes */
    char http[CONFIG_TEXT_BYTES];          /* ADDR:PORT */
    char resp[CONFIG_TEXT_BYTES];          /* ADDR:PORT, or off */
    char resp_accounts[CONFIG_TEXT_BYTES]; /* path; empty: one account without a password, on loopback */
    char tls_cert[CONFIG_TEXT_BYTES];      /* PEM chain; empty: no TLS */
    char tls_key[CONFIG_TEXT_BYTES];
    char log_level[CONFIG_TEXT_BYTES]; /* debug, info, warn, error */
    char keys[CONFIG_TEXT_BYTES];      /* path of the signing keys; empty: DATA/keys */
    char proxies[CONFIG_TEXT_BYTES];   /* whose X-Forwarded-For counts; empty: nobody */
    char limits[CONFIG_TEXT_BYTES];    /* name=value of the guard, separated by commas */
    char blocks[CONFIG_TEXT_BYTES];    /* path of the block list; empty: DATA/blocks */
    int64_t reactors;                  /* 0: one per core */
    int64_t connections_max;
    int64_t orders_max;
    int64_t sales_per_seller_max;
    int64_t journal_segment_mb;
    int64_t space_mb_min; /* free disk space under which grabs get BUSY */
    int64_t clerk_pause_ms;
    int64_t token_ttl_s;
    int64_t token_purchase_ttl_s;
    int64_t password_threads; /* 0: half the cores, at least 1 */
    int64_t query_threads;
    char payment_keys[CONFIG_TEXT_BYTES]; /* path of the provider's secrets; empty: DATA/payment_keys */
    int64_t payment_tolerance_s;
    int64_t drain_ms_max;                  /* SIGTERM: how long answers may take */
    char identity_keys[CONFIG_TEXT_BYTES]; /* the operator's own provider; empty: none */
    char identity_alg[CONFIG_TEXT_BYTES];  /* RS256, ES256, EdDSA */
    char identity_issuer[CONFIG_TEXT_BYTES];
    char identity_audience[CONFIG_TEXT_BYTES];
    char identity_subject_claim[CONFIG_TEXT_BYTES];
    char identity_role_claim[CONFIG_TEXT_BYTES];
    char identity_roles[CONFIG_TEXT_BYTES]; /* "value=role,…" */
    int64_t identity_leeway_s;
    int64_t breaker_window_ms;
    int64_t breaker_share_percent; /* 0: no breaker */
    int64_t breaker_slow_ms;       /* 0: slowness is not judged */
    int64_t breaker_open_ms;
    int64_t breaker_probes;
    int64_t memory_mb_max; /* 0: a share of what the machine has */
    int64_t place_heartbeat_ms;
    char webhooks_private[CONFIG_TEXT_BYTES]; /* on, off: whether webhooks may go to private addresses */
    char webhook_ca[CONFIG_TEXT_BYTES];       /* PEM; empty: the system's */
    int64_t webhook_timeout_ms;
    int64_t webhook_retry_ms_min, webhook_retry_ms_max;
    int64_t webhook_give_up_s;
    char publish[CONFIG_TEXT_BYTES];               /* off, or the URL of a queue (config/publish.h) */
    char publish_password_file[CONFIG_TEXT_BYTES]; /* path; empty: none */
    int64_t publish_waiting_max;
    char door_coupon[CONFIG_TEXT_BYTES], door_ticket[CONFIG_TEXT_BYTES]; /* on, off */
    char door_claim[CONFIG_TEXT_BYTES], door_cart[CONFIG_TEXT_BYTES];    /* on, off */
    int64_t door_luck_sale;
    char pages[CONFIG_TEXT_BYTES];         /* on, off: the storefront and the console */
    char demo_payments[CONFIG_TEXT_BYTES]; /* off, on: buyers pay without money */
    struct config_line lines[LINES_DECLARED_MAX];
    int64_t lines_count;
};

/* What a mistake is about: where it stands ("FILE line N", "environment NAME", "flag --name") and what to do. */
struct config_mistake {
    char text[512];
};

/* file NULL: none. argc, argv: only flags, after the command word. FAULT_CONFIG has filled *mistake. */
enum fault config_load(struct config *out, const char *file, int argc, char **argv, struct config_mistake *mistake) MUST_USE;
/* Every mistake of a file, each with its line number; the number of them. -1 if it cannot be read. */
int config_check(const char *file, FILE *report);
void config_help(FILE *out); /* a line or two for each option */
/* The path in --config FILE among the flags, or STAMPEDE_CONFIG, or NULL. */
const char *config_file(int argc, char **argv);
/* SIGHUP: takes from fresh what may change while the server runs, and returns how many options that were. The names of those
 * that differ but need a restart are in kept->text, separated by commas. */
int config_reload(struct config *running, const struct config *fresh, struct config_mistake *kept);

#endif
