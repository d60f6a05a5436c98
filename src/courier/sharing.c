#include "courier/sharing.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t left(uint32_t max, uint32_t taken)
{
    return max > taken ? max - taken : 0;
}

void sharing_count(struct sharing *sharing, const struct endpoint *endpoint)
{
    sharing->taken[endpoint_pace(endpoint)] += endpoint->in_flight;
    sharing->busy += endpoint->in_flight > 0;
}

/* The first place of an endpoint. The slow have half of the places at most, and with the unknown three quarters. */
static uint32_t first_room(const struct sharing *sharing, enum sharing_turn turn, const struct endpoint *endpoint)
{
    static const enum endpoint_pace paces[] = {
        [SHARING_QUICK] = ENDPOINT_QUICK, [SHARING_UNKNOWN] = ENDPOINT_UNKNOWN, [SHARING_SLOW] = ENDPOINT_SLOW
    };
    if (endpoint->in_flight > 0 || endpoint_pace(endpoint) != paces[turn]) return 0;
    uint32_t slow = sharing->taken[ENDPOINT_SLOW], unknown = sharing->taken[ENDPOINT_UNKNOWN], room = 1;
    if (turn == SHARING_SLOW) room = left(sharing->places / 2, slow);
    if (turn == SHARING_UNKNOWN) room = left(sharing->places - sharing->places / 4, slow + unknown);
    return smaller(room, 1);
}

/* More than one: an even share of three quarters of the places, while those are not all taken. */
static uint32_t more_room(const struct sharing *sharing, const struct endpoint *endpoint, uint32_t taken)
{
    uint32_t common = sharing->places - sharing->places / 4;
    uint32_t share = sharing->busy > 0 ? common / sharing->busy : common;
    if (endpoint->in_flight == 0) return 0;
    return smaller(left(common, taken), left(share > 2 ? share : 2, endpoint->in_flight));
}

uint32_t sharing_room(const struct sharing *sharing, enum sharing_turn turn, const struct endpoint *endpoint,
                      uint64_t now_ms)
{
    uint32_t taken = 0;
    for (size_t i = 0; i < ENDPOINT_PACE_COUNT; i++) taken += sharing->taken[i];
    uint32_t room = turn == SHARING_MORE ? more_room(sharing, endpoint, taken) : first_room(sharing, turn, endpoint);
    return smaller(smaller(room, left(sharing->places, taken)), endpoint_room(endpoint, now_ms));
}
