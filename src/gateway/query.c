#include "gateway/query.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdlib.h>
#include <time.h>

/* A replica that is behind by more, or that fails, is passed over; and one that failed is left alone for a while. */
#define REPLICA_WAIT_MS_MAX 100
#define REPLICA_POLL_US 2000
#define REPLICA_REST_MS 5000

/* What a worker reads with. */
struct shelf {
    struct ledger *ledger;
    const struct ledger_place *replica_place; /* NULL: none */
    struct ledger *replica;                   /* NULL: not connected */
    uint64_t replica_rest_until_ms;           /* monotonic */
};

static void shelf_close(void *tools)
{
    struct shelf *shelf = tools;
    ledger_close(shelf->ledger);
    ledger_close(shelf->replica);
    free(shelf);
}

static struct shelf *shelf_open(const struct query_places *places, enum ledger_mode mode)
{
    struct shelf *shelf = calloc(1, sizeof *shelf);
    if (shelf == NULL) return NULL;
    shelf->replica_place = places->replica;
    if (ledger_open(&shelf->ledger, places->ledger, mode) == FAULT_NONE) return shelf;
    shelf_close(shelf);
    return NULL;
}

static void *reader_open(void *arg)
{
    return shelf_open(arg, LEDGER_READER);
}

/* Those behind in the queue wait too while one waits for a locked ledger. */
static void *writer_open(void *arg)
{
    struct shelf *shelf = shelf_open(arg, LEDGER_WRITER);
    if (shelf != NULL) ledger_set_patience(shelf->ledger, QUERY_WAIT_MS_MAX);
    return shelf;
}

/* Whether the replica has all that was filed up to seq, or has it soon. */
static bool replica_has(struct shelf *shelf, uint64_t seq)
{
    if (shelf->replica_place == NULL || mono_ms() < shelf->replica_rest_until_ms) return false;
    enum fault fault = FAULT_NONE;
    if (shelf->replica == NULL) fault = ledger_open(&shelf->replica, shelf->replica_place, LEDGER_READER);
    for (uint64_t until_ms = mono_ms() + REPLICA_WAIT_MS_MAX; fault == FAULT_NONE;) {
        struct ledger_point point;
        fault = ledger_point(shelf->replica, &point);
        if (fault == FAULT_NONE && point.seq >= seq) return true;
        if (mono_ms() >= until_ms) return false;
        nanosleep(&(struct timespec){ .tv_nsec = REPLICA_POLL_US * 1000L }, NULL);
    }
    ledger_close(shelf->replica);
    shelf->replica = NULL;
    shelf->replica_rest_until_ms = mono_ms() + REPLICA_REST_MS;
    return false;
}

static enum fault asked_open(struct crew **out, const char *name, const struct query_places *places, uint32_t threads,
                             void *(*tools_open)(void *arg))
{
    const struct crew_options options = {
        .name = name,
        .threads = threads,
        .queue_max = 1024,
        .wait_ms_max = 2 * QUERY_WAIT_MS_MAX,
        .nice = 2, /* people who ask give way to people who grab */
        .tools_open = tools_open,
        .tools_close = shelf_close,
        .arg = (void *)places,
    };
    return crew_open(out, &options);
}

enum fault queries_open(struct crew **out, const char *name, const struct query_places *places, uint32_t threads)
{
    return asked_open(out, name, places, threads, reader_open);
}

enum fault writes_open(struct crew **out, const struct query_places *places)
{
    return asked_open(out, "write", places, 1, writer_open);
}

void query_work(struct crew_job *job, void *tools)
{
    struct query *query = (struct query *)job;
    query->fault = FAULT_NONE;
    job->again = false;
    if (query->seq_wait != 0) {
        struct clerk_status clerk;
        clerk_status(query->rooms->clerk, &clerk);
        uint32_t wait_ms = clerk.failing || clerk.stopped ? 0 : QUERY_WAIT_MS_MAX; /* no use in waiting for one who cannot */
        query->fault = clerk_wait(query->rooms->clerk, query->seq_wait, wait_ms);
    }
    if (query->fault != FAULT_NONE) return;
    struct shelf *shelf = tools;
    query->run(query, query->replica && replica_has(shelf, query->seq_wait) ? shelf->replica : shelf->ledger);
}

enum fault query_room(struct query *query, size_t bytes)
{
    query->list = malloc(bytes);
    if (query->list == NULL) return FAULT_MEMORY;
    json_out_init(&query->list_out, query->list, bytes);
    return FAULT_NONE;
}

enum fault query_list_begin(struct query *query)
{
    enum fault fault = query_room(query, (size_t)query->limit * QUERY_ITEM_BYTES_MAX + 256);
    if (fault != FAULT_NONE) return fault;
    query->list_count = 0;
    json_object(&query->list_out);
    json_key(&query->list_out, "items");
    json_array(&query->list_out);
    return FAULT_NONE;
}

void query_list_end(struct query *query)
{
    json_array_end(&query->list_out);
    json_key(&query->list_out, "next");
    if (query->list_count == query->limit) {
        json_id(&query->list_out, query->list_last);
    } else {
        json_null(&query->list_out);
    }
    json_key(&query->list_out, "now");
    json_time(&query->list_out, query->now_ms);
    json_object_end(&query->list_out);
}
