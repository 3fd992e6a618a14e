#include "work.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;

namespace {

constexpr unsigned LONGEST_DELAY_US = 200;

/* The numbers of streams go on when another stream gets the slot. */
struct Slot {
    CUstream stream;
    uint64_t added, done;
    uint32_t random;
} slots[MOST_STREAMS];

__thread Clock waited; /* what the thread has waited for */
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
unsigned performing;

struct Unlocked {
    Unlocked()
    {
        pthread_mutex_unlock(&books);
    }
    ~Unlocked()
    {
        pthread_mutex_lock(&books);
    }
};

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
    const Unlocked unlocked;
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
    const Unlocked unlocked;
    const bool done = simulated_launch(*kernel, operation->grid, operation->block, operation->shared_bytes, values);
    return done ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

void record(CUevent event)
{
    if (find(event, EVENT) == nullptr)
        return;
    event->time_ns = now_ns();
}

CUresult perform_until(Place place);

CUresult replay(CUgraphExec executable);

CUresult perform(Operation *operation)
{
    switch (operation->action) {
    case LAUNCH: return launch(operation);
    case RECORD: record(operation->event); return CUDA_SUCCESS;
    case WAIT: return perform_until(operation->place);
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

void perform_next(CUstream stream)
{
    CUresult &error = stream->context->error;
    Operation *const operation = take(&stream->operations);
    const bool works = operation->action != WAIT;
    stream->busy = true;
    performing += works;
    const CUresult result = perform(operation);
    error = error == CUDA_SUCCESS ? result : error;
    performing -= works;
    stream->busy = false;
    discard(operation);
    ++slots[stream->slot].done;
    pthread_cond_broadcast(&changed);
}

/* The thread that waits performs the work, unless another thread performs it. */
CUresult perform_until(Place place)
{
    while (!is_done(place)) {
        CUstream const stream = slots[place.slot].stream;
        if (stream->context->error != CUDA_SUCCESS)
            return stream->context->error;
        if (stream->has_worker && stream->released < place.number) {
            stream->released = place.number;
            pthread_cond_broadcast(&changed);
        } else if (stream->has_worker || stream->busy)
            pthread_cond_wait(&changed, &books);
        else
            perform_next(stream);
    }
    return CUDA_SUCCESS;
}

uint32_t draw(Slot &slot)
{
    slot.random = slot.random * 1664525 + 1013904223;
    return slot.random >> 8;
}

void delay(Slot &slot)
{
    const uint32_t drawn = draw(slot);
    const Unlocked unlocked;
    if (drawn % 2 == 0)
        usleep(drawn / 2 % LONGEST_DELAY_US);
}

void *work(void *argument)
{
    CUstream const stream = (CUstream)argument;
    Slot &slot = slots[stream->slot];
    pthread_mutex_lock(&books);
    current = stream->context;
    while (!stream->ends) {
        if (slot.done >= stream->released || stream->context->error != CUDA_SUCCESS) {
            pthread_cond_wait(&changed, &books);
            continue;
        }
        delay(slot);
        perform_next(stream);
    }
    pthread_mutex_unlock(&books);
    return nullptr;
}

} // namespace

bool open_stream(CUstream stream)
{
    while (stream->slot < MOST_STREAMS && slots[stream->slot].stream != nullptr)
        ++stream->slot;
    if (stream->slot == MOST_STREAMS)
        return false;
    Slot &slot = slots[stream->slot];
    slot.stream = stream;
    stream->clock.of[stream->slot] = slot.added;
    slot.random = stream_seed() + stream->slot;
    stream->has_worker = stream_seed() != 0 && pthread_create(&stream->worker, nullptr, work, stream) == 0;
    return true;
}

void close_stream(CUstream stream)
{
    Slot &slot = slots[stream->slot];
    stream->ends = true;
    pthread_cond_broadcast(&changed);
    if (stream->has_worker) {
        const Unlocked unlocked;
        pthread_join(stream->worker, nullptr);
    }
    slot.done = slot.added;
    slot.stream = nullptr;
    pthread_cond_broadcast(&changed);
}

CUresult add_work(CUstream stream, Operation *operation)
{
    Slot &slot = slots[stream->slot];
    stream->clock.join(waited);
    stream->clock.of[stream->slot] = ++slot.added;
    append(&stream->operations, operation);
    if (!unordered_is_allowed() && !is_ordered(operation, stream))
        stream->context->error = CUDA_ERROR_LAUNCH_FAILED;
    if (is_eager(stream->slot))
        return perform_until({stream->slot, slot.added});
    if (stream->has_worker && draw(slot) % 2 == 0)
        stream->released = slot.added;
    pthread_cond_broadcast(&changed);
    return stream->context->error;
}

bool is_done(Place place)
{
    return slots[place.slot].done >= place.number;
}

CUresult run_until(Place place, const Clock &clock)
{
    CUcontext const context = current;
    const CUresult failed = perform_until(place);
    waited.join(clock);
    if (failed == CUDA_SUCCESS && context->error == CUDA_SUCCESS && !check_guards())
        context->error = CUDA_ERROR_ILLEGAL_ADDRESS;
    return context->error;
}

CUresult run(CUstream stream)
{
    return run_until({stream->slot, slots[stream->slot].added}, stream->clock);
}

void wait_until_idle()
{
    while (performing > 0)
        pthread_cond_wait(&changed, &books);
}
