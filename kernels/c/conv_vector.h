/* Conv, float32, a tile of channels and adjacent positions at once:
 *
 *     acc     = bias[m] + 0
 *     acc     = acc + x[c][row][column] * w[m][k]      for the channels c of the group of m, then rows and columns
 *     y[m][p] = acc                                    x is 0 outside the image
 *
 * Positions are numbered over lines of `pitch` columns, of which the last ones are not needed: so the values at one
 * place of adjacent windows are adjacent in memory.  Without padding and with strides of 1 this memory is the image.
 * Else a band of the image is copied, with its padding, and with the rows and columns of each remainder modulo the
 * stride side by side:
 *
 *     memory[c][row % stride_y][column % stride_x][row / stride_y][column / stride_x]
 *
 * or, `shifted`, with a plane for each column j of the window, so that no column of a line is left over:
 *
 *     memory[c][row % stride_y][j][row / stride_y][(column - j * dilation_x) / stride_x]
 *
 * w has QUAD channels side by side, filled up with zeros: w[4 q + i][k] at (q * K + k) * 4 + i, group by group.
 */
#ifndef CONV_VECTOR_H
#define CONV_VECTOR_H

#include "float_lanes.h"
#include "window.h"

struct conv_vector {
    struct window window;
    uint32_t groups, inputs, outputs; /* channels of one group */
    uint32_t direct, shifted; /* 1 if the memory is the image, if it has a plane for each column of the window */
    uint32_t band; /* rows of the output that are computed together */
    uint32_t lines, pitch; /* rows and columns of a plane of the memory */
};

WITH_LITERALS size_t conv_vector_planes(const struct conv_vector *layer)
{
    return (size_t)layer->window.stride_y * (layer->shifted ? layer->window.kernel_width : layer->window.stride_x);
}

/* The place in a plane group of the memory, and of the image, of the value (i, j) of a window. */
WITH_LITERALS size_t conv_vector_place(const struct conv_vector *layer, size_t i, size_t j)
{
    const struct window *v = &layer->window;
    const size_t down = i * v->dilation_y, right = j * v->dilation_x;
    const size_t plane = layer->shifted ? (down % v->stride_y) * v->kernel_width + j
                                        : (down % v->stride_y) * v->stride_x + right % v->stride_x;
    return plane * layer->lines * layer->pitch + down / v->stride_y * layer->pitch
           + (layer->shifted ? 0 : right / v->stride_x);
}

/* The sums of `channels` channels at `vectors` vectors of positions. */
WITH_LITERALS void conv_vector_tile(const struct conv_vector *layer, size_t channels, size_t vectors,
                                    const float *restrict x, const float *restrict w, const float *restrict bias,
                                    size_t step, float *restrict y)
{
    const struct window *v = &layer->window;
    const size_t depth = layer->inputs * v->kernel_height * v->kernel_width;
    const size_t channel = conv_vector_planes(layer) * layer->lines * layer->pitch;
    float_lanes sums[FLOAT_CHANNELS * FLOAT_VECTORS];
    UNROLLED for (size_t m = 0; m < channels; ++m)
        UNROLLED for (size_t p = 0; p < vectors; ++p)
            sums[m * vectors + p] = float_lanes_spread(bias[m] + 0.0f);
    for (size_t c = 0; c < layer->inputs; ++c)
        for (size_t i = 0; i < v->kernel_height; ++i)
            for (size_t j = 0; j < v->kernel_width; ++j, w += QUAD) {
                const float *from = &x[c * channel + conv_vector_place(layer, i, j)];
                float_lanes values[FLOAT_VECTORS];
                UNROLLED for (size_t p = 0; p < vectors; ++p)
                    values[p] = float_lanes_load(&from[p * FLOAT_LANES]);
                UNROLLED for (size_t m = 0; m < channels; ++m) {
                    const float_lanes factor = float_lanes_spread(w[m / QUAD * depth * QUAD + m % QUAD]);
                    UNROLLED for (size_t p = 0; p < vectors; ++p)
                        sums[m * vectors + p] += values[p] * factor;
                }
            }
    UNROLLED for (size_t m = 0; m < channels; ++m)
        UNROLLED for (size_t p = 0; p < vectors; ++p)
            float_lanes_store(sums[m * vectors + p], &y[m * step + p * FLOAT_LANES]);
}

/* The sums of `channels` channels at positions 0 to count - 1.  The last tile begins earlier rather than to read and
 * write beyond the last position, unless there are fewer positions than lanes. */
WITH_LITERALS void conv_vector_channels(const struct conv_vector *layer, size_t channels, size_t count,
                                        const float *restrict x, const float *restrict w, const float *restrict bias,
                                        size_t step, float *restrict y)
{
    const size_t whole = count / FLOAT_TILE * FLOAT_TILE, rest = (count - whole + FLOAT_LANES - 1) / FLOAT_LANES;
    for (size_t p = 0; p < whole; p += FLOAT_TILE)
        conv_vector_tile(layer, channels, FLOAT_VECTORS, &x[p], w, bias, step, &y[p]);
    UNROLLED for (size_t vectors = 1; vectors <= FLOAT_VECTORS; ++vectors)
        if (rest == vectors) {
            const size_t begin = count < vectors * FLOAT_LANES ? 0 : count - vectors * FLOAT_LANES;
            conv_vector_tile(layer, channels, vectors, &x[begin], w, bias, step, &y[begin]);
        }
}

/* Copies the lines of one channel of the image that the rows from `row` on need. */
WITH_LITERALS void conv_vector_copy(const struct conv_vector *layer, size_t row, const float *restrict image,
                                    float *restrict to)
{
    const struct window *v = &layer->window;
    for (size_t down = 0; down < v->stride_y; ++down)
        for (size_t plane = 0; plane < conv_vector_planes(layer) / v->stride_y; ++plane) {
            const size_t right = layer->shifted ? plane * v->dilation_x : plane;
            const struct span rows = window_span(v->height, v->top, row * v->stride_y + down, v->stride_y, layer->lines);
            const struct span columns = window_span(v->width, v->left, right, v->stride_x, layer->pitch);
            for (size_t line = 0; line < layer->lines; ++line, to += layer->pitch) {
                (void)memset(to, 0, layer->pitch * sizeof *to);
                if (line < rows.first || line >= rows.end)
                    continue;
                const float *from = &image[((row + line) * v->stride_y + down - v->top) * v->width
                                           + columns.first * v->stride_x + right - v->left];
                for (size_t n = 0; n < columns.end - columns.first; ++n)
                    to[columns.first + n] = from[n * v->stride_x];
            }
        }
}

/* One band of rows of one group.  memory and sums have room for MOST_FLOAT_TILE values more than they need. */
WITH_LITERALS void conv_vector_band(const struct conv_vector *layer, size_t row, size_t rows, const float *restrict x,
                                    float *restrict memory, const float *restrict w, const float *restrict bias,
                                    float *restrict sums, float *restrict y)
{
    const struct window *v = &layer->window;
    const size_t count = (rows - 1) * layer->pitch + v->columns, positions = (size_t)v->rows * v->columns;
    const size_t step = (size_t)layer->band * layer->pitch + MOST_FLOAT_TILE;
    const size_t depth = layer->inputs * v->kernel_height * v->kernel_width;
    const size_t channel = conv_vector_planes(layer) * layer->lines * layer->pitch;
    const float *from = memory;
    if (layer->direct != 0u)
        from = &x[row * v->width];
    else
        for (size_t c = 0; c < layer->inputs; ++c)
            conv_vector_copy(layer, row, &x[c * v->height * v->width], &memory[c * channel]);
    for (size_t m = 0; m < layer->outputs; m += FLOAT_CHANNELS) {
        const size_t left = layer->outputs - m < FLOAT_CHANNELS ? layer->outputs - m : FLOAT_CHANNELS;
        UNROLLED for (size_t channels = 1; channels <= FLOAT_CHANNELS; ++channels)
            if (left == channels && (channels == FLOAT_CHANNELS || channels == layer->outputs % FLOAT_CHANNELS))
                conv_vector_channels(layer, channels, count, from, &w[m * depth], &bias[m], step, sums);
        for (size_t i = 0; i < left; ++i)
            for (size_t line = 0; line < rows; ++line)
                (void)memcpy(&y[(m + i) * positions + (row + line) * v->columns], &sums[i * step + line * layer->pitch],
                       v->columns * sizeof *y);
    }
}

WITH_LITERALS void conv_vector_float32(const struct conv_vector *layer, const float *restrict x, float *restrict memory,
                                       const float *restrict w, const float *restrict bias, float *restrict sums,
                                       float *restrict y)
{
    const struct window *v = &layer->window;
    const size_t depth = layer->inputs * v->kernel_height * v->kernel_width;
    const size_t whole = v->rows / layer->band * layer->band;
    for (size_t group = 0; group < layer->groups; ++group) {
        for (size_t row = 0; row < whole; row += layer->band)
            conv_vector_band(layer, row, layer->band, x, memory, w, bias, sums, y);
        if (whole < v->rows)
            conv_vector_band(layer, whole, v->rows - whole, x, memory, w, bias, sums, y);
        x += layer->inputs * v->height * v->width;
        w += (layer->outputs + QUAD - 1) / QUAD * QUAD * depth;
        bias += layer->outputs;
        y += layer->outputs * v->rows * v->columns;
    }
}

#endif
