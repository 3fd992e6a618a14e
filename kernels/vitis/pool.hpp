/* Poolings over the windows of an image, behind a line buffer (window.hpp): MaxPool (ONNX) of codes is
 *
 *     y[c, p] = the largest a[p, k] of channel c                       outside the image nothing is chosen
 *
 * A cycle reads one value: row by row of a window, column by column, and there the channels in sequence.  A total is
 * therefore read again after CHANNELS cycles.  With the window's last value it is finished, and leaves.
 *
 * POOLING has the `total` of some values, `first` before any, `with` one more, and `ordered`, the number that ROUNDING
 * takes: beside `row`, that of its table for a position.  LAYER also states INTERVAL, the cycles from a value to the
 * next.
 */
#ifndef POOL_HPP
#define POOL_HPP

#include "window.hpp"

struct maximum {
    typedef element total;

    static total first()
    {
        return INT32_MIN;
    }

    template <typename CODE> total with(total largest, CODE code) const
    {
#pragma HLS INLINE
        return code > largest ? code : largest;
    }

    static element ordered(total largest)
    {
        return largest;
    }

    static unsigned row(unsigned)
    {
        return 0;
    }
};

static inline void tell(const maximum &, elements &)
{
}

template <class LAYER, typename CODE, class POOLING, class ROUNDING>
void pool(hls::stream<CODE, (int)LAYER::DEPTH> &codes, elements &values, question asked, const POOLING &pooling,
          const ROUNDING &rounding)
{
    if (is_asked<LAYER>(asked) && asked.part == TABLES) {
        tell(pooling, values);
        tell(rounding, values);
    }
    if (!computes<LAYER>(asked))
        return;
    line_buffer<LAYER, CODE> image;
#pragma HLS BIND_STORAGE variable=image.lines type=ram_2p impl=bram
    typename POOLING::total totals[LAYER::CHANNELS];
#pragma HLS BIND_STORAGE variable=totals type=ram_2p impl=lutram
    for (uint32_t v = 0; v < asked.vectors; ++v) {
        image.filled = 0;
        for (unsigned y = 0; y < LAYER::HEIGHT_OUT; ++y) {
            image.fill(codes, reached_rows<LAYER>(y));
            for (unsigned x = 0; x < LAYER::COLUMNS_OUT; ++x)
                for (unsigned i = 0; i < LAYER::KERNEL_ROWS; ++i)
                    for (unsigned j = 0; j < LAYER::KERNEL_COLUMNS; ++j)
                        for (unsigned c = 0; c < LAYER::CHANNELS; ++c) {
#pragma HLS PIPELINE II=LAYER::INTERVAL
#pragma HLS DEPENDENCE variable=totals type=inter direction=RAW distance=LAYER::CHANNELS dependent=true
                            const int row = row_of<LAYER>(y, i), column = column_of<LAYER>(x, j);
                            typename POOLING::total all = i == 0 && j == 0 ? POOLING::first() : totals[c];
                            if (is_inside<LAYER>(row, column))
                                all = pooling.with(all, image.at(row, column, c));
                            totals[c] = all;
                            if (i == LAYER::KERNEL_ROWS - 1 && j == LAYER::KERNEL_COLUMNS - 1)
                                values.write(finished(rounding, pooling.row(y * LAYER::COLUMNS_OUT + x),
                                                      pooling.ordered(all)));
                        }
        }
        image.fill(codes, LAYER::HEIGHT);
    }
}

#endif
