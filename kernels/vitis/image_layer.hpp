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
 * LAYER also states, where it is read: TOLD, the constants that the operator's process tells; ROWS of a vector, each of
 * LANES sums; PART, the channels of rows that belong together, the last of which may have less; CHANNELS_OUT.
 */
#ifndef IMAGE_LAYER_HPP
#define IMAGE_LAYER_HPP

#include "layer.hpp"

/* Whether the operator of this layer computes. */
template <class LAYER> bool computes(const question &asked)
{
    return is_asked<LAYER>(asked) && (asked.part == WHOLE || asked.part == ACCUMULATE || asked.part == COMPUTE);
}

/* The elements that enter for a vector; of a part its inputs side by side. */
template <class LAYER> unsigned entering(const question &asked, unsigned inputs)
{
    return asked.part != WHOLE ? inputs * LAYER::DEPTH : asked.everything ? LAYER::FULL_RECORD : LAYER::RECORD;
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

template <class LAYER, typename CODE>
void split(elements &in, elements &passed, hls::stream<CODE, (int)LAYER::DEPTH> &codes, question asked)
{
    if (!is_asked<LAYER>(asked))
        pass_on(in, passed, passing<LAYER>(asked));
    else if (asked.part == FINISH)
        pass_on(in, passed, asked.vectors * LAYER::WIDTH);
    else if (asked.part != TABLES) {
        const bool whole = asked.part == WHOLE;
        const unsigned count = entering<LAYER>(asked, 1);
        const unsigned at = !whole ? 0u : asked.everything ? LAYER::FULL_AT : LAYER::AT;
        for (uint32_t v = 0; v < asked.vectors; ++v)
            for (unsigned i = 0; i < count; ++i) {
#pragma HLS PIPELINE II=1
                const element value = in.read();
                if (i >= at && i < at + LAYER::DEPTH)
                    codes.write((CODE)value);
                if (is_kept<LAYER>(asked, i))
                    passed.write(value);
            }
    }
}

/* Of a layer with two inputs, which may be the same elements. */
template <class LAYER, typename CODE>
void split(elements &in, elements &passed, hls::stream<CODE, (int)LAYER::DEPTH> &first,
           hls::stream<CODE, (int)LAYER::DEPTH> &second, question asked)
{
    if (!is_asked<LAYER>(asked))
        pass_on(in, passed, passing<LAYER>(asked));
    else if (asked.part != TABLES) {
        const bool whole = asked.part == WHOLE;
        const unsigned count = entering<LAYER>(asked, 2);
        const unsigned at = !whole ? 0u : asked.everything ? LAYER::FULL_AT : LAYER::AT;
        const unsigned at_1 = !whole ? LAYER::DEPTH : asked.everything ? LAYER::FULL_AT_1 : LAYER::AT_1;
        for (uint32_t v = 0; v < asked.vectors; ++v)
            for (unsigned i = 0; i < count; ++i) {
#pragma HLS PIPELINE II=1
                const element value = in.read();
                if (i >= at && i < at + LAYER::DEPTH)
                    first.write((CODE)value);
                if (i >= at_1 && i < at_1 + LAYER::DEPTH)
                    second.write((CODE)value);
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
