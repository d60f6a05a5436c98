/* blocks_state: what blocks.c, blocks_file.c and blocks_watch.c share, and nobody else. */
#ifndef STAMPEDE_GUARD_BLOCKS_STATE_H
#define STAMPEDE_GUARD_BLOCKS_STATE_H

#include "guard/block_set.h"
#include "guard/blocks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define BLOCKS_PATH_BYTES 4096

/* On a line of its own: its thread writes it at every look-up. */
struct blocks_reader {
    _Alignas(64) _Atomic(struct block_set *) in_hand; /* NULL between look-ups */
    struct blocks *blocks;                            /* NULL: not taken */
};

/* Tells one state of the file from another. The time is that of any change, which nobody can set back. */
struct blocks_stamp {
    bool there;
    bool settled; /* looked at so long after the change that another one cannot bear the same time */
    dev_t device;
    ino_t inode;
    off_t size;
    int64_t changed_s, changed_ns;
};

struct blocks {
    struct blocks_reader readers[THREADS_MAX];
    _Alignas(64) _Atomic(struct block_set *) set;
    _Atomic bool any;         /* entry is in it: most shops block nobody, and need not say which set they have in hand */
    _Atomic uint64_t version; /* counted up when the set is another */
    pthread_mutex_t change;   /* one at a time reads the file, writes it, publishes what it says */
    pthread_mutex_t look;     /* the set stays while it is listed; taken inside change, if both are */
    uint8_t key[16];

    /* Under change. */
    uint64_t serial_last;
    struct blocks_stamp loaded; /* the file as the set has it */

    char path[BLOCKS_PATH_BYTES], path_new[BLOCKS_PATH_BYTES], folder[BLOCKS_PATH_BYTES];
    const char *name; /* of the file in its folder */
    pthread_t watcher;
    int watch_fd, stop_fd;
};

/* blocks.c: makes set the one in force and frees the one before. Under change. */
void blocks_publish(struct blocks *blocks, struct block_set *set);

/* blocks_file.c: reads the file unless it surely is as it was loaded. A fault has been logged, and the list is as it was. */
enum fault blocks_reload(struct blocks *blocks) MUST_USE;

/* blocks_watch.c: begins to watch, so that no change is missed from then on; starts the thread that reloads; ends both. */
enum fault blocks_watch_open(struct blocks *blocks) MUST_USE;
enum fault blocks_watch_start(struct blocks *blocks) MUST_USE;
void blocks_watch_stop(struct blocks *blocks);
void blocks_watch_close(struct blocks *blocks);

#endif
