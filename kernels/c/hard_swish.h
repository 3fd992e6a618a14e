/* HardSwish (ONNX), float32, one vector:
 *
 *     y[n] = x[n] * hard_sigmoid(x[n])           alpha = float32(1 / 6), beta = 0.5; each operation is rounded
 */
#ifndef HARD_SWISH_H
#define HARD_SWISH_H

#include <stddef.h>

#include "hard_sigmoid.h"

static inline float hard_swish_of(float x, float zero, float one)
{
    return x * hard_sigmoid_of(x, 0x1.555556p-3f, 0.5f, zero, one);
}

static inline void hard_swish_float32(size_t width, const float *restrict x, float *restrict y)
{
    float zero = 0.0f, one = 1.0f;
    NOT_KNOWN(zero);
    NOT_KNOWN(one);
    for (size_t n = 0; n < width; ++n)
        y[n] = hard_swish_of(x[n], zero, one);
}

#endif
