/* The grab in the Redis protocol. A backend is trusted with rates and with who is admitted; whom the shop has blocked it has
 * blocked for everybody. No allocation, and one lock: that of the decision. */
#include "base/clock.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/buyer.h"
#include "gateway/counts.h"
#include "gateway/request.h"
#include "gateway/resources.h"
#include "gateway/resp_commands.h"

#include <assert.h>

/* False: has replied, after those that were taken down before. Where these are not answered at once, it waits among them. */
static bool grab_refuse(struct resp_call *call, enum problem problem, const char *detail)
{
    struct resp_front *front = call->front;
    if (front->grab_count > 0 && !gate_is_here(resp_rooms(call)->gate)) {
        front->grabs[front->grab_count].grab = (struct grab){ .units = 0 }; /* takes nothing, wherever it is asked */
        front->grab_texts[front->grab_count].problem = problem;
        front->grab_texts[front->grab_count].detail = detail;
        if (++front->grab_count == RESP_GRABS_MAX) resp_grabs_answer(call);
        return false;
    }
    resp_grabs_answer(call);
    resp_problem(call, problem, detail);
    return false;
}

/* The next of those taken down, once its buyer is known to be good. False: has replied. */
static bool grab_buyer(struct resp_call *call, struct slice user, struct grab *grab)
{
    struct slice account = resp_account_name(call);
    size_t prefix = account.len + 1;
    if (user.len == 0 || user.len > BUYER_BYTES_MAX - prefix || !text_is_printable(user)) {
        return grab_refuse(
            call, PROBLEM_BAD_INPUT,
            "user must be printable UTF-8 of 1 byte or more, and with the account and a colon before it at most 64");
    }
    char *buyer = call->front->grab_texts[call->front->grab_count].buyer;
    memcpy(buyer, account.data, account.len);
    buyer[account.len] = ':';
    memcpy(buyer + prefix, user.data, user.len);
    grab->buyer = (struct slice){ buyer, prefix + user.len };
    struct blocks_reader *blocks = call->front->reactor->blocks;
    if (!blocks_has_user(blocks, grab->buyer) && !blocks_has_user(blocks, user)) return true;
    const struct guard_visit visit = {
        .client = call->peer->address, .user = grab->buyer, .method = "RESP", .path = "SALE.GRAB", .entered_ns = mono_ns()
    };
    guard_refused(resp_rooms(call)->guard, GUARD_BLOCKED_USER, &visit);
    return grab_refuse(call, PROBLEM_BLOCKED, "the user is on the block list of this shop");
}

/* False: has replied. */
static bool grab_units(struct resp_call *call, struct slice text, uint32_t *units)
{
    uint64_t value;
    if (text_to_u64(text, &value) && value >= 1 && value <= UINT32_MAX) {
        *units = (uint32_t)value;
        return true;
    }
    return grab_refuse(call, PROBLEM_BAD_INPUT, "units must be a whole number from 1 to 4294967295, in digits alone");
}

/* False: has replied. */
static bool grab_take_key(struct resp_call *call, struct slice key, struct slice *out)
{
    if (grab_key_is_good(key)) {
        *out = key;
        return true;
    }
    return grab_refuse(call, PROBLEM_BAD_INPUT, "KEY must be 1 to 64 bytes of printable UTF-8");
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

/* Taken down; where there is no room for another, all are answered. */
static void grab_gather(struct resp_call *call, const struct grab *grab,
                        void (*answer)(struct resp_call *call, struct gate_grab *g))
{
    struct resp_front *front = call->front;
    struct resp_grab *text = &front->grab_texts[front->grab_count];
    front->grabs[front->grab_count].grab = *grab;
    text->peer = call->peer;
    text->answer = answer;
    text->problem = PROBLEM_NONE;
    if (++front->grab_count == RESP_GRABS_MAX) resp_grabs_answer(call);
}

/* Writes the replies to grabs that have been decided. */
static void grabs_say(struct resp_call *call, struct gate_grab *grabs, const struct resp_grab *texts, uint32_t count)
{
    struct rooms *rooms = resp_rooms(call);
    for (uint32_t i = 0; i < count; i++) {
        struct gate_grab *g = &grabs[i];
        if (texts[i].problem != PROBLEM_NONE) {
            resp_problem(call, texts[i].problem, texts[i].detail);
            continue;
        }
        if (g->seq > call->seq) call->seq = g->seq;
        enum verdict verdict = g->verdict;
        bool past = verdict == VERDICT_NO_SUCH_SALE && gate_sale_is_past(rooms->gate, g->grab.sale_id);
        grab_count(call, g->grab.sale_id, past ? VERDICT_CLOSED : verdict);
        /* Those in line need not wait for their turn to hear that nothing is left. */
        if (verdict == VERDICT_WON && g->available == 0) line_sold_out(rooms->lines, g->grab.sale_id);
        texts[i].answer(call, g);
    }
}

static void crowd_answer(struct resp_call *call, struct resp_slow *slow)
{
    grabs_say(call, slow->crowd->grabs, slow->crowd->texts, slow->crowd->count);
}

/* False: there is no memory for them. Only the last has a key: see resp_grab(). */
static bool crowd_ask(struct resp_call *call, uint32_t count)
{
    struct resp_front *front = call->front;
    struct resp_crowd *crowd = resp_crowd_acquire(call);
    if (crowd == NULL) return false;
    memcpy(crowd->grabs, front->grabs, count * sizeof *crowd->grabs);
    memcpy(crowd->texts, front->grab_texts, count * sizeof *crowd->texts);
    for (uint32_t i = 0; i < count; i++) crowd->grabs[i].grab.buyer.data = crowd->texts[i].buyer;
    struct slice *key = &crowd->grabs[count - 1].grab.key;
    if (key->len > 0) memcpy(crowd->key, key->data, key->len);
    key->data = crowd->key;
    crowd->count = crowd->slow.replies = count;
    resp_again(&crowd->slow, crowd_answer);
    gate_grabs_ask(front->reactor->lane, crowd->grabs, count, &crowd->slow.ticket);
    resp_wait(call, &crowd->slow);
    return true;
}

/* To each peer as many as stand behind each other. at_hand: whose commands are being run, who is settled after them. */
static void left_say(struct resp_front *front, uint32_t count, const struct resp_peer *at_hand)
{
    for (uint32_t at = 0, end; at < count; at = end) {
        struct resp_peer *peer = front->grab_texts[at].peer;
        for (end = at + 1; end < count && front->grab_texts[end].peer == peer;) end++;
        struct resp_out out = { .data = front->left_out, .size = sizeof front->left_out, .version = peer->version };
        struct resp_call call = { .peer = peer, .front = front, .account = peer->account, .out = &out };
        grabs_say(&call, front->grabs + at, front->grab_texts + at, end - at);
        assert(!out.overflow && peer->slow == NULL);
        peer->grabs_left -= end - at;
        output_take(peer, &out, call.seq, end - at);
        if (peer != at_hand) peer_settle(peer);
    }
}

/* Whatever stops the pipeline, or has a reply of its own, has had them answered. */
bool resp_grabs_leave(struct resp_call *call)
{
    struct resp_front *front = call->front;
    if (!front->gathering || call->out->len > 0 || front->grab_count == front->grabs_left) return false;
    call->peer->grabs_left += front->grab_count - front->grabs_left;
    front->grabs_left = front->grab_count;
    return true;
}

void resp_front_gather(struct resp_front *front)
{
    if (front != NULL) front->gathering = gate_is_here(front->reactor->server->rooms.gate);
}

void resp_front_answer(struct resp_front *front)
{
    if (front == NULL) return;
    struct resp_call call = { .front = front };
    resp_grabs_answer(&call);
    front->gathering = false;
}

void resp_grabs_answer(struct resp_call *call)
{
    struct resp_front *front = call->front;
    struct rooms *rooms = resp_rooms(call);
    uint32_t count = front->grab_count, left = front->grabs_left;
    if (count == 0) return;
    front->grab_count = front->grabs_left = 0;
    bool shed = shed_refuses(&rooms->guard->shed, SHED_GRAB), here = gate_is_here(rooms->gate);
    if (!shed && !here && crowd_ask(call, count)) return;
    for (uint32_t i = 0; (shed || !here) && i < count; i++) {
        front->grabs[i].verdict = VERDICT_BUSY;
        front->grabs[i].seq = 0;
    }
    if (!shed && here) gate_grabs(front->reactor->lane, front->grabs, count);
    left_say(front, left, call->peer);
    grabs_say(call, front->grabs + left, front->grab_texts + left, count - left);
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
    bool sold;
    query->fault = ledger_order_by_key(ledger, &scope, &query->order, &query->found);
    if (query->fault == FAULT_NONE) query->fault = ledger_sale(ledger, query->id, &query->sale, &sold); /* what is left */
}

static void past_answer(struct resp_call *call, struct resp_slow *slow)
{
    const struct query *query = &slow->query;
    if (query->fault != FAULT_NONE) {
        resp_verdict(call, VERDICT_BUSY);
    } else if (!query->found) {
        grab_answer(call, "CLOSED", 0, query->sale.counts.available);
    } else if (query->order.units != slow->units) {
        resp_verdict(call, VERDICT_KEY_REUSED);
    } else {
        grab_answer(call, "WON", query->order.no, query->sale.counts.available);
    }
}

/* A question about a sale that is over and that memory has let go of. NULL: has replied. */
static struct resp_slow *past_slow(struct resp_call *call, const struct grab *grab,
                                   void (*answer)(struct resp_call *call, struct resp_slow *slow))
{
    struct resp_slow *slow = resp_slow_new(call, answer);
    if (slow == NULL) return NULL;
    slow->query.id = grab->sale_id;
    slow->query.seq_wait = gate_seq_past(resp_rooms(call)->gate);
    memcpy(slow->query.buyer, grab->buyer.data, grab->buyer.len);
    return slow;
}

/* A win asked again with its key gets the same answer (P7): the ledger knows. */
static void grab_past(struct resp_call *call, const struct grab *grab)
{
    struct resp_slow *slow = past_slow(call, grab, past_answer);
    if (slow == NULL) return;
    slow->units = grab->units;
    memcpy(slow->query.key, grab->key.data, grab->key.len);
    resp_ask(call, slow, past_run);
}

static void native_answer(struct resp_call *call, struct gate_grab *g)
{
    switch (g->verdict) {
    case VERDICT_WON:
    case VERDICT_REPEATED:
        grab_answer(call, "WON", g->order_no, g->available);
        break;
    case VERDICT_ALREADY_WON:
        grab_answer(call, "ALREADY_WON", g->order_no, g->available);
        break;
    case VERDICT_NO_SUCH_SALE:
        if (!gate_sale_is_past(resp_rooms(call)->gate, g->grab.sale_id)) {
            resp_verdict(call, g->verdict);
        } else if (g->grab.key.len > 0) {
            grab_past(call, &g->grab);
        } else {
            grab_answer(call, verdict_word(VERDICT_CLOSED), 0, 0); /* what is left is worth no query: the API says so */
        }
        break;
    case VERDICT_CLOSED:
    case VERDICT_SOLD_OUT:
    case VERDICT_NOT_OPEN:
    case VERDICT_PAUSED:
    case VERDICT_OVER_LIMIT:
    case VERDICT_TOO_MANY_RETURNS:
        grab_answer(call, verdict_word(g->verdict), 0, g->available);
        break;
    default:
        resp_verdict(call, g->verdict);
    }
}

void resp_grab(struct resp_call *call)
{
    const struct slice *argv = call->argv;
    struct grab grab = { .units = 1, .trusted = true };
    bool keyed = call->argc >= 5 && resp_word_is(argv[call->argc - 2], "key");
    uint32_t plain = keyed ? call->argc - 2 : call->argc;
    if (plain > 4) {
        grab_refuse(call, PROBLEM_BAD_INPUT, "write SALE.GRAB sale user [units] [KEY key]");
        return;
    }
    if (plain == 4 && !grab_units(call, argv[3], &grab.units)) return;
    if (keyed && !grab_take_key(call, argv[call->argc - 1], &grab.key)) return;
    /* One with a key may have to ask the ledger, and then nothing behind it is run before that has answered. */
    if (keyed && gate_is_here(resp_rooms(call)->gate)) resp_grabs_answer(call);
    if (!grab_buyer(call, argv[2], &grab)) return;
    grab.sale_id = resp_sale(call, argv[1]);
    grab_gather(call, &grab, native_answer);
    if (keyed) resp_grabs_answer(call);
}

static void seckill_answer(struct resp_call *call, struct gate_grab *g)
{
    switch (g->verdict) {
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
    case VERDICT_NO_SUCH_SALE: /* memory has let go of it since it was taken down: asked again, the ledger tells */
        resp_verdict(call, gate_sale_is_past(resp_rooms(call)->gate, g->grab.sale_id) ? VERDICT_BUSY : g->verdict);
        break;
    default:
        resp_verdict(call, g->verdict);
    }
}

static void won_count(void *arg, const struct order *order)
{
    (void)order;
    ++*(uint32_t *)arg;
}

/* Memory lets go of no sale that holds anything: of its orders those that are paid count. */
static void won_run(struct query *query, struct ledger *ledger)
{
    uint32_t won = 0;
    query->fault = ledger_sale(ledger, query->id, &query->sale, &query->found);
    if (query->fault != FAULT_NONE || !query->found) return;
    const struct ledger_orders_query standing = { .buyer = slice_of(query->buyer),
                                                  .sale_id = query->id,
                                                  .state = ORDER_PAID,
                                                  .limit = query->sale.terms.grabs_per_buyer_max };
    query->fault = ledger_orders(ledger, &standing, won_count, &won);
    query->found = won >= query->sale.terms.grabs_per_buyer_max;
}

static void won_answer(struct resp_call *call, struct resp_slow *slow)
{
    const struct query *query = &slow->query;
    if (query->fault == FAULT_NONE && query->found) {
        resp_integer(call->out, 0);
    } else {
        resp_verdict(call, query->fault != FAULT_NONE ? VERDICT_BUSY : VERDICT_CLOSED);
    }
}

/* Whoever has won before hears that first, however long the sale has been over. */
static void seckill_past(struct resp_call *call, struct gate_grab *g)
{
    if (g->verdict != VERDICT_NO_SUCH_SALE) {
        seckill_answer(call, g);
        return;
    }
    struct resp_slow *slow = past_slow(call, &g->grab, won_answer);
    if (slow != NULL) resp_ask(call, slow, won_run);
}

void resp_seckill(struct resp_call *call)
{
    struct gate *gate = resp_rooms(call)->gate;
    struct grab grab = { .trusted = true, .won_first = true };
    struct board_notice notice;
    if (!grab_units(call, call->argv[3], &grab.units)) return;
    grab.sale_id = resp_sale(call, call->argv[2]);
    /* Without a lock, unless it may be over; then the ledger is asked, as for a key. */
    bool past = !gate_sale_notice(gate, grab.sale_id, &notice) && gate_sale_is_past(gate, grab.sale_id);
    if (past && gate_is_here(gate)) resp_grabs_answer(call);
    if (!grab_buyer(call, call->argv[1], &grab)) return;
    grab_gather(call, &grab, past ? seckill_past : seckill_answer);
    if (past) resp_grabs_answer(call);
}
