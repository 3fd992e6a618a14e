/* The fused multiply-add of IEEE 754, float32(a * b + c), rounded once: the same bits on every processor.
 *
 * Processors without the instruction compute it in double, where the product is exact, and round twice without harm: the
 * sum is rounded to odd first (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008), that is toward
 * zero with the last bit set if anything was lost.  There is no branch that depends on data.
 */
#ifndef FUSED_H
#define FUSED_H

#include <stdint.h>
#include <string.h>

#if (defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)) && !defined(FUSED_PORTABLE)

#define fused(A, B, C) __builtin_fmaf(A, B, C)

#else

static inline float fused(float a, float b, float c)
{
    const double product = (double)a * (double)b;
    double sum = product + (double)c;
    const double part = sum - product;
    const double lost = (product - (sum - part)) + ((double)c - part); /* exactly product + c - sum */
    uint64_t bits, rest;
    (void)memcpy(&bits, &sum, sizeof bits);
    (void)memcpy(&rest, &lost, sizeof rest);
    const uint64_t inexact = (uint64_t)(rest << 1 != 0), away = (rest ^ bits) >> 63; /* other signs */
    bits = (bits - (inexact & away)) | inexact;
    (void)memcpy(&sum, &bits, sizeof sum);
    return (float)sum;
}

#endif

#endif
