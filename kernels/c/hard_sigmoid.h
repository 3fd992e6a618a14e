/* HardSigmoid (ONNX), float32, one vector:
 *
 *     v[n] = alpha * x[n] + beta                 a product and a sum, each rounded half to even
 *     w[n] = v[n] > 1 ? 1 : v[n]                 1 and 0 are variables: of known bounds compilers make branches
 *     y[n] = w[n] < 0 ? 0 : w[n]
 */
#ifndef HARD_SIGMOID_H
#define HARD_SIGMOID_H

#include <stddef.h>

#include "saturate.h"

static inline float hard_sigmoid_of(float x, float alpha, float beta, float zero, float one)
{
    const float v = alpha * x + beta;
    const float w = v > one ? one : v;
    return w < zero ? zero : w;
}

static inline void hard_sigmoid_float32(size_t width, const float *restrict x, float alpha, float beta,
                                        float *restrict y)
{
    float zero = 0.0f, one = 1.0f;
    NOT_KNOWN(zero);
    NOT_KNOWN(one);
    for (size_t n = 0; n < width; ++n)
        y[n] = hard_sigmoid_of(x[n], alpha, beta, zero, one);
}

#endif
