/* Looking at a sale as Redis has it now, and meeting one that another node has just made.
 *
 * Redis has the counts and the version of what the seller has set; where that is higher than the shelf's, another node has
 * changed the sale just now, and the look asks the ledger for it before it answers.
 *
 * Of one sale a lane has one look under way at most, and begins the next a little after it: however many ask, Redis is asked
 * as often. Who asks while one is under way is answered by the next, for what they did just before may have come after it.
 */
#include "base/clock.h"
#include "gate/remote/remote.h"
#include "ledger/agreed.h"
#include "ledger/watch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS 256 /* sales that a lane looks at within LOOK_APART_MS; a power of two */
#define LOOK_APART_MS 5
#define LOOK_LOAD_MS_MAX 1000 /* most sales are built anew in a fraction of it */
#define MEETINGS_MAX 256

struct look {
    struct redis_call call; /* first */
    struct remote_lane *lane;
    uint64_t sale_id;
    uint64_t began_ms; /* monotonic */
    uint64_t lost_ms;  /* since when Redis has not had the sale; 0: it has */
    bool under_way;
    struct gate_ticket *asked, *waiting; /* of the look under way, and of the next */
    struct shelf_counts counts;          /* as Redis has told them last */
    char keys[GATE_KEYS][FLIGHT_KEY_BYTES];
    struct slice argv[GATE_KEYS + 1];
};

static void look_answer(struct look *look, struct gate_ticket *tickets)
{
    struct shelf *shelf = look->lane->remote->shelf;
    uint64_t sale_id = look->sale_id;
    while (tickets != NULL) {
        struct gate_ticket *ticket = tickets;
        tickets = ticket->next;
        ticket->seq = 0;
        ticket->verdict = shelf_sale(shelf, sale_id, &ticket->sale) ? VERDICT_DONE : VERDICT_NO_SUCH_SALE;
        ticket->done(ticket);
    }
}

static void look_begin(struct look *look);
static bool look_meets(struct look *look);

static void look_end(struct look *look)
{
    struct gate_ticket *tickets = look->asked;
    look->asked = NULL;
    look->under_way = false;
    look_answer(look, tickets);
    if (look->waiting != NULL && !look->under_way) look_begin(look);
}

/* A sale that is being built in Redis is looked at until it stands there: what this node knew before may lack what another
 * has told since. One that takes long, or a Redis that does not answer: what was known last is told. */
static bool look_waits(struct look *look, bool has_it)
{
    uint64_t now_ms = mono_ms();
    if (has_it) look->lost_ms = 0;
    if (has_it || !look->lane->attached) return false;
    bool first = look->lost_ms == 0;
    if (first) look->lost_ms = now_ms;
    bool waits = now_ms < look->lost_ms + LOOK_LOAD_MS_MAX;
    if (first || !waits) keeper_rebuild(look->lane->remote->keeper, look->sale_id);
    return waits;
}

/* Those of the look under way wait for the next. */
static void look_repeat(struct look *look)
{
    struct gate_ticket **end = &look->waiting;
    while (*end != NULL) end = &(*end)->next;
    *end = look->asked;
    look->asked = NULL;
    look->under_way = false;
    if (look->waiting != NULL) look_begin(look);
}

static void look_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct look *look = (struct look *)call;
    bool answered = call->result == REDIS_ANSWERED, counted = answered && script_counts(reply, &look->counts);
    bool behind = false;
    if (counted) {
        look->counts.asked_mono_ms = look->began_ms;
        behind = remote_saw_counts(look->lane->remote, look->sale_id, &look->counts);
    }
    if (answered && look_waits(look, counted)) {
        look_repeat(look);
    } else if (!behind || !look_meets(look)) {
        look_end(look);
    }
}

static void looks_again(uv_timer_t *timer)
{
    struct remote_lane *lane = timer->data;
    for (uint32_t i = 0; i < LOOKS; i++) {
        if (lane->looks[i].waiting != NULL && !lane->looks[i].under_way) look_begin(&lane->looks[i]);
    }
}

static void look_begin(struct look *look)
{
    struct remote_lane *lane = look->lane;
    uint64_t now_ms = mono_ms();
    if (!lane->attached) {
        struct gate_ticket *tickets = look->waiting;
        look->waiting = NULL;
        look_answer(look, tickets);
        return;
    }
    if (now_ms < look->began_ms + LOOK_APART_MS) {
        if (!uv_is_active((uv_handle_t *)&lane->looks_again))
            uv_timer_start(&lane->looks_again, looks_again, LOOK_APART_MS, 0);
        return;
    }
    look->asked = look->waiting;
    look->waiting = NULL;
    look->began_ms = now_ms;
    look->under_way = true;
    look->argv[GATE_KEYS] = SLICE("");
    script_call(lane->remote, look->sale_id, GATE_SCRIPT_PEEK, 0,
                &(struct script_words){ &look->call, look->keys, look->argv });
    look->call.done = look_answered;
    redis_call(lane->client, &look->call);
}

/* The sale's own, or one that nobody waits for any more; NULL: all near its place are in use. */
static struct look *look_find(struct remote_lane *lane, uint64_t sale_id)
{
    enum { NEAR = 16 };
    struct look *idle = NULL;
    uint64_t now_ms = mono_ms();
    for (uint64_t i = 0; i < NEAR; i++) {
        struct look *look = &lane->looks[(sale_id + i) % LOOKS];
        if (look->sale_id == sale_id) return look;
        bool busy = look->under_way || look->waiting != NULL || now_ms < look->began_ms + LOOK_APART_MS;
        if (!busy && idle == NULL) idle = look;
    }
    if (idle == NULL) return NULL;
    idle->sale_id = sale_id;
    idle->began_ms = idle->lost_ms = 0;
    return idle;
}

void remote_look(struct gate_lane *base, uint64_t sale_id, struct gate_ticket *ticket)
{
    struct remote_lane *lane = remote_lane_of(base);
    uint64_t epoch;
    bool known = shelf_epoch(lane->remote->shelf, sale_id, &epoch);
    struct look *look = known && lane->attached ? look_find(lane, sale_id) : NULL;
    ticket->seq = 0;
    if (look == NULL) {
        ticket->verdict = known ? VERDICT_BUSY : VERDICT_NO_SUCH_SALE;
        ticket->done(ticket);
        return;
    }
    ticket->next = look->waiting;
    look->waiting = ticket;
    if (!look->under_way) look_begin(look);
}

/* Those who ask while the ledger is being asked for others wait for the next time: so a flood of ids that were never given
 * costs one question at a time. */
struct met {
    uint64_t id; /* 0: by its names */
    char seller[USERNAME_BYTES_MAX + 1], name[SALE_NAME_BYTES_MAX + 1];
    struct gate_ticket *ticket; /* or */
    struct look *look;          /* that found its sale changed */
};
struct meeting {
    struct crew_job job;
    struct remote_lane *lane;
    uint32_t count, asked; /* the first ones are being asked for */
    struct met met[MEETINGS_MAX];
    enum fault fault;
};

static enum fault sale_meet(struct remote *remote, struct ledger *ledger, const struct met *met, uint64_t id_last)
{
    struct ledger_shelved sale;
    struct slice seller = slice_of(met->seller), name = slice_of(met->name);
    uint64_t id = met->id;
    bool found = false;
    enum fault fault = id == 0 ? ledger_sale_named(ledger, seller, name, &id) : FAULT_NONE;
    if (fault != FAULT_NONE || id == 0 || id > id_last) return fault;
    fault = ledger_shelved(ledger, id, &sale, &found);
    uint64_t epoch;
    bool over = found && sale_is_over(remote, &sale), here = shelf_epoch(remote->shelf, id, &epoch);
    if (found && over && met->id == 0) shelf_name_past(remote->shelf, seller, name, id);
    if (found && (!over || here || id > shelf_id_last(remote->shelf))) shelf_put(remote->shelf, &sale);
    return fault;
}

static enum fault meeting_ask(struct meeting *meeting, struct ledger *ledger)
{
    uint64_t id_last;
    enum fault fault = ledger_sale_id_last(ledger, &id_last);
    for (uint32_t i = 0; i < meeting->asked && fault == FAULT_NONE; i++)
        fault = sale_meet(meeting->lane->remote, ledger, &meeting->met[i], id_last);
    return fault;
}

/* A connection that was lost is made again; a ledger that is known to be gone, or does not answer, keeps nobody waiting. */
static void meeting_work(struct crew_job *job, void *tools)
{
    struct meeting *meeting = (struct meeting *)job;
    struct change_tools *own = tools;
    for (int tries = 0; tries < 2; tries++) {
        meeting->fault = FAULT_LEDGER;
        if (ledger_watch_health(own->place->watch) >= LEDGER_GONE) return;
        meeting->fault = own->ledger == NULL ? ledger_open(&own->ledger, own->place, LEDGER_WRITER) : FAULT_NONE;
        if (meeting->fault != FAULT_NONE) return;
        meeting->fault = meeting_ask(meeting, own->ledger);
        if (meeting->fault == FAULT_NONE) return;
        ledger_close(own->ledger);
        own->ledger = NULL;
        if (meeting->fault == FAULT_TIMEOUT) return;
    }
}

static void meeting_begin(struct meeting *meeting);

/* A row of a higher epoch than the shelf's brings its own counts, which may be behind those of Redis. Where the ledger did
 * not answer, what is known is told. */
static void look_met(struct look *look)
{
    remote_saw_counts(look->lane->remote, look->sale_id, &look->counts);
    look_end(look);
}

static void meeting_done(struct crew_job *job)
{
    struct meeting *meeting = (struct meeting *)job;
    struct gate_ticket *tickets[MEETINGS_MAX];
    struct look *looks[MEETINGS_MAX];
    uint32_t count = meeting->asked;
    bool failed = job->late || meeting->fault != FAULT_NONE;
    meeting->lane->jobs--;
    for (uint32_t i = 0; i < count; i++) {
        tickets[i] = meeting->met[i].ticket;
        looks[i] = meeting->met[i].look;
    }
    meeting->count -= count;
    memmove(meeting->met, meeting->met + count, meeting->count * sizeof *meeting->met);
    meeting->asked = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (looks[i] != NULL) {
            look_met(looks[i]);
            continue;
        }
        tickets[i]->verdict = failed ? VERDICT_BUSY : VERDICT_DONE;
        tickets[i]->done(tickets[i]);
    }
    if (meeting->count > 0 && meeting->asked == 0) meeting_begin(meeting);
}

static void meeting_begin(struct meeting *meeting)
{
    enum { QUEUE = 1 }; /* strangers do not stand before buyers */
    struct remote_lane *lane = meeting->lane;
    meeting->asked = meeting->count;
    meeting->job = (struct crew_job){ .work = meeting_work, .done = meeting_done, .mailbox = lane->changed, .queue = QUEUE };
    lane->jobs++;
    if (crew_ask(lane->remote->reads, &meeting->job)) return;
    meeting->job.late = true;
    meeting_done(&meeting->job);
}

/* False: not now. Those who ask meanwhile are answered by the next look: of each sale the ledger is asked once at a time. */
static bool look_meets(struct look *look)
{
    struct meeting *meeting = look->lane->meeting;
    if (!look->lane->attached || meeting->count == MEETINGS_MAX) return false;
    meeting->met[meeting->count++] = (struct met){ .id = look->sale_id, .look = look };
    if (meeting->asked == 0) meeting_begin(meeting);
    return true;
}

bool remote_is_strange(struct gate *base, const struct gate_stranger *stranger)
{
    struct shelf *shelf = remote_of(base)->shelf;
    struct board_notice notice;
    uint64_t id = stranger->sale_id;
    if (id == 0) return shelf_by_name(shelf, stranger->seller, stranger->name) == 0;
    return id <= INT64_MAX && !shelf_notice(shelf, id, &notice) && id > shelf_id_last(shelf);
}

void remote_meet(struct gate_lane *base, const struct gate_stranger *stranger, struct gate_ticket *ticket)
{
    struct remote_lane *lane = remote_lane_of(base);
    struct meeting *meeting = lane->meeting;
    bool named = stranger->sale_id == 0;
    bool fits = !named || (stranger->seller.len <= USERNAME_BYTES_MAX && stranger->name.len <= SALE_NAME_BYTES_MAX);
    bool settled = !fits || !remote_is_strange(base->gate, stranger);
    ticket->seq = 0;
    if (settled || !lane->attached || meeting->count == MEETINGS_MAX) {
        ticket->verdict = settled ? VERDICT_DONE : VERDICT_BUSY;
        ticket->done(ticket);
        return;
    }
    struct met *met = &meeting->met[meeting->count++];
    met->id = stranger->sale_id;
    met->ticket = ticket;
    met->look = NULL;
    if (named) {
        memcpy(met->seller, stranger->seller.data, stranger->seller.len);
        memcpy(met->name, stranger->name.data, stranger->name.len);
    }
    met->seller[named ? stranger->seller.len : 0] = '\0';
    met->name[named ? stranger->name.len : 0] = '\0';
    if (meeting->asked == 0) meeting_begin(meeting);
}

enum fault remote_looks_open(struct remote_lane *lane)
{
    lane->looks = calloc(LOOKS, sizeof *lane->looks);
    lane->meeting = calloc(1, sizeof *lane->meeting);
    if (lane->looks == NULL || lane->meeting == NULL) return FAULT_MEMORY;
    for (uint32_t i = 0; i < LOOKS; i++) lane->looks[i].lane = lane;
    lane->meeting->lane = lane;
    return FAULT_NONE;
}

void remote_looks_end(struct remote_lane *lane)
{
    assert(!lane->attached);
    for (uint32_t i = 0; i < LOOKS; i++) {
        if (lane->looks[i].waiting != NULL) look_begin(&lane->looks[i]);
    }
}

void remote_looks_close(struct remote_lane *lane)
{
    assert(lane->meeting == NULL || lane->meeting->count == 0);
    free(lane->looks);
    free(lane->meeting);
}
