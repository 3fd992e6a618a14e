/* The windows of a convolution or pooling over images (channels, height, width), one output at a time; as in ONNX:
 *
 *     window (y, x) reads rows y * stride_y - top + i * dilation_y for i < kernel_height, and columns likewise
 *
 * What lies outside the image is not read.  x[i] is value i of a vector; n is the output, (channels, rows, columns).
 */
#ifndef WINDOWS_CUH
#define WINDOWS_CUH

#include "device.cuh"

struct Window {
    uint32_t height, width; /* of the image */
    uint32_t kernel_height, kernel_width;
    uint32_t stride_y, stride_x;
    uint32_t dilation_y, dilation_x;
    uint32_t top, left; /* padding before the image */
    uint32_t rows, columns; /* of windows */
};

/* take(place, k) for the values of window p that lie in the image, row by row: value k of the kernel, and its place. */
template <typename Take> __device__ inline void each_of_window(const Window &w, unsigned p, const Take &take)
{
    const uint32_t top = p / w.columns * w.stride_y - w.top, left = p % w.columns * w.stride_x - w.left;
    for (unsigned i = 0; i < w.kernel_height; ++i)
        for (unsigned j = 0; j < w.kernel_width; ++j) {
            const uint32_t row = top + i * w.dilation_y, column = left + j * w.dilation_x; /* modulo 2^32 */
            if (row < w.height && column < w.width)
                take(row * w.width + column, i * w.kernel_width + j);
        }
}

/* MaxPool and GlobalMaxPool: y = x_1, then for each further value of the window x_k > y ? x_k : y.
 *
 * The chain begins at the lowest value, which every x_1 replaces or equals. */
template <typename T, typename X> __device__ inline T max_pool(const Window &w, const X &x, T lowest, unsigned n)
{
    const unsigned positions = w.rows * w.columns, image = n / positions * w.height * w.width;
    T largest = lowest;
    each_of_window(w, n % positions, [&](unsigned at, unsigned) {
        const T value = x[image + at];
        largest = value > largest ? value : largest;
    });
    return largest;
}

/* AveragePool and GlobalAveragePool, float32: s = 0, then s = s + x for the values of the window; y = s / count[p]. */
template <typename X>
__device__ inline float average_pool(const Window &w, const X &x, const float *count, unsigned n)
{
    const unsigned positions = w.rows * w.columns, image = n / positions * w.height * w.width;
    float sum = 0.0f;
    each_of_window(w, n % positions, [&](unsigned at, unsigned) { sum = __fadd_rn(sum, x[image + at]); });
    return __fdiv_rn(sum, count[n % positions]);
}

/* Conv, float32, of channel m of the output and the window p:
 *
 *     acc     = bias[m] + 0                            a bias of -0 counts as 0
 *     acc     = acc + x[c][row][column] * weights[k][m]        for the `inputs` channels c of the group of m, then rows
 *     y[m][p] = acc                                    and columns of the window: the product is rounded, then the sum
 *
 * A value outside the image is 0 and changes no sum, as none is -0: it is left out.  A group has `share` of the `width`
 * channels. */
template <typename X>
__device__ inline float conv(const Window &w, unsigned inputs, unsigned share, unsigned width, const X &x,
                             const float *weights, const float *bias, unsigned n)
{
    const unsigned positions = w.rows * w.columns, m = n / positions, size = w.kernel_height * w.kernel_width;
    float acc = __fadd_rn(bias[m], 0.0f);
    for (unsigned c = 0; c < inputs; ++c) {
        const unsigned image = (m / share * inputs + c) * w.height * w.width;
        each_of_window(w, n % positions, [&](unsigned at, unsigned k) {
            acc = __fadd_rn(acc, __fmul_rn(x[image + at], weights[(c * size + k) * width + m]));
        });
    }
    return acc;
}

/* ConvTranspose, float32: the same sum over the inputs x[c][p][q] that reach the output through a place (i, j) of the
 * kernel, which is at row p * stride_y - top + i * dilation_y.  The window is that of the Conv that reads y and writes x:
 * its image is y. */
template <typename X>
__device__ inline float conv_transpose(const Window &w, unsigned inputs, unsigned share, unsigned width, const X &x,
                                       const float *weights, const float *bias, unsigned n)
{
    const unsigned image = w.height * w.width, m = n / image, size = w.kernel_height * w.kernel_width;
    const uint32_t row = n % image / w.width + w.top, column = n % w.width + w.left;
    float acc = __fadd_rn(bias[m], 0.0f);
    for (unsigned k = 0; k < inputs * size; ++k) {
        const unsigned i = k % size / w.kernel_width * w.dilation_y, j = k % w.kernel_width * w.dilation_x;
        const unsigned p = (row - i) / w.stride_y, q = (column - j) / w.stride_x;
        if (row < i || column < j || (row - i) % w.stride_y || (column - j) % w.stride_x || p >= w.rows || q >= w.columns)
            continue;
        const unsigned at = ((m / share * inputs + k / size) * w.rows + p) * w.columns + q;
        acc = __fadd_rn(acc, __fmul_rn(x[at], weights[k * width + m]));
    }
    return acc;
}

#endif
