/* exp, exp - 1, tanh and the logistic function, float32 -> float32, for all 2^32 inputs; a NaN gives a NaN.
 *
 * Each written operation is one IEEE 754 float32 operation, rounded half to even.  No branch depends on x: `bound` is
 * EXP_BOUND, or EXP_MINUS_ONE_BOUND for exp - 1, as a variable that is NOT_KNOWN (saturate.h), and other choices are
 * made among bits.
 *
 * exp(x) = 2^n exp(r),  n = round_half_even(x LOG2E),  r = x - n ln 2,  |r| < 0.3467,  exp(r) = 1 + r + q:
 *
 *     v = x < -bound ? -bound : x > bound ? bound : x              beyond it exp is 0 or infinity, and exp - 1 is -1
 *     t = v LOG2E + ROUNDER;   n = t - ROUNDER                     ROUNDER = 1.5 * 2^23: an ulp of t is 1
 *     a = v - n LN2_HIGH;      b = n LN2_LOW                       a is exact
 *     r = a - b;               c = (a - r) - b                     c is the rounding error of r
 *     q = c + (r r) ((((E6 r + E5) r + E4) r + E3) r + E2)
 *     s = 1 + r;               d = (1 - s) + r                     d is the rounding error of s, and exact
 *     exp(x) = ((s + (d + q)) 2^h) 2^(n - h),  h = floor(n / 2)    two factors, as 2^n itself need not be a float32;
 *                                                                  only the second product can be rounded
 *     exp(x) - 1 = (r + q) 2^n + (2^n - 1)                         for x <= 0
 *
 *     m = |x|;  s = m m;  tanh(x) has the sign of x and the magnitude
 *         m + (m s) ((((T4 s + T3) s + T2) s + T1) s + T0)          m < 0.625
 *         1 - 2 / (exp(m + m) + 1)                                  otherwise
 *
 *     logistic(x) = y,  e = exp(-|x|),  y = (x < 0 ? e : 1) / (1 + e)          x >= -1.0625
 *     logistic(x) = e - e y                                         otherwise: 1 + e is rounded
 *
 * The coefficients minimise the largest relative error and are rounded one after the other, from E2 and T0 on: after
 * each, the others are fitted again (tests/campaigns/functions/coefficients.py).
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

#define EXP_BOUND 0x1.a2p+6f          /* 104.5: 2^-150.8 is rounded to 0 */
#define EXP_MINUS_ONE_BOUND 0x1.8p+4f /* 24: 2^n is a normal float32 */
#define LOG2E 0x1.715476p+0f
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f
#define ROUNDER 0x1.8p+23f
#define E2 0x1.fffffcp-2f
#define E3 0x1.55548cp-3f
#define E4 0x1.555858p-5f
#define E5 0x1.123dep-7f
#define E6 0x1.6ac74ep-10f
#define T0 -0x1.555532p-2f
#define T1 0x1.1106f6p-3f
#define T2 -0x1.b835a4p-5f
#define T3 0x1.51f8cep-6f
#define T4 -0x1.750ce4p-8f
#define TANH_SMALL 0x1.4p-1f      /* 0.625 */
#define LOGISTIC_SMALL -0x1.1p+0f /* -1.0625 */

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

struct exp_parts {
    float r, q;
    uint32_t biased; /* n + 254, which is positive */
};

FUNCTION struct exp_parts exp_parts_of(float v)
{
    const float t = v * LOG2E + ROUNDER;
    const float n = t - ROUNDER;
    const float a = v - n * LN2_HIGH;
    const float b = n * LN2_LOW;
    const float r = a - b;
    const float c = (a - r) - b;
    const float q = c + (r * r) * ((((E6 * r + E5) * r + E4) * r + E3) * r + E2);
    struct exp_parts parts;
    parts.r = r;
    parts.q = q;
    parts.biased = bits_of_float(t) - (bits_of_float(ROUNDER) - 254);
    return parts;
}

FUNCTION float exp_of_bounded(float v)
{
    const struct exp_parts of = exp_parts_of(v);
    const float s = 1.0f + of.r;
    const float d = (1.0f - s) + of.r;
    const uint32_t half = of.biased >> 1; /* h + 127 */
    return ((s + (d + of.q)) * float_of_bits(half << 23)) * float_of_bits((of.biased - half) << 23);
}

FUNCTION float exp_of(float x, float bound)
{
    const float above = x < -bound ? -bound : x;
    return exp_of_bounded(above > bound ? bound : above);
}

/* x <= 0 or NaN. */
FUNCTION float exp_minus_one_of(float x, float bound)
{
    const struct exp_parts of = exp_parts_of(x < -bound ? -bound : x);
    const float power = float_of_bits((of.biased - 127) << 23);
    return (of.r + of.q) * power + (power - 1.0f);
}

FUNCTION float tanh_of(float x, float bound)
{
    const uint32_t sign = bits_of_float(x) & 0x80000000u;
    const float m = float_of_bits(bits_of_float(x) ^ sign);
    const float s = m * m;
    const float small = m + (m * s) * ((((T4 * s + T3) * s + T2) * s + T1) * s + T0);
    const float twice = m + m;
    const float large = 1.0f - 2.0f / (exp_of_bounded(twice > bound ? bound : twice) + 1.0f);
    const uint32_t is_small = mask_of_highest(bits_of_float(m) - bits_of_float(TANH_SMALL));
    return float_of_bits(bits_of_float(chosen(is_small, small, large)) | sign);
}

FUNCTION float logistic_of(float x, float bound)
{
    const uint32_t bits = bits_of_float(x);
    const float opposite = float_of_bits(bits | 0x80000000u); /* -|x| */
    const float e = exp_of_bounded(opposite < -bound ? -bound : opposite);
    const float y = chosen(mask_of_highest(bits), e, 1.0f) / (1.0f + e);
    const uint32_t is_small = mask_of_highest((bits_of_float(LOGISTIC_SMALL) - bits) & bits); /* of negative x */
    return chosen(is_small, e - e * y, y);
}

#endif
