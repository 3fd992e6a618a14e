/* The part of the CUDA driver API that the program uses, declared from its public documentation.
 *
 * The names are those of the functions in libcuda.so.1, with the version that each call means.
 */
#ifndef DRIVER_H
#define DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int CUresult; /* 0: success */
typedef int CUdevice;
typedef uint64_t CUdeviceptr; /* an address in the memory of a GPU */
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
};

enum { CU_CTX_SCHED_SPIN = 1, CU_CTX_SCHED_YIELD = 2, CU_CTX_SCHED_BLOCKING_SYNC = 4 };
enum {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
enum { CU_STREAM_NON_BLOCKING = 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1, CU_EVENT_DEFAULT = 0,
       CU_EVENT_DISABLE_TIMING = 2 };

/* X(result, name, arguments) for every function. */
#define CUDA_DRIVER(X)                                                                                 \
    X(CUresult, cuInit, (unsigned flags))                                                              \
    X(CUresult, cuDriverGetVersion, (int *version))                                                    \
    X(CUresult, cuGetErrorName, (CUresult error, const char **name))                                   \
    X(CUresult, cuDeviceGetCount, (int *count))                                                        \
    X(CUresult, cuDeviceGet, (CUdevice *device, int ordinal))                                          \
    X(CUresult, cuDeviceGetName, (char *name, int length, CUdevice device))                            \
    X(CUresult, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                    \
    X(CUresult, cuCtxCreate_v2, (CUcontext *context, unsigned flags, CUdevice device))                 \
    X(CUresult, cuCtxSetCurrent, (CUcontext context))                                                  \
    X(CUresult, cuCtxDestroy_v2, (CUcontext context))                                                  \
    X(CUresult, cuModuleLoadData, (CUmodule *module, const void *image))                               \
    X(CUresult, cuModuleUnload, (CUmodule module))                                                     \
    X(CUresult, cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name))        \
    X(CUresult, cuFuncSetAttribute, (CUfunction function, int attribute, int value))                   \
    X(CUresult, cuModuleGetGlobal_v2, (CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)) \
    X(CUresult, cuMemAlloc_v2, (CUdeviceptr *address, size_t bytes))                                   \
    X(CUresult, cuMemFree_v2, (CUdeviceptr address))                                                   \
    X(CUresult, cuMemAllocHost_v2, (void **address, size_t bytes))                                     \
    X(CUresult, cuMemFreeHost, (void *address))                                                        \
    X(CUresult, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
    X(CUresult, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))     \
    X(CUresult, cuStreamCreate, (CUstream *stream, unsigned flags))                                    \
    X(CUresult, cuStreamDestroy_v2, (CUstream stream))                                                 \
    X(CUresult, cuStreamSynchronize, (CUstream stream))                                                \
    X(CUresult, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                   \
    X(CUresult, cuStreamBeginCapture_v2, (CUstream stream, int mode))                                  \
    X(CUresult, cuStreamEndCapture, (CUstream stream, CUgraph *graph))                                 \
    X(CUresult, cuGraphInstantiateWithFlags, (CUgraphExec *executable, CUgraph graph, unsigned long long flags)) \
    X(CUresult, cuGraphLaunch, (CUgraphExec executable, CUstream stream))                              \
    X(CUresult, cuGraphExecDestroy, (CUgraphExec executable))                                          \
    X(CUresult, cuGraphDestroy, (CUgraph graph))                                                       \
    X(CUresult, cuLaunchKernel,                                                                        \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra))     \
    X(CUresult, cuEventCreate, (CUevent *event, unsigned flags))                                       \
    X(CUresult, cuEventDestroy_v2, (CUevent event))                                                    \
    X(CUresult, cuEventRecord, (CUevent event, CUstream stream))                                       \
    X(CUresult, cuEventSynchronize, (CUevent event))                                                   \
    X(CUresult, cuEventElapsedTime, (float *milliseconds, CUevent begin, CUevent end))

#ifdef __cplusplus
}
#endif
#endif
