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
/* A start waits so long for Redis: one that was reached a moment ago may be giving way to its replica. */
#define START_MS_MAX 10000

static bool lease_ask(struct lease *lease, struct keeper *keeper, struct owned_answer *answer)
{
    lease->renew_ms = mono_ms() + LEASE_MS / 3;
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
    char host[65] = "", who[OWNED_OWNER_BYTES / 2 + 24];
    snprintf(lease->owned.key, sizeof lease->owned.key, "%snode:%u", keeper->remote->options.prefix, number);
    if (lease->owned.owner[0] != '\0') return;
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    snprintf(who, sizeof who, "process %ld on %s,", (long)getpid(), host);
    owned_sign(&lease->owned, who);
}

static void lease_begin(struct lease *lease, struct keeper *keeper, uint32_t number)
{
    struct numbers *numbers = &keeper->remote->numbers;
    lease->held = true;
    if (numbers_node(numbers) == 0) {
        numbers_init(numbers, number, remote_now_ms(&keeper->remote->gate));
    } else {
        numbers_rename(numbers, number);
    }
    if (lease->chosen) log_info("keeper", "this is node %u", number);
}

/* Begins at a random one, so that nodes that start together seldom ask for the same. */
static enum fault lease_choose(struct lease *lease, struct keeper *keeper, uint64_t until_ms)
{
    uint32_t first;
    struct owned_answer answer;
    random_bytes(&first, sizeof first);
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        uint32_t number = 1 + (first % NODES_MAX + i) % NODES_MAX;
        lease_name(lease, keeper, number);
        if (!lease_ask_until(lease, keeper, until_ms, &answer)) return FAULT_TIMEOUT;
        if (!answer.ours) continue;
        lease_begin(lease, keeper, number);
        return FAULT_NONE;
    }
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
        if (answer.ours) {
            lease_begin(lease, keeper, number);
            return FAULT_NONE;
        }
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

void lease_keep(struct lease *lease, struct keeper *keeper)
{
    struct owned_answer answer;
    if (!lease->held || mono_ms() < lease->renew_ms) return;
    if (!lease_ask(lease, keeper, &answer)) {
        lease->renew_ms = mono_ms() + 1000;
        return;
    }
    if (answer.ours) return;
    log_error("keeper", "number %u of this node has been taken by another (%s)", numbers_node(&keeper->remote->numbers),
              answer.owner);
    if (lease->chosen && lease_choose(lease, keeper, 0) != FAULT_NONE) lease->renew_ms = mono_ms() + 1000;
}

void lease_release(struct lease *lease, struct keeper *keeper)
{
    if (!lease->held) return;
    lease->held = false;
    if (!owned_release(&lease->owned, keeper)) log_debug("keeper", "the node's number becomes free by itself");
}
