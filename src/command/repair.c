#include "base/log.h"
#include "command/command.h"
#include "journal/journal.h"
#include "ledger/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *place_name(const struct ledger_place *place)
{
    return place->path != NULL ? place->path : place->name;
}

/* A file that is not there, or that nobody has written to yet, is a new ledger. */
static bool place_is_empty(const struct ledger_place *place)
{
    struct stat about;
    return place->path != NULL && (stat(place->path, &about) != 0 ? errno == ENOENT : about.st_size == 0);
}

static enum fault point_read(const struct ledger_place *place, struct ledger_point *point)
{
    memset(point, 0, sizeof *point);
    if (place_is_empty(place)) return FAULT_NONE;
    struct ledger *ledger;
    enum fault fault = ledger_open(&ledger, place, LEDGER_READER);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_point(ledger, point);
    ledger_close(ledger);
    return fault;
}

/* What the journal has no record of is lost for good: this is done only when told. */
static int ledger_replace(const struct config *config, const struct ledger_place *place,
                          const struct journal_diagnosis *found, bool yes)
{
    printf("the ledger %s has never belonged to a journal, but the journal here has %" PRIu64 " decisions\n",
           place_name(place), found->seq_good);
    printf("put the ledger of this shop back from a copy; without one, sales and orders are filed anew from the journal, "
           "but users, passwords, logouts, webhooks, events and their subscribers are lost (not where this is the ledger "
           "of this shop, which an earlier version left before it filed anything)\n");
    printf("everybody has to register anew, and who registers the name of a buyer first gets the buyer's orders; unless "
           "%s/keys is removed, logins that had been logged out count again\n",
           config->data);
    if (!yes) {
        printf("nothing was changed; to go on without that ledger, run: stampede repair --data %s --yes\n", config->data);
        return EXIT_DAMAGED;
    }
    struct ledger *ledger;
    enum fault fault = ledger_open(&ledger, place, LEDGER_OWNER);
    if (fault == FAULT_NONE) {
        fault = ledger_point_begin(ledger, found->uuid);
        ledger_close(ledger);
    }
    if (fault != FAULT_NONE) {
        fprintf(stderr, "stampede: cannot write %s\n", place_name(place));
        return EXIT_FAILED;
    }
    printf("the ledger belongs to this journal now; stampede serve files its decisions\n");
    return EXIT_OK;
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
        printf("the ledger %s is damaged: put it back from a copy; without one, move it away and run this again\n",
               place_name(&places.ledger));
        return EXIT_DAMAGED;
    }
    struct journal_point point = { .seq = filed.seq, .digest = filed.digest };
    memcpy(point.uuid, filed.uuid, sizeof point.uuid);
    if (fault != FAULT_NONE || journal_diagnose(folder, &point, &found) != FAULT_NONE) {
        fprintf(stderr, "stampede: cannot read %s\n", config->data);
        return EXIT_FAILED;
    }
    if (!found.damaged && found.seq_good > 0 && ledger_point_is_new(&filed))
        return ledger_replace(config, &places.ledger, &found, yes);
    if (!found.damaged) {
        printf("nothing to repair: the journal is good up to decision %" PRIu64 "\n", found.seq_good);
        printf("the ledger is not looked at here: stampede audit --data %s shows what is wrong with it; put it back from a "
               "copy, or, to go on without its users, move it away and run this again\n",
               config->data);
        return EXIT_OK;
    }
    printf("damaged: %s at offset %" PRIu64 ": %s\n", found.damage.file, found.damage.offset, found.damage.reason);
    printf("good: up to decision %" PRIu64 "; the ledger has filed up to %" PRIu64 "\n", found.seq_good, point.seq);
    if (found.bytes_lost > 0) {
        printf("a cut would lose: %" PRIu64 " bytes, with at least %" PRIu64 " readable decisions after the damage\n",
               found.bytes_lost, found.decisions_lost_min);
    } else {
        printf("a cut would lose nothing that is still there\n");
    }
    if (!found.cuttable) {
        printf("this cannot be cut: the ledger has filed beyond the damage, or belongs to another journal; restore the data "
               "folder from a copy\n");
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
    printf("numbers of lost orders, all above %" PRIu64
           ", are given again: settle payments for them before the next start\n",
           found.seq_good);
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
