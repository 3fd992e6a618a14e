/* QLinearGlobalAveragePool (com.microsoft): acc[c] = sum_p (x[p, c] - zx), a code a cycle.
 *
 * The divisor is part of the multiplier, and so of the thresholds.
 */
#ifndef QLINEAR_GLOBAL_AVERAGE_POOL_HPP
#define QLINEAR_GLOBAL_AVERAGE_POOL_HPP

#include "image_layer.hpp"

template <class LAYER, typename CODE, class ROWS>
void sum_channels(hls::stream<CODE, (int)LAYER::DEPTH> &codes, elements &told, ROWS &rows, question asked,
                  int32_t input_zero_point)
{
    if (is_asked<LAYER>(asked) && asked.part == TABLES)
        told.write(input_zero_point);
    if (!computes<LAYER>(asked))
        return;
    for (uint32_t v = 0; v < asked.vectors; ++v) {
        row<LAYER::LANES> sums;
#pragma HLS ARRAY_PARTITION variable=sums.acc complete
        for (unsigned c = 0; c < LAYER::LANES; ++c) {
#pragma HLS UNROLL
            sums.acc[c] = 0;
        }
        for (unsigned p = 0; p < LAYER::DEPTH / LAYER::LANES; ++p)
            for (unsigned c = 0; c < LAYER::LANES; ++c) {
#pragma HLS PIPELINE II=1
                sums.acc[c] += codes.read() - input_zero_point;
            }
        rows.write(sums);
    }
}

#endif
