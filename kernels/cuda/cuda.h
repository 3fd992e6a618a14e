/* The CUDA driver, which the board has and the program does not: loaded when an item on the GPU is opened. */
#ifndef CUDA_H
#define CUDA_H

#include "driver.h"

/* Calls a function of the driver; exits with its name, CUDA's name of the error, `what`, and what to do about it. */
#define CUDA(function, what, ...) cuda_check(cuda.function(__VA_ARGS__), #function, what)

#define CUDA_MEMBER(result, name, arguments) result(*name) arguments;
struct cuda {
    CUDA_DRIVER(CUDA_MEMBER)
};

extern struct cuda cuda;

void cuda_check(CUresult result, const char *function, const char *what);

/* Loads driver and code; exits with what to do where one of them does not serve. */
void cuda_open(CUcontext *context, CUmodule *module, unsigned *multiprocessors, unsigned *shared_bytes);
void cuda_close(CUcontext context, CUmodule module);

#endif
