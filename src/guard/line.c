#include "guard/line.h"

#include "base/metrics.h"
#include "base/thread.h"
#include "guard/line_state.h"

#include <assert.h>
#include <string.h>

void lines_lock(struct lines *lines)
{
    thread_must(pthread_mutex_lock(&lines->lock));
}

void lines_unlock(struct lines *lines)
{
    thread_must(pthread_mutex_unlock(&lines->lock));
}

bool line_terms_valid(const struct line_terms *terms)
{
    return terms->rate_per_s >= 1 && terms->rate_per_s <= LINE_RATE_MAX && terms->size >= 1 &&
           terms->size <= LINE_SIZE_MAX && terms->timeout_ms >= 1 && terms->timeout_ms <= LINE_TIMEOUT_MS_MAX;
}

struct line *line_at(const struct lines *lines, uint32_t cell)
{
    assert(cell != 0);
    return pool_cell(&lines->cells, cell);
}

static uint32_t cell_of(const struct lines *lines, const struct line *line)
{
    return (uint32_t)((size_t)((const uint8_t *)line - lines->cells.region.base) / lines->cells.cell_bytes);
}

const char *line_outcome_word(enum line_outcome outcome)
{
    static const char *const words[LINE_OUTCOMES] = { "waiting", "admitted", "timed_out", "sold_out", "full",
                                                      "twice",   "closed",   "served",    "repeated", "left" };
    return words[outcome];
}

/* Ids count up from 1, so their low bits are spread already. */
static uint32_t sale_hash(uint64_t sale_id)
{
    return (uint32_t)(sale_id ^ sale_id >> 32);
}

struct line *line_find(const struct lines *lines, uint64_t sale_id)
{
    uint32_t cell = index_first(&lines->by_sale, sale_hash(sale_id));
    while (cell != 0 && line_at(lines, cell)->sale_id != sale_id) cell = index_next(&lines->by_sale, cell);
    return cell != 0 ? line_at(lines, cell) : NULL;
}

static struct party_tag tag_make(const struct lines *lines, const uint8_t *text, size_t len)
{
    uint64_t low = siphash(lines->keys[0], text, len), high = siphash(lines->keys[1], text, len);
    return (struct party_tag){ { (uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high } };
}

struct party_tag tag_of_buyer(const struct lines *lines, uint64_t sale_id, struct slice buyer)
{
    assert(buyer.len >= 1 && buyer.len <= BUYER_BYTES_MAX);
    uint8_t text[sizeof sale_id + BUYER_BYTES_MAX];
    memcpy(text, &sale_id, sizeof sale_id);
    memcpy(text + sizeof sale_id, buyer.data, buyer.len);
    return tag_make(lines, text, sizeof sale_id + buyer.len);
}

/* The buyer's tag stands for buyer and sale. */
struct party_tag tag_of_grab(const struct lines *lines, const struct party_tag *buyer, const struct line_ask *ask)
{
    assert(ask->key.len >= 1 && ask->key.len <= IDEMPOTENCY_KEY_BYTES_MAX);
    uint8_t text[sizeof *buyer + sizeof ask->units + IDEMPOTENCY_KEY_BYTES_MAX];
    memcpy(text, buyer, sizeof *buyer);
    memcpy(text + sizeof *buyer, &ask->units, sizeof ask->units);
    memcpy(text + sizeof *buyer + sizeof ask->units, ask->key.data, ask->key.len);
    return tag_make(lines, text, sizeof *buyer + sizeof ask->units + ask->key.len);
}

/* A line in which nobody waits and whose next slot is past is no different from a new one. 0 if there is none such. */
static uint32_t cell_reclaim(struct lines *lines, uint64_t now_ns)
{
    for (uint32_t cell = 1; cell <= lines->cells.fresh; cell++) {
        struct line *line = line_at(lines, cell);
        if (queue_count(&line->queue) > 0 || line->called > 0 || pace_due_ns(&line->pace) > now_ns) continue;
        index_remove(&lines->by_sale, cell);
        return cell;
    }
    return 0;
}

static struct line *line_make(struct lines *lines, uint64_t sale_id, const struct line_terms *terms, uint64_t now_ns)
{
    uint32_t cell = pool_acquire(&lines->cells);
    if (cell == 0) cell = cell_reclaim(lines, now_ns);
    if (cell == 0) return NULL;
    struct line *line = line_at(lines, cell);
    *line = (struct line){
        .sale_id = sale_id,
        .hash = sale_hash(sale_id),
        .terms = *terms,
        .pace = { .second_ns = now_ns, .rate = terms->rate_per_s },
        .queue = { .lot = lines->lot += 2 },
    };
    index_put(&lines->by_sale, cell);
    return line;
}

static void busy_add(struct lines *lines, struct line *line)
{
    uint32_t cell = cell_of(lines, line);
    line->busy_prev = 0;
    line->busy_next = lines->busy;
    if (lines->busy != 0) line_at(lines, lines->busy)->busy_prev = cell;
    lines->busy = cell;
}

static void busy_remove(struct lines *lines, struct line *line)
{
    if (line->busy_next != 0) line_at(lines, line->busy_next)->busy_prev = line->busy_prev;
    if (line->busy_prev != 0) {
        line_at(lines, line->busy_prev)->busy_next = line->busy_next;
    } else {
        assert(lines->busy == cell_of(lines, line));
        lines->busy = line->busy_next;
    }
}

void lines_due(struct lines *lines, uint64_t due_ns)
{
    if (due_ns >= lines->due_ns) return;
    lines->due_ns = due_ns;
    thread_must(pthread_cond_signal(&lines->sooner));
}

/* All of a line have the same time-out, so who came first also times out first: the pacer looks at the head alone. */
uint64_t entry_deadline_ns(const struct line *line, const struct line_entry *entry)
{
    return entry->entered_ns + line->terms.timeout_ms * UINT64_C(1000000);
}

enum line_outcome outcome_count(enum line_outcome outcome)
{
    metrics_add_labelled(METRIC_LINE_OUTCOMES, outcome, 1);
    return outcome;
}

static void line_take_terms(struct line *line, const struct line_terms *terms)
{
    assert(line_terms_valid(terms));
    if (line->terms.rate_per_s != terms->rate_per_s) pace_change(&line->pace, terms->rate_per_s);
    line->terms = *terms;
}

enum line_outcome entry_put(struct lines *lines, struct line_entry *entry, uint64_t sale_id, const struct line_terms *terms,
                            uint64_t now_ns)
{
    struct line *line = line_find(lines, sale_id);
    entry->state = ENTRY_OUT;
    if (lines->shut) return outcome_count(LINE_CLOSED);
    if (line == NULL) line = line_make(lines, sale_id, terms, now_ns);
    if (line == NULL) return outcome_count(LINE_FULL);
    line_take_terms(line, terms);

    uint32_t waiting = queue_count(&line->queue);
    if (waiting == 0) {
        pace_forgive(&line->pace, now_ns, 0);
        /* Whoever was let through and has not heard of it came first: this one gets his mail after him. */
        if (line->called == 0 && pace_due_ns(&line->pace) <= now_ns) {
            pace_take(&line->pace);
            return outcome_count(LINE_ADMITTED);
        }
    }
    if (waiting >= terms->size) return outcome_count(LINE_FULL);
    if (!entry->is_place && lines->parked >= lines->options.waiters_max) return outcome_count(LINE_FULL);

    /* Threads read the clock before they get the lock; the order of arrival is that of the lock. */
    uint64_t entered_ns = now_ns > line->entered_last_ns ? now_ns : line->entered_last_ns + 1;
    line->entered_last_ns = entry->entered_ns = entered_ns;
    entry->line = (uint16_t)cell_of(lines, line);
    entry->state = ENTRY_WAITING;
    queue_append(&line->queue, &entry->node);
    if (waiting == 0) busy_add(lines, line);
    lines->waiting++;
    lines->parked += !entry->is_place;

    uint64_t slot_ns = pace_due_ns(&line->pace), deadline_ns = entry_deadline_ns(line, entry);
    lines_due(lines, slot_ns < deadline_ns ? slot_ns : deadline_ns);
    return LINE_WAITING;
}

void entry_take(struct lines *lines, struct line_entry *entry, enum line_outcome outcome)
{
    assert(entry->state == ENTRY_WAITING);
    struct line *line = line_at(lines, entry->line);
    queue_remove(&line->queue, &entry->node);
    if (queue_count(&line->queue) == 0) busy_remove(lines, line);
    lines->waiting--;
    lines->parked -= !entry->is_place;
    entry->state = ENTRY_OUT;
    entry->outcome = (uint8_t)outcome;
    if (entry->is_place || outcome == LINE_LEFT) outcome_count(outcome);
}

static void line_tell_all(struct lines *lines, struct line *line, enum line_outcome outcome)
{
    if (line == NULL || queue_count(&line->queue) == 0) return;
    line->told_until_ns = line->entered_last_ns;
    line->told = outcome;
    lines_due(lines, 0);
}

void line_sold_out(struct lines *lines, uint64_t sale_id)
{
    lines_lock(lines);
    line_tell_all(lines, line_find(lines, sale_id), LINE_SOLD_OUT);
    lines_unlock(lines);
}

void line_closed(struct lines *lines, uint64_t sale_id)
{
    lines_lock(lines);
    line_tell_all(lines, line_find(lines, sale_id), LINE_CLOSED);
    lines_unlock(lines);
}

void lines_shut(struct lines *lines)
{
    lines_lock(lines);
    lines->shut = true;
    for (uint32_t cell = lines->busy; cell != 0; cell = line_at(lines, cell)->busy_next)
        line_tell_all(lines, line_at(lines, cell), LINE_CLOSED);
    lines_unlock(lines);
}

void lines_declare(struct lines *lines, const struct line_declared *declared, uint32_t count)
{
    assert(count <= LINES_DECLARED_MAX);
    for (uint32_t i = 0; i < count; i++) assert(line_terms_valid(&declared[i].terms));
    lines_lock(lines);
    memcpy(lines->declared, declared, count * sizeof *declared);
    lines->declared_count = count;
    lines_unlock(lines);
}

bool lines_declared(struct lines *lines, struct slice name, struct line_terms *out)
{
    bool found = false;
    lines_lock(lines);
    for (uint32_t i = 0; i < lines->declared_count && !found; i++) {
        found = slice_equal(slice_of(lines->declared[i].name), name);
        if (found) *out = lines->declared[i].terms;
    }
    lines_unlock(lines);
    return found;
}

void lines_status(struct lines *lines, struct lines_status *out)
{
    lines_lock(lines);
    *out = (struct lines_status){ .waiting = lines->waiting,
                                  .parked = lines->parked,
                                  .places = places_count(lines->places) };
    lines_unlock(lines);
}

uint32_t lines_busy(struct lines *lines, uint64_t sale_ids[LINES_MAX])
{
    uint32_t count = 0;
    lines_lock(lines);
    for (uint32_t cell = lines->busy; cell != 0; cell = line_at(lines, cell)->busy_next)
        sale_ids[count++] = line_at(lines, cell)->sale_id;
    lines_unlock(lines);
    return count;
}
