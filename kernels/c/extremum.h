/* Max and Min (ONNX), float32: the largest or the smallest operand, from left to right.
 *
 *     y = A, then for each further operand x:  y = x > y ? x : y  (Min: x < y)      of equal values the first stays
 */
#ifndef EXTREMUM_H
#define EXTREMUM_H

static inline float larger_float32(float y, float x)
{
    return x > y ? x : y;
}

static inline float smaller_float32(float y, float x)
{
    return x < y ? x : y;
}

#endif
