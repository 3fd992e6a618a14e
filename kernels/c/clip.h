/* Clip (ONNX), float32, uint8 or int8, one vector; two selections that round nothing:
 *
 *     v[n] = x[n] < low ? low : x[n]     x stays where it equals a bound: -0 is not 0
 *     y[n] = v[n] > high ? high : v[n]
 */
#ifndef CLIP_H
#define CLIP_H

#include <stddef.h>
#include <stdint.h>

#define DEFINE_CLIP(NAME, TYPE)                                                                        \
    static inline void clip_##NAME(size_t width, const TYPE *restrict x, TYPE low, TYPE high, TYPE *restrict y) \
    {                                                                                                  \
        for (size_t n = 0; n < width; ++n) {                                                           \
            const TYPE v = x[n] < low ? low : x[n];                                                    \
            y[n] = v > high ? high : v;                                                                \
        }                                                                                              \
    }

DEFINE_CLIP(float32, float)
DEFINE_CLIP(uint8, uint8_t)
DEFINE_CLIP(int8, int8_t)

#endif
