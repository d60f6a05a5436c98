/* The grab in the Redis protocol. A backend is trusted with rates and with who is admitted; whom the shop has blocked it has
 * blocked for everybody. No allocation, and one lock: that of the decision. */
#include "base/metrics.h"
#include "base/text.h"
#include "engine/buyer.h"
#include "gateway/counts.h"
#include "gateway/request.h"
#include "gateway/resources.h"
#include "gateway/resp_commands.h"

#include <assert.h>

struct resp_grab {
    struct grab grab;
    char buyer[BUYER_BYTES_MAX + 1]; /* ACCOUNT:USER */
};

/* False: has replied. */
static bool grab_buyer(struct resp_call *call, struct slice user, struct resp_grab *g)
{
    struct slice account = resp_account_name(call);
    size_t prefix = account.len + 1;
    if (user.len == 0 || user.len > BUYER_BYTES_MAX - prefix || !utf8_valid(user) || text_has_control(user)) {
        resp_problem(
            call, PROBLEM_BAD_INPUT,
            "user must be printable UTF-8 of 1 byte or more, and with the account and a colon before it at most 64");
        return false;
    }
    memcpy(g->buyer, account.data, account.len);
    g->buyer[account.len] = ':';
    memcpy(g->buyer + prefix, user.data, user.len);
    g->grab.buyer = (struct slice){ g->buyer, prefix + user.len };
    struct blocks_reader *blocks = call->front->reactor->blocks;
    if (!blocks_has_user(blocks, g->grab.buyer) && !blocks_has_user(blocks, user)) return true;
    const struct guard_visit visit = {
        .client = call->peer->address, .user = g->grab.buyer, .method = "RESP", .path = "SALE.GRAB"
    };
    guard_refused(resp_rooms(call)->guard, GUARD_BLOCKED_USER, &visit);
    resp_problem(call, PROBLEM_BLOCKED, "the user is on the block list of this shop");
    return false;
}

/* False: has replied. */
static bool grab_units(struct resp_call *call, struct slice text, uint32_t *units)
{
    uint64_t value;
    if (text_to_u64(text, &value) && value >= 1 && value <= UINT32_MAX) {
        *units = (uint32_t)value;
        return true;
    }
    resp_problem(call, PROBLEM_BAD_INPUT, "units must be a whole number from 1 to 4294967295, in digits alone");
    return false;
}

/* False: has replied. */
static bool grab_take_key(struct resp_call *call, struct slice key, struct slice *out)
{
    if (grab_key_is_good(key)) {
        *out = key;
        return true;
    }
    resp_problem(call, PROBLEM_BAD_INPUT, "KEY must be 1 to 64 bytes of printable UTF-8");
    return false;
}

/* As over HTTP. */
static unsigned counted_kind(enum verdict verdict)
{
    if (verdict == VERDICT_REPEATED) return COUNTED_REPEATED;
    return verdict == VERDICT_WON ? (unsigned)COUNTED_WON : (unsigned)verdict_problem(verdict);
}

static void grab_count(struct resp_call *call, uint64_t sale_id, enum verdict verdict)
{
    struct reactor *reactor = call->front->reactor;
    metrics_add_labelled(METRIC_GRABS, (uint32_t)verdict, 1);
    if (verdict == VERDICT_NO_SUCH_SALE) return;
    counts_add(reactor->counts, sale_id, counted_kind(verdict), reactor_now_ms(reactor) / 1000);
}

/* Decides; the answer is in the front's ticket. */
static enum verdict grab_go(struct resp_call *call, struct resp_grab *g)
{
    struct rooms *rooms = resp_rooms(call);
    struct gate_ticket *ticket = &call->front->ticket;
    ticket->done = NULL;
    if (shed_refuses(&rooms->guard->shed, SHED_GRAB)) {
        ticket->verdict = VERDICT_BUSY;
    } else {
        gate_grab(call->front->reactor->lane, &g->grab, ticket);
        if (ticket->seq > call->seq) call->seq = ticket->seq;
    }
    enum verdict verdict = ticket->verdict;
    if (verdict == VERDICT_NO_SUCH_SALE && gate_sale_is_past(rooms->gate, g->grab.sale_id)) verdict = VERDICT_CLOSED;
    grab_count(call, g->grab.sale_id, verdict);
    /* Those in line need not wait for their turn to hear that nothing is left. */
    if (verdict == VERDICT_WON && ticket->grab.available == 0) line_sold_out(rooms->lines, g->grab.sale_id);
    return verdict;
}

/* Verdict, order number or nil, units available. */
static void grab_answer(struct resp_call *call, const char *word, uint64_t order_no, uint32_t available)
{
    resp_array(call->out, 3);
    resp_bulk(call->out, slice_of(word));
    if (order_no != 0) {
        resp_number_text(call->out, order_no);
    } else {
        resp_nil(call->out);
    }
    resp_integer(call->out, available);
}

static void past_run(struct query *query, struct ledger *ledger)
{
    const struct ledger_key scope = { .sale_id = query->id, .buyer = slice_of(query->buyer), .key = slice_of(query->key) };
    query->fault = ledger_order_by_key(ledger, &scope, &query->order, &query->found);
}

static void past_answer(struct resp_call *call, struct resp_slow *slow)
{
    const struct query *query = &slow->query;
    if (query->fault != FAULT_NONE) {
        resp_verdict(call, VERDICT_BUSY);
    } else if (!query->found) {
        grab_answer(call, "CLOSED", 0, 0);
    } else if (query->order.units != slow->units) {
        resp_verdict(call, VERDICT_KEY_REUSED);
    } else {
        grab_answer(call, "WON", query->order.no, 0);
    }
}

/* The sale is over and memory has let go of it, but a win asked again with its key gets the same answer (P7): the ledger
 * knows. */
static void grab_past(struct resp_call *call, const struct resp_grab *g)
{
    struct resp_slow *slow = resp_slow_new(call, past_answer);
    if (slow == NULL) return;
    slow->units = g->grab.units;
    slow->query.id = g->grab.sale_id;
    slow->query.seq_wait = gate_seq_past(resp_rooms(call)->gate);
    memcpy(slow->query.buyer, g->grab.buyer.data, g->grab.buyer.len);
    memcpy(slow->query.key, g->grab.key.data, g->grab.key.len);
    resp_ask(call, slow, past_run);
}

void resp_grab(struct resp_call *call)
{
    const struct slice *argv = call->argv;
    struct resp_grab g;
    g.grab = (struct grab){ .units = 1, .trusted = true };
    bool keyed = call->argc >= 5 && resp_word_is(argv[call->argc - 2], "key");
    uint32_t plain = keyed ? call->argc - 2 : call->argc;
    if (plain > 4) {
        resp_problem(call, PROBLEM_BAD_INPUT, "write SALE.GRAB sale user [units] [KEY key]");
        return;
    }
    if (plain == 4 && !grab_units(call, argv[3], &g.grab.units)) return;
    if (keyed && !grab_take_key(call, argv[call->argc - 1], &g.grab.key)) return;
    if (!grab_buyer(call, argv[2], &g)) return;
    g.grab.sale_id = resp_sale(call, argv[1]);

    enum verdict verdict = grab_go(call, &g);
    const struct grab_answer *answer = &call->front->ticket.grab;
    switch (verdict) {
    case VERDICT_WON:
    case VERDICT_REPEATED:
        grab_answer(call, "WON", answer->order.no, answer->available);
        break;
    case VERDICT_ALREADY_WON:
        grab_answer(call, "ALREADY_WON", answer->order.no, answer->available);
        break;
    case VERDICT_CLOSED:
        if (keyed && call->front->ticket.verdict == VERDICT_NO_SUCH_SALE) {
            grab_past(call, &g);
            break;
        }
        /* fallthrough */
    case VERDICT_SOLD_OUT:
    case VERDICT_NOT_OPEN:
    case VERDICT_PAUSED:
    case VERDICT_OVER_LIMIT:
    case VERDICT_TOO_MANY_RETURNS:
        grab_answer(call, verdict_word(verdict), 0, answer->available);
        break;
    default:
        resp_verdict(call, verdict);
    }
}

void resp_seckill(struct resp_call *call)
{
    struct resp_grab g;
    g.grab = (struct grab){ .trusted = true, .won_first = true };
    if (!grab_units(call, call->argv[3], &g.grab.units) || !grab_buyer(call, call->argv[1], &g)) return;
    g.grab.sale_id = resp_sale(call, call->argv[2]);
    enum verdict verdict = grab_go(call, &g);
    switch (verdict) {
    case VERDICT_WON:
        resp_integer(call->out, 1);
        break;
    case VERDICT_ALREADY_WON:
        resp_integer(call->out, 0);
        break;
    case VERDICT_SOLD_OUT:
        resp_integer(call->out, 2);
        break;
    case VERDICT_OVER_LIMIT:
        resp_integer(call->out, 3);
        break;
    default:
        resp_verdict(call, verdict);
    }
}
