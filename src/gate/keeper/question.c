/* What the keeper asks, and waits for. */
#include "base/log.h"
#include "gate/keeper/inside.h"

#include <inttypes.h>
#include <stdio.h>

#define REDIS_MS 2000
#define REDIS_SILENT_MS 200 /* of one that was silent or away: only to see whether it is so still */

struct question {
    struct redis_call call; /* first */
    void (*read)(void *arg, const struct redis_reply *reply);
    void *arg;
};

static void question_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct question *question = (struct question *)call;
    if (call->result == REDIS_ANSWERED && question->read != NULL) question->read(question->arg, reply);
    if (call->result == REDIS_FAILED) /* what was refused the client has said */
        log_error("keeper", "Redis answered: %.*s", (int)reply->text.len, reply->text.data);
}

void keeper_heard(struct keeper *keeper, const struct heard *heard)
{
    bool all = heard->answered == heard->asked;
    keeper->redis_silent = heard->sent > 0 && heard->answered == 0;
    if (!all && !keeper->redis_failed) {
        log_warn("keeper", "Redis does not answer");
        keeper->redis_failed = true;
    } else if (all && keeper->redis_failed && redis_client_ready(keeper->client)) {
        log_info("keeper", "Redis answers again");
        keeper->redis_failed = false;
        keeper->strangers.met = false; /* it may have been put back to an earlier day */
    }
}

static bool question_ask(struct keeper *keeper, struct question *question)
{
    struct redis_call *call = &question->call;
    bool sent = redis_client_reaches(keeper->client, call->key);
    call->time_ms = sent && !keeper->redis_silent ? REDIS_MS : REDIS_SILENT_MS;
    call->done = question_answered;
    redis_call_wait(keeper->client, call);
    keeper_heard(keeper, &(struct heard){ 1, sent, redis_spoke(call->result) });
    return call->result == REDIS_ANSWERED;
}

bool keeper_command(struct keeper *keeper, const struct command_ask *ask)
{
    struct question question = { .read = ask->read, .arg = ask->arg };
    question.call.key = ask->key;
    question.call.script = REDIS_NO_SCRIPT;
    question.call.argc = ask->argc;
    question.call.argv = ask->argv;
    return question_ask(keeper, &question);
}

bool keeper_node_script(struct keeper *keeper, enum gate_script_name script, const struct command_ask *ask)
{
    struct question question = { .read = ask->read, .arg = ask->arg };
    question.call.key = ask->key;
    question.call.script = (int)script;
    question.call.keys = 1;
    question.call.argc = ask->argc;
    question.call.argv = ask->argv;
    return question_ask(keeper, &question);
}

bool keeper_master(struct keeper *keeper, struct slice key, char lineage[REDIS_LINEAGE_BYTES_MAX + 1])
{
    const struct slice argv[] = { SLICE("PING") };
    struct question question = { .call = { .key = key, .script = REDIS_NO_SCRIPT, .argc = 1, .argv = argv, .fresh = true } };
    if (!question_ask(keeper, &question)) return false;
    snprintf(lineage, REDIS_LINEAGE_BYTES_MAX + 1, "%s", question.call.lineage);
    return true;
}

bool sale_is_away(struct keeper *keeper, uint64_t sale_id)
{
    sale_keys(keeper->remote, sale_id, keeper->keys);
    return !redis_client_reaches(keeper->client, slice_of(keeper->keys[0]));
}

static void time_read(void *arg, const struct redis_reply *reply)
{
    remote_saw_time(arg, reply_number(reply, 0) * 1000 + reply_number(reply, 1) / 1000);
}

enum fault keeper_clock(struct keeper *keeper)
{
    const struct slice argv[] = { SLICE("TIME") };
    struct command_ask ask = { .argv = argv, .argc = 1, .read = time_read, .arg = keeper->remote };
    if (keeper_command(keeper, &ask)) return FAULT_NONE;
    log_error("keeper", "Redis did not say what time it is");
    return FAULT_TIMEOUT;
}

bool keeper_script(struct keeper *keeper, const struct script_ask *ask)
{
    struct question question = { .read = ask->read, .arg = ask->arg };
    const struct script_words words = { &question.call, keeper->keys, keeper->argv };
    keeper->epoch[0] = '\0';
    if (ask->epoch != 0) snprintf(keeper->epoch, sizeof keeper->epoch, "%" PRIu64, ask->epoch);
    keeper->argv[GATE_KEYS] = slice_of(keeper->epoch);
    for (uint32_t i = 0; i < ask->argc; i++) keeper->argv[GATE_KEYS + 1 + i] = ask->argv[i];
    script_call(keeper->remote, ask->sale_id, ask->script, ask->argc, &words);
    return question_ask(keeper, &question);
}

bool keeper_row(struct keeper *keeper, uint64_t sale_id, struct ledger_shelved *row, bool *found)
{
    struct ledger *ledger = keeper_ledger(keeper);
    if (ledger == NULL) return false;
    enum fault fault = ledger_shelved(ledger, sale_id, row, found);
    if (fault != FAULT_NONE) keeper_ledger_failed(keeper, fault);
    return fault == FAULT_NONE;
}
