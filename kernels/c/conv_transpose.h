/* ConvTranspose (ONNX), float32, one image x (channels, rows, columns), `groups` groups of channels:
 *
 *     acc     = bias[m] + 0                                a bias of -0 counts as 0
 *     acc     = acc + x[c][p][q] * w[m][k]                 for the channels c of the group of m, then rows i and columns j
 *     y[m][row][column] = acc                              of the kernel: the product is rounded, then the sum
 *
 * with row = p * stride - top + i * dilation and columns likewise; a place (i, j) without an input is left out.  The
 * window is that of the Conv that reads y and writes x: its image is y, and its output x.  w has one row for each of
 * `width` channels.  Compile with -ffp-contract=off.  The loop over inputs is the inner one; each adds to another sum.
 */
#ifndef CONV_TRANSPOSE_H
#define CONV_TRANSPOSE_H

#include "window.h"

/* y = y + x * w for the inputs that reach y through the place (i, j) of the kernel */
static inline void conv_transpose_add_float32(const struct window *v, size_t i, size_t j, const float *restrict x,
                                              float w, float *restrict y)
{
    const size_t down = i * v->dilation_y, right = j * v->dilation_x;
    const struct span rows = window_span(v->height, v->top, down, v->stride_y, v->rows);
    const struct span columns = window_span(v->width, v->left, right, v->stride_x, v->columns);
    for (size_t row = rows.first; row < rows.end; ++row) {
        float *to = &y[(row * v->stride_y + down - v->top) * v->width
                       + columns.first * v->stride_x + right - v->left];
        const float *from = &x[row * v->columns + columns.first];
        for (size_t n = 0; n < columns.end - columns.first; ++n)
            to[n * v->stride_x] += from[n] * w;
    }
}

/* inputs: channels of x that a sum reads */
static inline void conv_transpose_float32(const struct window *v, size_t groups, size_t inputs, size_t width,
                                          const float *restrict x, const float *restrict w, const float *restrict bias,
                                          float *restrict y)
{
    const size_t positions = v->height * v->width, image = v->rows * v->columns;
    for (size_t m = 0; m < width; ++m, y += positions) {
        const float *of_group = &x[m / (width / groups) * inputs * image];
        for (size_t p = 0; p < positions; ++p)
            y[p] = bias[m] + 0.0f;
        for (size_t c = 0; c < inputs; ++c)
            for (size_t i = 0; i < v->kernel_height; ++i)
                for (size_t j = 0; j < v->kernel_width; ++j)
                    conv_transpose_add_float32(v, i, j, &of_group[c * image], *w++, y);
    }
}

#endif
