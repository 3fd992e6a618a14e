/* A stand-in for the NVIDIA driver, libcuda.so.1, whose GPU is the processor: kernels and tables are those of the
 * registry.  The functions do what CUDA's documentation says of them, and refuse what it leaves undefined.
 *
 * Work waits in its stream until somebody waits for it: a program that forgets to finds that nothing has happened.
 * Streams work at the same time, and only events order them: see work.h and order.h.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "objects.h"
#include "work.h"

/* All else is hidden. */
#define EXPORT(result, name, arguments) extern "C" __attribute__((visibility("default"))) result name arguments;
CUDA_DRIVER(EXPORT)

#ifndef SIMULATED_MULTIPROCESSORS
#define SIMULATED_MULTIPROCESSORS 8
#endif

namespace {

constexpr unsigned OPERATIONS_OF_A_STREAM = 64;
constexpr size_t SHARED_BYTES = 48 * 1024, THREADS_OF_A_BLOCK = 1024;

bool initialised;
unsigned char *initial_tables; /* as the compiler left them */

struct Lock {
    Lock()
    {
        pthread_mutex_lock(&books);
    }
    ~Lock()
    {
        pthread_mutex_unlock(&books);
    }
};

/* Preconditions of a call */

enum Needs : unsigned { NOTHING = 0, INITIALISED = 1, IN_CONTEXT = 3, NO_CAPTURE = 4 };

/* A call that may disturb a capture of its own thread breaks it. */
CUresult break_captures()
{
    CUresult result = CUDA_SUCCESS;
    for (Object *object = objects; object != nullptr; object = object->next) {
        CUstream const stream = (CUstream)object;
        if (object->kind != STREAM || stream->capture == nullptr || !pthread_equal(stream->captured_by, pthread_self()))
            continue;
        stream->capture_failed = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

/* Nor may any thread do to a stream what cannot be recorded. */
CUresult break_capture(CUstream stream)
{
    stream->capture_failed = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult refusal(unsigned needs)
{
    if ((needs & INITIALISED) && !initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if ((needs & IN_CONTEXT) == IN_CONTEXT) {
        if (current == nullptr)
            return CUDA_ERROR_INVALID_CONTEXT;
        if (find(current, CONTEXT) == nullptr)
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (current->error != CUDA_SUCCESS)
            return current->error;
    }
    return needs & NO_CAPTURE ? break_captures() : CUDA_SUCCESS;
}

#define ENTER(name, needs)                                                                             \
    if (const CUresult fault = injected_fault(FUNCTION_##name))                                        \
        return fault;                                                                                  \
    const Lock lock;                                                                                   \
    if (const CUresult refused = refusal(needs))                                                       \
        return refused

/* Adds the GPU's work to the stream, or to the graph that it records. */
CUresult enqueue(CUstream stream, Operation *operation)
{
    if (stream->capture == nullptr)
        return add_work(stream, operation);
    append(&stream->capture->operations, operation);
    return CUDA_SUCCESS;
}

/* Modules */

size_t bytes_of_tables()
{
    size_t bytes = 0;
    for (size_t i = 0; i < simulated_table_count; ++i)
        bytes += simulated_tables[i].bytes;
    return bytes;
}

/* Every load of a module begins with the tables as they were compiled. */
void reset_tables()
{
    const bool first = initial_tables == nullptr;
    if (first)
        initial_tables = (unsigned char *)allocate(bytes_of_tables() + 1);
    unsigned char *kept = initial_tables;
    for (size_t i = 0; i < simulated_table_count; ++i) {
        const simulated_table &table = simulated_tables[i];
        memcpy(first ? kept : table.address, first ? table.address : kept, table.bytes);
        kept += table.bytes;
    }
}

bool has_module()
{
    for (const Object *object = objects; object != nullptr; object = object->next)
        if (object->kind == MODULE)
            return true;
    return false;
}

/* An image of other sources than the stand-in's would be a test of something else. */
bool tables_agree(const void *image)
{
    for (size_t i = 0; i < simulated_table_count; ++i) {
        size_t bytes;
        const simulated_table &table = simulated_tables[i];
        if (!image_find_table(image, table.name, &bytes) || bytes == table.bytes)
            continue;
        complain("table %s has %zu bytes in the image, %zu in the simulation", table.name, bytes, table.bytes);
        return false;
    }
    return true;
}

const simulated_kernel *find_kernel(const char *name)
{
    for (size_t i = 0; i < simulated_kernel_count; ++i)
        if (strcmp(simulated_kernels[i].name, name) == 0)
            return &simulated_kernels[i];
    return nullptr;
}

const simulated_table *find_table(const char *name)
{
    for (size_t i = 0; i < simulated_table_count; ++i)
        if (strcmp(simulated_tables[i].name, name) == 0)
            return &simulated_tables[i];
    return nullptr;
}

Object *find_of_module(Kind kind, const void *what)
{
    for (Object *object = objects; object != nullptr; object = object->next) {
        if (object->kind != kind || object->context != current)
            continue;
        if (what == (kind == FUNCTION ? (const void *)((CUfunction)object)->kernel : ((Memory *)object)->begin))
            return object;
    }
    return nullptr;
}

/* Launches */

bool is_shape(unsigned x, unsigned y, unsigned z, size_t most_x, size_t most_y, size_t most_z)
{
    return x >= 1 && y >= 1 && z >= 1 && x <= most_x && y <= most_y && z <= most_z;
}

/* The most shared memory of a block that asks for it: CUDA C++ Programming Guide, technical specifications. */
size_t most_shared_bytes()
{
    const struct {
        int arch;
        size_t kilobytes;
    } limits[] = {{90, 227}, {89, 99}, {87, 163}, {86, 99}, {80, 163}, {75, 64}, {70, 96}};
    for (const auto &limit : limits)
        if (pretended_arch() >= limit.arch)
            return limit.kilobytes * 1024;
    return SHARED_BYTES;
}

bool fits(const CUfunc_st *function, uint3 grid, uint3 block, unsigned shared_bytes)
{
    const size_t threads = (size_t)block.x * block.y * block.z;
    return is_shape(grid.x, grid.y, grid.z, INT32_MAX, 65535, 65535) &&
           is_shape(block.x, block.y, block.z, 1024, 1024, 64) && threads <= THREADS_OF_A_BLOCK &&
           threads <= function->limits.most_threads &&
           shared_bytes <= function->dynamic_bytes;
}

bool are_given(const simulated_kernel *kernel, void *const *parameters)
{
    for (size_t i = 0; i < kernel->parameter_count; ++i)
        if (parameters == nullptr || parameters[i] == nullptr)
            return false;
    return true;
}

/* Copies between host and GPU */

CUresult enqueue_copy(CUstream stream, Action action, void *to, const void *from, size_t bytes)
{
    const void *const host = action == COPY_IN ? from : to;
    const bool pinned = find_memory(PINNED, host, bytes) != nullptr;
    const bool starts_pinned = find_memory(PINNED, host, 0) != nullptr;
    if (find(stream, STREAM) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (host == nullptr || starts_pinned != pinned || !on_gpu(action == COPY_IN ? to : from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != nullptr && !pinned)
        return break_capture(stream);
    Operation *const operation = new_operation(action);
    operation->to = to;
    operation->from = from;
    operation->bytes = bytes;
    operation->pinned = pinned;
    return enqueue(stream, operation);
}

const char *name_of(Kind kind)
{
    const char *const names[] = {"context", "module",        "function", "table", "GPU memory", "pinned host memory",
                                 "stream",  "event", "graph",    "executable graph"};
    return names[kind];
}

void report_leaks()
{
    for (const Object *object = objects; object != nullptr; object = object->next)
        if (object->context == current && object->kind != CONTEXT && object->kind != FUNCTION && object->kind != TABLE)
            complain("still there when its context is destroyed: %s", name_of(object->kind));
}

const struct {
    CUresult error;
    const char *name;
} error_names[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
    {4, "CUDA_ERROR_DEINITIALIZED"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    {999, "CUDA_ERROR_UNKNOWN"},
};

} // namespace

/* The driver and the device */

CUresult cuInit(unsigned flags)
{
    ENTER(cuInit, NOTHING);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    initialised = true;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    ENTER(cuDriverGetVersion, NOTHING);
    if (version == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *version = pretended_driver();
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    ENTER(cuGetErrorName, NOTHING);
    if (name == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *name = nullptr;
    for (const auto &known : error_names)
        if (known.error == error)
            *name = known.name;
    return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER(cuDeviceGetCount, INITIALISED);
    if (count == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(cuDeviceGet, INITIALISED);
    if (device == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (ordinal != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    ENTER(cuDeviceGetName, INITIALISED);
    if (name == nullptr || length < 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "host-simulation of CUDA");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    ENTER(cuDeviceGetAttribute, INITIALISED);
    if (value == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = SIMULATED_MULTIPROCESSORS; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = pretended_arch() / 10; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = pretended_arch() % 10; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = (int)most_shared_bytes(); return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Contexts */

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    ENTER(cuCtxCreate_v2, INITIALISED);
    const bool known = flags == 0 || flags == CU_CTX_SCHED_SPIN || flags == CU_CTX_SCHED_YIELD ||
                       flags == CU_CTX_SCHED_BLOCKING_SYNC;
    if (context == nullptr || !known)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *context = current = add<CUctx_st>(CONTEXT);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER(cuCtxSetCurrent, INITIALISED);
    if (context != nullptr && find(context, CONTEXT) == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER(cuCtxDestroy_v2, INITIALISED);
    if (find(context, CONTEXT) == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    const CUcontext before = current == context ? nullptr : current;
    current = context;
    if (leaks_are_reported())
        report_leaks();
    for (Kind kind = MODULE; kind <= EXECUTABLE; kind = (Kind)(kind + 1))
        destroy_all(kind);
    destroy(context);
    current = before;
    return CUDA_SUCCESS;
}

/* Modules */

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER(cuModuleLoadData, IN_CONTEXT | NO_CAPTURE);
    if (module == nullptr || image == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult unfit = image_check(image, pretended_arch(), pretended_driver()))
        return unfit;
    if (!tables_agree(image))
        return CUDA_ERROR_INVALID_IMAGE;
    if (has_module()) {
        complain("it can hold one module at a time");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    reset_tables();
    *module = add<CUmod_st>(MODULE);
    (*module)->image = allocate(image_bytes(image));
    memcpy((*module)->image, image, image_bytes(image));
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    ENTER(cuModuleUnload, IN_CONTEXT | NO_CAPTURE);
    if (find(module, MODULE) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    destroy_all(FUNCTION);
    destroy_all(TABLE);
    destroy(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER(cuModuleGetFunction, IN_CONTEXT);
    image_kernel limits;
    if (function == nullptr || name == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (find(module, MODULE) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!image_find_kernel(module->image, name, &limits))
        return CUDA_ERROR_NOT_FOUND;
    const simulated_kernel *const kernel = find_kernel(name);
    if (kernel == nullptr) {
        complain("kernel %s of the image is not in the simulation", name);
        return CUDA_ERROR_NOT_FOUND;
    }
    *function = (CUfunction)find_of_module(FUNCTION, kernel);
    if (*function != nullptr)
        return CUDA_SUCCESS;
    *function = add<CUfunc_st>(FUNCTION);
    (*function)->module = module;
    (*function)->kernel = kernel;
    (*function)->limits = limits;
    (*function)->dynamic_bytes = SHARED_BYTES - limits.shared_bytes;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    ENTER(cuFuncSetAttribute, IN_CONTEXT);
    if (find(function, FUNCTION) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        function->limits.shared_bytes + (size_t)value > most_shared_bytes())
        return CUDA_ERROR_INVALID_VALUE;
    function->dynamic_bytes = (size_t)value;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    ENTER(cuModuleGetGlobal_v2, IN_CONTEXT);
    size_t size;
    if (name == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (find(module, MODULE) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!image_find_table(module->image, name, &size))
        return CUDA_ERROR_NOT_FOUND;
    const simulated_table *const table = find_table(name);
    if (table == nullptr) {
        complain("table %s of the image is not in the simulation", name);
        return CUDA_ERROR_NOT_FOUND;
    }
    if (find_of_module(TABLE, table->address) == nullptr) {
        Memory *const memory = add<Memory>(TABLE);
        memory->begin = (unsigned char *)table->address;
        memory->bytes = table->bytes;
    }
    if (address != nullptr)
        *address = (CUdeviceptr)table->address;
    if (bytes != nullptr)
        *bytes = table->bytes;
    return CUDA_SUCCESS;
}

/* Memory */

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    ENTER(cuMemAlloc_v2, IN_CONTEXT | NO_CAPTURE);
    void *memory;
    if (address == nullptr || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!allocate_memory(MEMORY, bytes, &memory))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *address = (CUdeviceptr)memory;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    ENTER(cuMemFree_v2, IN_CONTEXT | NO_CAPTURE);
    return free_memory(MEMORY, (const void *)address);
}

CUresult cuMemAllocHost_v2(void **address, size_t bytes)
{
    ENTER(cuMemAllocHost_v2, IN_CONTEXT | NO_CAPTURE);
    if (address == nullptr || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate_memory(PINNED, bytes, address) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *address)
{
    ENTER(cuMemFreeHost, IN_CONTEXT | NO_CAPTURE);
    return free_memory(PINNED, address);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    ENTER(cuMemcpyHtoDAsync_v2, IN_CONTEXT);
    return enqueue_copy(stream, COPY_IN, (void *)to, from, bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER(cuMemcpyDtoHAsync_v2, IN_CONTEXT);
    return enqueue_copy(stream, COPY_OUT, to, (const void *)from, bytes);
}

/* Streams and graphs */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER(cuStreamCreate, IN_CONTEXT);
    if (stream == nullptr || (flags != 0 && flags != CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    CUstream const made = add<CUstream_st>(STREAM);
    if (!open_stream(made)) {
        complain("it can hold %d streams at a time", MOST_STREAMS);
        destroy(made);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *stream = made;
    reserve_operations(OPERATIONS_OF_A_STREAM);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    ENTER(cuStreamDestroy_v2, IN_CONTEXT);
    if (find(stream, STREAM) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != nullptr)
        return break_capture(stream);
    const CUresult result = run(stream);
    destroy(stream);
    return result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER(cuStreamSynchronize, IN_CONTEXT);
    if (find(stream, STREAM) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    return stream->capture != nullptr ? break_capture(stream) : run(stream);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    ENTER(cuStreamBeginCapture_v2, IN_CONTEXT);
    if (find(stream, STREAM) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL || stream->capture != nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    stream->capture = add<CUgraph_st>(GRAPH);
    stream->captured_by = pthread_self();
    stream->capture_failed = false;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    ENTER(cuStreamEndCapture, IN_CONTEXT);
    if (find(stream, STREAM) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (graph == nullptr || stream->capture == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!pthread_equal(stream->captured_by, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    *graph = stream->capture;
    stream->capture = nullptr;
    if (!stream->capture_failed)
        return CUDA_SUCCESS;
    destroy(*graph);
    *graph = nullptr;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    ENTER(cuGraphInstantiateWithFlags, IN_CONTEXT);
    if (find(graph, GRAPH) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (executable == nullptr || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *executable = add<CUgraphExec_st>(EXECUTABLE);
    copy_all(&graph->operations, &(*executable)->operations);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    ENTER(cuGraphLaunch, IN_CONTEXT);
    if (find(executable, EXECUTABLE) == nullptr || find(stream, STREAM) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != nullptr)
        return break_capture(stream);
    Operation *const operation = new_operation(REPLAY);
    operation->executable = executable;
    return add_work(stream, operation);
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    ENTER(cuGraphExecDestroy, IN_CONTEXT);
    if (find(executable, EXECUTABLE) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    destroy(executable);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER(cuGraphDestroy, IN_CONTEXT);
    if (find(graph, GRAPH) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    destroy(graph);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **extra)
{
    ENTER(cuLaunchKernel, IN_CONTEXT);
    const uint3 grid = {grid_x, grid_y, grid_z}, block = {block_x, block_y, block_z};
    if (find(function, FUNCTION) == nullptr || find(stream, STREAM) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    const simulated_kernel *const kernel = function->kernel;
    const size_t bytes = each_parameter(kernel, [](size_t, size_t) {});
    if (extra != nullptr || bytes > PARAMETER_BYTES || !fits(function, grid, block, shared_bytes) ||
        !are_given(kernel, parameters))
        return CUDA_ERROR_INVALID_VALUE;
    Operation *const operation = new_operation(LAUNCH);
    operation->function = function;
    operation->grid = grid;
    operation->block = block;
    operation->shared_bytes = shared_bytes;
    each_parameter(kernel, [&](size_t i, size_t offset) {
        memcpy(operation->parameters + offset, parameters[i], kernel->parameters[i].bytes);
    });
    return enqueue(stream, operation);
}

/* Events */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER(cuEventCreate, IN_CONTEXT);
    if (event == nullptr || (flags != CU_EVENT_DEFAULT && flags != CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    *event = add<CUevent_st>(EVENT);
    (*event)->timed = flags == CU_EVENT_DEFAULT;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    ENTER(cuEventDestroy_v2, IN_CONTEXT);
    if (find(event, EVENT) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    destroy(event);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER(cuEventRecord, IN_CONTEXT);
    if (find(event, EVENT) == nullptr || find(stream, STREAM) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    event->captured = stream->capture != nullptr;
    if (event->captured)
        return CUDA_SUCCESS;
    Operation *const operation = new_operation(RECORD);
    operation->event = event;
    const CUresult result = add_work(stream, operation);
    event->place = {stream->slot, stream->clock.of[stream->slot]};
    event->clock = stream->clock;
    return result;
}

/* CUDA lets a capture spread to a stream that waits for what another records; here each graph is of one stream. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    ENTER(cuStreamWaitEvent, IN_CONTEXT);
    if (find(stream, STREAM) == nullptr || find(event, EVENT) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (event->captured)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (stream->capture != nullptr) {
        break_capture(stream);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (event->place.number == 0) {
        complain("a stream waits for an event that was never recorded: on a GPU it would not wait");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    stream->clock.join(event->clock);
    Operation *const operation = new_operation(WAIT);
    operation->place = event->place;
    return add_work(stream, operation);
}

CUresult cuEventSynchronize(CUevent event)
{
    ENTER(cuEventSynchronize, IN_CONTEXT);
    if (find(event, EVENT) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->captured)
        return CUDA_ERROR_CAPTURED_EVENT;
    return run_until(event->place, event->clock);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
    ENTER(cuEventElapsedTime, IN_CONTEXT);
    if (find(begin, EVENT) == nullptr || find(end, EVENT) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    if (begin->place.number == 0 || end->place.number == 0 || !begin->timed || !end->timed)
        return CUDA_ERROR_INVALID_HANDLE;
    if (milliseconds == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (begin->captured || end->captured)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!is_done(begin->place) || !is_done(end->place))
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)(int64_t)(end->time_ns - begin->time_ns) / 1e6f;
    return CUDA_SUCCESS;
}
