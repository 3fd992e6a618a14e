/* Sixteen columns at once: one interface, the instructions of each processor.
 *
 *     sums[lane] += codes[0] * b[4 lane] + codes[1] * b[4 lane + 1] + ... + codes[3] * b[4 lane + 3]     int32, b int8
 *
 * The codes are the same for all lanes, which is why one layout of b suits every instruction that is used here:
 *
 *     x86 with AVX512-VNNI or AVX-VNNI       VPDPBUSD         codes uint8
 *     x86 with AVX2                          VPMADDWD         codes uint8; codes and b are first made int16
 *     Armv8.2 with the dot products          SDOT             codes int8
 *     Armv8.0, or LANES_NO_DOTPROD           SMULL, SADALP    codes int8; two products are added in int32, not in int16
 *     any other, or LANES_PORTABLE           plain C          codes uint8
 *
 * No instruction here saturates a sum (VPDPBUSDS and VPMADDUBSW would): sums wrap around modulo 2^32.  Codes of the
 * other type than LANES_SIGNED says are to be given with their highest bit flipped.
 *
 * A convolution has it the other way round: each lane has codes of its own, a panel, and the weights are the same for all:
 *
 *     sums[lane] += panel[4 lane] * b[0] + panel[4 lane + 1] * b[1] + ... + panel[4 lane + 3] * b[3]
 *
 * The other half is the rounding of the specification (saturate.h); the code is its lowest byte:
 *
 *     v = float32(acc[lane]) * m[lane]
 *     y[lane] = round_half_even(v clamped to QMIN - zy .. QMAX - zy, NaN to the first) + zy
 *
 * lanes_quantize rounds v = x[lane] / scale, a scale that compilers do not know.
 *
 * LANES_SUMS panels of sums fit into the registers; up to LANES_PANELS of columns share the loads of the codes, and
 * where there are fewer, chains of sums that do not wait for each other take the place of the others.  In a convolution
 * LANES_TILES panels share the loads of LANES_ROWS weights.
 */
#ifndef LANES_H
#define LANES_H

#include <stdint.h>
#include <string.h>

#include "saturate.h"

#if !defined(LANES_PORTABLE) && defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { LANES = 16, QUAD = 4, GROUP_BYTES = LANES * QUAD };

/* For functions that are called with literal sizes: short loops are unrolled, and tails have a known size. */
#define WITH_LITERALS static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")

/* Offsets of the codes of LANES lanes from that of the first: per lane, and per byte where all are near. */
struct lanes_places {
    uint32_t place[LANES];
    uint8_t byte[GROUP_BYTES];
};

/* Places up to here are near: where they are, so many units or bytes may be read, of which some are beyond the last. */
enum { NEAR_UNITS = 64 };

#if !defined(LANES_PORTABLE) && defined(__AVX512VNNI__) && defined(__AVX512F__)

#include <immintrin.h>

enum { LANES_SIGNED = 0, LANES_PANELS = 4, LANES_SUMS = 12, LANES_TILES = 2, LANES_ROWS = 12 };

/* Sums have the type that the instruction has for the compiler: with __m512i gcc keeps two copies of each. */
typedef int32_t lanes_sums __attribute__((vector_size(64)));
typedef __m512i lanes_codes, lanes_panel;

static inline lanes_sums lanes_zero(void)
{
    return (lanes_sums)_mm512_setzero_si512();
}

static inline lanes_codes lanes_spread(uint32_t codes)
{
    return _mm512_set1_epi32((int32_t)codes);
}

static inline lanes_sums lanes_add_products(lanes_sums sums, lanes_codes codes, const int8_t *b)
{
    return (lanes_sums)_mm512_dpbusd_epi32((__m512i)sums, codes, _mm512_loadu_si512(b));
}

static inline lanes_panel lanes_load_panel(const uint8_t *from)
{
    return _mm512_loadu_si512(from);
}

static inline void lanes_store_panel(lanes_panel panel, uint8_t *to)
{
    _mm512_storeu_si512(to, panel);
}

static inline lanes_sums lanes_add_weighted(lanes_sums sums, lanes_panel panel, lanes_codes weights)
{
    return (lanes_sums)_mm512_dpbusd_epi32((__m512i)sums, panel, weights);
}

#define LANES_PICKS_UNITS
/* Four bytes a lane; `span` is a bound of the places. */
static inline lanes_panel lanes_pick_near_units(size_t span, const uint8_t *from, const struct lanes_places *at)
{
    const __m512i places = _mm512_loadu_si512(at->place);
    const __m512i near = _mm512_permutex2var_epi32(_mm512_loadu_si512(from), places, _mm512_loadu_si512(from + 64));
    if (span <= 2 * LANES)
        return near;
    const __m512i far = _mm512_permutex2var_epi32(_mm512_loadu_si512(from + 128), places,
                                                  _mm512_loadu_si512(from + 192));
    return _mm512_mask_blend_epi32(_mm512_test_epi32_mask(places, _mm512_set1_epi32(2 * LANES)), near, far);
}

#if defined(__AVX512VBMI__)
enum { NEAR_BYTES = 128 };

static inline lanes_panel lanes_pick_near_bytes(size_t span, const uint8_t *from, const struct lanes_places *at)
{
    const __m512i places = _mm512_loadu_si512(at->byte);
    if (span <= 64)
        return _mm512_permutexvar_epi8(places, _mm512_loadu_si512(from));
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(from), places, _mm512_loadu_si512(from + 64));
}

#define LANES_PICKS_BYTES
#endif

static inline lanes_sums lanes_add(lanes_sums one, lanes_sums other)
{
    return (lanes_sums)_mm512_add_epi32((__m512i)one, (__m512i)other);
}

/* acc = offset + sums */
static inline void lanes_store(lanes_sums sums, const uint32_t *offset, int32_t *acc)
{
    _mm512_storeu_si512(acc, _mm512_add_epi32((__m512i)sums, _mm512_loadu_si512(offset)));
}

typedef __m512 lanes_factors;

static inline lanes_factors lanes_load_factors(const float *m)
{
    return _mm512_loadu_ps(m);
}

static inline lanes_factors lanes_spread_factor(float m)
{
    return _mm512_set1_ps(m);
}

static inline __m512 lanes_product(const int32_t *acc, lanes_factors m)
{
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(acc)), m);
}

static inline void lanes_scale(const int32_t *acc, const float *m, float *y)
{
    _mm512_storeu_ps(y, lanes_product(acc, lanes_load_factors(m)));
}

static inline void lanes_round_floats(__m512 v, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    const __m512 low = _mm512_set1_ps((float)(qmin - zy)), high = _mm512_set1_ps((float)(qmax - zy));
    v = _mm512_min_ps(_mm512_max_ps(v, low), high); /* of NaN and low the second */
    const __m512i codes = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(zy));
    _mm_storeu_si128(y, _mm512_cvtepi32_epi8(codes));
}

static inline void lanes_round(const int32_t *acc, lanes_factors m, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    lanes_round_floats(lanes_product(acc, m), qmin, qmax, zy, y);
}

static inline void lanes_quantize(const float *x, float scale, int32_t qmin, int32_t qmax, int32_t zero_point, void *q)
{
    lanes_round_floats(_mm512_div_ps(_mm512_loadu_ps(x), _mm512_set1_ps(scale)), qmin, qmax, zero_point, q);
}

#elif !defined(LANES_PORTABLE) && defined(__AVX2__)

#include <immintrin.h>

typedef int32_t lanes_ints __attribute__((vector_size(32))); /* as lanes_sums above */

static inline __m256i lanes_load(const void *from)
{
    return _mm256_loadu_si256(from);
}

static inline lanes_ints lanes_plus(lanes_ints one, lanes_ints other)
{
    return (lanes_ints)_mm256_add_epi32((__m256i)one, (__m256i)other);
}

#if defined(__AVXVNNI__)

enum { LANES_SIGNED = 0, LANES_PANELS = 2, LANES_SUMS = 4, LANES_TILES = 1, LANES_ROWS = 6 };

typedef struct {
    lanes_ints low, high; /* lanes 0 to 7, 8 to 15 */
} lanes_sums;
typedef struct {
    __m256i low, high;
} lanes_panel;
typedef __m256i lanes_codes;

static inline lanes_sums lanes_zero(void)
{
    return (lanes_sums){{0}, {0}};
}

static inline lanes_codes lanes_spread(uint32_t codes)
{
    return _mm256_set1_epi32((int32_t)codes);
}

static inline lanes_ints lanes_dot(lanes_ints sums, __m256i codes, __m256i b)
{
    return (lanes_ints)_mm256_dpbusd_avx_epi32((__m256i)sums, codes, b);
}

static inline lanes_sums lanes_add_products(lanes_sums sums, lanes_codes codes, const int8_t *b)
{
    sums.low = lanes_dot(sums.low, codes, lanes_load(b));
    sums.high = lanes_dot(sums.high, codes, lanes_load(b + GROUP_BYTES / 2));
    return sums;
}

static inline lanes_panel lanes_load_panel(const uint8_t *from)
{
    return (lanes_panel){lanes_load(from), lanes_load(from + GROUP_BYTES / 2)};
}

static inline lanes_sums lanes_add_weighted(lanes_sums sums, lanes_panel panel, lanes_codes weights)
{
    sums.low = lanes_dot(sums.low, panel.low, weights);
    sums.high = lanes_dot(sums.high, panel.high, weights);
    return sums;
}

static inline lanes_sums lanes_add(lanes_sums one, lanes_sums other)
{
    return (lanes_sums){lanes_plus(one.low, other.low), lanes_plus(one.high, other.high)};
}

static inline lanes_sums lanes_whole(lanes_sums sums)
{
    return sums;
}

#else

enum { LANES_SIGNED = 0, LANES_PANELS = 2, LANES_SUMS = 2, LANES_TILES = 1, LANES_ROWS = 2 };

/* Two sums to a lane, of its first two products and of its last; four lanes each. */
typedef struct {
    lanes_ints low, high, c, d;
} lanes_sums;
typedef struct {
    __m128i a, b, c, d;
} lanes_panel;
typedef __m128i lanes_codes;

static inline lanes_sums lanes_zero(void)
{
    return (lanes_sums){{0}, {0}, {0}, {0}};
}

static inline lanes_codes lanes_spread(uint32_t codes)
{
    return _mm_set1_epi32((int32_t)codes);
}

/* Sums of two products of 16 bits, which are 2 * 255 * 128 at most, where VPMADDUBSW would saturate. */
static inline lanes_ints lanes_add_pairs(lanes_ints sums, __m128i codes, __m128i b)
{
    return lanes_plus(sums, (lanes_ints)_mm256_madd_epi16(_mm256_cvtepu8_epi16(codes), _mm256_cvtepi8_epi16(b)));
}

static inline lanes_panel lanes_load_panel(const uint8_t *from)
{
    const __m128i *codes = (const __m128i *)(const void *)from;
    return (lanes_panel){_mm_loadu_si128(codes), _mm_loadu_si128(codes + 1), _mm_loadu_si128(codes + 2),
                         _mm_loadu_si128(codes + 3)};
}

static inline lanes_sums lanes_add_products(lanes_sums sums, lanes_codes codes, const int8_t *b)
{
    const lanes_panel of_lanes = lanes_load_panel((const uint8_t *)b);
    sums.low = lanes_add_pairs(sums.low, codes, of_lanes.a);
    sums.high = lanes_add_pairs(sums.high, codes, of_lanes.b);
    sums.c = lanes_add_pairs(sums.c, codes, of_lanes.c);
    sums.d = lanes_add_pairs(sums.d, codes, of_lanes.d);
    return sums;
}

static inline lanes_sums lanes_add_weighted(lanes_sums sums, lanes_panel panel, lanes_codes weights)
{
    sums.low = lanes_add_pairs(sums.low, panel.a, weights);
    sums.high = lanes_add_pairs(sums.high, panel.b, weights);
    sums.c = lanes_add_pairs(sums.c, panel.c, weights);
    sums.d = lanes_add_pairs(sums.d, panel.d, weights);
    return sums;
}

static inline lanes_sums lanes_add(lanes_sums one, lanes_sums other)
{
    return (lanes_sums){lanes_plus(one.low, other.low), lanes_plus(one.high, other.high), lanes_plus(one.c, other.c),
                        lanes_plus(one.d, other.d)};
}

/* Eight lanes of two sums each. */
static inline lanes_ints lanes_of_pairs(lanes_ints first, lanes_ints second)
{
    const __m256i words = _mm256_hadd_epi32((__m256i)first, (__m256i)second); /* lanes 0-1, 4-5, 2-3, 6-7 */
    return (lanes_ints)_mm256_permute4x64_epi64(words, _MM_SHUFFLE(3, 1, 2, 0));
}

static inline lanes_sums lanes_whole(lanes_sums sums)
{
    sums.low = lanes_of_pairs(sums.low, sums.high);
    sums.high = lanes_of_pairs(sums.c, sums.d);
    return sums;
}

#endif

enum { NEAR_BYTES = 32 };

/* Bytes of 16 lanes: VPSHUFB gives 0 for an index with its highest bit, which the other half of the table serves. */
static inline __m128i lanes_pick_sixteen(__m128i first, __m128i second, const uint8_t *places)
{
    const __m128i byte = _mm_loadu_si128((const __m128i *)(const void *)places);
    return _mm_or_si128(_mm_shuffle_epi8(first, _mm_add_epi8(byte, _mm_set1_epi8(0x70))),
                        _mm_shuffle_epi8(second, _mm_sub_epi8(byte, _mm_set1_epi8(16))));
}

static inline lanes_panel lanes_pick_near_bytes(size_t span, const uint8_t *from, const struct lanes_places *at)
{
    (void)span;
    const __m128i first = _mm_loadu_si128((const __m128i *)(const void *)from);
    const __m128i second = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
    __m128i panel[QUAD];
    UNROLLED for (int i = 0; i < QUAD; ++i)
        panel[i] = lanes_pick_sixteen(first, second, &at->byte[16 * i]);
    return lanes_load_panel((const uint8_t *)panel);
}

#define LANES_PICKS_BYTES

static inline void lanes_store_panel(lanes_panel panel, uint8_t *to)
{
    (void)memcpy(to, &panel, sizeof panel);
}

static inline void lanes_store(lanes_sums sums, const uint32_t *offset, int32_t *acc)
{
    const lanes_sums whole = lanes_whole(sums);
    _mm256_storeu_si256((__m256i *)(void *)acc, _mm256_add_epi32((__m256i)whole.low, lanes_load(offset)));
    _mm256_storeu_si256((__m256i *)(void *)(acc + 8), _mm256_add_epi32((__m256i)whole.high, lanes_load(offset + 8)));
}

typedef struct {
    __m256 low, high;
} lanes_factors;

static inline lanes_factors lanes_load_factors(const float *m)
{
    return (lanes_factors){_mm256_loadu_ps(m), _mm256_loadu_ps(m + 8)};
}

static inline lanes_factors lanes_spread_factor(float m)
{
    return (lanes_factors){_mm256_set1_ps(m), _mm256_set1_ps(m)};
}

static inline __m256 lanes_product(const int32_t *acc, __m256 m)
{
    return _mm256_mul_ps(_mm256_cvtepi32_ps(lanes_load(acc)), m);
}

static inline void lanes_scale(const int32_t *acc, const float *m, float *y)
{
    _mm256_storeu_ps(y, lanes_product(acc, _mm256_loadu_ps(m)));
    _mm256_storeu_ps(y + 8, lanes_product(acc + 8, _mm256_loadu_ps(m + 8)));
}

/* Returns the codes of eight lanes as bits, 0 to 255. */
static inline __m256i lanes_round_half(__m256 v, int32_t qmin, int32_t qmax, int32_t zy)
{
    const __m256 low = _mm256_set1_ps((float)(qmin - zy)), high = _mm256_set1_ps((float)(qmax - zy));
    v = _mm256_min_ps(_mm256_max_ps(v, low), high); /* of NaN and low the second */
    const __m256i codes = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(zy));
    return _mm256_and_si256(codes, _mm256_set1_epi32(255));
}

static inline void lanes_round_floats(lanes_factors v, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    const __m256i first = lanes_round_half(v.low, qmin, qmax, zy);
    const __m256i second = lanes_round_half(v.high, qmin, qmax, zy);
    const __m256i words = _mm256_packus_epi32(first, second); /* lanes 0-3, 8-11, 4-7, 12-15 */
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(y, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}

static inline void lanes_round(const int32_t *acc, lanes_factors m, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    const lanes_factors v = {lanes_product(acc, m.low), lanes_product(acc + 8, m.high)};
    lanes_round_floats(v, qmin, qmax, zy, y);
}

static inline void lanes_quantize(const float *x, float scale, int32_t qmin, int32_t qmax, int32_t zero_point, void *q)
{
    const __m256 each = _mm256_set1_ps(scale);
    const lanes_factors v = {_mm256_div_ps(_mm256_loadu_ps(x), each), _mm256_div_ps(_mm256_loadu_ps(x + 8), each)};
    lanes_round_floats(v, qmin, qmax, zero_point, q);
}

#elif !defined(LANES_PORTABLE) && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)

#include <arm_neon.h>

typedef int8x16_t lanes_codes;
typedef struct {
    int8x16_t a, b, c, d; /* four lanes each */
} lanes_panel;

static inline lanes_codes lanes_spread(uint32_t codes)
{
    return vreinterpretq_s8_u32(vdupq_n_u32(codes));
}

static inline lanes_panel lanes_load_panel(const uint8_t *from)
{
    const int8_t *codes = (const int8_t *)from;
    return (lanes_panel){vld1q_s8(codes), vld1q_s8(codes + 16), vld1q_s8(codes + 32), vld1q_s8(codes + 48)};
}

static inline void lanes_store_panel(lanes_panel panel, uint8_t *to)
{
    int8_t *codes = (int8_t *)to;
    vst1q_s8(codes, panel.a);
    vst1q_s8(codes + 16, panel.b);
    vst1q_s8(codes + 32, panel.c);
    vst1q_s8(codes + 48, panel.d);
}

enum { NEAR_BYTES = 64 };

static inline lanes_panel lanes_pick_near_bytes(size_t span, const uint8_t *from, const struct lanes_places *at)
{
    (void)span;
    const int8_t *codes = (const int8_t *)from;
    const int8x16x4_t near = {{vld1q_s8(codes), vld1q_s8(codes + 16), vld1q_s8(codes + 32), vld1q_s8(codes + 48)}};
    return (lanes_panel){vqtbl4q_s8(near, vld1q_u8(at->byte)), vqtbl4q_s8(near, vld1q_u8(at->byte + 16)),
                         vqtbl4q_s8(near, vld1q_u8(at->byte + 32)), vqtbl4q_s8(near, vld1q_u8(at->byte + 48))};
}

#define LANES_PICKS_BYTES

#if defined(__ARM_FEATURE_DOTPROD) && !defined(LANES_NO_DOTPROD)

enum { LANES_SIGNED = 1, LANES_PANELS = 4, LANES_SUMS = 4, LANES_TILES = 1, LANES_ROWS = 5 };

typedef struct {
    int32x4_t a, b, c, d; /* four lanes each */
} lanes_sums;

static inline lanes_sums lanes_zero(void)
{
    const int32x4_t zero = vdupq_n_s32(0);
    return (lanes_sums){zero, zero, zero, zero};
}

static inline lanes_sums lanes_add_products(lanes_sums sums, lanes_codes codes, const int8_t *b)
{
    sums.a = vdotq_s32(sums.a, vld1q_s8(b), codes);
    sums.b = vdotq_s32(sums.b, vld1q_s8(b + 16), codes);
    sums.c = vdotq_s32(sums.c, vld1q_s8(b + 32), codes);
    sums.d = vdotq_s32(sums.d, vld1q_s8(b + 48), codes);
    return sums;
}

static inline lanes_sums lanes_add_weighted(lanes_sums sums, lanes_panel panel, lanes_codes weights)
{
    sums.a = vdotq_s32(sums.a, panel.a, weights);
    sums.b = vdotq_s32(sums.b, panel.b, weights);
    sums.c = vdotq_s32(sums.c, panel.c, weights);
    sums.d = vdotq_s32(sums.d, panel.d, weights);
    return sums;
}

static inline lanes_sums lanes_add(lanes_sums one, lanes_sums other)
{
    return (lanes_sums){vaddq_s32(one.a, other.a), vaddq_s32(one.b, other.b), vaddq_s32(one.c, other.c),
                        vaddq_s32(one.d, other.d)};
}

static inline lanes_sums lanes_whole(lanes_sums sums)
{
    return sums;
}

#else

enum { LANES_SIGNED = 1, LANES_PANELS = 2, LANES_SUMS = 2, LANES_TILES = 1, LANES_ROWS = 2 };

/* Two sums to a lane, of its first two products and of its last. */
typedef struct {
    int32x4_t a, b, c, d, e, f, g, h;
} lanes_halves;
typedef lanes_halves lanes_sums;

static inline lanes_sums lanes_zero(void)
{
    const int32x4_t zero = vdupq_n_s32(0);
    return (lanes_sums){zero, zero, zero, zero, zero, zero, zero, zero};
}

/* A product is -128 * -128 = 2^14 at most and fits int16. */
static inline int32x4_t lanes_add_low(int32x4_t sum, int8x16_t b, lanes_codes codes)
{
    return vpadalq_s16(sum, vmull_s8(vget_low_s8(b), vget_low_s8(codes)));
}

static inline int32x4_t lanes_add_high(int32x4_t sum, int8x16_t b, lanes_codes codes)
{
    return vpadalq_s16(sum, vmull_high_s8(b, codes));
}

static inline lanes_sums lanes_add_weighted(lanes_sums sums, lanes_panel panel, lanes_codes weights)
{
    sums.a = lanes_add_low(sums.a, panel.a, weights);
    sums.b = lanes_add_high(sums.b, panel.a, weights);
    sums.c = lanes_add_low(sums.c, panel.b, weights);
    sums.d = lanes_add_high(sums.d, panel.b, weights);
    sums.e = lanes_add_low(sums.e, panel.c, weights);
    sums.f = lanes_add_high(sums.f, panel.c, weights);
    sums.g = lanes_add_low(sums.g, panel.d, weights);
    sums.h = lanes_add_high(sums.h, panel.d, weights);
    return sums;
}

static inline lanes_sums lanes_add_products(lanes_sums sums, lanes_codes codes, const int8_t *b)
{
    return lanes_add_weighted(sums, (lanes_panel){vld1q_s8(b), vld1q_s8(b + 16), vld1q_s8(b + 32), vld1q_s8(b + 48)}, codes);
}

static inline lanes_sums lanes_add(lanes_sums one, lanes_sums other)
{
    return (lanes_sums){vaddq_s32(one.a, other.a), vaddq_s32(one.b, other.b), vaddq_s32(one.c, other.c),
                        vaddq_s32(one.d, other.d), vaddq_s32(one.e, other.e), vaddq_s32(one.f, other.f),
                        vaddq_s32(one.g, other.g), vaddq_s32(one.h, other.h)};
}

static inline lanes_sums lanes_whole(lanes_sums sums)
{
    sums.a = vpaddq_s32(sums.a, sums.b);
    sums.b = vpaddq_s32(sums.c, sums.d);
    sums.c = vpaddq_s32(sums.e, sums.f);
    sums.d = vpaddq_s32(sums.g, sums.h);
    return sums;
}

#endif

static inline void lanes_store(lanes_sums sums, const uint32_t *offset, int32_t *acc)
{
    const lanes_sums whole = lanes_whole(sums);
    vst1q_s32(acc, vaddq_s32(whole.a, vreinterpretq_s32_u32(vld1q_u32(offset))));
    vst1q_s32(acc + 4, vaddq_s32(whole.b, vreinterpretq_s32_u32(vld1q_u32(offset + 4))));
    vst1q_s32(acc + 8, vaddq_s32(whole.c, vreinterpretq_s32_u32(vld1q_u32(offset + 8))));
    vst1q_s32(acc + 12, vaddq_s32(whole.d, vreinterpretq_s32_u32(vld1q_u32(offset + 12))));
}

typedef struct {
    float32x4_t a, b, c, d;
} lanes_factors;

static inline lanes_factors lanes_load_factors(const float *m)
{
    return (lanes_factors){vld1q_f32(m), vld1q_f32(m + 4), vld1q_f32(m + 8), vld1q_f32(m + 12)};
}

static inline lanes_factors lanes_spread_factor(float m)
{
    return (lanes_factors){vdupq_n_f32(m), vdupq_n_f32(m), vdupq_n_f32(m), vdupq_n_f32(m)};
}

static inline float32x4_t lanes_product(const int32_t *acc, float32x4_t m)
{
    return vmulq_f32(vcvtq_f32_s32(vld1q_s32(acc)), m);
}

static inline void lanes_scale(const int32_t *acc, const float *m, float *y)
{
    for (int lane = 0; lane < LANES; lane += 4)
        vst1q_f32(y + lane, lanes_product(acc + lane, vld1q_f32(m + lane)));
}

/* Returns the codes of four lanes, in 16 bits. */
static inline int16x4_t lanes_round_quarter(float32x4_t v, int32_t qmin, int32_t qmax, int32_t zy)
{
    const float32x4_t low = vdupq_n_f32((float)(qmin - zy)), high = vdupq_n_f32((float)(qmax - zy));
    v = vminnmq_f32(vmaxnmq_f32(v, low), high); /* of NaN and low the number */
    return vmovn_s32(vaddq_s32(vcvtnq_s32_f32(v), vdupq_n_s32(zy)));
}

static inline void lanes_round_floats(lanes_factors v, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    const int16x4_t a = lanes_round_quarter(v.a, qmin, qmax, zy), b = lanes_round_quarter(v.b, qmin, qmax, zy);
    const int16x4_t c = lanes_round_quarter(v.c, qmin, qmax, zy), d = lanes_round_quarter(v.d, qmin, qmax, zy);
    vst1q_s8(y, vcombine_s8(vmovn_s16(vcombine_s16(a, b)), vmovn_s16(vcombine_s16(c, d))));
}

static inline void lanes_round(const int32_t *acc, lanes_factors m, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    const lanes_factors v = {lanes_product(acc, m.a), lanes_product(acc + 4, m.b), lanes_product(acc + 8, m.c),
                             lanes_product(acc + 12, m.d)};
    lanes_round_floats(v, qmin, qmax, zy, y);
}

static inline void lanes_quantize(const float *x, float scale, int32_t qmin, int32_t qmax, int32_t zero_point, void *q)
{
    const float32x4_t each = vdupq_n_f32(scale);
    const lanes_factors v = {vdivq_f32(vld1q_f32(x), each), vdivq_f32(vld1q_f32(x + 4), each),
                             vdivq_f32(vld1q_f32(x + 8), each), vdivq_f32(vld1q_f32(x + 12), each)};
    lanes_round_floats(v, qmin, qmax, zero_point, q);
}

#else

enum { LANES_SIGNED = 0, LANES_PANELS = 1, LANES_SUMS = 1, LANES_TILES = 1, LANES_ROWS = 1 };

typedef struct {
    int32_t lane[LANES];
} lanes_sums;
typedef uint32_t lanes_codes; /* the first in the lowest byte */
typedef struct {
    uint8_t code[GROUP_BYTES];
} lanes_panel;

static inline lanes_sums lanes_zero(void)
{
    return (lanes_sums){{0}};
}

static inline lanes_codes lanes_spread(uint32_t codes)
{
    return codes;
}

static inline lanes_sums lanes_add_products(lanes_sums sums, lanes_codes codes, const int8_t *b)
{
    uint8_t code[QUAD];
    (void)memcpy(code, &codes, sizeof code);
    for (int lane = 0; lane < LANES; ++lane)
        for (int i = 0; i < QUAD; ++i)
            sums.lane[lane] += code[i] * b[QUAD * lane + i];
    return sums;
}

static inline lanes_panel lanes_load_panel(const uint8_t *from)
{
    lanes_panel panel;
    (void)memcpy(panel.code, from, sizeof panel.code);
    return panel;
}

static inline void lanes_store_panel(lanes_panel panel, uint8_t *to)
{
    (void)memcpy(to, panel.code, sizeof panel.code);
}

static inline lanes_sums lanes_add_weighted(lanes_sums sums, lanes_panel panel, lanes_codes weights)
{
    int8_t b[QUAD];
    (void)memcpy(b, &weights, sizeof b);
    for (int lane = 0; lane < LANES; ++lane)
        for (int i = 0; i < QUAD; ++i)
            sums.lane[lane] = (int32_t)((uint32_t)sums.lane[lane] + (uint32_t)(panel.code[QUAD * lane + i] * b[i]));
    return sums;
}

static inline lanes_sums lanes_add(lanes_sums one, lanes_sums other)
{
    for (int lane = 0; lane < LANES; ++lane)
        one.lane[lane] += other.lane[lane];
    return one;
}

static inline void lanes_store(lanes_sums sums, const uint32_t *offset, int32_t *acc)
{
    for (int lane = 0; lane < LANES; ++lane)
        acc[lane] = (int32_t)(offset[lane] + (uint32_t)sums.lane[lane]);
}

typedef struct {
    float lane[LANES];
} lanes_factors;

static inline lanes_factors lanes_load_factors(const float *m)
{
    lanes_factors factors;
    (void)memcpy(factors.lane, m, sizeof factors.lane);
    return factors;
}

static inline lanes_factors lanes_spread_factor(float m)
{
    lanes_factors factors;
    for (int lane = 0; lane < LANES; ++lane)
        factors.lane[lane] = m;
    return factors;
}

static inline void lanes_scale(const int32_t *acc, const float *m, float *y)
{
    for (int lane = 0; lane < LANES; ++lane)
        y[lane] = (float)acc[lane] * m[lane];
}

static inline void lanes_round(const int32_t *acc, lanes_factors m, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    uint8_t *codes = y;
    NOT_KNOWN(zy);
    for (int lane = 0; lane < LANES; ++lane)
        codes[lane] = (uint8_t)round_saturated((float)acc[lane] * m.lane[lane], qmin, qmax, zy);
}

static inline void lanes_quantize(const float *x, float scale, int32_t qmin, int32_t qmax, int32_t zero_point, void *q)
{
    uint8_t *codes = q;
    for (int lane = 0; lane < LANES; ++lane)
        codes[lane] = (uint8_t)round_saturated(x[lane] / scale, qmin, qmax, zero_point);
}

#endif

/* Four bytes a lane, at from[QUAD * place]; `span` is a bound of the places. */
WITH_LITERALS lanes_panel lanes_pick_units(size_t span, const uint8_t *from, const struct lanes_places *at)
{
#if defined(LANES_PICKS_UNITS)
    if (span <= NEAR_UNITS)
        return lanes_pick_near_units(span, from, at);
#else
    (void)span;
#endif
    uint8_t panel[GROUP_BYTES];
    for (int lane = 0; lane < LANES; ++lane)
        (void)memcpy(&panel[QUAD * lane], &from[QUAD * at->place[lane]], QUAD);
    return lanes_load_panel(panel);
}

/* Four bytes a lane, at from[place], from[place + step], from[place + 2 step] and from[place + 3 step]. */
WITH_LITERALS lanes_panel lanes_pick_bytes(size_t span, size_t step, const uint8_t *from, const struct lanes_places *at)
{
#if defined(LANES_PICKS_BYTES)
    if (span + (QUAD - 1) * step <= NEAR_BYTES)
        return lanes_pick_near_bytes(span + (QUAD - 1) * step, from, at);
#else
    (void)span;
#endif
    uint8_t panel[GROUP_BYTES];
    for (int lane = 0; lane < LANES; ++lane)
        if (step == 1)
            (void)memcpy(&panel[QUAD * lane], &from[at->place[lane]], QUAD);
        else
            UNROLLED for (size_t i = 0; i < QUAD; ++i)
                panel[QUAD * (size_t)lane + i] = from[at->place[lane] + i * step];
    return lanes_load_panel(panel);
}

/* to[4 lane + i] = byte number `lane` of row i */
static inline void lanes_interleave(const uint8_t *const rows[QUAD], uint8_t *to)
{
#if !defined(LANES_PORTABLE) && defined(__SSE2__)
    __m128i row[QUAD];
    UNROLLED for (int i = 0; i < QUAD; ++i)
        row[i] = _mm_loadu_si128((const __m128i *)(const void *)rows[i]);
    const __m128i low[2] = {_mm_unpacklo_epi8(row[0], row[1]), _mm_unpacklo_epi8(row[2], row[3])};
    const __m128i high[2] = {_mm_unpackhi_epi8(row[0], row[1]), _mm_unpackhi_epi8(row[2], row[3])};
    __m128i *units = (__m128i *)(void *)to;
    _mm_storeu_si128(units, _mm_unpacklo_epi16(low[0], low[1]));
    _mm_storeu_si128(units + 1, _mm_unpackhi_epi16(low[0], low[1]));
    _mm_storeu_si128(units + 2, _mm_unpacklo_epi16(high[0], high[1]));
    _mm_storeu_si128(units + 3, _mm_unpackhi_epi16(high[0], high[1]));
#elif !defined(LANES_PORTABLE) && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
    const uint8x16x4_t row = {{vld1q_u8(rows[0]), vld1q_u8(rows[1]), vld1q_u8(rows[2]), vld1q_u8(rows[3])}};
    vst4q_u8(to, row);
#else
    for (int lane = 0; lane < LANES; ++lane)
        for (int i = 0; i < QUAD; ++i)
            to[QUAD * lane + i] = rows[i][lane];
#endif
}

#endif
