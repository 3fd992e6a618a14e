/* LRN (ONNX), float32, one image x (channels, positions):
 *
 *     s       = 0, then s = s + x[j] * x[j]         for the channels j of the window of c, in their order
 *     d       = bias + factor * s                   factor = alpha / size, from the host
 *     y[c][p] = x[c][p] / d^beta                    quarters = 4 * beta: roots make the power
 *
 * Each operation is rounded to nearest, half to even (-ffp-contract=off); a square root is one IEEE 754 operation.  The
 * inner loops are those over positions, so that the sums are vectorised without a change of their order.
 */
#ifndef LRN_H
#define LRN_H

#include <math.h>
#include <stddef.h>

static inline float power_of_quarters(float d, int quarters)
{
    const float root = sqrtf(d);
    return quarters == 4 ? d : quarters == 3 ? root * sqrtf(root) : quarters == 2 ? root : sqrtf(root);
}

static inline void lrn_float32(size_t channels, size_t positions, size_t size, int quarters, const float *restrict x,
                               float factor, float bias, float *restrict y)
{
    const size_t before = (size - 1) / 2;
    for (size_t c = 0; c < channels; ++c) {
        const size_t first = c < before ? 0 : c - before;
        const size_t end = c - before + size < channels ? c - before + size : channels;
        float *of_channel = &y[c * positions];
        for (size_t p = 0; p < positions; ++p)
            of_channel[p] = 0.0f;
        for (size_t j = first; j < end; ++j)
            for (size_t p = 0; p < positions; ++p)
                of_channel[p] += x[j * positions + p] * x[j * positions + p];
        for (size_t p = 0; p < positions; ++p)
            of_channel[p] = x[c * positions + p] / power_of_quarters(bias + factor * of_channel[p], quarters);
    }
}

#endif
