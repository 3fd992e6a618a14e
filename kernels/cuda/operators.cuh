/* Functions of kernels beside the rounding: operators that read many values x[n] and compute four outputs.
 */
#ifndef OPERATORS_CUH
#define OPERATORS_CUH

#include "floats.cuh"
#include "rounding.cuh"
#include "window.cuh"

/* The column of the extreme value of `x`.
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

/* QLinearSoftmax (com.microsoft), output n, of the WIDTH values x of its row:
 *
 *     e[k] = table[255 + x[k] - max(x)]            exponentials
 *     y[n] = saturate(round_half_even(e[n] * inverse / (e[0] + e[1] + ...)) + zy)     the sum in the order of columns
 */
template <typename Code, unsigned WIDTH, typename Values>
__device__ inline Code softmax_codes(const Values &x, const float *table, float inverse, int32_t zy, unsigned n)
{
    const unsigned first = n / WIDTH * WIDTH;
    int32_t highest = x[first];
    for (unsigned k = first + 1; k < first + WIDTH; ++k)
        highest = x[k] > highest ? x[k] : highest;
    float sum = 0;
    for (unsigned k = first; k < first + WIDTH; ++k)
        sum = add(sum, table[255 + x[k] - highest]);
    return share<Code>(table[255 + x[n] - highest], inverse, sum, zy);
}

/* Elements 4g to 4g + 3 of a table, whose length is a multiple of four. */
template <typename Four, typename T> __device__ inline const Four &four(const T *table, unsigned g)
{
    return ((const Four *)table)[g];
}

/* A word of four codes. */
template <typename Code> __device__ inline uint32_t requantize_four(int4 acc, float4 m, int32_t zero_point)
{
    const uint32_t x = (uint8_t)requantize<Code>(acc.x, m.x, zero_point);
    const uint32_t y = (uint8_t)requantize<Code>(acc.y, m.y, zero_point);
    const uint32_t z = (uint8_t)requantize<Code>(acc.z, m.z, zero_point);
    const uint32_t w = (uint8_t)requantize<Code>(acc.w, m.w, zero_point);
    return x | y << 8 | z << 16 | w << 24;
}

__device__ inline float4 scale_four(int4 acc, float4 m)
{
    return make_float4(scale_accumulator(acc.x, m.x), scale_accumulator(acc.y, m.y), scale_accumulator(acc.z, m.z),
                       scale_accumulator(acc.w, m.w));
}

#endif
