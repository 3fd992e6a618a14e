#include "pages.h"

#include <sys/mman.h>
#include <unistd.h>

enum { CLOSED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

size_t rounded_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

uint8_t *pages_reserve(size_t bytes)
{
    void *start = mmap(NULL, bytes, PROT_NONE, CLOSED, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

int pages_withdraw(uint8_t *start, size_t bytes)
{
    return mmap(start, bytes, PROT_NONE, CLOSED | MAP_FIXED, -1, 0) != MAP_FAILED;
}
