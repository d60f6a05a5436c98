/* The block list for admins. What changes it writes a file and waits for the disk, so it stands in
 * line with the lists, which may wait too, and not with those who look for one order. */
#include "base/text.h"
#include "gateway/request.h"
#include "gateway/resources.h"
#include "guard/blocks.h"

#include <stdlib.h>

/* Reads text into the query as the normal form of an entry, or has replied why not. */
static bool entry_take(struct request *request, struct slice text)
{
    struct block_entry entry;
    const char *objection = block_entry_read(text, &entry);
    if (objection == NULL) {
        block_entry_write(request->query.entry, &entry);
        return true;
    }
    char detail[160];
    snprintf(detail, sizeof detail, "entry: %s", objection);
    reply_problem(request, PROBLEM_BAD_INPUT, detail);
    return false;
}

static void blocks_ask(struct request *request, void (*run)(struct query *query, struct ledger *ledger),
                       void (*done)(struct crew_job *job))
{
    request->query.seq_wait = 0; /* the clerk has no part in this */
    request_work(request, request_rooms(request)->lists, run, done);
}

/* Whether the job ended well, or has replied why not. */
static bool blocks_done(struct request *request)
{
    if (request->query.job.late) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (request->query.fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_FAILED, "The block list is as it was; the log of the server says what happened.");
    } else {
        return true;
    }
    return false;
}

static void list_visit(void *arg, const struct block_entry *entry, uint64_t serial)
{
    struct query *query = arg;
    char text[BLOCK_ENTRY_BYTES_MAX + 1];
    size_t len = block_entry_write(text, entry);
    json_object(&query->list_out);
    json_key(&query->list_out, "entry");
    json_string(&query->list_out, (struct slice){ text, len });
    json_object_end(&query->list_out);
    query->list_count++;
    query->list_last = serial;
}

static void list_run(struct query *query, struct ledger *ledger)
{
    (void)ledger;
    query->fault = query_list_begin(query);
    if (query->fault != FAULT_NONE) return;
    blocks_each(query->rooms->blocks, query->after, query->limit, list_visit, query);
    query_list_end(query);
}

static void list_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    char *list = request->query.list; /* the request is gone after the reply */
    if (blocks_done(request)) {
        const struct http_head head = { .status = 200, .content_type = SLICE("application/json") };
        reply_raw(request, &head, (struct slice){ request->query.list_out.data, request->query.list_out.len });
    }
    free(list);
}

void blocks_get(struct request *request)
{
    if (!query_page(request)) return;
    request->query.now_ms = gate_now_ms(request_rooms(request)->gate);
    blocks_ask(request, list_run, list_done);
}

static void add_run(struct query *query, struct ledger *ledger)
{
    (void)ledger;
    query->fault = blocks_add(query->rooms->blocks, slice_of(query->entry), &query->found);
}

static void add_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (!blocks_done(request)) return;
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "entry");
    json_text(&out, request->query.entry);
    json_object_end(&out);
    reply_send(request, request->query.found ? 200 : 201, &out);
}

void blocks_post(struct request *request)
{
    static const struct json_field fields[] = {
        { .name = "entry", .kind = JSON_TEXT, .required = true, .min = 1, .max = BLOCK_ENTRY_BYTES_MAX },
    };
    char entry[BLOCK_ENTRY_BYTES_MAX + 1];
    struct json_found found;
    if (!body_read(request, fields, 1, entry, &found) || !entry_take(request, slice_of(entry))) return;
    blocks_ask(request, add_run, add_done);
}

static void remove_run(struct query *query, struct ledger *ledger)
{
    (void)ledger;
    query->fault = blocks_remove(query->rooms->blocks, slice_of(query->entry), &query->found);
}

static void remove_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (!blocks_done(request)) return;
    if (request->query.found) {
        reply_raw(request, &(struct http_head){ .status = 204 }, (struct slice){ "", 0 });
    } else {
        reply_problem(request, PROBLEM_NO_SUCH_BLOCK, NULL);
    }
}

void block_delete(struct request *request)
{
    char entry[BLOCK_ENTRY_BYTES_MAX + 1];
    size_t len;
    if (!body_none(request)) return;
    if (!http_segment_decode(request->ids[0], entry, sizeof entry, &len)) {
        reply_problem(request, PROBLEM_BAD_INPUT,
                      "the entry in the path must be percent-encoded and no longer than an entry is");
        return;
    }
    if (entry_take(request, (struct slice){ entry, len })) blocks_ask(request, remove_run, remove_done);
}
