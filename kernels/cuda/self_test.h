/* Cases that a GPU computes before it is used: ties, products that round, what a fused or flushed operation gets wrong.
 *
 * Each is an operation of rounding.cuh, floats.cuh or fused.cuh with its operands' bits, and the bits that the specification gives.
 */
#ifndef SELF_TEST_H
#define SELF_TEST_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

enum self_test_operation {
    REQUANTIZE_UINT8, /* (acc, m, zero_point) */
    REQUANTIZE_INT8,
    SCALE,            /* (acc, m) */
    QUANTIZE_UINT8,   /* (x, scale, zero_point) */
    QUANTIZE_INT8,
    DEQUANTIZE_UINT8, /* (q, scale, zero_point) */
    ADD,              /* (a, b) */
    MULTIPLY_ADD,     /* (a, b, c): a * b + c, rounded twice */
    SQUARE_ROOT,      /* (x) */
    EXP,              /* (x) */
    FUSED,            /* (a, b, c) */
    DOT_UINT8_UINT8,  /* (a, b, sum) */
    DOT_UINT8_INT8,
    DOT_INT8_UINT8,
    DOT_INT8_INT8,
};

struct self_test_case {
    uint32_t operation, a, b, c, expected;
};

enum { SELF_TEST_CASES = 57 };

extern const struct self_test_case self_test_cases[SELF_TEST_CASES];

#endif
