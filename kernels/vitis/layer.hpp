/* QGemm (com.microsoft) in the fabric, for Vitis HLS and for any C++ compiler:
 *
 *     acc[n] = bias[n] + sum_k (a[k] - za) * (b[k][n] - zb[n])                  int32
 *     y[n]   = saturate(round_half_even(float32(acc[n]) * m[n]) + zy)           by thresholds, see below
 *
 * There is no floating point: a code is QMIN plus the number of thresholds t[n][0 .. 254] that acc reaches; they come
 * from the host, which has tried them on every accumulator.  They are stored as a binary search meets them, level by
 * level, so that each of its eight steps has a memory of its own and a pipeline finishes an output a cycle:
 *
 *     level_s[n][j] = t[n][(2 j + 1) 2^(7 - s) - 1]          s = 0 .. 7, j = 0 .. 2^s - 1
 *
 * A layer with a float32 output ends with its accumulators; the processor multiplies them by m.
 *
 * Layers stand side by side, joined by streams of records, one a vector: the elements that somebody still needs, then
 * what the layer before has computed.  A layer passes on what is needed behind it, or everything when all activations
 * are asked for, and appends its own outputs.  It is two processes: `sum_up` takes an element a cycle and adds its
 * products to all sums at once, `finish` rounds a sum a cycle, while the next vector's are added.
 */
#ifndef LAYER_HPP
#define LAYER_HPP

#include <stdint.h>

#include "question.h"
#include "stream.hpp"

typedef int32_t element; /* a code, an accumulator, a constant, or a word of the identity */
typedef hls::stream<element> elements;

/* The constants of the sums, of each column. */
template <typename WEIGHT, unsigned DEPTH, unsigned WIDTH> struct sums {
    WEIGHT weights[DEPTH][WIDTH]; /* b - zb */
    int32_t bias[WIDTH];
    int32_t input_zero_point;
};

/* The thresholds, a memory for each step of the search, of each column or of all together; the code below them. */
template <unsigned TABLES> struct thresholds {
    int32_t level_0[TABLES][1], level_1[TABLES][2], level_2[TABLES][4], level_3[TABLES][8], level_4[TABLES][16],
        level_5[TABLES][32], level_6[TABLES][64], level_7[TABLES][128];
    int32_t lowest;
};

/* The thresholds of a layer whose output is float32: none. */
struct no_thresholds {};

/* The accumulators of a vector. */
template <unsigned WIDTH> struct row {
    int32_t acc[WIDTH];
};

/* A row wider than an element of a stream, 4096 bits in Vitis HLS, is sent in pieces. */
enum : unsigned { WIDEST_PIECE = 128 };

template <unsigned WIDTH> struct wide_rows {
    enum : unsigned { PIECES = (WIDTH + WIDEST_PIECE - 1) / WIDEST_PIECE, PIECE = (WIDTH + PIECES - 1) / PIECES };

    hls::stream<row<PIECE>, 2 * PIECES> pieces; /* of two vectors */

    void write(const row<WIDTH> &made)
    {
#pragma HLS INLINE
        for (unsigned first = 0; first < WIDTH; first += PIECE) {
#pragma HLS UNROLL
            row<PIECE> piece;
#pragma HLS ARRAY_PARTITION variable=piece.acc complete
            for (unsigned n = 0; n < PIECE; ++n) {
#pragma HLS UNROLL
                piece.acc[n] = first + n < WIDTH ? made.acc[first + n] : 0;
            }
            pieces.write(piece);
        }
    }

    row<WIDTH> read()
    {
#pragma HLS INLINE
        row<WIDTH> made;
#pragma HLS ARRAY_PARTITION variable=made.acc complete
        for (unsigned first = 0; first < WIDTH; first += PIECE) {
#pragma HLS UNROLL
            const row<PIECE> piece = pieces.read();
            for (unsigned n = 0; n < PIECE; ++n) {
#pragma HLS UNROLL
                if (first + n < WIDTH)
                    made.acc[first + n] = piece.acc[n];
            }
        }
        return made;
    }
};

/* QMIN + #{k : t[n][k] <= acc} */
template <unsigned TABLES> element finished(const thresholds<TABLES> &held, unsigned n, int32_t acc)
{
#pragma HLS INLINE
    const unsigned t = TABLES == 1 ? 0 : n;
    unsigned reached = held.level_0[t][0] <= acc;
    reached = 2 * reached + (held.level_1[t][reached] <= acc);
    reached = 2 * reached + (held.level_2[t][reached] <= acc);
    reached = 2 * reached + (held.level_3[t][reached] <= acc);
    reached = 2 * reached + (held.level_4[t][reached] <= acc);
    reached = 2 * reached + (held.level_5[t][reached] <= acc);
    reached = 2 * reached + (held.level_6[t][reached] <= acc);
    reached = 2 * reached + (held.level_7[t][reached] <= acc);
    return held.lowest + (element)reached;
}

static inline element finished(const no_thresholds &, unsigned, int32_t acc)
{
#pragma HLS INLINE
    return acc;
}

template <typename VALUE, unsigned COUNT> void tell(const VALUE (&values)[COUNT], elements &out)
{
    for (unsigned i = 0; i < COUNT; ++i) {
#pragma HLS PIPELINE II=1
        out.write(values[i]);
    }
}

template <typename VALUE, unsigned ROWS, unsigned COLUMNS>
void tell(const VALUE (&values)[ROWS][COLUMNS], elements &out)
{
    for (unsigned i = 0; i < ROWS; ++i)
        for (unsigned j = 0; j < COLUMNS; ++j) {
#pragma HLS PIPELINE II=1
            out.write(values[i][j]);
        }
}

template <typename WEIGHT, unsigned DEPTH, unsigned WIDTH>
void tell(const sums<WEIGHT, DEPTH, WIDTH> &held, elements &out)
{
    tell(held.weights, out);
    tell(held.bias, out);
    out.write(held.input_zero_point);
}

template <unsigned TABLES> void tell(const thresholds<TABLES> &held, elements &out)
{
    tell(held.level_0, out);
    tell(held.level_1, out);
    tell(held.level_2, out);
    tell(held.level_3, out);
    tell(held.level_4, out);
    tell(held.level_5, out);
    tell(held.level_6, out);
    tell(held.level_7, out);
    out.write(held.lowest);
}

static inline void tell(const no_thresholds &, elements &)
{
}

/* From one stream to the next. */
static inline void pass_on(elements &in, elements &out, uint32_t count)
{
#ifdef STREAM_MOVES_MANY
    elements::move(in, out, count);
#else
    for (uint32_t i = 0; i < count; ++i) {
#pragma HLS PIPELINE II=1
        out.write(in.read());
    }
#endif
}

/* LAYER, from the generator: its number, its sizes, and where its inputs stand in a record:
 *
 *     NUMBER, DEPTH, WIDTH                  of the kernel's layers; inputs and outputs
 *     RECORD                                elements of a record that comes in
 *     KEPT, needed(i)                       how many of them are needed behind this layer, and whether element i is
 *     FULL_RECORD                           as RECORD when everything is asked for, and is kept
 *     at(k, everything)                     where input k begins in a record, or in one of everything
 */

/* The elements of a vector that are for others, on their way past the layer that is asked. */
template <class LAYER> uint32_t passing(const question &asked)
{
    return asked.vectors * (asked.layer > LAYER::NUMBER ? asked.given_width : asked.made_width);
}

template <class LAYER> bool is_asked(const question &asked)
{
    return asked.part == WHOLE || asked.layer == LAYER::NUMBER;
}

/* One element of a record a cycle; those that are inputs are added to all sums. */
template <class LAYER, typename WEIGHT>
void accumulate(elements &in, elements &passed, const question &asked,
                const sums<WEIGHT, LAYER::DEPTH, LAYER::WIDTH> &held, row<LAYER::WIDTH> &made)
{
    const bool whole = asked.part == WHOLE, full = whole && asked.everything;
    const unsigned count = full ? LAYER::FULL_RECORD : whole ? LAYER::RECORD : LAYER::DEPTH;
    const unsigned at = whole ? LAYER::at(0, full) : 0u;
    int32_t acc[LAYER::WIDTH];
#pragma HLS ARRAY_PARTITION variable=acc complete
    for (unsigned n = 0; n < LAYER::WIDTH; ++n) {
#pragma HLS UNROLL
        acc[n] = held.bias[n];
    }
    for (unsigned i = 0; i < count; ++i) {
#pragma HLS PIPELINE II=1
        const element value = in.read();
        if (i >= at && i < at + LAYER::DEPTH) {
            const int16_t centred = (int16_t)(value - held.input_zero_point);
            for (unsigned n = 0; n < LAYER::WIDTH; ++n) {
#pragma HLS UNROLL
                const int32_t product = centred * held.weights[i - at][n];
#pragma HLS BIND_OP variable=product op=mul impl=dsp
                acc[n] += product;
            }
        }
        if (full || (whole && LAYER::needed(i)))
            passed.write(value);
    }
    for (unsigned n = 0; n < LAYER::WIDTH; ++n) {
#pragma HLS UNROLL
        made.acc[n] = acc[n];
    }
}

/* The first process of a layer.  ROWS is a stream of rows, or wide_rows. */
template <class LAYER, typename WEIGHT, class ROWS>
void sum_up(elements &in, elements &passed, ROWS &rows, question asked,
            const sums<WEIGHT, LAYER::DEPTH, LAYER::WIDTH> &held)
{
    if (!is_asked<LAYER>(asked))
        pass_on(in, passed, passing<LAYER>(asked));
    else if (asked.part == TABLES)
        tell(held, passed);
    else
        for (uint32_t v = 0; v < asked.vectors; ++v) {
            row<LAYER::WIDTH> made;
#pragma HLS ARRAY_PARTITION variable=made.acc complete
            if (asked.part == FINISH)
                for (unsigned n = 0; n < LAYER::WIDTH; ++n) {
#pragma HLS PIPELINE II=1
                    made.acc[n] = in.read();
                }
            else
                accumulate<LAYER>(in, passed, asked, held, made);
            rows.write(made);
        }
}

/* The second process of a layer: one sum a cycle. */
template <class LAYER, class ROUNDING, class ROWS>
void finish(elements &passed, ROWS &rows, elements &out, question asked, const ROUNDING &rounding)
{
    if (!is_asked<LAYER>(asked))
        pass_on(passed, out, passing<LAYER>(asked));
    else if (asked.part == TABLES) {
        pass_on(passed, out, LAYER::DEPTH * LAYER::WIDTH + LAYER::WIDTH + 1);
        tell(rounding, out);
    } else
        for (uint32_t v = 0; v < asked.vectors; ++v) {
            pass_on(passed, out, asked.part != WHOLE ? 0u : asked.everything ? LAYER::FULL_RECORD : LAYER::KEPT);
            const row<LAYER::WIDTH> sums = rows.read();
#pragma HLS ARRAY_PARTITION variable=sums.acc complete
            for (unsigned n = 0; n < LAYER::WIDTH; ++n) {
#pragma HLS PIPELINE II=1
                out.write(asked.part == ACCUMULATE ? sums.acc[n] : finished(rounding, n, sums.acc[n]));
            }
        }
}

static inline void load(const element *given, elements &out, question asked, const element (&identity)[IDENTITY_WORDS])
{
    if (asked.part == IDENTITY)
        for (uint32_t i = 0; i < IDENTITY_WORDS; ++i) {
#pragma HLS PIPELINE II=1
            out.write(identity[i]);
        }
    else
        for (uint32_t i = 0; i < asked.vectors * asked.given_width; ++i) { /* whose reads become bursts */
#pragma HLS PIPELINE II=1
            out.write(given[i]);
        }
}

static inline void store(elements &in, element *made, question asked)
{
    for (uint32_t i = 0; i < asked.vectors * asked.made_width; ++i) {
#pragma HLS PIPELINE II=1
        made[i] = in.read();
    }
}

#endif
