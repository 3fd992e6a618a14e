/* The language of device code for a C++ compiler of a processor: the same text runs there.
 *
 * Each intrinsic is one IEEE 754 operation, rounded to nearest, half to even; the compiler is told to fuse none
 * (-ffp-contract=off), and that kernels read memory as another type than it was written (-fno-strict-aliasing).
 */
#ifndef CUDA_ON_CPU_H
#define CUDA_ON_CPU_H

/* System headers first: they use __noinline__ as the name of an attribute. */
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "block.h"
#include "registry.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

/* One copy, as blocks run one after the other; all of it is spoilt before the first and the last of a launch. */
#define __shared__ static __attribute__((section("simulated_shared")))

#define __syncthreads() simulated_barrier({__FILE__, __LINE__})

struct __align__(16) uint4 {
    uint32_t x, y, z, w;
};
struct __align__(16) int4 {
    int32_t x, y, z, w;
};
struct __align__(16) float4 {
    float x, y, z, w;
};

/* The shared memory that a launch asks for. */
#define shared_memory ((uint4 *)simulated_dynamic_memory)

/* The architecture that the code is compiled for, as NVIDIA's compiler has it. */
#ifndef SIMULATED_ARCH
#define SIMULATED_ARCH 72
#endif
#define __CUDA_ARCH__ (10 * SIMULATED_ARCH)

#define UNROLLED(iterations)

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}

static inline int4 make_int4(int32_t x, int32_t y, int32_t z, int32_t w)
{
    return {x, y, z, w};
}

static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

/* Byte n of the result is the byte of (b, a) that bits 4n to 4n + 2 of `selector` number. */
static inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (unsigned n = 0; n < 4; ++n)
        result |= (uint32_t)(uint8_t)(bytes >> (8 * (selector >> (4 * n) & 7))) << (8 * n);
    return result;
}

static inline float __uint_as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t __float_as_uint(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float __fmul_rn(float a, float b)
{
    return a * b;
}

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

static inline float __fsub_rn(float a, float b)
{
    return a - b;
}

static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}

static inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}

static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}

static inline float __int2float_rn(int32_t value)
{
    return (float)value;
}

/* Atomic operations return the value before. */
template <typename T> static inline T atomicAdd(T *address, T value)
{
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

static inline uint32_t atomicOr(uint32_t *address, uint32_t value)
{
    return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}

static inline int32_t atomicMin(int32_t *address, int32_t value)
{
    int32_t before = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (value < before && !__atomic_compare_exchange_n(address, &before, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return before;
}

static inline int32_t atomicMax(int32_t *address, int32_t value)
{
    int32_t before = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (value > before && !__atomic_compare_exchange_n(address, &before, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return before;
}

static inline int __popc(uint32_t value)
{
    return __builtin_popcount(value);
}

/* The greater of each pair of bytes. */
static inline uint32_t __vmaxu4(uint32_t a, uint32_t b)
{
    uint32_t greatest = 0;
    for (unsigned shift = 0; shift < 32; shift += 8) {
        const uint32_t x = a >> shift & 255, y = b >> shift & 255;
        greatest |= (x > y ? x : y) << shift;
    }
    return greatest;
}

/* The value of the thread whose lane differs by `mask`.  All threads of the block have to be here, not only a warp. */
static inline uint32_t __shfl_xor_sync(uint32_t lanes, uint32_t value, int mask)
{
    __shared__ uint32_t exchanged[1024];
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned other = (thread & ~31u) | ((thread ^ (unsigned)mask) & 31u);
    exchanged[thread] = lanes == UINT32_MAX ? value : 0;
    __syncthreads();
    const uint32_t found = exchanged[other];
    __syncthreads();
    return found;
}

/* Beyond int32 it gives the nearest int32, of NaN 0. */
static inline int32_t __float2int_rn(float value)
{
    if (value != value)
        return 0;
    if (value >= 2147483648.0f)
        return INT32_MAX;
    return value < -2147483648.0f ? INT32_MIN : (int32_t)lrintf(value);
}

#include "mma_on_cpu.h"

#endif
