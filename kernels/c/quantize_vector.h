/* QuantizeLinear by the rounding of saturate.h, LANES codes at once; the rest is stored by fours:
 *
 *     q[i] = saturate(round_half_even(x[i] / scale) + zero_point)               a division, never a product with 1 / scale
 *
 * QGemm reads them by fours soon after, and a load has to wait where it covers several stores.
 */
#ifndef QUANTIZE_VECTOR_H
#define QUANTIZE_VECTOR_H

#include <stddef.h>

#include "lanes.h"

/* The bits of code number i of four where they lie in memory one behind the other. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define IN_PLACE(CODE, I) ((uint32_t)(uint8_t)(CODE) << 8 * (I))
#else
#define IN_PLACE(CODE, I) ((uint32_t)(uint8_t)(CODE) << 8 * (QUAD - 1 - (I)))
#endif

#define DEFINE_QUANTIZE_VECTOR(TYPE, QMIN, QMAX)                                                       \
    WITH_LITERALS void quantize_vector_##TYPE(size_t width, const float *restrict x, float scale,      \
                                              int32_t zero_point, TYPE##_t *restrict q)                \
    {                                                                                                  \
        NOT_KNOWN(scale);                                                                              \
        NOT_KNOWN(zero_point);                                                                         \
        const size_t whole = width / LANES * LANES;                                                    \
        for (size_t first = 0; first < whole; first += LANES)                                          \
            lanes_quantize(&x[first], scale, QMIN, QMAX, zero_point, &q[first]);                       \
        for (size_t first = whole; first < width; first += QUAD) {                                         \
            const size_t count = width - first < QUAD ? width - first : QUAD;                          \
            uint32_t codes = 0;                                                                        \
            UNROLLED for (size_t i = 0; i < count; ++i)                                                \
                codes |= IN_PLACE(round_saturated(x[first + i] / scale, QMIN, QMAX, zero_point), i);   \
            (void)memcpy(&q[first], &codes, count);                                                    \
        }                                                                                              \
    }

DEFINE_QUANTIZE_VECTOR(uint8, 0, 255)
DEFINE_QUANTIZE_VECTOR(int8, -128, 127)

#endif
