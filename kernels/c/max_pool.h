/* MaxPool (ONNX) of codes, one image x (channels, height, width):
 *
 *     y[c][p] = the largest value of the window at position p of channel c
 *
 * Values outside the image are never chosen; every window has one inside.
 */
#ifndef MAX_POOL_H
#define MAX_POOL_H

#include <stdint.h>

#include "window.h"

#define DEFINE_MAX_POOL(TYPE, LOWEST)                                                                  \
    static inline void max_pool_place_##TYPE(const struct window *w, size_t i, size_t j, const TYPE##_t *restrict x, \
                                             TYPE##_t *restrict y)                                     \
    {                                                                                                  \
        const size_t down = i * w->dilation_y, right = j * w->dilation_x;                              \
        const struct span rows = window_span(w->height, w->top, down, w->stride_y, w->rows);           \
        const struct span columns = window_span(w->width, w->left, right, w->stride_x, w->columns);    \
        for (size_t row = rows.first; row < rows.end; ++row)                                           \
            for (size_t column = columns.first; column < columns.end; ++column) {                      \
                const TYPE##_t value = x[(row * w->stride_y + down - w->top) * w->width                \
                                         + column * w->stride_x + right - w->left];                    \
                TYPE##_t *largest = &y[row * w->columns + column];                                     \
                *largest = *largest > value ? *largest : value;                                        \
            }                                                                                          \
    }                                                                                                  \
                                                                                                       \
    static inline void max_pool_##TYPE(const struct window *w, size_t channels, const TYPE##_t *restrict x, \
                                       TYPE##_t *restrict y)                                           \
    {                                                                                                  \
        const size_t positions = w->rows * w->columns, image = w->height * w->width;                   \
        for (size_t c = 0; c < channels; ++c, x += image, y += positions) {                            \
            for (size_t p = 0; p < positions; ++p)                                                     \
                y[p] = LOWEST;                                                                         \
            for (size_t i = 0; i < w->kernel_height; ++i)                                              \
                for (size_t j = 0; j < w->kernel_width; ++j)                                           \
                    max_pool_place_##TYPE(w, i, j, x, y);                                              \
        }                                                                                              \
    }

DEFINE_MAX_POOL(uint8, 0)
DEFINE_MAX_POOL(int8, -128)

#endif
