#include "guard/line.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "guard/line_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void must(int failed)
{
    assert(failed == 0);
}

void lines_lock(struct lines *lines)
{
    must(pthread_mutex_lock(&lines->lock));
}

void lines_unlock(struct lines *lines)
{
    must(pthread_mutex_unlock(&lines->lock));
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

/* A line in which nobody waits and whose next slot is past is no different from a new one. 0 if there is none such. */
static uint32_t cell_reclaim(struct lines *lines, uint64_t now_ns)
{
    for (uint32_t cell = 1; cell <= lines->cells.fresh; cell++) {
        struct line *line = line_at(lines, cell);
        if (queue_count(&line->queue) > 0 || pace_due_ns(&line->pace) > now_ns) continue;
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
    must(pthread_cond_signal(&lines->sooner));
}

/* All of a line have the same time-out, so who came first also times out first: the pacer looks at the head alone. */
uint64_t entry_deadline_ns(const struct line *line, const struct line_entry *entry)
{
    return entry->entered_ns + line->terms.timeout_ms * UINT64_C(1000000);
}

static enum line_outcome outcome_count(struct lines *lines, struct line *line, enum line_outcome outcome)
{
    lines->outcomes[outcome]++;
    if (line != NULL) line->outcomes[outcome]++;
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
    if (lines->shut) return outcome_count(lines, line, LINE_CLOSED);
    if (line == NULL) line = line_make(lines, sale_id, terms, now_ns);
    if (line == NULL) return outcome_count(lines, NULL, LINE_FULL);
    line_take_terms(line, terms);

    uint32_t waiting = queue_count(&line->queue);
    if (waiting == 0) {
        pace_forgive(&line->pace, now_ns, 0);
        if (pace_due_ns(&line->pace) <= now_ns) {
            pace_take(&line->pace);
            return outcome_count(lines, line, LINE_ADMITTED);
        }
    }
    if (waiting >= terms->size) return outcome_count(lines, line, LINE_FULL);
    if (!entry->is_place && lines->parked >= lines->options.waiters_max) return outcome_count(lines, line, LINE_FULL);

    /* Threads read the clock before they get the lock; the order of arrival is that of the lock. */
    uint64_t entered_ns = now_ns > line->entered_last_ns ? now_ns : line->entered_last_ns + 1;
    line->entered_last_ns = entry->entered_ns = entered_ns;
    entry->line = (uint16_t)cell_of(lines, line);
    entry->state = ENTRY_WAITING;
    queue_append(&line->queue, &entry->node);
    if (waiting == 0) busy_add(lines, line);
    lines->waiting++;
    lines->parked += !entry->is_place;
    line->parked += !entry->is_place;

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
    line->parked -= !entry->is_place;
    entry->state = ENTRY_OUT;
    entry->outcome = (uint8_t)outcome;
    outcome_count(lines, line, outcome);
}

static struct line_waiter *waiter_of(struct line_entry *entry)
{
    assert(!entry->is_place);
    return (struct line_waiter *)(void *)((char *)entry - offsetof(struct line_waiter, entry));
}

static void mail_push(struct mail_list *list, struct line_waiter *waiter)
{
    waiter->mail_prev = list->last;
    waiter->mail_next = NULL;
    if (list->last != NULL) {
        list->last->mail_next = waiter;
    } else {
        list->first = waiter;
    }
    list->last = waiter;
}

/* False if it is not in this list. */
static bool mail_remove(struct mail_list *list, struct line_waiter *waiter)
{
    if (waiter->mail_prev == NULL && list->first != waiter) return false;
    if (waiter->mail_next == NULL && list->last != waiter) return false;
    if (waiter->mail_prev != NULL) {
        waiter->mail_prev->mail_next = waiter->mail_next;
    } else {
        list->first = waiter->mail_next;
    }
    if (waiter->mail_next != NULL) {
        waiter->mail_next->mail_prev = waiter->mail_prev;
    } else {
        list->last = waiter->mail_prev;
    }
    return true;
}

void entry_tell(struct lines *lines, struct line_entry *entry, enum line_outcome outcome, uint64_t now_ns)
{
    uint64_t deadline_ns = entry_deadline_ns(line_at(lines, entry->line), entry);
    entry_take(lines, entry, outcome);
    if (entry->is_place) {
        place_told(lines->places, entry, outcome, now_ns);
        return;
    }
    struct line_waiter *waiter = waiter_of(entry);
    struct line_mailbox *mailbox = waiter->mailbox;
    bool was_empty = mailbox->mail.first == NULL;
    waiter->deadline_ns = deadline_ns;
    entry->state = ENTRY_CALLED;
    mail_push(&mailbox->mail, waiter);
    if (was_empty) mailbox->wake(mailbox->arg);
}

enum line_outcome line_enter(struct lines *lines, struct line_waiter *waiter, uint64_t sale_id,
                             const struct line_terms *terms, uint64_t now_ns)
{
    assert(waiter->go != NULL && waiter->mailbox != NULL && waiter->mailbox->lines == lines);
    waiter->sale_id = sale_id;
    waiter->entry.is_place = false;
    lines_lock(lines);
    enum line_outcome outcome = entry_put(lines, &waiter->entry, sale_id, terms, now_ns);
    lines_unlock(lines);
    return outcome;
}

/* The outcome of one who was called turns out to be another. His line may have gone to another sale by now. */
static void outcome_recount(struct lines *lines, struct line_waiter *waiter, enum line_outcome outcome)
{
    struct line *line = line_at(lines, waiter->entry.line);
    if (line->sale_id != waiter->sale_id) line = NULL;
    lines->outcomes[waiter->entry.outcome]--;
    if (line != NULL) line->outcomes[waiter->entry.outcome]--;
    waiter->entry.outcome = (uint8_t)outcome_count(lines, line, outcome);
}

/* A waiter that was called lies in the mail, or in what is being delivered if a go() lets it leave; both are this
 * thread's to empty, so it cannot be delivered in the meantime. */
void line_leave(struct lines *lines, struct line_waiter *waiter)
{
    lines_lock(lines);
    if (waiter->entry.state == ENTRY_WAITING) {
        entry_take(lines, &waiter->entry, LINE_LEFT);
    } else if (waiter->entry.state == ENTRY_CALLED) {
        bool found = mail_remove(&waiter->mailbox->mail, waiter) || mail_remove(&waiter->mailbox->taken, waiter);
        assert(found);
        waiter->entry.state = ENTRY_OUT;
        outcome_recount(lines, waiter, LINE_LEFT);
    }
    lines_unlock(lines);
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

enum fault line_mailbox_open(struct line_mailbox **out, struct lines *lines, void (*wake)(void *arg), void *arg)
{
    struct line_mailbox *mailbox = calloc(1, sizeof *mailbox);
    *out = mailbox;
    if (mailbox == NULL) {
        log_error("line", "no memory for a mailbox");
        return FAULT_MEMORY;
    }
    *mailbox = (struct line_mailbox){ .lines = lines, .wake = wake, .arg = arg };
    lines_lock(lines);
    lines->mailboxes++;
    lines_unlock(lines);
    return FAULT_NONE;
}

void line_mailbox_close(struct line_mailbox *mailbox)
{
    if (mailbox == NULL) return;
    lines_lock(mailbox->lines);
    assert(mailbox->mail.first == NULL && mailbox->taken.first == NULL);
    mailbox->lines->mailboxes--;
    lines_unlock(mailbox->lines);
    free(mailbox);
}

/* A reactor that was held up must not let one take stock who has been promised an answer before. */
static void mail_settle(struct line_mailbox *mailbox, uint64_t now_ns)
{
    for (struct line_waiter *waiter = mailbox->taken.first; waiter != NULL; waiter = waiter->mail_next) {
        if (waiter->entry.outcome == LINE_ADMITTED && now_ns >= waiter->deadline_ns)
            outcome_recount(mailbox->lines, waiter, LINE_TIMED_OUT);
    }
}

void line_mailbox_deliver(struct line_mailbox *mailbox, uint64_t now_ns)
{
    struct mail_list *taken = &mailbox->taken;
    assert(taken->first == NULL); /* a go() does not deliver */
    lines_lock(mailbox->lines);
    *taken = mailbox->mail;
    mailbox->mail = (struct mail_list){ 0 };
    mail_settle(mailbox, now_ns);
    lines_unlock(mailbox->lines);

    for (struct line_waiter *waiter = taken->first; waiter != NULL; waiter = taken->first) {
        mail_remove(taken, waiter);
        waiter->entry.state = ENTRY_OUT;
        waiter->go(waiter, (enum line_outcome)waiter->entry.outcome);
    }
}

bool lines_declare(struct lines *lines, struct slice name, const struct line_terms *terms)
{
    assert(name.len >= 1 && name.len <= LINE_NAME_BYTES_MAX && line_terms_valid(terms));
    lines_lock(lines);
    uint32_t at = 0;
    while (at < lines->declared_count && !slice_equal(slice_of(lines->declared[at].name), name)) at++;
    bool fits = at < LINES_DECLARED_MAX;
    if (fits) {
        memcpy(lines->declared[at].name, name.data, name.len);
        lines->declared[at].name[name.len] = '\0';
        lines->declared[at].terms = *terms;
        if (at == lines->declared_count) lines->declared_count++;
    }
    lines_unlock(lines);
    return fits;
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

static void status_fill(const struct line *line, struct line_status *out)
{
    *out = (struct line_status){
        .sale_id = line->sale_id,
        .terms = line->terms,
        .waiting = queue_count(&line->queue),
        .parked = line->parked,
    };
    memcpy(out->outcomes, line->outcomes, sizeof out->outcomes);
}

bool line_status(struct lines *lines, uint64_t sale_id, struct line_status *out)
{
    lines_lock(lines);
    const struct line *line = line_find(lines, sale_id);
    if (line != NULL) status_fill(line, out);
    lines_unlock(lines);
    return line != NULL;
}

void lines_status(struct lines *lines, struct line_status *out)
{
    lines_lock(lines);
    *out = (struct line_status){ .waiting = lines->waiting, .parked = lines->parked };
    memcpy(out->outcomes, lines->outcomes, sizeof out->outcomes);
    lines_unlock(lines);
}

uint32_t lines_list(struct lines *lines, struct line_status *out, uint32_t max)
{
    lines_lock(lines);
    uint32_t count = lines->cells.fresh < max ? lines->cells.fresh : max;
    for (uint32_t i = 0; i < count; i++) status_fill(line_at(lines, i + 1), &out[i]);
    lines_unlock(lines);
    return count;
}
