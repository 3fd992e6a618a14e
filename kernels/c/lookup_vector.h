/* A function of one code as in lookup.h, with the processor's instructions for tables in registers:
 *
 *     y[n] = table[x[n] - QMIN]
 *
 *     x86 with AVX512-VBMI                   VPERMI2B         64 codes at a time
 *     Armv8-A                                TBL, TBX         16 codes at a time
 *     any other, or LANES_PORTABLE           the loop of lookup.h
 *
 * The last codes of a vector are looked up one by one.
 */
#ifndef LOOKUP_VECTOR_H
#define LOOKUP_VECTOR_H

#include "lookup.h"

#if !defined(LANES_PORTABLE) && defined(__AVX512VBMI__)

#include <immintrin.h>

#define LOOKUP_LANES 64

typedef struct {
    __m512i quarter[4];
} lookup_table;

static inline lookup_table lookup_load(const uint8_t *table)
{
    lookup_table loaded;
    for (int i = 0; i < 4; ++i)
        loaded.quarter[i] = _mm512_loadu_si512(table + i * LOOKUP_LANES);
    return loaded;
}

/* flip: 0x80 for int8, of which the lowest code is 0x80 */
static inline void lookup_lanes(lookup_table table, const uint8_t *x, uint8_t flip, uint8_t *y)
{
    const __m512i place = _mm512_xor_si512(_mm512_loadu_si512(x), _mm512_set1_epi8((char)flip));
    const __m512i low = _mm512_permutex2var_epi8(table.quarter[0], place, table.quarter[1]);
    const __m512i high = _mm512_permutex2var_epi8(table.quarter[2], place, table.quarter[3]);
    _mm512_storeu_si512(y, _mm512_mask_blend_epi8(_mm512_movepi8_mask(place), low, high));
}

#elif !defined(LANES_PORTABLE) && defined(__aarch64__) && defined(__ARM_NEON)

#include <arm_neon.h>

#define LOOKUP_LANES 16

typedef struct {
    uint8x16x4_t quarter[4];
} lookup_table;

static inline lookup_table lookup_load(const uint8_t *table)
{
    lookup_table loaded;
    for (int i = 0; i < 4; ++i)
        loaded.quarter[i] = vld1q_u8_x4(table + 64 * i);
    return loaded;
}

/* flip: 0x80 for int8, of which the lowest code is 0x80.  A place beyond a quarter leaves what is there. */
static inline void lookup_lanes(lookup_table table, const uint8_t *x, uint8_t flip, uint8_t *y)
{
    const uint8x16_t place = veorq_u8(vld1q_u8(x), vdupq_n_u8(flip)), step = vdupq_n_u8(64);
    uint8x16_t found = vqtbl4q_u8(table.quarter[0], place), rest = place;
    for (int i = 1; i < 4; ++i) {
        rest = vsubq_u8(rest, step);
        found = vqtbx4q_u8(found, table.quarter[i], rest);
    }
    vst1q_u8(y, found);
}

#endif

#ifdef LOOKUP_LANES

#define DEFINE_LOOKUP_VECTOR(TYPE, FLIP)                                                               \
    static inline void lookup_vector_##TYPE(size_t width, const TYPE##_t *restrict x, const TYPE##_t *restrict table, \
                                            TYPE##_t *restrict y)                                      \
    {                                                                                                  \
        const size_t whole = width / LOOKUP_LANES * LOOKUP_LANES;                                      \
        const lookup_table loaded = lookup_load((const uint8_t *)table);                               \
        for (size_t n = 0; n < whole; n += LOOKUP_LANES)                                               \
            lookup_lanes(loaded, (const uint8_t *)&x[n], FLIP, (uint8_t *)&y[n]);                      \
        lookup_##TYPE(width - whole, &x[whole], table, &y[whole]);                                     \
    }

DEFINE_LOOKUP_VECTOR(uint8, 0)
DEFINE_LOOKUP_VECTOR(int8, 0x80)

#else

#define lookup_vector_uint8 lookup_uint8
#define lookup_vector_int8 lookup_int8

#endif

#endif
