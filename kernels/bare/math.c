#include "math.h"

#ifndef FPV5

/* From 2^23 on every float is whole.  Below, the sum with 2^23 is rounded to a whole number, half to even, by the
 * addition itself; the sign of a zero is that of x.  `volatile` keeps the compiler from taking the sum apart. */
float rintf(float x)
{
    const float magnitude = __builtin_fabsf(x);
    if (!(magnitude < 8388608.0f))
        return x + 0.0f; /* quiets a signalling NaN */
    volatile const float sum = magnitude + 8388608.0f;
    return __builtin_copysignf(sum - 8388608.0f, x);
}

#endif
