/* As pool.h, with the same operations in the same order for each result, for sizes that are literals: the windows of a row
 * are combined together, and of windows that are the whole image those of several channels.
 */
#ifndef POOL_VECTOR_H
#define POOL_VECTOR_H

#include "lanes.h"
#include "pool.h"

enum { POOL_CHAINS = 8 }; /* of operations that do not wait for each other */

#define DEFINE_POOL_VECTOR(NAME, TYPE, INITIAL, COMBINE)                                               \
    /* Row i of the windows `first` to `end` of a row: `from` is where column 0 of the padded image would be. */ \
    WITH_LITERALS void NAME##_whole(const struct window *w, size_t first, size_t end, const TYPE *from, TYPE *y) \
    {                                                                                                  \
        for (size_t column = first; column < end; ++column) {                                          \
            TYPE result = y[column];                                                                   \
            UNROLLED for (size_t j = 0; j < w->kernel_width; ++j) {                                    \
                const TYPE value = from[column * w->stride_x + j * w->dilation_x - w->left];           \
                result = COMBINE(result, value);                                                       \
            }                                                                                          \
            y[column] = result;                                                                        \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    WITH_LITERALS void NAME##_cut(const struct window *w, size_t first, size_t end, const TYPE *from, TYPE *y) \
    {                                                                                                  \
        for (size_t column = first; column < end; ++column)                                            \
            for (size_t j = 0; j < w->kernel_width; ++j) {                                             \
                const size_t at = column * w->stride_x + j * w->dilation_x;                            \
                if (at >= w->left && at - w->left < w->width)                                          \
                    y[column] = COMBINE(y[column], from[at - w->left]);                                \
            }                                                                                          \
    }                                                                                                  \
                                                                                                       \
    WITH_LITERALS void NAME##_vector(const struct window *w, size_t channels, const TYPE *x, TYPE *y)  \
    {                                                                                                  \
        const size_t last = (w->kernel_width - 1) * w->dilation_x;                                     \
        const struct span begins = window_span(w->width, w->left, 0, w->stride_x, w->columns);         \
        const struct span ends = window_span(w->width, w->left, last, w->stride_x, w->columns);        \
        const size_t first = begins.first, end = ends.end > first ? ends.end : first;                  \
        for (size_t c = 0; c < channels; ++c)                                                          \
            for (size_t row = 0; row < w->rows; ++row) {                                               \
                TYPE *of_row = &y[(c * w->rows + row) * w->columns];                                   \
                for (size_t column = 0; column < w->columns; ++column)                                 \
                    of_row[column] = INITIAL;                                                          \
                for (size_t i = 0; i < w->kernel_height; ++i) {                                        \
                    const size_t at = row * w->stride_y + i * w->dilation_y;                           \
                    if (at >= w->top && at - w->top < w->height) {                                     \
                        const TYPE *from = &x[(c * w->height + at - w->top) * w->width];               \
                        NAME##_cut(w, 0, first, from, of_row);                                         \
                        NAME##_whole(w, first, end, from, of_row);                                     \
                        NAME##_cut(w, end, w->columns, from, of_row);                                  \
                    }                                                                                  \
                }                                                                                      \
            }                                                                                          \
    }                                                                                                  \
                                                                                                       \
    /* One window, the whole image; the chains of several channels run side by side. */                \
    WITH_LITERALS void NAME##_image(size_t channels, size_t positions, const TYPE *x, TYPE *y)         \
    {                                                                                                  \
        for (size_t c = 0; c < channels; c += POOL_CHAINS) {                                           \
            const size_t count = channels - c < POOL_CHAINS ? channels - c : POOL_CHAINS;              \
            TYPE results[POOL_CHAINS];                                                                 \
            for (size_t k = 0; k < POOL_CHAINS; ++k)                                                   \
                results[k] = INITIAL;                                                                  \
            if (count == POOL_CHAINS)                                                                  \
                for (size_t p = 0; p < positions; ++p)                                                 \
                    UNROLLED for (size_t k = 0; k < POOL_CHAINS; ++k)                                  \
                        results[k] = COMBINE(results[k], x[(c + k) * positions + p]);                  \
            else                                                                                       \
                for (size_t p = 0; p < positions; ++p)                                                 \
                    for (size_t k = 0; k < count; ++k)                                                 \
                        results[k] = COMBINE(results[k], x[(c + k) * positions + p]);                  \
            for (size_t k = 0; k < count; ++k)                                                         \
                y[c + k] = results[k];                                                                 \
        }                                                                                              \
    }

#endif
