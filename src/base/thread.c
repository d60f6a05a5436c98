#include "base/thread.h"

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void thread_must(int failed)
{
    assert(failed == 0);
    (void)failed;
}

void thread_begin(const char *name)
{
    sigset_t all;
    sigfillset(&all);
    thread_must(pthread_sigmask(SIG_BLOCK, &all, NULL));
    thread_must(pthread_setname_np(pthread_self(), name));
}

void thread_be_nice(const char *room, int nice)
{
    if (setpriority(PRIO_PROCESS, (id_t)gettid(), nice) != 0) log_warn(room, "cannot be nice %d: %s", nice, strerror(errno));
}
