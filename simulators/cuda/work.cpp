#include "work.h"

#include <string.h>
#include <time.h>

namespace {

uint64_t now_ns()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

CUresult copy(const Operation *operation)
{
    const bool in = operation->action == COPY_IN;
    const void *const device = in ? operation->to : operation->from, *const host = in ? operation->from : operation->to;
    const bool exists = on_gpu(device, operation->bytes) &&
                        (!operation->pinned || find_memory(PINNED, host, operation->bytes) != nullptr);
    if (!exists) {
        complain("memory was freed before a copy to or from it was done");
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    memcpy(operation->to, operation->from, operation->bytes);
    return CUDA_SUCCESS;
}

bool pointers_are_right(const simulated_kernel *kernel, void *const *values)
{
    for (size_t i = 0; i < kernel->parameter_count; ++i) {
        if (!kernel->parameters[i].is_pointer)
            continue;
        const void *const address = *(const void *const *)values[i];
        if (address == nullptr || on_gpu(address, 1))
            continue;
        complain("%s: parameter %zu, %p, is no memory of the GPU", kernel->name, i, address);
        return false;
    }
    return true;
}

CUresult launch(Operation *operation)
{
    void *values[PARAMETER_BYTES];
    if (find(operation->function, FUNCTION) == nullptr) {
        complain("a module was unloaded before its kernel ran");
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    const simulated_kernel *const kernel = operation->function->kernel;
    each_parameter(kernel, [&](size_t i, size_t offset) { values[i] = operation->parameters + offset; });
    if (!pointers_are_right(kernel, values))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    const bool done = simulated_launch(*kernel, operation->grid, operation->block, operation->shared_bytes, values);
    return done ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

void record(CUevent event)
{
    if (find(event, EVENT) == nullptr)
        return;
    event->time_ns = now_ns();
    --event->pending;
}

CUresult replay(CUgraphExec executable);

CUresult perform(Operation *operation)
{
    switch (operation->action) {
    case LAUNCH: return launch(operation);
    case RECORD: record(operation->event); return CUDA_SUCCESS;
    case REPLAY: return replay(operation->executable);
    default: return copy(operation);
    }
}

CUresult replay(CUgraphExec executable)
{
    if (find(executable, EXECUTABLE) == nullptr) {
        complain("a graph was destroyed before it ran");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = CUDA_SUCCESS;
    for (Operation *step = executable->operations.first; step != nullptr && result == CUDA_SUCCESS; step = step->next)
        result = perform(step);
    return result;
}

} // namespace

CUresult run(CUstream stream, const CUevent_st *until)
{
    while (stream->operations.first != nullptr && current->error == CUDA_SUCCESS &&
           (until == nullptr || until->pending > 0)) {
        Operation *const operation = take(&stream->operations);
        current->error = perform(operation);
        discard(operation);
    }
    if (current->error == CUDA_SUCCESS && !check_guards())
        current->error = CUDA_ERROR_ILLEGAL_ADDRESS;
    return current->error;
}
