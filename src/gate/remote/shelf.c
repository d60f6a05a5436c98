#include "gate/remote/shelf.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/region.h"
#include "base/siphash.h"
#include "engine/buyer.h"
#include "gate/remote/filter.h"
#include "gate/remote/number.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Twice as many cells as sales, and a sale stands within so many of where its id points: a shelf that is full but for a few
 * still finds a place. */
#define CELLS (2 * SALES_OPEN_MAX)
#define CELLS_LOOKED_MAX 64
#define WINNERS_MAX UINT32_C(16000000)
#define NAMES_PAST 4096
#define PAGE_LOOKED_MAX 2048 /* of one page: others wait for the lock */

struct shelf_cell {
    struct board board; /* its sale_id is 0 where nothing stands */
    _Atomic bool used;  /* ever: those behind it may have been put past it */
    _Atomic uint64_t asked_ms;
    _Atomic uint32_t asking;       /* grabs of this node that have a part of the share */
    _Atomic uint64_t winners_made; /* the filter has all winners of so many orders; 0: it has not */
    _Atomic uint64_t fresh_ms;     /* monotonic: what Redis had by then is here */
    /* Under the lock. */
    uint64_t epoch, version, counted_ms;
    uint64_t left_ms; /* the time of left */
    uint32_t left;    /* available, as the notice has it */
    struct sale sale;
    uint32_t *winners; /* their hashes */
    uint32_t winners_count;
};

struct shelf {
    pthread_mutex_t lock;
    struct region cells;
    uint8_t hash_key[16];
    struct filter winners;
    _Atomic uint64_t names_version, id_last;
    /* Under the lock: which cells are in use, in no order. */
    struct {
        uint32_t cell;
        uint64_t name; /* hash of seller and name */
    } live[SALES_OPEN_MAX];
    struct {
        uint64_t name, id;
    } past[NAMES_PAST]; /* by their hashes */
    uint32_t live_count;
};

static struct shelf_cell *cell_at(const struct shelf *shelf, uint64_t index)
{
    return (struct shelf_cell *)(void *)shelf->cells.base + index % CELLS;
}

static uint64_t cell_home(uint64_t sale_id)
{
    return (sale_id * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

/* No lock. */
static struct shelf_cell *cell_find(const struct shelf *shelf, uint64_t sale_id)
{
    uint64_t home = cell_home(sale_id);
    for (uint32_t i = 0; i < CELLS_LOOKED_MAX && sale_id != 0; i++) {
        struct shelf_cell *cell = cell_at(shelf, home + i);
        if (!atomic_load_explicit(&cell->used, memory_order_acquire)) return NULL;
        if (atomic_load_explicit(&cell->board.sale_id, memory_order_relaxed) == sale_id) return cell;
    }
    return NULL;
}

static struct shelf_cell *cell_free(const struct shelf *shelf, uint64_t sale_id, uint32_t *index)
{
    uint64_t home = cell_home(sale_id);
    for (uint32_t i = 0; i < CELLS_LOOKED_MAX; i++) {
        struct shelf_cell *cell = cell_at(shelf, home + i);
        *index = (uint32_t)((home + i) % CELLS);
        if (atomic_load_explicit(&cell->board.sale_id, memory_order_relaxed) == 0) return cell;
    }
    return NULL;
}

enum fault shelf_open(struct shelf **out)
{
    struct shelf *shelf = calloc(1, sizeof *shelf);
    if (shelf == NULL) return FAULT_MEMORY;
    pthread_mutex_init(&shelf->lock, NULL);
    random_bytes(shelf->hash_key, sizeof shelf->hash_key);
    enum fault fault = region_open(&shelf->cells, CELLS * sizeof(struct shelf_cell));
    if (fault == FAULT_NONE) fault = filter_open(&shelf->winners, WINNERS_MAX);
    if (fault != FAULT_NONE) {
        shelf_close(shelf);
        return fault;
    }
    *out = shelf;
    return FAULT_NONE;
}

void shelf_close(struct shelf *shelf)
{
    if (shelf == NULL) return;
    for (uint32_t i = 0; i < shelf->live_count; i++) free(cell_at(shelf, shelf->live[i].cell)->winners);
    filter_close(&shelf->winners);
    region_close(&shelf->cells);
    pthread_mutex_destroy(&shelf->lock);
    free(shelf);
}

static uint64_t name_hash(const struct shelf *shelf, struct slice seller, struct slice name)
{
    uint8_t text[USERNAME_BYTES_MAX + 1 + SALE_NAME_BYTES_MAX];
    if (seller.len > USERNAME_BYTES_MAX || name.len > SALE_NAME_BYTES_MAX) return 0;
    memcpy(text, seller.data, seller.len);
    text[seller.len] = 0;
    memcpy(text + seller.len + 1, name.data, name.len);
    return siphash(shelf->hash_key, text, seller.len + 1 + name.len);
}

static uint64_t sale_name_hash(const struct shelf *shelf, const struct sale *sale)
{
    return name_hash(shelf, slice_of(sale->seller), slice_of(sale->terms.name));
}

static uint32_t winner_hash(const struct shelf *shelf, uint64_t sale_id, struct slice buyer)
{
    uint8_t text[sizeof sale_id + BUYER_BYTES_MAX];
    assert(buyer.len <= BUYER_BYTES_MAX);
    memcpy(text, &sale_id, sizeof sale_id);
    memcpy(text + sizeof sale_id, buyer.data, buyer.len);
    return (uint32_t)siphash(shelf->hash_key, text, sizeof sale_id + buyer.len);
}

/* Under the lock. */
static void winners_forget(struct shelf *shelf, struct shelf_cell *cell)
{
    atomic_store(&cell->winners_made, 0);
    for (uint32_t i = 0; i < cell->winners_count; i++) filter_drop(&shelf->winners, cell->winners[i]);
    free(cell->winners);
    cell->winners = NULL;
    cell->winners_count = 0;
}

void shelf_saw_id(struct shelf *shelf, uint64_t sale_id)
{
    uint64_t last = atomic_load(&shelf->id_last);
    while (last < sale_id && !atomic_compare_exchange_weak(&shelf->id_last, &last, sale_id)) continue;
}

uint64_t shelf_id_last(const struct shelf *shelf)
{
    return atomic_load(&shelf->id_last);
}

/* The notice: the sale as it was counted, but what is available as it was told last. */
static void notice_write(struct shelf_cell *cell)
{
    uint32_t counted = cell->sale.counts.available;
    cell->sale.counts.available = cell->left;
    board_write(&cell->board, &cell->sale);
    cell->sale.counts.available = counted;
}

static bool sale_place(struct shelf *shelf, const struct ledger_shelved *shelved)
{
    uint32_t index;
    struct shelf_cell *cell = shelf->live_count < SALES_OPEN_MAX ? cell_free(shelf, shelved->sale.id, &index) : NULL;
    if (cell == NULL) return false;
    cell->sale = shelved->sale;
    cell->epoch = shelved->epoch;
    cell->version = shelved->version;
    cell->counted_ms = cell->left_ms = 0;
    cell->left = cell->sale.counts.available;
    atomic_store(&cell->fresh_ms, 0);
    atomic_store(&cell->asking, 0);
    board_write(&cell->board, &cell->sale);
    atomic_store_explicit(&cell->used, true, memory_order_release);
    shelf->live[shelf->live_count].cell = index;
    shelf->live[shelf->live_count++].name = sale_name_hash(shelf, &cell->sale);
    return true;
}

static void name_moved(struct shelf *shelf, const struct shelf_cell *cell)
{
    for (uint32_t i = 0; i < shelf->live_count; i++) {
        if (cell_at(shelf, shelf->live[i].cell) == cell) shelf->live[i].name = sale_name_hash(shelf, &cell->sale);
    }
    atomic_fetch_add(&shelf->names_version, 1);
}

bool shelf_put(struct shelf *shelf, const struct ledger_shelved *shelved)
{
    bool room = true;
    pthread_mutex_lock(&shelf->lock);
    struct shelf_cell *cell = cell_find(shelf, shelved->sale.id);
    if (cell == NULL) {
        room = sale_place(shelf, shelved);
    } else if (shelved->version > cell->version || shelved->epoch > cell->epoch) {
        bool renamed = strcmp(cell->sale.terms.name, shelved->sale.terms.name) != 0;
        struct sale before = cell->sale;
        cell->sale = shelved->sale;
        if (shelved->epoch <= cell->epoch) {
            cell->sale.counts = before.counts;
            cell->sale.orders_made = before.orders_made;
            cell->sale.tokens_given = before.tokens_given;
        } else {
            winners_forget(shelf, cell);
            cell->counted_ms = cell->left_ms = 0;
            cell->left = cell->sale.counts.available;
            cell->epoch = shelved->epoch;
        }
        cell->version = shelved->version;
        notice_write(cell);
        if (renamed) name_moved(shelf, cell);
    }
    pthread_mutex_unlock(&shelf->lock);
    return room;
}

void shelf_drop(struct shelf *shelf, uint64_t sale_id)
{
    pthread_mutex_lock(&shelf->lock);
    struct shelf_cell *cell = cell_find(shelf, sale_id);
    for (uint32_t i = 0; cell != NULL && i < shelf->live_count; i++) {
        if (cell_at(shelf, shelf->live[i].cell) != cell) continue;
        shelf->live[i] = shelf->live[--shelf->live_count];
        winners_forget(shelf, cell);
        board_clear(&cell->board);
        atomic_fetch_add(&shelf->names_version, 1);
        break;
    }
    pthread_mutex_unlock(&shelf->lock);
}

/* False: it is of an earlier time than what is known. Within a millisecond a win comes after what had more, and all else may
 * have come before what has more. */
static bool left_take(struct shelf_cell *cell, const struct shelf_left *left)
{
    if (left->at_ms < cell->left_ms) return false;
    bool same = left->at_ms == cell->left_ms, more = left->available > cell->left;
    if (!same || more != left->won) cell->left = left->available;
    cell->left_ms = left->at_ms;
    return true;
}

bool shelf_count(struct shelf *shelf, uint64_t sale_id, const struct shelf_counts *told)
{
    pthread_mutex_lock(&shelf->lock);
    struct shelf_cell *cell = cell_find(shelf, sale_id);
    bool ours = cell != NULL && told->epoch >= cell->epoch, behind = cell != NULL && told->version > cell->version;
    /* Within a millisecond the one that has made more orders is the later one, and of equal ones either will do. */
    bool newer = ours && (told->at_ms > cell->counted_ms ||
                          (told->at_ms == cell->counted_ms && told->orders_made >= cell->sale.orders_made));
    if (newer) {
        cell->sale.counts = told->counts;
        cell->sale.orders_made = told->orders_made;
        cell->sale.tokens_given = told->tokens_given;
        cell->counted_ms = told->at_ms;
        left_take(cell, &(struct shelf_left){ told->epoch, told->at_ms, told->counts.available, false });
        notice_write(cell);
    }
    if (ours && told->asked_mono_ms > atomic_load(&cell->fresh_ms)) atomic_store(&cell->fresh_ms, told->asked_mono_ms);
    pthread_mutex_unlock(&shelf->lock);
    return behind;
}

void shelf_left(struct shelf *shelf, uint64_t sale_id, const struct shelf_left *left)
{
    pthread_mutex_lock(&shelf->lock);
    struct shelf_cell *cell = cell_find(shelf, sale_id);
    if (cell != NULL && cell->epoch == left->epoch) {
        if (left->won) atomic_store(&cell->winners_made, 0);
        if (left_take(cell, left)) notice_write(cell);
    }
    pthread_mutex_unlock(&shelf->lock);
}

bool shelf_sale(struct shelf *shelf, uint64_t sale_id, struct sale *out)
{
    pthread_mutex_lock(&shelf->lock);
    struct shelf_cell *cell = cell_find(shelf, sale_id);
    if (cell != NULL) *out = cell->sale;
    pthread_mutex_unlock(&shelf->lock);
    if (cell != NULL) atomic_store_explicit(&cell->asked_ms, mono_ms(), memory_order_relaxed);
    return cell != NULL;
}

bool shelf_epoch(struct shelf *shelf, uint64_t sale_id, uint64_t *epoch)
{
    pthread_mutex_lock(&shelf->lock);
    struct shelf_cell *cell = cell_find(shelf, sale_id);
    if (cell != NULL) *epoch = cell->epoch;
    pthread_mutex_unlock(&shelf->lock);
    return cell != NULL;
}

/* All threads read the line, so it is written no more often than it says something new. */
static void cell_asked(struct shelf_cell *cell)
{
    uint64_t now_ms = mono_ms();
    if (atomic_load_explicit(&cell->asked_ms, memory_order_relaxed) != now_ms)
        atomic_store_explicit(&cell->asked_ms, now_ms, memory_order_relaxed);
}

bool shelf_notice(const struct shelf *shelf, uint64_t sale_id, struct board_notice *out)
{
    struct shelf_cell *cell = cell_find(shelf, sale_id);
    if (cell == NULL) return false;
    while (!board_read(&cell->board, out)) continue; /* a writer is between two stores */
    if (out->sale_id != sale_id) return false;
    cell_asked(cell);
    return true;
}

uint64_t shelf_by_name(struct shelf *shelf, struct slice seller, struct slice name)
{
    uint64_t found = 0;
    pthread_mutex_lock(&shelf->lock);
    uint64_t hash = name_hash(shelf, seller, name);
    for (uint32_t i = 0; i < shelf->live_count && found == 0; i++) {
        if (shelf->live[i].name != hash) continue;
        const struct sale *sale = &cell_at(shelf, shelf->live[i].cell)->sale;
        if (slice_is(seller, sale->seller) && slice_is(name, sale->terms.name)) found = sale->id;
    }
    if (found == 0 && shelf->past[hash % NAMES_PAST].name == hash) found = shelf->past[hash % NAMES_PAST].id;
    pthread_mutex_unlock(&shelf->lock);
    return found;
}

void shelf_name_past(struct shelf *shelf, struct slice seller, struct slice name, uint64_t sale_id)
{
    uint64_t hash = name_hash(shelf, seller, name);
    pthread_mutex_lock(&shelf->lock);
    shelf->past[hash % NAMES_PAST].name = hash;
    shelf->past[hash % NAMES_PAST].id = sale_id;
    pthread_mutex_unlock(&shelf->lock);
}

uint64_t shelf_names_version(const struct shelf *shelf)
{
    return atomic_load(&shelf->names_version);
}

/* The lock is taken anew for each, so that others go on meanwhile; from the last to the first, because dropping one moves
 * the last to its place, and that has been looked at by then. */
void shelf_each(struct shelf *shelf, void (*look)(const struct sale *sale, uint64_t epoch, void *arg), void *arg)
{
    for (uint32_t i = SALES_OPEN_MAX; i > 0;) {
        struct sale sale;
        uint64_t epoch = 0;
        pthread_mutex_lock(&shelf->lock);
        if (i > shelf->live_count) i = shelf->live_count;
        bool found = i > 0;
        if (found) {
            const struct shelf_cell *cell = cell_at(shelf, shelf->live[--i].cell);
            sale = cell->sale;
            epoch = cell->epoch;
        }
        pthread_mutex_unlock(&shelf->lock);
        if (found) look(&sale, epoch, arg);
    }
}

/* As shelf_each(), but many under one lock: of each only its notice is looked at. */
uint32_t shelf_page(struct shelf *shelf, const struct shelf_sought *sought, uint32_t *from, uint64_t *ids, uint32_t ids_max)
{
    uint32_t count = 0;
    pthread_mutex_lock(&shelf->lock);
    if (*from > shelf->live_count) *from = shelf->live_count;
    for (uint32_t looked = 0; *from > 0 && count < ids_max && looked < PAGE_LOOKED_MAX; looked++) {
        const struct board *board = &cell_at(shelf, shelf->live[--*from].cell)->board;
        ids[count] = atomic_load(&board->sale_id);
        bool marked = (sought->marks >> sale_mark(ids[count]) & 1) != 0;
        if (marked && atomic_load(&board->opens_ms) <= sought->open_by_ms) count++;
    }
    pthread_mutex_unlock(&shelf->lock);
    return count;
}

uint32_t shelf_size(struct shelf *shelf)
{
    pthread_mutex_lock(&shelf->lock);
    uint32_t size = shelf->live_count;
    pthread_mutex_unlock(&shelf->lock);
    return size;
}

static bool is_running(const struct board_notice *notice, uint64_t now_ms)
{
    return !notice->closed && !notice->paused && now_ms >= notice->opens_ms &&
           (notice->closes_ms == 0 || now_ms < notice->closes_ms);
}

static bool takes_tokens(const struct board_notice *notice)
{
    return notice->admission == ADMISSION_TOKEN || notice->admission == ADMISSION_LINE;
}

/* Every check of the script that comes before SOLD_OUT must come here too; where one fails, the script says so. */
enum verdict shelf_refuse(const struct shelf *shelf, const struct grab *grab, uint64_t now_ms, uint64_t since_mono_ms)
{
    struct board_notice notice;
    struct shelf_cell *cell = cell_find(shelf, grab->sale_id);
    if (cell == NULL) return VERDICT_DONE;
    cell_asked(cell); /* not every way to a grab looks at the notice before */
    uint64_t fresh_ms = atomic_load_explicit(&cell->fresh_ms, memory_order_acquire); /* before what it says is read */
    if (!board_read(&cell->board, &notice) || notice.sale_id != grab->sale_id || notice.available != 0) return VERDICT_DONE;
    uint64_t made = atomic_load_explicit(&cell->winners_made, memory_order_acquire);
    if (made == 0 || made != notice.orders_made) return VERDICT_DONE;
    if (fresh_ms < since_mono_ms || mono_ms() > fresh_ms + SHELF_FRESH_MS) return VERDICT_DONE;
    if (!is_running(&notice, now_ms) || grab->units == 0 || grab->units > notice.units_per_grab_max) return VERDICT_DONE;
    if (takes_tokens(&notice)) return VERDICT_DONE;
    if (grab->buyer.len > BUYER_BYTES_MAX || grab->key.len > IDEMPOTENCY_KEY_BYTES_MAX || buyer_is_made_up(grab->buyer))
        return VERDICT_DONE;

    char name[BUYER_BYTES_MAX + 1];
    struct slice buyer = buyer_of(grab, notice.admission, 0, name);
    if (buyer.len == 0) return VERDICT_DONE;
    if (filter_has(&shelf->winners, winner_hash(shelf, grab->sale_id, buyer))) return VERDICT_DONE;
    /* Unless they were taken out of the filter while it was looked into. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&cell->winners_made, memory_order_relaxed) == made ? VERDICT_SOLD_OUT : VERDICT_DONE;
}

enum shelf_turn shelf_enter(const struct shelf *shelf, uint64_t sale_id, uint64_t now_ms, const struct shelf_share *share)
{
    struct board_notice notice;
    struct shelf_cell *cell = cell_find(shelf, sale_id);
    if (cell == NULL || !board_read(&cell->board, &notice) || notice.sale_id != sale_id) return SHELF_FREE;
    if (!is_running(&notice, now_ms) || takes_tokens(&notice)) return SHELF_FREE;
    if (notice.available == 0) {
        uint64_t made = atomic_load_explicit(&cell->winners_made, memory_order_relaxed);
        bool known = made != 0 && made == notice.orders_made;
        return known || share->patient ? SHELF_FREE : SHELF_WAIT;
    }
    uint64_t parts = UINT64_C(100) * share->nodes;
    uint64_t most = ((uint64_t)notice.available * share->percent + parts - 1) / parts;
    if (most < SHELF_SHARE_MIN) most = SHELF_SHARE_MIN;
    uint32_t asking = atomic_load_explicit(&cell->asking, memory_order_relaxed);
    do {
        if (asking >= most) return SHELF_WAIT;
    } while (!atomic_compare_exchange_weak(&cell->asking, &asking, asking + 1));
    return SHELF_TAKEN;
}

/* A sale that left the shelf and came back begins at 0: then more may ask for a moment, never fewer. */
void shelf_leave(const struct shelf *shelf, uint64_t sale_id)
{
    struct shelf_cell *cell = cell_find(shelf, sale_id);
    if (cell == NULL) return;
    uint32_t asking = atomic_load_explicit(&cell->asking, memory_order_relaxed);
    while (asking > 0 && !atomic_compare_exchange_weak(&cell->asking, &asking, asking - 1)) continue;
}

bool shelf_winners(struct shelf *shelf, uint64_t sale_id, const struct shelf_counts *then, const struct slice *buyers,
                   size_t count)
{
    uint32_t *hashes = count > 0 && count <= WINNERS_MAX ? malloc(count * sizeof *hashes) : NULL;
    if (hashes == NULL) return false;
    for (size_t i = 0; i < count; i++) hashes[i] = winner_hash(shelf, sale_id, buyers[i]);
    pthread_mutex_lock(&shelf->lock);
    struct shelf_cell *cell = cell_find(shelf, sale_id);
    if (cell != NULL && cell->epoch == then->epoch && shelf->winners.entries + count <= WINNERS_MAX) {
        winners_forget(shelf, cell);
        for (size_t i = 0; i < count; i++) filter_add(&shelf->winners, hashes[i]);
        cell->winners = hashes;
        cell->winners_count = (uint32_t)count;
        atomic_store_explicit(&cell->winners_made, then->orders_made, memory_order_release);
        hashes = NULL;
    }
    pthread_mutex_unlock(&shelf->lock);
    free(hashes);
    return true;
}

void shelf_each_asked(struct shelf *shelf, uint64_t since_mono_ms, void (*look)(uint64_t sale_id, bool winners, void *arg),
                      void *arg)
{
    for (uint32_t i = SALES_OPEN_MAX; i > 0;) {
        uint64_t sale_id = 0;
        bool winners = false;
        pthread_mutex_lock(&shelf->lock);
        if (i > shelf->live_count) i = shelf->live_count;
        if (i > 0) {
            struct shelf_cell *cell = cell_at(shelf, shelf->live[--i].cell);
            bool asked = atomic_load_explicit(&cell->asked_ms, memory_order_relaxed) >= since_mono_ms;
            if (asked) sale_id = cell->sale.id;
            winners = cell->sale.counts.available == 0 && cell->sale.orders_made > 0 &&
                      atomic_load(&cell->winners_made) != cell->sale.orders_made;
        }
        pthread_mutex_unlock(&shelf->lock);
        if (sale_id != 0) look(sale_id, winners, arg);
    }
}
