/* QLinearAdd (com.microsoft), uint8 or int8, one vector: the sum of two terms, one of which may be a constant.
 *
 *     v = fused(ra, a[n], fused(rb, b[n], c))                two roundings
 *     y[n] = round_half_even(v clamped to QMIN .. QMAX)      c contains the zero points
 */
#ifndef QLINEAR_ADD_H
#define QLINEAR_ADD_H

#include <stddef.h>

#include "fused.h"
#include "saturate.h"

#define DEFINE_QLINEAR_ADD(TYPE, QMIN, QMAX)                                                           \
    static inline void qlinear_add_##TYPE(size_t width, const TYPE##_t *restrict a, const TYPE##_t *restrict b, \
                                          float ra, float rb, float c, TYPE##_t *restrict y)           \
    {                                                                                                  \
        int32_t zero_point = 0;                                                                        \
        NOT_KNOWN(zero_point);                                                                         \
        for (size_t n = 0; n < width; ++n) {                                                           \
            const float v = fused(ra, (float)a[n], fused(rb, (float)b[n], c));                         \
            y[n] = (TYPE##_t)round_saturated(v, QMIN, QMAX, zero_point);                               \
        }                                                                                              \
    }

DEFINE_QLINEAR_ADD(uint8, 0, 255)
DEFINE_QLINEAR_ADD(int8, -128, 127)

#endif
