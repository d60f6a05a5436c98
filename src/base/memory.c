#include "base/memory.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
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

void memory_give_back(void)
{
    malloc_trim(0);
}

/* UINT64_MAX: there is no such file, or it says that there is no limit ("max"). Version 1 writes a number near 2^63 for
 * none, which is more than any machine has. */
static uint64_t limit_read(const char *path)
{
    FILE *file = fopen(path, "re");
    uint64_t limit;
    if (file == NULL) return UINT64_MAX;
    if (fscanf(file, "%" SCNu64, &limit) != 1) limit = UINT64_MAX;
    fclose(file);
    return limit;
}

/* Of the group and of all that it lies in. group begins with a slash, and is cut up. */
static uint64_t group_limit(const char *mount, const char *controller, char *group, const char *name)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        char path[1024];
        int len = snprintf(path, sizeof path, "%s%s%s/%s", mount, controller, group, name);
        uint64_t limit = len > 0 && (size_t)len < sizeof path ? limit_read(path) : UINT64_MAX;
        if (limit < least) least = limit;
        char *slash = strrchr(group, '/');
        if (slash == NULL) return least;
        *slash = '\0';
    }
}

uint64_t memory_group_max(const char *membership, const char *mount)
{
    FILE *file = fopen(membership, "re");
    uint64_t least = UINT64_MAX;
    char line[512];
    if (file == NULL) return least;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) continue;
        *group++ = '\0';
        controllers++;
        uint64_t limit = UINT64_MAX;
        if (strcmp(controllers, "memory") == 0) {
            limit = group_limit(mount, "/memory", group, "memory.limit_in_bytes");
        } else if (controllers[0] == '\0') {
            limit = group_limit(mount, "", group, "memory.max");
        }
        if (limit < least) least = limit;
    }
    fclose(file);
    return least;
}

uint64_t memory_machine(void)
{
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = memory_group_max("/proc/self/cgroup", "/sys/fs/cgroup");
    return group < physical ? group : physical;
}
