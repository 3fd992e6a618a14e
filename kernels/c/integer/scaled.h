/* QGemm with a float32 output, without floating point (harness/operators/qgemm.py):
 *
 *     y = float32(acc) * m          acc int32, m float32 and finite; two roundings to nearest, half to even
 *
 * as bits.  A product below the normal numbers is subnormal, one above them infinite, as IEEE 754 has it.
 */
#ifndef SCALED_H
#define SCALED_H

#include <stdint.h>

enum { SIGNIFICAND = 24, LEAST_EXPONENT = -149 };

/* value / 2^shift, to nearest, half to even; shift < 64. */
static inline uint64_t shifted_right(uint64_t value, uint32_t shift)
{
    const uint64_t quotient = value >> shift, rest = value - (quotient << shift);
    const uint64_t half = shift ? 1ull << (shift - 1) : 0;
    return quotient + (shift && (rest > half || (rest == half && (quotient & 1))));
}

/* The number of binary digits. */
static inline uint32_t bit_length(uint64_t value)
{
    uint32_t length = 0;
    for (uint32_t step = 32; step > 0; step /= 2)
        if (value >> step) {
            value >>= step;
            length += step;
        }
    return length + (value != 0);
}

/* The bits of value * 2^exponent, rounded once; value < 2^62. */
static inline uint32_t float_bits(uint64_t value, int32_t exponent)
{
    const int32_t excess = (int32_t)bit_length(value) - SIGNIFICAND, below = LEAST_EXPONENT - exponent;
    const int32_t shift = excess > below ? excess : below; /* of two bounds the one that costs more digits */
    if (shift > 63)
        return 0;
    uint64_t significand = shift > 0 ? shifted_right(value, (uint32_t)shift) : value << -shift;
    exponent += shift;
    if (significand >> SIGNIFICAND) { /* rounded up to the next power of two */
        significand >>= 1;
        exponent += 1;
    }
    if (significand >> (SIGNIFICAND - 1) == 0)
        return (uint32_t)significand; /* subnormal, or zero */
    const uint32_t biased = (uint32_t)(exponent - LEAST_EXPONENT + 1);
    return biased >= 255 ? 0x7f800000u : biased << 23 | ((uint32_t)significand & 0x7fffffu);
}

/* As above, m by its bits. */
static inline uint32_t scaled_accumulator(int32_t acc, uint32_t m)
{
    const uint32_t sign = (m ^ (acc < 0 ? 0x80000000u : 0)) & 0x80000000u;
    uint64_t magnitude = acc < 0 ? -(uint64_t)(int64_t)acc : (uint64_t)acc;
    const uint32_t digits = bit_length(magnitude), excess = digits > SIGNIFICAND ? digits - SIGNIFICAND : 0;
    magnitude = shifted_right(magnitude, excess); /* float32(acc) */
    const uint32_t biased = m >> 23 & 255, fraction = m & 0x7fffffu;
    const uint64_t significand = biased ? fraction | 0x800000u : fraction;
    const int32_t exponent = (int32_t)(biased ? biased : 1) - 1 + LEAST_EXPONENT + (int32_t)excess;
    const uint64_t product = magnitude * significand; /* of 48 digits at most */
    return product ? sign | float_bits(product, exponent) : sign;
}

#endif
