#include "guard/party.h"

#include <assert.h>
#include <stddef.h>

struct party {
    struct party_tag tag; /* its first word is its hash */
    uint32_t link;
    uint32_t count;
    struct line_waiter *first, *last;
};

enum fault parties_open(struct parties *parties, uint32_t link_at, uint32_t members_max)
{
    parties->link_at = link_at;
    enum fault fault = pool_open(&parties->cells, sizeof(struct party), members_max);
    if (fault != FAULT_NONE) return fault;
    return index_open(&parties->by_tag, &parties->cells, offsetof(struct party, tag), offsetof(struct party, link));
}

void parties_close(struct parties *parties)
{
    if (parties->by_tag.cells != NULL) index_close(&parties->by_tag);
    pool_close(&parties->cells);
}

bool tag_equal(const struct party_tag *a, const struct party_tag *b)
{
    uint32_t difference = 0;
    for (size_t i = 0; i < TAG_WORDS; i++) difference |= a->words[i] ^ b->words[i];
    return difference == 0;
}

static struct party *party_at(const struct parties *parties, uint32_t cell)
{
    assert(cell != 0);
    return pool_cell(&parties->cells, cell);
}

static struct party_link *link_of(const struct parties *parties, struct line_waiter *waiter)
{
    return (struct party_link *)(void *)((char *)waiter + parties->link_at);
}

static uint32_t party_cell(const struct parties *parties, const struct party_tag *tag)
{
    uint32_t cell = index_first(&parties->by_tag, tag->words[0]);
    while (cell != 0 && !tag_equal(&party_at(parties, cell)->tag, tag)) cell = index_next(&parties->by_tag, cell);
    return cell;
}

struct line_waiter *party_first(const struct parties *parties, const struct party_tag *tag)
{
    uint32_t cell = party_cell(parties, tag);
    return cell != 0 ? party_at(parties, cell)->first : NULL;
}

uint32_t party_count(const struct parties *parties, const struct party_tag *tag)
{
    uint32_t cell = party_cell(parties, tag);
    return cell != 0 ? party_at(parties, cell)->count : 0;
}

static uint32_t party_make(struct parties *parties, const struct party_tag *tag)
{
    uint32_t cell = pool_acquire(&parties->cells);
    if (cell == 0) return 0;
    *party_at(parties, cell) = (struct party){ .tag = *tag };
    index_put(&parties->by_tag, cell);
    return cell;
}

bool party_join(struct parties *parties, const struct party_tag *tag, struct line_waiter *waiter)
{
    uint32_t cell = party_cell(parties, tag);
    if (cell == 0) cell = party_make(parties, tag);
    if (cell == 0) return false;
    struct party *party = party_at(parties, cell);
    struct party_link *link = link_of(parties, waiter);
    assert(link->cell == 0);
    *link = (struct party_link){ .prev = party->last, .cell = cell };
    if (party->last != NULL) {
        link_of(parties, party->last)->next = waiter;
    } else {
        party->first = waiter;
    }
    party->last = waiter;
    party->count++;
    return true;
}

/* Whoever stood before and after the waiter stands beside these now. */
static void neighbours_set(struct parties *parties, struct line_waiter *waiter, struct line_waiter *next_of_prev,
                           struct line_waiter *prev_of_next)
{
    const struct party_link *link = link_of(parties, waiter);
    struct party *party = party_at(parties, link->cell);
    if (link->prev != NULL) {
        link_of(parties, link->prev)->next = next_of_prev;
    } else {
        party->first = next_of_prev;
    }
    if (link->next != NULL) {
        link_of(parties, link->next)->prev = prev_of_next;
    } else {
        party->last = prev_of_next;
    }
}

void party_leave(struct parties *parties, struct line_waiter *waiter)
{
    struct party_link *link = link_of(parties, waiter);
    if (link->cell == 0) return;
    neighbours_set(parties, waiter, link->next, link->prev);
    if (--party_at(parties, link->cell)->count == 0) {
        index_remove(&parties->by_tag, link->cell);
        pool_release(&parties->cells, link->cell);
    }
    *link = (struct party_link){ 0 };
}

void party_hand_over(struct parties *parties, struct line_waiter *waiter, struct line_waiter *heir)
{
    struct party_link *link = link_of(parties, waiter);
    assert(link->cell != 0 && link_of(parties, heir)->cell == 0);
    neighbours_set(parties, waiter, heir, heir);
    *link_of(parties, heir) = *link;
    *link = (struct party_link){ 0 };
}
