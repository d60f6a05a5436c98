/* What it costs to count one answer: nanoseconds, the median of several rounds, of one sale and of many in turn. */
#include "base/clock.h"
#include "base/text.h"
#include "gateway/counts.h"

#include <stdio.h>
#include <stdlib.h>

#define ANSWERS 4000000
#define ROUNDS 15

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 60,000 answers a second, as many as one reactor gives; one in sixteen is a win. */
static double round_time(struct counts_page *page, uint64_t sales, uint64_t second)
{
    uint64_t began_ns = mono_ns();
    for (uint64_t i = 0; i < ANSWERS; i++) {
        counts_add(page, 1 + i % sales, i % 16 == 0 ? COUNTED_WON : PROBLEM_SOLD_OUT, second + i / 60000);
        counts_took(page, 1 + i % sales, mono_ns() - began_ns);
    }
    return (double)(mono_ns() - began_ns) / ANSWERS;
}

int main(void)
{
    static const uint64_t sales[] = { 1, 100 };
    struct counts *counts;
    if (counts_open(&counts, 1) != FAULT_NONE) return 1;
    for (size_t i = 0; i < sizeof sales / sizeof *sales; i++) {
        double ns[ROUNDS];
        for (uint64_t nth = 0; nth < ROUNDS; nth++)
            ns[nth] = round_time(counts_page(counts, 0), sales[i], 1800000000 + nth * (ANSWERS / 60000));
        qsort(ns, ROUNDS, sizeof *ns, ascending);
        printf("%d\t%.2f\n", (int)sales[i], ns[ROUNDS / 2]);
    }
    counts_close(counts);
    return 0;
}
