/* The last lines of the log, for admins: what stands on standard error, which whoever runs a console seldom sees. */
#include "base/log.h"

#include "gateway/request.h"
#include "gateway/resources.h"

#include <stdlib.h>

static void line_render(struct query *query, const struct log_kept *line)
{
    struct json_out *out = &query->list_out;
    json_object(out);
    json_key(out, "id");
    json_id(out, line->id);
    json_key(out, "at");
    json_time(out, line->at_ms);
    json_key(out, "level");
    json_text(out, log_level_word(line->level));
    json_key(out, "room");
    json_text(out, line->room);
    json_key(out, "message");
    json_text(out, line->message);
    json_object_end(out);
    query->list_count++;
    query->list_last = line->id;
}

/* At once and without a crew: whoever reads it may want to know why those stand still. */
void log_get(struct request *request)
{
    static const char *const levels[] = {
        [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error", NULL
    };
    struct query *query = &request->query;
    int level;
    if (!query_page(request) || !query_choice(request, "level", levels, &level)) return;
    query->now_ms = gate_now_ms(request_rooms(request)->gate);
    struct log_kept *lines = malloc(query->limit * sizeof *lines);
    if (lines == NULL || query_list_begin(query) != FAULT_NONE) {
        free(lines);
        reply_problem(request, PROBLEM_BUSY, NULL);
        return;
    }
    const struct log_ask ask = { .before = query->after,
                                 .level = level < 0 ? LOG_DEBUG : (enum log_level)level,
                                 .max = query->limit };
    size_t count = log_tail(&ask, lines);
    for (size_t i = 0; i < count; i++) line_render(query, &lines[i]);
    query_list_end(query);
    free(lines);
    char *list = query->list; /* the request is gone after the reply */
    const struct http_head head = { .status = 200, .content_type = SLICE("application/json") };
    reply_raw(request, &head, (struct slice){ query->list_out.data, query->list_out.len });
    free(list);
}
