/* Div (ONNX), float32, one vector: the quotient of two terms, or of a term and a constant.
 *
 *     y[n] = a[n] / b[n]                 one division, rounded to nearest, half to even; never a product with 1 / b[n]
 */
#ifndef DIV_H
#define DIV_H

#include <stddef.h>

static inline void div_float32(size_t width, const float *restrict a, const float *restrict b, float *restrict y)
{
    for (size_t n = 0; n < width; ++n)
        y[n] = a[n] / b[n];
}

#endif
