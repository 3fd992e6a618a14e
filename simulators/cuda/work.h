/* The work of streams: one operation after the other in each, those of different streams at the same time.
 *
 * Work begins as late as it can: when somebody waits for it, a thread or, by an event, another stream; the thread that
 * waits performs it.  HARNESS_SIMULATED_EAGER names streams whose work begins as early as it can, so that what it should
 * have waited for has not happened.  With HARNESS_SIMULATED_STREAMS every stream has a thread of its own, which begins
 * sooner or later as the seed has it.  Blocks of kernels of several streams take turns.
 */
#ifndef WORK_H
#define WORK_H

#include "objects.h"

#pragma GCC visibility push(hidden)

/* Mutex of all state of the stand-in; not held while kernels and copies run. */
extern pthread_mutex_t books;

/* False if there are too many. */
bool open_stream(CUstream stream);

/* Forgets what waits in it. */
void close_stream(CUstream stream);

/* Adds it behind all that the thread has waited for.  Unordered accesses break the context. */
CUresult add_work(CUstream stream, Operation *operation);

/* Returns whether accesses of the operation, counted by the stream's clock, are ordered after earlier ones. */
bool is_ordered(const Operation *operation, CUstream stream);

/* Returns when all that was added has been performed, or all up to a place, of which a thread knows the clock then.
 * The first error breaks the context. */
CUresult run(CUstream stream);
CUresult run_until(Place place, const Clock &clock);
bool is_done(Place place);

/* Returns when no kernel or copy runs: before something is destroyed that they may use. */
void wait_until_idle();

#pragma GCC visibility pop

/* Returns the offset of a parameter among those of an operation. */
inline size_t aligned_offset(size_t offset, size_t bytes)
{
    const size_t to = bytes >= 16 ? 16 : bytes;
    return (offset + to - 1) / to * to;
}

/* Calls visit(number, offset) for every parameter; their bytes in all. */
template <typename Visit> size_t each_parameter(const simulated_kernel *kernel, const Visit &visit)
{
    size_t offset = 0;
    for (size_t i = 0; i < kernel->parameter_count; ++i) {
        offset = aligned_offset(offset, kernel->parameters[i].bytes);
        visit(i, offset);
        offset += kernel->parameters[i].bytes;
    }
    return offset;
}

#endif
