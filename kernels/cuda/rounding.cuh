/* The floating-point operations of the specification, one output each; the only ones in the device code.
 *
 * Each intrinsic is one IEEE 754 operation, rounded to nearest, half to even; no compiler may fuse it with another.
 *
 *     requantize         saturate(round_half_even(float32(acc) * m) + zero_point)        uint8, int8
 *     scale_accumulator  float32(acc) * m                                                float32
 *     quantize           saturate(round_half_even(x / scale) + zero_point)               uint8, int8
 *     dequantize         float32(q - zero_point) * scale                                 float32
 *     add                a + b                                                           float32
 *     multiply_add       a * b + c, rounded once                                         float32
 *     share              saturate(round_half_even(e * inverse / sum) + zy)               uint8, int8
 */
#ifndef ROUNDING_CUH
#define ROUNDING_CUH

#include "device.cuh"

template <typename Code> struct Range;
template <> struct Range<uint8_t> { enum { LOWEST = 0, HIGHEST = 255 }; };
template <> struct Range<int8_t> { enum { LOWEST = -128, HIGHEST = 127 }; };

/* saturate(round_half_even(v) + zero_point), clamped before it is rounded: the bounds are integers, so the result is
 * the same for every finite v, the conversion to integer cannot overflow, and NaN becomes the lowest code. */
template <typename Code> __device__ inline Code round_saturated(float v, int32_t zero_point)
{
    const float low = __int2float_rn(Range<Code>::LOWEST - zero_point);
    const float high = __int2float_rn(Range<Code>::HIGHEST - zero_point);
    v = v > low ? v : low;
    v = v < high ? v : high;
    return (Code)(__float2int_rn(v) + zero_point);
}

__device__ inline float scale_accumulator(int32_t acc, float m)
{
    return __fmul_rn(__int2float_rn(acc), m);
}

template <typename Code> __device__ inline Code requantize(int32_t acc, float m, int32_t zero_point)
{
    return round_saturated<Code>(scale_accumulator(acc, m), zero_point);
}

template <typename Code> __device__ inline Code quantize(float x, float scale, int32_t zero_point)
{
    return round_saturated<Code>(__fdiv_rn(x, scale), zero_point);
}

template <typename Code> __device__ inline float dequantize(Code q, float scale, int32_t zero_point)
{
    return __fmul_rn(__int2float_rn(q - zero_point), scale);
}

__device__ inline float add(float a, float b)
{
    return __fadd_rn(a, b);
}

/* Rounded once. */
__device__ inline float multiply_add(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}

template <typename Code> __device__ inline Code share(float e, float inverse, float sum, int32_t zy)
{
    return round_saturated<Code>(__fdiv_rn(__fmul_rn(e, inverse), sum), zy);
}

#endif
