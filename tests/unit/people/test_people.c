/* Register, log in, log out, and what a token is worth afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "people/password.h"
#include "people/people.h"
#include "wire/jwt.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ENV_KEY "a1 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"

struct room {
    char folder[64], ledger[128], keys[128];
    struct people *people;
    struct crew_mailbox *mailbox;
    sem_t mail;
    int done;
};

static void mail_wake(void *arg)
{
    sem_post(&((struct room *)arg)->mail);
}

static void people_start(struct room *room)
{
    struct people_options options = {
        .ledger = LEDGER_FILE(room->ledger), .key_path = room->keys, .token_ttl_s = 3600, .threads = 1
    };
    assert_int_equal(people_open(&room->people, &options), FAULT_NONE);
}

static int room_setup(void **state)
{
    struct room *room = calloc(1, sizeof(*room));
    snprintf(room->folder, sizeof(room->folder), "/tmp/stampede-people-XXXXXX");
    if (mkdtemp(room->folder) == NULL) return -1;
    snprintf(room->ledger, sizeof(room->ledger), "%s/ledger.db", room->folder);
    snprintf(room->keys, sizeof(room->keys), "%s/keys", room->folder);
    struct ledger *ledger;
    assert_int_equal(ledger_open(&ledger, LEDGER_FILE(room->ledger), LEDGER_OWNER), FAULT_NONE);
    ledger_close(ledger);
    sem_init(&room->mail, 0, 0);
    assert_int_equal(crew_mailbox_open(&room->mailbox, mail_wake, room), FAULT_NONE);
    people_start(room);
    *state = room;
    return 0;
}

static int room_teardown(void **state)
{
    struct room *room = *state;
    people_close(room->people);
    crew_mailbox_close(room->mailbox);
    sem_destroy(&room->mail);
    static const char *const names[] = { "ledger.db", "ledger.db-wal", "ledger.db-shm", "keys", "keys.new" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[160];
        snprintf(path, sizeof(path), "%s/%s", room->folder, names[i]);
        unlink(path);
    }
    rmdir(room->folder);
    free(room);
    return 0;
}

static __thread struct room *room_now;
static void request_counted(struct people_request *request)
{
    static const char wiped[sizeof(request->password)];
    assert_memory_equal(request->password, wiped, sizeof(wiped));
    room_now->done++;
}

typedef void ask_function(struct people_request *request, struct crew_mailbox *mailbox);

static void mail_wait(struct room *room, int done)
{
    while (room->done < done) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 20;
        while (sem_timedwait(&room->mail, &until) != 0) assert_int_equal(errno, EINTR);
        crew_mailbox_deliver(room->mailbox);
    }
}

static enum people_result ask(struct room *room, ask_function *function, struct people_request *request)
{
    room_now = room;
    room->done = 0;
    request->people = room->people;
    request->done = request_counted;
    function(request, room->mailbox);
    mail_wait(room, 1);
    return request->result;
}

static struct people_request request_of(const char *username, const char *password, enum role role)
{
    struct people_request request = { .role = role };
    snprintf(request.username, sizeof(request.username), "%s", username);
    snprintf(request.password, sizeof(request.password), "%s", password);
    return request;
}

static enum people_result enroll(struct room *room, const char *username, const char *password, enum role role)
{
    struct people_request request = request_of(username, password, role);
    return ask(room, people_register, &request);
}

static enum people_result enter(struct room *room, const char *username, const char *password, struct people_request *out)
{
    *out = request_of(username, password, ROLE_NONE);
    return ask(room, people_login, out);
}

static void a_registered_user_logs_in_and_is_recognised(void **state)
{
    struct room *room = *state;
    assert_int_equal(enroll(room, "ann", "correct horse", ROLE_SELLER), PEOPLE_OK);
    struct people_request login;
    assert_int_equal(enter(room, "ann", "correct horse", &login), PEOPLE_OK);
    assert_int_equal(login.role, ROLE_SELLER);
    uint64_t now_ms = wall_ms();
    assert_in_range(login.expires_ms, now_ms + 3590000, now_ms + 3600000);

    struct identity who;
    assert_int_equal(people_check(room->people, slice_of(login.token), now_ms, &who), TOKEN_GOOD);
    assert_true(slice_is(who.name, "ann"));
    assert_int_equal(who.role, ROLE_SELLER);
    assert_int_equal(who.expires_ms, login.expires_ms);
    assert_true(who.token_id == login.token_id && who.token_id != 0);
    assert_int_equal(people_check(room->people, slice_of(login.token), login.expires_ms, &who), TOKEN_EXPIRED);
    assert_int_equal(who.role, ROLE_NONE);
    assert_int_equal(who.name.len, 0);
}

static void wrong_names_and_passwords_are_the_same_answer(void **state)
{
    struct room *room = *state;
    assert_int_equal(enroll(room, "ann", "correct horse", ROLE_CUSTOMER), PEOPLE_OK);
    static const struct {
        const char *name, *password;
    } script[] = {
        { "ann", "correct horsE" },        { "ann", "correct horse " },   { "ann", "" },
        { "Ann", "correct horse" },        { "nobody", "correct horse" }, { "", "correct horse" },
        { "x' OR 'a'='a", "' OR '1'='1" },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct people_request login;
        assert_int_equal(enter(room, script[i].name, script[i].password, &login), PEOPLE_BAD_LOGIN);
        assert_string_equal(login.token, "");
    }
}

static void a_taken_name_stays_with_its_first_owner(void **state)
{
    struct room *room = *state;
    assert_int_equal(enroll(room, "ann", "correct horse", ROLE_CUSTOMER), PEOPLE_OK);
    assert_int_equal(enroll(room, "ann", "another one", ROLE_SELLER), PEOPLE_TAKEN);
    assert_int_equal(enroll(room, "Ann", "another one", ROLE_SELLER), PEOPLE_OK);
    struct people_request login;
    assert_int_equal(enter(room, "ann", "another one", &login), PEOPLE_BAD_LOGIN);
    assert_int_equal(enter(room, "ann", "correct horse", &login), PEOPLE_OK);
    assert_int_equal(login.role, ROLE_CUSTOMER);
}

static void login_cost(struct room *room, const char *name, uint64_t *least_ns)
{
    struct people_request login;
    uint64_t before = mono_ns();
    enter(room, name, "wrong password", &login);
    uint64_t took = mono_ns() - before;
    if (took < *least_ns) *least_ns = took;
}

static void an_unknown_user_costs_as_much_as_a_known_one(void **state)
{
    struct room *room = *state;
    assert_int_equal(enroll(room, "ann", "correct horse", ROLE_CUSTOMER), PEOPLE_OK);
    /* In turns, the least of each: what else the machine does only adds, and one without the hash never comes near. */
    uint64_t known = UINT64_MAX, unknown = UINT64_MAX;
    for (int i = 0; i < 200 && (i < 5 || unknown >= known * 2 || known >= unknown * 2); i++) {
        login_cost(room, "ann", &known);
        login_cost(room, "nobody", &unknown);
    }
    assert_true(unknown < known * 2 && known < unknown * 2);
}

static void a_logout_counts_at_once_and_after_a_restart(void **state)
{
    struct room *room = *state;
    assert_int_equal(enroll(room, "ann", "correct horse", ROLE_CUSTOMER), PEOPLE_OK);
    struct people_request first, second;
    assert_int_equal(enter(room, "ann", "correct horse", &first), PEOPLE_OK);
    assert_int_equal(enter(room, "ann", "correct horse", &second), PEOPLE_OK);
    assert_true(first.token_id != second.token_id);

    struct people_request logout = { .token_id = first.token_id, .expires_ms = first.expires_ms };
    assert_int_equal(ask(room, people_logout, &logout), PEOPLE_OK);
    for (int round = 0; round < 2; round++) {
        struct identity who;
        assert_int_equal(people_check(room->people, slice_of(first.token), wall_ms(), &who), TOKEN_BAD);
        assert_int_equal(who.role, ROLE_NONE);
        assert_int_equal(people_check(room->people, slice_of(second.token), wall_ms(), &who), TOKEN_GOOD);
        people_close(room->people);
        people_start(room);
    }
    struct people_request again = { .token_id = first.token_id, .expires_ms = first.expires_ms };
    assert_int_equal(ask(room, people_logout, &again), PEOPLE_OK);
}

static enum fault remember(void *arg, uint64_t token_id, uint64_t expires_ms)
{
    (void)expires_ms;
    *(uint64_t *)arg = *(uint64_t *)arg * 100 + token_id;
    return FAULT_NONE;
}

static void logouts_of_expired_tokens_leave_the_ledger_at_the_next_start(void **state)
{
    struct room *room = *state;
    uint64_t now_ms = wall_ms();
    struct people_request old = { .token_id = 11, .expires_ms = now_ms - 3600000 };
    struct people_request fresh = { .token_id = 12, .expires_ms = now_ms + 3600000 };
    assert_int_equal(ask(room, people_logout, &old), PEOPLE_OK);
    assert_int_equal(ask(room, people_logout, &fresh), PEOPLE_OK);
    people_close(room->people);
    people_start(room);
    struct ledger *ledger;
    assert_int_equal(ledger_open(&ledger, LEDGER_FILE(room->ledger), LEDGER_WRITER), FAULT_NONE);
    uint64_t seen = 0;
    assert_int_equal(ledger_each_revoked(ledger, 0, remember, &seen), FAULT_NONE);
    ledger_close(ledger);
    assert_int_equal(seen, 12);
}

static struct people_request *login_watched;
static int done_before_login;
static void request_counted_until_login(struct people_request *request)
{
    if (request == login_watched) done_before_login = room_now->done;
    request_counted(request);
}

/* As many registrations as the queue takes do not make a login wait: it is served after one or two of them. */
static void a_flood_of_registrations_does_not_keep_a_login_out(void **state)
{
    struct room *room = *state;
    enum { REQUESTS = 1100 };
    struct people_request user = request_of("ann", "correct horse", ROLE_CUSTOMER);
    assert_int_equal(ask(room, people_register, &user), PEOPLE_OK);
    struct people_request *requests = calloc(REQUESTS, sizeof(*requests));
    assert_non_null(requests);
    room->done = 0;
    for (int i = 0; i < REQUESTS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "flood%d", i);
        requests[i] = request_of(name, "a password", ROLE_CUSTOMER);
        requests[i].people = room->people;
        requests[i].done = request_counted;
        people_register(&requests[i], room->mailbox);
    }
    int refused = room->done;
    assert_true(refused > 0); /* their queue is full */
    crew_mailbox_deliver(room->mailbox);
    int served = room->done;

    struct people_request login = request_of("ann", "correct horse", ROLE_NONE);
    login.people = room->people;
    login.done = request_counted_until_login;
    login_watched = &login;
    done_before_login = -1;
    people_login(&login, room->mailbox);
    while (done_before_login < 0) mail_wait(room, room->done + 1);
    assert_int_equal(login.result, PEOPLE_OK);
    assert_in_range(done_before_login, served, served + 3);

    people_close(room->people);
    room->people = NULL;
    mail_wait(room, REQUESTS + 1);
    free(requests);
    people_start(room);
}

static void an_overfull_queue_answers_busy_and_the_rest_is_served(void **state)
{
    struct room *room = *state;
    enum { REQUESTS = 1100 };
    struct people_request *requests = calloc(REQUESTS, sizeof(*requests));
    room_now = room;
    room->done = 0;
    int busy = 0;
    for (int i = 0; i < REQUESTS; i++) {
        requests[i] = request_of("nobody", "wrong password", ROLE_NONE);
        requests[i].people = room->people;
        requests[i].done = request_counted;
        requests[i].result = PEOPLE_OK;
        int before = room->done;
        people_login(&requests[i], room->mailbox);
        if (room->done > before) {
            assert_int_equal(requests[i].result, PEOPLE_BUSY);
            busy++;
        }
    }
    /* One worker: 1,024 wait, one is in its hands, and what it has done meanwhile is in the mailbox. */
    crew_mailbox_deliver(room->mailbox);
    int served = room->done - busy;
    assert_in_range(busy, 1, REQUESTS - 1024);
    assert_true(REQUESTS - busy <= 1024 + 1 + served);
    people_close(room->people);
    room->people = NULL;
    mail_wait(room, REQUESTS);
    assert_int_equal(room->done, REQUESTS);
    for (int i = 0; i < REQUESTS; i++)
        assert_true(requests[i].result == PEOPLE_BUSY || requests[i].result == PEOPLE_BAD_LOGIN);
    free(requests);
    people_start(room);
}

/* Tokens signed with the right key that still are nobody's. */
static void tokens_of_unknown_roles_or_no_id_are_bad(void **state)
{
    struct room *room = *state;
    struct people *people;
    struct people_options options = { .ledger = LEDGER_FILE(room->ledger),
                                      .key_path = "/nowhere/keys",
                                      .key_env = SLICE(ENV_KEY),
                                      .token_ttl_s = 60,
                                      .threads = 1 };
    assert_int_equal(people_open(&people, &options), FAULT_NONE);
    struct jwt_ring *ring;
    struct jwt_mac *mac;
    char objection[256];
    assert_int_equal(jwt_ring_open(&ring, SLICE(ENV_KEY), objection), FAULT_NONE);
    assert_int_equal(jwt_mac_open(&mac, ring), FAULT_NONE);

    uint64_t now_ms = wall_ms();
    static const struct {
        const char *subject, *role;
        uint64_t id;
        enum token_check want;
    } script[] = {
        { "ann", "customer", 1, TOKEN_GOOD }, { "ann", "seller", 1, TOKEN_GOOD }, { "ann", "admin", 1, TOKEN_GOOD },
        { "ann", "none", 1, TOKEN_BAD },      { "ann", "root", 1, TOKEN_BAD },    { "ann", "Admin", 1, TOKEN_BAD },
        { "ann", "", 1, TOKEN_BAD },          { "", "customer", 1, TOKEN_BAD },   { "ann", "customer", 0, TOKEN_BAD },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct jwt_claims claims = { .token_id = script[i].id,
                                     .issued_s = now_ms / 1000,
                                     .not_before_s = now_ms / 1000,
                                     .expires_s = now_ms / 1000 + 60 };
        snprintf(claims.subject, sizeof(claims.subject), "%s", script[i].subject);
        snprintf(claims.role, sizeof(claims.role), "%s", script[i].role);
        char token[TOKEN_BYTES_MAX];
        size_t len = jwt_make(mac, &claims, token, sizeof(token));
        assert_true(len > 0);
        struct identity who;
        assert_int_equal(people_check(people, (struct slice){ token, len }, now_ms, &who), script[i].want);
        /* The room's own people have another key. */
        assert_int_equal(people_check(room->people, (struct slice){ token, len }, now_ms, &who), TOKEN_BAD);
    }
    jwt_mac_close(mac);
    jwt_ring_close(ring);
    people_close(people);
}

struct checking {
    struct room *room;
    const char *token;
    int good;
};

static void *check_often(void *arg)
{
    struct checking *checking = arg;
    for (int i = 0; i < 2000; i++) {
        struct identity who;
        if (people_check(checking->room->people, slice_of(checking->token), wall_ms(), &who) == TOKEN_GOOD) checking->good++;
    }
    return NULL;
}

static void threads_check_side_by_side(void **state)
{
    struct room *room = *state;
    assert_int_equal(enroll(room, "ann", "correct horse", ROLE_CUSTOMER), PEOPLE_OK);
    struct people_request login;
    assert_int_equal(enter(room, "ann", "correct horse", &login), PEOPLE_OK);
    struct checking checking[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        checking[i] = (struct checking){ .room = room, .token = login.token };
        assert_int_equal(pthread_create(&threads[i], NULL, check_often, &checking[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(checking[i].good, 2000);
    }
}

static void an_admin_is_made_beside_a_running_server_and_without_one(void **state)
{
    struct room *room = *state;
    enum people_result result;
    assert_int_equal(people_admin_create(LEDGER_FILE(room->ledger), "root", "correct horse", &result), FAULT_NONE);
    assert_int_equal(result, PEOPLE_OK);
    assert_int_equal(people_admin_create(LEDGER_FILE(room->ledger), "root", "another one", &result), FAULT_NONE);
    assert_int_equal(result, PEOPLE_TAKEN);
    assert_int_equal(people_admin_create(LEDGER_FILE(room->ledger), "ro ot", "correct horse", &result), FAULT_CONFIG);
    assert_int_equal(people_admin_create(LEDGER_FILE(room->ledger), "toor", "short", &result), FAULT_CONFIG);
    struct people_request login;
    assert_int_equal(enter(room, "root", "correct horse", &login), PEOPLE_OK);
    assert_int_equal(login.role, ROLE_ADMIN);

    char path[160];
    snprintf(path, sizeof(path), "%s/fresh.db", room->folder);
    assert_int_equal(people_admin_create(LEDGER_FILE(path), "root", "correct horse", &result), FAULT_NONE);
    assert_int_equal(result, PEOPLE_OK);
    unlink(path);
}

static void passwords_are_kept_as_argon2id_of_the_promised_cost(void **state)
{
    (void)state;
    char one[PASSWORD_HASH_BYTES], two[PASSWORD_HASH_BYTES];
    assert_true(password_hash("correct horse", one));
    assert_true(password_hash("correct horse", two));
    assert_string_not_equal(one, two);
    assert_int_equal(strncmp(one, "$argon2id$v=19$m=19456,t=2,p=1$", 31), 0);
    assert_true(password_matches(one, "correct horse") && password_matches(two, "correct horse"));
    assert_false(password_matches(one, "correct horsf"));
    assert_false(password_matches("not a hash", "correct horse"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, room_setup, room_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_registered_user_logs_in_and_is_recognised),
        CASE(wrong_names_and_passwords_are_the_same_answer),
        CASE(a_taken_name_stays_with_its_first_owner),
        CASE(an_unknown_user_costs_as_much_as_a_known_one),
        CASE(a_logout_counts_at_once_and_after_a_restart),
        CASE(logouts_of_expired_tokens_leave_the_ledger_at_the_next_start),
        CASE(a_flood_of_registrations_does_not_keep_a_login_out),
        CASE(an_overfull_queue_answers_busy_and_the_rest_is_served),
        CASE(tokens_of_unknown_roles_or_no_id_are_bad),
        CASE(threads_check_side_by_side),
        CASE(an_admin_is_made_beside_a_running_server_and_without_one),
        cmocka_unit_test(passwords_are_kept_as_argon2id_of_the_promised_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
