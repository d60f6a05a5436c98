#include "engine/sale.h"

#include <stddef.h>
#include <string.h>

/* Terms also come from a disk: no byte of them is believed before it was looked at, not even the NUL at the end. */
static bool text_fits(const char *text, size_t bytes_max)
{
    return strnlen(text, bytes_max + 1) <= bytes_max;
}

const char *sale_terms_objection(const struct sale_terms *terms)
{
    if (terms->name[0] == '\0' || !text_fits(terms->name, SALE_NAME_BYTES_MAX)) return "name must have 1 to 128 bytes";
    if (!text_fits(terms->description, SALE_DESCRIPTION_BYTES_MAX)) return "description must have at most 2000 bytes";
    if (!text_fits(terms->currency, CURRENCY_BYTES)) return "currency must have three letters";
    if (terms->price < -1 || terms->price > PRICE_MAX) return "price must be 0 to 1000000000000";
    if (terms->units_per_grab_max == 0 || terms->units_per_grab_max > UNITS_PER_GRAB_MAX)
        return "units_per_grab_max must be 1 to 1000000000";
    if (terms->grabs_per_buyer_max == 0 || terms->grabs_per_buyer_max > GRABS_PER_BUYER_MAX)
        return "grabs_per_buyer_max must be 1 to 1000000";
    if (terms->opens_ms > TIME_MS_MAX) return "opens_at must be before the year 10000";
    if (terms->closes_ms > TIME_MS_MAX) return "closes_at must be before the year 10000";
    if (terms->pay_within_s > PAY_WITHIN_S_MAX) return "pay_within_s must be at most 31536000";
    if (terms->admission > ADMISSION_LOGIN) return "admission must be open or login";
    if (terms->closes_ms != 0 && terms->closes_ms <= terms->opens_ms) return "closes_at must be later than opens_at";
    if (terms->price > 0 && terms->price > AMOUNT_MAX / (int64_t)terms->units_per_grab_max)
        return "price times units_per_grab_max must be at most 9007199254740991";
    return NULL;
}
