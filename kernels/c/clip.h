/* Clip (ONNX), float32, one vector; two selections that round nothing:
 *
 *     v[n] = x[n] < low ? low : x[n]     x stays where it equals a bound: -0 is not 0
 *     y[n] = v[n] > high ? high : v[n]
 */
#ifndef CLIP_H
#define CLIP_H

#include <stddef.h>

static inline void clip_float32(size_t width, const float *restrict x, float low, float high, float *restrict y)
{
    for (size_t n = 0; n < width; ++n) {
        const float v = x[n] < low ? low : x[n];
        y[n] = v > high ? high : v;
    }
}

#endif
