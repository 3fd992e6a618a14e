#include "gpu.h"

#include <stdint.h>
#include <string.h>

#include "cuda.h"
#include "device_times.h"
#include "fail.h"
#include "network.h"
#include "self_test.h"

enum { THREADS = 128, ARGUMENTS = 64, SHARED_BYTES = 48 * 1024 }; /* more than these a kernel must ask for */

/* The GPU that all items share. */
static struct {
    size_t users;
    unsigned multiprocessors;
    unsigned shared_bytes; /* the most of a block of threads */
    CUcontext context;
    CUmodule module;
} gpu;

/* Calls of the driver belong to a context, and every item has its own thread. */
static void enter_context(void)
{
    static _Thread_local bool entered;
    if (!entered)
        CUDA(cuCtxSetCurrent, "in the thread of an item", gpu.context);
    entered = true;
}

static CUfunction find_function(const char *name)
{
    CUfunction function;
    CUDA(cuModuleGetFunction, name, &function, gpu.module, name);
    return function;
}

/* As STRIDE of fused.cuh has it. */
static size_t shared_bytes(const struct gpu_kernel *kernel)
{
    const size_t stride = gpu_carried > 1 ? gpu_carried + 1 : 1;
    return 4 * (kernel->tile_words * stride + kernel->other_words);
}

static void find_kernel(struct gpu_kernel *kernel)
{
    const size_t bytes = shared_bytes(kernel);
    kernel->function = find_function(kernel->name);
    if (bytes > gpu.shared_bytes)
        fail(EXIT_SYSTEM, "%s takes %zu bytes of shared memory, a block of threads of %s has %u: use cuda:layerwise",
             kernel->name, bytes, gpu_device(), gpu.shared_bytes);
    if (bytes > SHARED_BYTES)
        CUDA(cuFuncSetAttribute, kernel->name, kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
}

/* Threads to a block: vectors by lanes.  As few vectors as keep every multiprocessor busy, a power of two. */
static unsigned vectors_to_a_block(size_t vectors)
{
    unsigned carried = 1;
    while (carried < gpu_carried && (size_t)carried * gpu.multiprocessors < vectors)
        carried *= 2;
    return carried;
}

/* A query of the proof to a kernel; empty in an execution. */
struct question {
    enum part part;
    CUdeviceptr given, made;
    unsigned layer;
};

/* With the addresses of its arrays; an array that nobody asks for has none. */
static void enqueue_kernel(const struct gpu_kernel *kernel, const struct gpu_array *arrays, struct question asked,
                           size_t vectors, CUstream stream)
{
    unsigned count = (unsigned)vectors;
    CUdeviceptr addresses[ARGUMENTS];
    void *parameters[1 + ARGUMENTS + 4] = {&count};
    size_t used = 1;
    for (size_t i = 0; i < kernel->argument_count; ++i) {
        addresses[i] = asked.part == WHOLE ? arrays[kernel->arguments[i]].device : 0;
        parameters[used++] = &addresses[i];
    }
    parameters[used++] = &asked.part;
    parameters[used++] = &asked.given;
    parameters[used++] = &asked.made;
    parameters[used++] = &asked.layer;
    const bool carries = kernel->outputs == 0;
    const unsigned x = carries ? vectors_to_a_block(vectors) : THREADS, y = carries ? kernel->threads / x : 1;
    const size_t threads = carries ? vectors : vectors * kernel->outputs;
    const unsigned blocks = (unsigned)((threads + x - 1) / x);
    CUDA(cuLaunchKernel, kernel->name, kernel->function, blocks, 1, 1, x, y, 1, (unsigned)shared_bytes(kernel), stream,
         parameters, NULL);
}

static void enqueue_copy_in(const struct gpu_array *array, size_t vectors, CUstream stream)
{
    CUDA(cuMemcpyHtoDAsync_v2, "copying to the GPU", array->device, array->pinned, vectors * array->bytes, stream);
}

static void enqueue_copy_out(const struct gpu_array *array, size_t vectors, CUstream stream)
{
    CUDA(cuMemcpyDtoHAsync_v2, "copying from the GPU", array->pinned, array->device, vectors * array->bytes, stream);
}

static bool is_given(const struct gpu_array *array)
{
    return array->role == GPU_SOURCE || array->role == GPU_TAKEN;
}

static void enqueue(const struct gpu_launch *launch, size_t vectors)
{
    for (size_t i = 0; i < launch->array_count; ++i)
        if (is_given(&launch->arrays[i]) && launch->arrays[i].pinned)
            enqueue_copy_in(&launch->arrays[i], vectors, launch->stream);
    for (size_t i = 0; i < launch->kernel_count; ++i)
        enqueue_kernel(&launch->kernels[i], launch->arrays, (struct question){WHOLE}, vectors, launch->stream);
    for (size_t i = 0; i < launch->array_count; ++i)
        if (!is_given(&launch->arrays[i]) && launch->arrays[i].pinned)
            enqueue_copy_out(&launch->arrays[i], vectors, launch->stream);
}

static void capture(struct gpu_launch *launch)
{
    CUgraph graph;
    CUDA(cuStreamBeginCapture_v2, launch->name, launch->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    enqueue(launch, launch->block);
    CUDA(cuStreamEndCapture, launch->name, launch->stream, &graph);
    CUDA(cuGraphInstantiateWithFlags, launch->name, &launch->graph, graph, 0);
    CUDA(cuGraphDestroy, launch->name, graph);
}

static bool is_copied(enum gpu_role role, const struct options *options)
{
    switch (role) {
    case GPU_SOURCE:
    case GPU_RESULT: return true;
    case GPU_HANDED: return options->dump == DUMP_ALL || options->task;
    case GPU_TAKEN: return options->task;
    case GPU_JOINED: return false;
    case GPU_BETWEEN:
    case GPU_WITHIN: break;
    }
    return options->dump == DUMP_ALL;
}

/* The first of its users allocates shared memory. */
static void allocate_device(struct gpu_array *array, size_t bytes)
{
    struct gpu_shared *const shared = array->shared;
    if (!shared || shared->users++ == 0)
        CUDA(cuMemAlloc_v2, "memory of the GPU for a block of vectors", shared ? &shared->device : &array->device, bytes);
    if (shared)
        array->device = shared->device;
}

static void allocate_array(struct gpu_array *array, bool copied)
{
    const size_t bytes = network.block_capacity * array->bytes;
    if (copied || array->role != GPU_WITHIN)
        allocate_device(array, bytes);
    if (!copied)
        return;
    CUDA(cuMemAllocHost_v2, "memory of the host for a block of vectors", &array->pinned, bytes);
    memset(array->pinned, 0, bytes);
}

static void free_array(struct gpu_array *array)
{
    if (array->device && (!array->shared || --array->shared->users == 0))
        CUDA(cuMemFree_v2, "", array->device);
    if (array->pinned)
        CUDA(cuMemFreeHost, "", array->pinned);
    array->device = 0;
    array->pinned = NULL;
}

/* An event takes the GPU a microsecond: the time of the whole network is not to have them in it. */
static void open_times(struct gpu_launch *launch, const struct options *options)
{
    struct gpu_times *times = &launch->times;
    times->wanted = options->time == TIME_ITEM || options->time == TIME_LAYER;
    times->warmup = options->warmup;
    times->least_ns = UINT64_MAX;
    if (!times->wanted)
        return;
    CUDA(cuEventCreate, launch->name, &times->begin, CU_EVENT_DEFAULT);
    CUDA(cuEventCreate, launch->name, &times->end, CU_EVENT_DEFAULT);
}

static void close_times(struct gpu_launch *launch)
{
    if (!launch->times.wanted)
        return;
    CUDA(cuEventDestroy_v2, launch->name, launch->times.begin);
    CUDA(cuEventDestroy_v2, launch->name, launch->times.end);
}

static void note_time(struct gpu_launch *launch)
{
    struct gpu_times *times = &launch->times;
    float elapsed_ms;
    if (!times->wanted)
        return;
    if (times->warmup) {
        --times->warmup;
        return;
    }
    CUDA(cuEventElapsedTime, launch->name, &elapsed_ms, times->begin, times->end);
    const uint64_t elapsed_ns = (uint64_t)(elapsed_ms * 1e6 + 0.5);
    ++times->executions;
    times->sum_ns += elapsed_ns;
    times->least_ns = elapsed_ns < times->least_ns ? elapsed_ns : times->least_ns;
    times->greatest_ns = elapsed_ns > times->greatest_ns ? elapsed_ns : times->greatest_ns;
}

static void write_times(const struct gpu_item *item)
{
    device_times_open(item->out, item->name);
    for (size_t i = 0; i < item->launch_count; ++i) {
        const struct gpu_times *times = &item->launches[i]->times;
        if (times->executions)
            device_times_write("launch", item->launches[i]->name, times->executions, times->sum_ns / times->executions,
                               times->least_ns, times->greatest_ns);
    }
    device_times_close();
}

/* Timed, traced or delayed launches end with their step; the proof reads the output of each launch. */
static bool waits(const struct gpu_launch *launch, const struct options *options)
{
    for (size_t i = 0; i < launch->array_count; ++i)
        if (launch->arrays[i].role == GPU_RESULT)
            return true;
    return launch->times.wanted || options->trace || options->jitter_ns || options->task;
}

/* Recorded once before anybody waits: at first all memory may be written. */
static void open_event(struct gpu_launch *launch)
{
    if (!launch->awaited)
        return;
    CUDA(cuEventCreate, launch->name, &launch->ended, CU_EVENT_DISABLE_TIMING);
    CUDA(cuEventRecord, launch->name, launch->ended, launch->stream);
}

static void open_launch(struct gpu_launch *launch, CUstream stream, const struct options *options)
{
    launch->stream = stream;
    launch->block = options->block;
    for (size_t i = 0; i < launch->kernel_count; ++i)
        find_kernel(&launch->kernels[i]);
    for (size_t i = 0; i < launch->array_count; ++i)
        allocate_array(&launch->arrays[i], is_copied(launch->arrays[i].role, options));
    capture(launch);
    open_times(launch, options);
    open_event(launch);
    launch->waits = waits(launch, options);
}

static void close_launch(struct gpu_launch *launch)
{
    close_times(launch);
    if (launch->awaited)
        CUDA(cuEventDestroy_v2, launch->name, launch->ended);
    CUDA(cuGraphExecDestroy, launch->name, launch->graph);
    for (size_t i = 0; i < launch->array_count; ++i)
        free_array(&launch->arrays[i]);
}

static void read_table(const struct gpu_table *table, CUstream stream)
{
    CUdeviceptr address;
    size_t bytes;
    CUDA(cuModuleGetGlobal_v2, table->name, &address, &bytes, gpu.module, table->name);
    if (bytes != table->bytes)
        fail(EXIT_SYSTEM, "table %s has %zu bytes on the GPU, expected %zu", table->name, bytes, table->bytes);
    CUDA(cuMemcpyDtoHAsync_v2, table->name, table->values, address, bytes, stream);
    CUDA(cuStreamSynchronize, table->name, stream);
}

/* Gives the GPU an array, runs a kernel, brings back another: for what is not a launch. */
static void pass(const struct gpu_kernel *kernel, const struct gpu_array ends[2], struct question asked, size_t vectors,
                 CUstream stream)
{
    enqueue_copy_in(&ends[0], vectors, stream);
    enqueue_kernel(kernel, ends, asked, vectors, stream);
    enqueue_copy_out(&ends[1], vectors, stream);
    CUDA(cuStreamSynchronize, kernel->name, stream);
}

/* A GPU, or a driver's compiler, that computes anything but the specification is refused. */
static void test_arithmetic(CUstream stream)
{
    static uint32_t results[SELF_TEST_CASES];
    static const size_t order[] = {0, 1};
    struct gpu_array arrays[] = {{GPU_SOURCE, sizeof *self_test_cases, NULL, 0, (void *)self_test_cases},
                                 {GPU_RESULT, sizeof *results, NULL, 0, results}};
    const struct gpu_kernel kernel = {"self_test", 1, order, 2, THREADS, 0, 0, find_function("self_test")};
    for (size_t i = 0; i < 2; ++i)
        CUDA(cuMemAlloc_v2, "the self-test", &arrays[i].device, SELF_TEST_CASES * arrays[i].bytes);
    pass(&kernel, arrays, (struct question){WHOLE}, SELF_TEST_CASES, stream);
    for (size_t i = 0; i < SELF_TEST_CASES; ++i)
        if (results[i] != self_test_cases[i].expected)
            fail(EXIT_SYSTEM,
                 "%s does not compute the specification: case %zu of the self-test (kernels/cuda/self_test.c) gives "
                 "%#x, expected %#x; do not use it, and report it with this line",
                 gpu_device(), i, (unsigned)results[i], (unsigned)self_test_cases[i].expected);
    for (size_t i = 0; i < 2; ++i)
        CUDA(cuMemFree_v2, "the self-test", arrays[i].device);
}

void gpu_fetch_tables(const struct gpu_item *item)
{
    enter_context();
    for (size_t i = 0; i < item->table_count; ++i)
        read_table(&item->tables[i], item->stream);
}

void gpu_open(struct gpu_item *item, const struct options *options)
{
    const bool first = gpu.users++ == 0;
    if (first)
        cuda_open(&gpu.context, &gpu.module, &gpu.multiprocessors, &gpu.shared_bytes);
    enter_context();
    CUDA(cuStreamCreate, item->name, &item->stream, CU_STREAM_NON_BLOCKING);
    if (first)
        test_arithmetic(item->stream);
    gpu_fetch_tables(item);
    for (size_t i = 0; i < item->launch_count; ++i)
        open_launch(item->launches[i], item->stream, options);
    item->out = options->time == TIME_NONE ? NULL : options->out;
}

void gpu_release(struct gpu_item *item)
{
    if (item->out)
        write_times(item);
    for (size_t i = 0; i < item->launch_count; ++i)
        close_launch(item->launches[i]);
    CUDA(cuStreamDestroy_v2, item->name, item->stream);
    if (--gpu.users == 0)
        cuda_close(gpu.context, gpu.module);
}

void gpu_put(struct gpu_launch *launch, size_t array, const void *from, size_t vectors)
{
    if (launch->arrays[array].pinned)
        memcpy(launch->arrays[array].pinned, from, vectors * launch->arrays[array].bytes);
}

void gpu_get(const struct gpu_launch *launch, size_t array, void *to, size_t vectors)
{
    if (launch->arrays[array].pinned && launch->ran)
        memcpy(to, launch->arrays[array].pinned, vectors * launch->arrays[array].bytes);
}

/* Return at once: the stream waits, for what the others have recorded by now. */
static void await_others(const struct gpu_launch *launch)
{
    for (struct gpu_launch *const *other = launch->awaited; other && *other; ++other)
        CUDA(cuStreamWaitEvent, launch->name, launch->stream, (*other)->ended, 0);
}

void gpu_run(struct gpu_launch *launch, size_t vectors)
{
    enter_context();
    await_others(launch);
    if (launch->times.wanted)
        CUDA(cuEventRecord, launch->name, launch->times.begin, launch->stream);
    if (vectors == launch->block)
        CUDA(cuGraphLaunch, launch->name, launch->graph, launch->stream);
    else
        enqueue(launch, vectors);
    if (launch->times.wanted)
        CUDA(cuEventRecord, launch->name, launch->times.end, launch->stream);
    if (launch->awaited)
        CUDA(cuEventRecord, launch->name, launch->ended, launch->stream);
    launch->ran = true;
    if (!launch->waits)
        return;
    CUDA(cuStreamSynchronize, launch->name, launch->stream);
    note_time(launch);
}

void gpu_finish(const struct gpu_item *item)
{
    enter_context();
    CUDA(cuStreamSynchronize, item->name, item->stream);
}

/* Its memory goes with the context: only a program that answers a question of the proof has any. */
void gpu_apply(struct gpu_stage *stage, size_t vectors, const void *inputs, void *outputs)
{
    struct gpu_array *const ends = stage->arrays;
    enter_context();
    for (size_t i = 0; i < 2; ++i)
        if (!ends[i].device)
            allocate_array(&ends[i], true);
    const struct question asked = {stage->part, ends[0].device, ends[1].device, stage->layer};
    memcpy(ends[0].pinned, inputs, vectors * ends[0].bytes);
    pass(&stage->launch->kernels[stage->kernel], ends, asked, vectors, stage->launch->stream);
    memcpy(outputs, ends[1].pinned, vectors * ends[1].bytes);
}
