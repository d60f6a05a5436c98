#include "gate/keeper/lease.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "gate/keeper/inside.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEASE_LOOK_MS 200
#define LEASE_AGAIN_MS 1000
/* Numbers end so long before the lease does. Who has it next begins at Redis's time as it knows it, which is late by the way
 * of an answer, and a rush of numbers runs ahead of the time. */
#define LEASE_MARGIN_MS 2000
/* A start waits so long for Redis: one that was reached a moment ago may be giving way to its replica. */
#define START_MS_MAX 10000

static bool lease_ask(struct lease *lease, struct keeper *keeper, struct owned_answer *answer)
{
    lease->asked_ms = mono_ms();
    lease->renew_ms = lease->asked_ms + LEASE_MS / 3;
    return owned_take(&lease->owned, keeper, LEASE_MS, answer);
}

static void lease_pause(struct keeper *keeper)
{
    nanosleep(&(struct timespec){ .tv_nsec = LEASE_LOOK_MS * 1000000L }, NULL);
    uv_run(&keeper->loop, UV_RUN_NOWAIT); /* which learns what has become of masters */
}

/* Of the same owner: what was not answered may have been done. */
static bool lease_ask_until(struct lease *lease, struct keeper *keeper, uint64_t until_ms, struct owned_answer *answer)
{
    while (!lease_ask(lease, keeper, answer)) {
        if (mono_ms() >= until_ms) return false;
        lease_pause(keeper);
    }
    return true;
}

static void lease_name(struct lease *lease, const struct keeper *keeper, uint32_t number)
{
    lease->number = number;
    char host[65] = "", who[OWNED_OWNER_BYTES / 2 + 24];
    snprintf(lease->owned.key, sizeof lease->owned.key, "%snode:%u", keeper->remote->options.prefix, number);
    if (lease->owned.owner[0] != '\0') return;
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    snprintf(who, sizeof who, "process %ld on %s,", (long)getpid(), host);
    owned_sign(&lease->owned, who);
}

static uint64_t lease_until_ms(const struct lease *lease)
{
    return lease->asked_ms + LEASE_MS - LEASE_MARGIN_MS;
}

/* Another may have had the number before, up to a moment ago: nothing is given below the time that it is now, which a node
 * that has slept must ask for first. */
static enum fault lease_begin(struct lease *lease, struct keeper *keeper)
{
    struct numbers *numbers = &keeper->remote->numbers;
    lease->held = true;
    enum fault fault = keeper_clock(keeper);
    if (fault != FAULT_NONE) return fault;
    bool other = numbers_node(numbers) != lease->number;
    numbers_lease(numbers, lease->number, remote_now_ms(&keeper->remote->gate), lease_until_ms(lease));
    if (lease->chosen && other) log_info("keeper", "this is node %u", lease->number);
    if (!other) log_info("keeper", "the number %u is this node's again: orders are made here", lease->number);
    lease->lapsed = lease->lost = false;
    return FAULT_NONE;
}

static bool lease_reaches(const struct lease *lease, const struct keeper *keeper)
{
    return redis_client_reaches(keeper->client, slice_of(lease->owned.key));
}

/* Begins at a random one, so that nodes that start together seldom ask for the same. Only a start waits for those whose
 * Redis is away: of a Cluster another master may have a number for us. */
static enum fault lease_choose(struct lease *lease, struct keeper *keeper, uint64_t until_ms)
{
    uint32_t first;
    struct owned_answer answer;
    bool away = false;
    random_bytes(&first, sizeof first);
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        lease_name(lease, keeper, 1 + (first % NODES_MAX + i) % NODES_MAX);
        if (until_ms == 0 && !lease_reaches(lease, keeper)) {
            away = true;
            continue;
        }
        if (!lease_ask_until(lease, keeper, until_ms, &answer)) return FAULT_TIMEOUT;
        if (answer.ours) return lease_begin(lease, keeper);
    }
    if (away) return FAULT_TIMEOUT;
    log_error("keeper", "all %d numbers of nodes are in use", NODES_MAX);
    return FAULT_IN_USE;
}

/* A lease that has more time left than a moment ago was renewed: its owner lives. One that was left behind, by this node
 * before it crashed, ends by itself. */
static enum fault lease_insist(struct lease *lease, struct keeper *keeper, uint32_t number, uint64_t until_ms)
{
    struct owned_answer answer;
    uint64_t left_ms = UINT64_MAX, ends_ms = mono_ms() + 2 * (uint64_t)LEASE_MS;
    lease_name(lease, keeper, number);
    for (bool said = false;; said = true) {
        if (!lease_ask_until(lease, keeper, until_ms, &answer)) return FAULT_TIMEOUT;
        if (answer.ours) return lease_begin(lease, keeper);
        if (answer.left_ms > left_ms || mono_ms() > ends_ms) break;
        if (!said) log_info("keeper", "number %u was another's (%s); waiting whether it still is", number, answer.owner);
        left_ms = answer.left_ms;
        lease_pause(keeper);
    }
    log_error("keeper", "refusing to start: another node has the number %u (%s); give each its own, or node = 0", number,
              answer.owner);
    return FAULT_IN_USE;
}

enum fault lease_take(struct lease *lease, struct keeper *keeper, uint32_t number)
{
    memset(lease, 0, sizeof *lease);
    lease->chosen = number == 0;
    uint64_t until_ms = mono_ms() + START_MS_MAX;
    enum fault fault = lease->chosen ? lease_choose(lease, keeper, until_ms) : lease_insist(lease, keeper, number, until_ms);
    if (fault == FAULT_TIMEOUT)
        log_error("keeper",
                  "refusing to start: Redis did not say whether the number of this node is free; check that all of its "
                  "masters are well, and start again");
    return fault;
}

static void lease_lapse(struct lease *lease)
{
    if (!lease->lapsed && !lease->lost)
        log_warn("keeper", "the number %u of this node was not renewed in time: no orders are made here until it is",
                 lease->number);
    lease->lapsed = true;
}

/* The old one is asked for again where there is none. */
static void lease_change(struct lease *lease, struct keeper *keeper)
{
    if (lease_choose(lease, keeper, 0) == FAULT_NONE) return;
    lease_name(lease, keeper, numbers_node(&keeper->remote->numbers));
    lease->renew_ms = mono_ms() + LEASE_LOOK_MS;
}

/* A node with a number of its own stays, for it has orders to file and may get the number back; it is not ready meanwhile.
 */
static void lease_lose(struct lease *lease, struct keeper *keeper, const char *owner)
{
    numbers_extend(&keeper->remote->numbers, 0);
    if (!lease->lost)
        log_error("keeper", "the number %u of this node has been taken by another (%s): %s", lease->number, owner,
                  lease->chosen ? "takes one that is free"
                                : "no orders are made here until it is free; give each node its own, or node = 0");
    lease->lost = true;
    lease->renew_ms = mono_ms() + LEASE_AGAIN_MS;
    if (lease->chosen) lease_change(lease, keeper);
}

/* One that may have ended has to begin anew: another may have had it, and be gone. That is judged after the answer, for this
 * node may have slept since it asked. */
static void lease_renew(struct lease *lease, struct keeper *keeper)
{
    struct numbers *numbers = &keeper->remote->numbers;
    struct owned_answer answer;
    bool answered = lease_ask(lease, keeper, &answer), lasts = numbers_are_given(numbers, mono_ms());
    if (!answered) {
        lease->renew_ms = mono_ms() + (lasts ? LEASE_AGAIN_MS : LEASE_LOOK_MS);
    } else if (!answer.ours) {
        lease_lose(lease, keeper, answer.owner);
    } else if (lasts) {
        numbers_extend(numbers, lease_until_ms(lease));
    } else if (lease_begin(lease, keeper) != FAULT_NONE) {
        lease->renew_ms = mono_ms() + LEASE_LOOK_MS;
    }
}

/* While no numbers are given it is asked for as soon as Redis is there. */
void lease_keep(struct lease *lease, struct keeper *keeper)
{
    uint64_t now_ms = mono_ms();
    if (!lease->held || now_ms < lease->renew_ms) return;
    bool lasts = numbers_are_given(&keeper->remote->numbers, now_ms);
    if (!lasts) lease_lapse(lease);
    if (lasts || lease_reaches(lease, keeper)) {
        lease_renew(lease, keeper);
    } else if (lease->chosen) {
        lease_change(lease, keeper);
    }
}

void lease_release(struct lease *lease, struct keeper *keeper)
{
    if (!lease->held) return;
    lease->held = false;
    if (!owned_release(&lease->owned, keeper)) log_debug("keeper", "the node's number becomes free by itself");
}
