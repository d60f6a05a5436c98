/* Requests under way: where they are kept, what they ask, how replies are read. */
#include "base/clock.h"
#include "base/text.h"
#include "gate/remote/change.h"

#include <assert.h>
#include <string.h>

struct flight *flight_open(struct remote_lane *lane, struct gate_ticket *ticket)
{
    struct flight *flight = lane->attached ? lane->free : NULL;
    if (flight == NULL) return NULL;
    lane->free = flight->next;
    lane->in_flight++;
    flight->lane = lane;
    flight->ticket = ticket;
    flight->until_ms = mono_ms() + FLIGHT_MS;
    flight->unknown = flight->shares = flight->by_ledger = false;
    flight->together = NULL;
    flight->entry[0] = '\0';
    flight->next = NULL;
    memset(&flight->call, 0, sizeof flight->call);
    return flight;
}

void flight_share_end(struct flight *flight)
{
    if (flight->shares) shelf_leave(flight->lane->remote->shelf, flight->sale_id);
    flight->shares = false;
}

void flight_close(struct flight *flight)
{
    struct remote_lane *lane = flight->lane;
    assert(flight->ticket == NULL && lane->in_flight > 0 && lane->told > 0);
    flight_share_end(flight);
    flight->next = lane->free;
    lane->free = flight;
    lane->in_flight--;
    lane->told--;
}

/* One of several: the ticket is told after the last. */
static void grab_told(struct gate_grab *grab, struct gate_ticket *ticket, enum verdict verdict, const struct flight *flight)
{
    bool named = verdict == VERDICT_WON || verdict == VERDICT_REPEATED || verdict == VERDICT_ALREADY_WON;
    grab->verdict = verdict;
    grab->available = flight->available;
    grab->order_no = named ? flight->order.no : 0;
    if (--ticket->left == 0) ticket->done(ticket);
}

void flight_tell(struct flight *flight, enum verdict verdict)
{
    struct gate_ticket *ticket = flight->ticket;
    if (ticket == NULL) return;
    flight->ticket = NULL;
    flight->lane->told++;
    if (flight->together != NULL) {
        grab_told(flight->together, ticket, verdict, flight);
        return;
    }
    ticket->verdict = verdict;
    ticket->seq = 0;
    if (flight->kind == FLIGHT_GRAB) {
        ticket->grab.verdict = verdict;
        ticket->grab.available = flight->available;
        ticket->grab.grabs_left = flight->grabs_left;
        ticket->grab.order = flight->order;
    } else {
        ticket->token.verdict = verdict;
        ticket->token.nonce = flight->number;
        ticket->token.order = flight->order;
    }
    ticket->done(ticket);
}

/* A try that had no answer may have taken something: then nobody may say that it did not. */
static void flight_give_up(struct flight *flight)
{
    flight_tell(flight, flight->unknown ? VERDICT_UNKNOWN : VERDICT_BUSY);
    flight_close(flight);
}

static void ask_again(uv_timer_t *timer)
{
    struct remote_lane *lane = timer->data;
    struct flight *waiting = lane->waiting;
    struct change *changes = lane->changes_waiting;
    lane->waiting = lane->waiting_last = NULL;
    lane->changes_waiting = lane->changes_last = NULL;
    while (changes != NULL) {
        struct change *change = changes;
        changes = change->next;
        change->next = NULL;
        change->again(change);
    }
    while (waiting != NULL) {
        struct flight *flight = waiting;
        waiting = flight->next;
        flight->next = NULL;
        flight->ask(flight);
    }
}

void lane_ask_again(struct remote_lane *lane)
{
    if (!uv_is_active((uv_handle_t *)&lane->again)) uv_timer_start(&lane->again, ask_again, FLIGHT_ASK_AGAIN_MS, 0);
}

void flight_wait(struct flight *flight)
{
    struct remote_lane *lane = flight->lane;
    if (mono_ms() + FLIGHT_ASK_AGAIN_MS >= flight->until_ms || !lane->attached) {
        flight_give_up(flight);
        return;
    }
    flight->next = NULL;
    *(lane->waiting == NULL ? &lane->waiting : &lane->waiting_last->next) = flight;
    lane->waiting_last = flight;
    lane_ask_again(lane);
}

void flight_later(struct flight *flight)
{
    keeper_rebuild(flight->lane->remote->keeper, flight->sale_id);
    flight_wait(flight);
}

void sale_keys(const struct remote *remote, uint64_t sale_id, char keys[GATE_KEYS][FLIGHT_KEY_BYTES])
{
    static const char names[GATE_KEYS][8] = { "state", "buyers", "orders", "keys", "tokens", "holds", "log" };
    /* By hand, for every grab has them: what is before their names is the same in all. */
    char before[FLIGHT_KEY_BYTES];
    size_t len = strlen(remote->options.prefix);
    assert(len + strlen("{sale:") + 20 + strlen("}:") + sizeof names[0] <= FLIGHT_KEY_BYTES);
    memcpy(before, remote->options.prefix, len);
    memcpy(before + len, "{sale:", 6);
    len += 6;
    len += text_from_u64(before + len, sale_id);
    memcpy(before + len, "}:", 2);
    len += 2;
    for (int i = 0; i < GATE_KEYS; i++) {
        memcpy(keys[i], before, len);
        memcpy(keys[i] + len, names[i], sizeof names[i]);
    }
}

struct slice flight_number(struct flight *flight, int at, uint64_t value)
{
    char *out = flight->numbers[at];
    return (struct slice){ out, text_from_u64(out, value) };
}

void script_call(const struct remote *remote, uint64_t sale_id, enum gate_script_name script, uint32_t count,
                 const struct script_words *words)
{
    struct redis_call *call = words->call;
    sale_keys(remote, sale_id, words->keys);
    for (int i = 0; i < GATE_KEYS; i++) words->argv[i] = slice_of(words->keys[i]);
    call->key = words->argv[0];
    call->script = (int)script;
    call->keys = GATE_KEYS;
    call->argc = GATE_KEYS + 1 + count;
    call->argv = words->argv;
    call->with_lineage = true;
    call->time_ms = 0;
    call->lenient = call->holds = false;
}

void flight_call(struct flight *flight, enum gate_script_name script, uint32_t count,
                 void (*done)(struct redis_call *call, const struct redis_reply *reply))
{
    const struct script_words words = { &flight->call, flight->keys, flight->argv };
    assert(GATE_KEYS + 1 + count <= FLIGHT_ARGV_MAX);
    flight->argv[GATE_KEYS] = flight_number(flight, 0, flight->epoch);
    script_call(flight->lane->remote, flight->sale_id, script, count, &words);
    flight->call.done = done;
    redis_call(flight->lane->client, &flight->call);
}

struct slice reply_text(const struct redis_reply *reply, size_t at)
{
    if (reply == NULL || reply->type != REDIS_LIST || at >= reply->count) return (struct slice){ "", 0 };
    const struct redis_reply *item = &reply->items[at];
    bool text = item->type == REDIS_TEXT || item->type == REDIS_WORD;
    return text ? item->text : (struct slice){ "", 0 };
}

uint64_t reply_number(const struct redis_reply *reply, size_t at)
{
    uint64_t value;
    if (reply == NULL || reply->type != REDIS_LIST || at >= reply->count) return 0;
    if (reply->items[at].type == REDIS_NUMBER) return (uint64_t)reply->items[at].number;
    return text_to_u64(reply_text(reply, at), &value) ? value : 0;
}

bool script_answer(const struct redis_reply *reply, struct script_answer *out)
{
    *out = (struct script_answer){ .word = reply_text(reply, 0) };
    if (out->word.len == 0) return false;
    out->at_ms = reply_number(reply, 1);
    out->available = (uint32_t)reply_number(reply, 2);
    return true;
}

bool script_verdict(struct slice word, enum verdict *out)
{
    for (enum verdict verdict = 0; verdict < VERDICT_COUNT; verdict++) {
        if (!slice_is(word, verdict_word(verdict))) continue;
        *out = verdict;
        return true;
    }
    return false;
}

/* The next number of a line, and the space after it. */
static bool line_number(struct slice *line, int64_t *out)
{
    const char *space = memchr(line->data, ' ', line->len);
    if (space == NULL) return false;
    struct slice text = { line->data, (size_t)(space - line->data) };
    *line = (struct slice){ space + 1, line->len - text.len - 1 };
    uint64_t value;
    if (slice_is(text, "-1")) {
        *out = -1;
        return true;
    }
    if (!text_to_u64(text, &value) || value > INT64_MAX) return false;
    *out = (int64_t)value;
    return true;
}

static void text_copy(char *out, const char *data, size_t len)
{
    memcpy(out, data, len);
    out[len] = '\0';
}

bool script_order(struct slice no, struct slice line, uint64_t sale_id, struct order *out, struct slice *ref)
{
    enum { STATE, UNITS, AMOUNT, AT, PAY_BY, NONCE, BUYER, KEY, REF, NUMBERS };
    int64_t numbers[NUMBERS];
    *out = (struct order){ .sale_id = sale_id };
    for (int i = 0; i < NUMBERS; i++) {
        if (!line_number(&line, &numbers[i])) return false;
    }
    bool fits = numbers[BUYER] >= 0 && numbers[BUYER] <= BUYER_BYTES_MAX && numbers[KEY] >= 0 &&
                numbers[KEY] <= IDEMPOTENCY_KEY_BYTES_MAX && numbers[REF] >= 0 &&
                line.len == (size_t)(numbers[BUYER] + numbers[KEY] + numbers[REF]) && numbers[STATE] >= 0 &&
                numbers[STATE] <= ORDER_STATE_LAST;
    if (!fits || !text_to_u64(no, &out->no)) return false;
    out->state = (enum order_state)numbers[STATE];
    out->units = (uint32_t)numbers[UNITS];
    out->amount = numbers[AMOUNT];
    out->won_ms = (uint64_t)numbers[AT];
    out->pay_by_ms = (uint64_t)numbers[PAY_BY];
    out->token_nonce = (uint64_t)numbers[NONCE];
    text_copy(out->buyer, line.data, (size_t)numbers[BUYER]);
    text_copy(out->key, line.data + numbers[BUYER], (size_t)numbers[KEY]);
    *ref = (struct slice){ line.data + numbers[BUYER] + numbers[KEY], (size_t)numbers[REF] };
    return true;
}

void remote_saw_time(struct remote *remote, uint64_t at_ms)
{
    if (at_ms != 0) atomic_store_explicit(&remote->ahead_ms, (int64_t)at_ms - (int64_t)mono_ms(), memory_order_relaxed);
}
