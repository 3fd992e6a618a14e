/* Gemm and MatMul (ONNX), float32, one vector a[K]:
 *
 *     y[n] = bias[n] + 0                 a bias of -0 counts as 0
 *     y[n] = y[n] + a[k] * w[k][n]       for k = 0 to K - 1: the product is rounded, then the sum
 *
 * Compile with -ffp-contract=off: no product may be fused with its sum.  The loop over n is the inner one, so that the
 * sums are vectorised without a change of their order.
 */
#ifndef GEMM_H
#define GEMM_H

#include <stddef.h>

static inline void gemm_float32(size_t depth, size_t width, const float *restrict a, const float *restrict w,
                                const float *restrict bias, float *restrict y)
{
    for (size_t n = 0; n < width; ++n)
        y[n] = bias[n] + 0.0f;
    for (size_t k = 0; k < depth; ++k)
        for (size_t n = 0; n < width; ++n)
            y[n] += a[k] * w[k * width + n];
}

#endif
