/* What is to be published to the operator's queue. Filing runs inside the clerk's transaction; the rest are small
 * transactions of the publisher and of the start. */
#include "ledger/publications.h"

#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "ledger/database.h"

#include <assert.h>

#define PAGE_ROWS 1000

/* Filing. */

static enum fault row_read(struct ledger *ledger, struct publication_filing *filing, struct publishing_mark *mark)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_PUBLISHING, &s);
    if (fault != FAULT_NONE) return fault;
    enum step step = cursor_step(s);
    bool good = step == STEP_ROW && row_string(s, 0, mark->name, sizeof(mark->name));
    if (good) {
        filing->state = (enum publishing_state)column_number(s, 1);
        filing->on = filing->state != PUBLISHING_OFF;
        filing->waiting_max = (uint64_t)column_number(s, 2);
        mark->told_ms = (uint64_t)column_number(s, 3);
        mark->dropped = (uint64_t)column_number(s, 4);
        uint64_t first = (uint64_t)column_number(s, 5), last = (uint64_t)column_number(s, 6);
        filing->waiting = first != 0 ? last - first + 1 : 0;
    }
    fault = statement_close(ledger, STATEMENT_PUBLISHING, step);
    if (fault == FAULT_NONE && !good) {
        log_error("ledger", "%s does not say whether it is published", ledger->path);
        return FAULT_DAMAGE;
    }
    return fault;
}

enum fault publications_file_begin(struct ledger *ledger)
{
    struct publishing_mark mark;
    ledger->publishing.dropped = 0;
    return row_read(ledger, &ledger->publishing, &mark);
}

enum fault publications_file(struct ledger *ledger, const struct notice *notice)
{
    struct publication_filing *filing = &ledger->publishing;
    assert(filing->on);
    if (filing->waiting >= filing->waiting_max) {
        filing->dropped++;
        return FAULT_NONE;
    }
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_PUBLICATION_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, (uint64_t)notice->kind);
    bind_number(s, 2, notice->sale_id);
    bind_number(s, 3, notice->order_no);
    bind_number(s, 4, notice->at_ms);
    filing->waiting++;
    return statement_close(ledger, STATEMENT_PUBLICATION_INSERT, cursor_step(s));
}

enum fault publications_file_end(struct ledger *ledger)
{
    if (ledger->publishing.dropped == 0) return FAULT_NONE;
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_PUBLICATIONS_DROPPED, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, ledger->publishing.dropped);
    return statement_close(ledger, STATEMENT_PUBLICATIONS_DROPPED, cursor_step(s));
}

/* The start. */

/* How it is to be, if anything is to change. */
struct row_change {
    enum publishing_state to;
    uint64_t waiting_max, now_ms;
};

static enum fault row_write(struct ledger *ledger, const struct row_change *change, const struct publication_filing *before,
                            struct publishing_mark *mark)
{
    if (mark->name[0] == '\0') {
        uint8_t bytes[PUBLISHING_NAME_BYTES / 2];
        random_bytes(bytes, sizeof(bytes));
        hex_encode(mark->name, bytes, sizeof(bytes));
        mark->name[PUBLISHING_NAME_BYTES] = '\0';
    }
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_PUBLISHING_SET, &s);
    if (fault != FAULT_NONE) return fault;
    bind_string(s, 1, mark->name);
    bind_number(s, 2, change->to);
    bind_number(s, 3, change->waiting_max);
    bind_number(s, 4, change->to != PUBLISHING_OFF && !before->on ? change->now_ms : mark->told_ms);
    return statement_close(ledger, STATEMENT_PUBLISHING_SET, cursor_step(s));
}

enum fault ledger_publishing_set(struct ledger *ledger, const struct publishing *publishing, uint64_t now_ms)
{
    struct publication_filing before;
    struct publishing_mark mark;
    const struct row_change change = { publishing->on ? PUBLISHING_ON : PUBLISHING_OFF, publishing->waiting_max, now_ms };
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = row_read(ledger, &before, &mark);
    if (fault == FAULT_NONE && before.on && !publishing->on)
        log_warn("ledger", "events were published until now, and from now on are not: this was started without publish");
    if (fault == FAULT_NONE) fault = row_write(ledger, &change, &before, &mark);
    return small_end(ledger, fault);
}

enum fault ledger_publishing_turn(struct ledger *ledger, enum publishing_state to, uint64_t now_ms,
                                  enum publishing_state *before)
{
    struct publication_filing was;
    struct publishing_mark mark;
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = row_read(ledger, &was, &mark);
    *before = fault == FAULT_NONE ? was.state : PUBLISHING_OFF;
    bool follows = to == PUBLISHING_ON || (to == PUBLISHING_ASKED && was.state == PUBLISHING_ON) ||
                   (to == PUBLISHING_OFF && was.state == PUBLISHING_ASKED);
    if (fault == FAULT_NONE && follows)
        fault = row_write(ledger, &(struct row_change){ to, was.waiting_max, now_ms }, &was, &mark);
    return small_end(ledger, fault);
}

/* What the publisher asks and records. */

enum fault ledger_publishing_mark(struct ledger *ledger, struct publishing_mark *out)
{
    struct publication_filing filing;
    return row_read(ledger, &filing, out);
}

static bool row_publication(struct cursor *s, struct notice *out)
{
    uint32_t kind;
    *out = (struct notice){ .id = 0 };
    bool good = row_u64(s, 0, INT64_MAX, &out->id) && row_u32(s, 1, NOTICE_SALE_TIMED_OUT, &kind) && kind != 0 &&
                row_u64(s, 2, INT64_MAX, &out->sale_id) && row_u64(s, 3, INT64_MAX, &out->order_no) &&
                row_u64(s, 4, INT64_MAX, &out->at_ms);
    if (!good) return false;
    out->kind = (enum notice_kind)kind;
    return (out->kind <= NOTICE_ORDER_REFUND_DUE) == (out->order_no != 0);
}

struct page {
    uint64_t after; /* the id of the last one, of which it begins behind */
    uint32_t limit, count;
    bool enough; /* visit() has said so */
};

static enum fault page_read(struct ledger *ledger, struct page *page, bool (*visit)(void *arg, const struct notice *notice),
                            void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_PUBLICATIONS, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, page->after);
    bind_number(s, 2, page->limit);
    enum step step = STEP_DONE;
    bool good = true;
    page->count = 0;
    while (good && !page->enough && (step = cursor_step(s)) == STEP_ROW) {
        struct notice notice;
        good = row_publication(s, &notice);
        if (!good) break;
        page->count++;
        page->after = notice.id;
        page->enough = !visit(arg, &notice);
    }
    fault = statement_close(ledger, STATEMENT_PUBLICATIONS, step);
    if (fault == FAULT_NONE && !good) {
        log_error("ledger", "%s has a publication that cannot be", ledger->path);
        return FAULT_DAMAGE;
    }
    return fault;
}

enum fault ledger_publications(struct ledger *ledger, uint32_t limit, bool (*visit)(void *arg, const struct notice *notice),
                               void *arg)
{
    struct page page = { .limit = limit };
    return page_read(ledger, &page, visit, arg);
}

/* In one transaction: an id below that of the last page may be committed meanwhile, and after it one of the same order. */
enum fault ledger_publications_all(struct ledger *ledger, bool (*visit)(void *arg, const struct notice *notice), void *arg)
{
    struct page page = { .limit = PAGE_ROWS };
    enum fault fault = ledger_begin(ledger, TRANSACTION_READ);
    if (fault != FAULT_NONE) return fault;
    do {
        fault = page_read(ledger, &page, visit, arg);
    } while (fault == FAULT_NONE && !page.enough && page.count == page.limit);
    ledger_undo(ledger);
    return fault;
}

enum fault ledger_publications_delete(struct ledger *ledger, const uint64_t *ids, size_t count)
{
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    /* One by one: where several nodes file, an id below the last may be committed after it was read. */
    for (size_t i = 0; i < count && fault == FAULT_NONE; i++) {
        struct cursor *s;
        fault = statement_open(ledger, STATEMENT_PUBLICATION_DELETE, &s);
        if (fault != FAULT_NONE) break;
        bind_number(s, 1, ids[i]);
        fault = statement_close(ledger, STATEMENT_PUBLICATION_DELETE, cursor_step(s));
    }
    return small_end(ledger, fault);
}

enum fault ledger_publications_moments(struct ledger *ledger, struct outbox_span span, bool *any)
{
    return moments_find(ledger, STATEMENT_PUBLICATIONS_CLOSINGS, span, any);
}

enum fault ledger_publications_file_moments(struct ledger *ledger, struct outbox_span span)
{
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    bool first;
    fault = moments_mark(ledger, STATEMENT_PUBLISHING_TOLD, span, &first);
    if (fault == FAULT_NONE && first) fault = closings_file(ledger, STATEMENT_PUBLICATIONS_FILE_CLOSINGS, span);
    return small_end(ledger, fault);
}

enum fault ledger_publications_count(struct ledger *ledger, struct publications_count *out)
{
    struct publication_filing filing;
    struct publishing_mark mark;
    *out = (struct publications_count){ .waiting = 0 };
    enum fault fault = row_read(ledger, &filing, &mark);
    struct cursor *s;
    if (fault == FAULT_NONE) fault = statement_open(ledger, STATEMENT_PUBLICATIONS_OLDEST, &s);
    if (fault != FAULT_NONE) return fault;
    enum step step = cursor_step(s);
    out->oldest_ms = step == STEP_ROW ? (uint64_t)column_number(s, 0) : 0;
    out->waiting = filing.waiting;
    out->dropped = mark.dropped;
    out->state = filing.state;
    return statement_close(ledger, STATEMENT_PUBLICATIONS_OLDEST, step);
}
