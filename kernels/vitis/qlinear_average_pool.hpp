/* QLinearAveragePool (com.microsoft) without floating point, for the loops of pool.hpp:
 *
 *     s[c, p] = sum_k float32((a[p, k] - za) * sa), each addition rounded to float32       by rounded_sum.h
 *     y[c, p] = saturate(round_half_even(float32(float32(float32(s / count[p]) / sy) + zy)))
 *
 * y rises with s: the thresholds are those of s as ordered numbers, a table for each number of values of a window.
 */
#ifndef QLINEAR_AVERAGE_POOL_HPP
#define QLINEAR_AVERAGE_POOL_HPP

#include "pool.hpp"
#include "rounded_sum.h"
#include "thresholds.h"

template <unsigned POSITIONS> struct mean {
    typedef int64_t total;

    int64_t terms[256];       /* float32((a - za) * sa), a by its bits, in units of 2^exponent */
    uint16_t rows[POSITIONS]; /* of the thresholds */
    int32_t exponent;

    static total first()
    {
        return 0;
    }

    template <typename CODE> total with(total sum, CODE code) const
    {
#pragma HLS INLINE
        return rounded_sum(sum + terms[(uint8_t)code]);
    }

    element ordered(total sum) const
    {
#pragma HLS INLINE
        return ordered_float(sum_bits(sum, exponent));
    }

    unsigned row(unsigned position) const
    {
#pragma HLS INLINE
        return rows[position];
    }
};

template <unsigned POSITIONS> void tell(const mean<POSITIONS> &held, elements &out)
{
    for (unsigned i = 0; i < 512; ++i) { /* a term is two elements, the lower one first */
#pragma HLS PIPELINE II=1
        out.write((element)(held.terms[i / 2] >> 32 * (i % 2)));
    }
    tell(held.rows, out);
    out.write(held.exponent);
}

#endif
