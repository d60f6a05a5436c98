#include "base/secret_file.h"

#include "base/disk.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <libgen.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX 65536
#define PATH_BYTES_MAX 4096

/* Synced under another name and then renamed: a crash leaves no half a secret, and one that was used is never lost. */
static enum fault file_make(const struct secret_file *file)
{
    char text[SECRET_FILE_FIRST_BYTES_MAX], fresh[PATH_BYTES_MAX], folder[PATH_BYTES_MAX];
    size_t len = file->first(text, sizeof(text));
    assert(len < sizeof(text));
    int fresh_len = snprintf(fresh, sizeof(fresh), "%s.new", file->path);
    snprintf(folder, sizeof(folder), "%s", file->path);

    enum fault fault = FAULT_CONFIG;
    int fd = -1;
    if (fresh_len < (int)sizeof(fresh)) fault = disk_create(fresh, &fd);
    if (fault == FAULT_NONE) {
        fault = disk_write_at(fd, text, len, 0);
        if (fault == FAULT_NONE) fault = disk_sync_all(fd);
        disk_close(fd);
    }
    if (fault == FAULT_NONE) fault = disk_rename(fresh, file->path);
    if (fault == FAULT_NONE) fault = disk_sync_folder(dirname(folder));
    OPENSSL_cleanse(text, sizeof(text));
    if (fault == FAULT_NONE) log_info(file->room, "made %s in %s", file->what, file->path);
    return fault;
}

#define MODE_OTHERS 0037 /* whoever comes, and a group that could do more than read */
#define MODE_GROUP 0040

bool secret_file_kept(const struct stat *about)
{
    if ((about->st_mode & MODE_OTHERS) != 0) return false;
    return (about->st_mode & MODE_GROUP) == 0 || about->st_uid != geteuid();
}

static enum fault file_check(int fd, const struct secret_file *file)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        log_error(file->room, "cannot look at %s: %s", file->path, strerror(errno));
        return FAULT_DISK;
    }
    if (!S_ISREG(about.st_mode) || about.st_size > FILE_BYTES_MAX) {
        log_error(file->room, "%s is not a file of %s", file->path, file->what);
        return FAULT_CONFIG;
    }
    if (!secret_file_kept(&about)) {
        log_error(file->room,
                  "%s has mode %04o: others could read the %s; make it 0600 (chmod 600), and if they may have been read,"
                  " replace them",
                  file->path, (unsigned)(about.st_mode & 07777), file->what);
        return FAULT_CONFIG;
    }
    return FAULT_NONE;
}

enum fault secret_file_read(const struct secret_file *file, struct slice *out)
{
    struct stat about;
    *out = (struct slice){ NULL, 0 };
    if (file->first != NULL && stat(file->path, &about) != 0 && errno == ENOENT) {
        enum fault made = file_make(file);
        if (made != FAULT_NONE) return made;
    }
    int fd;
    enum fault fault = disk_open(file->path, false, &fd);
    if (fault != FAULT_NONE) return fault;
    char *text = NULL;
    size_t got = 0;
    fault = file_check(fd, file);
    if (fault == FAULT_NONE && (text = malloc(FILE_BYTES_MAX)) == NULL) fault = FAULT_MEMORY;
    if (fault == FAULT_NONE) fault = disk_read_at(fd, text, FILE_BYTES_MAX, 0, &got);
    disk_close(fd);
    *out = (struct slice){ text, got };
    if (fault != FAULT_NONE) secret_file_release(*out);
    return fault;
}

void secret_file_release(struct slice text)
{
    if (text.data == NULL) return;
    OPENSSL_cleanse((char *)text.data, FILE_BYTES_MAX);
    free((char *)text.data);
}

enum fault password_find(char out[PASSWORD_TEXT_BYTES], const struct password_source *source)
{
    out[0] = '\0';
    const char *given = getenv(source->variable);
    struct slice text = slice_of(given != NULL ? given : ""), read = { NULL, 0 };
    if (text.len == 0 && source->path[0] == '\0') return FAULT_NONE;
    if (source->path[0] != '\0') {
        const struct secret_file file = { .room = source->room, .path = source->path, .what = source->what };
        enum fault fault = secret_file_read(&file, &read);
        if (fault != FAULT_NONE) return fault;
        text = read;
    }
    const char *end = text.len > 0 ? memchr(text.data, '\n', text.len) : NULL;
    if (end != NULL) text.len = (size_t)(end - text.data);
    if (text.len > 0 && text.data[text.len - 1] == '\r') text.len--;
    bool good = text.len > 0 && text.len < PASSWORD_TEXT_BYTES && memchr(text.data, '\0', text.len) == NULL;
    if (good) {
        memcpy(out, text.data, text.len);
        out[text.len] = '\0';
    } else {
        log_error(source->room, "the %s, from %s, has no line, or one that is too long", source->what,
                  read.data != NULL ? source->path : source->variable);
    }
    secret_file_release(read);
    return good ? FAULT_NONE : FAULT_CONFIG;
}
