/* Tanh (ONNX), float32, one vector:
 *
 *     y[n] = tanh(x[n])         by the operations of elementary.h
 */
#ifndef TANH_H
#define TANH_H

#include <stddef.h>

#include "elementary.h"

static inline void tanh_float32(size_t width, const float *restrict x, float *restrict y)
{
    float bound = EXP_BOUND;
    NOT_KNOWN(bound);
    for (size_t n = 0; n < width; ++n)
        y[n] = tanh_of(x[n], bound);
}

#endif
