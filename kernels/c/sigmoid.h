/* Sigmoid (ONNX), float32, one vector:
 *
 *     y[n] = 1 / (1 + exp(-x[n]))          by the operations of elementary.h
 */
#ifndef SIGMOID_H
#define SIGMOID_H

#include <stddef.h>

#include "elementary.h"

static inline void logistic_float32(size_t width, const float *restrict x, float *restrict y)
{
    float bound = EXP_BOUND;
    NOT_KNOWN(bound);
    for (size_t n = 0; n < width; ++n)
        y[n] = logistic_of(x[n], bound);
}

#endif
