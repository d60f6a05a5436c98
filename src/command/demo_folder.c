#include "command/demo_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "stampede-demo-"
#define NAME_LETTERS 6 /* that mkdtemp() adds */
#define LOCK_BYTES (DEMO_PATH_BYTES + 16)

static int path_remove(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

void demo_folder_remove(const char *path)
{
    if (nftw(path, path_remove, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "stampede: %s could not be removed: %s\n", path, strerror(errno));
}

static void lock_path(char out[LOCK_BYTES], const char *folder, const char *ending)
{
    snprintf(out, LOCK_BYTES, "%s/lock%s", folder, ending);
}

void demo_folder_keep(const char *path)
{
    char lock[LOCK_BYTES];
    lock_path(lock, path, "");
    if (unlink(lock) != 0) fprintf(stderr, "stampede: %s: %s\n", lock, strerror(errno));
}

/* It has its name only once it is locked: nobody finds one that only seems to be left. The descriptor is for those who are
 * started later, too, and stays open to the end. */
static bool lock_make(const char *folder)
{
    char fresh[LOCK_BYTES], lock[LOCK_BYTES];
    lock_path(fresh, folder, ".new");
    lock_path(lock, folder, "");
    int fd = open(fresh, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && rename(fresh, lock) == 0) return true;
    fprintf(stderr, "stampede: %s: %s\n", lock, strerror(errno));
    if (fd >= 0) close(fd);
    return false;
}

/* A folder of ours whose lock is there and free. Somebody else may just be removing it: then its lock is theirs, or a file
 * without a name. */
static void folder_tidy(const char *path)
{
    char lock[LOCK_BYTES];
    struct stat about;
    if (lstat(path, &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != geteuid()) return;
    lock_path(lock, path, "");
    int fd = open(lock, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &about) == 0 && about.st_nlink > 0) {
        fprintf(stderr, "stampede: removing %s, which a demo that was killed has left\n", path);
        demo_folder_remove(path);
    }
    close(fd);
}

static void place_tidy(const char *place)
{
    DIR *all = opendir(place);
    if (all == NULL) return;
    for (struct dirent *one = readdir(all); one != NULL; one = readdir(all)) {
        char path[DEMO_PATH_BYTES];
        if (strncmp(one->d_name, NAME, sizeof NAME - 1) != 0) continue;
        if (strlen(one->d_name) != sizeof NAME - 1 + NAME_LETTERS) continue;
        int len = snprintf(path, sizeof path, "%s/%s", place, one->d_name);
        if (len > 0 && (size_t)len < sizeof path) folder_tidy(path);
    }
    closedir(all);
}

bool demo_folder_make(char path[DEMO_PATH_BYTES])
{
    const char *place = getenv("TMPDIR");
    if (place == NULL || place[0] == '\0') place = "/tmp";
    place_tidy(place);
    int len = snprintf(path, DEMO_PATH_BYTES, "%s/" NAME "XXXXXX", place);
    if (len < 0 || len >= DEMO_PATH_BYTES || mkdtemp(path) == NULL) {
        fprintf(stderr, "stampede: cannot make a folder in %s: %s\n", place, strerror(errno));
        path[0] = '\0';
        return false;
    }
    return lock_make(path);
}
