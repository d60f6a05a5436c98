#include "gate/lease.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "gate/keeper_jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEASE_LOOK_MS 200

/* 1: ours, until its end; else the owner and how long it still has. Taken where nobody has it, renewed where we have. */
static const char take_text[] = "local owner = redis.call('GET', KEYS[1]) "
                                "if owner and owner ~= ARGV[1] then return { owner, redis.call('PTTL', KEYS[1]) } end "
                                "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
static const char release_text[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

struct answer {
    bool ours;
    char owner[LEASE_OWNER_BYTES];
    uint64_t left_ms;
};

static void answer_read(void *arg, const struct redis_reply *reply)
{
    struct answer *answer = arg;
    struct slice owner = reply_text(reply, 0);
    answer->ours = reply->type == REDIS_NUMBER && reply->number == 1;
    snprintf(answer->owner, sizeof answer->owner, "%.*s", (int)owner.len, owner.data);
    answer->left_ms = reply_number(reply, 1);
}

static bool lease_ask(struct lease *lease, struct keeper *keeper, const char *text, struct answer *answer)
{
    char ttl[24];
    snprintf(ttl, sizeof ttl, "%d", LEASE_MS);
    const struct slice argv[] = { SLICE("EVAL"),        slice_of(text),         SLICE("1"),
                                  slice_of(lease->key), slice_of(lease->owner), slice_of(ttl) };
    struct command_ask ask = { .argv = argv, .argc = 6, .key = argv[3], .read = answer_read, .arg = answer };
    *answer = (struct answer){ .ours = false };
    lease->renew_ms = mono_ms() + LEASE_MS / 3;
    return keeper_command(keeper, &ask);
}

static void lease_name(struct lease *lease, const struct keeper *keeper, uint32_t number)
{
    uint8_t bytes[8];
    char hex[2 * sizeof bytes + 1] = "", host[65] = "";
    random_bytes(bytes, sizeof bytes);
    hex_encode(hex, bytes, sizeof bytes);
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    snprintf(lease->key, sizeof lease->key, "%snode:%u", keeper->remote->options.prefix, number);
    if (lease->owner[0] == '\0')
        snprintf(lease->owner, sizeof lease->owner, "process %ld on %s, %s", (long)getpid(), host, hex);
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

static enum fault lease_silent(void)
{
    log_error("keeper", "refusing to start: Redis did not say whether the number of this node is free");
    return FAULT_TIMEOUT;
}

/* Begins at a random one, so that nodes that start together seldom ask for the same. */
static enum fault lease_choose(struct lease *lease, struct keeper *keeper)
{
    uint32_t first;
    struct answer answer;
    random_bytes(&first, sizeof first);
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        uint32_t number = 1 + (first % NODES_MAX + i) % NODES_MAX;
        lease_name(lease, keeper, number);
        if (!lease_ask(lease, keeper, take_text, &answer)) return lease_silent();
        if (!answer.ours) continue;
        lease_begin(lease, keeper, number);
        return FAULT_NONE;
    }
    log_error("keeper", "all %d numbers of nodes are in use", NODES_MAX);
    return FAULT_IN_USE;
}

/* A lease that has more time left than a moment ago was renewed: its owner lives. One that was left behind, by this node
 * before it crashed, ends by itself. */
static enum fault lease_insist(struct lease *lease, struct keeper *keeper, uint32_t number)
{
    struct answer answer;
    uint64_t left_ms = UINT64_MAX, until_ms = mono_ms() + 2 * (uint64_t)LEASE_MS;
    lease_name(lease, keeper, number);
    for (bool said = false;; said = true) {
        if (!lease_ask(lease, keeper, take_text, &answer)) return lease_silent();
        if (answer.ours) {
            lease_begin(lease, keeper, number);
            return FAULT_NONE;
        }
        if (answer.left_ms > left_ms || mono_ms() > until_ms) break;
        if (!said) log_info("keeper", "number %u was another's (%s); waiting whether it still is", number, answer.owner);
        left_ms = answer.left_ms;
        nanosleep(&(struct timespec){ .tv_nsec = LEASE_LOOK_MS * 1000000L }, NULL);
    }
    log_error("keeper", "refusing to start: another node has the number %u (%s); give each its own, or node = 0", number,
              answer.owner);
    return FAULT_IN_USE;
}

enum fault lease_take(struct lease *lease, struct keeper *keeper, uint32_t number)
{
    memset(lease, 0, sizeof *lease);
    lease->chosen = number == 0;
    return lease->chosen ? lease_choose(lease, keeper) : lease_insist(lease, keeper, number);
}

void lease_keep(struct lease *lease, struct keeper *keeper)
{
    struct answer answer;
    if (!lease->held || mono_ms() < lease->renew_ms) return;
    if (!lease_ask(lease, keeper, take_text, &answer)) {
        lease->renew_ms = mono_ms() + 1000;
        return;
    }
    if (answer.ours) return;
    log_error("keeper", "number %u of this node has been taken by another (%s)", numbers_node(&keeper->remote->numbers),
              answer.owner);
    if (lease->chosen && lease_choose(lease, keeper) != FAULT_NONE) lease->renew_ms = mono_ms() + 1000;
}

void lease_release(struct lease *lease, struct keeper *keeper)
{
    struct answer answer;
    if (!lease->held) return;
    lease->held = false;
    if (!lease_ask(lease, keeper, release_text, &answer)) log_debug("keeper", "the node's number becomes free by itself");
}
