/* dice: repeatable random numbers for tests (splitmix64). */
#ifndef STAMPEDE_TESTS_DICE_H
#define STAMPEDE_TESTS_DICE_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Another one each run, unless SEED is set; printed, so that a failure can be had again. */
static inline uint64_t dice_seed(void)
{
    const char *given = getenv("SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    fprintf(stderr, "SEED=%" PRIu64 "\n", seed);
    return seed;
}

static inline uint64_t dice_roll(uint64_t *dice)
{
    uint64_t x = *dice += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Below n, which is small: the bias does not matter here. */
static inline uint32_t dice_below(uint64_t *dice, uint32_t n)
{
    return (uint32_t)(dice_roll(dice) % n);
}

#endif
