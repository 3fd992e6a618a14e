/* A sum of float32 numbers, each addition rounded, without floating point (harness/operators/qlinear_average_pool.py):
 *
 *     s = 0; then for each d in order: s = float32(s + float32(d * sx))          |d| <= 255
 *
 * Every term is a multiple of u, the unit in the last place of sx, and so is every sum, rounded or not: numbers are held
 * as int64 multiples of u, and rounding keeps their 24 leading binary digits, half to even.  With 2^16 terms at most a
 * sum has 48 digits.
 */
#ifndef ROUNDED_SUM_H
#define ROUNDED_SUM_H

#include "scaled.h"

/* float32(value), value a multiple of u, of less than 63 digits. */
static inline int64_t rounded_sum(int64_t value)
{
    const uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
    const uint32_t digits = bit_length(magnitude), excess = digits > SIGNIFICAND ? digits - SIGNIFICAND : 0;
    const int64_t rounded = (int64_t)(shifted_right(magnitude, excess) << excess);
    return value < 0 ? -rounded : rounded;
}

/* The bits of a sum that is rounded, u = 2^exponent. */
static inline uint32_t sum_bits(int64_t sum, int32_t exponent)
{
    const uint64_t magnitude = sum < 0 ? -(uint64_t)sum : (uint64_t)sum;
    return float_bits(magnitude, exponent) | (sum < 0 ? 0x80000000u : 0);
}

#endif
