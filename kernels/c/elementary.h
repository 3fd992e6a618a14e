/* Bits of float32, and exp, float32 -> float32, for all 2^32 inputs; a NaN gives a NaN.
 *
 * Each written operation is one IEEE 754 float32 operation, rounded half to even.  No branch depends on x: `bound` is
 * EXP_BOUND as a variable that is NOT_KNOWN (saturate.h).
 *
 * exp(x) = 2^n exp(r),  n = round_half_even(x LOG2E),  r = x - n ln 2,  |r| < 0.3467,  exp(r) = 1 + r + q, as the
 * definition `exponential` of harness/operators/exact/functions.py has it in the same letters:
 *
 *     v = x < -bound ? -bound : x > bound ? bound : x              beyond it exp is 0 or infinity
 *     t = v LOG2E + ROUNDER;   n = t - ROUNDER                     ROUNDER = 1.5 * 2^23: an ulp of t is 1
 *     a = v - n LN2_HIGH;      b = n LN2_LOW                       a is exact
 *     r = a - b;               c = (a - r) - b                     c is the rounding error of r
 *     q = c + (r r) ((((E6 r + E5) r + E4) r + E3) r + E2)
 *     s = 1 + r;               d = (1 - s) + r                     d is the rounding error of s, and exact
 *     exp(x) = ((s + (d + q)) 2^h) 2^(n - h),  h = floor(n / 2)    two factors, as 2^n itself need not be a float32;
 *                                                                  only the second product can be rounded
 */
#ifndef ELEMENTARY_H
#define ELEMENTARY_H

#ifdef __CUDACC_RTC__ /* a compiler of device code, which has no standard headers */
#define FUNCTION __device__ inline
#else
#include <stdint.h>
#include <string.h>

#include "saturate.h"
#define FUNCTION static inline
#endif

#define EXP_BOUND 0x1.a2p+6f /* 104.5: 2^-150.8 is rounded to 0 */
#define LOG2E 0x1.715476p+0f
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f
#define ROUNDER 0x1.8p+23f
#define E2 0x1.fffffcp-2f
#define E3 0x1.55548cp-3f
#define E4 0x1.555858p-5f
#define E5 0x1.123dep-7f
#define E6 0x1.6ac74ep-10f

FUNCTION uint32_t bits_of_float(float x)
{
    uint32_t bits;
    (void)memcpy(&bits, &x, sizeof bits);
    return bits;
}

FUNCTION float float_of_bits(uint32_t bits)
{
    float x;
    (void)memcpy(&x, &bits, sizeof x);
    return x;
}

/* All bits set if the highest of `bits` is, otherwise none. */
FUNCTION uint32_t mask_of_highest(uint32_t bits)
{
    return 0u - (bits >> 31);
}

/* mask ? a : b, for a mask of all bits or none. */
FUNCTION float chosen(uint32_t mask, float a, float b)
{
    return float_of_bits((bits_of_float(a) & mask) | (bits_of_float(b) & ~mask));
}

FUNCTION float exp_of_bounded(float v)
{
    const float t = v * LOG2E + ROUNDER;
    const float n = t - ROUNDER;
    const float a = v - n * LN2_HIGH;
    const float b = n * LN2_LOW;
    const float r = a - b;
    const float c = (a - r) - b;
    const float q = c + (r * r) * ((((E6 * r + E5) * r + E4) * r + E3) * r + E2);
    const float s = 1.0f + r;
    const float d = (1.0f - s) + r;
    const uint32_t biased = bits_of_float(t) - (bits_of_float(ROUNDER) - 254); /* n + 254, which is positive */
    const uint32_t half = biased >> 1;                                         /* h + 127 */
    return ((s + (d + q)) * float_of_bits(half << 23)) * float_of_bits((biased - half) << 23);
}

FUNCTION float exp_of(float x, float bound)
{
    const float above = x < -bound ? -bound : x;
    return exp_of_bounded(above > bound ? bound : above);
}

#endif
