/* Resize (ONNX), linear, float32, images x (channels, height, width) to y (channels, rows, columns):
 *
 *     top    = x[c][r0][l] * right[0][j] + x[c][r0][m] * right[1][j]         r0, r1 = at_row[0][i], at_row[1][i]
 *     bottom = x[c][r1][l] * right[0][j] + x[c][r1][m] * right[1][j]         l, m = at_column[0][j], at_column[1][j]
 *     y[c][i][j] = top * down[0][i] + bottom * down[1][i]
 *
 * Each operation is rounded (-ffp-contract=off).  Places and factors are constants of the host.
 */
#ifndef RESIZE_LINEAR_H
#define RESIZE_LINEAR_H

#include <stddef.h>
#include <stdint.h>

struct resizing {
    size_t channels, height, width; /* of x */
    size_t rows, columns; /* of y */
};

static inline void resize_linear_float32(const struct resizing *s, const float *restrict x, const int32_t *restrict at_row,
                                         const int32_t *restrict at_column, const float *restrict down,
                                         const float *restrict right, float *restrict y)
{
    for (size_t c = 0; c < s->channels; ++c)
        for (size_t i = 0; i < s->rows; ++i) {
            const float *above = &x[(c * s->height + (size_t)at_row[i]) * s->width];
            const float *below = &x[(c * s->height + (size_t)at_row[s->rows + i]) * s->width];
            float *of_row = &y[(c * s->rows + i) * s->columns];
            for (size_t j = 0; j < s->columns; ++j) {
                const int32_t l = at_column[j], m = at_column[s->columns + j];
                const float top = above[l] * right[j] + above[m] * right[s->columns + j];
                const float bottom = below[l] * right[j] + below[m] * right[s->columns + j];
                of_row[j] = top * down[i] + bottom * down[s->rows + i];
            }
        }
}

#endif
