#include "redis/facts.h"

#include "base/text.h"

#include <stdio.h>

#define VERSION_MAJOR_MIN 6
#define VERSION_MINOR_MIN 2

/* The value of a line "name:value"; empty if there is none. */
static struct slice line_of(struct slice info, const char *name)
{
    size_t name_len = strlen(name);
    while (info.len > 0) {
        const char *end = memchr(info.data, '\n', info.len);
        size_t len = end != NULL ? (size_t)(end - info.data) : info.len;
        if (len > name_len && memcmp(info.data, name, name_len) == 0 && info.data[name_len] == ':') {
            return text_trim((struct slice){ info.data + name_len + 1, len - name_len - 1 });
        }
        size_t step = end != NULL ? len + 1 : len;
        info = (struct slice){ info.data + step, info.len - step };
    }
    return (struct slice){ NULL, 0 };
}

static void line_copy(char *out, size_t size, struct slice info, const char *name)
{
    struct slice value = line_of(info, name);
    if (value.len >= size) value.len = 0;
    if (value.len > 0) memcpy(out, value.data, value.len);
    out[value.len] = '\0';
}

bool facts_read(struct facts *out, struct slice info)
{
    *out = (struct facts){ 0 };
    line_copy(out->run_id, sizeof(out->run_id), info, "run_id");
    line_copy(out->version, sizeof(out->version), info, "redis_version");
    line_copy(out->mode, sizeof(out->mode), info, "redis_mode");
    /* Valkey's name for it. It goes on saying a redis_version, that of the Redis it can stand in for. */
    if (out->mode[0] == '\0') line_copy(out->mode, sizeof(out->mode), info, "server_mode");
    line_copy(out->policy, sizeof(out->policy), info, "maxmemory_policy");
    line_copy(out->master_host, sizeof(out->master_host), info, "master_host");
    line_copy(out->master_port, sizeof(out->master_port), info, "master_port");
    line_copy(out->replid, sizeof(out->replid), info, "master_replid");
    snprintf(out->lineage, sizeof(out->lineage), "%s%s%s", out->run_id, out->replid[0] != '\0' ? "-" : "", out->replid);
    out->is_master = slice_is(line_of(info, "role"), "master");
    out->loading = slice_is(line_of(info, "loading"), "1");
    return strlen(out->run_id) == REDIS_RUN_ID_BYTES && out->version[0] != '\0' && out->mode[0] != '\0';
}

/* A replica has the lineage of its master, and nobody asks it for anything. */
enum facts_change facts_changed(const struct facts *facts, struct slice info)
{
    struct slice role = line_of(info, "role"), replid = line_of(info, "master_replid");
    if (role.len > 0 && slice_is(role, "master") != facts->is_master) return FACTS_OTHER_ROLE;
    bool same = replid.len == 0 || slice_is(replid, facts->replid);
    return same || !facts->is_master ? FACTS_SAME : FACTS_OTHER_LINEAGE;
}

static bool version_known(const char *version)
{
    uint64_t major = 0, minor = 0;
    const char *dot = strchr(version, '.');
    if (dot == NULL || !text_to_u64((struct slice){ version, (size_t)(dot - version) }, &major)) return false;
    const char *end = strchr(dot + 1, '.');
    size_t len = end != NULL ? (size_t)(end - dot - 1) : strlen(dot + 1);
    if (!text_to_u64((struct slice){ dot + 1, len }, &minor)) return false;
    return major > VERSION_MAJOR_MIN || (major == VERSION_MAJOR_MIN && minor >= VERSION_MINOR_MIN);
}

static enum facts_verdict judge_data(const struct facts_question *question, const char *at, char *sentence)
{
    const struct facts *facts = question->facts;
    if (strcmp(facts->mode, "sentinel") == 0) {
        snprintf(sentence, REDIS_SENTENCE_BYTES,
                 "%s is a Sentinel, not a Redis that holds data: write redis+sentinel://%s/MASTER-NAME.", at, at);
        return FACTS_UNFIT;
    }
    bool cluster = strcmp(facts->mode, "cluster") == 0;
    if (cluster && question->kind != REDIS_CLUSTER) {
        snprintf(sentence, REDIS_SENTENCE_BYTES, "Redis at %s is part of a Cluster: write redis+cluster:// in its URL.", at);
        return FACTS_UNFIT;
    }
    if (!cluster && question->kind == REDIS_CLUSTER) {
        snprintf(sentence, REDIS_SENTENCE_BYTES,
                 "Redis at %s is no Cluster (cluster-enabled is no): write redis:// in its URL.", at);
        return FACTS_UNFIT;
    }
    if (strcmp(facts->policy, "noeviction") != 0) {
        snprintf(sentence, REDIS_SENTENCE_BYTES,
                 "Redis at %s may throw stock and orders away when its memory is full (maxmemory-policy is %s): set it to "
                 "noeviction.",
                 at, facts->policy[0] != '\0' ? facts->policy : "not known");
        return FACTS_UNFIT;
    }
    if (!facts->is_master && question->kind == REDIS_SINGLE) {
        snprintf(sentence, REDIS_SENTENCE_BYTES, "Redis at %s is a replica of %.200s:%s: name the master in the URL.", at,
                 facts->master_host, facts->master_port);
        return FACTS_UNFIT;
    }
    if (!facts->is_master && question->kind == REDIS_SENTINEL) {
        snprintf(sentence, REDIS_SENTENCE_BYTES, "Redis at %s, which a Sentinel calls the master, is a replica so far.", at);
        return FACTS_NOT_YET;
    }
    return FACTS_FIT;
}

enum facts_verdict facts_judge(const struct facts_question *question, char sentence[REDIS_SENTENCE_BYTES])
{
    const struct facts *facts = question->facts;
    char at[REDIS_ADDRESS_TEXT_BYTES];
    redis_address_print(at, question->address);
    if (!version_known(facts->version)) {
        snprintf(sentence, REDIS_SENTENCE_BYTES, "Redis at %s is version %s: 6.2 or later is needed.", at, facts->version);
        return FACTS_UNFIT;
    }
    if (question->as_sentinel) {
        if (strcmp(facts->mode, "sentinel") == 0) return FACTS_FIT;
        snprintf(sentence, REDIS_SENTENCE_BYTES,
                 "%s is not a Sentinel but a Redis that holds data: name the Sentinels in redis+sentinel://, or write "
                 "redis://%s.",
                 at, at);
        return FACTS_UNFIT;
    }
    if (facts->loading) {
        snprintf(sentence, REDIS_SENTENCE_BYTES, "Redis at %s is still loading its data from disk.", at);
        return FACTS_NOT_YET;
    }
    return judge_data(question, at, sentence);
}

static bool begins(struct slice text, const char *with)
{
    return text.len >= strlen(with) && memcmp(text.data, with, strlen(with)) == 0;
}

static bool has(struct slice text, const char *what)
{
    return memmem(text.data, text.len, what, strlen(what)) != NULL;
}

void facts_explain(const struct facts_question *question, const char *asked, struct slice error,
                   char sentence[REDIS_SENTENCE_BYTES])
{
    char at[REDIS_ADDRESS_TEXT_BYTES];
    redis_address_print(at, question->address);
    const char *who = question->as_sentinel ? "The Sentinel" : "Redis";
    const char *file = question->as_sentinel ? "redis_sentinel_password_file" : "redis_password_file";
    const char *name = question->as_sentinel ? "STAMPEDE_REDIS_SENTINEL_PASSWORD" : "STAMPEDE_REDIS_PASSWORD";
    if (begins(error, "WRONGPASS") || has(error, "invalid password")) {
        snprintf(sentence, REDIS_SENTENCE_BYTES,
                 "%s at %s does not know this user with this password: check the user in the URL and %s or %s.", who, at,
                 file, name);
    } else if (has(error, "without any password configured") || has(error, "no password is set")) {
        snprintf(sentence, REDIS_SENTENCE_BYTES,
                 "%s at %s has no password, but one was given: set one there (requirepass or ACL SETUSER), or leave out %s "
                 "and %s.",
                 who, at, file, name);
    } else if (begins(error, "NOAUTH")) {
        snprintf(sentence, REDIS_SENTENCE_BYTES, "%s at %s wants a password: give it in %s or %s.", who, at, file, name);
    } else if (begins(error, "NOPERM")) {
        snprintf(
            sentence, REDIS_SENTENCE_BYTES,
            "%s at %s does not let its user run %s: its ACL must allow +@all -@dangerous +info, that command and the keys "
            "of redis_prefix.",
            who, at, asked);
    } else if (has(error, "DB index is out of range")) {
        snprintf(sentence, REDIS_SENTENCE_BYTES,
                 "%s at %s has no database of that number: put another at the end of the URL, or raise its `databases`.",
                 who, at);
    } else if (begins(error, "OOM")) {
        snprintf(sentence, REDIS_SENTENCE_BYTES, "%s at %s has no memory left for %s: raise its maxmemory.", who, at, asked);
    } else {
        int shown = error.len < 120 ? (int)error.len : 120;
        snprintf(sentence, REDIS_SENTENCE_BYTES, "%s at %s answers %s with: %.*s", who, at, asked, shown, error.data);
    }
}
