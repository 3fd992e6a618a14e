/* QLinearConv, sixteen positions at once (lanes.h).
 *
 *     acc[m][p] = offset[flipped][m] + sum_k flipped(a[p][k]) * b[m][k] - zb * sum_k a[p][k]
 *
 * The values of a window are taken by fours, groups of QUAD, filled up with values of weight 0.  There are two ways:
 *
 *     adjacent      group (c, i, j): columns 4 j to 4 j + 3 of row i of the kernel, of channel c
 *     otherwise     group (c, i, j): channels 4 c to 4 c + 3, at row i and column j of the kernel
 *
 * A row of b has the groups of one channel in the order of (c, i, j); c counts from the first channel of its group of
 * channels.  Python takes the way with fewer groups, the first if both have as many.
 *
 *     offset[0][m] = bias[m] - za * sum_k b[m][k] + depth * za * zb             once, by qlinear_conv_vector_offset
 *     offset[1][m] = offset[0][m] + (uint8: 128, int8: -128) * sum_k b[m][k]
 *
 * as in qgemm_vector.h.  Padding has the code za, so that all windows have `depth` values.
 *
 * The image is first copied with its padding (`padded`), then if the groups are channels also with four channels side
 * by side (`units`).  For LANES positions a panel holds LANES values of every group; it serves all channels.  The last
 * LANES positions of an image may overlap those before them.
 */
#ifndef QLINEAR_CONV_VECTOR_H
#define QLINEAR_CONV_VECTOR_H

#include <stddef.h>

#include "lanes.h"
#include "window.h"

/* All are literals. */
struct convolution {
    struct window window;
    size_t groups, inputs, width; /* groups of channels, input channels of one, output channels of all */
    size_t adjacent, patterns;
};

/* Memory of one layer; the sizes are in harness/targets/c/qlinear_conv.py. */
struct convolution_memory {
    struct lanes_places *places;
    uint8_t *padded, *units, *panels;
};

WITH_LITERALS size_t conv_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Height of the part of the padded image that windows read. */
WITH_LITERALS size_t conv_height(const struct window *w)
{
    return (w->rows - 1) * w->stride_y + (w->kernel_height - 1) * w->dilation_y + 1;
}

WITH_LITERALS size_t conv_width(const struct window *w)
{
    return (w->columns - 1) * w->stride_x + (w->kernel_width - 1) * w->dilation_x + 1;
}

/* Bytes from one padded channel to the next: whole registers. */
WITH_LITERALS size_t conv_plane(const struct window *w)
{
    return (conv_height(w) * conv_width(w) + GROUP_BYTES - 1) / GROUP_BYTES * GROUP_BYTES;
}

WITH_LITERALS size_t conv_groups(const struct convolution *c)
{
    const struct window *w = &c->window;
    return c->adjacent ? c->inputs * w->kernel_height * ((w->kernel_width + QUAD - 1) / QUAD)
                       : (c->inputs + QUAD - 1) / QUAD * w->kernel_height * w->kernel_width;
}

WITH_LITERALS size_t conv_tiles(const struct window *w)
{
    return (w->rows * w->columns + LANES - 1) / LANES;
}

/* The first position of a tile: the last tile ends with the last position, if there are LANES positions. */
WITH_LITERALS size_t conv_first(const struct window *w, size_t tile)
{
    const size_t positions = w->rows * w->columns;
    return positions < LANES ? 0 : conv_least(tile * LANES, positions - LANES);
}

WITH_LITERALS size_t conv_place(const struct window *w, size_t position)
{
    return position / w->columns * w->stride_y * conv_width(w) + position % w->columns * w->stride_x;
}

/* A bound of the places of LANES positions, from that of the first on. */
WITH_LITERALS size_t conv_span(const struct window *w)
{
    const size_t rows = w->columns % LANES == 0 ? 0 : conv_least((w->columns + LANES - 2) / w->columns, w->rows - 1);
    return (LANES - 1 + rows) * w->stride_x + rows * w->stride_y * conv_width(w) + 1 - rows * w->columns * w->stride_x;
}

WITH_LITERALS void conv_find_places(const struct convolution *c, size_t first, struct lanes_places *at)
{
    const struct window *w = &c->window;
    const size_t last = w->rows * w->columns - 1, from = conv_place(w, first);
    for (size_t lane = 0; lane < LANES; ++lane) {
        at->place[lane] = (uint32_t)(conv_place(w, conv_least(first + lane, last)) - from);
        for (size_t i = 0; c->adjacent && i < QUAD; ++i)
            at->byte[QUAD * lane + i] = (uint8_t)(at->place[lane] + i * w->dilation_x);
    }
}

/* Tiles that begin at the same column have the same places: after `patterns` tiles they repeat.  The last tile has its
 * own. */
WITH_LITERALS void conv_find_all_places(const struct convolution *c, struct lanes_places *places)
{
    for (size_t pattern = 0; pattern < c->patterns; ++pattern)
        conv_find_places(c, conv_first(&c->window, pattern), &places[pattern]);
    conv_find_places(c, conv_first(&c->window, conv_tiles(&c->window) - 1), &places[c->patterns]);
}

WITH_LITERALS const struct lanes_places *conv_places(const struct convolution *c, size_t tile,
                                                    const struct lanes_places *all)
{
    return &all[tile + 1 == conv_tiles(&c->window) ? c->patterns : tile % c->patterns];
}

/* One channel with its padding, all codes flipped. */
WITH_LITERALS void conv_pad(const struct window *w, const uint8_t *a, uint8_t flip, uint8_t padding, uint8_t *padded)
{
    const size_t height = conv_height(w), width = conv_width(w);
    const size_t rows = w->top < height ? conv_least(w->height, height - w->top) : 0;
    const size_t columns = w->left < width ? conv_least(w->width, width - w->left) : 0;
    if (rows < height || columns < width)
        (void)memset(padded, padding, height * width);
    for (size_t row = 0; row < rows; ++row)
        (void)memcpy(&padded[(w->top + row) * width + w->left], &a[row * w->width], columns);
    for (size_t at = 0; flip && at < conv_plane(w); ++at) /* whole registers, of which nobody uses the rest */
        padded[at] ^= flip;
}

WITH_LITERALS void conv_make_units(const struct convolution *c, const uint8_t *padded, uint8_t *units)
{
    const size_t plane = conv_plane(&c->window);
    for (size_t channel = 0; channel < c->inputs; channel += QUAD) {
        const uint8_t *rows[QUAD];
        UNROLLED for (size_t i = 0; i < QUAD; ++i) /* of a missing channel any value: its weight is 0 */
            rows[i] = &padded[conv_least(channel + i, c->inputs - 1) * plane];
        for (size_t at = 0; at < plane; at += LANES) {
            const uint8_t *const here[QUAD] = {rows[0] + at, rows[1] + at, rows[2] + at, rows[3] + at};
            lanes_interleave(here, &units[channel * plane + QUAD * at]);
        }
    }
}

/* Values of one group at LANES positions. */
WITH_LITERALS lanes_panel conv_pick(const struct convolution *c, const struct convolution_memory *memory, size_t channel,
                                    size_t i, size_t j, size_t from, const struct lanes_places *at)
{
    const struct window *w = &c->window;
    const size_t plane = conv_plane(w), row = from + i * w->dilation_y * conv_width(w), span = conv_span(w);
    if (c->adjacent != 0u)
        return lanes_pick_bytes(span, w->dilation_x, &memory->padded[channel * plane + row + QUAD * j * w->dilation_x], at);
    const uint8_t *units = &memory->units[channel * plane + QUAD * (row + j * w->dilation_x)];
    if (span == LANES)
        return lanes_load_panel(units);
    return lanes_pick_units(span, units, at);
}

/* Windows of one value, all adjacent: the units are panels already. */
WITH_LITERALS int conv_is_direct(const struct convolution *c)
{
    const struct window *w = &c->window;
    return !c->adjacent && w->kernel_height * w->kernel_width == 1 && conv_span(w) == LANES;
}

/* Steps of (c, i, j) from group to group. */
WITH_LITERALS size_t conv_channel_step(const struct convolution *c)
{
    return c->adjacent ? 1 : QUAD;
}

WITH_LITERALS size_t conv_kernel_columns(const struct convolution *c)
{
    return c->adjacent ? (c->window.kernel_width + QUAD - 1) / QUAD : c->window.kernel_width;
}

WITH_LITERALS void conv_make_panel(const struct convolution *c, const struct convolution_memory *memory, size_t tile,
                                   uint8_t *panel)
{
    const struct lanes_places *at = conv_places(c, tile, memory->places);
    const size_t from = conv_place(&c->window, conv_first(&c->window, tile));
    for (size_t channel = 0; channel < c->inputs; channel += conv_channel_step(c))
        for (size_t i = 0; i < c->window.kernel_height; ++i)
            for (size_t j = 0; j < conv_kernel_columns(c); ++j, panel += GROUP_BYTES)
                lanes_store_panel(conv_pick(c, memory, channel, i, j, from, at), panel);
}

/* Panels of adjacent tiles. */
struct conv_panels {
    const uint8_t *panel[LANES_TILES];
    size_t step; /* from group to group */
};

WITH_LITERALS lanes_codes conv_four_weights(const int8_t *b)
{
    uint32_t weights;
    (void)memcpy(&weights, b, sizeof weights);
    return lanes_spread(weights);
}

/* acc of LANES positions of one channel; of fewer positions only these. */
WITH_LITERALS void conv_store(size_t positions, lanes_sums sums, uint32_t offset, const uint32_t *correction, int32_t *acc)
{
    uint32_t start[LANES];
    for (size_t lane = 0; lane < LANES; ++lane)
        start[lane] = offset - (correction ? correction[lane] : 0);
    if (positions >= LANES) {
        lanes_store(sums, start, acc);
    } else {
        int32_t all[LANES];
        lanes_store(sums, start, all);
        (void)memcpy(acc, all, positions * sizeof *acc);
    }
}

/* Sums are variables and not elements of an array, which gcc would keep in memory. */
#define CONV_ROWS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
_Static_assert(LANES_ROWS <= 12 && LANES_TILES <= 2, "as many as have a variable");

#define CONV_BEGIN(ROW) lanes_sums sums_##ROW = lanes_zero(), next_##ROW = lanes_zero();
#define CONV_ADD(ROW)                                                                                  \
    if ((ROW) < rows) {                                                                                \
        const lanes_codes weights = conv_four_weights(&b[((ROW) * groups + g) * QUAD]);                     \
        sums_##ROW = lanes_add_weighted(sums_##ROW, panel, weights);                                   \
        if (tiles > 1)                                                                                 \
            next_##ROW = lanes_add_weighted(next_##ROW, next, weights);                                \
    }
#define CONV_STORE(ROW)                                                                                \
    if ((ROW) < rows) {                                                                                \
        conv_store(positions, sums_##ROW, offset[ROW], correction, &acc[(ROW) * positions + first[0]]); \
        if (tiles > 1)                                                                                 \
            conv_store(positions, next_##ROW, offset[ROW], correction ? &correction[LANES] : NULL,     \
                       &acc[(ROW) * positions + first[tiles - 1]]);                                    \
    }

/* Some channels at one or two tiles; `first` has their first positions. */
WITH_LITERALS void conv_sum(size_t tiles, size_t rows, size_t groups, size_t positions, const struct conv_panels *panels,
                            const int8_t *b, const uint32_t *offset, const uint32_t *correction, const size_t *first,
                            int32_t *acc)
{
    CONV_ROWS(CONV_BEGIN)
    for (size_t g = 0; g < groups; ++g) {
        const lanes_panel panel = lanes_load_panel(panels->panel[0] + g * panels->step);
        const lanes_panel next = lanes_load_panel(panels->panel[tiles - 1] + g * panels->step);
        CONV_ROWS(CONV_ADD)
    }
    CONV_ROWS(CONV_STORE)
}

/* Ones where group g has a value of the window, zeros where it is filled up. */
WITH_LITERALS uint32_t conv_ones(const struct convolution *c, size_t g)
{
    const size_t columns = conv_kernel_columns(c);
    const size_t taken = c->adjacent ? g % columns * QUAD : g / (c->window.kernel_height * columns) * QUAD;
    const size_t left = (c->adjacent ? c->window.kernel_width : c->inputs) - taken;
    int8_t one[QUAD];
    for (size_t i = 0; i < QUAD; ++i)
        one[i] = i < left;
    uint32_t ones;
    (void)memcpy(&ones, one, sizeof ones);
    return ones;
}

/* correction[lane] = zb * sum_k a[p][k], from flipped codes, which are `less` than the codes. */
WITH_LITERALS void conv_correct(const struct convolution *c, const uint8_t *panel, size_t step, int32_t zb, int32_t less,
                                uint32_t *correction)
{
    const size_t groups = conv_groups(c);
    const uint32_t depth = (uint32_t)(c->inputs * c->window.kernel_height * c->window.kernel_width);
    uint32_t start[LANES];
    int32_t sum[LANES];
    lanes_sums sums = lanes_zero();
    for (size_t g = 0; g < groups; ++g)
        sums = lanes_add_weighted(sums, lanes_load_panel(panel + g * step), lanes_spread(conv_ones(c, g)));
    for (size_t lane = 0; lane < LANES; ++lane)
        start[lane] = depth * (uint32_t)less;
    lanes_store(sums, start, sum);
    for (size_t lane = 0; lane < LANES; ++lane)
        correction[lane] = (uint32_t)zb * (uint32_t)sum[lane];
}

/* All channels of a group at one or more tiles. */
WITH_LITERALS void conv_tile(const struct convolution *c, const struct convolution_memory *memory, size_t tiles,
                             size_t tile, const int8_t *b, int32_t zb, int with_zero_point, int32_t less,
                             const uint32_t *offset, int32_t *acc)
{
    const size_t groups = conv_groups(c), width = c->width / c->groups;
    const size_t positions = c->window.rows * c->window.columns;
    const size_t blocks = (width + LANES_ROWS - 1) / LANES_ROWS, rows = (width + blocks - 1) / blocks;
    struct conv_panels panels = {.step = conv_is_direct(c) ? QUAD * conv_plane(&c->window) : GROUP_BYTES};
    uint32_t correction[LANES_TILES * LANES];
    size_t first[LANES_TILES];
    UNROLLED for (size_t i = 0; i < tiles; ++i) {
        first[i] = conv_first(&c->window, tile + i);
        uint8_t *panel = &memory->panels[i * groups * GROUP_BYTES];
        if (!conv_is_direct(c))
            conv_make_panel(c, memory, tile + i, panel);
        panels.panel[i] = conv_is_direct(c) ? &memory->units[QUAD * first[i]] : panel;
        if (with_zero_point != 0)
            conv_correct(c, panels.panel[i], panels.step, zb, less, &correction[i * LANES]);
    }
    const uint32_t *corrections = with_zero_point ? correction : NULL;
    size_t m = 0;
    for (; m + rows <= width; m += rows)
        conv_sum(tiles, rows, groups, positions, &panels, &b[m * groups * QUAD], &offset[m], corrections, first,
                 &acc[m * positions]);
    if (width % rows != 0)
        conv_sum(tiles, width % rows, groups, positions, &panels, &b[m * groups * QUAD], &offset[m], corrections, first,
                 &acc[m * positions]);
}

/* One channel of one input channel at one tile: no panel, since nobody else would read it. */
WITH_LITERALS void conv_lone_tile(const struct convolution *c, const struct convolution_memory *memory, size_t tile,
                                  const int8_t *b, uint32_t offset, int32_t *acc)
{
    const struct lanes_places *at = conv_places(c, tile, memory->places);
    const size_t first = conv_first(&c->window, tile), from = conv_place(&c->window, first);
    lanes_sums sums = lanes_zero();
    for (size_t i = 0; i < c->window.kernel_height; ++i)
        for (size_t j = 0; j < conv_kernel_columns(c); ++j, b += QUAD)
            sums = lanes_add_weighted(sums, conv_pick(c, memory, 0, i, j, from, at), conv_four_weights(b));
    conv_store(c->window.rows * c->window.columns, sums, offset, NULL, &acc[first]);
}

/* zb is NULL where the weights' zero point is 0. */
WITH_LITERALS void conv_add_windows(const struct convolution *c, const struct convolution_memory *memory, const uint8_t *a,
                                   uint8_t flip, int32_t less, int32_t za, const int8_t *b, const int32_t *zb,
                                   const uint32_t *offset, int32_t *acc)
{
    const struct window *w = &c->window;
    const size_t width = c->width / c->groups, plane = conv_plane(w), tiles = conv_tiles(w);
    const uint32_t *chosen = &offset[flip ? c->width : 0];
    const int32_t zero_point = zb ? *zb : 0;
    NOT_KNOWN(b);
    conv_find_all_places(c, memory->places);
    for (size_t channel = 0; channel < c->groups * c->inputs; ++channel)
        conv_pad(w, &a[channel * w->height * w->width], flip, (uint8_t)za, &memory->padded[channel * plane]);
    for (size_t group = 0; group < c->groups; ++group) {
        struct convolution_memory of_group = *memory;
        of_group.padded += group * c->inputs * plane;
        if (!c->adjacent)
            conv_make_units(c, of_group.padded, of_group.units);
        const int8_t *weights = &b[group * width * conv_groups(c) * QUAD];
        int32_t *sums = &acc[group * width * w->rows * w->columns];
        size_t tile = 0;
        if (c->inputs == 1 && width == 1 && !zb)
            for (; tile < tiles; ++tile)
                conv_lone_tile(c, &of_group, tile, weights, chosen[group], sums);
        for (; tile + LANES_TILES <= tiles; tile += LANES_TILES)
            conv_tile(c, &of_group, LANES_TILES, tile, weights, zero_point, zb != NULL, less, &chosen[group * width], sums);
        for (; tile < tiles; ++tile)
            conv_tile(c, &of_group, 1, tile, weights, zero_point, zb != NULL, less, &chosen[group * width], sums);
    }
}

/* A: type of the codes a, SIGNED: whether it is int8, CHANGE: a flipped code of type A is less than the code by so much.
 * offset: (2, width) */
#define DEFINE_QLINEAR_CONV_VECTOR(A, SIGNED, CHANGE)                                                  \
    WITH_LITERALS void qlinear_conv_vector_accumulate_##A(                                             \
        const struct convolution *c, const struct convolution_memory *memory, const A##_t *restrict a, int32_t za, \
        const int8_t *restrict b, const int32_t *restrict zb, const uint32_t *restrict offset, int32_t *restrict acc) \
    {                                                                                                  \
        const int flipped = SIGNED != LANES_SIGNED;                                                    \
        conv_add_windows(c, memory, (const uint8_t *)a, flipped ? 0x80 : 0, flipped ? (CHANGE) : 0, za, b, zb, offset, \
                        acc);                                                                          \
    }                                                                                                  \
                                                                                                       \
    /* groups: of values, in a row of b; depth: values of a window */                                  \
    static inline void qlinear_conv_vector_offset_##A(size_t width, size_t groups, size_t depth, const int8_t *b, \
                                                      const int32_t *zb, const int32_t *bias, int32_t za, \
                                                      uint32_t *offset)                                \
    {                                                                                                  \
        for (size_t m = 0; m < width; ++m) {                                                           \
            int32_t sum = 0;                                                                           \
            for (size_t k = 0; k < groups * QUAD; ++k)                                                 \
                sum += b[m * groups * QUAD + k];                                                       \
            const uint32_t zero_points = zb ? (uint32_t)depth * (uint32_t)za * (uint32_t)*zb : 0;      \
            offset[m] = (uint32_t)bias[m] - (uint32_t)za * (uint32_t)sum + zero_points;                \
            offset[width + m] = offset[m] + (uint32_t)(CHANGE) * (uint32_t)sum;                        \
        }                                                                                              \
    }

DEFINE_QLINEAR_CONV_VECTOR(uint8, 0, 128)
DEFINE_QLINEAR_CONV_VECTOR(int8, 1, -128)

/* A channel with fewer than LANES positions is rounded with what is behind it, and that again with its multiplier. */
#define DEFINE_REQUANTIZE_CHANNELS_VECTOR(Y, QMIN, QMAX)                                               \
    WITH_LITERALS void requantize_channels_vector_##Y(size_t width, size_t positions, const int32_t *acc, \
                                                      const float *m, int32_t zy, Y##_t *y)            \
    {                                                                                                  \
        NOT_KNOWN(m);                                                                                  \
        for (size_t n = 0; n < width; ++n, acc += positions, y += positions) {                         \
            const lanes_factors factors = lanes_spread_factor(m[n]);                                   \
            for (size_t p = 0; p + LANES <= positions; p += LANES)                                     \
                lanes_round(&acc[p], factors, QMIN, QMAX, zy, &y[p]);                                  \
            if (positions >= LANES) {                                                                  \
                if (positions % LANES != 0)                                                            \
                    lanes_round(&acc[positions - LANES], factors, QMIN, QMAX, zy, &y[positions - LANES]); \
            } else if ((width - n) * positions >= LANES) {                                             \
                lanes_round(acc, factors, QMIN, QMAX, zy, y);                                          \
            } else {                                                                                   \
                int32_t tail[LANES] = {0};                                                             \
                Y##_t codes[LANES];                                                                    \
                (void)memcpy(tail, acc, positions * sizeof *acc);                                      \
                lanes_round(tail, factors, QMIN, QMAX, zy, codes);                                     \
                (void)memcpy(y, codes, positions * sizeof *y);                                         \
            }                                                                                          \
        }                                                                                              \
    }

DEFINE_REQUANTIZE_CHANNELS_VECTOR(uint8, 0, 255)
DEFINE_REQUANTIZE_CHANNELS_VECTOR(int8, -128, 127)

#endif
