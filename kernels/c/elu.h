/* Elu (ONNX), float32, one vector:
 *
 *     y[n] = x[n] < 0 ? alpha * (exp(x[n]) - 1) : x[n]          exp(x) - 1 of elementary.h; -0 stays -0
 */
#ifndef ELU_H
#define ELU_H

#include <stddef.h>

#include "elementary.h"

static inline float elu_of(float x, float alpha, float bound)
{
    const uint32_t bits = bits_of_float(x), is_negative = mask_of_highest((0x80000000u - bits) & bits); /* not of -0 */
    return chosen(is_negative, alpha * exp_minus_one_of(x, bound), x);
}

static inline void elu_float32(size_t width, const float *restrict x, float alpha, float *restrict y)
{
    float bound = EXP_MINUS_ONE_BOUND;
    NOT_KNOWN(bound);
    for (size_t n = 0; n < width; ++n)
        y[n] = elu_of(x[n], alpha, bound);
}

#endif
