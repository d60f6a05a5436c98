/* What a damaged journal would lose, and the cut. Offline: the server does not run. */
#include "base/disk.h"
#include "base/log.h"
#include "base/text.h"
#include "journal/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES (1u << 20)

static const char *decision_pass(void *arg, const struct decision *decision)
{
    (void)arg;
    (void)decision;
    return NULL;
}

/* Walks up to the damage, if there is any; walk->offset and walk->seq_next then tell where the good part ends. */
static enum fault walk_to_damage(struct walk *walk, struct journal_damage *damage)
{
    const struct journal_reader passing = { .decision = decision_pass };
    for (;;) {
        bool more;
        enum fault fault = walk_next(walk, &more, damage);
        if (fault != FAULT_NONE || !more) return fault;
        fault = walk_give(walk, UINT64_MAX, &passing, damage);
        if (fault != FAULT_NONE) {
            walk->offset = walk->batch_offset;
            walk->seq_next = walk->batch.seq_first;
            return fault;
        }
    }
}

static enum fault file_read(const char *folder, uint64_t seq_first, uint8_t **bytes, uint64_t *size)
{
    char path[PATH_BYTES];
    segment_path(path, folder, seq_first, "");
    int fd;
    enum fault fault = disk_open(path, false, &fd);
    if (fault != FAULT_NONE) return fault;
    fault = disk_size(fd, size);
    *bytes = fault == FAULT_NONE ? malloc(*size + 1) : NULL;
    if (fault == FAULT_NONE && *bytes == NULL) fault = FAULT_MEMORY;
    size_t got = 0;
    if (fault == FAULT_NONE) fault = disk_read_at(fd, *bytes, *size, 0, &got);
    *size = got;
    disk_close(fd);
    if (fault != FAULT_NONE) {
        free(*bytes);
        *bytes = NULL;
    }
    return fault;
}

/* Adds what a cut at from loses of one segment: every whole batch after it, every byte up to the last that is not zero. */
static enum fault losses_add(const struct walk *walk, size_t at, uint64_t from, struct journal_diagnosis *out)
{
    uint8_t *bytes;
    uint64_t size;
    const enum fault fault = file_read(walk->folder, walk->firsts[at], &bytes, &size);
    if (fault != FAULT_NONE) return fault;

    /* A header that cannot be read is guessed, for the batches behind it may be whole. */
    struct segment_header header;
    if (size < SECTOR_BYTES || segment_header_get(bytes, &header) != NULL) {
        header = walk->header;
        header.number += at - walk->at;
    }
    if (size >= header.bytes && sector_is_mark(bytes + header.bytes - MARK_BYTES)) size = header.bytes - MARK_BYTES;
    const uint32_t seed = segment_seed(&header);
    uint64_t end = from;
    for (uint64_t i = from; i + SECTOR_BYTES <= size;) {
        struct batch_header batch;
        uint64_t step = SECTOR_BYTES;
        if (!sector_is_zero(bytes + i)) {
            if (batch_header_get(bytes + i, seed, &batch) == NULL && batch_span(batch.length) <= size - i &&
                batch_intact(bytes + i, &batch, seed)) {
                step = batch_span(batch.length);
                out->decisions_lost_min += batch.count;
            }
            end = i + step;
        }
        i += step;
    }
    out->bytes_lost += end - from;
    free(bytes);
    return FAULT_NONE;
}

static enum fault losses_count(const struct walk *walk, struct journal_diagnosis *out)
{
    enum fault fault = FAULT_NONE;
    for (size_t i = walk->at; i < walk->count && fault == FAULT_NONE; i++) {
        fault = losses_add(walk, i, i == walk->at ? walk->offset : 0, out);
    }
    return fault;
}

enum fault journal_diagnose(const char *folder, const struct journal_point *point, struct journal_diagnosis *out)
{
    memset(out, 0, sizeof *out);
    struct walk *walk = NULL;
    enum fault fault = walk_open(&walk, folder, NULL, point, &out->damage);
    if (fault == FAULT_NONE) {
        walk->digest_due = true;
        fault = walk_to_damage(walk, &out->damage);
    }
    if (fault == FAULT_NONE) {
        out->seq_good = walk->seq_next - 1;
        memcpy(out->uuid, walk->header.uuid, sizeof out->uuid);
    }
    if (fault == FAULT_DAMAGE) {
        out->damaged = true;
        fault = FAULT_NONE;
        /* Nothing is cut where the beginning is wrong, or what the ledger has filed: that is another journal, or another
         * ledger, or a loss no cut can mend. */
        if (walk->begun) {
            out->seq_good = walk->seq_next - 1;
            out->cuttable = out->seq_good >= point->seq;
            fault = losses_count(walk, out);
        }
    }
    walk_close(walk);
    return fault;
}

struct copy_search {
    const char *prefix; /* name of the folder with ".damaged-" */
    uint64_t highest;
};

static void copy_note(void *arg, const char *name)
{
    struct copy_search *search = arg;
    const size_t len = strlen(search->prefix);
    if (strncmp(name, search->prefix, len) != 0) return;
    uint64_t number;
    if (text_to_u64(slice_of(name + len), &number) && number > search->highest) search->highest = number;
}

/* Makes FOLDER.damaged-N, one more than any that is there. */
static enum fault copy_folder_make(const char *folder, char copy_path[512])
{
    char parent[PATH_BYTES], whole[FOLDER_BYTES_MAX], prefix[PATH_BYTES];
    folder_parent(parent, folder);
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/') len--;
    memcpy(whole, folder, len);
    whole[len] = 0;
    const char *slash = strrchr(whole, '/');
    snprintf(prefix, sizeof prefix, "%s.damaged-", slash != NULL ? slash + 1 : whole);
    struct copy_search search = { .prefix = prefix };
    const enum fault fault = disk_each(parent, copy_note, &search);
    if (fault != FAULT_NONE) return fault;
    const int written = snprintf(copy_path, 512, "%s.damaged-%" PRIu64, whole, search.highest + 1);
    if (written < 0 || written >= 512) {
        log_error("repair", "the path of the copy would be too long");
        return FAULT_CONFIG;
    }
    return disk_folder_make(copy_path);
}

/* Copies up to bytes_max of a file; what the file lacks of it is not made up. */
static enum fault file_copy(int from, int to, uint64_t bytes_max)
{
    uint8_t *buffer = malloc(COPY_BYTES);
    if (buffer == NULL) return FAULT_MEMORY;
    enum fault fault = FAULT_NONE;
    for (uint64_t at = 0; at < bytes_max && fault == FAULT_NONE;) {
        const size_t len = bytes_max - at < COPY_BYTES ? (size_t)(bytes_max - at) : COPY_BYTES;
        size_t got = 0;
        fault = disk_read_at(from, buffer, len, at, &got);
        if (fault == FAULT_NONE && got > 0) fault = disk_write_at(to, buffer, got, at);
        if (got < len) break;
        at += got;
    }
    free(buffer);
    return fault;
}

/* The file at from_path, up to bytes_max of it, as to_path: durable but for its name. bytes_whole: zeros up to there. */
static enum fault file_put(const char *from_path, const char *to_path, uint64_t bytes_max, uint64_t bytes_whole)
{
    int from, to;
    enum fault fault = disk_open(from_path, false, &from);
    if (fault != FAULT_NONE) return fault;
    fault = disk_create(to_path, &to);
    if (fault == FAULT_NONE) {
        fault = file_copy(from, to, bytes_max);
        if (fault == FAULT_NONE && bytes_whole > 0) fault = segment_zero(to, bytes_max, bytes_whole, 0, NULL);
        if (fault == FAULT_NONE) fault = disk_sync_all(to);
        disk_close(to);
    }
    disk_close(from);
    return fault;
}

static enum fault folder_copy(const struct walk *walk, const char *copy_path)
{
    enum fault fault = FAULT_NONE;
    for (size_t i = 0; i < walk->count && fault == FAULT_NONE; i++) {
        char from[PATH_BYTES], to[PATH_BYTES];
        segment_path(from, walk->folder, walk->firsts[i], "");
        segment_path(to, copy_path, walk->firsts[i], "");
        fault = file_put(from, to, UINT64_MAX, 0);
    }
    char parent[PATH_BYTES];
    folder_parent(parent, walk->folder);
    if (fault == FAULT_NONE) fault = disk_sync_folder(copy_path);
    if (fault == FAULT_NONE) fault = disk_sync_folder(parent);
    return fault;
}

/* The last first: whenever this ends early, what is left is still damaged at the same place and can be cut again. */
static enum fault segments_cut(const struct walk *walk)
{
    char path[PATH_BYTES], path_new[PATH_BYTES];
    enum fault fault = FAULT_NONE;
    for (size_t i = walk->count; i > walk->at + 1 && fault == FAULT_NONE; i--) {
        segment_path(path, walk->folder, walk->firsts[i - 1], "");
        fault = disk_remove(path);
        if (fault == FAULT_NONE) fault = disk_sync_folder(walk->folder);
    }
    if (fault != FAULT_NONE) return fault;

    /* Without its mark, too: nothing follows it any more. */
    segment_path(path, walk->folder, walk->firsts[walk->at], "");
    segment_path(path_new, walk->folder, walk->firsts[walk->at], ".new");
    fault = file_put(path, path_new, walk->offset, walk->header.bytes);
    if (fault == FAULT_NONE) fault = disk_rename(path_new, path);
    if (fault == FAULT_NONE) fault = disk_sync_folder(walk->folder);
    return fault;
}

enum fault journal_cut(const char *folder, const struct journal_diagnosis *diagnosis, char copy_path[512])
{
    assert(diagnosis->damaged && diagnosis->cuttable);
    copy_path[0] = 0;
    struct walk *walk = NULL;
    struct journal_damage damage = { .offset = 0 };
    const struct journal_point point = { .seq = diagnosis->seq_good };
    enum fault fault = walk_open(&walk, folder, NULL, &point, &damage);
    if (fault == FAULT_NONE) fault = walk_to_damage(walk, &damage);

    /* Only what was shown to the operator is cut. */
    const bool as_shown = fault == FAULT_DAMAGE && walk->begun && walk->seq_next - 1 == diagnosis->seq_good &&
                          damage.offset == diagnosis->damage.offset && strcmp(damage.file, diagnosis->damage.file) == 0;
    if (!as_shown && (fault == FAULT_NONE || fault == FAULT_DAMAGE)) {
        log_error("repair", "the journal is not as it was diagnosed; nothing was cut");
        fault = FAULT_DAMAGE;
    } else if (as_shown) {
        fault = copy_folder_make(folder, copy_path);
        if (fault == FAULT_NONE) fault = folder_copy(walk, copy_path);
        if (fault == FAULT_NONE) fault = segments_cut(walk);
    }
    walk_close(walk);
    return fault;
}
