#include "base/memory.h"

#include <stdio.h>
#include <unistd.h>

uint64_t memory_resident(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;
    if (file == NULL) return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1) pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
