/* QuantizeLinear (ONNX), float32 -> uint8 or int8, one scale for the tensor:
 *
 *     v = x / scale                      float32 division, never a multiplication by 1 / scale
 *     v = v > low  ? v : low             low  = QMIN - zero_point; NaN becomes low
 *     v = v < high ? v : high            high = QMAX - zero_point
 *     q = round_half_even(v) + zero_point
 */
#ifndef QUANTIZE_LINEAR_H
#define QUANTIZE_LINEAR_H

#include <stddef.h>

#include "saturate.h"

#define DEFINE_QUANTIZE_LINEAR(TYPE, QMIN, QMAX)                                                       \
    static inline void quantize_linear_##TYPE(size_t width, const float *restrict x, float scale,      \
                                              int32_t zero_point, TYPE##_t *restrict q)                \
    {                                                                                                  \
        NOT_KNOWN(scale);                                                                              \
        NOT_KNOWN(zero_point);                                                                         \
        for (size_t i = 0; i < width; ++i)                                                             \
            q[i] = (TYPE##_t)round_saturated(x[i] / scale, QMIN, QMAX, zero_point);                    \
    }

DEFINE_QUANTIZE_LINEAR(uint8, 0, 255)
DEFINE_QUANTIZE_LINEAR(int8, -128, 127)

#endif
