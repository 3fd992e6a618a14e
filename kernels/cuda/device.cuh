/* The language of the device code: fixed-width types, kernels, functions of one code.
 *
 * The same text is compiled by NVRTC, which has no standard headers, and as host code over simulators/cuda/cuda_on_cpu.h.
 */
#ifndef DEVICE_CUH
#define DEVICE_CUH

#include "part.h"

#ifdef __CUDACC_RTC__
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
using size_t = unsigned long;

/* The shared memory of a block, as much as the launch asks for; aligned for matrices of tensor cores. */
extern __shared__ __align__(32) uint4 shared_memory[];

/* Before a loop: how many copies of its body the compiler makes.  With a copy for each iteration, arrays can be in
 * registers.  With one copy the code is short, and the GPU waits less for instructions. */
#define TEXT(words) #words
#define UNROLLED(iterations) _Pragma(TEXT(unroll(iterations)))
#endif

/* The code between its inputs and outputs is one piece of machine code: not inlined, and called by one kernel alone, as
 * each kernel has copies of its own of what it calls. */
#define ONE_CODE extern "C" __device__ __noinline__

/* Is launched by its name. */
#define KERNEL extern "C" __global__ void

/* The number of a thread among all. */
__device__ inline size_t thread_of_grid()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

#endif
