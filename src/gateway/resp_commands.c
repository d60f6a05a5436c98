#include "gateway/resp_commands.h"

#include "base/metrics.h"
#include "base/text.h"
#include "wire/problem.h"

#include <assert.h>
#include <stdio.h>
#include <strings.h>

static void resp_command(struct resp_call *call);

/* Those asked most come first: the search begins at the top. A stranger is somebody who has not said who he is. */
#define STRANGERS true
#define GATHERED true /* a grab: taken down, to be answered together with those behind it */
static const struct row {
    const char *name;
    uint32_t name_len, argc_min, argc_max; /* with the name of the command itself */
    bool strangers;
    bool gathered;
    void (*run)(struct resp_call *call);
    uint32_t sale; /* the argument that names a sale; 0: none does */
} rows[] = {
#define ROW(name, ...)                                                                                                      \
    {                                                                                                                       \
        name, sizeof(name) - 1, __VA_ARGS__                                                                                 \
    }
    ROW("sale.grab", 3, 6, false, GATHERED, resp_grab, 1),
    ROW("seckill", 4, 4, false, GATHERED, resp_seckill, 2),
    ROW("ping", 1, 2, false, false, resp_ping, 0),
    ROW("sale.left", 2, 2, false, false, resp_sale_left, 1),
    ROW("sale.order", 2, 2, false, false, resp_order, 0),
    ROW("sale.pay", 4, 4, false, false, resp_pay, 0),
    ROW("sale.cancel", 2, 3, false, false, resp_cancel, 0),
    ROW("sale.info", 2, 2, false, false, resp_sale_info, 1),
    ROW("sale.create", 3, 13, false, false, resp_sale_create, 0),
    ROW("sale.stock", 3, 3, false, false, resp_sale_stock, 1),
    ROW("auth", 2, 3, STRANGERS, false, resp_auth, 0),
    ROW("hello", 1, 7, STRANGERS, false, resp_hello, 0),
    ROW("echo", 2, 2, false, false, resp_echo, 0),
    ROW("select", 2, 2, false, false, resp_select, 0),
    ROW("client", 2, RESP_ARGS_MAX, false, false, resp_client, 0),
    ROW("command", 1, RESP_ARGS_MAX, false, false, resp_command, 0),
    ROW("info", 1, RESP_ARGS_MAX, false, false, resp_info, 0),
    ROW("config", 2, RESP_ARGS_MAX, false, false, resp_config, 0),
    ROW("reset", 1, 1, STRANGERS, false, resp_reset, 0),
    ROW("quit", 1, RESP_ARGS_MAX, STRANGERS, false, resp_quit, 0),
};
#define ROWS (sizeof rows / sizeof *rows)

const char *resp_command_name(uint32_t n)
{
    return n < ROWS ? rows[n].name : n == ROWS ? "unknown" : NULL;
}

bool resp_word_is(struct slice given, const char *word)
{
    return given.len == strlen(word) && strncasecmp(given.data, word, given.len) == 0;
}

void resp_problem(struct resp_call *call, enum problem problem, const char *detail)
{
    resp_error(call->out, problem_code(problem), slice_of(detail));
}

/* What a backend can do about it; the details of HTTP name its routes. */
void resp_verdict(struct resp_call *call, enum verdict verdict)
{
    static const struct {
        enum problem problem;
        const char *detail;
    } errors[VERDICT_COUNT] = {
        [VERDICT_NO_SUCH_SALE] = { PROBLEM_NO_SUCH_SALE, "no sale has this id, and none of the account this name" },
        [VERDICT_NO_SUCH_ORDER] = { PROBLEM_NO_SUCH_ORDER, "no order of the account or of its sales has this number" },
        [VERDICT_CLOSED] = { PROBLEM_CLOSED, "the sale is over" },
        [VERDICT_NOT_OPEN] = { PROBLEM_NOT_OPEN, "the sale has not opened yet" },
        [VERDICT_PAUSED] = { PROBLEM_PAUSED, "the seller has paused the sale" },
        [VERDICT_KEY_REUSED] = { PROBLEM_KEY_REUSED, "this key won with other units; use a new key for a new grab" },
        [VERDICT_NOT_HELD] = { PROBLEM_NOT_HELD, "only a held order can be cancelled" },
        [VERDICT_AMOUNT_MISMATCH] = { PROBLEM_AMOUNT_MISMATCH, "the payment must be of the amount of the order" },
        [VERDICT_ALREADY_PAID] = { PROBLEM_ALREADY_PAID, "another payment was taken for this order: give this one back" },
        [VERDICT_NAME_TAKEN] = { PROBLEM_NAME_TAKEN, "the account has or had a sale of this name" },
        [VERDICT_TOO_MANY_SALES] = { PROBLEM_TOO_MANY_SALES, "the account has as many upcoming or running sales as it may" },
        [VERDICT_TOO_MANY_RETURNS] = { PROBLEM_TOO_MANY_RETURNS,
                                       "the buyer has given back as many orders of it as one may" },
        [VERDICT_NOT_AVAILABLE] = { PROBLEM_NOT_AVAILABLE,
                                    "no more can be withdrawn than is available, nor more offered than 1000000000" },
        [VERDICT_BAD_INPUT] = { PROBLEM_BAD_INPUT, "a name or a key is not what can be kept" },
        [VERDICT_BUSY] = { PROBLEM_BUSY, "nothing was taken; try again" },
        [VERDICT_UNKNOWN] = { PROBLEM_OUTCOME_UNKNOWN, "it may have been done: ask again, for a grab with its KEY" },
    };
    assert(errors[verdict].detail != NULL);
    resp_problem(call, errors[verdict].problem, errors[verdict].detail);
}

bool resp_to_i64(struct slice text, int64_t min, int64_t max, int64_t *out)
{
    bool negative = text.len > 1 && text.data[0] == '-';
    struct slice digits = { text.data + negative, text.len - negative };
    uint64_t value;
    if (!text_to_u64(digits, &value) || value > INT64_MAX || (negative && value == 0)) return false;
    *out = negative ? -(int64_t)value : (int64_t)value;
    return *out >= min && *out <= max;
}

/* Names of one account do not come from strangers, so nobody aims at this hash. */
static struct resp_name *name_place(struct resp_call *call, struct slice name)
{
    uint32_t hash = (uint32_t)(uintptr_t)call->account;
    for (size_t i = 0; i < name.len; i++) hash = hash * 31 + (uint8_t)name.data[i];
    return &call->front->names[(hash ^ hash >> 16) % RESP_NAMES];
}

uint64_t resp_sale(struct resp_call *call, struct slice sale)
{
    uint64_t id;
    if (text_to_u64(sale, &id)) return id;
    if (sale.len == 0 || sale.len > SALE_NAME_BYTES_MAX) return 0;
    struct gate *gate = resp_rooms(call)->gate;
    struct resp_name *place = name_place(call, sale);
    uint64_t version = gate_names_version(gate);
    if (place->account == call->account && place->version == version &&
        slice_equal((struct slice){ place->name, place->len }, sale))
        return place->sale_id;
    id = gate_sale_by_name(gate, resp_account_name(call), sale);
    if (id == 0) return 0;
    *place = (struct resp_name){ .account = call->account, .version = version, .sale_id = id, .len = (uint32_t)sale.len };
    memcpy(place->name, sale.data, sale.len);
    return id;
}

/* As Redis 7 describes its own: name, arity (negative: at least), flags, no keys, and nothing of the four lists after them.
 */
static void row_describe(struct resp_out *out, const struct row *row)
{
    bool fixed = row->argc_min == row->argc_max;
    resp_array(out, 10);
    resp_bulk(out, (struct slice){ row->name, row->name_len });
    resp_integer(out, fixed ? (int64_t)row->argc_min : -(int64_t)row->argc_min);
    resp_array(out, row->strangers ? 1 : 0);
    if (row->strangers) resp_simple(out, SLICE("no_auth"));
    for (int i = 0; i < 3; i++) resp_integer(out, 0);
    for (int i = 0; i < 4; i++) resp_array(out, 0);
}

/* A door that is shut has no command. */
static bool row_is_open(const struct resp_call *call, const struct row *row)
{
    return row->run != resp_seckill || call->front->reactor->server->options.seckill;
}

static const struct row *row_find(const struct resp_call *call, struct slice name)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (name.len == rows[i].name_len && strncasecmp(name.data, rows[i].name, name.len) == 0)
            return row_is_open(call, &rows[i]) ? &rows[i] : NULL;
    }
    return NULL;
}

static uint32_t rows_open(const struct resp_call *call)
{
    uint32_t count = 0;
    for (size_t i = 0; i < ROWS; i++) count += row_is_open(call, &rows[i]);
    return count;
}

static void command_info(struct resp_call *call)
{
    resp_array(call->out, call->argc - 2);
    for (uint32_t i = 2; i < call->argc; i++) {
        const struct row *row = row_find(call, call->argv[i]);
        if (row != NULL) {
            row_describe(call->out, row);
        } else {
            resp_nil(call->out);
        }
    }
}

static void resp_command(struct resp_call *call)
{
    struct resp_out *out = call->out;
    struct slice word = call->argc > 1 ? call->argv[1] : SLICE("");
    if (call->argc == 1 || (call->argc == 2 && resp_word_is(word, "info"))) {
        resp_array(out, rows_open(call));
        for (size_t i = 0; i < ROWS; i++) {
            if (row_is_open(call, &rows[i])) row_describe(out, &rows[i]);
        }
    } else if (resp_word_is(word, "count") && call->argc == 2) {
        resp_integer(out, rows_open(call));
    } else if (resp_word_is(word, "list") && call->argc == 2) {
        resp_array(out, rows_open(call));
        for (size_t i = 0; i < ROWS; i++) {
            if (row_is_open(call, &rows[i])) resp_bulk(out, (struct slice){ rows[i].name, rows[i].name_len });
        }
    } else if (resp_word_is(word, "info")) {
        command_info(call);
    } else if (resp_word_is(word, "docs")) {
        resp_map(out, 0);
    } else {
        resp_unknown_word(call);
    }
}

#define SHOWN_BYTES_MAX 128 /* of the name, and together of the arguments, of a command that is unknown: as Redis shows */

static int shown(struct slice text)
{
    return (int)(text.len < SHOWN_BYTES_MAX ? text.len : SHOWN_BYTES_MAX);
}

/* Clients look for these words of Redis. */
static void unknown_say(struct resp_call *call)
{
    char detail[64 + 3 * SHOWN_BYTES_MAX];
    struct slice name = call->argv[0];
    size_t begin = (size_t)snprintf(detail, 64 + SHOWN_BYTES_MAX,
                                    "unknown command '%.*s', with args beginning with: ", shown(name), name.data);
    size_t len = begin;
    for (uint32_t i = 1; i < call->argc && len - begin < SHOWN_BYTES_MAX; i++) {
        struct slice argument = call->argv[i];
        size_t room = SHOWN_BYTES_MAX - (len - begin);
        int part = (int)(argument.len < room ? argument.len : room);
        len += (size_t)snprintf(detail + len, sizeof detail - len, "'%.*s' ", part, argument.data);
    }
    resp_error(call->out, "ERR", (struct slice){ detail, len });
}

void resp_wrong_count(struct resp_call *call, const char *name)
{
    char detail[96];
    int len = snprintf(detail, sizeof detail, "wrong number of arguments for '%s' command", name);
    resp_error(call->out, "ERR", (struct slice){ detail, (size_t)len });
}

void resp_unknown_word(struct resp_call *call)
{
    char detail[32 + SHOWN_BYTES_MAX];
    struct slice word = call->argv[1];
    int len = snprintf(detail, sizeof detail, "unknown subcommand '%.*s'.", shown(word), word.data);
    resp_error(call->out, "ERR", (struct slice){ detail, (size_t)len });
}

/* A page of any website can make the browser of this machine's user send a POST here, whose body would be taken for inline
 * commands. Every such request begins with one of these words, which no client of Redis says. */
static bool is_of_http(struct slice name)
{
    return resp_word_is(name, "post") || resp_word_is(name, "host:");
}

static void http_refuse(struct resp_call *call)
{
    resp_error(call->out, "ERR", SLICE("Protocol error: this is HTTP, and here the Redis protocol is spoken"));
    call->peer->close_after = true;
}

/* An account that a reload has taken away is nobody's any more. */
static bool peer_is_known(struct resp_call *call)
{
    if (call->account != NULL && !atomic_load_explicit(&call->account->gone, memory_order_relaxed)) return true;
    if (call->peer->account != NULL) front_estrange(call->peer);
    return false;
}

static void met_answer(struct resp_call *call, struct resp_slow *slow)
{
    call->peer->met = true;
    call->peer->met_in_vain = slow->ticket.verdict != VERDICT_DONE;
}

/* Another machine may have made the sale just now. True: it is being asked for, and the command is to be run after that. */
static bool sale_meets(struct resp_call *call, struct slice sale)
{
    struct gate_stranger stranger = { .seller = resp_account_name(call), .name = sale };
    bool by_id = text_to_u64(sale, &stranger.sale_id);
    if (by_id && stranger.sale_id == 0) return false;
    if (call->peer->met || !gate_is_strange(resp_rooms(call)->gate, &stranger)) return false;
    resp_grabs_answer(call);
    if (call->peer->slow != NULL) return true;
    struct resp_slow *slow = resp_gate(call, met_answer);
    if (slow == NULL) return false;
    slow->replies = 0;
    gate_meet(call->front->reactor->lane, &stranger, &slow->ticket);
    resp_wait(call, slow);
    return call->peer->slow != NULL;
}

/* Grabs before it that are on their way, or a sale that is not known here. */
static bool command_waits(struct resp_call *call, const struct row *row, bool ready)
{
    if (gate_is_here(resp_rooms(call)->gate)) return false;
    if (!ready || !row->gathered) resp_grabs_answer(call);
    return call->peer->slow != NULL || (ready && row->sale != 0 && sale_meets(call, call->argv[row->sale]));
}

bool resp_run(struct resp_call *call)
{
    const struct row *row = row_find(call, call->argv[0]);
    bool known = peer_is_known(call), served = row != NULL && call->argc >= row->argc_min && call->argc <= row->argc_max;
    if (command_waits(call, row, known && served)) return false;
    bool in_vain = call->peer->met && call->peer->met_in_vain;
    call->peer->met = false;
    metrics_add_labelled(METRIC_RESP_COMMANDS, row != NULL ? (uint32_t)(row - rows) : ROWS, 1);
    if (!known || !served || !row->gathered || in_vain) resp_grabs_answer(call);
    if (row == NULL && is_of_http(call->argv[0])) {
        http_refuse(call);
    } else if (!known && (row == NULL || !row->strangers)) {
        resp_error(call->out, "NOAUTH", SLICE("Authentication required."));
    } else if (row == NULL) {
        unknown_say(call);
    } else if (!served) {
        resp_wrong_count(call, row->name);
    } else if (in_vain) {
        resp_verdict(call, VERDICT_BUSY);
    } else {
        row->run(call);
    }
    return true;
}
