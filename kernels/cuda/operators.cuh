/* What both kinds of kernels share beside the rounding: operators of windows and of float32, ArgMax and ArgMin. */
#ifndef OPERATORS_CUH
#define OPERATORS_CUH

#include "floats.cuh"
#include "windows.cuh"

/* The column of the extreme value of `x`, which gives its values by x[n].
 *
 * Tie rule: of equal values the lowest column wins (select_last_index = 0), or the highest where LAST.
 */
template <unsigned WIDTH, bool LARGEST, bool LAST, typename Values>
__device__ inline int32_t arg_extremum(const Values &x)
{
    int32_t best = 0;
    for (unsigned n = 1; n < WIDTH; ++n) {
        const bool beats = LARGEST ? x[n] > x[best] : x[n] < x[best];
        if (beats || (LAST && x[n] == x[best]))
            best = (int32_t)n;
    }
    return best;
}

#endif
