/* The thread that reads the file again when it has changed.
 *
 * The folder is watched and not the file, because most people and programs replace a file rather than write into it. What is
 * written into is looked at when its writer closes it: a file that is half written is not read. */
#include "guard/blocks_state.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Editors save in several steps: read when there has been nothing for a moment, but not later than at the bound. */
#define QUIET_MS 50
#define QUIET_MS_MAX 500
#define WATCHER_NICE 5
#define FILE_EVENTS (IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB)
#define FOLDER_EVENTS (IN_DELETE_SELF | IN_MOVE_SELF)

/* What has happened to the file and was not yet read. */
struct changes {
    uint64_t first_ms, last_ms; /* 0: nothing */
    bool being_written;         /* a new file whose writer has not closed it */
    bool failed;                /* the file could not be read: new rights may help */
};

enum fault blocks_watch_open(struct blocks *blocks)
{
    blocks->stop_fd = eventfd(0, EFD_CLOEXEC);
    blocks->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (blocks->stop_fd < 0 || blocks->watch_fd < 0) {
        log_error("guard", "cannot watch files: %s", strerror(errno));
        return FAULT_MEMORY;
    }
    if (inotify_add_watch(blocks->watch_fd, blocks->folder, FILE_EVENTS | FOLDER_EVENTS | IN_ONLYDIR) < 0) {
        log_error("guard", "cannot watch the folder of the block list %s: %s", blocks->folder, strerror(errno));
        return FAULT_CONFIG;
    }
    return FAULT_NONE;
}

void blocks_watch_close(struct blocks *blocks)
{
    if (blocks->watch_fd >= 0) close(blocks->watch_fd);
    if (blocks->stop_fd >= 0) close(blocks->stop_fd);
}

static void changes_add(struct changes *changes)
{
    changes->last_ms = mono_ms();
    if (changes->first_ms == 0) changes->first_ms = changes->last_ms;
}

static void event_take(const struct blocks *blocks, const struct inotify_event *event, struct changes *changes)
{
    struct stat info;
    if (event->mask & FOLDER_EVENTS)
        log_error("guard", "%s has been moved or removed: changes of the block list need a restart", blocks->folder);
    if (event->mask & IN_Q_OVERFLOW) {
        changes->being_written = false;
        changes_add(changes);
    }
    if (event->len == 0) return;
    bool found = lstat(blocks->path, &info) == 0;
    if (strcmp(event->name, blocks->name) == 0) {
        if (event->mask & IN_ATTRIB && !changes->failed) return; /* who sets rights may not have written all yet */
        /* What appears by linking is whole at once; what appears by being opened is so when it is closed. */
        if (!(event->mask & IN_ATTRIB))
            changes->being_written = event->mask & IN_CREATE && found && S_ISREG(info.st_mode) && info.st_nlink == 1;
        if (!changes->being_written) changes_add(changes);
    } else if (found && S_ISLNK(info.st_mode)) {
        changes_add(changes); /* what a link leads to changes with what is beside it: that is how a cluster replaces files */
    }
}

static void events_take(const struct blocks *blocks, struct changes *changes)
{
    _Alignas(struct inotify_event) char buffer[4096];
    ssize_t len;
    while ((len = read(blocks->watch_fd, buffer, sizeof buffer)) > 0) {
        for (const char *at = buffer; at < buffer + len;) {
            const struct inotify_event *event = (const void *)at;
            event_take(blocks, event, changes);
            at += sizeof *event + event->len;
        }
    }
}

/* How long to wait for more before reading; -1: until something happens. */
static int changes_wait_ms(const struct changes *changes)
{
    if (changes->first_ms == 0 || changes->being_written) return -1;
    uint64_t now_ms = mono_ms(), quiet_ms = changes->last_ms + QUIET_MS, late_ms = changes->first_ms + QUIET_MS_MAX;
    uint64_t until_ms = quiet_ms < late_ms ? quiet_ms : late_ms;
    return until_ms > now_ms ? (int)(until_ms - now_ms) : 0;
}

static void *watch(void *arg)
{
    struct blocks *blocks = arg;
    struct pollfd fds[2] = { { .fd = blocks->stop_fd, .events = POLLIN }, { .fd = blocks->watch_fd, .events = POLLIN } };
    struct changes changes = { .being_written = false };
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), WATCHER_NICE);
    for (;;) {
        if (poll(fds, 2, changes_wait_ms(&changes)) < 0 && errno != EINTR) {
            log_error("guard", "cannot wait for changes of the block list: %s; they need a restart", strerror(errno));
            return NULL;
        }
        if (fds[0].revents != 0) return NULL;
        events_take(blocks, &changes);
        if (changes_wait_ms(&changes) != 0) continue;
        changes = (struct changes){ .failed = blocks_reload(blocks) != FAULT_NONE };
        if (changes.failed)
            log_error("guard", "the block list %s was not read: the one before stays in force", blocks->path);
    }
}

enum fault blocks_watch_start(struct blocks *blocks)
{
    if (pthread_create(&blocks->watcher, NULL, watch, blocks) != 0) {
        log_error("guard", "cannot start the thread that watches the block list");
        return FAULT_MEMORY;
    }
    (void)pthread_setname_np(blocks->watcher, "blocks");
    return FAULT_NONE;
}

void blocks_watch_stop(struct blocks *blocks)
{
    const uint64_t one = 1;
    ssize_t put = write(blocks->stop_fd, &one, sizeof one);
    if (put != sizeof one) log_error("guard", "cannot stop watching: %s", strerror(errno));
    pthread_join(blocks->watcher, NULL);
}
