/* The values of each window combined in one order, one image x (channels, height, width):
 *
 *     y[c][p] = COMBINE(... COMBINE(COMBINE(INITIAL, x_1), x_2) ..., x_n)
 *
 * x_1 to x_n are the values of the window at position p of channel c that lie in the image, row by row.  The loops are
 * over adjacent windows, never over the values of one: each y has its own chain of operations in this order.
 */
#ifndef POOL_H
#define POOL_H

#include <stddef.h>
#include <stdint.h>

#include "window.h"

#define DEFINE_POOL(NAME, TYPE, INITIAL, COMBINE)                                                      \
    static inline void NAME##_place(const struct window *w, size_t i, size_t j, const TYPE *restrict x, TYPE *restrict y) \
    {                                                                                                  \
        const size_t down = i * w->dilation_y, right = j * w->dilation_x;                              \
        const struct span rows = window_span(w->height, w->top, down, w->stride_y, w->rows);           \
        const struct span columns = window_span(w->width, w->left, right, w->stride_x, w->columns);    \
        for (size_t row = rows.first; row < rows.end; ++row)                                           \
            for (size_t column = columns.first; column < columns.end; ++column) {                      \
                const TYPE value = x[(row * w->stride_y + down - w->top) * w->width                    \
                                     + column * w->stride_x + right - w->left];                        \
                TYPE *result = &y[row * w->columns + column];                                          \
                *result = COMBINE(*result, value);                                                     \
            }                                                                                          \
    }                                                                                                  \
                                                                                                       \
    static inline void NAME(const struct window *w, size_t channels, const TYPE *restrict x, TYPE *restrict y) \
    {                                                                                                  \
        const size_t positions = w->rows * w->columns, image = w->height * w->width;                   \
        for (size_t c = 0; c < channels; ++c, x += image, y += positions) {                            \
            for (size_t p = 0; p < positions; ++p)                                                     \
                y[p] = INITIAL;                                                                        \
            for (size_t i = 0; i < w->kernel_height; ++i)                                              \
                for (size_t j = 0; j < w->kernel_width; ++j)                                           \
                    NAME##_place(w, i, j, x, y);                                                       \
        }                                                                                              \
    }

#endif
