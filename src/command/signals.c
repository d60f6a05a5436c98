#include "command/signals.h"

#include "base/clock.h"

#include <pthread.h>
#include <time.h>

void signals_hold(sigset_t *signals)
{
    static const int heard[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR2 };
    sigemptyset(signals);
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++) sigaddset(signals, heard[i]);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

int signals_await(const sigset_t *signals, uint64_t until_ms)
{
    int number = 0;
    if (until_ms == 0) return sigwait(signals, &number) == 0 ? number : 0;
    uint64_t now_ms = mono_ms(), left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    const struct timespec left = { .tv_sec = (time_t)(left_ms / 1000), .tv_nsec = (long)(left_ms % 1000) * 1000000 };
    number = sigtimedwait(signals, NULL, &left);
    return number > 0 ? number : 0;
}
