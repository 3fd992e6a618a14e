/* ArgMax and ArgMin (ONNX) over one vector: the column of the extreme value.
 *
 * Tie rule: of equal values the lowest column wins (select_last_index = 0), or the highest where `last`.
 * What wins is chosen by arithmetic, not by branches, which would take as long as the data have them.
 */
#ifndef ARG_EXTREMUM_H
#define ARG_EXTREMUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEFINE_ARG_EXTREMUM(NAME, TYPE)                                                                \
    static inline int64_t arg_extremum_##NAME(size_t width, const TYPE *x, bool largest, bool last)    \
    {                                                                                                  \
        size_t best = 0;                                                                               \
        for (size_t i = 1; i < width; ++i) {                                                           \
            const bool beyond = largest ? x[i] > x[best] : x[i] < x[best];                             \
            const size_t chosen = 0 - (size_t)(beyond | (last & (x[i] == x[best])));                   \
            best = (i & chosen) | (best & ~chosen);                                                    \
        }                                                                                              \
        return (int64_t)best;                                                                          \
    }

DEFINE_ARG_EXTREMUM(uint8, uint8_t)
DEFINE_ARG_EXTREMUM(int8, int8_t)
DEFINE_ARG_EXTREMUM(float32, float)

#endif
