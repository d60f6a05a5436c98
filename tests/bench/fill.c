/* fill: makes data folders of a known size, and times the clerk.
 *
 *   fill orders DATA COUNT    a sale with COUNT orders of as many buyers, all in the journal, nothing filed; prints
 *                             the id of the sale and the seconds it took
 *   fill file DATA            has the clerk file everything the journal holds; prints decisions and seconds
 *
 * Everything goes through the gate, as in the server, so that what is timed afterwards is what a server would have left. */
#include "base/clock.h"
#include "base/text.h"
#include "clerk/clerk.h"
#include "gate/gate.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TICKETS 8192
#define SEGMENT_BYTES (64u << 20)
#define FILE_WAIT_MS 600000
#define NAME_BYTES 16
#define WAKE_WAIT_MS 10

struct place {
    struct ledger *ledger;
    struct gate *gate;
    struct gate_lane *lane;
    int wake_fd;
};

struct buyer {
    struct gate_ticket ticket; /* first: done() gets back to its buyer by a cast */
    char name[NAME_BYTES + 1];
    bool again; /* answered BUSY: the same buyer is to ask again */
};

static struct buyer buyers[TICKETS];
static struct buyer *idle[TICKETS];
static uint32_t idle_count;
static uint64_t won_count;

static void on_poison(void *arg)
{
    (void)arg;
    fprintf(stderr, "fill: the disk failed\n");
    _exit(1);
}

static void on_wake(void *arg)
{
    struct place *place = arg;
    uint64_t one = 1;
    ssize_t written = write(place->wake_fd, &one, sizeof one);
    assert(written == (ssize_t)sizeof one);
}

static void place_open(struct place *place, const char *data, uint32_t orders_max)
{
    char path[512];
    struct journal_damage damage;

    snprintf(path, sizeof path, "%s/ledger.db", data);
    struct gate_options options = {
        .folder = data, .segment_bytes = SEGMENT_BYTES, .orders_max = orders_max, .on_poison = on_poison
    };
    place->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (place->wake_fd < 0 || ledger_open(&place->ledger, LEDGER_FILE(path), LEDGER_OWNER) != FAULT_NONE ||
        gate_open(&place->gate, &options, place->ledger, &damage) != FAULT_NONE || gate_start(place->gate) != FAULT_NONE ||
        gate_lane_open(&place->lane, place->gate, on_wake, place) != FAULT_NONE) {
        fprintf(stderr, "fill: cannot open %s\n", data);
        exit(1);
    }
}

static void place_close(struct place *place)
{
    gate_lane_close(place->lane);
    gate_close(place->gate);
    ledger_close(place->ledger);
    close(place->wake_fd);
}

/* Until the committer has something for the lane, or a moment has passed. */
static void place_wait(struct place *place)
{
    struct pollfd pollfd = { .fd = place->wake_fd, .events = POLLIN };
    uint64_t count;

    (void)poll(&pollfd, 1, WAKE_WAIT_MS);
    ssize_t got = read(place->wake_fd, &count, sizeof count);
    (void)got; /* nothing there is as good: the lane looks for itself */
    gate_lane_rise(place->lane);
    gate_lane_rest(place->lane);
}

static void grab_done(struct gate_ticket *ticket)
{
    struct buyer *buyer = (struct buyer *)ticket;

    buyer->again = ticket->verdict == VERDICT_BUSY;
    if (!buyer->again) {
        assert(ticket->verdict == VERDICT_WON);
        won_count++;
    }
    idle[idle_count++] = buyer;
}

static bool created;

static void create_done(struct gate_ticket *ticket)
{
    assert(ticket->verdict == VERDICT_DONE);
    created = true;
}

static uint64_t sale_create(struct place *place)
{
    static struct gate_ticket ticket = { .done = create_done };
    static struct sale_terms terms = {
        .name = "filled", .price = -1, .units_per_grab_max = 1, .grabs_per_buyer_max = 1, .admission = ADMISSION_LOGIN
    };

    terms.opens_ms = gate_now_ms(place->gate);
    gate_create(place->lane, &(struct asker){ .name = SLICE("seller") }, &terms, STOCK_MAX, &ticket);
    gate_lane_rest(place->lane);
    while (!created) place_wait(place);
    return ticket.sale.id;
}

/* Has idle buyers grab until none is idle, all have asked, or the gate is busy. */
static void buyers_ask(struct place *place, uint64_t sale_id, uint64_t *asked_count, uint32_t count)
{
    while (idle_count > 0) {
        struct buyer *buyer = idle[idle_count - 1];
        if (!buyer->again) {
            if (*asked_count == count) return;
            snprintf(buyer->name, sizeof buyer->name, "filled%010" PRIu64, (*asked_count)++);
        }
        idle_count--;
        struct grab grab = { .sale_id = sale_id, .buyer = { buyer->name, NAME_BYTES }, .units = 1 };
        buyer->again = false;
        gate_grab(place->lane, &grab, &buyer->ticket);
        if (buyer->again) return;
    }
}

static int fill_orders(const char *data, uint32_t count)
{
    struct place place;
    uint64_t asked_count = 0;

    place_open(&place, data, count + 1000);
    for (uint32_t i = 0; i < TICKETS; i++) {
        buyers[i].ticket.done = grab_done;
        idle[idle_count++] = &buyers[i];
    }
    uint64_t sale_id = sale_create(&place);
    uint64_t start_ns = mono_ns();
    while (won_count < count) {
        buyers_ask(&place, sale_id, &asked_count, count);
        gate_lane_rest(place.lane);
        if (idle_count < TICKETS) place_wait(&place);
    }
    printf("%" PRIu64 "\t%.3f\n", sale_id, (double)(mono_ns() - start_ns) / 1e9);
    place_close(&place);
    return 0;
}

static int fill_file(const char *data)
{
    struct place place;
    struct clerk *clerk;
    char ledger_path[512], journal_folder[512];
    struct gate_status status;
    struct ledger_point point;

    place_open(&place, data, ORDERS_OPEN_MAX);
    snprintf(ledger_path, sizeof ledger_path, "%s/ledger.db", data);
    snprintf(journal_folder, sizeof journal_folder, "%s/journal", data);
    if (ledger_point(place.ledger, &point) != FAULT_NONE) return 1;
    gate_status(place.gate, &status);

    uint64_t start_ns = mono_ns();
    struct clerk_options options = { .ledger = LEDGER_FILE(ledger_path), .journal_folder = journal_folder, .pause_ms = 0 };
    if (clerk_open(&clerk, &options, place.gate) != FAULT_NONE) return 1;
    if (clerk_wait(clerk, status.seq_durable, FILE_WAIT_MS) != FAULT_NONE) {
        fprintf(stderr, "fill: the clerk did not finish in %d s\n", FILE_WAIT_MS / 1000);
        return 1;
    }
    printf("%" PRIu64 "\t%.3f\n", status.seq_durable - point.seq, (double)(mono_ns() - start_ns) / 1e9);
    clerk_close(clerk, 1000);
    place_close(&place);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t count;

    if (argc == 4 && slice_is(slice_of(argv[1]), "orders") && text_to_u64(slice_of(argv[3]), &count) && count > 0 &&
        count <= ORDERS_OPEN_MAX / 2)
        return fill_orders(argv[2], (uint32_t)count);
    if (argc == 3 && slice_is(slice_of(argv[1]), "file")) return fill_file(argv[2]);
    fprintf(stderr, "usage: fill orders DATA COUNT | fill file DATA\n");
    return 2;
}
