/* The windows of a convolution or pooling over images (channels, height, width), as in ONNX:
 *
 *     window (y, x) reads rows y * STRIDE_Y - TOP + i * DILATION_Y for i < KERNEL_HEIGHT, and columns likewise
 */
#ifndef WINDOW_CUH
#define WINDOW_CUH

#include "device.cuh"

template <unsigned HEIGHT_, unsigned WIDTH_, unsigned KERNEL_HEIGHT_, unsigned KERNEL_WIDTH_, unsigned STRIDE_Y,
          unsigned STRIDE_X, unsigned DILATION_Y, unsigned DILATION_X, unsigned TOP, unsigned LEFT, unsigned ROWS,
          unsigned COLUMNS>
struct Window {
    enum : unsigned {
        HEIGHT = HEIGHT_,
        WIDTH = WIDTH_,
        IMAGE = HEIGHT_ * WIDTH_,
        KERNEL_HEIGHT = KERNEL_HEIGHT_,
        KERNEL_WIDTH = KERNEL_WIDTH_,
        SIZE = KERNEL_HEIGHT_ * KERNEL_WIDTH_,
        OUTPUT_WIDTH = COLUMNS,
        ROW_STRIDE = STRIDE_Y,
        POSITIONS = ROWS * COLUMNS,
    };

    /* Row and column that value (i, j) of the window at a position has; before the image they are beyond it. */
    static __device__ inline unsigned row(unsigned position, unsigned i)
    {
        return position / COLUMNS * STRIDE_Y + i * DILATION_Y - TOP;
    }

    static __device__ inline unsigned column(unsigned position, unsigned j)
    {
        return position % COLUMNS * STRIDE_X + j * DILATION_X - LEFT;
    }

    /* Returns whether value (i, j) of a window is at this place of the image; computes the position of that window. */
    static __device__ inline bool reaches(unsigned place, unsigned i, unsigned j, unsigned &position)
    {
        const unsigned down = place / WIDTH + TOP, right = place % WIDTH + LEFT;
        const unsigned above = down - i * DILATION_Y, before = right - j * DILATION_X;
        position = above / STRIDE_Y * COLUMNS + before / STRIDE_X;
        return down >= i * DILATION_Y && above % STRIDE_Y == 0 && above / STRIDE_Y < ROWS && right >= j * DILATION_X &&
               before % STRIDE_X == 0 && before / STRIDE_X < COLUMNS;
    }
};

#endif
