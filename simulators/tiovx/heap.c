#include "heap.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "pages.h"
#include "request.h"

enum { ALIGNED = 64 };

struct block {
    uint8_t *region;
    size_t region_bytes;
    uint8_t *start;
    uint32_t bytes;
    vx_enum heap;
    const void *instance;
    atomic_int freed;
    struct block *next;
};

static struct block *_Atomic blocks; /* also freed ones: their addresses are still recognised */

static size_t slack(const struct block *block)
{
    return rounded_up(block->bytes, ALIGNED) - block->bytes;
}

static struct block *block_at(const void *start)
{
    for (struct block *block = atomic_load(&blocks); block; block = block->next)
        if (block->start == start)
            return block;
    return NULL;
}

static void open_pages(struct block *block, uint32_t size)
{
    const size_t page = page_bytes(), span = rounded_up(size, page);
    block->region_bytes = span + 2 * page;
    block->region = pages_reserve(block->region_bytes);
    if (!block->region || mprotect(block->region + page, span, PROT_READ | PROT_WRITE) != 0)
        fail("tivxMemAlloc: out of memory");
    block->start = block->region + page + span - rounded_up(size, ALIGNED);
    memset(block->region + page, POISON, span);
}

void *tivxMemAlloc(vx_uint32 size, vx_enum region)
{
    const struct request *request = request_calling("tivxMemAlloc");
    if (size == 0 || (region != TIVX_MEM_EXTERNAL && region != TIVX_MEM_INTERNAL_L2))
        fail("tivxMemAlloc: %u bytes of region %d", size, region);
    if (region == TIVX_MEM_INTERNAL_L2 && running.core != DSP_C7_1) {
        refuse(VX_ERROR_NO_MEMORY, "tivxMemAlloc: this core has no TIVX_MEM_INTERNAL_L2");
        return NULL;
    }
    struct block *block = allocate(sizeof *block);
    block->bytes = size;
    block->heap = region;
    block->instance = request->instance;
    open_pages(block, size);
    block->next = atomic_load(&blocks);
    while (!atomic_compare_exchange_weak(&blocks, &block->next, block))
        ;
    return block->start;
}

static void check_free(const struct block *block, const void *instance, vx_uint32 size, vx_enum region)
{
    if (!block)
        fail("tivxMemFree: the memory is none of tivxMemAlloc's");
    if (block->freed)
        fail("tivxMemFree: the memory is freed twice");
    if (block->instance != instance)
        fail("tivxMemFree: the memory belongs to another instance");
    if (block->bytes != size || block->heap != region)
        fail("tivxMemFree: %u bytes of region %d are freed; allocated were %u bytes of region %d", size, region,
             block->bytes, block->heap);
    for (size_t i = 0; i < slack(block); ++i)
        if (block->start[block->bytes + i] != POISON)
            fail("tivxMemFree: something was written %zu bytes behind the last of %u", i + 1, block->bytes);
}

void tivxMemFree(void *pointer, vx_uint32 size, vx_enum region)
{
    const struct request *request = request_calling("tivxMemFree");
    struct block *block = block_at(pointer);
    check_free(block, request->instance, size, region);
    block->freed = 1;
    if (!pages_withdraw(block->region, block->region_bytes))
        fail("tivxMemFree: cannot withdraw memory");
}

void heap_check_context(const void *instance, const void *context, uint32_t bytes)
{
    const struct block *block = block_at(context);
    if (!block || block->freed || block->instance != instance)
        fail("the instance context is no memory of the instance (tivxMemAlloc)");
    if (block->bytes != bytes)
        fail("the instance context was set with %u bytes; allocated were %u", bytes, block->bytes);
}

void heap_check_freed(const void *instance)
{
    for (const struct block *block = atomic_load(&blocks); block; block = block->next)
        if (!block->freed && block->instance == instance)
            fail("%u bytes of tivxMemAlloc were not freed", block->bytes);
}

void heap_explain(const uint8_t *address)
{
    for (const struct block *block = atomic_load(&blocks); block; block = block->next) {
        if (address < block->region || address >= block->region + block->region_bytes)
            continue;
        if (block->freed)
            fail("touches memory of tivxMemAlloc after it was freed");
        fail("touches memory of tivxMemAlloc at byte %zd of %u", address - block->start, block->bytes);
    }
}
