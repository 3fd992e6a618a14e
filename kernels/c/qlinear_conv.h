/* QLinearConv (ONNX), one image a (channels, height, width), `groups` groups of channels:
 *
 *     acc[m][p] = bias[m] + sum_k (a[p][k] - za) * (b[m][k] - zb)                  int32
 *     y[m][p]   = saturate(round_half_even(float32(acc[m][p]) * m[m]) + zy)        uint8, int8
 *
 * a[p][k] is value k of the window at position p: the channels of the group of m, then rows, then columns.  A value
 * outside the image contributes nothing.  The multiplier m[m] = (a_scale * b_scale[m]) / y_scale is a constant, computed
 * by the host in float32 in this order; multiplication and rounding stay two operations (-ffp-contract=off).
 *
 * b is int8, one row for each of `width` channels: from uint8 weights and their zero point the host subtracts 128, which
 * leaves b - zb as it is.  The host refuses a network with a partial sum that can leave int32, in whatever order.
 */
#ifndef QLINEAR_CONV_H
#define QLINEAR_CONV_H

#include <stdint.h>

#include "saturate.h"
#include "window.h"

/* A: type of the codes a. */
#define DEFINE_QLINEAR_CONV(A)                                                                         \
    /* acc += (a - za) * b for the values at one place (i, j) of all windows */                        \
    static inline void qlinear_conv_add_##A(const struct window *w, size_t i, size_t j, const A##_t *restrict a, \
                                            int32_t za, int32_t b, int32_t *restrict acc)              \
    {                                                                                                  \
        const size_t down = i * w->dilation_y, right = j * w->dilation_x;                              \
        const struct span y = window_span(w->height, w->top, down, w->stride_y, w->rows);              \
        const struct span x = window_span(w->width, w->left, right, w->stride_x, w->columns);          \
        for (size_t row = y.first; row < y.end; ++row) {                                               \
            const A##_t *from = &a[(row * w->stride_y + down - w->top) * w->width                      \
                                   + x.first * w->stride_x + right - w->left];                         \
            int32_t *to = &acc[row * w->columns + x.first];                                            \
            for (size_t n = 0; n < x.end - x.first; ++n)                                               \
                to[n] += (from[n * w->stride_x] - za) * b;                                             \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    /* inputs: channels of a that a sum reads */                                                       \
    static inline void qlinear_conv_accumulate_##A(const struct window *w, size_t groups, size_t inputs, size_t width, \
                                                   const A##_t *restrict a, int32_t za, const int8_t *restrict b, \
                                                   int32_t zb, const int32_t *restrict bias, int32_t *restrict acc) \
    {                                                                                                  \
        const size_t positions = w->rows * w->columns, image = w->height * w->width;                   \
        NOT_KNOWN(b); /* or a compiler compares it with the address of the table behind it */          \
        NOT_KNOWN(bias);                                                                               \
        for (size_t m = 0; m < width; ++m, acc += positions) {                                         \
            const A##_t *of_group = &a[m / (width / groups) * inputs * image];                         \
            for (size_t p = 0; p < positions; ++p)                                                     \
                acc[p] = bias[m];                                                                      \
            for (size_t c = 0; c < inputs; ++c)                                                        \
                for (size_t i = 0; i < w->kernel_height; ++i)                                          \
                    for (size_t j = 0; j < w->kernel_width; ++j)                                       \
                        qlinear_conv_add_##A(w, i, j, &of_group[c * image], za, *b++ - zb, acc);       \
        }                                                                                              \
    }

DEFINE_QLINEAR_CONV(uint8)
DEFINE_QLINEAR_CONV(int8)

/* Each multiplier serves `positions` accumulators. */
#define DEFINE_REQUANTIZE_CHANNELS(Y, QMIN, QMAX)                                                      \
    static inline void requantize_channels_##Y(size_t width, size_t positions, const int32_t *restrict acc, \
                                               const float *restrict m, int32_t zy, Y##_t *restrict y) \
    {                                                                                                  \
        NOT_KNOWN(zy);                                                                                 \
        NOT_KNOWN(m);                                                                                  \
        for (size_t n = 0; n < width; ++n)                                                             \
            for (size_t p = n * positions; p < (n + 1) * positions; ++p)                               \
                y[p] = (Y##_t)round_saturated((float)acc[p] * m[n], QMIN, QMAX, zy);                   \
    }

DEFINE_REQUANTIZE_CHANNELS(uint8, 0, 255)
DEFINE_REQUANTIZE_CHANNELS(int8, -128, 127)

#endif
