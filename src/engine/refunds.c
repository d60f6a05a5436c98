#include "engine/refunds.h"

#include <assert.h>

#define PLACES 65536

struct place {
    uint64_t order_no; /* 0: nobody's */
    uint64_t ref_hash;
};

static struct place *place_at(const struct refunds *refunds, uint64_t order_no)
{
    return (struct place *)(void *)refunds->places.base + order_no % PLACES;
}

enum fault refunds_open(struct refunds *refunds)
{
    return region_open(&refunds->places, PLACES * sizeof(struct place));
}

void refunds_close(struct refunds *refunds)
{
    region_close(&refunds->places);
}

void refunds_put(struct refunds *refunds, uint64_t order_no, uint64_t ref_hash)
{
    assert(order_no != 0 && ref_hash != 0);
    *place_at(refunds, order_no) = (struct place){ order_no, ref_hash };
}

uint64_t refunds_find(const struct refunds *refunds, uint64_t order_no)
{
    const struct place *place = place_at(refunds, order_no);
    return place->order_no == order_no ? place->ref_hash : 0;
}
