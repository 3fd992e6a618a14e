/* The functions of kernels/c/integer as a library, in C or in C++; with __C7000__ also the model of the instruction. */
#include "dot4.h"
#include "rounded_sum.h"
#include "scaled.h"
#include "thresholds.h"

#ifdef __cplusplus
#define EXPORTED extern "C"
#else
#define EXPORTED
#endif

EXPORTED void dot(size_t groups, size_t quads, const uint8_t *a, const int8_t *b, int32_t *sums);
EXPORTED void positions(size_t quads, const uint8_t *panel, const int8_t *b, int32_t *sums);
EXPORTED void scaled(size_t count, const int32_t *acc, const uint32_t *m, uint32_t *y);
EXPORTED void codes(size_t lanes, size_t stride, const int32_t *t, const int32_t *x, uint8_t *y);
EXPORTED void mean(size_t count, const int64_t *terms, int32_t exponent, uint32_t *bits);
EXPORTED void counts(size_t count, const int32_t *t, const int32_t *x, uint32_t *y);
EXPORTED void ordered(size_t count, const uint32_t *bits, int32_t *y);

EXPORTED void dot(size_t groups, size_t quads, const uint8_t *a, const int8_t *b, int32_t *sums)
{
    dot_products(groups, quads, a, b, sums);
}

EXPORTED void positions(size_t quads, const uint8_t *panel, const int8_t *b, int32_t *sums)
{
    dot_positions(quads, panel, b, sums);
}

EXPORTED void codes(size_t lanes, size_t stride, const int32_t *t, const int32_t *x, uint8_t *y)
{
    threshold_codes(t, (uint32_t)stride, (uint32_t)lanes, x, 128, y);
}

EXPORTED void mean(size_t count, const int64_t *terms, int32_t exponent, uint32_t *bits)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; ++i)
        sum = rounded_sum(sum + terms[i]);
    *bits = sum_bits(sum, exponent);
}

EXPORTED void scaled(size_t count, const int32_t *acc, const uint32_t *m, uint32_t *y)
{
    for (size_t i = 0; i < count; ++i)
        y[i] = scaled_accumulator(acc[i], m[i]);
}

EXPORTED void counts(size_t count, const int32_t *t, const int32_t *x, uint32_t *y)
{
    for (size_t i = 0; i < count; ++i)
        y[i] = threshold_count(t, x[i]);
}

EXPORTED void ordered(size_t count, const uint32_t *bits, int32_t *y)
{
    for (size_t i = 0; i < count; ++i)
        y[i] = ordered_float(bits[i]);
}

#ifdef __C7000__
EXPORTED void instruction(const int8_t *a, const uint8_t *b, int32_t *lanes);

EXPORTED void instruction(const int8_t *a, const uint8_t *b, int32_t *lanes)
{
    *(int16 *)lanes = __vdotp4subw_vvv(*(const char64 *)a, *(const uchar64 *)b);
}
#endif
