/* Vectors of LANES samples.  A group holds four codes of each sample: uint8 (LANES, 4).
 *
 *     dot(acc, factor(group), weights(word))   acc[lane] + sum_j (group[lane][j] - SHIFT) * word[j]              int32
 *     least_of_lanes(group)                    four codes, each the least of its byte in all lanes
 *     requantize(acc, m)                       group[lane][j] = code of acc[j][lane] - START, 0 to 255:
 *                                              saturate(round_half_even(float32(acc[j][lane] - START) * m[j]))
 *
 * requantize is for |sum| < 2^23 and m < 2^8.  Where START is the bits of the float32 2^23, the bits START + sum are
 * the float32 2^23 + sum if sum >= 0 (its unit in the last place is 1), otherwise 2^23 - |sum| / 2.
 * fma(that, m, -2^23 m) rounds once, as float32(sum) * m does: float32(sum) and 2^23 m are exact.  If sum < 0, both are
 * at most 0: code 0.
 *
 * A word is four int8 weights.  SHIFT is 128 where the processor multiplies int8 by int8 only, and 0 elsewhere.
 * No instruction here saturates a sum of products (VPMADDUBSW and VPDPBUSDS would): sums wrap around modulo 2^32.
 *
 *     x86 with AVX512-VNNI     VPDPBUSD
 *     x86 with AVX2            VPMADDWD    bytes 0 and 2, then bytes 1 and 3, as int16: 2 * 255 * 128 < 2^31
 *     Armv8.2, dot products    SDOT
 *     Armv8.0                  SMULL, SADDLP: two products are added in int32, not in int16
 *     any other                the vector types of GCC and Clang, if DECIDE_PORTABLE on these as well
 */
#ifndef DECIDE_LANES_H
#define DECIDE_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "groups are words of a little-endian processor"
#endif

#if !defined(DECIDE_PORTABLE) && defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define DECIDE_AVX512
#define DECIDE_KERNEL "AVX512-VNNI"
enum { LANES = 16, SHIFT = 0, START = 0x4b000000 };
#elif !defined(DECIDE_PORTABLE) && defined(__AVX2__)
#define DECIDE_AVX2
#define DECIDE_KERNEL "AVX2"
enum { LANES = 8, SHIFT = 0, START = 0 }; /* fma needs a register more: slower */
#elif !defined(DECIDE_PORTABLE) && defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define DECIDE_NEON
#define DECIDE_KERNEL "NEON dot product"
enum { LANES = 4, SHIFT = 128, START = 0x4b000000 };
#elif !defined(DECIDE_PORTABLE) && defined(__aarch64__)
#define DECIDE_NEON
#define DECIDE_KERNEL "NEON"
enum { LANES = 4, SHIFT = 128, START = 0x4b000000 };
#else
#define DECIDE_KERNEL "portable"
enum { LANES = 4, SHIFT = 0, START = 0 };
#endif

#if defined(DECIDE_AVX512) || defined(DECIDE_AVX2)
#include <immintrin.h>
#elif defined(DECIDE_NEON)
#include <arm_neon.h>
#endif

enum { GROUP = 4, GROUP_BYTES = GROUP * LANES };

typedef int32_t Integers __attribute__((vector_size(4 * LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef uint8_t Group __attribute__((vector_size(4 * LANES)));
typedef int16_t LaneShorts __attribute__((vector_size(2 * LANES)));
typedef uint8_t LaneBytes __attribute__((vector_size(LANES)));

static inline Integers same(int32_t value)
{
    return value - (Integers){0};
}

static inline Floats same_float(float value)
{
    return value - (Floats){0};
}

static inline Floats select_float(Integers mask, Floats yes, Floats no)
{
    return (Floats)((mask & (Integers)yes) | (~mask & (Integers)no));
}

#define DEFINE_LOAD(NAME, VECTOR, ELEMENT)           \
    static inline VECTOR NAME(const ELEMENT *from)   \
    {                                                \
        VECTOR vector;                               \
        memcpy(&vector, from, sizeof vector);        \
        return vector;                               \
    }

DEFINE_LOAD(load_integers, Integers, int32_t)
DEFINE_LOAD(load_floats, Floats, float)
DEFINE_LOAD(load_group, Group, uint8_t)
DEFINE_LOAD(load_lane_shorts, LaneShorts, int16_t)

static inline Integers load_shorts(const int16_t *from)
{
    return __builtin_convertvector(load_lane_shorts(from), Integers);
}

static inline void store_integers(int32_t *to, Integers integers)
{
    memcpy(to, &integers, sizeof integers);
}

static inline void store_group(uint8_t *to, Group group)
{
    memcpy(to, &group, sizeof group);
}

/* The lowest byte of each lane. */
static inline void store_bytes(uint8_t *to, Integers integers)
{
    const LaneBytes bytes = __builtin_convertvector(integers, LaneBytes);
    memcpy(to, &bytes, sizeof bytes);
}

static inline Floats scaled(Integers acc, Floats m)
{
    return __builtin_convertvector(acc, Floats) * m;
}

static inline Floats minus_start(Floats m)
{
    return m * -8388608.0f;
}

/* Half to even: the sum has the unit 1 in its last place, |v| <= 2^22. */
static inline Floats rounded(Floats v)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23 */
    return (v + magic) - magic;
}

/* Clamped before it is rounded, as in kernels/c/saturate.h: low and high are integers, |low|, |high| < 2^22. */
static inline Integers round_clamped(Floats v, float low, float high)
{
    v = select_float(v > low, v, same_float(low));
    v = select_float(v < high, v, same_float(high));
    return __builtin_convertvector(rounded(v), Integers);
}

#if defined(DECIDE_AVX512)

#define WIDE(NAME) _mm512_##NAME
#define REPEAT _mm512_broadcast_i32x4
typedef __m512i Wide, Factor, Weights;

static inline Factor factor(Group group)
{
    return (__m512i)group;
}

static inline Weights weights(int32_t word)
{
    return _mm512_set1_epi32(word);
}

static inline Integers dot(Integers acc, Factor a, Weights w)
{
    return (Integers)_mm512_dpbusd_epi32((__m512i)acc, a, w);
}

static inline __m256i least_of_halves(Group a)
{
    return _mm256_min_epu8(_mm512_castsi512_si256((__m512i)a), _mm512_extracti64x4_epi64((__m512i)a, 1));
}

static inline __m512i round_one(Integers acc, Floats m)
{
    return _mm512_cvtps_epi32(_mm512_fmadd_ps((__m512)acc, (__m512)m, (__m512)minus_start(m)));
}

#elif defined(DECIDE_AVX2)

#define WIDE(NAME) _mm256_##NAME
#define REPEAT _mm256_broadcastsi128_si256
typedef __m256i Wide;
typedef struct {
    __m256i even, odd; /* int16 */
} Factor, Weights;

static inline Factor factor(Group group)
{
    return (Factor){_mm256_and_si256((__m256i)group, _mm256_set1_epi16(255)), _mm256_srli_epi16((__m256i)group, 8)};
}

static inline Weights weights(int32_t word)
{
    const __m256i bytes = _mm256_set1_epi32(word);
    return (Weights){_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), _mm256_srai_epi16(bytes, 8)};
}

static inline Integers dot(Integers acc, Factor a, Weights w)
{
    const __m256i sum = _mm256_add_epi32((__m256i)acc, _mm256_madd_epi16(a.even, w.even));
    return (Integers)_mm256_add_epi32(sum, _mm256_madd_epi16(a.odd, w.odd));
}

static inline __m256i least_of_halves(Group a)
{
    return (__m256i)a;
}

static inline __m256i round_one(Integers acc, Floats m)
{
    return _mm256_cvtps_epi32((__m256)scaled(acc, m));
}

#elif defined(DECIDE_NEON)

typedef int8x16_t Factor, Weights;

static inline Factor factor(Group group)
{
    return vreinterpretq_s8_u8(veorq_u8((uint8x16_t)group, vdupq_n_u8(SHIFT)));
}

static inline Weights weights(int32_t word)
{
    return vreinterpretq_s8_s32(vdupq_n_s32(word));
}

static inline Integers dot(Integers acc, Factor a, Weights w)
{
#if defined(__ARM_FEATURE_DOTPROD)
    return (Integers)vdotq_s32((int32x4_t)acc, a, w);
#else
    const int32x4_t first = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(w)));
    const int32x4_t second = vpaddlq_s16(vmull_s8(vget_high_s8(a), vget_high_s8(w)));
    return (Integers)vaddq_s32((int32x4_t)acc, vpaddq_s32(first, second));
#endif
}

static inline Group least(Group a, Group b)
{
    return (Group)vminq_u8((uint8x16_t)a, (uint8x16_t)b);
}

static inline Group greatest(Group a, Group b)
{
    return (Group)vmaxq_u8((uint8x16_t)a, (uint8x16_t)b);
}

static inline uint32_t least_of_lanes(Group a)
{
    const uint8x16_t two = vminq_u8((uint8x16_t)a, vextq_u8((uint8x16_t)a, (uint8x16_t)a, 8));
    return vgetq_lane_u32(vreinterpretq_u32_u8(vminq_u8(two, vextq_u8(two, two, 4))), 0);
}

static inline uint16x4_t round_one(Integers acc, Floats m)
{
    return vqmovun_s32(vcvtnq_s32_f32(vfmaq_f32((float32x4_t)minus_start(m), (float32x4_t)acc, (float32x4_t)m)));
}

static inline Group requantize(const Integers acc[GROUP], const Floats m[GROUP])
{
    const uint8x8_t first = vqmovn_u16(vcombine_u16(round_one(acc[0], m[0]), round_one(acc[1], m[1])));
    const uint8x8_t second = vqmovn_u16(vcombine_u16(round_one(acc[2], m[2]), round_one(acc[3], m[3])));
    const uint8x16_t order = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return (Group)vqtbl1q_u8(vcombine_u8(first, second), order);
}

#else

typedef int16_t Shorts __attribute__((vector_size(4 * LANES)));

typedef struct {
    Shorts even, odd;
} Factor, Weights;

static inline Factor factor(Group group)
{
    return (Factor){(Shorts)((Words)group & 0x00ff00ff), (Shorts)((Words)group >> 8 & 0x00ff00ff)};
}

static inline Weights weights(int32_t word)
{
    const Shorts bytes = (Shorts)same(word);
    return (Weights){(Shorts)((Words)bytes << 8 & 0xff00ff00) >> 8, bytes >> 8};
}

/* Both halves of each lane. */
static inline Integers add_halves(Shorts products)
{
    return ((Integers)((Words)products << 16) >> 16) + ((Integers)products >> 16);
}

static inline Integers dot(Integers acc, Factor a, Weights w)
{
    return acc + add_halves(a.even * w.even) + add_halves(a.odd * w.odd); /* 255 * 128 < 2^15 */
}

static inline Group least(Group a, Group b)
{
    const Group mask = (Group)(a < b);
    return (a & mask) | (b & ~mask);
}

static inline Group greatest(Group a, Group b)
{
    const Group mask = (Group)(a > b);
    return (a & mask) | (b & ~mask);
}

static inline uint32_t least_of_lanes(Group a)
{
    uint8_t bytes[GROUP_BYTES];
    uint32_t word;
    store_group(bytes, a);
    for (int b = GROUP; b < GROUP_BYTES; ++b)
        bytes[b % GROUP] = bytes[b] < bytes[b % GROUP] ? bytes[b] : bytes[b % GROUP];
    memcpy(&word, bytes, sizeof word);
    return word;
}

static inline Group requantize(const Integers acc[GROUP], const Floats m[GROUP])
{
    Integers codes = same(0);
    for (int j = 0; j < GROUP; ++j)
        codes |= round_clamped(scaled(acc[j], m[j]), 0.0f, 255.0f) << (8 * j);
    return (Group)codes;
}

#endif

#if defined(WIDE)

static inline Group least(Group a, Group b)
{
    return (Group)WIDE(min_epu8)((Wide)a, (Wide)b);
}

static inline Group greatest(Group a, Group b)
{
    return (Group)WIDE(max_epu8)((Wide)a, (Wide)b);
}

static inline uint32_t least_of_lanes(Group a)
{
    const __m256i half = least_of_halves(a);
    __m128i four = _mm_min_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    four = _mm_min_epu8(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
    return (uint32_t)_mm_cvtsi128_si32(_mm_min_epu8(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(2, 3, 0, 1))));
}

static inline Group requantize(const Integers acc[GROUP], const Floats m[GROUP])
{
    const Wide first = WIDE(packs_epi32)(round_one(acc[0], m[0]), round_one(acc[1], m[1]));
    const Wide second = WIDE(packs_epi32)(round_one(acc[2], m[2]), round_one(acc[3], m[3]));
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return (Group)WIDE(shuffle_epi8)(WIDE(packus_epi16)(first, second), REPEAT(order));
}

#endif

#endif
