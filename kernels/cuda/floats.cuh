/* Operators of float32, one output at a time: x[i] is value i of a vector, n the output.
 *
 * Each intrinsic is one IEEE 754 operation, rounded to nearest, half to even; so is each operator of elementary.h, as
 * the code is compiled with --fmad=false --prec-div=true --ftz=false and the compiler's output is inspected.
 */
#ifndef FLOATS_CUH
#define FLOATS_CUH

#include "device.cuh"
#include "elementary.h"
#include "window.cuh"

__device__ inline float multiply(float a, float b)
{
    return __fmul_rn(a, b);
}

/* Keeps the first of equal values. */
__device__ inline float larger(float y, float x)
{
    return x > y ? x : y;
}

/* ConvTranspose, of channel m of the output and the place p there:
 *
 *     acc     = bias[m] + 0                                a bias of -0 counts as 0
 *     acc     = acc + x[c][position] * weights[m][k]       for the INPUTS channels c of the group of m, then rows and
 *     y[m][p] = acc                                        columns of the kernel: the product is rounded, then the sum
 *
 * for the inputs that reach p through a place (i, j) of the kernel, which is at row position / COLUMNS * STRIDE_Y - TOP +
 * i * DILATION_Y; others are left out.  The window is that of the Conv that reads y and writes x: its image is y.  A
 * group has SHARE channels of the output. */
template <typename W, unsigned INPUTS, unsigned SHARE, typename X>
__device__ inline float conv_transpose(const X &x, const float *weights, const float *bias, unsigned n)
{
    const unsigned m = n / W::IMAGE, place = n % W::IMAGE;
    float acc = __fadd_rn(bias[m], 0.0f);
    for (unsigned k = 0; k < INPUTS * W::SIZE; ++k) {
        const unsigned i = k % W::SIZE / W::KERNEL_WIDTH, j = k % W::KERNEL_WIDTH;
        unsigned position;
        if (!W::reaches(place, i, j, position))
            continue;
        const unsigned at = (m / SHARE * INPUTS + k / W::SIZE) * W::POSITIONS + position;
        acc = __fadd_rn(acc, __fmul_rn(x[at], weights[m * INPUTS * W::SIZE + k]));
    }
    return acc;
}

#endif
