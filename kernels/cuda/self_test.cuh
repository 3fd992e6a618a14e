/* The kernel that computes the cases of self_test.h, with the functions of the network's own code. */
#ifndef SELF_TEST_CUH
#define SELF_TEST_CUH

#include "dot4.cuh"
#include "floats.cuh"
#include "rounding.cuh"
#include "self_test.h"

__device__ inline uint32_t self_test_result(const self_test_case &given)
{
    const uint32_t a = given.a, b = given.b, c = given.c;
    const int32_t acc = (int32_t)a, zero_point = (int32_t)c;
    const float x = __uint_as_float(a), y = __uint_as_float(b);
    switch (given.operation) {
    case REQUANTIZE_UINT8: return (uint32_t)requantize<uint8_t>(acc, y, zero_point);
    case REQUANTIZE_INT8: return (uint32_t)requantize<int8_t>(acc, y, zero_point);
    case SCALE: return __float_as_uint(scale_accumulator(acc, y));
    case QUANTIZE_UINT8: return (uint32_t)quantize<uint8_t>(x, y, zero_point);
    case QUANTIZE_INT8: return (uint32_t)quantize<int8_t>(x, y, zero_point);
    case DEQUANTIZE_UINT8: return __float_as_uint(dequantize((uint8_t)a, y, zero_point));
    case ADD: return __float_as_uint(add(x, y));
    case MULTIPLY_ADD: return __float_as_uint(add(multiply(x, y), __uint_as_float(c)));
    case SQUARE_ROOT: return __float_as_uint(__fsqrt_rn(x));
    case EXP: return __float_as_uint(exp_of(x, EXP_BOUND));
    case FUSED: return __float_as_uint(multiply_add(x, y, __uint_as_float(c)));
    case DOT_UINT8_UINT8: return dot4<uint8_t, uint8_t>(a, b, c);
    case DOT_UINT8_INT8: return dot4<uint8_t, int8_t>(a, b, c);
    case DOT_INT8_UINT8: return dot4<int8_t, uint8_t>(a, b, c);
    case DOT_INT8_INT8: return dot4<int8_t, int8_t>(a, b, c);
    default: return ~given.expected;
    }
}

KERNEL self_test(unsigned count, const self_test_case *cases, uint32_t *results)
{
    const size_t i = thread_of_grid();
    if (i < count)
        results[i] = self_test_result(cases[i]);
}

#endif
