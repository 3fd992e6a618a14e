/* QLinearMul (com.microsoft), uint8 or int8, one vector: the product of two factors, one of which may be a constant.
 *
 *     v = float32((a[n] - za) * (b[n] - zb)) * m + zy        the difference and their product are exact; two roundings
 *     y[n] = round_half_even(v clamped to QMIN .. QMAX)
 */
#ifndef QLINEAR_MUL_H
#define QLINEAR_MUL_H

#include <stddef.h>

#include "saturate.h"

#define DEFINE_QLINEAR_MUL(TYPE, QMIN, QMAX)                                                           \
    static inline void qlinear_mul_##TYPE(size_t width, const TYPE##_t *restrict a, const TYPE##_t *restrict b, float m, \
                                          int32_t za, int32_t zb, int32_t zy, TYPE##_t *restrict y)    \
    {                                                                                                  \
        int32_t zero_point = 0;                                                                        \
        NOT_KNOWN(zero_point);                                                                         \
        for (size_t n = 0; n < width; ++n) {                                                           \
            const float v = (float)((a[n] - za) * (b[n] - zb)) * m + (float)zy;                        \
            y[n] = (TYPE##_t)round_saturated(v, QMIN, QMAX, zero_point);                               \
        }                                                                                              \
    }

DEFINE_QLINEAR_MUL(uint8, 0, 255)
DEFINE_QLINEAR_MUL(int8, -128, 127)

#endif
