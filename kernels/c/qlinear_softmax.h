/* QLinearSoftmax (com.microsoft), uint8 or int8, one vector:
 *
 *     e[n] = table[255 + x[n] - max(x)]            exponentials
 *     v = e[n] * inverse / (e[0] + e[1] + ...)     the sum in the order of the columns; one operation at a time
 *     y[n] = round_half_even(v) + zy               saturated
 */
#ifndef QLINEAR_SOFTMAX_H
#define QLINEAR_SOFTMAX_H

#include <stddef.h>

#include "saturate.h"

#define DEFINE_QLINEAR_SOFTMAX(TYPE, QMIN, QMAX)                                                       \
    static inline void qlinear_softmax_##TYPE(size_t width, const TYPE##_t *restrict x, const float *restrict table, \
                                              float inverse, int32_t zy, TYPE##_t *restrict y)         \
    {                                                                                                  \
        NOT_KNOWN(zy);                                                                                 \
        int32_t highest = x[0];                                                                        \
        for (size_t n = 1; n < width; ++n)                                                             \
            highest = x[n] > highest ? x[n] : highest;                                                 \
        const int32_t shift = 255 - highest;                                                           \
        float sum = 0.0f;                                                                              \
        for (size_t n = 0; n < width; ++n)                                                             \
            sum += table[x[n] + shift];                                                                \
        for (size_t n = 0; n < width; ++n)                                                             \
            y[n] = (TYPE##_t)round_saturated(table[x[n] + shift] * inverse / sum, QMIN, QMAX, zy);     \
    }

DEFINE_QLINEAR_SOFTMAX(uint8, 0, 255)
DEFINE_QLINEAR_SOFTMAX(int8, -128, 127)

#endif
