#include "doors/doors.h"

const struct doors doors_all = { .coupon = true, .claim = true, .cart = true };

void doors_collect(const struct doors *open, struct route_tables *out)
{
    *out = (struct route_tables){ .count = 0 };
    if (open->coupon) out->tables[out->count++] = coupon_door;
    if (open->claim) out->tables[out->count++] = claim_door;
    if (open->cart) out->tables[out->count++] = cart_door;
}
