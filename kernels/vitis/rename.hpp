/* Reshape, Flatten and others (ONNX): y = x in the program's order of elements.
 *
 * In a stream the channels of a position stand side by side, and the shapes have other channels: the codes are kept,
 * then read in the order of the output.  LAYER states CHANNELS and CHANNELS_OUT.
 */
#ifndef RENAME_HPP
#define RENAME_HPP

#include "image_layer.hpp"

template <class LAYER, typename CODE>
void reorder(hls::stream<CODE, (int)LAYER::DEPTH> &codes, elements &values, question asked)
{
    enum : unsigned { POSITIONS = LAYER::DEPTH / LAYER::CHANNELS, POSITIONS_OUT = LAYER::DEPTH / LAYER::CHANNELS_OUT };
    if (!computes<LAYER>(asked))
        return;
    CODE held[LAYER::DEPTH];
#pragma HLS BIND_STORAGE variable=held type=ram_2p impl=bram
    for (uint32_t v = 0; v < asked.vectors; ++v) {
        for (unsigned i = 0; i < LAYER::DEPTH; ++i) {
#pragma HLS PIPELINE II=1
            held[i] = codes.read();
        }
        for (unsigned p = 0; p < POSITIONS_OUT; ++p)
            for (unsigned c = 0; c < LAYER::CHANNELS_OUT; ++c) {
#pragma HLS PIPELINE II=1
                const unsigned at = c * POSITIONS_OUT + p; /* in the program's order */
                values.write(held[at % POSITIONS * LAYER::CHANNELS + at / POSITIONS]);
            }
    }
}

#endif
