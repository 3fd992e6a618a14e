/* Sub (ONNX), float32, one vector: the difference of two terms, one of which may be a constant.
 *
 *     y[n] = a[n] - b[n]                 one subtraction, rounded to nearest, half to even
 */
#ifndef SUB_H
#define SUB_H

#include <stddef.h>

static inline void sub_float32(size_t width, const float *restrict a, const float *restrict b, float *restrict y)
{
    for (size_t n = 0; n < width; ++n)
        y[n] = a[n] - b[n];
}

#endif
