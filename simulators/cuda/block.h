/* The threads of a block on a processor: where a thread stands, and the barrier among those of a block.
 *
 * Blocks run one after the other, those of launches on several streams in turns.  Threads of a kernel without barriers are a loop; those of a kernel with barriers
 * are fibres of one thread of the processor, or real threads where SIMULATION_THREADS is defined (ThreadSanitizer).
 */
#ifndef BLOCK_H
#define BLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef SIMULATION_THREADS
#define SIMULATED_PER_THREAD __thread
#else
#define SIMULATED_PER_THREAD
#endif
#define SIMULATED_HIDDEN __attribute__((visibility("hidden")))

struct uint3 {
    uint32_t x, y, z;
};

extern SIMULATED_HIDDEN SIMULATED_PER_THREAD uint3 threadIdx;
extern SIMULATED_HIDDEN uint3 blockIdx, blockDim, gridDim;

/* A line of device code. */
struct simulated_site {
    const char *file;
    int line;
};

/* Returns when all threads of the block are here; never, where they cannot be. */
SIMULATED_HIDDEN void simulated_barrier(simulated_site site);

/* Threads of a warp; their barrier does not stop other warps. */
constexpr unsigned SIMULATED_WARP = 32;
SIMULATED_HIDDEN void simulated_warp_barrier(simulated_site site);
SIMULATED_HIDDEN unsigned simulated_thread(); /* the number of the thread in its block */

/* The shared memory that a launch asks for, and room behind it that nobody may write. */
constexpr size_t SIMULATED_MOST_SHARED = 227 * 1024, SIMULATED_GUARD = 4096;
extern SIMULATED_HIDDEN unsigned char simulated_dynamic_memory[SIMULATED_MOST_SHARED + SIMULATED_GUARD];

struct simulated_kernel;

/* Returns false if the launch failed; the reason is on stderr. */
SIMULATED_HIDDEN bool simulated_launch(const simulated_kernel &kernel, uint3 grid, uint3 block, size_t shared_bytes,
                                       void *const *parameters);

#endif
