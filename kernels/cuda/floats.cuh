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

/* Of equal values the first stays. */
__device__ inline float larger(float y, float x)
{
    return x > y ? x : y;
}

/* Gemm and MatMul: x (rows, DEPTH) * weights (DEPTH, WIDTH)
 *
 *     y[n] = bias[n] + 0                             a bias of -0 counts as 0
 *     y[n] = y[n] + x[k] * weights[k][n]             for k = 0 to DEPTH - 1: the product is rounded, then the sum */
template <unsigned DEPTH, unsigned WIDTH, typename X>
__device__ inline float gemm(const X &x, const float *weights, const float *bias, unsigned n)
{
    const unsigned row = n / WIDTH * DEPTH, column = n % WIDTH;
    float sum = __fadd_rn(bias[column], 0.0f);
    for (unsigned k = 0; k < DEPTH; ++k)
        sum = __fadd_rn(sum, __fmul_rn(x[row + k], weights[k * WIDTH + column]));
    return sum;
}

/* Conv, of channel m of the output and the window p:
 *
 *     acc     = bias[m] + 0                                a bias of -0 counts as 0
 *     acc     = acc + x[c][row][column] * weights[k][m]    for the INPUTS channels c of the group of m, then rows and
 *     y[m][p] = acc                                        columns of the window: the product is rounded, then the sum
 *
 * A value outside the image is 0 and changes no sum, as none is -0: it is left out.  A group has SHARE of the CHANNELS. */
template <typename W, unsigned INPUTS, unsigned SHARE, unsigned CHANNELS, typename X>
__device__ inline float conv(const X &x, const float *weights, const float *bias, unsigned n)
{
    const unsigned m = n / W::POSITIONS;
    float acc = __fadd_rn(bias[m], 0.0f);
    for (unsigned c = 0; c < INPUTS; ++c) {
        const unsigned image = (m / SHARE * INPUTS + c) * W::IMAGE;
        each_inside<W>(n % W::POSITIONS, [&](unsigned k, unsigned place) {
            acc = __fadd_rn(acc, __fmul_rn(x[image + place], weights[(c * W::SIZE + k) * CHANNELS + m]));
        });
    }
    return acc;
}

/* ConvTranspose: the same sum over the inputs x[c][p][q] that reach the output through a place (i, j) of the kernel, which
 * is at row p * STRIDE_Y - TOP + i * DILATION_Y.  The window is that of the Conv that reads y and writes x: its image is
 * y. */
template <typename W, unsigned INPUTS, unsigned SHARE, unsigned CHANNELS, typename X>
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
        acc = __fadd_rn(acc, __fmul_rn(x[at], weights[k * CHANNELS + m]));
    }
    return acc;
}

#endif
