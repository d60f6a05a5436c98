#include "gate/keeper/roster.h"

#include "base/clock.h"
#include "gate/keeper/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of each node report.lua says number, age and report. */
enum { ROW = 3 };

void roster_init(struct roster *roster)
{
    *roster = (struct roster){ .nodes = NULL };
    pthread_mutex_init(&roster->lock, NULL);
}

void roster_deinit(struct roster *roster)
{
    pthread_mutex_destroy(&roster->lock);
    free(roster->nodes);
}

void roster_say(struct roster *roster, struct slice report)
{
    pthread_mutex_lock(&roster->lock);
    snprintf(roster->report, sizeof roster->report, "%.*s", (int)report.len, report.data);
    pthread_mutex_unlock(&roster->lock);
}

void roster_each(struct roster *roster, void (*look)(const struct gate_node *node, void *arg), void *arg)
{
    pthread_mutex_lock(&roster->lock);
    uint64_t older_ms = mono_ms() - roster->seen_ms;
    for (uint32_t i = 0; i < roster->count; i++) {
        struct gate_node node = roster->nodes[i];
        node.age_ms += older_ms;
        if (node.report[0] != '\0') look(&node, arg); /* else nobody has begun to speak for it */
    }
    pthread_mutex_unlock(&roster->lock);
}

/* Under the lock. False: no memory, and nothing has changed. */
static bool roster_room(struct roster *roster, uint32_t count)
{
    if (count <= roster->room) return true;
    struct gate_node *more = realloc(roster->nodes, count * sizeof *more);
    if (more == NULL) return false;
    roster->nodes = more;
    roster->room = count;
    return true;
}

struct listening {
    struct keeper *keeper;
    uint32_t here;
};

static void roster_read(void *arg, const struct redis_reply *reply)
{
    struct listening *listening = arg;
    struct roster *roster = &listening->keeper->roster;
    uint32_t count = (uint32_t)(reply->count / ROW), alive = 0;
    pthread_mutex_lock(&roster->lock);
    if (reply->type == REDIS_LIST && count <= NODES_MAX && roster_room(roster, count)) {
        for (uint32_t i = 0; i < count; i++) {
            struct gate_node *node = &roster->nodes[i];
            struct slice report = reply_text(reply, i * ROW + 2);
            node->number = (uint32_t)reply_number(reply, i * ROW);
            node->age_ms = reply_number(reply, i * ROW + 1);
            node->here = node->number == listening->here;
            alive += node->age_ms < ROSTER_ALIVE_MS;
            snprintf(node->report, sizeof node->report, "%.*s", (int)report.len, report.data);
        }
        roster->count = count;
        roster->seen_ms = mono_ms();
    }
    pthread_mutex_unlock(&roster->lock);
    if (alive > 0) atomic_store(&listening->keeper->remote->nodes, alive);
}

static void roster_key(const struct keeper *keeper, char out[OWNED_KEY_BYTES])
{
    snprintf(out, OWNED_KEY_BYTES, "%snodes", keeper->remote->options.prefix);
}

void roster_keep(struct keeper *keeper)
{
    struct roster *roster = &keeper->roster;
    uint32_t number = numbers_node(&keeper->remote->numbers);
    char key[OWNED_KEY_BYTES], field[16], forget[24], report[GATE_REPORT_BYTES + 1];
    if (!keeper->lease.held || keeper->lease.lost || mono_ms() < roster->due_ms) return;
    roster->due_ms = mono_ms() + ROSTER_MS;
    pthread_mutex_lock(&roster->lock);
    memcpy(report, roster->report, sizeof report);
    pthread_mutex_unlock(&roster->lock);
    roster_key(keeper, key);
    snprintf(field, sizeof field, "%u", number);
    snprintf(forget, sizeof forget, "%d", ROSTER_FORGET_MS);
    const struct slice argv[] = { slice_of(key), slice_of(field), slice_of(report), slice_of(forget) };
    struct listening listening = { keeper, number };
    keeper_node_script(keeper, GATE_SCRIPT_REPORT, &(struct command_ask){ argv, 4, argv[0], roster_read, &listening });
}

void roster_leave(struct keeper *keeper)
{
    char key[OWNED_KEY_BYTES], field[16];
    if (!keeper->lease.held || keeper->lease.lost) return;
    roster_key(keeper, key);
    snprintf(field, sizeof field, "%u", numbers_node(&keeper->remote->numbers));
    const struct slice argv[] = { SLICE("HDEL"), slice_of(key), slice_of(field) };
    keeper_command(keeper, &(struct command_ask){ argv, 3, argv[1], NULL, NULL });
}
