#include "base/disk.h"

#include "base/log.h"
#include "base/text.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES_MAX 4096
#define PID_TEXT_BYTES_MAX 24
#define HOLDER_READS_MAX 20
#define HOLDER_READ_WAIT_NS 5000000

/* A full disk is told apart, because an operator mends it in another way than a broken one. */
static enum fault fault_of(int error)
{
    return error == ENOSPC || error == EDQUOT ? FAULT_SPACE : FAULT_DISK;
}

static enum fault fail_path(const char *call, const char *path)
{
    int error = errno;
    log_error("disk", "%s %s: %s", call, path, strerror(error));
    return fault_of(error);
}

static enum fault fail_fd(const char *call, int fd)
{
    int error = errno;
    log_error("disk", "%s on descriptor %d: %s", call, fd, strerror(error));
    return fault_of(error);
}

static int open_retried(const char *path, int flags)
{
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, 0600);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

enum fault disk_folder_make(const char *path)
{
    if (mkdir(path, 0700) == 0) return FAULT_NONE;
    if (errno != EEXIST) return fail_path("make folder", path);

    struct stat info;
    if (stat(path, &info) != 0) return fail_path("look at", path);
    if (!S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        return fail_path("make folder", path);
    }
    return FAULT_NONE;
}

enum fault disk_create(const char *path, int *fd)
{
    *fd = open_retried(path, O_RDWR | O_CREAT | O_TRUNC);
    return *fd < 0 ? fail_path("create", path) : FAULT_NONE;
}

/* O_NONBLOCK: to open a pipe would be to wait for whoever writes into it, and signals would wait with us. */
enum fault disk_open(const char *path, bool write, int *fd)
{
    *fd = open_retried(path, write ? O_RDWR : O_RDONLY | O_NONBLOCK);
    return *fd < 0 ? fail_path("open", path) : FAULT_NONE;
}

/* Linux frees the descriptor whatever close() says, so trying again could close someone else's. */
void disk_close(int fd)
{
    if (close(fd) != 0 && errno != EINTR) (void)fail_fd("close", fd);
}

enum fault disk_write_at(int fd, const void *data, size_t len, uint64_t offset)
{
    assert(len <= INT64_MAX && offset <= INT64_MAX - len);
    const uint8_t *p = data;
    while (len > 0) {
        ssize_t put = pwrite(fd, p, len, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put == 0) errno = EIO;
        if (put <= 0) return fail_fd("write", fd);
        p += put;
        len -= (size_t)put;
        offset += (uint64_t)put;
    }
    return FAULT_NONE;
}

enum fault disk_read_at(int fd, void *data, size_t len, uint64_t offset, size_t *got)
{
    assert(len <= INT64_MAX && offset <= INT64_MAX - len);
    uint8_t *p = data;
    *got = 0;
    while (*got < len) {
        ssize_t n = pread(fd, p + *got, len - *got, (off_t)(offset + *got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_fd("read", fd);
        if (n == 0) break;
        *got += (size_t)n;
    }
    return FAULT_NONE;
}

enum fault disk_size(int fd, uint64_t *size)
{
    struct stat info;
    if (fstat(fd, &info) != 0) return fail_fd("look at size", fd);
    *size = (uint64_t)info.st_size;
    return FAULT_NONE;
}

/* A sync is tried once, whatever it says: after a failure the kernel may have dropped the dirty pages and marked them clean,
 * so a second one that succeeds proves nothing (P10). */
enum fault disk_sync(int fd)
{
    return fdatasync(fd) != 0 ? fail_fd("sync data", fd) : FAULT_NONE;
}

enum fault disk_sync_all(int fd)
{
    return fsync(fd) != 0 ? fail_fd("sync", fd) : FAULT_NONE;
}

enum fault disk_sync_folder(const char *path)
{
    int fd = open_retried(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return fail_path("open folder", path);
    enum fault fault = fsync(fd) != 0 ? fail_path("sync folder", path) : FAULT_NONE;
    disk_close(fd);
    return fault;
}

enum fault disk_rename(const char *from, const char *to)
{
    if (rename(from, to) == 0) return FAULT_NONE;
    int error = errno;
    log_error("disk", "rename %s to %s: %s", from, to, strerror(error));
    return fault_of(error);
}

enum fault disk_remove(const char *path)
{
    return unlink(path) != 0 ? fail_path("remove", path) : FAULT_NONE;
}

enum fault disk_space(const char *path, uint64_t *bytes_free)
{
    struct statvfs info;
    int failed;
    do {
        failed = statvfs(path, &info);
    } while (failed && errno == EINTR);
    if (failed) return fail_path("look at free space of", path);
    /* What an ordinary user may take, not what is kept back for root. */
    *bytes_free = (uint64_t)info.f_bavail * info.f_frsize;
    return FAULT_NONE;
}

enum fault disk_each(const char *path, void (*visit)(void *arg, const char *name), void *arg)
{
    DIR *folder = opendir(path);
    if (folder == NULL) return fail_path("open folder", path);

    enum fault fault = FAULT_NONE;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (entry == NULL) break;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        visit(arg, entry->d_name);
    }
    if (errno != 0) fault = fail_path("read folder", path);
    closedir(folder);
    return fault;
}

/* The pid written in a lock file, or 0. A holder that has just locked it may not have written yet, so look a few times. */
static long holder_read(int fd)
{
    for (int i = 0; i < HOLDER_READS_MAX; i++) {
        char text[PID_TEXT_BYTES_MAX];
        ssize_t len = pread(fd, text, sizeof text, 0);
        if (len > 0 && text[len - 1] == '\n') {
            uint64_t pid;
            if (text_to_u64((struct slice){ text, (size_t)len - 1 }, &pid) && pid <= INT32_MAX) return (long)pid;
        }
        nanosleep(&(struct timespec){ .tv_nsec = HOLDER_READ_WAIT_NS }, NULL);
    }
    return 0;
}

static enum fault holder_write(int fd)
{
    char text[PID_TEXT_BYTES_MAX];
    int len = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    assert(len > 0 && (size_t)len < sizeof text);
    if (ftruncate(fd, 0) != 0) return fail_fd("empty lock", fd);
    return disk_write_at(fd, text, (size_t)len, 0);
}

enum fault disk_lock_folder(const char *path, int *fd, long *pid)
{
    *fd = -1;
    *pid = 0;
    char file[PATH_BYTES_MAX];
    int len = snprintf(file, sizeof file, "%s/lock", path);
    if (len < 0 || (size_t)len >= sizeof file) {
        errno = ENAMETOOLONG;
        return fail_path("lock", path);
    }

    int lock = open_retried(file, O_RDWR | O_CREAT);
    if (lock < 0) return fail_path("open", file);

    int failed;
    do {
        failed = flock(lock, LOCK_EX | LOCK_NB);
    } while (failed && errno == EINTR);

    enum fault fault;
    if (failed && errno == EWOULDBLOCK) {
        *pid = holder_read(lock);
        log_error("disk", "%s is in use by process %ld: stop it, or choose another folder with --data", path, *pid);
        fault = FAULT_IN_USE;
    } else if (failed) {
        fault = fail_path("lock", file);
    } else {
        fault = holder_write(lock);
    }

    if (fault != FAULT_NONE) {
        disk_close(lock);
        return fault;
    }
    *fd = lock;
    return FAULT_NONE;
}
