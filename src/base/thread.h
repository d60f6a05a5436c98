/* thread: what every thread of ours does with itself and with locks. */
#ifndef STAMPEDE_BASE_THREAD_H
#define STAMPEDE_BASE_THREAD_H

/* For calls of pthread that fail only by a mistake of ours. */
void thread_must(int failed);
/* Of the thread that calls, before anything else: its name, of 15 letters at most. It takes no signals, which are the main
 * thread's. */
void thread_begin(const char *name);
/* Of the thread that calls: others go first. Says so in the log, for the room, where the system does not allow it. */
void thread_be_nice(const char *room, int nice);

#endif
