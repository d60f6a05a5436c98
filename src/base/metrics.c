#include "base/metrics.h"

#include "bounds.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Bucket b of a histogram counts values up to 2^b; the last takes the rest. 2^39 nanoseconds are nine minutes. */
#define BUCKETS 40
#define BUCKET_REST BUCKETS
/* A histogram also keeps the sum of its values. */
#define HISTOGRAM_CELLS (BUCKETS + 2)
#define HISTOGRAM_SUM (BUCKETS + 1)

enum metric_kind { KIND_COUNTER, KIND_FAMILY, KIND_HISTOGRAM };

static const struct row {
    const char *name, *help, *label;
    enum metric_kind kind;
    uint32_t width;
    double unit;
} rows[METRIC_COUNT] = {
#define COUNTER_ROW(id, name_, help_) [METRIC_##id] = { .name = name_, .help = help_, .kind = KIND_COUNTER, .width = 1 },
#define FAMILY_ROW(id, name_, label_, width_, help_)                                                                        \
    [METRIC_##id] = { .name = name_, .help = help_, .label = label_, .kind = KIND_FAMILY, .width = width_ },
#define HISTOGRAM_ROW(id, name_, unit_, help_)                                                                              \
    [METRIC_##id] = { .name = name_, .help = help_, .kind = KIND_HISTOGRAM, .width = HISTOGRAM_CELLS, .unit = unit_ },
    METRICS(COUNTER_ROW, FAMILY_ROW, HISTOGRAM_ROW)
};

/* One thread's numbers, laid out by the compiler, so that a metric's first cell is a constant. */
struct cells {
#define COUNTER_CELLS(id, ...) _Atomic uint64_t id[1];
#define FAMILY_CELLS(id, name_, label_, width_, ...) _Atomic uint64_t id[width_];
#define HISTOGRAM_CELLS_OF(id, ...) _Atomic uint64_t id[HISTOGRAM_CELLS];
    METRICS(COUNTER_CELLS, FAMILY_CELLS, HISTOGRAM_CELLS_OF)
};

static const size_t firsts[METRIC_COUNT] = {
#define FIRST(id, ...) [METRIC_##id] = offsetof(struct cells, id) / sizeof(_Atomic uint64_t),
    METRICS(FIRST, FIRST, FIRST)
};

/* Threads from the last shard on share it, and add to it atomically, which takes ten times as long as an add of one who is
 * alone. */
static struct shard {
    _Alignas(128) struct cells cells;
} shards[THREADS_MAX];

static _Atomic uint32_t shards_taken;
static _Thread_local _Atomic uint64_t *own_cells;
static _Thread_local bool own_alone;

static _Atomic uint64_t *shard_cells(uint32_t shard)
{
    return (_Atomic uint64_t *)(void *)&shards[shard].cells;
}

static void cell_add(enum metric metric, uint32_t cell, uint64_t n)
{
    if (own_cells == NULL) {
        uint32_t taken = atomic_fetch_add_explicit(&shards_taken, 1, memory_order_relaxed);
        own_alone = taken < THREADS_MAX - 1;
        own_cells = shard_cells(taken < THREADS_MAX ? taken : THREADS_MAX - 1);
    }
    _Atomic uint64_t *own = &own_cells[firsts[metric] + cell];
    if (own_alone) {
        atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + n, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(own, n, memory_order_relaxed);
    }
}

static uint64_t cell_total(enum metric metric, uint32_t cell)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < THREADS_MAX; i++)
        total += atomic_load_explicit(&shard_cells(i)[firsts[metric] + cell], memory_order_relaxed);
    return total;
}

void metrics_add(enum metric metric, uint64_t n)
{
    assert(rows[metric].kind == KIND_COUNTER);
    cell_add(metric, 0, n);
}

void metrics_add_labelled(enum metric metric, uint32_t label, uint64_t n)
{
    assert(rows[metric].kind == KIND_FAMILY && label < rows[metric].width);
    cell_add(metric, label, n);
}

void metrics_observe(enum metric metric, uint64_t value)
{
    assert(rows[metric].kind == KIND_HISTOGRAM);
    uint32_t bucket = value <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(value - 1);
    cell_add(metric, bucket < BUCKETS ? bucket : BUCKET_REST, 1);
    cell_add(metric, HISTOGRAM_SUM, value);
}

uint64_t metrics_total(enum metric metric, uint32_t label)
{
    const struct row *row = &rows[metric];
    if (row->kind != KIND_HISTOGRAM) {
        assert(label < row->width);
        return cell_total(metric, label);
    }
    uint64_t count = 0;
    for (uint32_t bucket = 0; bucket <= BUCKET_REST; bucket++) count += cell_total(metric, bucket);
    return count;
}

struct page {
    char *bytes;
    size_t size, len;
};

/* A line that does not fit is left out whole, and all after it: half a number would be a wrong number. */
static void __attribute__((format(printf, 2, 3))) page_print(struct page *page, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    assert(len >= 0 && (size_t)len < sizeof(line));
    if ((size_t)len > page->size - page->len) {
        page->size = page->len;
        return;
    }
    memcpy(page->bytes + page->len, line, (size_t)len);
    page->len += (size_t)len;
}

static void histogram_render(struct page *page, enum metric metric)
{
    const struct row *row = &rows[metric];
    uint64_t count = 0;
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
        count += cell_total(metric, bucket);
        double bound = (double)(UINT64_C(1) << bucket) * row->unit;
        page_print(page, "%s_bucket{le=\"%.9g\"} %llu\n", row->name, bound, (unsigned long long)count);
    }
    count += cell_total(metric, BUCKET_REST);
    double sum = (double)cell_total(metric, HISTOGRAM_SUM) * row->unit;
    page_print(page, "%s_bucket{le=\"+Inf\"} %llu\n", row->name, (unsigned long long)count);
    page_print(page, "%s_sum %.9g\n", row->name, sum);
    page_print(page, "%s_count %llu\n", row->name, (unsigned long long)count);
}

static void family_render(struct page *page, enum metric metric, const char *(*label)(enum metric metric, uint32_t value))
{
    const struct row *row = &rows[metric];
    for (uint32_t value = 0; value < row->width; value++) {
        const char *word = label(metric, value);
        if (word == NULL) continue;
        unsigned long long total = cell_total(metric, value);
        page_print(page, "%s{%s=\"%s\"} %llu\n", row->name, row->label, word, total);
    }
}

size_t metrics_render(char *out, size_t size, const char *(*label)(enum metric metric, uint32_t value))
{
    struct page page = { .bytes = out, .size = size };
    for (enum metric metric = 0; metric < METRIC_COUNT; metric++) {
        const struct row *row = &rows[metric];
        const char *type = row->kind == KIND_HISTOGRAM ? "histogram" : "counter";
        page_print(&page, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, type);
        switch (row->kind) {
        case KIND_COUNTER:
            page_print(&page, "%s %llu\n", row->name, (unsigned long long)cell_total(metric, 0));
            break;
        case KIND_FAMILY:
            family_render(&page, metric, label);
            break;
        case KIND_HISTOGRAM:
            histogram_render(&page, metric);
            break;
        }
    }
    return page.len;
}
