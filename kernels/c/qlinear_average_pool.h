/* QLinearAveragePool (com.microsoft), one image x (channels, height, width):
 *
 *     s = sum of float32((x - zx) * sx) over the values of a window in the image, row by row       float32
 *     v = float32(float32(float32(s / count) / sy) + zy)
 *     y = round_half_even(v clamped to QMIN .. QMAX)                                               uint8, int8
 *
 * count is the number of these values, with include_pad that of the kernel.  Each operation is rounded to float32
 * (-ffp-contract=off).  The bounds of the loops depend on the position alone.
 */
#ifndef QLINEAR_AVERAGE_POOL_H
#define QLINEAR_AVERAGE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "saturate.h"
#include "window.h"

#define DEFINE_QLINEAR_AVERAGE_POOL(TYPE, QMIN, QMAX)                                                  \
    static inline void qlinear_average_pool_##TYPE(const struct window *w, bool include_pad, size_t channels, \
                                                   const TYPE##_t *restrict x, float sx, int32_t zx, float sy, \
                                                   int32_t zy, TYPE##_t *restrict y)                   \
    {                                                                                                  \
        int32_t zero_point = 0;                                                                        \
        NOT_KNOWN(zero_point);                                                                         \
        for (size_t c = 0; c < channels; ++c, x += w->height * w->width)                               \
            for (size_t row = 0; row < w->rows; ++row) {                                               \
                const struct span i = window_places(w->height, w->top, row * w->stride_y, w->kernel_height); \
                for (size_t column = 0; column < w->columns; ++column) {                               \
                    const struct span j = window_places(w->width, w->left, column * w->stride_x, w->kernel_width); \
                    float sum = 0;                                                                     \
                    for (size_t a = i.first; a < i.end; ++a)                                           \
                        for (size_t b = j.first; b < j.end; ++b)                                       \
                            sum += (float)(x[a * w->width + b] - zx) * sx;                             \
                    const size_t inside = (i.end - i.first) * (j.end - j.first);                       \
                    const size_t count = include_pad ? w->kernel_height * w->kernel_width : inside;    \
                    *y++ = (TYPE##_t)round_saturated(sum / (float)count / sy + (float)zy, QMIN, QMAX, zero_point); \
                }                                                                                      \
            }                                                                                          \
    }

DEFINE_QLINEAR_AVERAGE_POOL(uint8, 0, 255)
DEFINE_QLINEAR_AVERAGE_POOL(int8, -128, 127)

#endif
