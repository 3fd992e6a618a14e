/* AveragePool and GlobalAveragePool (ONNX), float32, one image x (channels, height, width):
 *
 *     s       = 0, then s = s + x for the values of the window in the image, row by row      one addition each
 *     y[c][p] = s / count[p]                                                                 one division
 *
 * The host counts the values of each window; each operation is rounded (-ffp-contract=off), and no sum is divided into
 * parts.
 */
#ifndef AVERAGE_POOL_H
#define AVERAGE_POOL_H

#include "pool.h"

#define ADDED(SUM, VALUE) ((SUM) + (VALUE))

DEFINE_POOL(average_pool_sum, float, 0.0f, ADDED)

static inline void average_pool_divide(size_t channels, size_t positions, const float *restrict count, float *restrict y)
{
    for (size_t c = 0; c < channels; ++c)
        for (size_t p = 0; p < positions; ++p)
            y[c * positions + p] /= count[p];
}

static inline void average_pool_float32(const struct window *w, size_t channels, const float *restrict x,
                                        const float *restrict count, float *restrict y)
{
    average_pool_sum(w, channels, x, y);
    average_pool_divide(channels, w->rows * w->columns, count, y);
}

#endif
