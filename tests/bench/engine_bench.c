/* engine_bench: what a grab costs the engine alone, at several numbers of buyers.
 *
 *   engine_bench [REPETITIONS [LEVEL ...]]      15 repetitions at 1000, 100000 and 10000000 buyers
 *
 * One engine for each level holds that many orders of other buyers. In every repetition each engine in turn sells to buyers
 * it has not seen (decide and apply), after an equal number not timed, which brings its memory into the caches the way a
 * running sale has it; then the sale is closed and forgotten, so the level stays and no page is touched for the first time
 * while the clock runs. What first touching costs is in the figure of the fill. Engines take turns so that a noisy neighbour
 * disturbs all levels alike.
 *
 * Grabs that win a hold are timed in the same way, in a sale of their own. Last, holds with deadlines in no order expire,
 * all in one go, in an engine that has nothing else.
 *
 * A line for each level, tab-separated: level, ns a grab (median), ns a grab of the fill, ns a refusal of a sold-out sale
 * without the lock (median), bytes a buyer by the engine's own count, bytes a buyer by what the process grew, ns a grab that
 * wins a hold (median). Then a line with the number of holds and ns an expiry. */
#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "engine/engine.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEVELS_MAX 8
#define REPETITIONS_MAX 1000
#define BUYERS_TIMED_MAX 20000
#define NAME_BYTES 16
#define NOW_MS UINT64_C(1000000)
#define HOLDS 1000000
#define HOLD_SALES 100

struct level {
    struct engine *engine;
    uint32_t buyers;
    uint32_t timed; /* grabs of one repetition */
    uint64_t sold_out_id;
    uint64_t next_name; /* no buyer comes twice */
    double fill_ns, bytes_counted, bytes_grown;
    double grab_ns[REPETITIONS_MAX], refuse_ns[REPETITIONS_MAX], hold_ns[REPETITIONS_MAX];
};

static char names[BUYERS_TIMED_MAX][NAME_BYTES + 1];

static double resident_bytes(void)
{
    long total, resident;

    FILE *file = fopen("/proc/self/statm", "r");
    assert(file != NULL);
    int got = fscanf(file, "%ld %ld", &total, &resident);
    assert(got == 2);
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static uint64_t sale_new(struct engine *engine, uint32_t stock, uint32_t pay_within_s)
{
    static uint64_t nth;
    static const struct slice seller = { "seller", 6 };
    struct sale_terms terms = {
        .price = -1, .units_per_grab_max = 1, .grabs_per_buyer_max = 1, .opens_ms = NOW_MS, .admission = ADMISSION_LOGIN
    };
    struct decision decision;

    terms.pay_within_s = pay_within_s;
    snprintf(terms.name, sizeof terms.name, "sale %" PRIu64, nth++);
    enum verdict verdict = engine_decide_create(engine, &(struct asker){ .name = seller, .now_ms = NOW_MS }, &terms, stock,
                                                &decision);
    assert(verdict == VERDICT_DONE);
    engine_apply(engine, &decision);
    return decision.sale_id;
}

static void sale_end(struct engine *engine, uint64_t sale_id)
{
    struct asker admin = { .admin = true };
    struct decision decision;

    enum verdict verdict = engine_decide_switch(engine, &admin, sale_id, DECISION_SALE_CLOSED, &decision);
    assert(verdict == VERDICT_DONE);
    engine_apply(engine, &decision);
    while (!engine_forget(engine, sale_id, 4096, NOW_MS)) continue;
}

/* Nanoseconds for ending all holds, of which there are count. */
static double expiries_time(struct engine *engine, uint32_t count)
{
    uint64_t now_ms = engine_time(engine) + PAY_WITHIN_S_MAX * UINT64_C(1000);
    uint64_t start_ns = mono_ns();
    uint32_t expired = 0;
    struct decision decision;
    uint32_t hints_left = UINT32_MAX;
    for (; engine_decide_expiry(engine, now_ms, &hints_left, &decision); expired++) engine_apply(engine, &decision);
    double ns = (double)(mono_ns() - start_ns);
    assert(expired == count);
    return ns;
}

static void names_make(struct level *level, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) snprintf(names[i], sizeof names[i], "buyer-%010" PRIu64, level->next_name++);
}

static struct grab grab_of(uint64_t sale_id, uint32_t nth)
{
    return (struct grab){ .sale_id = sale_id, .buyer = { names[nth], NAME_BYTES }, .units = 1, .now_ms = NOW_MS };
}

/* Nanoseconds for count grabs by the first names, all of which win. */
static double grabs_time(struct engine *engine, uint64_t sale_id, uint32_t count)
{
    uint64_t start_ns = mono_ns();
    for (uint32_t i = 0; i < count; i++) {
        struct grab grab = grab_of(sale_id, i);
        struct decision decision;
        struct grab_answer answer;
        enum verdict verdict = engine_decide_grab(engine, &grab, &decision, &answer);
        assert(verdict == VERDICT_WON);
        engine_apply(engine, &decision);
    }
    return (double)(mono_ns() - start_ns);
}

static double refusals_time(const struct level *level)
{
    uint64_t start_ns = mono_ns();
    uint32_t refused = 0;
    for (uint32_t i = 0; i < level->timed; i++) {
        struct grab grab = grab_of(level->sold_out_id, i);
        refused += engine_refuse_early(level->engine, &grab) == VERDICT_SOLD_OUT;
    }
    double ns = (double)(mono_ns() - start_ns);
    /* A full index sends six in ten to the full decision. */
    assert(refused > level->timed / 3);
    return ns;
}

static void level_fill(struct level *level)
{
    uint8_t key[16];

    random_bytes(key, sizeof key);
    double before = resident_bytes();
    enum fault fault = engine_open(&level->engine, level->buyers + 4 * BUYERS_TIMED_MAX, key);
    if (fault != FAULT_NONE) exit(1);
    uint64_t sale_id = sale_new(level->engine, STOCK_MAX, 0);
    for (uint32_t done = 0; done < level->buyers; done += level->timed) {
        names_make(level, level->timed);
        level->fill_ns += grabs_time(level->engine, sale_id, level->timed);
    }
    struct engine_usage usage;
    engine_usage(level->engine, &usage);
    level->fill_ns /= level->buyers;
    level->bytes_counted = (double)usage.bytes / level->buyers;
    level->bytes_grown = (resident_bytes() - before) / level->buyers;

    level->sold_out_id = sale_new(level->engine, level->timed, 0);
    names_make(level, level->timed);
    grabs_time(level->engine, level->sold_out_id, level->timed);
}

/* Nanoseconds a grab in a new sale, which is gone afterwards. */
static double sale_repeat(struct level *level, uint32_t pay_within_s)
{
    uint64_t sale_id = sale_new(level->engine, STOCK_MAX, pay_within_s);
    names_make(level, level->timed);
    grabs_time(level->engine, sale_id, level->timed);
    names_make(level, level->timed);
    double ns = grabs_time(level->engine, sale_id, level->timed) / level->timed;
    expiries_time(level->engine, pay_within_s == 0 ? 0 : level->timed * 2);
    sale_end(level->engine, sale_id);
    return ns;
}

static void level_repeat(struct level *level, uint32_t nth)
{
    /* Now the one first, now the other: whoever comes second finds the caches warmer. */
    if (nth % 2 == 0) level->grab_ns[nth] = sale_repeat(level, 0);
    level->hold_ns[nth] = sale_repeat(level, 600);
    if (nth % 2 != 0) level->grab_ns[nth] = sale_repeat(level, 0);

    names_make(level, level->timed);
    level->refuse_ns[nth] = refusals_time(level) / level->timed;
}

/* Nanoseconds an expiry, of a million holds in a hundred sales, whose deadlines come in no order. */
static double holds_expire(void)
{
    static struct level holds;
    uint64_t sale_ids[HOLD_SALES];
    uint8_t key[16];

    random_bytes(key, sizeof key);
    if (engine_open(&holds.engine, HOLDS, key) != FAULT_NONE) exit(1);
    for (uint32_t i = 0; i < HOLD_SALES; i++) sale_ids[i] = sale_new(holds.engine, STOCK_MAX, 1 + i * 7919 % 3600);
    for (uint32_t done = 0; done < HOLDS; done += 100) {
        names_make(&holds, 100);
        grabs_time(holds.engine, sale_ids[done / 100 * 37 % HOLD_SALES], 100);
    }
    double ns = expiries_time(holds.engine, HOLDS) / HOLDS;
    engine_close(holds.engine);
    return ns;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

int main(int argc, char **argv)
{
    static struct level levels[LEVELS_MAX] = { { .buyers = 1000 }, { .buyers = 100000 }, { .buyers = 10000000 } };
    uint32_t level_count = 3;
    uint64_t repetitions = 15;

    bool good = argc < 2 || (text_to_u64(slice_of(argv[1]), &repetitions) && repetitions - 1 < REPETITIONS_MAX);
    if (argc > 2) level_count = 0;
    for (int i = 2; i < argc && good; i++) {
        uint64_t buyers;
        good = level_count < LEVELS_MAX && text_to_u64(slice_of(argv[i]), &buyers) && buyers >= 1000 &&
               buyers <= ORDERS_OPEN_MAX / 2 && buyers % 1000 == 0;
        if (good) levels[level_count++].buyers = (uint32_t)buyers;
    }
    if (!good) {
        fprintf(stderr, "usage: engine_bench [REPETITIONS [LEVEL ...]], levels being thousands\n");
        return 2;
    }

    for (uint32_t i = 0; i < level_count; i++) {
        levels[i].timed = levels[i].buyers % BUYERS_TIMED_MAX == 0 ? BUYERS_TIMED_MAX : 1000;
        level_fill(&levels[i]);
    }
    for (uint32_t nth = 0; nth < repetitions; nth++)
        for (uint32_t i = 0; i < level_count; i++) level_repeat(&levels[i], nth);
    for (uint32_t i = 0; i < level_count; i++) {
        struct level *level = &levels[i];
        printf("%" PRIu32 "\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", level->buyers,
               median(level->grab_ns, (uint32_t)repetitions), level->fill_ns,
               median(level->refuse_ns, (uint32_t)repetitions), level->bytes_counted, level->bytes_grown,
               median(level->hold_ns, (uint32_t)repetitions));
        engine_close(level->engine);
    }
    printf("%d\t%.1f\n", HOLDS, holds_expire());
    return 0;
}
