#include "engine/holdings.h"

#include "base/siphash.h"

#include <assert.h>
#include <string.h>

enum fault holdings_open(struct holdings *holdings, uint32_t orders_max, const uint8_t hash_key[16])
{
    *holdings = (struct holdings){ 0 };
    memcpy(holdings->hash_key, hash_key, sizeof holdings->hash_key);

    enum fault fault = pool_open(&holdings->orders, sizeof(struct holding), orders_max);
    /* An order has two texts at most: one that finds a cell finds its texts' cells too. */
    if (fault == FAULT_NONE) fault = texts_open(&holdings->texts, orders_max * 2);
    if (fault == FAULT_NONE) fault = region_open(&holdings->nonces, (orders_max + UINT64_C(1)) * sizeof(uint64_t));
    if (fault == FAULT_NONE) fault = region_open(&holdings->refs, (orders_max + UINT64_C(1)) * sizeof(uint64_t));
    if (fault == FAULT_NONE)
        fault = index_open_sparse(&holdings->by_buyer, &holdings->orders, offsetof(struct holding, buyer_hash),
                                  offsetof(struct holding, buyer_link));
    if (fault == FAULT_NONE)
        fault = index_open(&holdings->by_no, &holdings->orders, offsetof(struct holding, no_low),
                           offsetof(struct holding, no_link));
    if (fault == FAULT_NONE)
        fault = index_open(&holdings->by_key, &holdings->orders, offsetof(struct holding, key_hash),
                           offsetof(struct holding, key_link));
    if (fault != FAULT_NONE) holdings_close(holdings);
    return fault;
}

void holdings_close(struct holdings *holdings)
{
    index_close(&holdings->by_key);
    index_close(&holdings->by_no);
    index_close(&holdings->by_buyer);
    region_close(&holdings->refs);
    region_close(&holdings->nonces);
    texts_close(&holdings->texts);
    pool_close(&holdings->orders);
}

/* A number and a text of 64 bytes at most, as one. */
struct numbered {
    uint8_t bytes[sizeof(uint64_t) + 64];
    size_t len;
};

static void numbered_put(struct numbered *out, uint64_t number, struct slice text)
{
    assert(text.len <= sizeof out->bytes - sizeof number);
    memcpy(out->bytes, &number, sizeof number);
    if (text.len > 0) memcpy(out->bytes + sizeof number, text.data, text.len);
    out->len = sizeof number + text.len;
}

static uint64_t hash_number_and_text(const struct holdings *holdings, uint64_t number, struct slice text)
{
    struct numbered numbered;
    numbered_put(&numbered, number, text);
    return siphash(holdings->hash_key, numbered.bytes, numbered.len);
}

struct holder holder_of(const struct holdings *holdings, uint64_t sale_id, struct slice buyer)
{
    struct numbered numbered;
    numbered_put(&numbered, sale_id, buyer);
    return (struct holder){
        .hash = siphash_of_table(holdings->hash_key, numbered.bytes, numbered.len),
        .slot = (uint32_t)(sale_id % SALES_OPEN_MAX),
        .buyer = buyer,
    };
}

struct holder holder_hashed(const struct holdings *holdings, uint64_t sale_id, struct slice buyer, uint64_t hash)
{
    if (hash == 0) return holder_of(holdings, sale_id, buyer);
    return (struct holder){ .hash = hash, .slot = (uint32_t)(sale_id % SALES_OPEN_MAX), .buyer = buyer };
}

void holdings_expect(const struct holdings *holdings, uint64_t hash)
{
    index_prefetch(&holdings->by_buyer, (uint32_t)hash);
}

void holdings_expect_order(const struct holdings *holdings, uint64_t hash)
{
    index_prefetch_first(&holdings->by_buyer, (uint32_t)hash);
}

void holdings_expect_name(const struct holdings *holdings, uint64_t hash)
{
    uint32_t cell = index_first(&holdings->by_buyer, (uint32_t)hash);
    if (cell == 0) return;
    const struct holding *holding = holding_at(holdings, cell);
    __builtin_prefetch(texts_at(&holdings->texts, holding->buyer_cell, holding->buyer_len).data);
}

bool holdings_may_hold(const struct holdings *holdings, const struct holder *holder)
{
    return index_may_have(&holdings->by_buyer, (uint32_t)holder->hash);
}

/* A slot is given to another sale only when its last order is gone, so a slot says which sale. */
static bool is_holder(const struct holdings *holdings, const struct holding *holding, const struct holder *holder)
{
    return holding->slot == holder->slot &&
           slice_equal(texts_at(&holdings->texts, holding->buyer_cell, holding->buyer_len), holder->buyer);
}

uint32_t holdings_standing(const struct holdings *holdings, const struct holder *holder)
{
    uint32_t cell = index_first(&holdings->by_buyer, (uint32_t)holder->hash);
    while (cell != 0 && !is_holder(holdings, holding_at(holdings, cell), holder))
        cell = index_next(&holdings->by_buyer, cell);
    return cell;
}

static bool is_key(const struct holdings *holdings, const struct holding *holding, struct slice key)
{
    return slice_equal(texts_at(&holdings->texts, holding->key_cell, holding->key_len), key);
}

uint32_t holdings_by_key(const struct holdings *holdings, const struct holder *holder, struct slice key)
{
    if (key.len == 0 || !holdings_may_hold(holdings, holder)) return 0;
    uint32_t cell = index_first(&holdings->by_key, (uint32_t)hash_number_and_text(holdings, holder->hash, key));
    while (cell != 0) {
        const struct holding *holding = holding_at(holdings, cell);
        if (is_key(holdings, holding, key) && is_holder(holdings, holding, holder)) break;
        cell = index_next(&holdings->by_key, cell);
    }
    return cell;
}

uint32_t holdings_by_no(const struct holdings *holdings, uint64_t no)
{
    uint32_t cell = index_first(&holdings->by_no, (uint32_t)no);
    while (cell != 0 && holding_no(holding_at(holdings, cell)) != no) cell = index_next(&holdings->by_no, cell);
    return cell;
}

static uint64_t *nonce_at(const struct holdings *holdings, uint32_t cell)
{
    return (uint64_t *)(void *)holdings->nonces.base + cell;
}

bool holdings_have_room(const struct holdings *holdings)
{
    return holdings->orders.used < holdings->orders.cells_max;
}

static uint64_t *ref_at(const struct holdings *holdings, uint32_t cell)
{
    return (uint64_t *)(void *)holdings->refs.base + cell;
}

static void ref_put(struct holdings *holdings, uint32_t cell, uint64_t ref_hash)
{
    if (ref_hash == 0) return;
    holding_at(holdings, cell)->ref = 1;
    *ref_at(holdings, cell) = ref_hash;
    if (holdings->refs_last < cell) holdings->refs_last = cell;
}

static bool holding_counts(const struct holding *holding)
{
    return order_state_counts((enum order_state)holding->state);
}

/* Of two orders of one buyer, the one to stand for both. */
static bool goes_before(const struct holding *a, const struct holding *b)
{
    if (holding_counts(a) != holding_counts(b)) return holding_counts(a);
    return holding_no(a) > holding_no(b);
}

/* Lets an order stand for its buyer's in the place of another, where it goes before that. Answers which one stands. */
static struct holding *stand_in(struct holdings *holdings, uint32_t cell, uint32_t other_cell)
{
    struct holding *holding = holding_at(holdings, cell), *other = holding_at(holdings, other_cell);
    if (cell == other_cell || !goes_before(holding, other)) return other;
    holding->grabs = other->grabs;
    holding->returns = other->returns;
    holding->stands = 1;
    other->stands = 0;
    index_replace(&holdings->by_buyer, other_cell, cell);
    return holding;
}

/* One more of the buyer's orders counts, or has ended. */
static void standing_add(struct holding *standing, bool counts)
{
    if (counts) {
        standing->grabs = (standing->grabs + 1u) & 0xfffff;
    } else if (standing->returns < RETURNS_COUNTED_MAX) {
        standing->returns = (standing->returns + 1u) & 0x3f;
    }
}

/* One fewer. Of more returns than are counted nobody knows how many are left: they stay too many. */
static void standing_take(struct holding *standing, bool counts)
{
    assert(counts ? standing->grabs > 0 : standing->returns > 0);
    if (counts) {
        standing->grabs = (standing->grabs - 1u) & 0xfffff;
    } else if (standing->returns < RETURNS_COUNTED_MAX) {
        standing->returns = (standing->returns - 1u) & 0x3f;
    }
}

/* The cell that stands for the buyer of this one. */
static uint32_t standing_of(const struct holdings *holdings, uint32_t cell)
{
    const struct holding *holding = holding_at(holdings, cell);
    if (holding->stands) return cell;
    struct holder holder = {
        .hash = holding->buyer_hash, /* all that the index by buyer asks for */
        .slot = holding->slot,
        .buyer = texts_at(&holdings->texts, holding->buyer_cell, holding->buyer_len),
    };
    uint32_t standing = holdings_standing(holdings, &holder);
    assert(standing != 0);
    return standing;
}

void holdings_turn(struct holdings *holdings, uint32_t cell, enum order_state state, uint64_t ref_hash)
{
    struct holding *holding = holding_at(holdings, cell);
    bool counted = holding_counts(holding);
    holding->state = state & 0x7;
    ref_put(holdings, cell, ref_hash);
    if (holding_counts(holding) == counted) return;

    uint32_t standing_cell = standing_of(holdings, cell);
    struct holding *standing = counted ? holding_at(holdings, standing_cell) : stand_in(holdings, cell, standing_cell);
    standing_take(standing, counted);
    standing_add(standing, !counted);
}

uint64_t holdings_ref_hash(const struct holdings *holdings, uint64_t order_no, struct slice ref)
{
    uint64_t hash = hash_number_and_text(holdings, order_no, ref);
    return hash == 0 ? 1 : hash;
}

uint64_t holdings_ref(const struct holdings *holdings, uint32_t cell)
{
    return holding_at(holdings, cell)->ref ? *ref_at(holdings, cell) : 0;
}

uint32_t holdings_grabs(const struct holdings *holdings, uint32_t cell)
{
    return holding_at(holdings, standing_of(holdings, cell))->grabs;
}

uint64_t holdings_pay_by_ms(const struct holdings *holdings, uint32_t cell)
{
    const struct holding *holding = holding_at(holdings, cell);
    return holding->pay_within_s == 0 ? 0 : holding->won_ms + holding->pay_within_s * UINT64_C(1000);
}

uint32_t holdings_add(struct holdings *holdings, const struct holder *holder, const struct holding_new *order,
                      uint32_t *list)
{
    assert(order->units > 0);
    assert(holder->buyer.len > 0 && holder->buyer.len <= BUYER_BYTES_MAX);
    assert(order->key.len <= IDEMPOTENCY_KEY_BYTES_MAX);

    uint32_t cell = pool_acquire(&holdings->orders);
    assert(cell != 0);
    struct holding *holding = holding_at(holdings, cell);
    uint32_t standing = holdings_standing(holdings, holder);
    bool counts = order_state_counts(order->state), alone = standing == 0;
    *holding = (struct holding){
        .older = *list,
        .no_low = (uint32_t)order->no,
        .no_high = (uint32_t)(order->no >> 32),
        .won_ms = order->won_ms,
        .buyer_hash = (uint32_t)holder->hash,
        .buyer_cell = texts_put(&holdings->texts, holder->buyer),
        .buyer_len = (uint8_t)holder->buyer.len,
        .units = order->units,
        .pay_within_s = order->pay_within_s,
        .grabs = alone && counts,
        .returns = alone && !counts,
        .state = order->state & 0x7,
        .token = order->token_nonce != 0,
        .stands = alone,
        .slot = (uint16_t)holder->slot,
    };
    *list = cell;
    if (order->token_nonce != 0) {
        *nonce_at(holdings, cell) = order->token_nonce;
        if (holdings->nonces_last < cell) holdings->nonces_last = cell;
    }
    ref_put(holdings, cell, order->ref_hash);
    index_put(&holdings->by_no, cell);
    if (order->key.len > 0) {
        holding->key_cell = texts_put(&holdings->texts, order->key);
        holding->key_len = (uint8_t)order->key.len;
        holding->key_hash = (uint32_t)hash_number_and_text(holdings, holder->hash, order->key);
        index_put(&holdings->by_key, cell);
    }
    if (alone) {
        index_put(&holdings->by_buyer, cell);
    } else {
        standing_add(stand_in(holdings, cell, standing), counts);
    }
    return cell;
}

void holdings_drop(struct holdings *holdings, uint32_t *list)
{
    uint32_t cell = *list;
    assert(cell != 0);
    struct holding *holding = holding_at(holdings, cell);
    *list = holding->older;

    index_remove(&holdings->by_no, cell);
    if (holding->stands) index_remove(&holdings->by_buyer, cell);
    if (holding->key_cell != 0) {
        index_remove(&holdings->by_key, cell);
        texts_drop(&holdings->texts, holding->key_cell, holding->key_len);
    }
    texts_drop(&holdings->texts, holding->buyer_cell, holding->buyer_len);
    holding->units = 0;
    pool_release(&holdings->orders, cell);
}

void holdings_order(const struct holdings *holdings, uint32_t cell, const struct sale *sale, struct order *out)
{
    const struct holding *holding = holding_at(holdings, cell);
    out->no = holding_no(holding);
    out->sale_id = sale->id;
    texts_copy(&holdings->texts, holding->buyer_cell, holding->buyer_len, out->buyer);
    texts_copy(&holdings->texts, holding->key_cell, holding->key_len, out->key);
    out->units = holding->units;
    out->amount = sale_amount(&sale->terms, holding->units);
    out->state = (enum order_state)holding->state;
    out->won_ms = holding->won_ms;
    out->pay_by_ms = holdings_pay_by_ms(holdings, cell);
    out->token_nonce = holding->token ? *nonce_at(holdings, cell) : 0;
}

bool holdings_make_ready(struct holdings *holdings, uint32_t part)
{
    return index_make_ready(&holdings->by_buyer, part);
}

struct engine_reach holdings_reach(const struct holdings *holdings, uint32_t orders)
{
    const struct pool *sizes = holdings->texts.sizes;
    return (struct engine_reach){ .orders = pool_reach(&holdings->orders, orders),
                                  .texts = { pool_reach(&sizes[0], orders), pool_reach(&sizes[1], orders) } };
}

bool holdings_make_orders_ready(struct holdings *holdings, const struct engine_reach *reach)
{
    struct pool *sizes = holdings->texts.sizes;
    return pool_make_ready(&holdings->orders, reach->orders) || pool_make_ready(&sizes[0], reach->texts[0]) ||
           pool_make_ready(&sizes[1], reach->texts[1]);
}

uint64_t holdings_bytes(const struct holdings *holdings)
{
    uint64_t bytes = pool_bytes(&holdings->orders) + texts_bytes(&holdings->texts);
    bytes += ((uint64_t)holdings->nonces_last + holdings->refs_last) * sizeof(uint64_t);
    return bytes + index_bytes(&holdings->by_buyer) + index_bytes(&holdings->by_no) + index_bytes(&holdings->by_key);
}
