/* A program like those of the harness, in short: it sends bytes through the kernels of an image, with the driver's API.
 *
 *     driver LIBRARY IMAGE VECTORS INPUT OUTPUT X Y GRAPH SHARED WIDTH,WIDTH,... KERNEL...
 *
 * The widths are those of the activations in bytes, the input first.  One kernel takes the vectors' count and all
 * activations; several take (count, their input, their output), with a thread for each output, and X * Y of them in a
 * block.  GRAPH is how often a graph of it is replayed; 0: the work is done without.  SHARED is the shared memory, in
 * bytes, that a launch of one kernel asks for.  OUTPUT receives all activations.
 * It prints the first call that fails, with its error, and exits with 1.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { ARRAYS = 32 };

#define MEMBER(result, name, arguments) static result(*name) arguments;
CUDA_DRIVER(MEMBER)

#define CALL(function, ...) check(function(__VA_ARGS__), #function)

static void check(CUresult result, const char *function)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s=%d\n", function, result);
    exit(1);
}

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
#define FIND(result, name, arguments) *(void **)&name = dlsym(library, #name);
    CUDA_DRIVER(FIND)
}

static void *read_all(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *content = calloc(1, *bytes + 1);
    *bytes = fread(content, 1, *bytes, file);
    fclose(file);
    return content;
}

static CUstream stream;
static CUmodule module;
static CUdeviceptr device[ARRAYS];
static unsigned char *pinned[ARRAYS];
static size_t widths[ARRAYS], arrays;
static unsigned vectors, x, y, shared;

static void read_widths(char *text)
{
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ","))
        widths[arrays++] = strtoul(word, NULL, 10);
}

static void allocate(void)
{
    for (size_t i = 0; i < arrays; ++i) {
        CALL(cuMemAlloc_v2, &device[i], vectors * widths[i]);
        CALL(cuMemAllocHost_v2, (void **)&pinned[i], vectors * widths[i]);
    }
}

static unsigned whole; /* the part of the kernel that is asked for, and its layer */
static CUdeviceptr nothing;

static void launch_all(CUfunction function)
{
    void *parameters[1 + ARRAYS + 4] = {&vectors};
    size_t used = 1;
    for (size_t i = 0; i < arrays; ++i)
        parameters[used++] = &device[i];
    parameters[used++] = &whole;
    parameters[used++] = &nothing;
    parameters[used++] = &nothing;
    parameters[used++] = &whole;
    CALL(cuLaunchKernel, function, (vectors + x - 1) / x, 1, 1, x, y, 1, shared, stream, parameters, NULL);
}

static void launch_one(CUfunction function, size_t layer)
{
    void *parameters[] = {&vectors, &device[layer], &device[layer + 1], &whole, &nothing, &nothing};
    const unsigned blocks = (unsigned)((vectors * widths[layer + 1] + x * y - 1) / (x * y));
    CALL(cuLaunchKernel, function, blocks, 1, 1, x * y, 1, 1, 0, stream, parameters, NULL);
}

static void enqueue(char *const *kernels, size_t count)
{
    CUfunction function;
    CALL(cuMemcpyHtoDAsync_v2, device[0], pinned[0], vectors * widths[0], stream);
    for (size_t i = 0; i < count; ++i) {
        CALL(cuModuleGetFunction, &function, module, kernels[i]);
        count == 1 ? launch_all(function) : launch_one(function, i);
    }
    for (size_t i = 1; i < arrays; ++i)
        CALL(cuMemcpyDtoHAsync_v2, pinned[i], device[i], vectors * widths[i], stream);
}

static void replay(char *const *kernels, size_t count, unsigned times)
{
    CUgraph graph;
    CUgraphExec executable;
    CALL(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    enqueue(kernels, count);
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuGraphInstantiateWithFlags, &executable, graph, 0);
    CALL(cuGraphDestroy, graph);
    for (unsigned i = 0; i < times; ++i) {
        CALL(cuGraphLaunch, executable, stream);
        CALL(cuStreamSynchronize, stream);
    }
    CALL(cuGraphExecDestroy, executable);
}

static void finish(CUcontext context, CUevent begin, CUevent end)
{
    float milliseconds;
    CALL(cuEventElapsedTime, &milliseconds, begin, end);
    fprintf(stderr, "%.1f ms\n", (double)milliseconds);
    CALL(cuEventDestroy_v2, begin);
    CALL(cuEventDestroy_v2, end);
    for (size_t i = 0; i < arrays; ++i) {
        CALL(cuMemFree_v2, device[i]);
        CALL(cuMemFreeHost, pinned[i]);
    }
    CALL(cuStreamDestroy_v2, stream);
    CALL(cuModuleUnload, module);
    CALL(cuCtxDestroy_v2, context);
}

int main(int count, char **given)
{
    CUcontext context;
    CUevent begin, end;
    size_t bytes;
    if (count < 12)
        return 2;
    load(given[1]);
    vectors = (unsigned)strtoul(given[3], NULL, 10);
    x = (unsigned)strtoul(given[6], NULL, 10);
    y = (unsigned)strtoul(given[7], NULL, 10);
    const unsigned times = (unsigned)strtoul(given[8], NULL, 10);
    shared = (unsigned)strtoul(given[9], NULL, 10);
    read_widths(given[10]);
    CALL(cuInit, 0);
    CALL(cuCtxCreate_v2, &context, CU_CTX_SCHED_SPIN, 0);
    void *image = read_all(given[2], &bytes);
    CALL(cuModuleLoadData, &module, image);
    free(image);
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CALL(cuEventCreate, &begin, CU_EVENT_DEFAULT);
    CALL(cuEventCreate, &end, CU_EVENT_DEFAULT);
    allocate();
    void *input = read_all(given[4], &bytes);
    memcpy(pinned[0], input, vectors * widths[0]);
    free(input);
    CALL(cuEventRecord, begin, stream);
    if (times > 0)
        replay(&given[11], (size_t)count - 11, times);
    else
        enqueue(&given[11], (size_t)count - 11);
    CALL(cuEventRecord, end, stream);
    CALL(cuStreamSynchronize, stream);
    FILE *file = fopen(given[5], "wb");
    for (size_t i = 0; i < arrays; ++i)
        fwrite(pinned[i], 1, vectors * widths[i], file);
    fclose(file);
    finish(context, begin, end);
    return 0;
}
