/* disk_sim: base/disk.h in memory, as a disk that may lose power, fail, or lie.
 *
 * Every file has what is on the platter and what the page cache shows, sector by sector, and its names likewise. A sync
 * moves sectors to the platter. On power loss each sector not yet synced is kept or lost by the throw of a coin, and so is a
 * tail of the changes of names. A sync that fails leaves the cache as it is, some of the platter as it was, and the sectors
 * marked clean: as Linux does it. One thread. */
#ifndef STAMPEDE_TESTS_SIM_DISK_SIM_H
#define STAMPEDE_TESTS_SIM_DISK_SIM_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_call {
    SIM_CREATE,
    SIM_OPEN,
    SIM_WRITE,
    SIM_READ,
    SIM_SIZE,
    SIM_SYNC,
    SIM_FOLDER,
    SIM_RENAME,
    SIM_REMOVE,
    SIM_SPACE,
    SIM_LIST,
    SIM_CALLS
};

/* Forgets everything. */
void sim_reset(uint64_t seed);
uint64_t sim_random(void);

/* Calls so far that change something or make it durable, and all calls. */
uint64_t sim_changes(void);
uint64_t sim_calls(void);

/* Counted from now: before the n-th changing call (0: none) the machine stops: it and all later calls fail and change
 * nothing, until sim_power_loss() or sim_restart(). */
void sim_crash_before(uint64_t n);
bool sim_crashed(void);
/* Counted from now: the n-th call of any sort fails once with the fault. *which gets what it was. */
void sim_fail_call(uint64_t n, enum fault fault, enum sim_call *which);

/* The machine goes down and comes up: what was not synced is kept or lost at random (0 loses all of it, 100 keeps all). */
void sim_power_loss(unsigned int keep_percent);
/* Only the process ends: the page cache stays. */
void sim_restart(void);

/* A planted bug: syncs say yes and do nothing. */
void sim_lie_about_syncs(bool lie);
void sim_space(uint64_t bytes_free);

/* Looking and spoiling, past the journal's back, cache and platter alike. NULL where there is none. */
uint8_t *sim_file(const char *path, size_t *size);
void sim_spoil(const char *path, uint64_t offset, uint8_t value);
void sim_truncate(const char *path, size_t size);
void sim_delete(const char *path);
/* How many files there are, of any name. */
size_t sim_files(void);

/* The whole disk, kept aside and brought back. */
struct sim_image;
struct sim_image *sim_save(void);
void sim_load(const struct sim_image *image);
void sim_discard(struct sim_image *image);

#endif
