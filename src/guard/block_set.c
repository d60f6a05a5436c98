#include "guard/block_set.h"

#include "base/region.h"
#include "base/siphash.h"

#include <assert.h>
#include <stdlib.h>

#define SLOTS_MIN 16
/* Bits of the filter for each slot, and those an address sets, all in one word: about one address in a hundred that is not
 * there passes. */
#define FILTER_BITS_A_SLOT 8
#define FILTER_BITS_SET 3

/* Where the bytes of an entry begin: of a user the name, of an address its halves and its prefix. */
struct record {
    uint64_t serial;
    uint32_t at;
    uint8_t name_len; /* 0: an address */
};

struct stored_address {
    uint64_t high, low;
    uint8_t prefix;
} __attribute__((packed));

/* The lengths of prefix that occur in one family of addresses. */
struct lengths {
    struct length {
        uint64_t mask_high, mask_low;
        uint8_t prefix;
    } each[129];
    uint32_t count;
};

struct block_set {
    uint8_t key[16];
    uint64_t key_high, key_low; /* the same, for addresses */
    uint64_t slot_mask;
    struct region looks; /* of tags and filter, all that most look-ups read */
    uint8_t *tags;       /* of each slot: 0, or a byte of the hash that is never 0 */
    uint32_t *slots;     /* numbers of records */
    uint64_t *filter;
    uint64_t filter_mask;
    struct record *records;
    char *bytes;
    uint32_t *order; /* records by serial; NULL while that is the order they came in */
    uint32_t count, count_max;
    size_t bytes_len, bytes_max, name_bytes;
    struct lengths ipv4, ipv6;
};

enum fault block_set_open(struct block_set **out, const uint8_t key[16], uint32_t entries_max, size_t name_bytes_max)
{
    struct block_set *set = calloc(1, sizeof *set);
    if (set == NULL) return FAULT_MEMORY;
    memcpy(set->key, key, sizeof set->key);
    memcpy(&set->key_high, key, 8);
    memcpy(&set->key_low, key + 8, 8);
    size_t slots = SLOTS_MIN;
    while (slots < 2 * (size_t)entries_max) slots *= 2; /* at most half full, so that runs are short */
    set->slot_mask = slots - 1;
    set->count_max = entries_max;
    set->bytes_max = name_bytes_max + entries_max * sizeof(struct stored_address);
    assert(set->bytes_max <= UINT32_MAX);
    set->filter_mask = slots * FILTER_BITS_A_SLOT / 64 - 1;
    set->slots = malloc(slots * sizeof *set->slots);
    set->records = malloc((size_t)entries_max * sizeof *set->records + 1);
    set->bytes = malloc(set->bytes_max + 1);
    size_t filter_bytes = (set->filter_mask + 1) * sizeof *set->filter;
    bool looks = region_open(&set->looks, filter_bytes + slots * sizeof *set->tags) == FAULT_NONE;
    if (!looks || set->slots == NULL || set->records == NULL || set->bytes == NULL) {
        block_set_close(set);
        return FAULT_MEMORY;
    }
    region_huge(&set->looks);
    set->filter = (uint64_t *)(void *)set->looks.base;
    set->tags = set->looks.base + filter_bytes;
    *out = set;
    return FAULT_NONE;
}

void block_set_close(struct block_set *set)
{
    region_close(&set->looks);
    free(set->slots);
    free(set->records);
    free(set->bytes);
    free(set->order);
    free(set);
}

/* Entries are the operator's and the key is ours, so two multiplications are hash enough for addresses; there may be many to
 * look for, where a name is one. */
static uint64_t address_hash(const struct block_set *set, uint64_t high, uint64_t low, unsigned prefix)
{
    __uint128_t product = (__uint128_t)(high ^ set->key_high ^ prefix * UINT64_C(0x9e3779b97f4a7c15)) *
                          (low ^ set->key_low ^ UINT64_C(1) << 63);
    uint64_t mixed = (uint64_t)product ^ (uint64_t)(product >> 64);
    product = (__uint128_t)mixed * UINT64_C(0xd6e8feb86659fd93);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t entry_hash(const struct block_set *set, const struct block_entry *entry)
{
    if (entry->is_user) return siphash(set->key, entry->user.data, entry->user.len);
    return address_hash(set, entry->high, entry->low, entry->prefix);
}

static struct block_entry record_entry(const struct block_set *set, const struct record *record)
{
    const char *bytes = set->bytes + record->at;
    if (record->name_len > 0) return (struct block_entry){ .is_user = true, .user = { bytes, record->name_len } };
    struct stored_address stored;
    memcpy(&stored, bytes, sizeof stored);
    return (struct block_entry){ .high = stored.high, .low = stored.low, .prefix = stored.prefix };
}

static uint8_t hash_tag(uint64_t hash)
{
    return (uint8_t)(0x80 | hash >> 57);
}

/* The slot of the entry, or the free one where it would stand. */
static uint64_t slot_find(const struct block_set *set, const struct block_entry *entry, uint64_t hash)
{
    uint8_t tag = hash_tag(hash);
    uint64_t slot = hash & set->slot_mask;
    for (; set->tags[slot] != 0; slot = (slot + 1) & set->slot_mask) {
        if (set->tags[slot] != tag) continue;
        struct block_entry there = record_entry(set, &set->records[set->slots[slot]]);
        if (block_entry_equal(&there, entry)) break;
    }
    return slot;
}

static void length_add(struct lengths *lengths, uint8_t prefix)
{
    for (uint32_t i = 0; i < lengths->count; i++) {
        if (lengths->each[i].prefix == prefix) return;
    }
    lengths->each[lengths->count++] = (struct length){ prefix_mask(prefix, 0), prefix_mask(prefix, 1), prefix };
}

static uint64_t filter_bits(uint64_t hash)
{
    uint64_t bits = 0;
    for (int i = 1; i <= FILTER_BITS_SET; i++) bits |= UINT64_C(1) << (hash >> (64 - 6 * i) & 63);
    return bits;
}

static void bytes_append(struct block_set *set, const void *data, size_t len)
{
    assert(len <= set->bytes_max - set->bytes_len);
    memcpy(set->bytes + set->bytes_len, data, len);
    set->bytes_len += len;
}

bool block_set_put(struct block_set *set, const struct block_entry *entry, uint64_t serial)
{
    uint64_t hash = entry_hash(set, entry), slot = slot_find(set, entry, hash);
    if (set->tags[slot] != 0) return false;
    assert(set->count < set->count_max && serial > 0);
    set->tags[slot] = hash_tag(hash);
    set->slots[slot] = set->count;
    set->records[set->count++] = (struct record){
        .serial = serial,
        .at = (uint32_t)set->bytes_len,
        .name_len = entry->is_user ? (uint8_t)entry->user.len : 0,
    };
    if (entry->is_user) {
        assert(entry->user.len > 0 && entry->user.len <= UINT8_MAX);
        bytes_append(set, entry->user.data, entry->user.len);
        set->name_bytes += entry->user.len;
    } else {
        const struct stored_address stored = { entry->high, entry->low, entry->prefix };
        bytes_append(set, &stored, sizeof stored);
        set->filter[hash & set->filter_mask] |= filter_bits(hash);
        length_add(address_is_ipv4(entry->high, entry->low) && entry->prefix >= 96 ? &set->ipv4 : &set->ipv6, entry->prefix);
    }
    return true;
}

static int order_compare(const void *a, const void *b, void *arg)
{
    const struct record *records = arg;
    uint64_t left = records[*(const uint32_t *)a].serial, right = records[*(const uint32_t *)b].serial;
    return left < right ? -1 : left > right;
}

enum fault block_set_finish(struct block_set *set)
{
    uint32_t sorted = 1;
    while (sorted < set->count && set->records[sorted - 1].serial < set->records[sorted].serial) sorted++;
    if (sorted >= set->count) return FAULT_NONE;
    set->order = malloc((size_t)set->count * sizeof *set->order);
    if (set->order == NULL) return FAULT_MEMORY;
    for (uint32_t i = 0; i < set->count; i++) set->order[i] = i;
    qsort_r(set->order, set->count, sizeof *set->order, order_compare, set->records);
    return FAULT_NONE;
}

uint64_t block_set_serial(const struct block_set *set, const struct block_entry *entry)
{
    uint64_t slot = slot_find(set, entry, entry_hash(set, entry));
    return set->tags[slot] != 0 ? set->records[set->slots[slot]].serial : 0;
}

uint64_t block_set_expect_user(const struct block_set *set, struct slice name)
{
    if (set->count == 0) return 0; /* most shops block nobody */
    const struct block_entry entry = { .is_user = true, .user = name };
    uint64_t hash = entry_hash(set, &entry);
    __builtin_prefetch(&set->tags[hash & set->slot_mask]);
    return hash;
}

bool block_set_has_user(const struct block_set *set, struct slice name, uint64_t hash)
{
    if (set->count == 0 || name.len == 0) return false;
    const struct block_entry entry = { .is_user = true, .user = name };
    return set->tags[slot_find(set, &entry, hash)] != 0;
}

bool block_set_has_address(const struct block_set *set, const uint8_t address[16])
{
    uint64_t high, low;
    address_halves(address, &high, &low);
    const struct lengths *lengths = address_is_ipv4(high, low) ? &set->ipv4 : &set->ipv6;
    const struct length *passed[129];
    uint32_t passed_count = 0;
    /* Without a branch, so that the memory of all lengths is asked for at once. */
    for (uint32_t i = 0; i < lengths->count; i++) {
        const struct length *length = &lengths->each[i];
        uint64_t hash = address_hash(set, high & length->mask_high, low & length->mask_low, length->prefix);
        passed[passed_count] = length;
        passed_count += (~set->filter[hash & set->filter_mask] & filter_bits(hash)) == 0;
    }
    for (uint32_t i = 0; i < passed_count; i++) {
        const struct block_entry entry = {
            .high = high & passed[i]->mask_high,
            .low = low & passed[i]->mask_low,
            .prefix = passed[i]->prefix,
        };
        if (block_set_serial(set, &entry) != 0) return true;
    }
    return false;
}

uint32_t block_set_count(const struct block_set *set)
{
    return set->count;
}

size_t block_set_name_bytes(const struct block_set *set)
{
    return set->name_bytes;
}

static const struct record *record_at(const struct block_set *set, uint32_t place)
{
    return &set->records[set->order != NULL ? set->order[place] : place];
}

void block_set_each(const struct block_set *set, uint64_t after, uint32_t limit,
                    void (*visit)(void *arg, const struct block_entry *entry, uint64_t serial), void *arg)
{
    uint32_t first = 0, end = set->count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (record_at(set, middle)->serial > after) {
            end = middle;
        } else {
            first = middle + 1;
        }
    }
    for (; first < set->count && limit > 0; first++, limit--) {
        const struct record *record = record_at(set, first);
        struct block_entry entry = record_entry(set, record);
        visit(arg, &entry, record->serial);
    }
}
