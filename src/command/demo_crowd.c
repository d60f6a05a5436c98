#include "command/demo_crowd.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/secret_file.h"
#include "base/text.h"
#include "wire/json_out.h"
#include "wire/jwt.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LANES 128 /* requests under way at once, each on a connection of its own */
#define SLOT_MS 10
#define TICK_MS 250
#define WATCH_MS 200
#define BOT_PAUSE_MS 10
#define LAST_ANSWERS_MS 10000
#define NOBODY UINT32_MAX
#define LOGIN_S 86400

enum step { STEP_GRAB, STEP_AGAIN, STEP_PAY, STEP_CANCEL, STEP_WATCH };

struct shopper {
    uint32_t next;    /* in the list of those who act at the same time */
    uint32_t win;     /* the last one told */
    uint32_t attempt; /* names the Idempotency-Key; a new one for each answer */
    uint8_t step;     /* what they do next */
    uint8_t patience; /* how often they come again after "sold out" */
    bool unanswered;  /* the last request was lost */
};

/* First come, first served. */
struct queue {
    uint32_t first, last;
};

struct lane {
    struct call call; /* first: libcurl hands it back */
    uint32_t shopper; /* NOBODY: it is free */
};

struct crowd {
    struct crowd_options options;
    struct jwt_ring *ring;
    struct jwt_mac *mac;
    uint64_t token_id_first, issued_s, chance;
    char payment[64]; /* the body of one */
    size_t payment_len;
    struct shopper *shoppers; /* buyers, bots, and one who only watches */
    uint32_t count, watcher;
    uint64_t begins_ms, ends_ms;
    struct queue *slots; /* who acts in which 10 ms */
    uint32_t slots_count, slot_now;
    struct queue ready;
    CURLM *multi;
    struct lane lanes[LANES];
    uint32_t busy;
    struct crowd_numbers numbers;
    struct crowd_win *wins;
    size_t wins_count, wins_size;
    struct call_sale watched;
};

static const char *const refusal_codes[CROWD_REFUSALS] = {
    [REFUSED_NOT_OPEN] = "NOT_OPEN",         [REFUSED_SOLD_OUT] = "SOLD_OUT", [REFUSED_ALREADY_WON] = "ALREADY_WON",
    [REFUSED_RATE_LIMITED] = "RATE_LIMITED", [REFUSED_BUSY] = "BUSY",         [REFUSED_OTHER] = "",
};

/* splitmix64: whims, not secrets. */
static uint64_t chance_below(struct crowd *crowd, uint64_t bound)
{
    uint64_t z = crowd->chance += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return bound == 0 ? 0 : (z ^ z >> 31) % bound;
}

static bool is_bot(const struct crowd *crowd, uint32_t shopper)
{
    return shopper >= crowd->options.buyers;
}

void crowd_name(const struct crowd *crowd, uint32_t shopper, char out[CROWD_NAME_BYTES])
{
    bool bot = is_bot(crowd, shopper);
    snprintf(out, CROWD_NAME_BYTES, "%s-%" PRIu32, bot ? "bot" : "fan", bot ? shopper - crowd->options.buyers : shopper);
}

bool crowd_has(const struct crowd *crowd, const char *name)
{
    uint64_t n;
    bool bot = strncmp(name, "bot-", 4) == 0;
    if (!bot && strncmp(name, "fan-", 4) != 0) return false;
    return text_to_u64(slice_of(name + 4), &n) && n < (bot ? crowd->options.bots : crowd->options.buyers);
}

const struct crowd_numbers *crowd_numbers(const struct crowd *crowd)
{
    return &crowd->numbers;
}

uint32_t crowd_count(const struct crowd *crowd)
{
    return crowd->count;
}

const struct crowd_win *crowd_wins(const struct crowd *crowd, size_t *count)
{
    *count = crowd->wins_count;
    return crowd->wins;
}

const struct call_sale *crowd_watched(const struct crowd *crowd)
{
    return &crowd->watched;
}

static void queue_join(struct crowd *crowd, struct queue *queue, uint32_t shopper)
{
    crowd->shoppers[shopper].next = NOBODY;
    if (queue->first == NOBODY) {
        queue->first = shopper;
    } else {
        crowd->shoppers[queue->last].next = shopper;
    }
    queue->last = shopper;
}

/* Who would act after the end goes home instead; but for those who still wait for an answer. */
static void shopper_plan(struct crowd *crowd, uint32_t shopper, uint64_t at_ms)
{
    uint64_t slot = at_ms > crowd->begins_ms ? (at_ms - crowd->begins_ms) / SLOT_MS : 0;
    if (slot >= crowd->slots_count) {
        if (crowd->shoppers[shopper].unanswered) queue_join(crowd, &crowd->ready, shopper);
        return;
    }
    queue_join(crowd, slot < crowd->slot_now ? &crowd->ready : &crowd->slots[slot], shopper);
}

/* Everybody wants to be first, but a person at a page needs a chance, too: a quarter of them come in the first sixteenth of
 * the time, half in the first quarter. A few cannot wait for the opening. */
static void crowd_gather(struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->count; i++) {
        struct shopper *shopper = &crowd->shoppers[i];
        *shopper = (struct shopper){ .next = NOBODY, .win = NOBODY, .step = STEP_GRAB };
        shopper->patience = (uint8_t)chance_below(crowd, 3);
        uint64_t at_ms = crowd->options.opens_ms;
        if (i == crowd->watcher) {
            shopper->step = STEP_WATCH;
            at_ms = crowd->begins_ms;
        } else if (is_bot(crowd, i)) {
            at_ms -= 500;
        } else if (chance_below(crowd, 100) < 3) {
            at_ms -= chance_below(crowd, CROWD_LEAD_MS - 500);
        } else {
            uint64_t u = chance_below(crowd, 1000);
            at_ms += crowd->options.seconds * UINT64_C(900) * u * u / 1000000;
        }
        shopper_plan(crowd, i, at_ms);
    }
}

static void payment_write(struct crowd *crowd)
{
    struct json_out out;
    json_out_init(&out, crowd->payment, sizeof crowd->payment);
    json_object(&out);
    json_key(&out, "status");
    json_text(&out, "succeeded");
    json_object_end(&out);
    crowd->payment_len = out.len;
}

static enum fault keys_read(struct crowd *crowd)
{
    const struct secret_file file = { .room = "demo", .path = crowd->options.key_path, .what = "signing keys" };
    struct slice text;
    char objection[256] = "";
    enum fault fault = secret_file_read(&file, &text);
    if (fault != FAULT_NONE) return fault;
    fault = jwt_ring_open(&crowd->ring, text, objection);
    secret_file_release(text);
    if (fault == FAULT_NONE) fault = jwt_mac_open(&crowd->mac, crowd->ring);
    if (objection[0] != '\0') log_error("demo", "the signing keys cannot be used: %s", objection);
    return fault;
}

enum fault crowd_open(struct crowd **out, const struct crowd_options *options)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    if (crowd == NULL) return FAULT_MEMORY;
    *out = crowd;
    crowd->options = *options;
    crowd->watcher = options->buyers + options->bots;
    crowd->count = crowd->watcher + 1;
    crowd->begins_ms = options->opens_ms - CROWD_LEAD_MS;
    crowd->ends_ms = options->opens_ms + options->seconds * UINT64_C(1000);
    crowd->slots_count = (uint32_t)((crowd->ends_ms - crowd->begins_ms) / SLOT_MS);
    crowd->ready = (struct queue){ NOBODY, NOBODY };
    crowd->issued_s = wall_ms() / 1000;
    random_bytes(&crowd->token_id_first, sizeof crowd->token_id_first);
    random_bytes(&crowd->chance, sizeof crowd->chance);
    crowd->shoppers = calloc(crowd->count, sizeof *crowd->shoppers);
    crowd->slots = calloc(crowd->slots_count, sizeof *crowd->slots);
    crowd->multi = curl_multi_init();
    bool made = crowd->shoppers != NULL && crowd->slots != NULL && crowd->multi != NULL;
    for (uint32_t i = 0; made && i < LANES; i++) {
        crowd->lanes[i].shopper = NOBODY;
        made = call_open(&crowd->lanes[i].call);
    }
    enum fault fault = made ? keys_read(crowd) : FAULT_MEMORY;
    if (fault != FAULT_NONE) {
        crowd_close(crowd);
        *out = NULL;
        return fault;
    }
    curl_multi_setopt(crowd->multi, CURLMOPT_MAXCONNECTS, (long)LANES);
    for (uint32_t i = 0; i < crowd->slots_count; i++) crowd->slots[i] = (struct queue){ NOBODY, NOBODY };
    payment_write(crowd);
    crowd_gather(crowd);
    return FAULT_NONE;
}

void crowd_close(struct crowd *crowd)
{
    for (uint32_t i = 0; i < LANES; i++) {
        struct lane *lane = &crowd->lanes[i];
        if (lane->call.curl != NULL && lane->shopper != NOBODY) curl_multi_remove_handle(crowd->multi, lane->call.curl);
        call_close(&lane->call);
    }
    if (crowd->multi != NULL) curl_multi_cleanup(crowd->multi);
    if (crowd->mac != NULL) jwt_mac_close(crowd->mac);
    if (crowd->ring != NULL) jwt_ring_close(crowd->ring);
    free(crowd->shoppers);
    free(crowd->slots);
    free(crowd->wins);
    free(crowd);
}

/* The same each time, as a login is: the guard knows who was told to slow down by it. */
static void login_write(struct crowd *crowd, uint32_t shopper, char out[TOKEN_BYTES_MAX + 1])
{
    struct jwt_claims claims = { .role = "customer",
                                 .token_id = crowd->token_id_first + shopper,
                                 .issued_s = crowd->issued_s,
                                 .not_before_s = crowd->issued_s,
                                 .expires_s = crowd->issued_s + LOGIN_S };
    crowd_name(crowd, shopper, claims.subject);
    size_t len = jwt_make(crowd->mac, &claims, out, TOKEN_BYTES_MAX);
    assert(len > 0);
    out[len] = '\0';
}

static bool lane_start(struct crowd *crowd, struct lane *lane, uint32_t who)
{
    const struct shopper *shopper = &crowd->shoppers[who];
    char token[TOKEN_BYTES_MAX + 1], path[96], key[24];
    struct call_ask ask = { .base = crowd->options.base, .path = path, .token = token, .body = SLICE("{}") };
    uint64_t order = shopper->win != NOBODY ? crowd->wins[shopper->win].no : 0;
    switch ((enum step)shopper->step) {
    case STEP_WATCH:
        snprintf(path, sizeof path, "/v1/sales/%s", crowd->options.sale);
        ask.token = NULL;
        ask.body = (struct slice){ NULL, 0 };
        break;
    case STEP_PAY:
        snprintf(path, sizeof path, "/v1/orders/%" PRIu64 "/demo_payment", order);
        ask.body = (struct slice){ crowd->payment, crowd->payment_len };
        break;
    case STEP_CANCEL:
        snprintf(path, sizeof path, "/v1/orders/%" PRIu64 "/cancel", order);
        break;
    case STEP_GRAB:
    case STEP_AGAIN:
        snprintf(path, sizeof path, "/v1/sales/%s/grabs", crowd->options.sale);
        snprintf(key, sizeof key, "press-%" PRIu32, shopper->attempt);
        ask.key = key;
        break;
    }
    if (ask.token != NULL) login_write(crowd, who, token);
    lane->shopper = who;
    if (!call_prepare(&lane->call, &ask) || curl_multi_add_handle(crowd->multi, lane->call.curl) != CURLM_OK) {
        lane->shopper = NOBODY;
        return false;
    }
    crowd->busy++;
    return true;
}

/* False: there is no memory for it, and the crowd cannot go on. */
static bool win_keep(struct crowd *crowd, uint32_t who, uint64_t no)
{
    if (crowd->wins_count == crowd->wins_size) {
        size_t size = crowd->wins_size > 0 ? 2 * crowd->wins_size : 1024;
        struct crowd_win *wins = realloc(crowd->wins, size * sizeof *wins);
        if (wins == NULL) return false;
        crowd->wins = wins;
        crowd->wins_size = size;
    }
    crowd->shoppers[who].win = (uint32_t)crowd->wins_count;
    crowd->wins[crowd->wins_count++] = (struct crowd_win){ no, who, ORDER_HELD };
    return true;
}

/* What becomes of a win: most pay, some after having pressed the button once more; some give it back, some forget it. */
static void win_ponder(struct crowd *crowd, uint32_t who, uint64_t now_ms)
{
    struct shopper *shopper = &crowd->shoppers[who];
    uint64_t whim = chance_below(crowd, 100), pause_ms = crowd->options.pay_within_s * UINT64_C(1000) * 7 / 10;
    if (is_bot(crowd, who)) {
        shopper_plan(crowd, who, now_ms + BOT_PAUSE_MS);
    } else if (whim < 75) {
        shopper->step = whim < 15 ? STEP_AGAIN : whim < 60 ? STEP_PAY : STEP_CANCEL;
        shopper_plan(crowd, who, now_ms + (whim < 15 ? 50 : 100) + chance_below(crowd, whim < 15 ? 300 : pause_ms));
    }
}

static void refusal_take(struct crowd *crowd, uint32_t who, const struct call *call, uint64_t now_ms)
{
    struct shopper *shopper = &crowd->shoppers[who];
    char code[CALL_CODE_BYTES_MAX + 1];
    enum crowd_refusal refusal = REFUSED_NOT_OPEN;
    call_read_code(call, code);
    while (refusal < REFUSED_OTHER && strcmp(refusal_codes[refusal], code) != 0) refusal++;
    crowd->numbers.refused[refusal]++;
    if (is_bot(crowd, who)) {
        shopper_plan(crowd, who, now_ms + BOT_PAUSE_MS);
    } else if (refusal == REFUSED_NOT_OPEN) {
        shopper_plan(crowd, who, crowd->options.opens_ms + chance_below(crowd, 300));
    } else if (refusal == REFUSED_RATE_LIMITED || refusal == REFUSED_BUSY) {
        shopper_plan(crowd, who, now_ms + 500 + chance_below(crowd, 1000));
    } else if (refusal == REFUSED_SOLD_OUT && shopper->patience > 0) {
        shopper->patience--;
        shopper_plan(crowd, who, now_ms + 300 + chance_below(crowd, crowd->options.seconds * UINT64_C(300)));
    } else if (refusal == REFUSED_ALREADY_WON && shopper->step == STEP_AGAIN) {
        shopper->step = STEP_PAY; /* as the page says: it is theirs, to be paid */
        shopper_plan(crowd, who, now_ms + 100 + chance_below(crowd, crowd->options.pay_within_s * UINT64_C(500)));
    }
}

/* An order that was to be paid or given back, as it is now. What came too late has expired, which nobody is to be told. */
static void order_take(struct crowd *crowd, uint32_t who, const struct call *call)
{
    struct crowd_win *win = &crowd->wins[crowd->shoppers[who].win];
    struct call_order order;
    if (!call_read_order(call, &order)) return;
    if (strcmp(order.state, order_state_word(ORDER_PAID)) == 0) {
        win->state = ORDER_PAID;
        crowd->numbers.paid++;
    } else if (strcmp(order.state, order_state_word(ORDER_CANCELLED)) == 0) {
        win->state = ORDER_CANCELLED;
        crowd->numbers.cancelled++;
    }
}

/* False: the crowd cannot go on. */
static bool answer_take(struct crowd *crowd, struct lane *lane, long status, uint64_t now_ms)
{
    uint32_t who = lane->shopper;
    struct shopper *shopper = &crowd->shoppers[who];
    struct call_order order;
    uint64_t no;
    lane->shopper = NOBODY;
    crowd->busy--;
    shopper->unanswered = status == 0 && shopper->step != STEP_WATCH;
    if (shopper->step == STEP_WATCH) {
        if (status == 200) call_read_sale(&lane->call, &crowd->watched);
        shopper_plan(crowd, who, now_ms + WATCH_MS);
        return true;
    }
    if (status == 0) {
        crowd->numbers.lost++;
        shopper_plan(crowd, who, now_ms + 100);
        return true;
    }
    crowd->numbers.requests++;
    shopper->attempt++;
    bool grab = shopper->step == STEP_GRAB || shopper->step == STEP_AGAIN;
    if (!grab) {
        if (status == 200) order_take(crowd, who, &lane->call);
    } else if (status == 201 && call_read_win(&lane->call, &order) && text_to_u64(slice_of(order.no), &no)) {
        if (!win_keep(crowd, who, no)) return false;
        win_ponder(crowd, who, now_ms);
    } else {
        refusal_take(crowd, who, &lane->call, now_ms);
    }
    return true;
}

static bool answers_take(struct crowd *crowd)
{
    CURLMsg *said;
    int left, running;
    bool good = curl_multi_perform(crowd->multi, &running) == CURLM_OK;
    uint64_t now_ms = mono_ms();
    while (good && (said = curl_multi_info_read(crowd->multi, &left)) != NULL) {
        CURLcode result = said->data.result; /* gone with the handle */
        CURL *curl = said->easy_handle;
        char *lane = NULL;
        curl_easy_getinfo(curl, CURLINFO_PRIVATE, &lane);
        curl_multi_remove_handle(crowd->multi, curl);
        struct lane *done = (struct lane *)(void *)lane;
        good = answer_take(crowd, done, call_status(&done->call, result), now_ms);
    }
    return good;
}

/* Those whose time has come, as far as there are free lanes. */
static bool lanes_fill(struct crowd *crowd, uint64_t now_ms)
{
    while (crowd->slot_now < crowd->slots_count && crowd->begins_ms + crowd->slot_now * (uint64_t)SLOT_MS <= now_ms) {
        struct queue *slot = &crowd->slots[crowd->slot_now++];
        if (slot->first == NOBODY) continue;
        if (crowd->ready.first == NOBODY) {
            crowd->ready = *slot;
        } else {
            crowd->shoppers[crowd->ready.last].next = slot->first;
            crowd->ready.last = slot->last;
        }
    }
    for (uint32_t i = 0; i < LANES && crowd->ready.first != NOBODY; i++) {
        if (crowd->lanes[i].shopper != NOBODY) continue;
        uint32_t who = crowd->ready.first;
        crowd->ready.first = crowd->shoppers[who].next;
        bool late = now_ms >= crowd->ends_ms && !crowd->shoppers[who].unanswered;
        if (!late && !lane_start(crowd, &crowd->lanes[i], who)) return false;
    }
    return true;
}

bool crowd_run(struct crowd *crowd, bool (*tick)(void *arg), void *arg)
{
    uint64_t tick_ms = 0, now_ms;
    while ((now_ms = mono_ms()) < crowd->ends_ms || crowd->busy > 0 || crowd->ready.first != NOBODY) {
        if (now_ms > crowd->ends_ms + LAST_ANSWERS_MS) return false;
        if (now_ms >= tick_ms) {
            if (!tick(arg)) return false;
            tick_ms = now_ms + TICK_MS;
        }
        if (now_ms >= crowd->begins_ms && !lanes_fill(crowd, now_ms)) return false;
        if (!answers_take(crowd)) return false;
        curl_multi_poll(crowd->multi, NULL, 0, crowd->ready.first != NOBODY && crowd->busy < LANES ? 0 : SLOT_MS, NULL);
    }
    return true;
}
