#include "gateway/query.h"

#include "base/text.h"

#include <stdlib.h>

static void *reader_open(void *arg)
{
    struct ledger *ledger;
    return ledger_open(&ledger, arg, LEDGER_READER) == FAULT_NONE ? ledger : NULL;
}

/* Those behind in the queue wait too while one waits for a locked ledger. */
static void *writer_open(void *arg)
{
    struct ledger *ledger;
    if (ledger_open(&ledger, arg, LEDGER_WRITER) != FAULT_NONE) return NULL;
    ledger_set_patience(ledger, QUERY_WAIT_MS_MAX);
    return ledger;
}

static void connection_drop(void *tools)
{
    ledger_close(tools);
}

static enum fault asked_open(struct crew **out, const char *name, const char *ledger_path, uint32_t threads,
                             void *(*tools_open)(void *arg))
{
    const struct crew_options options = {
        .name = name,
        .threads = threads,
        .queue_max = 1024,
        .wait_ms_max = 2 * QUERY_WAIT_MS_MAX,
        .nice = 2, /* people who ask give way to people who grab */
        .tools_open = tools_open,
        .tools_close = connection_drop,
        .arg = (void *)ledger_path,
    };
    return crew_open(out, &options);
}

enum fault queries_open(struct crew **out, const char *name, const char *ledger_path, uint32_t threads)
{
    return asked_open(out, name, ledger_path, threads, reader_open);
}

enum fault writes_open(struct crew **out, const char *ledger_path)
{
    return asked_open(out, "write", ledger_path, 1, writer_open);
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
    if (query->fault == FAULT_NONE) query->run(query, tools);
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
