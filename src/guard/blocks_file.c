/* The file of the block list: reading it into a set, and writing it anew without losing what others put there. */
#include "base/clock.h"
#include "base/disk.h"
#include "base/log.h"
#include "guard/blocks_state.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Mistakes beyond this many in one file are counted, not told one by one. */
#define MISTAKES_TOLD_MAX 100
/* How often a file is read that changes while it is read or written anew. */
#define TRIES_MAX 10
/* Times of files go in steps of the kernel's tick, which is 10 ms at most. */
#define SETTLED_MS 100

_Static_assert(2 * (uint64_t)BLOCKS_FILE_BYTES_MAX + BLOCKS_MAX * 17 + BUYER_BYTES_MAX <= UINT32_MAX,
               "the largest file and the list before it fit a set");

/* The file as it was at one moment. */
struct content {
    struct blocks_stamp stamp;
    mode_t mode;
    uid_t owner;
    gid_t group;
    char *data; /* from malloc */
    size_t len;
};

/* What blocks_add() or blocks_remove() wants of the file; a reload wants nothing. */
struct wish {
    const struct block_entry *add, *remove; /* one of them, or none */
    bool in_file;                           /* found: the file has it */
    uint32_t mistakes;                      /* found: lines that are no entry */
};

static struct blocks_stamp stamp_of(const struct stat *info)
{
    uint64_t changed_ms = (uint64_t)info->st_ctim.tv_sec * 1000 + (uint64_t)info->st_ctim.tv_nsec / 1000000;
    return (struct blocks_stamp){
        .there = true,
        .settled = wall_ms() > changed_ms + SETTLED_MS,
        .device = info->st_dev,
        .inode = info->st_ino,
        .size = info->st_size,
        .changed_s = info->st_ctim.tv_sec,
        .changed_ns = info->st_ctim.tv_nsec,
    };
}

static bool stamp_equal(const struct blocks_stamp *a, const struct blocks_stamp *b)
{
    if (!a->there || !b->there) return a->there == b->there;
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->changed_s == b->changed_s &&
           a->changed_ns == b->changed_ns;
}

/* Whether the set is surely what the file says. */
static bool file_is_loaded(const struct blocks *blocks, const struct blocks_stamp *now)
{
    return stamp_equal(now, &blocks->loaded) && (!now->there || blocks->loaded.settled);
}

static enum fault no_memory(const struct blocks *blocks)
{
    log_error("guard", "no memory for the block list %s", blocks->path);
    return FAULT_MEMORY;
}

static enum fault file_look(const struct blocks *blocks, struct stat *info, struct blocks_stamp *stamp)
{
    *stamp = (struct blocks_stamp){ .there = false };
    if (stat(blocks->path, info) != 0) {
        if (errno == ENOENT) return FAULT_NONE;
        log_error("guard", "cannot look at the block list %s: %s", blocks->path, strerror(errno));
        return FAULT_DISK;
    }
    if (!S_ISREG(info->st_mode) || info->st_size > BLOCKS_FILE_BYTES_MAX) {
        log_error("guard", "the block list %s is no file, or larger than %u bytes", blocks->path, BLOCKS_FILE_BYTES_MAX);
        return FAULT_CONFIG;
    }
    *stamp = stamp_of(info);
    return FAULT_NONE;
}

/* Reads what info says is there. Whether it still is that is for the caller to see. */
static enum fault content_fill(const struct blocks *blocks, struct content *content)
{
    int fd;
    content->data = malloc((size_t)content->stamp.size + 1);
    if (content->data == NULL) return no_memory(blocks);
    enum fault fault = disk_open(blocks->path, false, &fd);
    if (fault != FAULT_NONE) return fault;
    fault = disk_read_at(fd, content->data, (size_t)content->stamp.size, 0, &content->len);
    disk_close(fd);
    return fault;
}

/* The whole file at one moment; a file that is not there is empty. The caller frees data, also after a fault. */
static enum fault content_read(const struct blocks *blocks, struct content *content)
{
    *content = (struct content){ .data = NULL };
    for (int try = 0; try < TRIES_MAX; try++) {
        struct stat info;
        struct blocks_stamp after;
        enum fault fault = file_look(blocks, &info, &content->stamp);
        if (fault != FAULT_NONE || !content->stamp.there) return fault;
        content->mode = info.st_mode & 0777;
        content->owner = info.st_uid;
        content->group = info.st_gid;
        fault = content_fill(blocks, content);
        if (fault == FAULT_NONE) fault = file_look(blocks, &info, &after);
        if (fault != FAULT_NONE) return fault;
        if (stamp_equal(&content->stamp, &after)) return FAULT_NONE;
        free(content->data);
        *content = (struct content){ .data = NULL };
    }
    log_error("guard", "the block list %s changes faster than it can be read", blocks->path);
    return FAULT_TIMEOUT;
}

static bool line_next(struct slice *rest, struct slice *line)
{
    if (rest->len == 0) return false;
    const char *end = memchr(rest->data, '\n', rest->len);
    line->data = rest->data;
    line->len = end != NULL ? (size_t)(end - rest->data) + 1 : rest->len;
    rest->data += line->len;
    rest->len -= line->len;
    if (end != NULL) line->len--;
    return true;
}

static uint32_t lines_count(struct slice text)
{
    uint32_t count = 0;
    for (struct slice line; line_next(&text, &line);) count++;
    return count;
}

/* An entry that was on the list before keeps its place in it. */
static void entry_put(struct blocks *blocks, struct block_set *set, const struct block_entry *entry)
{
    uint64_t serial = block_set_serial(atomic_load(&blocks->set), entry);
    if (block_set_put(set, entry, serial != 0 ? serial : blocks->serial_last + 1) && serial == 0) blocks->serial_last++;
}

/* Puts the lines that are entries. Mistakes are told where the file is not the one that was told of before. */
static void lines_put(struct blocks *blocks, struct block_set *set, const struct content *content, struct wish *wish)
{
    bool told = stamp_equal(&content->stamp, &blocks->loaded);
    uint32_t number = 0;
    struct slice rest = { content->data, content->len };
    for (struct slice line; line_next(&rest, &line);) {
        struct slice text = block_line_text(line);
        struct block_entry entry;
        number++;
        if (text.len == 0) continue;
        const char *objection = block_entry_read(text, &entry);
        if (objection != NULL) {
            if (++wish->mistakes <= MISTAKES_TOLD_MAX && !told)
                log_error("guard", "%s line %u: %s", blocks->path, number, objection);
            continue;
        }
        if (wish->add != NULL && block_entry_equal(&entry, wish->add)) wish->in_file = true;
        if (wish->remove != NULL && block_entry_equal(&entry, wish->remove)) {
            wish->in_file = true;
        } else {
            entry_put(blocks, set, &entry);
        }
    }
    if (wish->mistakes > 0 && !told)
        log_error("guard",
                  "%s: %u lines are no entries; the others count, and nobody leaves the list until these are mended",
                  blocks->path, wish->mistakes);
}

struct keeping {
    struct blocks *blocks;
    struct block_set *set;
    const struct wish *wish;
};

static void keep(void *arg, const struct block_entry *entry, uint64_t serial)
{
    struct keeping *keeping = arg;
    (void)serial;
    if (keeping->wish->remove == NULL || !block_entry_equal(entry, keeping->wish->remove))
        entry_put(keeping->blocks, keeping->set, entry);
}

/* The set that the file makes together with the wish. */
static enum fault set_build(struct blocks *blocks, const struct content *content, struct wish *wish, struct block_set **out)
{
    const struct block_set *old = atomic_load(&blocks->set);
    struct slice text = { content->data, content->len };
    uint64_t entries_max = (uint64_t)lines_count(text) + block_set_count(old) + 1;
    if (entries_max > BLOCKS_MAX) {
        log_error("guard", "the block list %s has more than %u lines", blocks->path, BLOCKS_MAX / 2);
        return FAULT_SPACE;
    }
    enum fault fault = block_set_open(out, blocks->key, (uint32_t)entries_max,
                                      text.len + block_set_name_bytes(old) + BUYER_BYTES_MAX);
    if (fault != FAULT_NONE) return no_memory(blocks);
    lines_put(blocks, *out, content, wish);
    if (wish->mistakes > 0)
        block_set_each(old, 0, UINT32_MAX, keep, &(struct keeping){ .blocks = blocks, .set = *out, .wish = wish });
    if (wish->add != NULL) entry_put(blocks, *out, wish->add);
    if (block_set_finish(*out) == FAULT_NONE) return FAULT_NONE;
    block_set_close(*out);
    return no_memory(blocks);
}

static enum fault reload(struct blocks *blocks)
{
    struct stat info;
    struct blocks_stamp now;
    struct content content = { .data = NULL };
    struct wish none = { .add = NULL };
    struct block_set *set;
    enum fault fault = file_look(blocks, &info, &now);
    if (fault != FAULT_NONE || file_is_loaded(blocks, &now)) return fault;
    fault = content_read(blocks, &content);
    if (fault == FAULT_NONE) fault = set_build(blocks, &content, &none, &set);
    if (fault == FAULT_NONE) {
        if (content.stamp.there) {
            log_info("guard", "the block list %s has %u entries", blocks->path, block_set_count(set));
        } else {
            log_warn("guard", "the block list %s is gone: nobody is blocked", blocks->path);
        }
        blocks_publish(blocks, set);
        blocks->loaded = content.stamp;
    }
    free(content.data);
    return fault;
}

enum fault blocks_reload(struct blocks *blocks)
{
    pthread_mutex_lock(&blocks->change);
    enum fault fault = reload(blocks);
    pthread_mutex_unlock(&blocks->change);
    return fault;
}

/* The text of the file as wished: every other line as it was. From malloc; NULL without memory. */
static char *text_make(const struct content *content, const struct wish *wish, size_t *len)
{
    char *text = malloc(content->len + BLOCK_ENTRY_BYTES_MAX + 3);
    if (text == NULL) return NULL;
    *len = 0;
    struct slice rest = { content->data, content->len };
    for (struct slice line; line_next(&rest, &line);) {
        struct block_entry entry;
        bool removed = wish->remove != NULL && block_entry_read(block_line_text(line), &entry) == NULL &&
                       block_entry_equal(&entry, wish->remove);
        if (removed) continue;
        memcpy(text + *len, line.data, line.len);
        *len += line.len;
        text[(*len)++] = '\n';
    }
    if (wish->add != NULL) {
        *len += block_entry_write(text + *len, wish->add);
        text[(*len)++] = '\n';
    }
    return text;
}

/* Writes fd, the new file, in full and durably, with the rights the old one had. */
static enum fault file_fill(const struct blocks *blocks, int fd, const struct content *content, const struct wish *wish)
{
    size_t len;
    char *text = text_make(content, wish, &len);
    if (text == NULL) return no_memory(blocks);
    if (content->stamp.there) {
        /* Someone else's file stays theirs where we may give it away; where not, it is at least as readable. */
        int kept = fchown(fd, content->owner, content->group);
        kept |= fchmod(fd, content->mode);
        if (kept != 0) log_warn("guard", "the owner or the rights of %s change: %s", blocks->path, strerror(errno));
    }
    enum fault fault = disk_write_at(fd, text, len, 0);
    if (fault == FAULT_NONE) fault = disk_sync_all(fd);
    free(text);
    return fault;
}

/* *again: someone changed the file meanwhile, and nothing was replaced. */
static enum fault file_replace(struct blocks *blocks, const struct content *content, const struct wish *wish, bool *again)
{
    int fd;
    struct stat info;
    struct blocks_stamp now;
    enum fault fault = disk_create(blocks->path_new, &fd);
    if (fault != FAULT_NONE) return fault;
    fault = file_fill(blocks, fd, content, wish);
    if (fault == FAULT_NONE) fault = file_look(blocks, &info, &now);
    *again = fault == FAULT_NONE && !stamp_equal(&now, &content->stamp);
    if (fault == FAULT_NONE && !*again) {
        fault = disk_rename(blocks->path_new, blocks->path);
        if (fault == FAULT_NONE) fault = disk_sync_folder(blocks->folder);
        if (fault == FAULT_NONE && fstat(fd, &info) == 0) blocks->loaded = stamp_of(&info);
    }
    disk_close(fd);
    return fault;
}

/* One try. The set is built before the file is touched, so that a list without memory is the list as it was. */
static enum fault change_try(struct blocks *blocks, struct wish *wish, bool *again)
{
    struct content content;
    struct block_set *set = NULL;
    wish->in_file = *again = false;
    wish->mistakes = 0;
    enum fault fault = content_read(blocks, &content);
    if (fault == FAULT_NONE) fault = set_build(blocks, &content, wish, &set);
    if (fault == FAULT_NONE) {
        if (wish->in_file == (wish->add != NULL)) {
            blocks->loaded = content.stamp; /* the file says so already */
        } else {
            fault = file_replace(blocks, &content, wish, again);
        }
        if (fault == FAULT_NONE && !*again) {
            blocks_publish(blocks, set);
        } else {
            block_set_close(set);
        }
    }
    free(content.data);
    return fault;
}

static enum fault change(struct blocks *blocks, struct wish *wish, bool *there)
{
    const struct block_entry *entry = wish->add != NULL ? wish->add : wish->remove;
    bool again = true;
    struct stat info;
    struct blocks_stamp now;
    pthread_mutex_lock(&blocks->change);
    bool in_force = block_set_serial(atomic_load(&blocks->set), entry) != 0;
    enum fault fault = file_look(blocks, &info, &now);
    /* Nothing to do is the common answer to an impatient script, and costs no reading. */
    bool idle = fault == FAULT_NONE && file_is_loaded(blocks, &now) && in_force == (wish->add != NULL);
    for (int try = 0; fault == FAULT_NONE && !idle && again; try++) {
        if (try == TRIES_MAX) {
            log_error("guard", "the block list %s changes faster than it can be written", blocks->path);
            fault = FAULT_TIMEOUT;
            break;
        }
        fault = change_try(blocks, wish, &again);
    }
    *there = in_force || wish->in_file;
    pthread_mutex_unlock(&blocks->change);
    return fault;
}

enum fault blocks_add(struct blocks *blocks, struct slice text, bool *there)
{
    struct block_entry entry;
    const char *objection = block_entry_read(text, &entry);
    assert(objection == NULL);
    return change(blocks, &(struct wish){ .add = &entry }, there);
}

enum fault blocks_remove(struct blocks *blocks, struct slice text, bool *there)
{
    struct block_entry entry;
    const char *objection = block_entry_read(text, &entry);
    assert(objection == NULL);
    return change(blocks, &(struct wish){ .remove = &entry }, there);
}
