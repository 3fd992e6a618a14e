/* One kernel a layer, one thread an output: the formulas of the specification, line by line.
 *
 *     acc[n] = bias[n] + sum_k (a[k] - za) * (b[k][n] - zb[n])                  int32
 *
 * b lies as in the model, (DEPTH, WIDTH).  The host refuses a network whose acc, or any part of its sum, can leave int32.
 * What becomes of acc stands in rounding.cuh; the functions and kernels of every layer are generated, with its sizes.
 */
#ifndef LAYERWISE_CUH
#define LAYERWISE_CUH

#include "operators.cuh"

template <unsigned DEPTH, unsigned WIDTH, typename A, typename B>
__device__ inline int32_t sum_of_products(const A *a, const B *b, int32_t zb, int32_t bias, int32_t za, unsigned n)
{
    int32_t acc = bias;
    for (unsigned k = 0; k < DEPTH; ++k)
        acc += (a[k] - za) * (b[k * WIDTH + n] - zb);
    return acc;
}

/* The output of a thread: column n of vector v, the ith of all; there is none behind the last vector. */
template <unsigned WIDTH> struct Output {
    size_t i = thread_of_grid();
    size_t v = i / WIDTH;
    unsigned n = (unsigned)(i % WIDTH);
};

/* Every output by its own thread: output(at) gives it, from `in` to `out`. */
template <unsigned WIDTH, typename Y, typename Value>
__device__ inline void write_outputs(unsigned vectors, Y *out, const Value &value)
{
    const Output<WIDTH> at{};
    if (at.v < vectors)
        out[at.i] = value(at);
}

/* For the proof `part` makes it stop at the sums, or begin with sums that are given. */
template <unsigned DEPTH, unsigned WIDTH, typename A, typename Y, typename Accumulate, typename Finish>
__device__ inline void contract(unsigned vectors, const A *a, Y *y, part part, int32_t *sums,
                                const Accumulate &accumulate, const Finish &finish)
{
    const Output<WIDTH> at{};
    if (at.v >= vectors)
        return;
    const int32_t acc = part == FINISH ? sums[at.i] : accumulate(&a[at.v * DEPTH], at.n);
    if (part == ACCUMULATE)
        sums[at.i] = acc;
    else
        y[at.i] = finish(acc, at.n);
}

#endif
