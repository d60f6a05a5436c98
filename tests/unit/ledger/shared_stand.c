#include "shared_stand.h"

#include <assert.h>
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void database_empty(const struct ledger_place *place)
{
    MYSQL *handle = mysql_init(NULL);
    char sql[1200];
    assert_non_null(mysql_real_connect(handle, place->host, place->user, place->password, NULL, place->port, NULL, 0));
    snprintf(sql, sizeof(sql), "DROP DATABASE IF EXISTS %s", place->database);
    assert_int_equal(mysql_query(handle, sql), 0);
    snprintf(sql, sizeof(sql), "CREATE DATABASE %s", place->database);
    assert_int_equal(mysql_query(handle, sql), 0);
    mysql_close(handle);
}

static void place_choose(struct stand *stand)
{
    const char *url = getenv("STAMPEDE_TEST_LEDGER"), *password = getenv("STAMPEDE_TEST_PASSWORD");
    if (url == NULL) {
        snprintf(stand->folder, sizeof(stand->folder), "/tmp/stampede-ledger-XXXXXX");
        assert_non_null(mkdtemp(stand->folder));
        snprintf(stand->path, sizeof(stand->path), "%s/ledger.db", stand->folder);
        stand->place.path = stand->path;
        return;
    }
    char mistake[LEDGER_MISTAKE_BYTES];
    assert_true(ledger_place_read(&stand->place, slice_of(url), mistake));
    snprintf(stand->place.password, sizeof(stand->place.password), "%s", password != NULL ? password : "");
    database_empty(&stand->place);
}

struct ledger *stand_connect(const struct stand *stand)
{
    struct ledger *ledger;
    assert_int_equal(ledger_open(&ledger, &stand->place, LEDGER_WRITER), FAULT_NONE);
    return ledger;
}

int stand_setup(void **state)
{
    struct stand *stand = calloc(1, sizeof(*stand));
    assert(stand != NULL);
    place_choose(stand);
    assert_int_equal(ledger_open(&stand->a, &stand->place, LEDGER_OWNER), FAULT_NONE);
    stand->b = stand_connect(stand);
    stand->no = UINT64_C(1) << 60; /* far apart and large, as nodes make them */
    *state = stand;
    return 0;
}

int stand_teardown(void **state)
{
    struct stand *stand = *state;
    ledger_close(stand->b);
    ledger_close(stand->a);
    static const char *const ends[] = { "", "-wal", "-shm", "-journal" };
    for (size_t i = 0; stand->folder[0] != '\0' && i < sizeof(ends) / sizeof(ends[0]); i++) {
        char path[160];
        snprintf(path, sizeof(path), "%s%s", stand->path, ends[i]);
        unlink(path);
    }
    if (stand->folder[0] != '\0') rmdir(stand->folder);
    free(stand);
    return 0;
}

struct sale_terms stand_terms(const char *name, uint32_t grabs, uint32_t pay_within_s)
{
    struct sale_terms terms = {
        .currency = "EUR",
        .price = 250,
        .units_per_grab_max = 2,
        .grabs_per_buyer_max = grabs,
        .opens_ms = 1000,
        .closes_ms = 9000,
        .pay_within_s = pay_within_s,
        .admission = ADMISSION_LOGIN,
    };
    snprintf(terms.name, sizeof(terms.name), "%s", name);
    return terms;
}

enum verdict stand_change(struct stand *stand, const struct ledger_change *change)
{
    enum verdict verdict;
    assert_int_equal(ledger_change(stand->a, change, &verdict, &stand->sale, &stand->errand), FAULT_NONE);
    return verdict;
}

uint64_t stand_sale(struct stand *stand, const struct sale_terms *terms, uint32_t stock)
{
    struct ledger_change change = {
        .asker = { .name = SLICE("ann"), .now_ms = 500 }, .kind = DECISION_SALE_CREATED, .terms = terms, .add = stock
    };
    assert_int_equal(stand_change(stand, &change), VERDICT_DONE);
    return stand->sale.id;
}

uint64_t stand_epoch(struct stand *stand, uint64_t sale_id)
{
    struct ledger_fence fence = { .job = "rebuild" };
    uint64_t epoch;
    assert_int_equal(ledger_fence_raise(stand->a, &fence), FAULT_NONE);
    assert_int_equal(ledger_epoch_raise(stand->a, &fence, sale_id, &epoch), FAULT_NONE);
    return epoch;
}

struct ledger_take stand_win(struct stand *stand, uint64_t sale_id, const char *buyer, uint64_t epoch)
{
    stand->no += 4096;
    struct ledger_take take = { .epoch = epoch };
    take.decision = (struct decision){ .seq = stand->no, .at_ms = 2000, .kind = DECISION_WON, .sale_id = sale_id };
    take.decision.won.buyer = slice_of(buyer);
    take.decision.won.units = 1;
    take.decision.won.amount = 250;
    return take;
}

struct ledger_take stand_hold(struct stand *stand, uint64_t sale_id, const char *buyer, uint64_t epoch)
{
    struct ledger_take take = stand_win(stand, sale_id, buyer, epoch);
    take.decision.won.pay_by_ms = 3000;
    return take;
}

enum take_result stand_file(struct ledger *ledger, struct ledger_take *take)
{
    assert_int_equal(ledger_takes(ledger, take, 1), FAULT_NONE);
    return take->result;
}

struct sale stand_read(struct stand *stand, uint64_t sale_id)
{
    struct sale sale;
    bool found;
    assert_int_equal(ledger_sale(stand->b, sale_id, &sale, &found), FAULT_NONE);
    assert_true(found);
    return sale;
}

struct ledger_order stand_order(struct stand *stand, uint64_t no)
{
    struct ledger_order order;
    bool found;
    assert_int_equal(ledger_order(stand->b, no, &order, &found), FAULT_NONE);
    assert_true(found);
    return order;
}

static enum fault uneven(void *arg, uint64_t id, uint64_t held, uint64_t sold)
{
    (void)arg;
    fail_msg("sale %llu holds %llu and sold %llu by its orders", (unsigned long long)id, (unsigned long long)held,
             (unsigned long long)sold);
    return FAULT_NONE;
}
static void miscounted(void *arg, uint64_t id)
{
    (void)arg;
    fail_msg("sale %llu is miscounted", (unsigned long long)id);
}
static void contradiction(void *arg, const char *text)
{
    (void)arg;
    fail_msg("%s", text);
}

void stand_adds_up(struct stand *stand)
{
    assert_int_equal(ledger_each_uneven_sale(stand->b, uneven, NULL), FAULT_NONE);
    assert_int_equal(ledger_each_miscounted_sale(stand->b, miscounted, NULL), FAULT_NONE);
    assert_int_equal(ledger_each_contradiction(stand->b, contradiction, NULL), FAULT_NONE);
}
