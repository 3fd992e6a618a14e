/* The one rounding of the specification, shared by QuantizeLinear and QGemm:
 *
 *     saturate(round_half_even(v) + zero_point)
 *
 * clamped before it is rounded: the bounds are integers, so the result is the same for every finite v,
 * the conversion to integer cannot overflow, and NaN becomes QMIN.
 */
#ifndef SATURATE_H
#define SATURATE_H

#include <math.h>
#include <stdint.h>

static inline int32_t round_saturated(float v, int32_t qmin, int32_t qmax, int32_t zero_point)
{
    const float low = (float)(qmin - zero_point);
    const float high = (float)(qmax - zero_point);
    v = v > low ? v : low;
    v = v < high ? v : high;
    return (int32_t)rintf(v) + zero_point; /* the default rounding mode: half to even */
}

#endif
