/* Relu (ONNX), float32 or int8, one vector; a selection that rounds nothing and has no branch:
 *
 *     y[n] = x[n] < 0 ? 0 : x[n]         -0 stays -0
 */
#ifndef RELU_H
#define RELU_H

#include <stddef.h>
#include <stdint.h>

static inline void relu_float32(size_t width, const float *restrict x, float *restrict y)
{
    for (size_t n = 0; n < width; ++n)
        y[n] = x[n] < 0.0f ? 0.0f : x[n];
}

static inline void relu_int8(size_t width, const int8_t *restrict x, int8_t *restrict y)
{
    for (size_t n = 0; n < width; ++n)
        y[n] = x[n] < 0 ? 0 : x[n];
}

#endif
