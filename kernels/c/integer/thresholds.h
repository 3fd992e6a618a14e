/* Rounding without floating point: a monotone map from integers to codes as the places where the code changes.
 *
 *     t[k] = the least x that becomes QMIN + k + 1 or more,  k = 0 .. 254      from the host, non-decreasing
 *     y(x) = QMIN + #{k : t[k] <= x}
 *
 * For QGemm (harness/operators/qgemm.py) x is the accumulator and t the 255 thresholds of
 *
 *     y = saturate(round_half_even(float32(acc) * m) + zy)
 *
 * of a column.  For QuantizeLinear x is the ordered number of a float32, and t those of
 *
 *     q = saturate(round_half_even(x / scale) + zero_point)
 *
 * A code that no x reaches has the threshold INT32_MAX, which no x may be: an accumulator is less, the host sees to
 * that, and the largest ordered number is that of +infinity.
 */
#ifndef THRESHOLDS_H
#define THRESHOLDS_H

#include <stdint.h>

enum { THRESHOLDS = 255, SEARCHES = 16 };

/* #{k : t[k] <= x}: eight comparisons, whatever x is. */
static inline uint32_t threshold_count(const int32_t *t, int32_t x)
{
    uint32_t count = 0;
    for (uint32_t step = 128; step > 0; step /= 2)
        count += t[count + step - 1] <= x ? step : 0;
    return count;
}

/* The codes low + #{k : t[lane * stride + k] <= x[lane]} of `lanes` values, SEARCHES at most.
 *
 * One search is a chain of eight loads, each of which waits for the one before.  SEARCHES of them stand side by side,
 * level by level, so that a processor that executes in order, as the C7x does, has as many loads in flight: a C compiler
 * can see that none depends on another (benchmarks/thresholds.py). */
static inline void threshold_codes(const int32_t *t, uint32_t stride, uint32_t lanes, const int32_t *x, uint32_t low,
                                   uint8_t *codes)
{
    uint32_t count[SEARCHES] = {0};
    if (lanes < SEARCHES) {
        for (uint32_t lane = 0; lane < lanes; ++lane)
            codes[lane] = (uint8_t)(low + threshold_count(&t[lane * stride], x[lane]));
        return;
    }
    for (uint32_t step = 128; step > 0; step /= 2)
        for (uint32_t lane = 0; lane < SEARCHES; ++lane)
            count[lane] += t[lane * stride + count[lane] + step - 1] <= x[lane] ? step : 0;
    for (uint32_t lane = 0; lane < SEARCHES; ++lane)
        codes[lane] = (uint8_t)(low + count[lane]);
}

/* The bits of a float32 as an integer in the order of the numbers: -inf -2139095040, both zeros 0, +inf 2139095040.
 * NaN, which QuantizeLinear takes for less than everything, is INT32_MIN. */
static inline int32_t ordered_float(uint32_t bits)
{
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return INT32_MIN;
    return bits >> 31 ? -(int32_t)magnitude : (int32_t)magnitude;
}

#endif
