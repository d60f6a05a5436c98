#include "guard/blocks_state.h"

#include "base/log.h"
#include "base/random.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static enum fault paths_set(struct blocks *blocks, const char *path)
{
    const char *slash = strrchr(path, '/');
    blocks->name = "";
    int new_len = snprintf(blocks->path_new, sizeof blocks->path_new, "%s.new", path);
    if (path[0] == '\0' || new_len < 0 || (size_t)new_len >= sizeof blocks->path_new ||
        (slash != NULL && slash[1] == '\0')) {
        log_error("guard", "%s is no name for the file of the block list", path);
        return FAULT_CONFIG;
    }
    snprintf(blocks->path, sizeof blocks->path, "%s", path);
    int folder_len = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    snprintf(blocks->folder, sizeof blocks->folder, "%.*s", folder_len, slash == NULL ? "." : path);
    blocks->name = blocks->path + (slash == NULL ? 0 : slash + 1 - path);
    return FAULT_NONE;
}

enum fault blocks_open(struct blocks **out, const char *path)
{
    struct blocks *blocks = aligned_alloc(_Alignof(struct blocks), sizeof *blocks);
    if (blocks == NULL) return FAULT_MEMORY;
    memset(blocks, 0, sizeof *blocks);
    pthread_mutex_init(&blocks->change, NULL);
    pthread_mutex_init(&blocks->look, NULL);
    random_bytes(blocks->key, sizeof blocks->key);
    blocks->watch_fd = blocks->stop_fd = -1;

    struct block_set *empty = NULL;
    enum fault fault = paths_set(blocks, path);
    if (fault == FAULT_NONE) fault = block_set_open(&empty, blocks->key, 0, 0);
    atomic_init(&blocks->set, empty);
    /* Watched before it is read: a change in between is read twice rather than never. */
    if (fault == FAULT_NONE) fault = blocks_watch_open(blocks);
    if (fault == FAULT_NONE && blocks_reload(blocks) != FAULT_NONE) fault = FAULT_CONFIG;
    if (fault == FAULT_NONE) fault = blocks_watch_start(blocks);
    if (fault != FAULT_NONE) {
        blocks_watch_close(blocks);
        if (empty != NULL) block_set_close(atomic_load(&blocks->set));
        free(blocks);
        return fault;
    }
    *out = blocks;
    return FAULT_NONE;
}

void blocks_close(struct blocks *blocks)
{
    blocks_watch_stop(blocks);
    blocks_watch_close(blocks);
    for (size_t i = 0; i < THREADS_MAX; i++) assert(blocks->readers[i].blocks == NULL);
    block_set_close(atomic_load(&blocks->set));
    pthread_mutex_destroy(&blocks->look);
    pthread_mutex_destroy(&blocks->change);
    free(blocks);
}

struct blocks_reader *blocks_reader_open(struct blocks *blocks)
{
    struct blocks_reader *reader = blocks->readers;
    pthread_mutex_lock(&blocks->look);
    while (reader < blocks->readers + THREADS_MAX && reader->blocks != NULL) reader++;
    assert(reader < blocks->readers + THREADS_MAX);
    reader->blocks = blocks;
    pthread_mutex_unlock(&blocks->look);
    return reader;
}

void blocks_reader_close(struct blocks_reader *reader)
{
    struct blocks *blocks = reader->blocks;
    pthread_mutex_lock(&blocks->look);
    reader->blocks = NULL;
    pthread_mutex_unlock(&blocks->look);
}

/* The set in force, which is not freed before reader_leave(). Said first and then looked at again: blocks_publish() has the
 * other order, so either it sees that we have the set in hand, or we see that it is no longer the one. */
static const struct block_set *reader_enter(struct blocks_reader *reader)
{
    struct block_set *set = atomic_load(&reader->blocks->set), *seen;
    do {
        seen = set;
        atomic_store(&reader->in_hand, seen);
        set = atomic_load(&reader->blocks->set);
    } while (set != seen);
    return set;
}

static void reader_leave(struct blocks_reader *reader)
{
    atomic_store_explicit(&reader->in_hand, NULL, memory_order_release);
}

static bool list_is_empty(const struct blocks_reader *reader)
{
    return !atomic_load_explicit(&reader->blocks->any, memory_order_acquire);
}

uint64_t blocks_expect_user(struct blocks_reader *reader, struct slice name)
{
    if (list_is_empty(reader)) return 0;
    uint64_t hash = block_set_expect_user(reader_enter(reader), name);
    reader_leave(reader);
    return hash;
}

bool blocks_has_expected(struct blocks_reader *reader, struct slice name, uint64_t hash)
{
    if (list_is_empty(reader)) return false;
    bool has = block_set_has_user(reader_enter(reader), name, hash);
    reader_leave(reader);
    return has;
}

bool blocks_has_user(struct blocks_reader *reader, struct slice name)
{
    if (list_is_empty(reader)) return false;
    const struct block_set *set = reader_enter(reader);
    bool has = block_set_has_user(set, name, block_set_expect_user(set, name));
    reader_leave(reader);
    return has;
}

bool blocks_has_address(struct blocks_reader *reader, const uint8_t address[16])
{
    if (list_is_empty(reader)) return false;
    bool has = block_set_has_address(reader_enter(reader), address);
    reader_leave(reader);
    return has;
}

uint64_t blocks_version(const struct blocks_reader *reader)
{
    return atomic_load_explicit(&reader->blocks->version, memory_order_acquire);
}

void blocks_publish(struct blocks *blocks, struct block_set *set)
{
    pthread_mutex_lock(&blocks->look);
    struct block_set *old = atomic_exchange(&blocks->set, set);
    atomic_store(&blocks->any, block_set_count(set) > 0);
    atomic_fetch_add(&blocks->version, 1); /* after the set: whoever reads the new one looks into the new set */
    pthread_mutex_unlock(&blocks->look);
    /* A look-up takes less than a microsecond, so whoever has the old set in hand has it only until it runs again. */
    for (size_t i = 0; i < THREADS_MAX; i++) {
        while (atomic_load(&blocks->readers[i].in_hand) == old) sched_yield();
    }
    block_set_close(old);
}

uint32_t blocks_count(struct blocks *blocks)
{
    pthread_mutex_lock(&blocks->look);
    uint32_t count = block_set_count(atomic_load(&blocks->set));
    pthread_mutex_unlock(&blocks->look);
    return count;
}

void blocks_each(struct blocks *blocks, uint64_t after, uint32_t limit,
                 void (*visit)(void *arg, const struct block_entry *entry, uint64_t serial), void *arg)
{
    pthread_mutex_lock(&blocks->look);
    block_set_each(atomic_load(&blocks->set), after, limit, visit, arg);
    pthread_mutex_unlock(&blocks->look);
}
