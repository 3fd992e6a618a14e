/* BatchNormalization (ONNX, inference), float32, one vector x (channels, positions):
 *
 *     y[c][p] = ((x[c][p] - mean[c]) / deviation[c]) * scale[c] + offset[c]
 *
 * Four operations, each rounded (-ffp-contract=off): no product with 1 / deviation, no fused multiply-add.
 */
#ifndef BATCH_NORMALIZATION_H
#define BATCH_NORMALIZATION_H

#include <stddef.h>

static inline void batch_normalization_float32(size_t channels, size_t positions, const float *restrict x,
                                               const float *restrict mean, const float *restrict deviation,
                                               const float *restrict scale, const float *restrict offset,
                                               float *restrict y)
{
    for (size_t c = 0; c < channels; ++c)
        for (size_t p = 0; p < positions; ++p)
            y[c * positions + p] = ((x[c * positions + p] - mean[c]) / deviation[c]) * scale[c] + offset[c];
}

#endif
