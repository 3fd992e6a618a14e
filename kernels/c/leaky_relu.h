/* LeakyRelu (ONNX), float32, one vector:
 *
 *     y[n] = x[n] < 0 ? alpha * x[n] : x[n]         one multiplication, rounded to nearest, half to even; -0 stays -0
 */
#ifndef LEAKY_RELU_H
#define LEAKY_RELU_H

#include <stddef.h>

static inline void leaky_relu_float32(size_t width, const float *restrict x, float alpha, float *restrict y)
{
    for (size_t n = 0; n < width; ++n)
        y[n] = x[n] < 0.0f ? alpha * x[n] : x[n];
}

#endif
