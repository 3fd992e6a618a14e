/* Softmax (ONNX), float32, along an axis, in one row of it:
 *
 *     m = max(x)
 *     e[n] = exp(x[n] - m)                       by the operations of elementary.h
 *     s = ((e[0] + e[1]) + e[2]) + ...           in the order of the columns
 *     y[n] = e[n] / s                            each operation is rounded to float32, half to even
 */
#ifndef SOFTMAX_H
#define SOFTMAX_H

#include <stddef.h>

#include "elementary.h"

static inline float exp_of_difference(float x, float highest, float bound)
{
    const float difference = x - highest; /* 0 or less */
    return exp_of_bounded(difference < -bound ? -bound : difference);
}

/* The largest of the numbers, in any order: of 0 and -0 it may be either, and exp is 1 for both. */
static inline float largest_float32(size_t width, const float *x)
{
    enum { AT_ONCE = 16 };
    float largest[AT_ONCE];
    size_t n = 0;
    for (size_t i = 0; i < AT_ONCE; ++i)
        largest[i] = x[0];
    for (; n + AT_ONCE <= width; n += AT_ONCE)
        for (size_t i = 0; i < AT_ONCE; ++i)
            largest[i] = x[n + i] > largest[i] ? x[n + i] : largest[i];
    for (; n < width; ++n)
        largest[0] = x[n] > largest[0] ? x[n] : largest[0];
    for (size_t i = 1; i < AT_ONCE; ++i)
        largest[0] = largest[i] > largest[0] ? largest[i] : largest[0];
    return largest[0];
}

static inline void softmax_float32(size_t rows, size_t width, const float *restrict x, float *restrict y)
{
    float bound = EXP_BOUND;
    NOT_KNOWN(bound);
    for (size_t row = 0; row < rows; ++row, x += width, y += width) {
        const float highest = largest_float32(width, x);
        for (size_t n = 0; n < width; ++n)
            y[n] = exp_of_difference(x[n], highest, bound);
        float sum = y[0];
        for (size_t n = 1; n < width; ++n)
            sum += y[n];
        for (size_t n = 0; n < width; ++n)
            y[n] = y[n] / sum;
    }
}

/* The same for rows whose values are `inner` values apart; rows side by side are vectorised. */
static inline void softmax_axis_float32(size_t outer, size_t width, size_t inner, const float *restrict x,
                                        float *restrict y)
{
    enum { AT_ONCE = 16 };
    float bound = EXP_BOUND;
    NOT_KNOWN(bound);
    for (size_t o = 0; o < outer; ++o, x += width * inner, y += width * inner)
        for (size_t first = 0; first < inner; first += AT_ONCE) {
            const size_t rows = inner - first < AT_ONCE ? inner - first : AT_ONCE;
            float highest[AT_ONCE], sum[AT_ONCE];
            for (size_t i = 0; i < rows; ++i)
                highest[i] = x[first + i];
            for (size_t n = 1; n < width; ++n)
                for (size_t i = 0; i < rows; ++i) {
                    const float value = x[n * inner + first + i];
                    highest[i] = value > highest[i] ? value : highest[i];
                }
            for (size_t n = 0; n < width; ++n)
                for (size_t i = 0; i < rows; ++i) {
                    const float e = exp_of_difference(x[n * inner + first + i], highest[i], bound);
                    y[n * inner + first + i] = e;
                    sum[i] = n ? sum[i] + e : e;
                }
            for (size_t n = 0; n < width; ++n)
                for (size_t i = 0; i < rows; ++i)
                    y[n * inner + first + i] = y[n * inner + first + i] / sum[i];
        }
}

#endif
