/* What this core can do at most: multiply-adds of int8 and float32 from registers, bytes loaded, all a nanosecond.
 *
 * usage: bounds BYTES
 *
 * The bytes are loaded again and again from a buffer of this size, and so from the cache that it fits.
 *
 * Prints one JSON object; null where the compiler was told of no instruction that sums products of bytes.  A rate is
 * the best of REPETITIONS, because whatever else a machine does can only lower it.  Matrix units (AMX) are left out:
 * one vector fills one of the rows that they multiply at a time.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512VNNI__)
#include <immintrin.h>
#define INSTRUCTION "VPDPBUSD, 512 bits"
typedef __m512i sums;
#define MULTIPLY_ADD(SUM, BYTES) _mm512_dpbusd_epi32(SUM, BYTES, BYTES)
#elif defined(__AVXVNNI__)
#include <immintrin.h>
#define INSTRUCTION "VPDPBUSD, 256 bits"
typedef __m256i sums;
#define MULTIPLY_ADD(SUM, BYTES) _mm256_dpbusd_avx_epi32(SUM, BYTES, BYTES)
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#define INSTRUCTION "SDOT, 128 bits"
typedef int32x4_t sums;
#define MULTIPLY_ADD(SUM, BYTES) vdotq_s32(SUM, vreinterpretq_s8_s32(BYTES), vreinterpretq_s8_s32(BYTES))
#endif

#if defined(__AVX512F__)
enum { LOAD_BYTES = 64 };
#elif defined(__AVX__)
enum { LOAD_BYTES = 32 };
#else
enum { LOAD_BYTES = 16 };
#endif

#if defined(__x86_64__)
#define VECTOR_REGISTER "v"
#else
#define VECTOR_REGISTER "w"
#endif

typedef uint8_t loaded __attribute__((vector_size(LOAD_BYTES)));
typedef float floats __attribute__((vector_size(LOAD_BYTES)));

#if defined(__AVX512F__)
#include <immintrin.h>
#define FMA(SUM, A) _mm512_fmadd_ps(A, A, SUM)
#elif defined(__FMA__)
#include <immintrin.h>
#define FMA(SUM, A) _mm256_fmadd_ps(A, A, SUM)
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#define FMA(SUM, A) vfmaq_f32(SUM, A, A)
#endif

enum { CHAINS = 12 }; /* of sums: more than latency times throughput of the instruction, fewer than the registers */
enum { STEPS = 20000, REPETITIONS = 500, MINIMUM_REPETITIONS = 20 };
static const double limit_ns = 2e9; /* of the repetitions of one measurement, after MINIMUM_REPETITIONS of them */

static const loaded *buffer;
static size_t buffer_count; /* a multiple of UNROLLED */
enum { UNROLLED = 16 };

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

#ifdef INSTRUCTION
static double multiply_adds(void)
{
    sums bytes = {0}, chain[CHAINS];
    __asm__ volatile("" : "+" VECTOR_REGISTER(bytes));
    for (size_t c = 0; c < CHAINS; ++c)
        chain[c] = bytes;
    for (size_t step = 0; step < STEPS; ++step) {
#pragma GCC unroll 12
        for (size_t c = 0; c < CHAINS; ++c)
            chain[c] = MULTIPLY_ADD(chain[c], bytes);
    }
    for (size_t c = 0; c < CHAINS; ++c)
        __asm__ volatile("" ::VECTOR_REGISTER(chain[c]));
    return (double)STEPS * CHAINS * sizeof(sums);
}
#endif

/* One chain of sums for each c; ADD(SUM, A) adds the products of A, which the compiler does not know. */
#define MEASURE_FLOATS(NAME, ADD)                                                                                      \
    static double NAME(void)                                                                                           \
    {                                                                                                                  \
        floats a = {0}, chain[CHAINS] = {{0}};                                                                         \
        for (size_t step = 0; step < STEPS; ++step) {                                                                  \
            _Pragma("GCC unroll 12") for (size_t c = 0; c < CHAINS; ++c)                                               \
            {                                                                                                          \
                __asm__ volatile("" : "+" VECTOR_REGISTER(a));                                                         \
                chain[c] = ADD(chain[c], a);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
        for (size_t c = 0; c < CHAINS; ++c)                                                                            \
            __asm__ volatile("" ::VECTOR_REGISTER(chain[c]));                                                          \
        return (double)STEPS * CHAINS * (sizeof(floats) / sizeof(float));                                              \
    }
#define MULTIPLY_THEN_ADD(SUM, A) (SUM) + (A) * (A)
MEASURE_FLOATS(multiplications_and_additions, MULTIPLY_THEN_ADD)
#ifdef FMA
MEASURE_FLOATS(contractions, FMA)
#endif

static double loads(void)
{
    const size_t passes = 1 + STEPS * UNROLLED / buffer_count;
    for (size_t pass = 0; pass < passes; ++pass) {
        for (size_t i = 0; i < buffer_count; i += UNROLLED) {
#pragma GCC unroll 16
            for (size_t j = 0; j < UNROLLED; ++j) {
                loaded value = buffer[i + j];
                __asm__ volatile("" ::VECTOR_REGISTER(value));
            }
        }
    }
    return (double)(passes * buffer_count) * LOAD_BYTES;
}

static void fill_buffer(size_t bytes)
{
    buffer_count = (bytes / LOAD_BYTES / UNROLLED + 1) * UNROLLED;
    void *filled = aligned_alloc(LOAD_BYTES, buffer_count * LOAD_BYTES);
    if (!filled)
        exit(1);
    memset(filled, 1, buffer_count * LOAD_BYTES); /* pages of their own instead of one of zeros */
    buffer = filled;
}

/* Of what `work` does, as often as it says, a nanosecond. */
static double best_rate(double (*work)(void))
{
    const double start_ns = now_ns();
    double best = 0;
    for (int i = 0; i < REPETITIONS && (i < MINIMUM_REPETITIONS || now_ns() - start_ns < limit_ns); ++i) {
        const double begin_ns = now_ns();
        const double done = work();
        const double rate = done / (now_ns() - begin_ns);
        best = rate > best ? rate : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    fill_buffer(argc > 1 ? strtoul(argv[1], NULL, 10) : 0);
#ifdef INSTRUCTION
    printf("{\"instruction\": \"%s\", \"macs_per_ns\": %.1f, ", INSTRUCTION, best_rate(multiply_adds));
#else
    printf("{\"instruction\": null, \"macs_per_ns\": null, ");
#endif
#ifdef FMA
    printf("\"fma_macs_per_ns\": %.1f, ", best_rate(contractions));
#else
    printf("\"fma_macs_per_ns\": null, ");
#endif
    printf("\"mul_add_macs_per_ns\": %.1f, ", best_rate(multiplications_and_additions));
    printf("\"load_bytes\": %d, \"bytes_per_ns\": %.1f}\n", LOAD_BYTES, best_rate(loads));
    return 0;
}
