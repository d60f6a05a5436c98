#include "wire/problem.h"

#include <assert.h>

/* All but the detail is fixed, and refusing is what the server does most: the members stand here as text, put together by
 * the compiler. The table may therefore have no character that JSON escapes; test_problem.c reads every row back.
 *
 * Types are names, not addresses: nothing has to be reachable for a client to tell problems apart. */
#define PROBLEM_MEMBERS(code, status, title)                                                                                \
    "\"type\":\"urn:stampede:problem:" #code "\",\"title\":\"" title "\",\"status\":" #status ",\"code\":\"" #code "\""

static const struct problem_row {
    int status;
    const char *code;
    struct slice members, detail;
} rows[PROBLEM_COUNT] = {
#define PROBLEM_ROW(code, status, title, detail)                                                                            \
    [PROBLEM_##code] = { status,                                                                                            \
                         #code,                                                                                             \
                         { PROBLEM_MEMBERS(code, status, title), sizeof(PROBLEM_MEMBERS(code, status, title)) - 1 },        \
                         { detail, sizeof(detail) - 1 } },
    PROBLEMS(PROBLEM_ROW)
#undef PROBLEM_ROW
};

static const struct problem_row *problem_row(enum problem problem)
{
    assert(problem > PROBLEM_NONE && problem < PROBLEM_COUNT);
    return &rows[problem];
}

int problem_status(enum problem problem)
{
    return problem_row(problem)->status;
}

const char *problem_code(enum problem problem)
{
    return problem_row(problem)->code;
}

const char *problem_detail(enum problem problem)
{
    return problem_row(problem)->detail.data;
}

void problem_begin(struct json_out *out, enum problem problem, const char *detail)
{
    const struct problem_row *row = problem_row(problem);

    json_object(out);
    json_out_raw(out, row->members);
    json_key(out, "detail");
    json_string(out, detail != NULL ? slice_of(detail) : row->detail);
}
