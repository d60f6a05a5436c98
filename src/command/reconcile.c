/* reconcile: holds what the Redis of a gate has against the ledger, sale by sale, and says each difference; with --repair it
 * builds the sales that differ anew, as the ledger has them. Nodes may serve meanwhile. */
#include "command/shop.h"
#include "gate/reconcile.h"
#include "ledger/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REACH_MS 10000

static void difference(void *arg, const char *line)
{
    (void)arg;
    printf("differs: %s\n", line);
}

static int outcome(const struct reconcile *found, enum fault fault)
{
    if (fault == FAULT_IN_USE || fault == FAULT_FENCED) {
        fprintf(stderr, "stampede: %s\n",
                fault == FAULT_IN_USE ? "another reconcile --repair is under way: wait for it"
                                      : "this took so long that the repair was given to another: start it again");
        return EXIT_FAILED;
    }
    if (fault != FAULT_NONE) {
        fprintf(stderr, "stampede: not all could be compared: the %s did not answer\n",
                fault == FAULT_LEDGER   ? "ledger"
                : fault == FAULT_MEMORY ? "system"
                                        : "Redis");
        return EXIT_FAILED;
    }
    printf("%" PRIu64 " sales compared, %" PRIu64 " differ by %" PRIu64 " facts", found->sales, found->differing,
           found->differences);
    if (found->repair) printf(", %" PRIu64 " built anew or dropped", found->repaired);
    printf("\n");
    return found->differing == 0 || (found->repair && found->repaired == found->differing) ? EXIT_OK : EXIT_FAILED;
}

/* Elsewhere nothing is there, and a repair would build a second gate beside the one that sells. */
static bool place_good(const struct config *config, const struct command_gate *gate, const struct ledger_place *place)
{
    const struct shop_place keys = { &gate->redis.place, config->redis_prefix, false };
    char sentence[SHOP_SENTENCE_BYTES] = "not all could be compared: the ledger did not answer";
    struct ledger *ledger;
    enum fault fault = ledger_open(&ledger, place, LEDGER_READER);
    if (fault == FAULT_NONE) {
        fault = shop_place_check(ledger, &keys, sentence);
        ledger_close(ledger);
    }
    if (fault != FAULT_NONE) fprintf(stderr, "stampede: %s\n", sentence);
    return fault == FAULT_NONE;
}

static int reconcile_run(const struct config *config, const struct command_gate *place, const struct ledger_place *ledger,
                         bool repair)
{
    char sentence[REDIS_SENTENCE_BYTES];
    struct reconcile reconcile = { .repair = repair, .tell = difference };
    struct gate_shared_options options = {
        .prefix = config->redis_prefix,
        .ledger = ledger,
        .log_max = (uint32_t)config->stream_max,
    };
    struct gate *gate;
    if (redis_open(&options.redis, &place->redis) != FAULT_NONE) return EXIT_FAILED;
    int code = EXIT_FAILED;
    if (redis_reach(options.redis, REACH_MS, sentence) != FAULT_NONE) {
        fprintf(stderr, "stampede: gate: %s\n", sentence);
    } else if (gate_open_shared(&gate, &options) == FAULT_NONE) {
        code = outcome(&reconcile, gate_reconcile(gate, &reconcile));
        gate_close(gate);
    }
    redis_close(options.redis);
    return code;
}

int command_reconcile(int argc, char **argv)
{
    struct config config;
    struct command_places places;
    struct command_gate gate;
    int kept = 0;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--repair") != 0) argv[kept++] = argv[i];
    }
    bool repair = kept < argc;
    if (!command_options(&config, kept, argv) || !command_places(&places, &config) || !command_gate(&gate, &config))
        return EXIT_USAGE;
    if (!gate.shared) {
        fprintf(stderr, "stampede: gate is local: there is no Redis to compare; `stampede audit` proves the journal\n");
        return EXIT_USAGE;
    }
    places.ledger.patient = true;
    if (!place_good(&config, &gate, &places.ledger)) return EXIT_FAILED;
    return reconcile_run(&config, &gate, &places.ledger, repair);
}
