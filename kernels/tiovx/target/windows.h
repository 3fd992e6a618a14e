/* The windows of a convolution or pooling, LANES of them side by side, read from tiles of the image.
 *
 *     window (y, x) reads rows y * stride_y - top + i * dilation_y for i < kernel_height, and columns likewise
 *
 * A layer is computed in this order:
 *
 *     for each vector
 *         for each group of channels                        QLinearConv: attribute group; poolings: each channel
 *             for each band of `band` rows of windows
 *                 copy the tile: all rows and columns of the group's channels that the band reads
 *                 for each LANES windows of the band, row by row
 *                     compute all channels of the group
 *
 * The tile has the codes as uint8 (`flip`) and `outside` in the place of padding, so no other code knows of the image's
 * ends.  It is all that is read of the source, once for each band but for the rows that two bands have in common, and its
 * size is known to the host, which chooses `band` so that it stays below TILE_BYTES (harness/targets/tiovx/windows.py).
 * It is therefore what a DMA engine moves into L2 in the place of copy_tile: rows of `width` bytes, `height` of them a
 * channel, two transfers in flight.  docs/reference/dsp.md has the sizes for the largest layers.
 */
#ifndef WINDOWS_H
#define WINDOWS_H

#include <string.h>

#include "callbacks.h"
#include "dot4.h"

/* Part WINDOW: all fields are 32 bits wide, and in this order in the generated tables. */
struct windows {
    uint32_t height, width; /* of the image */
    uint32_t kernel_height, kernel_width;
    uint32_t stride_y, stride_x;
    uint32_t dilation_y, dilation_x;
    uint32_t top, left;     /* padding before the image */
    uint32_t rows, columns; /* of windows */
    uint32_t groups;
    uint32_t inputs, outputs; /* channels of a group, in the source and in the result */
    uint32_t band;            /* rows of windows of a tile */
    uint32_t outside;         /* the code outside the image */
    int32_t exponent;         /* of rounded_sum.h */
};

/* LANES windows of a group, of which `lanes` count; the others are the last one again. */
struct panel {
    const struct windows *windows;
    const uint8_t *tile;
    const uint32_t *places; /* of the values of a window in the tile, from its first on */
    uint32_t first[LANES];  /* the place of each window's first value */
    uint32_t lanes;
    uint32_t group, position; /* number of the first window in the image */
};

/* Value k of all windows: in the tile, if LANES windows begin one behind the other, or else gathered in `room`. */
static inline const uint8_t *values_of(const struct panel *panel, uint32_t k, uint8_t room[LANES])
{
    const uint8_t *from = panel->tile + panel->places[k];
    if (panel->lanes == LANES && panel->first[LANES - 1] - panel->first[0] == LANES - 1)
        return from + panel->first[0];
    for (uint32_t lane = 0; lane < LANES; ++lane)
        room[lane] = from[panel->first[lane]];
    return room;
}

static inline const struct windows *windows_of(const struct head *constants)
{
    return part_of(constants, WINDOW);
}

static inline uint32_t window_size(const struct windows *w)
{
    return w->inputs * w->kernel_height * w->kernel_width;
}

static inline uint32_t positions_of(const struct windows *w)
{
    return w->rows * w->columns;
}

static inline uint32_t tile_height(const struct windows *w)
{
    return (w->band - 1) * w->stride_y + (w->kernel_height - 1) * w->dilation_y + 1;
}

static inline uint32_t tile_width(const struct windows *w)
{
    return (w->columns - 1) * w->stride_x + (w->kernel_width - 1) * w->dilation_x + 1;
}

/* The scratch of a kernel: the places, the tile, then what the kernel has for itself. */
static inline uint32_t places_bytes(const struct windows *w)
{
    return rounded_up(window_size(w) * (uint32_t)sizeof(uint32_t), ALIGNMENT);
}

static inline uint32_t windows_bytes(const struct windows *w)
{
    return places_bytes(w) + rounded_up(w->inputs * tile_height(w) * tile_width(w), ALIGNMENT);
}

static inline void find_places(const struct windows *w, uint32_t *places)
{
    for (uint32_t c = 0; c < w->inputs; ++c)
        for (uint32_t i = 0; i < w->kernel_height; ++i)
            for (uint32_t j = 0; j < w->kernel_width; ++j)
                *places++ = (c * tile_height(w) + i * w->dilation_y) * tile_width(w) + j * w->dilation_x;
}

/* A row of the image, `outside` before and behind it; `to` and `from` count from the padding's begin. */
static inline void copy_row(const struct windows *w, const uint8_t *image, uint8_t flip, uint8_t *tile)
{
    const uint32_t width = tile_width(w), end = w->left + w->width < width ? w->left + w->width : width;
    for (uint32_t x = 0; x < w->left && x < width; ++x)
        tile[x] = (uint8_t)w->outside;
    for (uint32_t x = w->left; x < end; ++x)
        tile[x] = image[x - w->left] ^ flip;
    for (uint32_t x = end > w->left ? end : w->left; x < width; ++x)
        tile[x] = (uint8_t)w->outside;
}

/* Copies the part of a group that the band of windows beginning with row `y` reads. */
static inline void copy_tile(const struct windows *w, const uint8_t *group, uint8_t flip, uint32_t y, uint8_t *tile)
{
    const uint32_t width = tile_width(w), height = tile_height(w);
    for (uint32_t c = 0; c < w->inputs; ++c)
        for (uint32_t r = 0; r < height; ++r, tile += width) {
            const uint32_t row = y * w->stride_y + r;
            if (row >= w->top && row < w->top + w->height)
                copy_row(w, &group[(c * w->height + row - w->top) * w->width], flip, tile);
            else
                memset(tile, (int)w->outside, width);
        }
}

/* Calls `compute` for all windows of a vector; `reads`: they read the source, and not what else stands in its place. */
static inline void for_each_panel(const struct work *work, uint32_t v, int reads,
                                  void (*compute)(const struct work *work, const struct panel *panel, uint32_t v))
{
    const struct windows *w = windows_of(work->constants);
    const uint8_t flip = (uint8_t)work->constants->flip;
    uint32_t *places = (uint32_t *)(void *)work->scratch;
    uint8_t *tile = work->scratch + places_bytes(w);
    struct panel panel = {.windows = w, .tile = tile, .places = places};
    find_places(w, places);
    for (panel.group = 0; panel.group < w->groups; ++panel.group)
        for (uint32_t y = 0; y < w->rows; y += w->band) {
            const uint32_t count = (w->rows - y < w->band ? w->rows - y : w->band) * w->columns;
            if (reads)
                copy_tile(w, row(&work->sources[0], v) + panel.group * w->inputs * w->height * w->width, flip, y, tile);
            for (uint32_t p = 0; p < count; p += LANES) {
                panel.position = y * w->columns + p;
                panel.lanes = count - p < LANES ? count - p : LANES;
                for (uint32_t lane = 0; lane < LANES; ++lane) {
                    const uint32_t window = p + (lane < panel.lanes ? lane : panel.lanes - 1);
                    panel.first[lane] = window / w->columns * w->stride_y * tile_width(w) +
                                        window % w->columns * w->stride_x;
                }
                compute(work, &panel, v);
            }
        }
}

#endif
