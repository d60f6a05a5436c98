/* signals: what a server is told from outside, heard by one thread and in its order. */
#ifndef STAMPEDE_COMMAND_SIGNALS_H
#define STAMPEDE_COMMAND_SIGNALS_H

#include <signal.h>
#include <stdint.h>

/* Before any thread is made, for all inherit it: SIGTERM, SIGINT, SIGHUP and SIGUSR2 wait to be heard, and nobody dies of a
 * closed pipe or of a file that may not grow, which the write says. */
void signals_hold(sigset_t *signals);
/* The next; none, 0, where something is to be done by then (monotonic), or something else has woken us. until_ms 0: however
 * long it takes. */
int signals_await(const sigset_t *signals, uint64_t until_ms);

#endif
