/* Exp (ONNX), float32, one vector:
 *
 *     y[n] = exp(x[n])          by the operations of elementary.h
 */
#ifndef EXP_H
#define EXP_H

#include <stddef.h>

#include "elementary.h"

static inline void exp_float32(size_t width, const float *restrict x, float *restrict y)
{
    float bound = EXP_BOUND;
    NOT_KNOWN(bound);
    for (size_t n = 0; n < width; ++n)
        y[n] = exp_of(x[n], bound);
}

#endif
