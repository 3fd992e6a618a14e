/* Windows over images, behind a line buffer: QLinearConv (ONNX) here, poolings in pool.hpp.
 *
 *     acc[n, p] = bias[n] + sum_k (a[p, k] - za) * (b[k][n] - zb)      int32; outside the image a[p, k] - za is 0
 *
 * The line buffer has the rows that the windows of a row of the output reach.  Before these windows it is filled with
 * what they read, row r in line r modulo LINES; the last rows, which none may read, are taken at the end.
 *
 * A cycle reads a code and multiplies it by the weights of LANES channels, side by side.  The channels of a position go
 * in BLOCKS of LANES, PER_GROUP for each group.  k counts rows of the window, columns, then channels of the group, as
 * the codes lie in a line.  Where a group reads one channel, AT_ONCE groups are a block: their codes are read together.
 *
 * LAYER also states: the image's HEIGHT, COLUMNS and CHANNELS; HEIGHT_OUT and COLUMNS_OUT; of rows and of columns
 * KERNEL, STRIDE, DILATION and BEFORE, the padding in front; LINES.  For sums BLOCKS, LANES, AT_ONCE, PER_GROUP, and
 * GROUP, the channels that a group reads.
 */
#ifndef WINDOW_HPP
#define WINDOW_HPP

#include "image_layer.hpp"

/* The constants of the sums, a row of weights for each k of each block. */
template <typename WEIGHT, unsigned BLOCKS, unsigned TERMS, unsigned LANES> struct kernels {
    WEIGHT weights[BLOCKS * TERMS][LANES]; /* b - zb */
    int32_t bias[BLOCKS][LANES];
    int32_t input_zero_point;
};

template <typename WEIGHT, unsigned BLOCKS, unsigned TERMS, unsigned LANES>
void tell(const kernels<WEIGHT, BLOCKS, TERMS, LANES> &held, elements &out)
{
    tell(held.weights, out);
    tell(held.bias, out);
    out.write(held.input_zero_point);
}

/* The row and the column of value (i, j) of the window at (y, x). */
template <class LAYER> int row_of(unsigned y, unsigned i)
{
    return (int)(y * LAYER::STRIDE_ROWS + i * LAYER::DILATION_ROWS) - (int)LAYER::BEFORE_ROWS;
}

template <class LAYER> int column_of(unsigned x, unsigned j)
{
    return (int)(x * LAYER::STRIDE_COLUMNS + j * LAYER::DILATION_COLUMNS) - (int)LAYER::BEFORE_COLUMNS;
}

template <class LAYER> bool is_inside(int row, int column)
{
    return row >= 0 && row < (int)LAYER::HEIGHT && column >= 0 && column < (int)LAYER::COLUMNS;
}

/* The rows that the windows of row y reach, from the first of the image on. */
template <class LAYER> unsigned reached_rows(unsigned y)
{
    const int behind = row_of<LAYER>(y, LAYER::KERNEL_ROWS - 1) + 1;
    return behind < 0 ? 0u : behind > (int)LAYER::HEIGHT ? (unsigned)LAYER::HEIGHT : (unsigned)behind;
}

template <class LAYER, typename CODE> struct line_buffer {
    CODE lines[LAYER::LINES][LAYER::COLUMNS * LAYER::CHANNELS];
    unsigned filled; /* rows */

    void fill(hls::stream<CODE, (int)LAYER::DEPTH> &codes, unsigned rows)
    {
#pragma HLS INLINE
        for (; filled < rows; ++filled)
            for (unsigned i = 0; i < LAYER::COLUMNS * LAYER::CHANNELS; ++i) {
#pragma HLS PIPELINE II=1
                lines[filled % LAYER::LINES][i] = codes.read();
            }
    }

    CODE at(int row, int column, unsigned channel) const
    {
#pragma HLS INLINE
        return lines[(unsigned)row % LAYER::LINES][(unsigned)column * LAYER::CHANNELS + channel];
    }
};

/* All products of a row of sums, those of one k in a cycle. */
template <class LAYER, typename CODE, typename WEIGHT, unsigned TERMS>
row<LAYER::LANES> sums_at(const line_buffer<LAYER, CODE> &image, unsigned y, unsigned x, unsigned block,
                          const kernels<WEIGHT, LAYER::BLOCKS, TERMS, LAYER::LANES> &held)
{
#pragma HLS INLINE
    const unsigned first = block / LAYER::PER_GROUP * LAYER::AT_ONCE * LAYER::GROUP;
    row<LAYER::LANES> made;
#pragma HLS ARRAY_PARTITION variable=made.acc complete
    for (unsigned lane = 0; lane < LAYER::LANES; ++lane) {
#pragma HLS UNROLL
        made.acc[lane] = held.bias[block][lane];
    }
    for (unsigned i = 0; i < LAYER::KERNEL_ROWS; ++i)
        for (unsigned j = 0; j < LAYER::KERNEL_COLUMNS; ++j)
            for (unsigned c = 0; c < LAYER::GROUP; ++c) {
#pragma HLS PIPELINE II=1
                const int row = row_of<LAYER>(y, i), column = column_of<LAYER>(x, j);
                const unsigned k = ((block * LAYER::KERNEL_ROWS + i) * LAYER::KERNEL_COLUMNS + j) * LAYER::GROUP + c;
                int16_t centred[LAYER::AT_ONCE];
#pragma HLS ARRAY_PARTITION variable=centred complete
                for (unsigned g = 0; g < LAYER::AT_ONCE; ++g) {
#pragma HLS UNROLL
                    centred[g] = 0;
                    if (is_inside<LAYER>(row, column) && first + g < LAYER::CHANNELS)
                        centred[g] = (int16_t)(image.at(row, column, first + g + c) - held.input_zero_point);
                }
                for (unsigned lane = 0; lane < LAYER::LANES; ++lane) {
#pragma HLS UNROLL
                    const int32_t product = centred[lane / (LAYER::LANES / LAYER::AT_ONCE)] * held.weights[k][lane];
#pragma HLS BIND_OP variable=product op=mul impl=dsp
                    made.acc[lane] += product;
                }
            }
    return made;
}

template <class LAYER, typename CODE, typename WEIGHT, unsigned TERMS, class ROWS>
void convolve(hls::stream<CODE, (int)LAYER::DEPTH> &codes, elements &told, ROWS &rows, question asked,
              const kernels<WEIGHT, LAYER::BLOCKS, TERMS, LAYER::LANES> &held)
{
    if (is_asked<LAYER>(asked) && asked.part == TABLES)
        tell(held, told);
    if (!computes<LAYER>(asked))
        return;
    line_buffer<LAYER, CODE> image;
#pragma HLS BIND_STORAGE variable=image.lines type=ram_2p impl=bram
#pragma HLS ARRAY_RESHAPE variable=image.lines dim=2 type=cyclic factor=LAYER::AT_ONCE
    for (uint32_t v = 0; v < asked.vectors; ++v) {
        image.filled = 0;
        for (unsigned y = 0; y < LAYER::HEIGHT_OUT; ++y) {
            image.fill(codes, reached_rows<LAYER>(y));
            for (unsigned x = 0; x < LAYER::COLUMNS_OUT; ++x)
                for (unsigned block = 0; block < LAYER::BLOCKS; ++block)
                    rows.write(sums_at<LAYER>(image, y, x, block, held));
        }
        image.fill(codes, LAYER::HEIGHT);
    }
}

#endif
