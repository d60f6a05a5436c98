/* memory: what the process takes, and what it may. */
#ifndef STAMPEDE_BASE_MEMORY_H
#define STAMPEDE_BASE_MEMORY_H

#include <stdint.h>

uint64_t memory_resident(void); /* bytes, as the system counts them; 0 if it does not say */
/* Freed memory that the allocator keeps counts as taken: returns it to the system. May take milliseconds. */
void memory_give_back(void);

/* Bytes that this machine has for us: its memory, or what the control group leaves of it, whichever is less. */
uint64_t memory_machine(void);
/* The least memory limit of the control groups, version 1 or 2, that the lines of membership (/proc/self/cgroup) name, and
 * of the groups around them, below mount (/sys/fs/cgroup); UINT64_MAX where there is none. A group that is not to be seen
 * from within a container counts as the one that is mounted. */
uint64_t memory_group_max(const char *membership, const char *mount);

#endif
