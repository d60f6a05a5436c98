/* What lists have in common: their page, their filters, waiting for the clerk. */
#include "base/text.h"
#include "gateway/request.h"
#include "gateway/resources.h"

#include <stdlib.h>

bool query_text(struct request *request, const char *name, char *out, size_t size)
{
    bool bad = false;
    if (!http_query_get(request->http.query, name, out, size, &bad)) out[0] = '\0';
    if (!bad && text_is_printable(slice_of(out))) return true;
    char detail[96];
    snprintf(detail, sizeof detail, "%s must be percent-encoded UTF-8 of at most %zu bytes", name, size - 1);
    reply_problem(request, PROBLEM_BAD_INPUT, detail);
    return false;
}

bool query_time(struct request *request, const char *name, bool *given, uint64_t *ms)
{
    char text[40], detail[96];
    bool bad = false;
    *ms = 0;
    *given = http_query_get(request->http.query, name, text, sizeof text, &bad);
    if (!bad && (!*given || time_from_text(slice_of(text), ms))) return true;
    snprintf(detail, sizeof detail, "%s must be a time such as 2026-01-31T12:00:00Z, percent-encoded", name);
    reply_problem(request, PROBLEM_BAD_INPUT, detail);
    return false;
}

bool query_page(struct request *request)
{
    char text[32];
    uint64_t number;
    bool bad = false;
    struct query *query = &request->query;
    query->limit = LIST_LIMIT_DEFAULT;
    if (http_query_get(request->http.query, "limit", text, sizeof text, &bad) || bad) {
        if (bad || !text_to_u64(slice_of(text), &number) || number < 1 || number > LIST_LIMIT_MAX) {
            reply_problem(request, PROBLEM_BAD_INPUT, "limit must be an integer from 1 to 200");
            return false;
        }
        query->limit = (uint32_t)number;
    }
    query->after = 0;
    if (http_query_get(request->http.query, "cursor", text, sizeof text, &bad) || bad) {
        if (bad || !text_to_u64(slice_of(text), &number) || number == 0 || number > INT64_MAX) {
            reply_problem(request, PROBLEM_BAD_INPUT, "cursor must be the next of an earlier answer to this list");
            return false;
        }
        query->after = number;
    }
    return true;
}

bool query_choice(struct request *request, const char *name, const char *const *words, int *out)
{
    char text[32], detail[160];
    bool bad = false;
    *out = -1;
    if (!http_query_get(request->http.query, name, text, sizeof text, &bad) && !bad) return true;
    int len = snprintf(detail, sizeof detail, "%s must be one of", name);
    for (int i = 0; words[i] != NULL; i++) {
        if (!bad && strcmp(text, words[i]) == 0) {
            *out = i;
            return true;
        }
        len += snprintf(detail + len, sizeof detail - (size_t)len, "%s %s", i > 0 ? "," : "", words[i]);
    }
    reply_problem(request, PROBLEM_BAD_INPUT, detail);
    return false;
}

void list_reply(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    struct query *query = &request->query;
    char *list = query->list; /* the request is gone after the reply */
    if (job->late || query->fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, "The ledger is behind; ask again after the seconds in Retry-After.");
    } else {
        const struct http_head head = { .status = 200, .content_type = SLICE("application/json") };
        reply_raw(request, &head, (struct slice){ query->list_out.data, query->list_out.len });
    }
    free(list);
}

bool write_ended(struct request *request)
{
    const struct query *query = &request->query;
    if (query->job.late || query->fault == FAULT_TIMEOUT || query->fault == FAULT_SPACE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (query->fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_FAILED, NULL);
    } else {
        return true;
    }
    return false;
}

void list_ask(struct request *request, void (*run)(struct query *query, struct ledger *ledger))
{
    struct gate *gate = request_rooms(request)->gate;
    request->query.now_ms = gate_now_ms(gate);
    request->query.seq_wait = gate_seq_decided(gate);
    request_read(request, run, list_reply);
}

void list_ask_primary(struct request *request, void (*run)(struct query *query, struct ledger *ledger))
{
    struct gate *gate = request_rooms(request)->gate;
    request->query.now_ms = gate_now_ms(gate);
    request->query.seq_wait = gate_seq_decided(gate);
    request_query(request, run, list_reply);
}
