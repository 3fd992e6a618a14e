/* Layers on images: processes around those of an operator, which reads codes and writes elements or rows of sums.
 *
 * An image is a stream position by position, row by row, with all channels of a position in sequence:
 *
 *     element p * channels + c
 *
 * `split` takes records apart: inputs go to the operator, what is needed behind it to the last process, `merge` for
 * elements or `round_rows` for sums, which puts its own outputs behind that.  The stream of inputs has room for all of
 * a vector.  The operator may therefore fall behind while elements that come after its inputs pass.
 *
 * LAYER also states, where it is read: ALONE, the elements of all inputs side by side; TOLD, the constants that the operator's process tells; ROWS of a vector, each of
 * LANES sums; PART, the channels of rows that belong together, the last of which may have less; CHANNELS_OUT.
 */
#ifndef IMAGE_LAYER_HPP
#define IMAGE_LAYER_HPP

#include "layer.hpp"

/* Returns whether the operator of this layer computes for this query. */
template <class LAYER> bool computes(const question &asked)
{
    return is_asked<LAYER>(asked) && (asked.part == WHOLE || asked.part == ACCUMULATE || asked.part == COMPUTE);
}

template <class LAYER> bool is_kept(const question &asked, unsigned i)
{
    return asked.part == WHOLE && (asked.everything || LAYER::needed(i));
}

/* The elements that pass for a vector. */
template <class LAYER> unsigned kept(const question &asked)
{
    return asked.part != WHOLE ? 0u : asked.everything ? LAYER::FULL_RECORD : LAYER::KEPT;
}

/* To each stream the elements of its input, from input NUMBER on; asked alone, inputs stand side by side, this one from
 * `alone` on. */
template <class LAYER, unsigned NUMBER> void give(const question &, unsigned, element, unsigned)
{
}

template <class LAYER, unsigned NUMBER, typename CODE, int SIZE, class... OTHERS>
void give(const question &asked, unsigned i, element value, unsigned alone, hls::stream<CODE, SIZE> &codes,
          OTHERS &...others)
{
#pragma HLS INLINE
    const unsigned at = asked.part == WHOLE ? LAYER::at(NUMBER, asked.everything) : alone;
    if (i >= at && i < at + SIZE)
        codes.write((CODE)value);
    give<LAYER, NUMBER + 1>(asked, i, value, alone + SIZE, others...);
}

/* Inputs may be the same elements. */
template <class LAYER, class... STREAMS>
void split(elements &in, elements &passed, question asked, STREAMS &...codes)
{
    if (!is_asked<LAYER>(asked))
        pass_on(in, passed, passing<LAYER>(asked));
    else if (asked.part == FINISH)
        pass_on(in, passed, asked.vectors * LAYER::WIDTH);
    else if (asked.part != TABLES) {
        const unsigned whole = asked.everything ? LAYER::FULL_RECORD : LAYER::RECORD;
        const unsigned count = asked.part == WHOLE ? whole : LAYER::ALONE;
        for (uint32_t v = 0; v < asked.vectors; ++v)
            for (unsigned i = 0; i < count; ++i) {
#pragma HLS PIPELINE II=1
                const element value = in.read();
                give<LAYER, 0>(asked, i, value, 0, codes...);
                if (is_kept<LAYER>(asked, i))
                    passed.write(value);
            }
    }
}

template <class LAYER> void merge(elements &passed, elements &values, elements &out, question asked)
{
    if (!is_asked<LAYER>(asked))
        pass_on(passed, out, passing<LAYER>(asked));
    else if (asked.part == TABLES)
        pass_on(values, out, LAYER::TOLD);
    else
        for (uint32_t v = 0; v < asked.vectors; ++v) {
            pass_on(passed, out, kept<LAYER>(asked));
            pass_on(values, out, LAYER::WIDTH);
        }
}

/* One sum a cycle, channel by channel of each position. */
template <class LAYER, class ROUNDING, class ROWS>
void round_rows(elements &passed, elements &told, ROWS &rows, elements &out, question asked, const ROUNDING &rounding)
{
    if (!is_asked<LAYER>(asked))
        pass_on(passed, out, passing<LAYER>(asked));
    else if (asked.part == TABLES) {
        pass_on(told, out, LAYER::TOLD);
        tell(rounding, out);
    } else if (asked.part == FINISH)
        for (uint32_t v = 0; v < asked.vectors; ++v)
            for (unsigned i = 0; i < LAYER::WIDTH; ++i) {
#pragma HLS PIPELINE II=1
                out.write(finished(rounding, i % LAYER::CHANNELS_OUT, passed.read()));
            }
    else
        for (uint32_t v = 0; v < asked.vectors; ++v) {
            pass_on(passed, out, kept<LAYER>(asked));
            unsigned n = 0, of_part = 0;
            for (unsigned r = 0; r < LAYER::ROWS; ++r) {
                const row<LAYER::LANES> sums = rows.read();
#pragma HLS ARRAY_PARTITION variable=sums.acc complete
                for (unsigned lane = 0; lane < LAYER::LANES; ++lane) {
#pragma HLS PIPELINE II=1
                    if (of_part + lane < LAYER::PART) {
                        out.write(asked.part == ACCUMULATE ? sums.acc[lane] : finished(rounding, n, sums.acc[lane]));
                        n = n + 1 == LAYER::CHANNELS_OUT ? 0 : n + 1;
                    }
                }
                of_part = of_part + LAYER::LANES < LAYER::PART ? of_part + LAYER::LANES : 0;
            }
        }
}

#endif
