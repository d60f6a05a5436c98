#include "base/log.h"
#include "command/command.h"
#include "journal/journal.h"
#include "ledger/ledger.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char *place_name(const struct ledger_place *place)
{
    return place->path != NULL ? place->path : place->name;
}

static enum fault point_read(const struct ledger_place *place, struct ledger_point *point)
{
    memset(point, 0, sizeof *point);
    if (place->path != NULL && access(place->path, F_OK) != 0) return FAULT_NONE;
    struct ledger *ledger;
    enum fault fault = ledger_open(&ledger, place, LEDGER_READER);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_point(ledger, point);
    ledger_close(ledger);
    return fault;
}

static int repair_run(const struct config *config, bool yes)
{
    static struct command_places places;
    struct ledger_point filed;
    struct journal_diagnosis found;
    char folder[CONFIG_TEXT_BYTES + 16], copy[512];
    snprintf(folder, sizeof folder, "%s/journal", config->data);
    if (!command_places(&places, config)) return EXIT_FAILED;
    enum fault fault = point_read(&places.ledger, &filed);
    if (fault == FAULT_DAMAGE) {
        printf("the ledger %s is damaged: put it back from a copy\n", place_name(&places.ledger));
        return EXIT_DAMAGED;
    }
    struct journal_point point = { .seq = filed.seq, .digest = filed.digest };
    memcpy(point.uuid, filed.uuid, sizeof point.uuid);
    if (fault != FAULT_NONE || journal_diagnose(folder, &point, &found) != FAULT_NONE) {
        fprintf(stderr, "stampede: cannot read %s\n", config->data);
        return EXIT_FAILED;
    }
    if (!found.damaged) {
        printf("nothing to repair: the journal is good up to decision %" PRIu64 "\n", found.seq_good);
        printf("the ledger is not looked at here: stampede audit --data %s shows what is wrong with it; put it back from a "
               "copy\n",
               config->data);
        return EXIT_OK;
    }
    printf("damaged: %s at offset %" PRIu64 ": %s\n", found.damage.file, found.damage.offset, found.damage.reason);
    printf("good: up to decision %" PRIu64 "; the ledger has filed up to %" PRIu64 "\n", found.seq_good, point.seq);
    printf("a cut would lose: %" PRIu64 " bytes, with at least %" PRIu64 " readable decisions after the damage\n",
           found.bytes_lost, found.decisions_lost_min);
    if (!found.cuttable) {
        printf("this cannot be cut: the ledger has filed beyond the damage; restore the journal folder from a copy\n");
        return EXIT_DAMAGED;
    }
    if (!yes) {
        printf("nothing was changed; to keep a copy and cut here, run: stampede repair --data %s --yes\n", config->data);
        return EXIT_DAMAGED;
    }
    if (journal_cut(folder, &found, copy) != FAULT_NONE) {
        fprintf(stderr, "stampede: the cut failed; the copy in %s is whole\n", copy);
        return EXIT_FAILED;
    }
    printf("cut at decision %" PRIu64 "; the journal as it was is in %s\n", found.seq_good, copy);
    return EXIT_OK;
}

int command_repair(int argc, char **argv)
{
    struct config config;
    bool yes = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--yes") != 0) continue;
        yes = true;
        memmove(argv + i, argv + i + 1, (size_t)(argc - i - 1) * sizeof *argv);
        argc--;
        i--;
    }
    int lock_fd;
    if (!command_options(&config, argc, argv)) return EXIT_USAGE;
    if (!command_lock(&config, &lock_fd)) return EXIT_FAILED;
    int code = repair_run(&config, yes);
    close(lock_fd);
    return code;
}
