/* Functions of two codes, as QLinearAdd (com.microsoft): y = table[a][b], codes counted from the lowest.
 *
 * FLIP of LAYER is 128 for int8, whose lowest code is -128, else 0.
 */
#ifndef CODE_PAIRS_HPP
#define CODE_PAIRS_HPP

#include "image_layer.hpp"

template <class LAYER, typename CODE>
void look_up_pairs(hls::stream<CODE, (int)LAYER::DEPTH> &first, hls::stream<CODE, (int)LAYER::DEPTH> &second,
                   elements &values, question asked, const CODE (&table)[256][256])
{
    if (is_asked<LAYER>(asked) && asked.part == TABLES)
        tell(table, values);
    if (!computes<LAYER>(asked))
        return;
    for (uint32_t v = 0; v < asked.vectors; ++v)
        for (unsigned i = 0; i < LAYER::DEPTH; ++i) {
#pragma HLS PIPELINE II=1
            const uint8_t a = (uint8_t)first.read() ^ LAYER::FLIP, b = (uint8_t)second.read() ^ LAYER::FLIP;
            values.write(table[a][b]);
        }
}

#endif
