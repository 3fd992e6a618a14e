/* Doing what waits in a stream. */
#ifndef WORK_H
#define WORK_H

#include "objects.h"

#pragma GCC visibility push(hidden)

/* All that waits, or what waits before the event is recorded.  The first error breaks the context. */
CUresult run(CUstream stream, const CUevent_st *until);

#pragma GCC visibility pop

/* Where a parameter stands among those of an operation. */
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
