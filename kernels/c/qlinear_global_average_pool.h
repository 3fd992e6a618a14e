/* QLinearGlobalAveragePool (com.microsoft), one image x (channels, positions):
 *
 *     acc[c] = sum_p (x[c][p] - zx)                                                int32
 *     y[c]   = saturate(round_half_even(float32(acc[c]) * m) + zy)                 uint8, int8
 *
 * The multiplier m = x_scale / (y_scale * positions) is a constant, computed by the host in float32 in this order.
 */
#ifndef QLINEAR_GLOBAL_AVERAGE_POOL_H
#define QLINEAR_GLOBAL_AVERAGE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "saturate.h"

#define DEFINE_QLINEAR_GLOBAL_AVERAGE_POOL(TYPE, QMIN, QMAX)                                           \
    static inline void qlinear_global_average_pool_sum_##TYPE(size_t channels, size_t positions,       \
                                                              const TYPE##_t *restrict x, int32_t zx,  \
                                                              int32_t *restrict acc)                   \
    {                                                                                                  \
        for (size_t c = 0; c < channels; ++c, x += positions) {                                        \
            int32_t sum = 0;                                                                           \
            for (size_t p = 0; p < positions; ++p)                                                     \
                sum += x[p] - zx;                                                                      \
            acc[c] = sum;                                                                              \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    static inline void qlinear_global_average_pool_finish_##TYPE(size_t channels, const int32_t *restrict acc, float m, \
                                                                 int32_t zy, TYPE##_t *restrict y)     \
    {                                                                                                  \
        NOT_KNOWN(zy);                                                                                 \
        for (size_t c = 0; c < channels; ++c)                                                          \
            y[c] = (TYPE##_t)round_saturated((float)acc[c] * m, QMIN, QMAX, zy);                       \
    }

DEFINE_QLINEAR_GLOBAL_AVERAGE_POOL(uint8, 0, 255)
DEFINE_QLINEAR_GLOBAL_AVERAGE_POOL(int8, -128, 127)

#endif
