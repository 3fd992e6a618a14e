/* Mul (ONNX), float32, one vector: the product of two factors, or of a factor and a constant.
 *
 *     y[n] = a[n] * b[n]                 one multiplication, rounded to nearest, half to even
 */
#ifndef MUL_H
#define MUL_H

#include <stddef.h>

static inline void mul_float32(size_t width, const float *restrict a, const float *restrict b, float *restrict y)
{
    for (size_t n = 0; n < width; ++n)
        y[n] = a[n] * b[n];
}

#endif
