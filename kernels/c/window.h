/* The windows of a convolution or pooling over images (channels, height, width), as in ONNX:
 *
 *     window (y, x) reads rows y * stride_y - top + i * dilation_y for i < kernel_height, and columns likewise
 *
 * What lies outside the image is not read: window_span gives the windows whose value i is inside it.  No branch depends
 * on a value of the image.
 */
#ifndef WINDOW_H
#define WINDOW_H

#include <stddef.h>
#include <stdint.h>

struct window { /* 32 bits: the proof sees that the sizes are no addresses */
    uint32_t height, width; /* of the image */
    uint32_t kernel_height, kernel_width;
    uint32_t stride_y, stride_x;
    uint32_t dilation_y, dilation_x;
    uint32_t top, left; /* padding before the image */
    uint32_t rows, columns; /* of windows */
};

struct span {
    size_t first, end;
};

/* The windows, of `count`, whose value at `offset` from their begin lies in `size` values behind `before` of padding. */
static inline struct span window_span(size_t size, size_t before, size_t offset, size_t stride, size_t count)
{
    const size_t first = offset < before ? (before - offset + stride - 1) / stride : 0;
    const size_t end = offset < before + size ? (before + size - offset + stride - 1) / stride : 0;
    struct span span;
    span.end = end < count ? end : count;
    span.first = first < span.end ? first : span.end;
    return span;
}

#endif
