/* People of the operator's own provider: their names and roles, keys that change under them, and logging out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/buyer.h"
#include "people/external.h"
#include "people/people.h"
#include "tests/unit/wire/provider.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENV_KEY "a1 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
#define NOW_MS UINT64_C(1000000000)

static EVP_PKEY *old_key, *new_key;
static char folder[64], path[96];
static char token[PROVIDER_TEXT_BYTES], text[3 * PROVIDER_TEXT_BYTES];

static int keys_make(void **state)
{
    (void)state;
    old_key = provider_ed25519();
    new_key = provider_ed25519();
    snprintf(folder, sizeof(folder), "/tmp/stampede-external-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof(path), "%s/jwks", folder);
    return 0;
}

static int keys_free(void **state)
{
    (void)state;
    EVP_PKEY_free(old_key);
    EVP_PKEY_free(new_key);
    unlink(path);
    rmdir(folder);
    return 0;
}

static void file_put(const char *content)
{
    char fresh[128];
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    FILE *file = fopen(fresh, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
    assert_int_equal(rename(fresh, path), 0);
}

/* A file of the keys given; NULL leaves one out. */
static void keys_put(EVP_PKEY *first, EVP_PKEY *second)
{
    char one[PROVIDER_TEXT_BYTES], other[PROVIDER_TEXT_BYTES];
    if (first != NULL) provider_jwk(first, ",\"kid\":\"old\"", one);
    if (second != NULL) provider_jwk(second, ",\"kid\":\"new\"", other);
    snprintf(text, sizeof(text), "{\"keys\":[%s%s%s]}", first != NULL ? one : "", first != NULL && second != NULL ? "," : "",
             second != NULL ? other : "");
    file_put(text);
}

static struct people_external options_of(void)
{
    return (struct people_external){ .issuer = "https://id.example",
                                     .audience = "shop",
                                     .key_path = path,
                                     .alg = "EdDSA",
                                     .subject_claim = "sub",
                                     .role_claim = "groups",
                                     .roles = "staff=seller, owners=admin ,guests=customer",
                                     .leeway_s = 10 };
}

static struct slice mint(EVP_PKEY *key, const char *subject, const char *more, uint64_t expires_s)
{
    char header[64], payload[4096];
    snprintf(header, sizeof(header), "{\"alg\":\"EdDSA\",\"kid\":\"%s\"}", key == old_key ? "old" : "new");
    snprintf(payload, sizeof(payload), "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"%s\",\"exp\":%llu%s}",
             subject, (unsigned long long)expires_s, more);
    return (struct slice){ token, provider_sign(key, header, payload, token) };
}

struct room {
    struct external *external;
    struct external_desk *desk;
};

static int room_setup(void **state)
{
    struct room *room = calloc(1, sizeof(*room));
    struct people_external options = options_of();
    keys_put(old_key, NULL);
    assert_int_equal(external_open(&room->external, &options), FAULT_NONE);
    assert_int_equal(external_desk_open(&room->desk, room->external), FAULT_NONE);
    *state = room;
    return 0;
}

static int room_teardown(void **state)
{
    struct room *room = *state;
    external_desk_close(room->desk);
    external_close(room->external);
    free(room);
    return 0;
}

static bool recalled(struct room *room, struct slice given, uint64_t now_ms, enum token_check want)
{
    struct identity who;
    enum token_check check;
    bool known = external_recall(room->desk, given, now_ms, &check, &who);
    if (known) assert_int_equal(check, want);
    return known;
}

static void a_buyer_is_called_issuer_and_subject_with_the_greatest_role(void **state)
{
    struct room *room = *state;
    static const struct {
        const char *subject, *more, *name;
        enum role role;
    } script[] = {
        { "ann", "", "https://id.example:ann", ROLE_CUSTOMER },
        { "a:b", ",\"groups\":\"nobody\"", "https://id.example:a:b", ROLE_CUSTOMER },
        { "bob", ",\"groups\":\"staff\"", "https://id.example:bob", ROLE_SELLER },
        { "bob", ",\"groups\":[\"guests\",\"staff\"]", "https://id.example:bob", ROLE_SELLER },
        { "cat", ",\"groups\":[\"guests\",\"staff\",\"owners\"]", "https://id.example:cat", ROLE_ADMIN },
        { "dan", ",\"groups\":\"admin\",\"role\":\"admin\"", "https://id.example:dan", ROLE_CUSTOMER },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct identity who, again;
        struct slice given = mint(old_key, script[i].subject, script[i].more, NOW_MS / 1000 + 60);
        assert_int_equal(external_check(room->desk, given, NOW_MS, &who), TOKEN_GOOD);
        assert_true(slice_is(who.name, script[i].name));
        assert_int_equal(who.role, script[i].role);
        assert_true(who.expires_ms == NOW_MS + 60000 && who.token_id != 0);
        enum token_check check;
        assert_true(external_recall(room->desk, given, NOW_MS, &check, &again));
        assert_int_equal(check, TOKEN_GOOD);
        assert_true(slice_equal(again.name, who.name) && again.name.data == again.name_bytes);
        assert_true(again.role == who.role && again.token_id == who.token_id && again.expires_ms == who.expires_ms);
    }
}

static void a_name_longer_than_64_bytes_is_refused_not_cut(void **state)
{
    struct room *room = *state;
    struct identity who;
    char subject[80];
    for (int len = 40; len <= 60; len++) {
        snprintf(subject, sizeof(subject), "%0*d", len, 7);
        enum token_check want = 18 + 1 + len <= 64 ? TOKEN_GOOD : TOKEN_BAD;
        assert_int_equal(external_check(room->desk, mint(old_key, subject, "", NOW_MS / 1000 + 60), NOW_MS, &who), want);
        if (want == TOKEN_GOOD) assert_int_equal(who.name.len, 18 + 1 + len);
    }
}

static void what_was_remembered_ends_with_its_time(void **state)
{
    struct room *room = *state;
    struct identity who;
    struct slice given = mint(old_key, "ann", "", NOW_MS / 1000 + 60);
    assert_false(recalled(room, given, NOW_MS, TOKEN_GOOD));
    assert_int_equal(external_check(room->desk, given, NOW_MS, &who), TOKEN_GOOD);
    assert_true(recalled(room, given, NOW_MS + 69999, TOKEN_GOOD)); /* 10 s of leeway */
    assert_true(recalled(room, given, NOW_MS + 70000, TOKEN_EXPIRED));
    assert_int_equal(external_check(room->desk, given, NOW_MS + 70000, &who), TOKEN_EXPIRED);
    /* A token that differs in one byte is another token. */
    token[given.len - 20] ^= 1;
    assert_false(recalled(room, given, NOW_MS, TOKEN_GOOD));
    token[given.len - 20] ^= 1;
    assert_false(recalled(room, (struct slice){ given.data, given.len - 1 }, NOW_MS, TOKEN_GOOD));
}

static void a_refused_token_is_not_remembered(void **state)
{
    struct room *room = *state;
    struct identity who;
    struct slice given = mint(new_key, "ann", "", NOW_MS / 1000 + 60);
    for (int i = 0; i < 2; i++) {
        assert_false(recalled(room, given, NOW_MS, TOKEN_GOOD));
        assert_int_equal(external_check(room->desk, given, NOW_MS, &who), TOKEN_BAD);
    }
}

static void keys_rotate_by_replacing_the_file(void **state)
{
    struct room *room = *state;
    struct identity who;
    static const struct {
        bool old, new;
    } steps[] = { { true, false }, { true, true }, { false, true }, { true, false } };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        keys_put(steps[i].old ? old_key : NULL, steps[i].new ? new_key : NULL);
        assert_int_equal(external_look(room->external), i > 0);
        assert_false(external_look(room->external)); /* the same again is no change */
        for (int which = 0; which < 2; which++) {
            struct slice given = mint(which == 0 ? old_key : new_key, "ann", "", NOW_MS / 1000 + 60);
            bool good = which == 0 ? steps[i].old : steps[i].new;
            /* Remembered from the step before, but under keys that no longer count. */
            assert_false(recalled(room, given, NOW_MS, TOKEN_GOOD));
            assert_int_equal(external_check(room->desk, given, NOW_MS, &who), good ? TOKEN_GOOD : TOKEN_BAD);
        }
    }
}

static void a_file_that_cannot_be_used_changes_nothing(void **state)
{
    struct room *room = *state;
    struct identity who;
    keys_put(old_key, new_key);
    char whole[sizeof(text)];
    memcpy(whole, text, sizeof(whole));
    static const char *const rubbish[] = { "", "{", "{\"keys\":[]}", "hello\n", "{\"keys\":[{\"kty\":\"RSA\"}]}" };
    for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
        file_put(rubbish[i]);
        assert_false(external_look(room->external));
    }
    for (size_t len = 1; len < strlen(whole); len += 11) {
        memcpy(text, whole, len);
        text[len] = '\0';
        file_put(text);
        assert_false(external_look(room->external));
    }
    unlink(path);
    assert_false(external_look(room->external));
    mkdir(path, 0700);
    assert_false(external_look(room->external));
    rmdir(path);
    file_put(whole);
    chmod(path, 0666); /* anybody could add a key */
    assert_false(external_look(room->external));
    assert_int_equal(external_check(room->desk, mint(old_key, "ann", "", NOW_MS / 1000 + 60), NOW_MS, &who), TOKEN_GOOD);
    assert_int_equal(external_check(room->desk, mint(new_key, "ann", "", NOW_MS / 1000 + 60), NOW_MS, &who), TOKEN_BAD);
    chmod(path, 0644);
    assert_true(external_look(room->external));
    assert_int_equal(external_check(room->desk, mint(new_key, "ann", "", NOW_MS / 1000 + 60), NOW_MS, &who), TOKEN_GOOD);
}

static void a_changed_file_is_seen_without_being_told(void **state)
{
    struct room *room = *state;
    struct identity who;
    keys_put(NULL, new_key);
    struct slice given = mint(new_key, "ann", "", NOW_MS / 1000 + 60);
    enum token_check check = TOKEN_BAD;
    for (int i = 0; i < 1000 && check != TOKEN_GOOD; i++) {
        usleep(50000);
        check = external_check(room->desk, given, NOW_MS, &who);
    }
    assert_int_equal(check, TOKEN_GOOD);
}

static void options_that_cannot_work_are_refused(void **state)
{
    (void)state;
    keys_put(old_key, NULL);
    char long_issuer[64];
    snprintf(long_issuer, sizeof(long_issuer), "%063d", 1);
    struct people_external script[13];
    for (size_t i = 0; i < 13; i++) script[i] = options_of();
    script[0].issuer = "";
    script[1].audience = "";
    script[2].subject_claim = "";
    script[3].alg = "HS256";
    script[4].alg = "none";
    script[5].issuer = long_issuer;
    script[6].roles = "staff";
    script[7].roles = "staff=owner";
    script[8].roles = "=seller";
    script[9].roles = "a=seller,b=seller,c=seller,d=seller,e=seller,f=seller,g=seller,h=seller,i=seller";
    script[10].alg = "RS256"; /* the file has no such key */
    script[11].key_path = "/nonexistent/keys";
    script[12].leeway_s = PEOPLE_LEEWAY_S_MAX + 1;
    struct external *external;
    for (size_t i = 0; i < 13; i++) {
        assert_int_equal(external_open(&external, &script[i]), FAULT_CONFIG);
        assert_null(external);
    }
    /* A name made for a buyer without a login is never anybody else's. */
    static const char *const issuers[] = { "key", "cut", "claim", "key:x", "claim:7", "keys", "cuts", "https://key" };
    for (size_t i = 0; i < sizeof(issuers) / sizeof(issuers[0]); i++) {
        char name[80];
        snprintf(name, sizeof(name), "%s:17", issuers[i]);
        struct people_external options = options_of();
        options.issuer = issuers[i];
        enum fault fault = external_open(&external, &options);
        external_close(external);
        if (buyer_is_made_up(slice_of(name))) assert_int_equal(fault, FAULT_CONFIG);
        assert_int_equal(fault, i < 5 ? FAULT_CONFIG : FAULT_NONE);
    }
}

/* Through the room's front: beside our own tokens, and with logging out. */

static sem_t mail;
static void mail_wake(void *arg)
{
    sem_post(arg);
}
static bool done;
static void logged_out(struct people_request *request)
{
    (void)request;
    done = true;
}

static struct people *people_begin(const char *ledger)
{
    struct people *people;
    struct people_options options = {
        .ledger = LEDGER_FILE(ledger), .key_env = SLICE(ENV_KEY), .token_ttl_s = 60, .threads = 1, .external = options_of()
    };
    assert_int_equal(people_open(&people, &options), FAULT_NONE);
    return people;
}

static void logging_out_ends_a_token_for_good_and_only_that_one(void **state)
{
    (void)state;
    char ledger_path[128];
    snprintf(ledger_path, sizeof(ledger_path), "%s/ledger.db", folder);
    struct ledger *ledger;
    assert_int_equal(ledger_open(&ledger, LEDGER_FILE(ledger_path), LEDGER_OWNER), FAULT_NONE);
    ledger_close(ledger);
    keys_put(old_key, NULL);
    struct people *people = people_begin(ledger_path);
    sem_init(&mail, 0, 0);
    struct crew_mailbox *mailbox;
    assert_int_equal(crew_mailbox_open(&mailbox, mail_wake, &mail), FAULT_NONE);

    uint64_t now_ms = wall_ms();
    static char first[PROVIDER_TEXT_BYTES], second[PROVIDER_TEXT_BYTES];
    memcpy(first, mint(old_key, "ann", "", now_ms / 1000 + 60).data, sizeof(first));
    memcpy(second, mint(old_key, "ann", "", now_ms / 1000 + 61).data, sizeof(second));
    struct identity who;
    for (int i = 0; i < 2; i++) { /* the second time from memory */
        assert_int_equal(people_check(people, slice_of(first), now_ms, &who), TOKEN_GOOD);
        assert_true(slice_is(who.name, "https://id.example:ann"));
        assert_int_equal(people_check(people, slice_of(second), now_ms, &who), TOKEN_GOOD);
    }
    assert_int_equal(people_check(people, slice_of(first), now_ms, &who), TOKEN_GOOD);
    struct people_request logout = {
        .people = people, .done = logged_out, .token_id = who.token_id, .expires_ms = who.expires_ms
    };
    people_logout(&logout, mailbox);
    while (!done) {
        sem_wait(&mail);
        crew_mailbox_deliver(mailbox);
    }
    assert_int_equal(logout.result, PEOPLE_OK);
    for (int restarts = 0; restarts < 2; restarts++) {
        assert_int_equal(people_check(people, slice_of(first), now_ms, &who), TOKEN_BAD);
        assert_true(who.role == ROLE_NONE && who.name.len == 0);
        assert_int_equal(people_check(people, slice_of(second), now_ms, &who), TOKEN_GOOD);
        people_close(people);
        people = people_begin(ledger_path);
    }
    people_close(people);
    crew_mailbox_close(mailbox);
    sem_destroy(&mail);
    static const char *const ends[] = { "", "-wal", "-shm" };
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "%s%s", ledger_path, ends[i]);
        unlink(text);
    }
}

/* Threads check while the keys change under them: the token of the key that stays is always good, the stranger's never. */
struct checking {
    struct external *external;
    char good[PROVIDER_TEXT_BYTES], bad[PROVIDER_TEXT_BYTES];
    atomic_bool stop;
    atomic_int wrong, checks;
};

static void *check_on(void *arg)
{
    struct checking *checking = arg;
    struct external_desk *desk;
    if (external_desk_open(&desk, checking->external) != FAULT_NONE) return NULL;
    while (!atomic_load(&checking->stop)) {
        struct identity who;
        enum token_check check;
        struct slice good = slice_of(checking->good), bad = slice_of(checking->bad);
        if (!external_recall(desk, good, NOW_MS, &check, &who)) check = external_check(desk, good, NOW_MS, &who);
        if (check != TOKEN_GOOD || !slice_is(who.name, "https://id.example:ann")) atomic_fetch_add(&checking->wrong, 1);
        if (external_recall(desk, bad, NOW_MS, &check, &who)) atomic_fetch_add(&checking->wrong, 1);
        if (external_check(desk, bad, NOW_MS, &who) != TOKEN_BAD) atomic_fetch_add(&checking->wrong, 1);
        atomic_fetch_add(&checking->checks, 1);
    }
    external_desk_close(desk);
    return NULL;
}

static void threads_check_while_keys_change(void **state)
{
    struct room *room = *state;
    static struct checking checking;
    EVP_PKEY *stranger = provider_ed25519();
    checking.external = room->external;
    memcpy(checking.good, mint(old_key, "ann", "", NOW_MS / 1000 + 60).data, sizeof(checking.good));
    memcpy(checking.bad, mint(stranger, "ann", "", NOW_MS / 1000 + 60).data, sizeof(checking.bad));
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, check_on, &checking), 0);
    for (int i = 0; i < 200 || atomic_load(&checking.checks) < 200; i++) {
        keys_put(old_key, i % 2 == 0 ? new_key : NULL);
        (void)external_look(room->external); /* or the watcher has seen it before */
    }
    atomic_store(&checking.stop, true);
    for (size_t i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&checking.wrong), 0);
    EVP_PKEY_free(stranger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define IN_ROOM(test) cmocka_unit_test_setup_teardown(test, room_setup, room_teardown)
        IN_ROOM(a_buyer_is_called_issuer_and_subject_with_the_greatest_role),
        IN_ROOM(a_name_longer_than_64_bytes_is_refused_not_cut),
        IN_ROOM(what_was_remembered_ends_with_its_time),
        IN_ROOM(a_refused_token_is_not_remembered),
        IN_ROOM(keys_rotate_by_replacing_the_file),
        IN_ROOM(a_file_that_cannot_be_used_changes_nothing),
        IN_ROOM(a_changed_file_is_seen_without_being_told),
        cmocka_unit_test(options_that_cannot_work_are_refused),
        cmocka_unit_test(logging_out_ends_a_token_for_good_and_only_that_one),
        IN_ROOM(threads_check_while_keys_change),
    };
    return cmocka_run_group_tests(tests, keys_make, keys_free);
}
