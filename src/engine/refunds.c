#include "engine/refunds.h"

#include <assert.h>

#define PLACES 65536
#define WAYS 4

static struct refund *places_of(const struct refunds *refunds, uint64_t order_no)
{
    return (struct refund *)(void *)refunds->places.base + order_no % (PLACES / WAYS) * WAYS;
}

/* Its own place if it has one, else one that is nobody's, else that of the oldest. */
static struct refund *place_for(const struct refunds *refunds, uint64_t order_no)
{
    struct refund *places = places_of(refunds, order_no), *oldest = places;
    for (struct refund *place = places; place < places + WAYS; place++) {
        if (place->order_no == order_no) return place;
        if (place->seq < oldest->seq) oldest = place;
    }
    return oldest;
}

enum fault refunds_open(struct refunds *refunds)
{
    *refunds = (struct refunds){ .seq_filed = 0 };
    return region_open(&refunds->places, PLACES * sizeof(struct refund));
}

void refunds_close(struct refunds *refunds)
{
    region_close(&refunds->places);
}

void refunds_filed(struct refunds *refunds, uint64_t seq)
{
    if (refunds->seq_filed < seq) refunds->seq_filed = seq;
}

bool refunds_have_room(const struct refunds *refunds, uint64_t order_no, uint64_t now_ms)
{
    const struct refund *place = place_for(refunds, order_no);
    if (place->order_no == 0 || place->order_no == order_no) return true;
    return place->seq <= refunds->seq_filed && now_ms >= place->at_ms + REFUND_KEPT_MS_MIN;
}

void refunds_put(struct refunds *refunds, const struct refund *refund)
{
    assert(refund->order_no != 0 && refund->ref_hash != 0);
    *place_for(refunds, refund->order_no) = *refund;
}

uint64_t refunds_find(const struct refunds *refunds, uint64_t order_no)
{
    const struct refund *place = place_for(refunds, order_no);
    return place->order_no == order_no ? place->ref_hash : 0;
}
