/* Shared memory as TIOVX's kernels see it, see tivx.h. */
#ifndef TI_TIVX_MEM_H
#define TI_TIVX_MEM_H

#include <VX/vx.h>

enum { TIVX_MEM_EXTERNAL, TIVX_MEM_INTERNAL_L3, TIVX_MEM_INTERNAL_L2 };

typedef struct {
    volatile uint32_t mem_heap_region;
    volatile int32_t dma_buf_fd;
    volatile uint64_t shared_ptr;
    volatile uint64_t host_ptr;
} tivx_shared_mem_ptr_t;

VX_API_ENTRY void *tivxMemShared2TargetPtr(const tivx_shared_mem_ptr_t *shared);
VX_API_ENTRY vx_status tivxMemBufferMap(void *pointer, uint32_t size, vx_enum memory, vx_enum access);
VX_API_ENTRY vx_status tivxMemBufferUnmap(void *pointer, uint32_t size, vx_enum memory, vx_enum access);
VX_API_ENTRY void *tivxMemAlloc(vx_uint32 size, vx_enum region);
VX_API_ENTRY void tivxMemFree(void *pointer, vx_uint32 size, vx_enum region);

#endif
