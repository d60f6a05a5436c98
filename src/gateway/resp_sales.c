/* Sales in the Redis protocol. Those of an account are owned by the seller of that name; anyone's may be looked at, as over
 * HTTP. */
#include "base/text.h"
#include "gateway/resp_commands.h"

#include <stdio.h>

/* The options of SALE.CREATE. */
static const struct option_row {
    const char *word;
    int64_t min, max;
} option_rows[] = {
    { "UNITS", 1, UNITS_PER_GRAB_MAX },    { "GRABS", 1, GRABS_PER_BUYER_MAX },  { "OPENS", 0, (int64_t)TIME_MS_MAX },
    { "CLOSES", 1, (int64_t)TIME_MS_MAX }, { "PAYWITHIN", 1, PAY_WITHIN_S_MAX },
};
enum { CREATE_UNITS, CREATE_GRABS, CREATE_OPENS, CREATE_CLOSES, CREATE_PAYWITHIN, CREATE_OPTIONS };
_Static_assert(sizeof option_rows / sizeof *option_rows == CREATE_OPTIONS, "every option has its row");

static void number_refuse(struct resp_call *call, const char *what, int64_t min, int64_t max)
{
    char detail[160];
    snprintf(detail, sizeof detail, "%s must be a whole number from %lld to %lld, in digits alone", what, (long long)min,
             (long long)max);
    resp_problem(call, PROBLEM_BAD_INPUT, detail);
}

static size_t option_find(struct slice word)
{
    size_t row = 0;
    while (row < CREATE_OPTIONS && !resp_word_is(word, option_rows[row].word)) row++;
    return row;
}

/* values has what an option means where it is not given. False: has replied. */
static bool options_read(struct resp_call *call, int64_t values[CREATE_OPTIONS])
{
    bool given[CREATE_OPTIONS] = { false };
    for (uint32_t i = 3; i < call->argc; i += 2) {
        size_t row = option_find(call->argv[i]);
        if (row == CREATE_OPTIONS || given[row] || i + 1 == call->argc) {
            resp_problem(call, PROBLEM_BAD_INPUT,
                         "write SALE.CREATE name stock [UNITS n] [GRABS n] [OPENS ms] [CLOSES ms] [PAYWITHIN s], each once");
            return false;
        }
        const struct option_row *option = &option_rows[row];
        if (!resp_to_i64(call->argv[i + 1], option->min, option->max, &values[row])) {
            number_refuse(call, option->word, option->min, option->max);
            return false;
        }
        given[row] = true;
    }
    return true;
}

/* NULL, or what is wrong with it. One of digits alone could be taken for an id. */
static const char *name_objection(struct slice name)
{
    if (name.len == 0 || name.len > SALE_NAME_BYTES_MAX) return "name must have 1 to 128 bytes";
    if (!text_is_printable(name)) return "name must be printable UTF-8";
    size_t digits = 0;
    while (digits < name.len && name.data[digits] >= '0' && name.data[digits] <= '9') digits++;
    return digits == name.len ? "a name of digits alone would be taken for an id" : NULL;
}

static void created_answer(struct resp_call *call, struct resp_slow *slow)
{
    const struct gate_ticket *ticket = &slow->ticket;
    if (ticket->verdict != VERDICT_DONE) {
        resp_verdict(call, ticket->verdict);
        return;
    }
    if (ticket->seq > call->seq) call->seq = ticket->seq;
    resp_number_text(call->out, ticket->sale.id);
}

void resp_sale_create(struct resp_call *call)
{
    struct gate *gate = resp_rooms(call)->gate;
    struct slice name = call->argv[1];
    int64_t stock, values[CREATE_OPTIONS] = { 1, 1, (int64_t)gate_now_ms(gate), 0, 0 };
    const char *objection = name_objection(name);
    if (objection != NULL) {
        resp_problem(call, PROBLEM_BAD_INPUT, objection);
        return;
    }
    if (!resp_to_i64(call->argv[2], 1, STOCK_MAX, &stock)) {
        number_refuse(call, "stock", 1, STOCK_MAX);
        return;
    }
    if (!options_read(call, values)) return;
    struct sale_terms terms = {
        .price = -1,
        .units_per_grab_max = (uint32_t)values[CREATE_UNITS],
        .grabs_per_buyer_max = (uint32_t)values[CREATE_GRABS],
        .opens_ms = (uint64_t)values[CREATE_OPENS],
        .closes_ms = (uint64_t)values[CREATE_CLOSES],
        .pay_within_s = (uint32_t)values[CREATE_PAYWITHIN],
        .admission = ADMISSION_LOGIN,
    };
    memcpy(terms.name, name.data, name.len);
    objection = sale_terms_objection(&terms);
    if (objection != NULL) {
        resp_problem(call, PROBLEM_BAD_INPUT, objection);
        return;
    }
    struct asker seller = { .name = resp_account_name(call) };
    struct resp_slow *slow = resp_gate(call, created_answer);
    if (slow == NULL) return;
    gate_create(call->front->reactor->lane, &seller, &terms, (uint32_t)stock, &slow->ticket);
    resp_wait(call, slow);
}

static void sale_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_sale(ledger, query->id, &query->sale, &query->found);
}

static void left_say(struct resp_call *call, const struct sale *sale)
{
    resp_integer(call->out, sale->counts.available);
}

static void info_say(struct resp_call *call, const struct sale *sale)
{
    resp_render_sale(call->out, sale, gate_now_ms(resp_rooms(call)->gate));
}

static void sale_filed(struct resp_call *call, struct resp_slow *slow, void (*say)(struct resp_call *, const struct sale *))
{
    if (slow->query.fault != FAULT_NONE) {
        resp_verdict(call, VERDICT_BUSY);
    } else if (!slow->query.found) {
        resp_verdict(call, VERDICT_NO_SUCH_SALE);
    } else {
        say(call, &slow->query.sale);
    }
}

static void left_filed(struct resp_call *call, struct resp_slow *slow)
{
    sale_filed(call, slow, left_say);
}

static void info_filed(struct resp_call *call, struct resp_slow *slow)
{
    sale_filed(call, slow, info_say);
}

/* Of a sale that is over and that memory has let go of only the ledger can tell. */
static void sale_past(struct resp_call *call, uint64_t sale_id, void (*filed)(struct resp_call *, struct resp_slow *))
{
    if (!gate_sale_is_past(resp_rooms(call)->gate, sale_id)) {
        resp_verdict(call, VERDICT_NO_SUCH_SALE);
        return;
    }
    struct resp_slow *slow = resp_slow_new(call, filed);
    if (slow == NULL) return;
    slow->query.id = sale_id;
    resp_ask(call, slow, sale_run);
}

static void look_answer(struct resp_call *call, const struct resp_slow *slow,
                        void (*say)(struct resp_call *, const struct sale *),
                        void (*filed)(struct resp_call *, struct resp_slow *))
{
    if (slow->ticket.verdict == VERDICT_DONE) {
        say(call, &slow->ticket.sale);
    } else if (slow->ticket.verdict == VERDICT_NO_SUCH_SALE) {
        sale_past(call, slow->id, filed);
    } else {
        resp_verdict(call, slow->ticket.verdict);
    }
}

static void left_answer(struct resp_call *call, struct resp_slow *slow)
{
    look_answer(call, slow, left_say, left_filed);
}

static void info_answer(struct resp_call *call, struct resp_slow *slow)
{
    look_answer(call, slow, info_say, info_filed);
}

static void sale_look(struct resp_call *call, uint64_t sale_id, void (*answer)(struct resp_call *, struct resp_slow *))
{
    struct resp_slow *slow = resp_gate(call, answer);
    if (slow == NULL) return;
    slow->id = sale_id;
    gate_look(call->front->reactor->lane, sale_id, &slow->ticket);
    resp_wait(call, slow);
}

void resp_sale_left(struct resp_call *call)
{
    struct board_notice notice;
    struct gate *gate = resp_rooms(call)->gate;
    uint64_t sale_id = resp_sale(call, call->argv[1]);
    if (gate_is_here(gate) && gate_sale_notice(gate, sale_id, &notice)) {
        resp_integer(call->out, notice.available); /* without a lock */
    } else {
        sale_look(call, sale_id, left_answer);
    }
}

void resp_sale_info(struct resp_call *call)
{
    sale_look(call, resp_sale(call, call->argv[1]), info_answer);
}

static void stock_answer(struct resp_call *call, struct resp_slow *slow)
{
    struct rooms *rooms = resp_rooms(call);
    const struct gate_ticket *ticket = &slow->ticket;
    enum verdict verdict = ticket->verdict;
    if (verdict == VERDICT_NO_SUCH_SALE && gate_sale_is_past(rooms->gate, slow->id)) verdict = VERDICT_CLOSED;
    if (verdict != VERDICT_DONE) {
        resp_verdict(call, verdict);
        return;
    }
    if (ticket->seq > call->seq) call->seq = ticket->seq;
    if (ticket->sale.counts.available == 0) line_sold_out(rooms->lines, slow->id);
    resp_integer(call->out, ticket->sale.counts.available);
}

void resp_sale_stock(struct resp_call *call)
{
    int64_t add;
    if (!resp_to_i64(call->argv[2], -(int64_t)STOCK_MAX, STOCK_MAX, &add) || add == 0) {
        resp_problem(call, PROBLEM_BAD_INPUT,
                     "add must be a whole number other than 0, from -1000000000 to 1000000000: negative withdraws");
        return;
    }
    struct asker seller = { .name = resp_account_name(call) };
    struct resp_slow *slow = resp_gate(call, stock_answer);
    if (slow == NULL) return;
    slow->id = resp_sale(call, call->argv[1]);
    gate_stock(call->front->reactor->lane, &seller, slow->id, add, &slow->ticket);
    resp_wait(call, slow);
}
