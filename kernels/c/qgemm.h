/* QGemm (com.microsoft), one vector: a (depth) times weights b, stored one row an output: (width, depth).
 *
 *     acc[n] = bias[n] + sum_k (a[k] - za) * (b[n][k] - zb[n])                  int32
 *     y[n]   = saturate(round_half_even(float32(acc[n]) * m[n]) + zy)           uint8, int8
 *     y[n]   = float32(acc[n]) * m[n]                                           float32
 *
 * m[n] = ((alpha * a_scale) * b_scale[n]) / y_scale is a constant, computed by the host in float32 in
 * this order (without the division for a float32 output).  Multiplication and rounding stay two
 * operations: compile with -ffp-contract=off.
 *
 * b is int8: from uint8 weights and their zero points the host subtracts 128, which leaves b - zb as it is,
 * because processors multiply uint8 by int8 fastest.  (No cast may do that here: where the factor of a sum of
 * products is cast from uint8 to int8, GCC 12 can multiply by the uint8.)
 *
 * The sum is computed in three parts that add up to it:
 *
 *     offset[n] = bias[n] - za * sum_k b[n][k] + depth * za * zb[n]             once, by qgemm_offset
 *     acc[n]    = offset[n] + sum_k a[k] * b[n][k] - zb[n] * sum_k a[k]
 *
 * The host refuses a network whose acc can leave int32; the parts are added modulo 2^32, so that they may.
 * The two sums over k stay inside int32 for any values while depth <= QGEMM_DEPTH_LIMIT.
 */
#ifndef QGEMM_H
#define QGEMM_H

#include <stddef.h>

#include "saturate.h"

#define QGEMM_DEPTH_LIMIT 33025 /* 33025 * 255 * 255 < 2^31 */

/* Outputs that are summed together: they share the loads of a, and none waits for another's sum. */
enum { QGEMM_ROWS = 4 };

/* At -O2, which microcontrollers have for their memory, GCC keeps the sums in memory unless it unrolls the loop over
 * rows: 8.6 instead of 3.9 instructions a product on a Cortex-M4. */
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M' && __STDC_VERSION__ >= 199901L
#define QGEMM_UNROLLED _Pragma("GCC unroll 4")
#else
#define QGEMM_UNROLLED
#endif

/* A: type of the activations a.  zb is NULL where all weight zero points are 0. */
#define DEFINE_QGEMM(A)                                                                                \
    static inline void qgemm_offset_##A(size_t depth, size_t width, const int8_t *b, const int32_t *zb, \
                                        const int32_t *bias, int32_t za, uint32_t *offset)             \
    {                                                                                                  \
        for (size_t n = 0; n < width; ++n) {                                                           \
            int32_t sum = 0;                                                                           \
            for (size_t k = 0; k < depth; ++k)                                                         \
                sum += b[n * depth + k];                                                               \
            const uint32_t zero_points = zb ? (uint32_t)depth * (uint32_t)za * (uint32_t)zb[n] : 0;    \
            offset[n] = (uint32_t)bias[n] - (uint32_t)za * (uint32_t)sum + zero_points;                \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    /* dot[r] = sum_k a[k] * b[r][k] for rows <= QGEMM_ROWS */                                         \
    static inline void qgemm_dot_##A(size_t rows, size_t depth, const A##_t *restrict a,               \
                                     const int8_t *restrict b, int32_t *restrict dot)                  \
    {                                                                                                  \
        int32_t sum[QGEMM_ROWS] = {0};                                                                 \
        size_t r;                                                                                      \
        for (size_t k = 0; k < depth; ++k)                                                             \
            QGEMM_UNROLLED                                                                             \
            for (r = 0; r < rows; ++r)                                                                 \
                sum[r] += a[k] * b[r * depth + k];                                                     \
        for (r = 0; r < rows; ++r)                                                                     \
            dot[r] = sum[r];                                                                           \
    }                                                                                                  \
                                                                                                       \
    static inline void qgemm_accumulate_##A(size_t depth, size_t width, const A##_t *restrict a,       \
                                            const int8_t *restrict b, const int32_t *restrict zb,      \
                                            const uint32_t *restrict offset, int32_t *restrict acc)    \
    {                                                                                                  \
        const size_t rest = width % QGEMM_ROWS;                                                        \
        for (size_t n = 0; n < rest; ++n)                                                              \
            qgemm_dot_##A(1, depth, a, &b[n * depth], &acc[n]);                                        \
        for (size_t n = rest; n < width; n += QGEMM_ROWS)                                              \
            qgemm_dot_##A(QGEMM_ROWS, depth, a, &b[n * depth], &acc[n]);                               \
        int32_t sum_a = 0;                                                                             \
        for (size_t k = 0; zb && k < depth; ++k)                                                       \
            sum_a += a[k];                                                                             \
        for (size_t n = 0; n < width; ++n) {                                                           \
            const uint32_t correction = zb ? (uint32_t)zb[n] * (uint32_t)sum_a : 0;                    \
            acc[n] = (int32_t)(offset[n] + (uint32_t)acc[n] - correction);                             \
        }                                                                                              \
    }

DEFINE_QGEMM(uint8)
DEFINE_QGEMM(int8)

#define DEFINE_REQUANTIZE(Y, QMIN, QMAX)                                                               \
    static inline void requantize_##Y(size_t width, const int32_t *restrict acc,                       \
                                      const float *restrict m, int32_t zy, Y##_t *restrict y)          \
    {                                                                                                  \
        NOT_KNOWN(zy);                                                                                 \
        for (size_t n = 0; n < width; ++n)                                                             \
            y[n] = (Y##_t)round_saturated((float)acc[n] * m[n], QMIN, QMAX, zy);                       \
    }

DEFINE_REQUANTIZE(uint8, 0, 255)
DEFINE_REQUANTIZE(int8, -128, 127)

static inline void scale_accumulator(size_t width, const int32_t *restrict acc, const float *restrict m,
                                     float *restrict y)
{
    for (size_t n = 0; n < width; ++n)
        y[n] = (float)acc[n] * m[n];
}

#endif
