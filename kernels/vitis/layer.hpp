/* QGemm (com.microsoft) in the fabric, for Vitis HLS and for any C++ compiler:
 *
 *     acc[n] = bias[n] + sum_k (a[k] - za) * (b[k][n] - zb[n])                  int32
 *     y[n]   = saturate(round_half_even(float32(acc[n]) * m[n]) + zy)           by thresholds, see below
 *
 * There is no floating point: a code is QMIN plus the number of thresholds t[n][0 .. 254] that acc reaches; they come
 * from the host, which has tried them on every accumulator.  They are stored as a binary search meets them, level by
 * level, so that each of its eight steps has a memory of its own and a pipeline finishes an output a cycle:
 *
 *     level[s][n][j] = t[n][(2 j + 1) 2^(7 - s) - 1]          s = 0 .. 7, j = 0 .. 2^s - 1
 *
 * A layer with a float32 output ends with its accumulators; the processor multiplies them by m.
 *
 * Layers are processes side by side, joined by streams of records, one a vector: the elements that somebody still
 * needs, then what the layer before has computed.  A layer passes on what is needed behind it, or everything when all
 * activations are asked for, and appends its own outputs.
 */
#ifndef LAYER_HPP
#define LAYER_HPP

#include <stdint.h>

#include "stream.hpp"

typedef int32_t element; /* a code, an accumulator, or the bits of a constant */
typedef hls::stream<element> elements;

enum { LEVELS = 8 };

/* What the kernel is asked for: the network, or of one of its layers a part, or its constants. */
enum part { WHOLE, ACCUMULATE, FINISH, TABLES };

struct question {
    uint32_t vectors;
    uint32_t everything; /* of the network: all activations, not only those that somebody reads */
    uint32_t part;
    uint32_t layer;      /* of the kernel; of no importance for the network */
    uint32_t given;      /* elements of a vector on their way to the layer that is asked */
    uint32_t made;       /* and behind it; of the constants: all of them */
};

/* The constants of the sums; of each column. */
template <unsigned DEPTH, unsigned WIDTH> struct sums {
    int16_t weights[DEPTH][WIDTH]; /* b - zb */
    int32_t bias[WIDTH];
    int32_t input_zero_point;
};

/* The thresholds of each column, a memory for each step of the search, and the code below all of them. */
template <unsigned WIDTH> struct thresholds {
    int32_t level_0[WIDTH][1], level_1[WIDTH][2], level_2[WIDTH][4], level_3[WIDTH][8], level_4[WIDTH][16],
        level_5[WIDTH][32], level_6[WIDTH][64], level_7[WIDTH][128];
    int32_t lowest;
};

/* One input a cycle, all outputs side by side. */
template <unsigned DEPTH, unsigned WIDTH>
void accumulate(const element (&a)[DEPTH], const sums<DEPTH, WIDTH> &held, int32_t (&acc)[WIDTH])
{
    for (unsigned n = 0; n < WIDTH; ++n) {
#pragma HLS UNROLL
        acc[n] = held.bias[n];
    }
    for (unsigned k = 0; k < DEPTH; ++k) {
#pragma HLS PIPELINE II=1
        const int16_t centred = (int16_t)(a[k] - held.input_zero_point);
        for (unsigned n = 0; n < WIDTH; ++n) {
#pragma HLS UNROLL
            acc[n] += centred * held.weights[k][n];
        }
    }
}

/* QMIN + #{k : t[n][k] <= acc} */
template <unsigned WIDTH> element code_of(const thresholds<WIDTH> &held, unsigned n, int32_t acc)
{
#pragma HLS INLINE
    unsigned reached = held.level_0[n][0] <= acc;
    reached = 2 * reached + (held.level_1[n][reached] <= acc);
    reached = 2 * reached + (held.level_2[n][reached] <= acc);
    reached = 2 * reached + (held.level_3[n][reached] <= acc);
    reached = 2 * reached + (held.level_4[n][reached] <= acc);
    reached = 2 * reached + (held.level_5[n][reached] <= acc);
    reached = 2 * reached + (held.level_6[n][reached] <= acc);
    reached = 2 * reached + (held.level_7[n][reached] <= acc);
    return held.lowest + (element)reached;
}

/* A layer with codes as output has thresholds, one with a float32 output has none and ends with its accumulators. */
template <unsigned WIDTH> element finished(const thresholds<WIDTH> &held, unsigned n, int32_t acc)
{
    return code_of(held, n, acc);
}

struct no_thresholds {};

static inline element finished(const no_thresholds &, unsigned, int32_t acc)
{
    return acc;
}

template <unsigned COLUMNS, unsigned WIDTH> void tell(const int32_t (&values)[WIDTH][COLUMNS], elements &out)
{
    for (unsigned n = 0; n < WIDTH; ++n)
        for (unsigned i = 0; i < COLUMNS; ++i) {
#pragma HLS PIPELINE II=1
            out.write(values[n][i]);
        }
}

template <unsigned WIDTH> void tell(const thresholds<WIDTH> &held, elements &out)
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

template <unsigned DEPTH, unsigned WIDTH> void tell(const sums<DEPTH, WIDTH> &held, elements &out)
{
    for (unsigned k = 0; k < DEPTH; ++k)
        for (unsigned n = 0; n < WIDTH; ++n) {
#pragma HLS PIPELINE II=1
            out.write(held.weights[k][n]);
        }
    for (unsigned n = 0; n < WIDTH; ++n) {
#pragma HLS PIPELINE II=1
        out.write(held.bias[n]);
    }
    out.write(held.input_zero_point);
}

/* From one stream to the next. */
static inline void pass_on(elements &in, elements &out, uint32_t count)
{
    for (uint32_t i = 0; i < count; ++i) {
#pragma HLS PIPELINE II=1
        out.write(in.read());
    }
}

/* LAYER, from the generator: its number, its sizes and constants, and where its inputs stand in a record:
 *
 *     NUMBER, DEPTH, WIDTH                  of the kernel's layers; inputs and outputs
 *     RECORD, AT                            elements of a record that comes in, and where the inputs begin
 *     FULL_RECORD, FULL_AT                  the same when everything is asked for
 *     needed(i)                             whether element i of a record is needed behind this layer
 *     held, rounding                        its constants
 */
template <class LAYER> void take_record(elements &in, elements &out, bool everything, element (&a)[LAYER::DEPTH])
{
    const unsigned count = everything ? LAYER::FULL_RECORD : LAYER::RECORD;
    const unsigned at = everything ? LAYER::FULL_AT : LAYER::AT;
    for (unsigned i = 0; i < count; ++i) {
#pragma HLS PIPELINE II=1
        const element value = in.read();
        if (i >= at && i < at + LAYER::DEPTH)
            a[i - at] = value;
        if (everything || LAYER::needed(i))
            out.write(value);
    }
}

template <unsigned COUNT> void take(elements &in, element (&values)[COUNT])
{
    for (unsigned i = 0; i < COUNT; ++i) {
#pragma HLS PIPELINE II=1
        values[i] = in.read();
    }
}

template <class LAYER> void compute_vector(elements &in, elements &out, const question &asked)
{
    element a[LAYER::DEPTH];
    int32_t acc[LAYER::WIDTH];
#pragma HLS ARRAY_PARTITION variable=acc complete
    if (asked.part == FINISH)
        take(in, acc);
    else {
        if (asked.part == WHOLE)
            take_record<LAYER>(in, out, asked.everything, a);
        else
            take(in, a);
        accumulate(a, LAYER::held, acc);
    }
    for (unsigned n = 0; n < LAYER::WIDTH; ++n) {
#pragma HLS PIPELINE II=1
        out.write(asked.part == ACCUMULATE ? acc[n] : finished(LAYER::rounding, n, acc[n]));
    }
}

/* The process of a layer. */
template <class LAYER> void layer(elements &in, elements &out, question asked)
{
    if (asked.part == WHOLE || asked.layer == LAYER::NUMBER) {
        if (asked.part == TABLES) {
            tell(LAYER::held, out);
            tell(LAYER::rounding, out);
        } else
            for (uint32_t v = 0; v < asked.vectors; ++v)
                compute_vector<LAYER>(in, out, asked);
    } else
        pass_on(in, out, asked.layer > LAYER::NUMBER ? asked.vectors * asked.given : asked.vectors * asked.made);
}

static inline void load(const element *given, elements &out, question asked)
{
    for (uint32_t i = 0; i < asked.vectors * asked.given; ++i) {
#pragma HLS PIPELINE II=1
        out.write(given[i]);
    }
}

static inline void store(elements &in, element *made, question asked)
{
    for (uint32_t i = 0; i < asked.vectors * asked.made; ++i) {
#pragma HLS PIPELINE II=1
        made[i] = in.read();
    }
}

#endif
