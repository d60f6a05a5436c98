/* tidy: long because the state of the disk is nobody else's business, and every call of base/disk.h works on it. */
#include "tests/sim/disk_sim.h"

#include "base/disk.h"
#include "bounds.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 96
#define OPEN_MAX 64
#define CHANGES_MAX 256
#define PATH_MAX_SIM 128

/* A file proper. Both arrays have capacity bytes; beyond size they are zero. dirty: the next sync has to write it. */
struct inode {
    bool used;
    uint8_t *cache, *platter;
    uint8_t *dirty; /* a byte per sector */
    size_t capacity;
    size_t size, size_platter;
};

struct name {
    char path[PATH_MAX_SIM];
    int inode; /* -1: no such name */
};

/* A change of names that no folder sync has made durable yet. */
struct change {
    char path[PATH_MAX_SIM];
    int inode;      /* what the path means after it; -1: nothing */
    bool with_next; /* the other half of a rename: both or neither */
};

struct disk {
    struct inode inodes[FILES_MAX];
    struct name cache[FILES_MAX], platter[FILES_MAX];
    struct change changes[CHANGES_MAX];
    size_t change_count;
    char folders[8][PATH_MAX_SIM];
    size_t folder_count;
};

struct sim_image {
    struct disk disk;
};

static struct disk disk;
static int descriptors[OPEN_MAX]; /* inode + 1 */
static uint64_t random_state;
static uint64_t changes, calls;
static uint64_t crash_at, fail_at;
static enum fault fail_with;
static enum sim_call *fail_which;
static bool crashed, lying;
static uint64_t space_free = UINT64_C(1) << 40;

uint64_t sim_random(void)
{
    random_state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static void inode_free(struct inode *inode)
{
    free(inode->cache);
    free(inode->platter);
    free(inode->dirty);
    memset(inode, 0, sizeof *inode);
}

static void disk_forget(struct disk *which)
{
    for (int i = 0; i < FILES_MAX; i++) inode_free(&which->inodes[i]);
    memset(which, 0, sizeof *which);
    for (int i = 0; i < FILES_MAX; i++) which->cache[i].inode = which->platter[i].inode = -1;
}

void sim_reset(uint64_t seed)
{
    disk_forget(&disk);
    memset(descriptors, 0, sizeof descriptors);
    random_state = seed;
    changes = calls = crash_at = fail_at = 0;
    crashed = lying = false;
    space_free = UINT64_C(1) << 40;
}

uint64_t sim_changes(void)
{
    return changes;
}

uint64_t sim_calls(void)
{
    return calls;
}

void sim_crash_before(uint64_t n)
{
    crash_at = n == 0 ? 0 : changes + n;
}

bool sim_crashed(void)
{
    return crashed;
}

void sim_fail_call(uint64_t n, enum fault fault, enum sim_call *which)
{
    fail_at = n == 0 ? 0 : calls + n;
    fail_with = fault;
    fail_which = which;
}

void sim_lie_about_syncs(bool lie)
{
    lying = lie;
}

void sim_space(uint64_t bytes_free)
{
    space_free = bytes_free;
}

/* Every call passes here first. FAULT_NONE: it may do its work. */
static enum fault passage(enum sim_call call)
{
    const bool changing = call == SIM_CREATE || call == SIM_WRITE || call == SIM_SYNC || call == SIM_FOLDER ||
                          call == SIM_RENAME || call == SIM_REMOVE;
    calls++;
    if (changing) changes++;
    if (crash_at != 0 && changes >= crash_at) crashed = true;
    if (crashed) return FAULT_DISK;
    if (fail_at == 0 || calls != fail_at) return FAULT_NONE;
    fail_at = 0;
    if (fail_which != NULL) *fail_which = call;
    return fail_with;
}

static struct name *name_find(struct name names[FILES_MAX], const char *path)
{
    for (int i = 0; i < FILES_MAX; i++) {
        if (names[i].inode >= 0 && strcmp(names[i].path, path) == 0) return &names[i];
    }
    return NULL;
}

static void name_set(struct name names[FILES_MAX], const char *path, int inode)
{
    struct name *name = name_find(names, path);
    for (int i = 0; i < FILES_MAX && name == NULL; i++) {
        if (names[i].inode < 0) name = &names[i];
    }
    assert(name != NULL);
    snprintf(name->path, sizeof name->path, "%s", path);
    name->inode = inode;
}

/* A file that nothing means any more gives its place back. */
static void inodes_sweep(void)
{
    bool needed[FILES_MAX] = { false };
    for (int i = 0; i < FILES_MAX; i++) {
        if (disk.cache[i].inode >= 0) needed[disk.cache[i].inode] = true;
        if (disk.platter[i].inode >= 0) needed[disk.platter[i].inode] = true;
    }
    for (size_t i = 0; i < disk.change_count; i++) {
        if (disk.changes[i].inode >= 0) needed[disk.changes[i].inode] = true;
    }
    for (int i = 0; i < OPEN_MAX; i++) {
        if (descriptors[i] > 0) needed[descriptors[i] - 1] = true;
    }
    for (int i = 0; i < FILES_MAX; i++) {
        if (disk.inodes[i].used && !needed[i]) inode_free(&disk.inodes[i]);
    }
}

static void change_note(const char *path, int inode, bool with_next)
{
    assert(disk.change_count < CHANGES_MAX);
    struct change *change = &disk.changes[disk.change_count++];
    snprintf(change->path, sizeof change->path, "%s", path);
    change->inode = inode;
    change->with_next = with_next;
    name_set(disk.cache, path, inode);
}

static void changes_to_platter(size_t count)
{
    for (size_t i = 0; i < count; i++) name_set(disk.platter, disk.changes[i].path, disk.changes[i].inode);
    memmove(disk.changes, disk.changes + count, (disk.change_count - count) * sizeof *disk.changes);
    disk.change_count -= count;
}

static int descriptor_give(int inode)
{
    for (int i = 3; i < OPEN_MAX; i++) {
        if (descriptors[i] == 0) {
            descriptors[i] = inode + 1;
            return i;
        }
    }
    assert(!"descriptors are closed after use");
    return -1;
}

static struct inode *inode_of(int fd)
{
    assert(fd >= 3 && fd < OPEN_MAX && descriptors[fd] > 0);
    return &disk.inodes[descriptors[fd] - 1];
}

static void inode_reserve(struct inode *inode, size_t size)
{
    if (size <= inode->capacity) return;
    const size_t capacity = (size + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES;
    inode->cache = realloc(inode->cache, capacity);
    inode->platter = realloc(inode->platter, capacity);
    inode->dirty = realloc(inode->dirty, capacity / SECTOR_BYTES);
    assert(inode->cache != NULL && inode->platter != NULL && inode->dirty != NULL);
    memset(inode->cache + inode->capacity, 0, capacity - inode->capacity);
    memset(inode->platter + inode->capacity, 0, capacity - inode->capacity);
    memset(inode->dirty + inode->capacity / SECTOR_BYTES, 0, (capacity - inode->capacity) / SECTOR_BYTES);
    inode->capacity = capacity;
}

static void sector_to_platter(struct inode *inode, size_t sector)
{
    memcpy(inode->platter + sector * SECTOR_BYTES, inode->cache + sector * SECTOR_BYTES, SECTOR_BYTES);
    inode->dirty[sector] = 0;
}

/* The power is gone: sectors and a beginning of the changes of names are kept as the coin falls, descriptors are no more. */
void sim_power_loss(unsigned int keep_percent)
{
    size_t kept = keep_percent >= 100 ? disk.change_count : 0;
    if (keep_percent > 0 && keep_percent < 100) kept = (size_t)(sim_random() % (disk.change_count + 1));
    while (kept > 0 && disk.changes[kept - 1].with_next) kept--;
    changes_to_platter(kept);
    disk.change_count = 0;
    memcpy(disk.cache, disk.platter, sizeof disk.cache);
    for (int i = 0; i < FILES_MAX; i++) {
        struct inode *inode = &disk.inodes[i];
        if (!inode->used) continue;
        for (size_t sector = 0; sector < inode->capacity / SECTOR_BYTES; sector++) {
            if (inode->dirty[sector] && sim_random() % 100 < keep_percent) sector_to_platter(inode, sector);
        }
        if (sim_random() % 100 < keep_percent) inode->size_platter = inode->size;
        inode->size = inode->size_platter;
        if (inode->capacity > inode->size) memset(inode->platter + inode->size, 0, inode->capacity - inode->size);
        if (inode->capacity > 0) memcpy(inode->cache, inode->platter, inode->capacity);
        if (inode->capacity > 0) memset(inode->dirty, 0, inode->capacity / SECTOR_BYTES);
    }
    sim_restart();
}

void sim_restart(void)
{
    memset(descriptors, 0, sizeof descriptors);
    crashed = false;
    crash_at = fail_at = 0;
    inodes_sweep();
}

uint8_t *sim_file(const char *path, size_t *size)
{
    const struct name *name = name_find(disk.cache, path);
    if (name == NULL) return NULL;
    *size = disk.inodes[name->inode].size;
    return disk.inodes[name->inode].cache;
}

void sim_spoil(const char *path, uint64_t offset, uint8_t value)
{
    const struct name *name = name_find(disk.cache, path);
    assert(name != NULL && offset < disk.inodes[name->inode].size);
    disk.inodes[name->inode].cache[offset] = value;
    disk.inodes[name->inode].platter[offset] = value;
}

void sim_truncate(const char *path, size_t size)
{
    const struct name *name = name_find(disk.cache, path);
    assert(name != NULL);
    struct inode *inode = &disk.inodes[name->inode];
    inode_reserve(inode, size);
    inode->size = inode->size_platter = size;
    memset(inode->cache + size, 0, inode->capacity - size);
    memset(inode->platter + size, 0, inode->capacity - size);
}

void sim_delete(const char *path)
{
    name_set(disk.cache, path, -1);
    name_set(disk.platter, path, -1);
    inodes_sweep();
}

size_t sim_files(void)
{
    size_t count = 0;
    for (int i = 0; i < FILES_MAX; i++) count += disk.cache[i].inode >= 0;
    return count;
}

static void disk_copy(struct disk *to, const struct disk *from)
{
    for (int i = 0; i < FILES_MAX; i++) inode_free(&to->inodes[i]);
    *to = *from;
    for (int i = 0; i < FILES_MAX; i++) {
        struct inode *inode = &to->inodes[i];
        const struct inode *source = &from->inodes[i];
        inode->cache = inode->platter = inode->dirty = NULL;
        inode->capacity = 0;
        inode_reserve(inode, source->capacity);
        if (source->capacity == 0) continue;
        memcpy(inode->cache, source->cache, source->capacity);
        memcpy(inode->platter, source->platter, source->capacity);
        memcpy(inode->dirty, source->dirty, source->capacity / SECTOR_BYTES);
    }
}

struct sim_image *sim_save(void)
{
    struct sim_image *image = calloc(1, sizeof *image);
    assert(image != NULL);
    disk_copy(&image->disk, &disk);
    return image;
}

void sim_load(const struct sim_image *image)
{
    disk_copy(&disk, &image->disk);
    sim_restart();
}

void sim_discard(struct sim_image *image)
{
    disk_forget(&image->disk);
    free(image);
}

static bool folder_known(const char *path)
{
    for (size_t i = 0; i < disk.folder_count; i++) {
        if (strcmp(disk.folders[i], path) == 0) return true;
    }
    return false;
}

/* Folders themselves are not lost: the journal does not depend on when they appear. */
enum fault disk_folder_make(const char *path)
{
    const enum fault fault = passage(SIM_FOLDER);
    if (fault != FAULT_NONE || folder_known(path)) return fault;
    assert(disk.folder_count < sizeof disk.folders / sizeof *disk.folders);
    snprintf(disk.folders[disk.folder_count++], PATH_MAX_SIM, "%s", path);
    return FAULT_NONE;
}

enum fault disk_create(const char *path, int *fd)
{
    const enum fault fault = passage(SIM_CREATE);
    if (fault != FAULT_NONE) return fault;
    inodes_sweep();
    int inode = 0;
    while (inode < FILES_MAX && disk.inodes[inode].used) inode++;
    assert(inode < FILES_MAX);
    disk.inodes[inode].used = true;
    change_note(path, inode, false);
    *fd = descriptor_give(inode);
    return FAULT_NONE;
}

enum fault disk_open(const char *path, bool write, int *fd)
{
    (void)write;
    const enum fault fault = passage(SIM_OPEN);
    if (fault != FAULT_NONE) return fault;
    const struct name *name = name_find(disk.cache, path);
    if (name == NULL) return FAULT_DISK;
    *fd = descriptor_give(name->inode);
    return FAULT_NONE;
}

/* The process may outlive the machine it ran on by a few calls: what it then closes is gone already. */
void disk_close(int fd)
{
    if (descriptors[fd] == 0) return;
    descriptors[fd] = 0;
    inodes_sweep();
}

/* A write that fails has written some of it. */
enum fault disk_write_at(int fd, const void *data, size_t len, uint64_t offset)
{
    const enum fault fault = passage(SIM_WRITE);
    if (crashed) return FAULT_DISK;
    struct inode *inode = inode_of(fd);
    assert(offset % SECTOR_BYTES == 0 && len % SECTOR_BYTES == 0);
    inode_reserve(inode, offset + len);
    for (size_t done = 0; done < len; done += SECTOR_BYTES) {
        if (fault != FAULT_NONE && sim_random() % 2 == 0) continue;
        memcpy(inode->cache + offset + done, (const uint8_t *)data + done, SECTOR_BYTES);
        inode->dirty[(offset + done) / SECTOR_BYTES] = 1;
        if (offset + done + SECTOR_BYTES > inode->size) inode->size = offset + done + SECTOR_BYTES;
    }
    return fault;
}

enum fault disk_read_at(int fd, void *data, size_t len, uint64_t offset, size_t *got)
{
    *got = 0;
    const enum fault fault = passage(SIM_READ);
    if (fault != FAULT_NONE) return fault;
    const struct inode *inode = inode_of(fd);
    if (offset >= inode->size) return FAULT_NONE;
    *got = len < inode->size - offset ? len : inode->size - offset;
    memcpy(data, inode->cache + offset, *got);
    return FAULT_NONE;
}

enum fault disk_size(int fd, uint64_t *size)
{
    const enum fault fault = passage(SIM_SIZE);
    if (fault != FAULT_NONE) return fault;
    *size = inode_of(fd)->size;
    return FAULT_NONE;
}

static enum fault sync_file(int fd, bool length)
{
    const enum fault fault = passage(SIM_SYNC);
    if (crashed) return FAULT_DISK;
    struct inode *inode = inode_of(fd);
    if (lying) return fault;
    for (size_t sector = 0; sector < inode->capacity / SECTOR_BYTES; sector++) {
        if (!inode->dirty[sector]) continue;
        if (fault == FAULT_NONE || sim_random() % 2 == 0) sector_to_platter(inode, sector);
        inode->dirty[sector] = 0;
    }
    if (fault == FAULT_NONE && length) inode->size_platter = inode->size;
    return fault;
}

/* Stricter than Linux: the length is not made durable, so that whoever relies on it has to say so. */
enum fault disk_sync(int fd)
{
    return sync_file(fd, false);
}

enum fault disk_sync_all(int fd)
{
    return sync_file(fd, true);
}

enum fault disk_sync_folder(const char *path)
{
    const enum fault fault = passage(SIM_FOLDER);
    if (fault != FAULT_NONE || lying) return fault;
    (void)path;
    changes_to_platter(disk.change_count);
    return FAULT_NONE;
}

enum fault disk_rename(const char *from, const char *to)
{
    const enum fault fault = passage(SIM_RENAME);
    if (fault != FAULT_NONE) return fault;
    const struct name *name = name_find(disk.cache, from);
    if (name == NULL) return FAULT_DISK;
    const int inode = name->inode;
    change_note(from, -1, true);
    change_note(to, inode, false);
    return FAULT_NONE;
}

enum fault disk_remove(const char *path)
{
    const enum fault fault = passage(SIM_REMOVE);
    if (fault != FAULT_NONE) return fault;
    if (name_find(disk.cache, path) == NULL) return FAULT_DISK;
    change_note(path, -1, false);
    return FAULT_NONE;
}

enum fault disk_space(const char *path, uint64_t *bytes_free)
{
    (void)path;
    const enum fault fault = passage(SIM_SPACE);
    if (fault != FAULT_NONE) return fault;
    *bytes_free = space_free;
    return FAULT_NONE;
}

static void visit_below(const char *folder, const char *path, void (*visit)(void *arg, const char *name), void *arg)
{
    const size_t len = strlen(folder);
    if (strncmp(path, folder, len) != 0 || path[len] != '/' || strchr(path + len + 1, '/') != NULL) return;
    visit(arg, path + len + 1);
}

enum fault disk_each(const char *path, void (*visit)(void *arg, const char *name), void *arg)
{
    const enum fault fault = passage(SIM_LIST);
    if (fault != FAULT_NONE) return fault;
    for (size_t i = 0; i < disk.folder_count; i++) visit_below(path, disk.folders[i], visit, arg);
    for (int i = 0; i < FILES_MAX; i++) {
        if (disk.cache[i].inode >= 0) visit_below(path, disk.cache[i].path, visit, arg);
    }
    return FAULT_NONE;
}

/* The simulation is alone with its disk. */
enum fault disk_lock_folder(const char *path, int *fd, long *pid)
{
    (void)path;
    (void)pid;
    *fd = -1;
    return FAULT_NONE;
}
