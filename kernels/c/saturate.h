/* The one rounding of the specification, shared by QuantizeLinear and QGemm:
 *
 *     saturate(round_half_even(v) + zero_point)
 *
 * clamped before it is rounded: the bounds are integers, so the result is the same for every finite v,
 * the conversion to integer cannot overflow, and NaN becomes QMIN.
 *
 * No branch may depend on v: let zero_point be NOT_KNOWN.  Where compilers make one of any choice between floats, the
 * clamp is written as what the processor has for it: fmaxnm and fminnm of Armv8-A give the number where v is a quiet NaN, which a product or a
 * quotient is at worst.  (A signaling NaN they make quiet, and the second gives the other bound.)
 */
#ifndef SATURATE_H
#define SATURATE_H

#include <math.h>
#include <stdint.h>

/* From here on compilers do not know the value.  Of literals they know too much: of a clamp to known bounds gcc makes
 * branches on x86; a division by 1 they leave out, and with it what makes a NaN quiet; and of constant tables they put
 * copies where instructions read them, which no proof looks at. */
#define NOT_KNOWN(VALUE) __asm__("" : "+r"(VALUE))

static inline int32_t round_saturated(float v, int32_t qmin, int32_t qmax, int32_t zero_point)
{
    const float low = (float)(qmin - zero_point);
    const float high = (float)(qmax - zero_point);
#if defined(__aarch64__)
    v = __builtin_fminf(__builtin_fmaxf(v, low), high);
#else
    v = v > low ? v : low;
    v = v < high ? v : high;
#endif
    return (int32_t)rintf(v) + zero_point; /* the default rounding mode: half to even */
}

#endif
