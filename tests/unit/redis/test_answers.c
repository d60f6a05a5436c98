/* What servers say: replies in pieces, errors and how certain they are, INFO and whether the server is fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/error.h"
#include "redis/facts.h"
#include "redis/reply.h"

#include <stdio.h>

/* clang-format off */
static const struct { const char *text; enum error_kind kind; } errors[] = {
    { "MOVED 3999 127.0.0.1:6381", ERROR_MOVED },
    { "ASK 3999 127.0.0.1:6381", ERROR_ASK },
    { "NOSCRIPT No matching script. Please use EVAL.", ERROR_NOSCRIPT },
    { "TRYAGAIN Multiple keys request during rehashing of slot", ERROR_LATER },
    { "CLUSTERDOWN The cluster is down", ERROR_LATER },
    { "LOADING Redis is loading the dataset in memory", ERROR_LATER },
    { "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", ERROR_LATER },
    { "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", ERROR_LATER },
    { "READONLY You can't write against a read only replica.", ERROR_DEMOTED },
    { "READONLY You can't write against a read only replica. script: 5d9f, on @user_script:1.", ERROR_DEMOTED },
    { "ERR Error running script (call to f_5d9f): @user_script:1: @user_script: 1: -READONLY You can't", ERROR_DEMOTED },
    { "OOM command not allowed when used memory > 'maxmemory'.", ERROR_REFUSED },
    { "OOM command not allowed when used memory > 'maxmemory'. script: 5d9f, on @user_script:1.", ERROR_REFUSED },
    { "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", ERROR_REFUSED },
    { "NOREPLICAS Not enough good replicas to write.", ERROR_REFUSED },
    { "NOPERM this user has no permissions to run the 'get' command", ERROR_REFUSED },
    { "NOAUTH Authentication required.", ERROR_REFUSED },
    /* Within a script these may follow a write. */
    { "NOPERM this user has no permissions to run the 'xadd' command script: 5d9f, on @user_script:3.", ERROR_OTHER },
    { "ERR Error running script (call to f_5d9f): @user_script:3: -NOPERM this user", ERROR_OTHER },
    { "BUSY x script: 5d9f, on @user_script:3.", ERROR_OTHER },
    { "WRONGTYPE Operation against a key holding the wrong kind of value", ERROR_OTHER },
    { "ERR unknown command 'x'", ERROR_OTHER },
    { "MOVEDX 1 a:1", ERROR_OTHER },
    { "moved 1 a:1", ERROR_OTHER },
    { "", ERROR_OTHER },
    { "ERR @user_script", ERROR_OTHER },
};

static const struct { const char *text, *host; uint16_t port; } targets[] = {
    { "MOVED 1 10.0.0.1:6381", "10.0.0.1", 6381 },
    { "MOVED 1 node-3.example:1", "node-3.example", 1 },
    { "ASK 1 ::1:6381", "::1", 6381 },
    { "MOVED 1 :6381", "asked", 6381 },
    { "MOVED 1 ?:6381", "asked", 6381 },
    { "MOVED 1 a", NULL, 0 },
    { "MOVED 1 a:", NULL, 0 },
    { "MOVED 1 a:0", NULL, 0 },
    { "MOVED 1 a:65536", NULL, 0 },
    { "MOVED", NULL, 0 },
    { "", NULL, 0 },
};

#define REPLID "a123456789012345678901234567890123456789"
#define OTHER "b123456789012345678901234567890123456789"
#define INFO(version, mode, policy, role, loading)                                                                  \
    SERVER("redis_version:" version "\r\nredis_mode:" mode, policy, role, loading)
#define VALKEY(mode, policy, role)                                                                                  \
    SERVER("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:" mode, policy, role, "0")
#define SERVER(who, policy, role, loading)                                                                          \
    "# Server\r\n" who                                                                                              \
    "\r\nrun_id:0123456789012345678901234567890123456789\r\n# Memory\r\nmaxmemory_policy:" policy                  \
    "\r\nloading:" loading "\r\n# Replication\r\nrole:" role "\r\nmaster_host:10.0.0.9\r\nmaster_port:7"            \
    "\r\nmaster_replid:" REPLID "\r\nmaster_replid2:" OTHER "\r\n"

static const struct {
    const char *info; enum redis_kind kind; bool as_sentinel; enum facts_verdict verdict; const char *says;
} infos[] = {
    { INFO("7.0.15", "standalone", "noeviction", "master", "0"), REDIS_SINGLE, false, FACTS_FIT, "" },
    { INFO("6.2.0", "standalone", "noeviction", "master", "0"), REDIS_SENTINEL, false, FACTS_FIT, "" },
    { INFO("10.1", "cluster", "noeviction", "master", "0"), REDIS_CLUSTER, false, FACTS_FIT, "" },
    { INFO("7.0.15", "cluster", "noeviction", "slave", "0"), REDIS_CLUSTER, false, FACTS_FIT, "" },
    { INFO("7.0.15", "sentinel", "", "", ""), REDIS_SENTINEL, true, FACTS_FIT, "" },
    { INFO("6.0.16", "standalone", "noeviction", "master", "0"), REDIS_SINGLE, false, FACTS_UNFIT,
      "Redis at h:1 is version 6.0.16: 6.2 or later is needed." },
    { INFO("5.9.9", "sentinel", "", "", ""), REDIS_SENTINEL, true, FACTS_UNFIT, "is version 5.9.9" },
    { INFO("x", "standalone", "noeviction", "master", "0"), REDIS_SINGLE, false, FACTS_UNFIT, "is version x" },
    { INFO("7.0.15", "standalone", "volatile-ttl", "master", "0"), REDIS_SINGLE, false, FACTS_UNFIT,
      "(maxmemory-policy is volatile-ttl)" },
    { INFO("7.0.15", "standalone", "noeviction", "master", "1"), REDIS_SINGLE, false, FACTS_NOT_YET, "still loading" },
    { INFO("7.0.15", "standalone", "noeviction", "slave", "0"), REDIS_SINGLE, false, FACTS_UNFIT,
      "a replica of 10.0.0.9:7" },
    { INFO("7.0.15", "standalone", "noeviction", "slave", "0"), REDIS_SENTINEL, false, FACTS_NOT_YET,
      "is a replica so far" },
    { INFO("7.0.15", "standalone", "noeviction", "master", "0"), REDIS_CLUSTER, false, FACTS_UNFIT, "is no Cluster" },
    { VALKEY("standalone", "noeviction", "master"), REDIS_SINGLE, false, FACTS_FIT, "" },
    { VALKEY("cluster", "noeviction", "slave"), REDIS_CLUSTER, false, FACTS_FIT, "" },
    { VALKEY("cluster", "noeviction", "master"), REDIS_SINGLE, false, FACTS_UNFIT, "is part of a Cluster" },
    { VALKEY("sentinel", "", ""), REDIS_SINGLE, false, FACTS_UNFIT, "is a Sentinel" },
    { INFO("7.0.15", "cluster", "noeviction", "master", "0"), REDIS_SENTINEL, false, FACTS_UNFIT, "is part of a Cluster" },
};
/* clang-format on */

static void errors_are_repeated_only_where_nothing_was_changed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (error_kind(slice_of(errors[i].text)) != errors[i].kind) fail_msg("%s", errors[i].text);
    }
}

static void a_server_that_takes_no_writes_is_told_from_one_that_refuses_a_command(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        const char *text = errors[i].text;
        bool writes = strncmp(text, "OOM ", 4) == 0 || strncmp(text, "MISCONF ", 8) == 0 ||
                      strncmp(text, "NOREPLICAS ", 11) == 0;
        if ((error_advice(slice_of(text)) != NULL) != writes) fail_msg("%s", text);
    }
    assert_non_null(
        strstr(error_advice(SLICE("ERR Error running script (call to f_5d9f): @user_script:1: -OOM command")), "maxmemory"));
}

static void redirections_name_their_target(void **state)
{
    (void)state;
    struct redis_address asked = { .host = "asked", .port = 9 }, found;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        bool good = error_target(slice_of(targets[i].text), &asked, &found);
        if (good != (targets[i].host != NULL)) fail_msg("%s", targets[i].text);
        if (!good) continue;
        assert_string_equal(found.host, targets[i].host);
        assert_int_equal(found.port, targets[i].port);
    }
}

static void a_server_is_fit_or_one_sentence_says_why_not(void **state)
{
    (void)state;
    struct redis_address address = { .host = "h", .port = 1 };
    for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++) {
        struct facts facts;
        char sentence[REDIS_SENTENCE_BYTES] = "";
        assert_true(facts_read(&facts, slice_of(infos[i].info)));
        assert_string_equal(facts.run_id, "0123456789012345678901234567890123456789");
        assert_string_equal(facts.lineage, "0123456789012345678901234567890123456789-" REPLID);
        struct facts_question question = {
            .facts = &facts, .address = &address, .kind = infos[i].kind, .as_sentinel = infos[i].as_sentinel
        };
        assert_int_equal(facts_judge(&question, sentence), infos[i].verdict);
        if (strstr(sentence, infos[i].says) == NULL) fail_msg("row %zu: %s", i, sentence);
    }
    struct facts facts;
    assert_false(facts_read(&facts, SLICE("")));
    assert_false(facts_read(&facts, SLICE("redis_version:7.0.1\r\nredis_mode:standalone\r\nrun_id:short\r\n")));
}

/* What was a master, and what it says of its replication now. */
static const struct {
    bool is_master;
    const char *info;
    enum facts_change want;
} changes[] = {
    { true, "# Replication\r\nrole:master\r\nmaster_replid:" REPLID "\r\nmaster_replid2:" OTHER "\r\n", FACTS_SAME },
    { true, "role:master\r\nmaster_replid:" OTHER "\r\nmaster_replid2:" REPLID "\r\n", FACTS_OTHER_LINEAGE },
    { true, "role:slave\r\nmaster_replid:" REPLID "\r\n", FACTS_OTHER_ROLE },
    { true, "role:slave\r\nmaster_replid:" OTHER "\r\n", FACTS_OTHER_ROLE },
    { false, "role:slave\r\nmaster_replid:" OTHER "\r\n", FACTS_SAME },
    { false, "role:master\r\nmaster_replid:" OTHER "\r\n", FACTS_OTHER_ROLE },
    { true, "", FACTS_SAME },
};

static void a_master_that_was_a_replica_meanwhile_is_known_by_its_replication_id(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct facts facts = { .replid = REPLID, .is_master = changes[i].is_master };
        if (facts_changed(&facts, slice_of(changes[i].info)) != changes[i].want) fail_msg("row %zu", i);
    }
}

static const char wire[] =
    "+OK\r\n:-7\r\n$-1\r\n*-1\r\n$3\r\na\r\n\r\n-ERR no\r\n*0\r\n*3\r\n*2\r\n$1\r\nx\r\n:5\r\n$0\r\n\r\n$-1\r\n";

static void replies_check(const struct redis_reply *reply, uint32_t number)
{
    static const enum redis_type types[] = { REDIS_WORD, REDIS_NUMBER, REDIS_NIL,  REDIS_NIL,
                                             REDIS_TEXT, REDIS_FAIL,   REDIS_LIST, REDIS_LIST };
    assert_int_equal(reply->type, types[number]);
    if (number == 0) assert_true(slice_is(reply->text, "OK"));
    if (number == 1) assert_int_equal(reply->number, -7);
    if (number == 4) assert_true(slice_is(reply->text, "a\r\n"));
    if (number == 5) assert_true(slice_is(reply->text, "ERR no"));
    if (number == 6) assert_int_equal(reply->count, 0);
    if (number != 7) return;
    assert_int_equal(reply->count, 3);
    assert_int_equal(reply->items[0].count, 2);
    assert_true(slice_is(reply->items[0].items[0].text, "x"));
    assert_int_equal(reply->items[0].items[1].number, 5);
    assert_true(reply->items[1].type == REDIS_TEXT && reply->items[1].text.len == 0);
    assert_int_equal(reply->items[2].type, REDIS_NIL);
}

static void replies_are_the_same_in_pieces_of_any_size(void **state)
{
    (void)state;
    for (size_t piece = 1; piece <= sizeof(wire); piece++) {
        struct reply_reader reader;
        uint32_t number = 0;
        assert_true(reply_reader_open(&reader));
        for (size_t at = 0; at < sizeof(wire) - 1; at += piece) {
            size_t len = sizeof(wire) - 1 - at < piece ? sizeof(wire) - 1 - at : piece;
            assert_true(reply_reader_feed(&reader, wire + at, len));
            const struct redis_reply *reply;
            while (reply_reader_next(&reader, &reply) && reply != NULL) replies_check(reply, number++);
        }
        assert_int_equal(number, 8);
        reply_reader_close(&reader);
    }
}

static void what_is_no_protocol_or_too_large_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "HTTP/1.0 400 Bad\r\n", "*1000000000\r\n", "$99999999999999999999\r\n" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct reply_reader reader;
        const struct redis_reply *reply = NULL;
        assert_true(reply_reader_open(&reader));
        assert_true(reply_reader_feed(&reader, bad[i], strlen(bad[i])));
        assert_false(reply_reader_next(&reader, &reply));
        assert_true(strlen(reply_reader_error(&reader)) > 0);
        reply_reader_close(&reader);
    }
    struct reply_reader reader;
    static char bytes[1u << 20];
    const struct redis_reply *reply = NULL;
    bool good = true;
    assert_true(reply_reader_open(&reader));
    assert_true(reply_reader_feed(&reader, "$400000000\r\n", 12));
    for (int i = 0; i < 100 && good; i++) {
        good = reply_reader_feed(&reader, bytes, sizeof(bytes)) && reply_reader_next(&reader, &reply);
    }
    assert_false(good);
    reply_reader_close(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_repeated_only_where_nothing_was_changed),
        cmocka_unit_test(a_server_that_takes_no_writes_is_told_from_one_that_refuses_a_command),
        cmocka_unit_test(redirections_name_their_target),
        cmocka_unit_test(a_server_is_fit_or_one_sentence_says_why_not),
        cmocka_unit_test(a_master_that_was_a_replica_meanwhile_is_known_by_its_replication_id),
        cmocka_unit_test(replies_are_the_same_in_pieces_of_any_size),
        cmocka_unit_test(what_is_no_protocol_or_too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
