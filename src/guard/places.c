#include "guard/places.h"

#include "base/log.h"
#include "base/random.h"
#include "base/siphash.h"
#include "base/text.h"
#include "guard/line_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct place {
    struct line_entry entry;
    uint64_t nonce;                  /* of the purchase token that was given for it; 0: none */
    uint32_t id[PLACE_ID_BYTES / 4]; /* random, so its first word is its hash */
    struct party_tag tag;            /* of its buyer in its sale; the first word is its hash */
    uint32_t id_link, tag_link;
    uint32_t beat_prev, beat_next; /* in order of their last heartbeat */
    uint32_t beat_ms;              /* of the monotonic clock; wraps after 49 days, differences do not mind */
};
_Static_assert(sizeof(struct place) == 104, "a million places take 104 MB");

struct places {
    struct lines *lines;
    struct pool cells;
    struct index by_id, by_tag;
    uint32_t beat_first, beat_last; /* the oldest heartbeat, the newest */
};

const char *place_state_word(enum place_state state)
{
    static const char *const words[] = { "waiting", "admitted", "timed_out", "sold_out", "closed" };
    return words[state];
}

static struct place *place_at(const struct places *places, uint32_t cell)
{
    assert(cell != 0);
    return pool_cell(&places->cells, cell);
}

static uint32_t cell_of(const struct places *places, const struct place *place)
{
    return (uint32_t)((size_t)((const uint8_t *)place - places->cells.region.base) / places->cells.cell_bytes);
}

static struct place *place_of(struct line_entry *entry)
{
    assert(entry->is_place);
    return (struct place *)(void *)((char *)entry - offsetof(struct place, entry));
}

enum fault places_open(struct places **out, struct lines *lines)
{
    struct places *places = calloc(1, sizeof *places);
    *out = places;
    if (places == NULL) {
        log_error("line", "no memory for the places");
        return FAULT_MEMORY;
    }
    places->lines = lines;
    const size_t id_at = offsetof(struct place, id), tag_at = offsetof(struct place, tag);
    enum fault fault = pool_open(&places->cells, sizeof(struct place), lines->options.places_max);
    if (fault == FAULT_NONE)
        fault = index_open(&places->by_id, &places->cells, (uint32_t)id_at, offsetof(struct place, id_link));
    if (fault == FAULT_NONE)
        fault = index_open(&places->by_tag, &places->cells, (uint32_t)tag_at, offsetof(struct place, tag_link));
    return fault;
}

void places_close(struct places *places)
{
    if (places == NULL) return;
    index_close(&places->by_tag);
    index_close(&places->by_id);
    pool_close(&places->cells);
    free(places);
}

/* Takes the same time wherever they differ. */
static bool id_equal(const uint32_t *a, const uint32_t *b)
{
    uint32_t difference = 0;
    for (size_t i = 0; i < PLACE_ID_BYTES / 4; i++) difference |= a[i] ^ b[i];
    return difference == 0;
}

static struct place *place_by_tag(const struct places *places, const struct party_tag *tag)
{
    uint32_t cell = index_first(&places->by_tag, tag->words[0]);
    while (cell != 0 && !tag_equal(&place_at(places, cell)->tag, tag)) cell = index_next(&places->by_tag, cell);
    return cell != 0 ? place_at(places, cell) : NULL;
}

static struct place *place_by_id(const struct places *places, const uint32_t *id, const struct party_tag *tag)
{
    uint32_t cell = index_first(&places->by_id, id[0]);
    for (; cell != 0; cell = index_next(&places->by_id, cell)) {
        struct place *place = place_at(places, cell);
        if (id_equal(place->id, id) & tag_equal(&place->tag, tag)) return place;
    }
    return NULL;
}

static void beat_unlink(struct places *places, struct place *place)
{
    if (place->beat_prev != 0) {
        place_at(places, place->beat_prev)->beat_next = place->beat_next;
    } else {
        places->beat_first = place->beat_next;
    }
    if (place->beat_next != 0) {
        place_at(places, place->beat_next)->beat_prev = place->beat_prev;
    } else {
        places->beat_last = place->beat_prev;
    }
}

static void beat_link(struct places *places, struct place *place, uint64_t now_ns)
{
    uint32_t cell = cell_of(places, place);
    place->beat_ms = (uint32_t)(now_ns / 1000000);
    place->beat_prev = places->beat_last;
    place->beat_next = 0;
    if (places->beat_last != 0) {
        place_at(places, places->beat_last)->beat_next = cell;
    } else {
        places->beat_first = cell;
    }
    places->beat_last = cell;
}

static void place_beat(struct places *places, struct place *place, uint64_t now_ns)
{
    beat_unlink(places, place);
    beat_link(places, place, now_ns);
}

/* How long ago the heartbeat was. Threads read the clock before they get the lock, so it may lie a little ahead. */
static uint32_t beat_age_ms(const struct place *place, uint64_t now_ns)
{
    int32_t age = (int32_t)((uint32_t)(now_ns / 1000000) - place->beat_ms);
    return age > 0 ? (uint32_t)age : 0;
}

static bool beat_is_over(const struct places *places, const struct place *place, uint64_t now_ns)
{
    return beat_age_ms(place, now_ns) >= places->lines->options.heartbeat_ms;
}

static void place_release(struct places *places, struct place *place)
{
    uint32_t cell = cell_of(places, place);
    if (place->entry.state == ENTRY_WAITING) entry_take(places->lines, &place->entry, LINE_LEFT);
    beat_unlink(places, place);
    index_remove(&places->by_id, cell);
    index_remove(&places->by_tag, cell);
    pool_release(&places->cells, cell);
}

/* The outcome is news: it stays to be read for a whole heartbeat. */
void place_told(struct places *places, struct line_entry *entry, uint64_t now_ns)
{
    place_beat(places, place_of(entry), now_ns);
}

bool place_waits(const struct places *places, const struct party_tag *buyer)
{
    const struct place *place = place_by_tag(places, buyer);
    return place != NULL && place->entry.state == ENTRY_WAITING;
}

void place_give_up(struct places *places, const struct party_tag *buyer)
{
    if (place_waits(places, buyer)) place_release(places, place_by_tag(places, buyer));
}

bool places_sweep(struct places *places, uint64_t now_ns, uint32_t *budget, uint64_t *due_ns)
{
    *due_ns = NEVER;
    while (places->beat_first != 0) {
        struct place *place = place_at(places, places->beat_first);
        if (!beat_is_over(places, place, now_ns)) {
            uint64_t left_ms = places->lines->options.heartbeat_ms - beat_age_ms(place, now_ns);
            *due_ns = (now_ns / 1000000 + left_ms) * 1000000;
            return true;
        }
        if (*budget == 0) return false;
        --*budget;
        place_release(places, place);
    }
    return true;
}

static enum place_state state_of(const struct place *place)
{
    if (place->entry.state == ENTRY_WAITING) return PLACE_WAITING;
    switch ((enum line_outcome)place->entry.outcome) {
    case LINE_ADMITTED:
        return PLACE_ADMITTED;
    case LINE_TIMED_OUT:
        return PLACE_TIMED_OUT;
    case LINE_SOLD_OUT:
        return PLACE_SOLD_OUT;
    case LINE_CLOSED:
        return PLACE_CLOSED;
    case LINE_WAITING:
    case LINE_FULL:
    case LINE_TWICE:
    case LINE_SERVED:
    case LINE_REPEATED:
    case LINE_LEFT:
    case LINE_OUTCOMES:
        break;
    }
    assert(!"a place that is out of line has an outcome");
    return PLACE_CLOSED;
}

static void view_fill(const struct places *places, const struct place *place, uint32_t available, uint64_t now_ns,
                      struct place_view *out)
{
    *out = (struct place_view){ .state = state_of(place), .nonce = place->nonce };
    hex_encode(out->id, (const uint8_t *)place->id, PLACE_ID_BYTES);
    if (out->state == PLACE_WAITING) {
        const struct line *line = line_at(places->lines, place->entry.line);
        out->ahead = queue_ahead(&place->entry.node);
        out->position = out->ahead + 1;
        out->wait_ms = pace_wait_ms(&line->pace, out->ahead, now_ns);
        out->hopeless = out->ahead > available;
    }
}

/* The pacer may be a moment late; a look must not find what time has ended already. */
static bool place_ended(struct places *places, struct place *place, uint64_t now_ns)
{
    if (beat_is_over(places, place, now_ns)) {
        place_release(places, place);
        return true;
    }
    if (place->entry.state != ENTRY_WAITING) return false;
    const struct line *line = line_at(places->lines, place->entry.line);
    if (now_ns >= entry_deadline_ns(line, &place->entry)) entry_tell(places->lines, &place->entry, LINE_TIMED_OUT, now_ns);
    return false;
}

/* NULL: there is no room for it, or none in the line; *outcome says why. */
static struct place *place_make(struct places *places, const struct place_ask *ask, const struct line_terms *terms,
                                uint64_t now_ns, enum line_outcome *outcome)
{
    uint32_t cell = pool_acquire(&places->cells);
    if (cell == 0) {
        *outcome = outcome_count(LINE_FULL);
        return NULL;
    }
    struct place *place = place_at(places, cell);
    *place = (struct place){ .entry = { .is_place = true } };
    *outcome = entry_put(places->lines, &place->entry, ask->sale_id, terms, now_ns);
    if (*outcome == LINE_FULL || *outcome == LINE_CLOSED) {
        pool_release(&places->cells, cell);
        return NULL;
    }
    place->entry.outcome = (uint8_t)*outcome;
    return place;
}

enum line_outcome place_take(struct lines *lines, const struct place_ask *ask, const struct line_terms *terms,
                             uint64_t now_ns, struct place_view *out)
{
    struct places *places = lines->places;
    struct party_tag tag = tag_of_buyer(lines, ask->sale_id, ask->buyer);
    uint32_t id[PLACE_ID_BYTES / 4];
    random_bytes(id, sizeof id); /* before the lock, for it asks the kernel */

    enum line_outcome outcome = LINE_WAITING;
    lines_lock(lines);
    struct place *place = place_by_tag(places, &tag);
    if (place != NULL && place_ended(places, place, now_ns)) place = NULL;
    if (place != NULL && place->entry.state == ENTRY_WAITING) place_beat(places, place, now_ns);
    if (place != NULL && state_of(place) > PLACE_ADMITTED) {
        place_release(places, place);
        place = NULL;
    }
    if (place == NULL && party_count(&lines->buyers, &tag) >= ask->grabs_max) {
        outcome = outcome_count(LINE_TWICE);
    } else if (place == NULL) {
        place = place_make(places, ask, terms, now_ns, &outcome);
        if (place != NULL) {
            memcpy(place->id, id, sizeof id);
            place->tag = tag;
            index_put(&places->by_id, cell_of(places, place));
            index_put(&places->by_tag, cell_of(places, place));
            beat_link(places, place, now_ns);
            lines_due(lines, now_ns + lines->options.heartbeat_ms * UINT64_C(1000000));
        }
    }
    if (place != NULL) {
        view_fill(places, place, ask->available, now_ns, out);
        outcome = out->state == PLACE_ADMITTED ? LINE_ADMITTED : LINE_WAITING;
    }
    lines_unlock(lines);
    return outcome;
}

/* With the lock held; NULL as place_look() says. */
static struct place *place_find(struct places *places, struct slice text, const struct party_tag *tag)
{
    uint32_t id[PLACE_ID_BYTES / 4];
    if (text.len != PLACE_TEXT_BYTES || !hex_decode((uint8_t *)id, text)) return NULL;
    return place_by_id(places, id, tag);
}

bool place_look(struct lines *lines, struct slice id, const struct place_ask *ask, uint64_t now_ns, struct place_view *out)
{
    struct places *places = lines->places;
    struct party_tag tag = tag_of_buyer(lines, ask->sale_id, ask->buyer);
    lines_lock(lines);
    struct place *place = place_find(places, id, &tag);
    if (place != NULL && place_ended(places, place, now_ns)) place = NULL;
    if (place != NULL) {
        if (place->entry.state == ENTRY_WAITING) place_beat(places, place, now_ns);
        view_fill(places, place, ask->available, now_ns, out);
    }
    lines_unlock(lines);
    return place != NULL;
}

bool place_leave(struct lines *lines, struct slice id, const struct place_ask *ask)
{
    struct places *places = lines->places;
    struct party_tag tag = tag_of_buyer(lines, ask->sale_id, ask->buyer);
    lines_lock(lines);
    struct place *place = place_find(places, id, &tag);
    if (place != NULL) place_release(places, place);
    lines_unlock(lines);
    return place != NULL;
}

bool place_bind(struct lines *lines, struct slice id, const struct place_ask *ask, uint64_t nonce)
{
    assert(nonce != 0);
    struct party_tag tag = tag_of_buyer(lines, ask->sale_id, ask->buyer);
    lines_lock(lines);
    struct place *place = place_find(lines->places, id, &tag);
    bool admitted = place != NULL && state_of(place) == PLACE_ADMITTED;
    if (admitted && place->nonce == 0) place->nonce = nonce;
    bool bound = admitted && place->nonce == nonce;
    lines_unlock(lines);
    return bound;
}

void place_spent(struct lines *lines, uint64_t sale_id, struct slice buyer, uint64_t nonce)
{
    assert(nonce != 0);
    struct party_tag tag = tag_of_buyer(lines, sale_id, buyer);
    lines_lock(lines);
    struct place *place = place_by_tag(lines->places, &tag);
    if (place != NULL && place->nonce == nonce) place_release(lines->places, place);
    lines_unlock(lines);
}

uint32_t places_count(const struct places *places)
{
    return places->cells.used;
}

uint32_t places_heartbeat_ms(const struct lines *lines)
{
    return lines->options.heartbeat_ms;
}
