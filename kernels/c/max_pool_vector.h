/* MaxPool (ONNX) of codes, one image x (channels, height, width): y[c][p] = the largest code of the window at position p
 * of channel c; padding is never chosen, and every window has a code inside.  Codes have any order: first the largest
 * code of each column of the rows that a row of windows reads, then the largest of each window's columns.  The loops are
 * over adjacent codes, which compilers make vectors of.
 */
#ifndef MAX_POOL_VECTOR_H
#define MAX_POOL_VECTOR_H

#include <string.h>

#include "lanes.h"
#include "window.h"

/* `line`: (windows - 1) * stride_x + (kernel_width - 1) * dilation_x + 1 codes, `length` */
#define DEFINE_MAX_POOL_VECTOR(TYPE, LOWEST)                                                           \
    WITH_LITERALS void max_pool_line_##TYPE(const struct window *w, size_t length, size_t row, const TYPE##_t *x, \
                                            TYPE##_t *line)                                            \
    {                                                                                                  \
        const size_t inside = w->left < length ? length - w->left : 0;                                 \
        const size_t columns = inside < w->width ? inside : w->width;                                  \
        (void)memset(line, (uint8_t)(LOWEST), length);                                                 \
        for (size_t i = 0; i < w->kernel_height; ++i) {                                                \
            const size_t at = row * w->stride_y + i * w->dilation_y;                                   \
            if (at >= w->top && at - w->top < w->height)                                               \
                for (size_t column = 0; column < columns; ++column) {                                  \
                    const TYPE##_t value = x[(at - w->top) * w->width + column];                       \
                    const TYPE##_t largest = line[w->left + column];                                   \
                    line[w->left + column] = largest > value ? largest : value;                        \
                }                                                                                      \
        }                                                                                              \
    }                                                                                                  \
                                                                                                       \
    WITH_LITERALS void max_pool_vector_##TYPE(const struct window *w, size_t channels, const TYPE##_t *x, TYPE##_t *line, \
                                              size_t length, TYPE##_t *y)                              \
    {                                                                                                  \
        for (size_t c = 0; c < channels; ++c)                                                          \
            for (size_t row = 0; row < w->rows; ++row) {                                               \
                TYPE##_t *of_row = &y[(c * w->rows + row) * w->columns];                               \
                max_pool_line_##TYPE(w, length, row, &x[c * w->height * w->width], line);              \
                for (size_t column = 0; column < w->columns; ++column) {                               \
                    TYPE##_t largest = line[column * w->stride_x];                                     \
                    UNROLLED for (size_t j = 1; j < w->kernel_width; ++j) {                            \
                        const TYPE##_t value = line[column * w->stride_x + j * w->dilation_x];         \
                        largest = largest > value ? largest : value;                                   \
                    }                                                                                  \
                    of_row[column] = largest;                                                          \
                }                                                                                      \
            }                                                                                          \
    }

DEFINE_MAX_POOL_VECTOR(uint8, 0)
DEFINE_MAX_POOL_VECTOR(int8, -128)

#endif
