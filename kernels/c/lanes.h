/* Sixteen columns at once: one interface, the instructions of each processor.
 *
 *     sums[lane] += codes[0] * b[4 lane] + codes[1] * b[4 lane + 1] + ... + codes[3] * b[4 lane + 3]     int32, b int8
 *
 * The codes are the same for all lanes, which is why one layout of b suits every instruction that is used here:
 *
 *     x86 with AVX512-VNNI or AVX-VNNI       VPDPBUSD         codes uint8
 *     Armv8.2 with the dot products          SDOT             codes int8
 *     Armv8.0, or LANES_NO_DOTPROD           SMULL, SADALP    codes int8; two products are added in int32, not in int16
 *     any other, or LANES_PORTABLE           plain C          codes uint8
 *
 * No instruction here saturates a sum (VPDPBUSDS and VPMADDUBSW would): sums wrap around modulo 2^32.  Codes of the
 * other type than LANES_SIGNED says are to be given with their highest bit flipped.
 *
 * The other half is the rounding of the specification (saturate.h); the code is its lowest byte:
 *
 *     v = float32(acc[lane]) * m[lane]
 *     y[lane] = round_half_even(v clamped to QMIN - zy .. QMAX - zy, NaN to the first) + zy
 *
 * LANES_SUMS panels of sums fit into the registers; up to LANES_PANELS of columns share the loads of the codes, and
 * where there are fewer, chains of sums that do not wait for each other take the place of the others.
 */
#ifndef LANES_H
#define LANES_H

#include <stdint.h>
#include <string.h>

#include "saturate.h"

enum { LANES = 16, QUAD = 4, GROUP_BYTES = LANES * QUAD };

/* Of functions that are called with literal sizes: short loops disappear, and tails have a known size. */
#define WITH_LITERALS static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")

#if !defined(LANES_PORTABLE) && defined(__AVX512VNNI__) && defined(__AVX512F__)

#include <immintrin.h>

enum { LANES_SIGNED = 0, LANES_PANELS = 4, LANES_SUMS = 12 };

typedef __m512i lanes_sums, lanes_codes;

static inline lanes_sums lanes_zero(void)
{
    return _mm512_setzero_si512();
}

static inline lanes_codes lanes_spread(uint32_t codes)
{
    return _mm512_set1_epi32((int32_t)codes);
}

static inline lanes_sums lanes_add_products(lanes_sums sums, lanes_codes codes, const int8_t *b)
{
    return _mm512_dpbusd_epi32(sums, codes, _mm512_loadu_si512(b));
}

static inline lanes_sums lanes_add(lanes_sums one, lanes_sums other)
{
    return _mm512_add_epi32(one, other);
}

/* acc = offset + sums */
static inline void lanes_store(lanes_sums sums, const uint32_t *offset, int32_t *acc)
{
    _mm512_storeu_si512(acc, _mm512_add_epi32(sums, _mm512_loadu_si512(offset)));
}

static inline __m512 lanes_product(const int32_t *acc, const float *m)
{
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(acc)), _mm512_loadu_ps(m));
}

static inline void lanes_scale(const int32_t *acc, const float *m, float *y)
{
    _mm512_storeu_ps(y, lanes_product(acc, m));
}

static inline void lanes_round(const int32_t *acc, const float *m, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    const __m512 low = _mm512_set1_ps((float)(qmin - zy)), high = _mm512_set1_ps((float)(qmax - zy));
    const __m512 v = _mm512_min_ps(_mm512_max_ps(lanes_product(acc, m), low), high); /* of NaN and low the second */
    const __m512i codes = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(zy));
    _mm_storeu_si128(y, _mm512_cvtepi32_epi8(codes));
}

#elif !defined(LANES_PORTABLE) && defined(__AVXVNNI__)

#include <immintrin.h>

enum { LANES_SIGNED = 0, LANES_PANELS = 2, LANES_SUMS = 4 };

typedef struct {
    __m256i low, high; /* lanes 0 to 7, 8 to 15 */
} lanes_sums;
typedef __m256i lanes_codes;

static inline __m256i lanes_load(const void *from)
{
    return _mm256_loadu_si256(from);
}

static inline lanes_sums lanes_zero(void)
{
    return (lanes_sums){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

static inline lanes_codes lanes_spread(uint32_t codes)
{
    return _mm256_set1_epi32((int32_t)codes);
}

static inline lanes_sums lanes_add_products(lanes_sums sums, lanes_codes codes, const int8_t *b)
{
    sums.low = _mm256_dpbusd_avx_epi32(sums.low, codes, lanes_load(b));
    sums.high = _mm256_dpbusd_avx_epi32(sums.high, codes, lanes_load(b + GROUP_BYTES / 2));
    return sums;
}

static inline lanes_sums lanes_add(lanes_sums one, lanes_sums other)
{
    return (lanes_sums){_mm256_add_epi32(one.low, other.low), _mm256_add_epi32(one.high, other.high)};
}

static inline void lanes_store(lanes_sums sums, const uint32_t *offset, int32_t *acc)
{
    _mm256_storeu_si256((__m256i *)(void *)acc, _mm256_add_epi32(sums.low, lanes_load(offset)));
    _mm256_storeu_si256((__m256i *)(void *)(acc + 8), _mm256_add_epi32(sums.high, lanes_load(offset + 8)));
}

static inline __m256 lanes_product(const int32_t *acc, const float *m)
{
    return _mm256_mul_ps(_mm256_cvtepi32_ps(lanes_load(acc)), _mm256_loadu_ps(m));
}

static inline void lanes_scale(const int32_t *acc, const float *m, float *y)
{
    _mm256_storeu_ps(y, lanes_product(acc, m));
    _mm256_storeu_ps(y + 8, lanes_product(acc + 8, m + 8));
}

/* Of eight lanes the codes as bits, 0 to 255. */
static inline __m256i lanes_round_half(const int32_t *acc, const float *m, int32_t qmin, int32_t qmax, int32_t zy)
{
    const __m256 low = _mm256_set1_ps((float)(qmin - zy)), high = _mm256_set1_ps((float)(qmax - zy));
    const __m256 v = _mm256_min_ps(_mm256_max_ps(lanes_product(acc, m), low), high); /* of NaN and low the second */
    const __m256i codes = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(zy));
    return _mm256_and_si256(codes, _mm256_set1_epi32(255));
}

static inline void lanes_round(const int32_t *acc, const float *m, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    const __m256i first = lanes_round_half(acc, m, qmin, qmax, zy);
    const __m256i second = lanes_round_half(acc + 8, m + 8, qmin, qmax, zy);
    const __m256i words = _mm256_packus_epi32(first, second); /* lanes 0-3, 8-11, 4-7, 12-15 */
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(y, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}

#elif !defined(LANES_PORTABLE) && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)

#include <arm_neon.h>

typedef int8x16_t lanes_codes;

static inline lanes_codes lanes_spread(uint32_t codes)
{
    return vreinterpretq_s8_u32(vdupq_n_u32(codes));
}

#if defined(__ARM_FEATURE_DOTPROD) && !defined(LANES_NO_DOTPROD)

enum { LANES_SIGNED = 1, LANES_PANELS = 4, LANES_SUMS = 4 };

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

enum { LANES_SIGNED = 1, LANES_PANELS = 2, LANES_SUMS = 2 };

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

static inline lanes_sums lanes_add_products(lanes_sums sums, lanes_codes codes, const int8_t *b)
{
    const int8x16_t one = vld1q_s8(b), two = vld1q_s8(b + 16), three = vld1q_s8(b + 32), four = vld1q_s8(b + 48);
    sums.a = lanes_add_low(sums.a, one, codes);
    sums.b = lanes_add_high(sums.b, one, codes);
    sums.c = lanes_add_low(sums.c, two, codes);
    sums.d = lanes_add_high(sums.d, two, codes);
    sums.e = lanes_add_low(sums.e, three, codes);
    sums.f = lanes_add_high(sums.f, three, codes);
    sums.g = lanes_add_low(sums.g, four, codes);
    sums.h = lanes_add_high(sums.h, four, codes);
    return sums;
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

static inline float32x4_t lanes_product(const int32_t *acc, const float *m)
{
    return vmulq_f32(vcvtq_f32_s32(vld1q_s32(acc)), vld1q_f32(m));
}

static inline void lanes_scale(const int32_t *acc, const float *m, float *y)
{
    for (int lane = 0; lane < LANES; lane += 4)
        vst1q_f32(y + lane, lanes_product(acc + lane, m + lane));
}

/* Of four lanes the codes, in 16 bits. */
static inline int16x4_t lanes_round_quarter(const int32_t *acc, const float *m, int32_t qmin, int32_t qmax, int32_t zy)
{
    const float32x4_t low = vdupq_n_f32((float)(qmin - zy)), high = vdupq_n_f32((float)(qmax - zy));
    const float32x4_t v = vminnmq_f32(vmaxnmq_f32(lanes_product(acc, m), low), high); /* of NaN and low the number */
    return vmovn_s32(vaddq_s32(vcvtnq_s32_f32(v), vdupq_n_s32(zy)));
}

static inline int8x8_t lanes_round_half(const int32_t *acc, const float *m, int32_t qmin, int32_t qmax, int32_t zy)
{
    const int16x4_t first = lanes_round_quarter(acc, m, qmin, qmax, zy);
    return vmovn_s16(vcombine_s16(first, lanes_round_quarter(acc + 4, m + 4, qmin, qmax, zy)));
}

static inline void lanes_round(const int32_t *acc, const float *m, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    const int8x8_t first = lanes_round_half(acc, m, qmin, qmax, zy);
    vst1q_s8(y, vcombine_s8(first, lanes_round_half(acc + 8, m + 8, qmin, qmax, zy)));
}

#else

enum { LANES_SIGNED = 0, LANES_PANELS = 1, LANES_SUMS = 1 };

typedef struct {
    int32_t lane[LANES];
} lanes_sums;
typedef uint32_t lanes_codes; /* the first in the lowest byte */

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
    memcpy(code, &codes, sizeof code);
    for (int lane = 0; lane < LANES; ++lane)
        for (int i = 0; i < QUAD; ++i)
            sums.lane[lane] += code[i] * b[QUAD * lane + i];
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

static inline void lanes_scale(const int32_t *acc, const float *m, float *y)
{
    for (int lane = 0; lane < LANES; ++lane)
        y[lane] = (float)acc[lane] * m[lane];
}

static inline void lanes_round(const int32_t *acc, const float *m, int32_t qmin, int32_t qmax, int32_t zy, void *y)
{
    uint8_t *codes = y;
    NOT_KNOWN(zy);
    for (int lane = 0; lane < LANES; ++lane)
        codes[lane] = (uint8_t)round_saturated((float)acc[lane] * m[lane], qmin, qmax, zy);
}

#endif

#endif
