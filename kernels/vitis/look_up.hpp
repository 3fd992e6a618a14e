/* Functions of codes by tables: codes are counted from the lowest, which FLIP of LAYER, 128 for int8, makes 0.
 *
 *     y = table[a][b]                      QLinearAdd, QLinearMul (com.microsoft)
 *     y = table[a][columns[i]]             the same with a constant, a column for each of its different values
 *     y = table[input][a]                  QLinearConcat (com.microsoft): at each position the channels of all inputs
 *     y = a                                Concat (ONNX): the same, unchanged
 */
#ifndef LOOK_UP_HPP
#define LOOK_UP_HPP

#include "image_layer.hpp"

template <class LAYER, typename CODE> uint8_t counted(CODE code)
{
#pragma HLS INLINE
    return (uint8_t)code ^ LAYER::FLIP;
}

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
            const uint8_t a = counted<LAYER>(first.read()), b = counted<LAYER>(second.read());
            values.write(table[a][b]);
        }
}

template <class LAYER, typename CODE, unsigned COLUMNS>
void look_up_beside(hls::stream<CODE, (int)LAYER::DEPTH> &codes, elements &values, question asked,
                    const CODE (&table)[256][COLUMNS], const uint8_t (&columns)[LAYER::DEPTH])
{
    if (is_asked<LAYER>(asked) && asked.part == TABLES) {
        tell(table, values);
        tell(columns, values);
    }
    if (!computes<LAYER>(asked))
        return;
    for (uint32_t v = 0; v < asked.vectors; ++v)
        for (unsigned i = 0; i < LAYER::DEPTH; ++i) {
#pragma HLS PIPELINE II=1
            values.write(table[counted<LAYER>(codes.read())][columns[i]]);
        }
}

/* In the place of a table: codes stay. */
struct no_table {};

static inline void tell(const no_table &, elements &)
{
}

template <class LAYER, typename CODE> CODE looked_up(const no_table &, unsigned, CODE code)
{
#pragma HLS INLINE
    return code;
}

template <class LAYER, typename CODE, unsigned INPUTS>
CODE looked_up(const CODE (&table)[INPUTS][256], unsigned input, CODE code)
{
#pragma HLS INLINE
    return table[input][counted<LAYER>(code)];
}

/* The next code of input NUMBER, or of those behind it, in whose channels `c` lies. */
template <class LAYER, unsigned NUMBER, class TABLE, typename CODE, int SIZE>
CODE next_code(const TABLE &table, unsigned, hls::stream<CODE, SIZE> &codes)
{
#pragma HLS INLINE
    return looked_up<LAYER>(table, NUMBER, codes.read());
}

template <class LAYER, unsigned NUMBER, class TABLE, typename CODE, int SIZE, class... OTHERS>
CODE next_code(const TABLE &table, unsigned c, hls::stream<CODE, SIZE> &codes, OTHERS &...others)
{
#pragma HLS INLINE
    const unsigned channels = SIZE / (LAYER::WIDTH / LAYER::CHANNELS_OUT);
    if (c < channels)
        return next_code<LAYER, NUMBER>(table, c, codes);
    return next_code<LAYER, NUMBER + 1>(table, c - channels, others...);
}

template <class LAYER, class TABLE, class... STREAMS>
void look_up_joined(elements &values, question asked, const TABLE &table, STREAMS &...codes)
{
    if (is_asked<LAYER>(asked) && asked.part == TABLES)
        tell(table, values);
    if (!computes<LAYER>(asked))
        return;
    for (uint32_t v = 0; v < asked.vectors; ++v)
        for (unsigned p = 0; p < LAYER::WIDTH / LAYER::CHANNELS_OUT; ++p)
            for (unsigned c = 0; c < LAYER::CHANNELS_OUT; ++c) {
#pragma HLS PIPELINE II=1
                values.write(next_code<LAYER, 0>(table, c, codes...));
            }
}

#endif
