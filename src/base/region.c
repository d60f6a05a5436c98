#include "base/region.h"

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)

/* NORESERVE: the tables are sized for the largest crowd we allow and mostly stay untouched; without it the kernel would
 * refuse a reservation larger than the machine's memory. Huge pages are refused, which some systems give unasked, unless by
 * region_huge() or region_make_ready(): a server with one small sale stays small. */
enum fault region_open(struct region *region, size_t size)
{
    assert(size > 0);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert(size <= SIZE_MAX - page);
    size = (size + page - 1) / page * page;

    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        log_error("region", "cannot reserve %zu bytes of address space: %s", size, strerror(errno));
        *region = (struct region){ 0 };
        return FAULT_MEMORY;
    }
    (void)madvise(base, size, MADV_NOHUGEPAGE); /* a system without them knows nothing of it */
    *region = (struct region){ .base = base, .size = size };
    return FAULT_NONE;
}

/* A system that has none, or gives none, is only slower. */
void region_huge(struct region *region)
{
    (void)madvise(region->base, region->size, MADV_HUGEPAGE);
}

bool region_populate(struct region *region, size_t begin, size_t end)
{
#ifdef MADV_POPULATE_WRITE
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (end > region->size) end = region->size;
    begin = begin / page * page;
    return begin >= end || madvise(region->base + begin, end - begin, MADV_POPULATE_WRITE) == 0;
#else
    (void)region, (void)begin, (void)end;
    return false;
#endif
}

/* Parts begin where huge pages can. Only the part at hand may have them: else whoever touches another one first would wait
 * until the system has found and cleared 2 MB. */
size_t region_make_ready(struct region *region, uint32_t part)
{
    size_t before = (uintptr_t)region->base % HUGE_BYTES; /* of the first huge page, which is not the region's */
    size_t begin = part == 0 ? 0 : (size_t)part * HUGE_BYTES - before;
    size_t end = ((size_t)part + 1) * HUGE_BYTES - before;
    if (begin >= region->size) return 0;
    if (end > region->size) end = region->size;
    (void)madvise(region->base + begin, end - begin, MADV_HUGEPAGE);
    if (region_populate(region, begin, end)) return end;
    (void)madvise(region->base + begin, end - begin, MADV_NOHUGEPAGE);
    return 0;
}

uint64_t region_touched(const struct region *region, uint64_t touches)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return touches < region->size / page ? touches * page : region->size;
}

void region_close(struct region *region)
{
    if (region->base == NULL) return;
    int failed = munmap(region->base, region->size);
    assert(!failed);
    *region = (struct region){ 0 };
}
