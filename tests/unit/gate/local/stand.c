#include "stand.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS_MAX 60000

static void on_wake(void *arg)
{
    struct stand *stand = arg;
    stand->wakes++;
}

static void on_poison(void *arg)
{
    (void)arg;
}

void stand_open(struct stand *stand, bool committing)
{
    struct journal_damage damage = { .file = "" };
    const struct gate_options options = { .folder = stand->folder,
                                          .segment_bytes = stand->segment_bytes == 0 ? 1u << 20 : stand->segment_bytes,
                                          .orders_max = stand->orders_max == 0 ? 10000 : stand->orders_max,
                                          .memory_bytes_max = stand->memory_bytes_max,
                                          .sales_per_seller_max = stand->sales_per_seller_max,
                                          .on_poison = on_poison,
                                          .arg = stand };
    snprintf(stand->ledger_path, sizeof stand->ledger_path, "%s/ledger.db", stand->folder);
    assert_int_equal(ledger_open(&stand->ledger, LEDGER_FILE(stand->ledger_path), LEDGER_OWNER), FAULT_NONE);
    assert_int_equal(gate_open(&stand->gate, &options, stand->ledger, &damage), FAULT_NONE);
    assert_int_equal(gate_lane_open(&stand->lane, stand->gate, on_wake, stand), FAULT_NONE);
    if (committing) assert_int_equal(gate_start(stand->gate), FAULT_NONE);
}

void stand_close(struct stand *stand)
{
    gate_lane_close(stand->lane);
    gate_close(stand->gate);
    ledger_close(stand->ledger);
}

int stand_begin(void **state)
{
    static struct stand stand;
    memset(&stand, 0, sizeof stand);
    snprintf(stand.folder, sizeof stand.folder, "/tmp/stampede-gate-XXXXXX");
    assert_non_null(mkdtemp(stand.folder));
    *state = &stand;
    return 0;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

int stand_end(void **state)
{
    struct stand *stand = *state;
    return nftw(stand->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void on_done(struct gate_ticket *ticket)
{
    struct told *told = (struct told *)ticket;
    told->times++;
    told->durable_at = journal_seq_durable(gate_journal(told->stand->gate));
}

struct told stand_told(struct stand *stand)
{
    return (struct told){ .ticket.done = on_done, .stand = stand };
}

void stand_await(struct stand *stand, struct told *told)
{
    for (uint64_t until = mono_ms() + WAIT_MS_MAX; told->times == 0 && mono_ms() < until; usleep(200))
        gate_lane_rest(stand->lane);
    assert_int_equal(told->times, 1);
}

struct told stand_grab(struct stand *stand, uint64_t sale, const char *buyer, const char *key)
{
    struct told told = stand_told(stand);
    struct grab asked = { .sale_id = sale, .buyer = slice_of(buyer), .key = slice_of(key), .units = 1 };
    gate_grab(stand->lane, &asked, &told.ticket);
    if (told.times == 0) stand_await(stand, &told);
    return told;
}
