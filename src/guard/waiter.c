/* Parked requests: how they come, are told, and leave. */
#include "base/log.h"
#include "base/metrics.h"
#include "guard/line_state.h"

#include <assert.h>
#include <stdlib.h>

/* Requests of one grab that may wait beside it: a client that lost its connection asks again, but not without end. */
#define BESIDE_MAX 16

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

static void waiter_mail(struct line_waiter *waiter, enum line_outcome outcome)
{
    struct line_mailbox *mailbox = waiter->mailbox;
    bool was_empty = mailbox->mail.first == NULL;
    waiter->entry.state = ENTRY_CALLED;
    waiter->entry.outcome = (uint8_t)outcome;
    mail_push(&mailbox->mail, waiter);
    if (was_empty) mailbox->wake(mailbox->arg);
}

static void waiter_admit(struct lines *lines, struct line_waiter *waiter)
{
    waiter->counted = true;
    line_at(lines, waiter->entry.line)->called++;
    waiter_mail(waiter, LINE_ADMITTED);
}

/* The grab has come to its end: everybody beside it hears of it. It comes first in its party, for whoever is first when it
 * leaves takes its place. */
static void grab_end(struct lines *lines, struct line_waiter *waiter, enum line_outcome outcome)
{
    struct line_waiter *beside = waiter->of_grab.next;
    party_leave(&lines->grabs, waiter);
    while (beside != NULL) {
        struct line_waiter *next = beside->of_grab.next;
        assert(beside->entry.state == ENTRY_BESIDE);
        party_leave(&lines->grabs, beside);
        lines->parked--;
        waiter_mail(beside, outcome);
        beside = next;
    }
}

void entry_tell(struct lines *lines, struct line_entry *entry, enum line_outcome outcome, uint64_t now_ns)
{
    uint64_t deadline_ns = entry_deadline_ns(line_at(lines, entry->line), entry);
    entry_take(lines, entry, outcome);
    if (entry->is_place) {
        place_told(lines->places, entry, now_ns);
        return;
    }
    struct line_waiter *waiter = waiter_of(entry);
    waiter->deadline_ns = deadline_ns;
    party_leave(&lines->buyers, waiter);
    if (outcome == LINE_ADMITTED) {
        waiter_admit(lines, waiter);
    } else {
        waiter_mail(waiter, outcome);
        grab_end(lines, waiter, outcome);
    }
}

struct tags {
    bool named, keyed;
    struct party_tag buyer, grab;
};

static struct tags tags_of(const struct lines *lines, const struct line_ask *ask)
{
    struct tags tags = { .named = ask->buyer.len > 0, .keyed = ask->buyer.len > 0 && ask->key.len > 0 };
    if (tags.named) tags.buyer = tag_of_buyer(lines, ask->sale_id, ask->buyer);
    if (tags.keyed) tags.grab = tag_of_grab(lines, &tags.buyer, ask);
    return tags;
}

/* The same grab is there already: this one needs no slot of its own. */
static enum line_outcome waiter_put_beside(struct lines *lines, struct line_waiter *waiter, const struct party_tag *grab)
{
    waiter->entry.state = ENTRY_OUT;
    if (lines->parked >= lines->options.waiters_max) return outcome_count(LINE_FULL);
    if (party_count(&lines->grabs, grab) > BESIDE_MAX) return outcome_count(LINE_TWICE);
    bool joined = party_join(&lines->grabs, grab, waiter);
    assert(joined); /* it is there */
    waiter->entry.state = ENTRY_BESIDE;
    lines->parked++;
    return LINE_WAITING;
}

static uint32_t buyer_waits(const struct lines *lines, const struct party_tag *buyer)
{
    return party_count(&lines->buyers, buyer) + place_waits(lines->places, buyer);
}

enum line_outcome line_enter(struct lines *lines, struct line_waiter *waiter, const struct line_ask *ask,
                             const struct line_terms *terms, uint64_t now_ns)
{
    assert(waiter->go != NULL && waiter->mailbox != NULL && waiter->mailbox->lines == lines);
    const struct tags tags = tags_of(lines, ask);
    assert(!tags.named || ask->grabs_max >= 1);
    waiter->entry.is_place = waiter->counted = false;
    waiter->of_buyer = waiter->of_grab = (struct party_link){ 0 };
    enum line_outcome outcome;
    lines_lock(lines);
    if (tags.keyed && party_first(&lines->grabs, &tags.grab) != NULL) {
        outcome = waiter_put_beside(lines, waiter, &tags.grab);
    } else if (tags.named && buyer_waits(lines, &tags.buyer) >= ask->grabs_max) {
        waiter->entry.state = ENTRY_OUT;
        outcome = outcome_count(LINE_TWICE);
    } else {
        outcome = entry_put(lines, &waiter->entry, ask->sale_id, terms, now_ns);
        if (tags.named && outcome == LINE_WAITING) {
            bool joined = party_join(&lines->buyers, &tags.buyer, waiter);
            assert(joined); /* no more wait than waiters_max */
        }
        /* Where there is no memory for one more party, the same grab later is told what a second grab is told. */
        if (tags.keyed && (outcome == LINE_WAITING || outcome == LINE_ADMITTED))
            (void)party_join(&lines->grabs, &tags.grab, waiter);
    }
    lines_unlock(lines);
    return outcome;
}

bool line_knows(struct lines *lines, const struct line_ask *ask)
{
    const struct tags tags = tags_of(lines, ask);
    if (!tags.keyed) return false;
    lines_lock(lines);
    bool known = party_first(&lines->grabs, &tags.grab) != NULL;
    lines_unlock(lines);
    return known;
}

/* One who waits leaves. The same grab beside it, if there is one, stands where it stood. */
static void waiting_leave(struct lines *lines, struct line_waiter *waiter)
{
    struct line_waiter *heir = waiter->of_grab.next;
    party_leave(&lines->grabs, waiter);
    if (heir == NULL) {
        party_leave(&lines->buyers, waiter);
        entry_take(lines, &waiter->entry, LINE_LEFT);
        return;
    }
    struct line *line = line_at(lines, waiter->entry.line);
    queue_replace(&line->queue, &waiter->entry.node, &heir->entry.node);
    heir->entry.entered_ns = waiter->entry.entered_ns;
    heir->entry.line = waiter->entry.line;
    heir->entry.state = ENTRY_WAITING;
    party_hand_over(&lines->buyers, waiter, heir);
    waiter->entry.state = ENTRY_OUT;
    lines->parked--;
    outcome_count(LINE_LEFT);
}

/* One whose outcome is on its way leaves. If he was let through, the same grab beside him is. A waiter that was called lies
 * in the mail, or in what is being delivered if a go() lets it leave; both are this thread's to empty, so it cannot be
 * delivered in the meantime. */
static void called_leave(struct lines *lines, struct line_waiter *waiter)
{
    bool found = mail_remove(&waiter->mailbox->mail, waiter) || mail_remove(&waiter->mailbox->taken, waiter);
    assert(found);
    if (waiter->counted) line_at(lines, waiter->entry.line)->called--;
    waiter->counted = false;
    waiter->entry.state = ENTRY_OUT;
    outcome_count(LINE_LEFT);
    struct line_waiter *heir = waiter->of_grab.next;
    party_leave(&lines->grabs, waiter);
    if (heir == NULL) return;
    assert(waiter->entry.outcome == LINE_ADMITTED);
    heir->deadline_ns = waiter->deadline_ns;
    heir->entry.line = waiter->entry.line;
    lines->parked--;
    waiter_admit(lines, heir);
}

void line_leave(struct lines *lines, struct line_waiter *waiter)
{
    lines_lock(lines);
    if (waiter->entry.state == ENTRY_WAITING) {
        waiting_leave(lines, waiter);
    } else if (waiter->entry.state == ENTRY_BESIDE) {
        party_leave(&lines->grabs, waiter);
        waiter->entry.state = ENTRY_OUT;
        lines->parked--;
        outcome_count(LINE_LEFT);
    } else if (waiter->entry.state == ENTRY_CALLED) {
        called_leave(lines, waiter);
    }
    lines_unlock(lines);
}

void line_settle(struct lines *lines, struct line_waiter *waiter)
{
    lines_lock(lines);
    grab_end(lines, waiter, LINE_REPEATED);
    lines_unlock(lines);
}

void line_served(struct lines *lines, uint64_t sale_id, struct slice buyer)
{
    const struct party_tag tag = tag_of_buyer(lines, sale_id, buyer);
    lines_lock(lines);
    struct line_waiter *waiter;
    while ((waiter = party_first(&lines->buyers, &tag)) != NULL) entry_tell(lines, &waiter->entry, LINE_SERVED, 0);
    place_give_up(lines->places, &tag);
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
        if (waiter->entry.outcome != LINE_ADMITTED) continue;
        line_at(mailbox->lines, waiter->entry.line)->called--;
        waiter->counted = false;
        if (now_ns < waiter->deadline_ns) continue;
        waiter->entry.outcome = LINE_TIMED_OUT;
        grab_end(mailbox->lines, waiter, LINE_TIMED_OUT);
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
        waiter->go(waiter, outcome_count((enum line_outcome)waiter->entry.outcome));
    }
}
