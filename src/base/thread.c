#include "base/thread.h"

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void thread_must(int failed)
{
    assert(failed == 0);
    (void)failed;
}

void thread_be_nice(const char *room, int nice)
{
    if (setpriority(PRIO_PROCESS, (id_t)gettid(), nice) != 0) log_warn(room, "cannot be nice %d: %s", nice, strerror(errno));
}
