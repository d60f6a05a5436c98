#include "doors/goods.h"

#include "base/siphash.h"

#include <string.h>

#define PLACES 64

struct place {
    uint64_t sale_id; /* 0: empty */
    uint64_t until_ms;
    struct goods goods;
};

static _Thread_local struct place places[PLACES];

/* Whoever finds names that meet in one place makes the two forget each other, and no more. */
static struct place *place_of(const struct goods *goods)
{
    static const uint8_t key[16] = "stampede.goods";
    uint64_t hash = siphash(key, goods->name, strlen(goods->name)) ^ 3 * siphash(key, goods->event, strlen(goods->event));
    return &places[hash % PLACES];
}

static bool place_is_of(const struct place *place, const struct goods *goods)
{
    return place->sale_id != 0 && strcmp(place->goods.name, goods->name) == 0 &&
           strcmp(place->goods.event, goods->event) == 0;
}

bool goods_recall(const struct goods *goods, uint64_t now_ms, uint64_t *sale_id)
{
    struct place *place = place_of(goods);
    if (!place_is_of(place, goods)) return false;
    if (now_ms >= place->until_ms) {
        bool lately = now_ms < place->until_ms + GOODS_MS;
        place->until_ms = now_ms + GOODS_MS;
        if (!lately) place->sale_id = 0;
        return false;
    }
    *sale_id = place->sale_id;
    return true;
}

void goods_remember(const struct goods *goods, uint64_t now_ms, uint64_t sale_id)
{
    struct place *place = place_of(goods);
    place->sale_id = sale_id;
    place->until_ms = now_ms + GOODS_MS;
    place->goods = *goods;
}

void goods_forget(const struct goods *goods)
{
    struct place *place = place_of(goods);
    if (place_is_of(place, goods)) place->sale_id = 0;
}
