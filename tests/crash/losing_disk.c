/* losing_disk: a library to preload that makes the disk forget, to prove that the campaign would notice.
 *
 * With STAMPEDE_LOSE=sync every sync is a lie: it says done and does nothing, which a loss of power brings to light. With
 * STAMPEDE_LOSE=write what is written to a journal file is dropped, which a kill brings to light. */
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static bool loses(const char *what)
{
    const char *chosen = getenv("STAMPEDE_LOSE");
    return chosen != NULL && strcmp(chosen, what) == 0;
}

/* The next definition of a name in the order of loading: the C library's. ISO C has no cast from data to function. */
static void real_find(const char *name, void *out)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) abort();
    memcpy(out, &found, sizeof(found));
}

static bool is_journal(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof(path) - 1);
    if (len < 4) return false;
    path[len] = '\0';
    return strcmp(path + len - 4, ".seg") == 0;
}

int fdatasync(int fd)
{
    if (loses("sync")) return 0;
    int (*real)(int);
    real_find("fdatasync", &real);
    return real(fd);
}

int fsync(int fd)
{
    if (loses("sync")) return 0;
    int (*real)(int);
    real_find("fsync", &real);
    return real(fd);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    if (loses("write") && is_journal(fd)) return (ssize_t)len;
    ssize_t (*real)(int, const void *, size_t, off_t);
    real_find("pwrite", &real);
    return real(fd, data, len, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset)
{
    if (loses("write") && is_journal(fd)) return (ssize_t)len;
    ssize_t (*real)(int, const void *, size_t, off64_t);
    real_find("pwrite64", &real);
    return real(fd, data, len, offset);
}
