/* QGemm as in qgemm.h, sixteen columns at once (lanes.h):
 *
 *     acc[n] = bias[n] + sum_k (a[k] - za) * (b[n][k] - zb[n])                  int32
 *     y[n]   = saturate(round_half_even(float32(acc[n]) * m[n]) + zy)           uint8, int8
 *     y[n]   = float32(acc[n]) * m[n]                                           float32
 *
 * b is packed into panels of LANES columns, in a panel groups of QUAD inputs, filled up with zeros:
 *
 *     b[16 p + lane][4 g + i]  at  ((p * groups + g) * 16 + lane) * 4 + i
 *
 * What belongs to a column (zb, offset, acc, m) is filled up with zeros to whole panels; y is not.  Some instructions
 * want the codes with their highest bit flipped, which adds 128 to the code or takes it away.  So there are two offsets:
 *
 *     offset[0][n] = bias[n] - za * sum_k b[n][k] + depth * za * zb[n]          once, by qgemm_vector_offset
 *     offset[1][n] = offset[0][n] + (uint8: 128, int8: -128) * sum_k b[n][k]
 *     acc[n]       = offset[flipped][n] + sum_k flipped(a[k]) * b[n][k] - zb[n] * sum_k a[k]
 *
 * added modulo 2^32; the sums over k stay inside int32 while depth <= QGEMM_DEPTH_LIMIT, as in qgemm.h.
 */
#ifndef QGEMM_VECTOR_H
#define QGEMM_VECTOR_H

#include <stddef.h>

#include "lanes.h"

#define PANELS(WIDTH) (((WIDTH) + LANES - 1) / LANES)
#define PADDED(WIDTH) (PANELS(WIDTH) * LANES)

/* The next `count` codes, at most QUAD; nothing behind them is read. */
WITH_LITERALS lanes_codes qgemm_vector_codes(const void *a, size_t count, uint32_t flip)
{
    uint32_t codes = 0;
    (void)memcpy(&codes, a, count);
    return lanes_spread(codes ^ flip);
}

/* Adds the products of one group of inputs to a chain of every panel. */
WITH_LITERALS void qgemm_vector_group(size_t panels, size_t groups, lanes_codes codes, const int8_t *b, lanes_sums *sums)
{
    UNROLLED for (size_t p = 0; p < panels; ++p)
        sums[p] = lanes_add_products(sums[p], codes, &b[p * groups * GROUP_BYTES]);
}

/* acc of at most LANES_PANELS panels.  Group g of inputs adds to chain g % chains. */
WITH_LITERALS void qgemm_vector_panels(size_t panels, size_t chains, size_t depth, const uint8_t *a, uint32_t flip,
                                       const int8_t *b, const uint32_t *offset, int32_t *acc)
{
    const size_t groups = (depth + QUAD - 1) / QUAD, whole = depth / QUAD, rounds = whole / chains;
    lanes_sums sums[LANES_SUMS];
    UNROLLED for (size_t i = 0; i < panels * chains; ++i)
        sums[i] = lanes_zero();
    for (size_t g = 0; g < rounds * chains; g += chains)
        UNROLLED for (size_t chain = 0; chain < chains; ++chain)
            qgemm_vector_group(panels, groups, qgemm_vector_codes(&a[(g + chain) * QUAD], QUAD, flip),
                               &b[(g + chain) * GROUP_BYTES], &sums[chain * panels]);
    UNROLLED for (size_t g = rounds * chains; g < groups; ++g)
        qgemm_vector_group(panels, groups, qgemm_vector_codes(&a[g * QUAD], g < whole ? QUAD : depth % QUAD, flip),
                           &b[g * GROUP_BYTES], &sums[(g - rounds * chains) * panels]);
    UNROLLED for (size_t i = panels; i < panels * chains; ++i)
        sums[i % panels] = lanes_add(sums[i % panels], sums[i]);
    UNROLLED for (size_t p = 0; p < panels; ++p)
        lanes_store(sums[p], &offset[p * LANES], &acc[p * LANES]);
}

/* As many chains as there is room for; more than four hardly have a group each. */
WITH_LITERALS size_t qgemm_vector_chains(size_t panels)
{
    return LANES_SUMS / panels < 4 ? LANES_SUMS / panels : 4;
}

/* offset: (2, PADDED(width)) */
WITH_LITERALS void qgemm_vector_sums(size_t depth, size_t width, const uint8_t *a, uint32_t flip, const int8_t *b,
                                     const uint32_t *offset, int32_t *acc)
{
    const size_t panels = PANELS(width), rest = panels % LANES_PANELS;
    const size_t panel = (depth + QUAD - 1) / QUAD * GROUP_BYTES;
    const uint32_t *chosen = &offset[flip ? PADDED(width) : 0];
    NOT_KNOWN(b);
    for (size_t p = 0; p + LANES_PANELS <= panels; p += LANES_PANELS)
        qgemm_vector_panels(LANES_PANELS, qgemm_vector_chains(LANES_PANELS), depth, a, flip, &b[p * panel],
                            &chosen[p * LANES], &acc[p * LANES]);
    if (rest != 0)
        qgemm_vector_panels(rest, qgemm_vector_chains(rest), depth, a, flip, &b[(panels - rest) * panel],
                            &chosen[(panels - rest) * LANES], &acc[(panels - rest) * LANES]);
}

/* A: type of the activations a, SIGNED: whether it is int8.  zb is NULL where all weight zero points are 0. */
#define DEFINE_QGEMM_VECTOR(A, SIGNED)                                                                 \
    WITH_LITERALS void qgemm_vector_accumulate_##A(size_t depth, size_t width, const A##_t *restrict a, \
                                                   const int8_t *restrict b, const int32_t *restrict zb, \
                                                   const uint32_t *restrict offset, int32_t *restrict acc) \
    {                                                                                                  \
        const uint32_t flip = SIGNED == LANES_SIGNED ? 0 : 0x80808080u;                                \
        qgemm_vector_sums(depth, width, (const uint8_t *)a, flip, b, offset, acc);                     \
        int32_t sum_a = 0;                                                                             \
        for (size_t k = 0; zb && k < depth; ++k)                                                       \
            sum_a += a[k];                                                                             \
        for (size_t n = 0; zb && n < PADDED(width); ++n)                                               \
            acc[n] = (int32_t)((uint32_t)acc[n] - (uint32_t)zb[n] * (uint32_t)sum_a);                  \
    }

DEFINE_QGEMM_VECTOR(uint8, 0)
DEFINE_QGEMM_VECTOR(int8, 1)

/* CHANGE: a flipped code of type A is less than the code by so much.  offset: (2, PADDED(width)) */
#define DEFINE_QGEMM_VECTOR_OFFSET(A, CHANGE)                                                          \
    static inline void qgemm_vector_offset_##A(size_t depth, size_t width, const int8_t *b, const int32_t *zb, \
                                               const int32_t *bias, int32_t za, uint32_t *offset)      \
    {                                                                                                  \
        const size_t groups = (depth + QUAD - 1) / QUAD;                                               \
        for (size_t n = 0; n < width; ++n) {                                                           \
            int32_t sum = 0;                                                                           \
            for (size_t k = 0; k < depth; ++k)                                                         \
                sum += b[((n / LANES * groups + k / QUAD) * LANES + n % LANES) * QUAD + k % QUAD];     \
            const uint32_t zero_points = zb ? (uint32_t)depth * (uint32_t)za * (uint32_t)zb[n] : 0;    \
            offset[n] = (uint32_t)bias[n] - (uint32_t)za * (uint32_t)sum + zero_points;                \
            offset[PADDED(width) + n] = offset[n] + (uint32_t)(CHANGE) * (uint32_t)sum;                \
        }                                                                                              \
    }

DEFINE_QGEMM_VECTOR_OFFSET(uint8, 128)
DEFINE_QGEMM_VECTOR_OFFSET(int8, -128)

#define DEFINE_REQUANTIZE_VECTOR(Y, QMIN, QMAX)                                                        \
    WITH_LITERALS void requantize_vector_##Y(size_t width, const int32_t *restrict acc, const float *restrict m, \
                                             int32_t zy, Y##_t *restrict y)                            \
    {                                                                                                  \
        const size_t whole = width / LANES * LANES;                                                    \
        NOT_KNOWN(m);                                                                                \
        for (size_t n = 0; n < whole; n += LANES)                                                      \
            lanes_round(&acc[n], lanes_load_factors(&m[n]), QMIN, QMAX, zy, &y[n]);                                        \
        if (whole < width) {                                                                           \
            Y##_t tail[LANES];                                                                         \
            lanes_round(&acc[whole], lanes_load_factors(&m[whole]), QMIN, QMAX, zy, tail);                                 \
            (void)memcpy(&y[whole], tail, (width - whole) * sizeof *y);                                \
        }                                                                                              \
    }

DEFINE_REQUANTIZE_VECTOR(uint8, 0, 255)
DEFINE_REQUANTIZE_VECTOR(int8, -128, 127)

WITH_LITERALS void scale_accumulator_vector(size_t width, const int32_t *restrict acc, const float *restrict m,
                                            float *restrict y)
{
    const size_t whole = width / LANES * LANES;
    NOT_KNOWN(m);
    for (size_t n = 0; n < whole; n += LANES)
        lanes_scale(&acc[n], &m[n], &y[n]);
    if (whole < width) {
        float tail[LANES];
        lanes_scale(&acc[whole], &m[whole], tail);
        (void)memcpy(&y[whole], tail, (width - whole) * sizeof *y);
    }
}

/* As DEFINE_STAGE of network.h, for accumulators that are filled up to whole panels: the stage's are not.  Nobody times
 * them, so that they are small. */
#define DEFINE_PADDED_ACCUMULATE(NAME, INPUT, DEPTH, WIDTH)                                            \
    static __attribute__((cold)) void NAME##_stage(size_t vectors, const void *inputs, void *outputs)  \
    {                                                                                                  \
        const INPUT *in = inputs;                                                                      \
        int32_t *out = outputs;                                                                        \
        int32_t acc[PADDED(WIDTH)];                                                                    \
        for (size_t v = 0; v < vectors; ++v) {                                                         \
            NAME(&in[v * (size_t)(DEPTH)], acc);                                                       \
            copy_padded(&out[v * (size_t)(WIDTH)], acc, (WIDTH) * sizeof *acc, (WIDTH) * sizeof *acc); \
        }                                                                                              \
    }

#define DEFINE_PADDED_FINISH(NAME, OUTPUT, WIDTH)                                                      \
    static __attribute__((cold)) void NAME##_stage(size_t vectors, const void *inputs, void *outputs)  \
    {                                                                                                  \
        const int32_t *in = inputs;                                                                    \
        OUTPUT *out = outputs;                                                                         \
        int32_t acc[PADDED(WIDTH)];                                                                    \
        for (size_t v = 0; v < vectors; ++v) {                                                         \
            copy_padded(acc, &in[v * (size_t)(WIDTH)], (WIDTH) * sizeof *acc, sizeof acc);             \
            NAME(acc, &out[v * (size_t)(WIDTH)]);                                                      \
        }                                                                                              \
    }

#endif
