/* Four products of bytes and their sum: the one instruction of the fused kernels that C++ has no words for. */
#ifndef DOT4_CUH
#define DOT4_CUH

#include "device.cuh"

/* sum + the four products of the bytes of a and b, modulo 2^32 */
template <typename A, typename B> __device__ inline uint32_t dot4(uint32_t a, uint32_t b, uint32_t sum);

#ifdef __CUDACC_RTC__
#define DEFINE_DOT4(A, B, TYPES)                                                                       \
    template <> __device__ inline uint32_t dot4<A, B>(uint32_t a, uint32_t b, uint32_t sum)            \
    {                                                                                                  \
        asm("dp4a." TYPES " %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));                            \
        return sum;                                                                                    \
    }
#else
#define DEFINE_DOT4(A, B, TYPES)                                                                       \
    template <> __device__ inline uint32_t dot4<A, B>(uint32_t a, uint32_t b, uint32_t sum)            \
    {                                                                                                  \
        for (unsigned shift = 0; shift < 32; shift += 8)                                               \
            sum += (uint32_t)((A)(a >> shift) * (B)(b >> shift));                                      \
        return sum;                                                                                    \
    }
#endif

DEFINE_DOT4(uint8_t, uint8_t, "u32.u32")
DEFINE_DOT4(uint8_t, int8_t, "u32.s32")
DEFINE_DOT4(int8_t, uint8_t, "s32.u32")
DEFINE_DOT4(int8_t, int8_t, "s32.s32")

#endif
