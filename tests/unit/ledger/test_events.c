/* Events and their subscribers: whose they are, when it is too late, and that nobody is counted twice. */
#include "fixture.h"
#include "ledger/events.h"
#include "ledger/outbox.h"

#include <stdio.h>
#include <string.h>

static uint64_t event_make(struct fixture *f, const char *seller, uint64_t opens_ms)
{
    struct event event = { .opens_ms = opens_ms, .created_ms = 10, .name = "Spring", .description = "Two\nlines" };
    snprintf(event.seller, sizeof event.seller, "%s", seller);
    assert_int_equal(ledger_event_add(f->ledger, &event), FAULT_NONE);
    return event.id;
}

static struct event event_read(struct fixture *f, uint64_t id)
{
    struct event event;
    bool found;
    assert_int_equal(ledger_event(f->ledger, id, &event, &found), FAULT_NONE);
    assert_true(found);
    return event;
}

static enum event_result subscribe(struct fixture *f, uint64_t id, const char *buyer, uint64_t now_ms)
{
    enum event_result result;
    const struct subscription subscription = { id, slice_of(buyer), now_ms };
    assert_int_equal(ledger_subscribe(f->ledger, &subscription, &result), FAULT_NONE);
    return result;
}

static enum event_result unsubscribe(struct fixture *f, uint64_t id, const char *buyer, uint64_t now_ms)
{
    enum event_result result;
    const struct subscription subscription = { id, slice_of(buyer), now_ms };
    assert_int_equal(ledger_unsubscribe(f->ledger, &subscription, &result), FAULT_NONE);
    return result;
}

static void an_event_is_kept_as_it_was_made(void **state)
{
    struct fixture *f = *state;
    uint64_t id = event_make(f, "sam", 1000);
    fixture_reopen(f);
    struct event event = event_read(f, id);
    assert_string_equal(event.seller, "sam");
    assert_string_equal(event.name, "Spring");
    assert_string_equal(event.description, "Two\nlines");
    assert_int_equal(event.opens_ms, 1000);
    assert_int_equal(event.created_ms, 10);
    assert_int_equal(event.subscribers, 0);
    bool found = true;
    assert_int_equal(ledger_event(f->ledger, id + 1, &event, &found), FAULT_NONE);
    assert_false(found);
}

static void a_change_is_its_sellers_and_moves_only_what_has_not_opened(void **state)
{
    struct fixture *f = *state;
    uint64_t id = event_make(f, "sam", 1000);
    const struct {
        uint64_t id;
        const char *seller;
        uint32_t mask;
        uint64_t now_ms;
        enum event_result want;
    } script[] = {
        { id, "eve", EVENT_NAME, 500, EVENT_UNKNOWN },
        { id + 1, "sam", EVENT_NAME, 500, EVENT_UNKNOWN },
        { id, "sam", EVENT_NAME, 500, EVENT_DONE },
        { id, "", EVENT_DESCRIPTION, 500, EVENT_DONE },
        { id, "sam", EVENT_OPENS, 999, EVENT_DONE },
        { id, "sam", EVENT_OPENS, 2000, EVENT_OPENED },
        { id, "sam", EVENT_NAME | EVENT_OPENS, 2001, EVENT_OPENED },
        { id, "sam", EVENT_NAME, 2001, EVENT_OPENED },
        { id, "sam", 0, 2001, EVENT_DONE },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        const struct event_change change = { .id = script[i].id,
                                             .seller = slice_of(script[i].seller),
                                             .mask = script[i].mask,
                                             .name = "Other",
                                             .description = "",
                                             .opens_ms = 2000,
                                             .now_ms = script[i].now_ms };
        struct event event;
        enum event_result result;
        assert_int_equal(ledger_event_change(f->ledger, &change, &event, &result), FAULT_NONE);
        assert_int_equal(result, script[i].want);
    }
    struct event event = event_read(f, id);
    assert_string_equal(event.name, "Other");
    assert_string_equal(event.description, "");
    assert_int_equal(event.opens_ms, 2000);
}

static void subscribing_and_leaving_count_each_once(void **state)
{
    struct fixture *f = *state;
    uint64_t id = event_make(f, "sam", 1000), other = event_make(f, "sam", 1000);
    assert_int_equal(subscribe(f, id, "ann", 1), EVENT_DONE);
    assert_int_equal(subscribe(f, id, "ann", 2), EVENT_DONE);
    assert_int_equal(subscribe(f, id, "bob", 3), EVENT_DONE);
    assert_int_equal(subscribe(f, other, "ann", 3), EVENT_DONE);
    assert_int_equal(unsubscribe(f, id, "ann", 4), EVENT_DONE);
    assert_int_equal(unsubscribe(f, id, "ann", 4), EVENT_DONE);
    assert_int_equal(unsubscribe(f, id, "cat", 4), EVENT_DONE);
    assert_int_equal(event_read(f, id).subscribers, 1);
    assert_int_equal(subscribe(f, id, "ann", 5), EVENT_DONE);
    assert_int_equal(event_read(f, id).subscribers, 2);
    assert_int_equal(event_read(f, other).subscribers, 1);
    assert_int_equal(subscribe(f, 99, "ann", 5), EVENT_UNKNOWN);
    assert_int_equal(unsubscribe(f, 99, "ann", 5), EVENT_UNKNOWN);
}

static void an_event_that_has_opened_keeps_its_subscribers(void **state)
{
    struct fixture *f = *state;
    uint64_t id = event_make(f, "sam", 1000);
    assert_int_equal(subscribe(f, id, "ann", 999), EVENT_DONE);
    assert_int_equal(subscribe(f, id, "bob", 1000), EVENT_OPENED);
    assert_int_equal(subscribe(f, id, "ann", 1000), EVENT_DONE);
    assert_int_equal(unsubscribe(f, id, "ann", 1000), EVENT_DONE);
    assert_int_equal(event_read(f, id).subscribers, 1);

    uint64_t told = event_make(f, "sam", 1000); /* whatever the clock of the asker says */
    assert_int_equal(subscribe(f, told, "ann", 1), EVENT_DONE);
    outside(f, "UPDATE events SET told = 1");
    assert_int_equal(subscribe(f, told, "bob", 2), EVENT_OPENED);
    assert_int_equal(unsubscribe(f, told, "ann", 2), EVENT_DONE);
    assert_int_equal(event_read(f, told).subscribers, 1);
}

struct names {
    uint32_t count;
    char last[BUYER_BYTES_MAX + 1];
};

static void name_seen(void *arg, struct slice buyer)
{
    struct names *names = arg;
    names->count++;
    memcpy(names->last, buyer.data, buyer.len);
    names->last[buyer.len] = '\0';
}

static void parts_hold_every_subscriber_once(void **state)
{
    struct fixture *f = *state;
    uint64_t id = event_make(f, "sam", 1000);
    char buyer[32];
    for (int i = 0; i < EVENT_PART_MAX + 3; i++) {
        snprintf(buyer, sizeof buyer, "buyer-%d", i);
        assert_int_equal(subscribe(f, id, buyer, 1), EVENT_DONE);
    }
    assert_int_equal(unsubscribe(f, id, "buyer-7", 2), EVENT_DONE);
    static const uint32_t want[] = { EVENT_PART_MAX, 2, 0 };
    for (uint32_t part = 0; part < 3; part++) {
        struct names names = { 0, "" };
        assert_int_equal(ledger_event_part(f->ledger, id, part, name_seen, &names), FAULT_NONE);
        assert_int_equal(names.count, want[part]);
        snprintf(buyer, sizeof buyer, "buyer-%d", part == 0 ? EVENT_PART_MAX - 1 : EVENT_PART_MAX + 1);
        if (want[part] > 0) assert_string_equal(names.last, buyer);
    }
}

/* Whoever comes and goes takes no room: what a seller is told follows from who is there in the end. */
static void coming_and_going_makes_no_parts(void **state)
{
    struct fixture *f = *state;
    uint64_t id = event_make(f, "sam", 1000);
    static const char *const stay[] = { "ann", "bob", "cat" };
    for (int i = 0; i < 3; i++) assert_int_equal(subscribe(f, id, stay[i], 1), EVENT_DONE);
    for (int i = 0; i < 2 * EVENT_PART_MAX; i++) {
        assert_int_equal(subscribe(f, id, "mallory", 2), EVENT_DONE);
        assert_int_equal(unsubscribe(f, id, i % 2 ? "mallory" : "ann", 2), EVENT_DONE);
        assert_int_equal(subscribe(f, id, "ann", 2), EVENT_DONE);
        assert_int_equal(unsubscribe(f, id, "mallory", 2), EVENT_DONE);
    }
    assert_int_equal(event_read(f, id).subscribers, 3);
    struct names names = { 0, "" };
    assert_int_equal(ledger_event_part(f->ledger, id, 0, name_seen, &names), FAULT_NONE);
    assert_int_equal(names.count, 3);
    assert_int_equal(outside_number(f, "SELECT sum(place * place) FROM subscriptions"), 0 + 1 + 4);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM subscriptions WHERE buyer IN ('ann', 'bob', 'cat')"), 3);
}

static void event_seen(void *arg, const struct event *event)
{
    uint64_t *ids = arg;
    ids[++ids[0]] = event->id;
}

static void lists_are_newest_first_by_seller_and_by_page(void **state)
{
    struct fixture *f = *state;
    uint64_t mine[3], seen[8] = { 0 };
    for (int i = 0; i < 3; i++) {
        mine[i] = event_make(f, "sam", 1000);
        event_make(f, "Sam", 1000);
    }
    const struct ledger_events_query ask = { .seller = slice_of("sam"), .after = mine[2], .limit = 5 };
    assert_int_equal(ledger_events(f->ledger, &ask, event_seen, seen), FAULT_NONE);
    assert_int_equal(seen[0], 2);
    assert_int_equal(seen[1], mine[1]);
    assert_int_equal(seen[2], mine[0]);
    seen[0] = 0;
    assert_int_equal(ledger_events(f->ledger, &(struct ledger_events_query){ .limit = 4 }, event_seen, seen), FAULT_NONE);
    assert_int_equal(seen[0], 4);
    assert_int_equal(seen[2], mine[2]);
}

/* One notice for each part, the first due and the others behind it; nothing for who has no hook, or has one since later. */
static void events_that_open_are_told_once_and_in_parts(void **state)
{
    struct fixture *f = *state;
    static const char *const sellers[] = { "hooked", "late" };
    for (int i = 0; i < 2; i++) {
        const struct hook_put put = {
            .seller = slice_of(sellers[i]), .url = SLICE("http://x"), .secret = SLICE("s"), .now_ms = i == 0 ? 1 : 1001
        };
        struct hook hook;
        bool fresh;
        assert_int_equal(ledger_hook_put(f->ledger, &put, &hook, &fresh), FAULT_NONE);
    }
    uint64_t big = event_make(f, "hooked", 1000), small = event_make(f, "hooked", 1000);
    event_make(f, "hooked", 3000);
    event_make(f, "late", 1000);
    event_make(f, "unhooked", 1000);
    char sql[128];
    snprintf(sql, sizeof sql, "UPDATE events SET subscribers = %d WHERE id = %d", 2 * EVENT_PART_MAX + 1, (int)big);
    outside(f, sql);

    bool any;
    assert_int_equal(ledger_outbox_moments(f->ledger, (struct outbox_span){ 0, 999 }, &any), FAULT_NONE);
    assert_false(any);
    assert_int_equal(ledger_outbox_moments(f->ledger, (struct outbox_span){ 0, 1000 }, &any), FAULT_NONE);
    assert_true(any);
    for (uint64_t to_ms = 2000; to_ms < 2002; to_ms++)
        assert_int_equal(ledger_outbox_file_moments(f->ledger, (struct outbox_span){ to_ms - 1, to_ms }), FAULT_NONE);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM outbox"), 4);
    snprintf(sql, sizeof sql, "SELECT sum(part * 10 + (next_ms = 1000)) FROM outbox WHERE kind = 10 AND event = %d",
             (int)big);
    assert_int_equal(outside_number(f, sql), 31);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM outbox WHERE part = 0 AND next_ms = 1000 AND event = %d", (int)small);
    assert_int_equal(outside_number(f, sql), 1);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM events WHERE told = 0"), 1);
}

static uint64_t goods_find(struct fixture *f, uint64_t event_id, const char *event, const char *name)
{
    const struct ledger_goods goods = { event_id, slice_of(event), slice_of(name), 500 };
    uint64_t sale_id = 0;
    bool found;
    assert_int_equal(ledger_goods(f->ledger, &goods, &sale_id, &found), FAULT_NONE);
    assert_int_equal(found, sale_id != 0);
    return sale_id;
}

/* All three events are called Spring. */
static void goods_are_found_within_their_event(void **state)
{
    struct fixture *f = *state;
    uint64_t old = event_make(f, "sam", 1000), empty = event_make(f, "tom", 1000), now = event_make(f, "tom", 1000);
    struct sale_terms terms = terms_named("phone");
    terms.event_id = old;
    terms.opens_ms = 10;
    terms.closes_ms = 400; /* before the time of asking */
    uint64_t over = sale_file(f, "sam", &terms, 1);
    assert_int_equal(goods_find(f, 0, "Spring", "phone"), over);
    terms.event_id = now;
    terms.closes_ms = 0;
    uint64_t running = sale_file(f, "tom", &terms, 1);
    assert_int_equal(goods_find(f, 0, "Spring", "phone"), running);
    assert_int_equal(goods_find(f, old, "", "phone"), over);
    assert_int_equal(goods_find(f, now, "", "phone"), running);
    assert_int_equal(goods_find(f, empty, "", "phone"), 0);
    assert_int_equal(goods_find(f, now, "", "Phone"), 0);
    assert_int_equal(goods_find(f, 0, "spring", "phone"), 0);
    assert_int_equal(goods_find(f, 0, "Spring' OR 'a'='a", "phone"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_event_is_kept_as_it_was_made, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_change_is_its_sellers_and_moves_only_what_has_not_opened, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(subscribing_and_leaving_count_each_once, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(an_event_that_has_opened_keeps_its_subscribers, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(parts_hold_every_subscriber_once, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(coming_and_going_makes_no_parts, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(events_that_open_are_told_once_and_in_parts, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(goods_are_found_within_their_event, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(lists_are_newest_first_by_seller_and_by_page, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
