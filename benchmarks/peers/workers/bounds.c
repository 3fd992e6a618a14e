/* What this core can do at most: int8 multiply-adds from registers, bytes loaded from the L1 cache, both a nanosecond.
 *
 * Prints one JSON object; null where the compiler was told of no instruction that sums products of bytes.  A rate is
 * the best of REPETITIONS, because whatever else a machine does can only lower it.  Matrix units (AMX) are left out:
 * one vector fills one of the rows that they multiply at a time.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

enum { CHAINS = 12 }; /* of sums: more than latency times throughput of the instruction, fewer than the registers */
enum { BUFFER_BYTES = 16 * 1024, STEPS = 20000, REPETITIONS = 500 };

static uint8_t buffer[BUFFER_BYTES] __attribute__((aligned(64)));

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

static double loads(void)
{
    const loaded *values = (const loaded *)buffer;
    for (size_t pass = 0; pass < STEPS * 16 / (BUFFER_BYTES / LOAD_BYTES); ++pass) {
#pragma GCC unroll 16
        for (size_t i = 0; i < BUFFER_BYTES / LOAD_BYTES; ++i) {
            loaded value = values[i];
            __asm__ volatile("" ::VECTOR_REGISTER(value));
        }
    }
    return (double)(STEPS * 16 / (BUFFER_BYTES / LOAD_BYTES)) * BUFFER_BYTES;
}

/* Of what `work` does, as often as it says, a nanosecond. */
static double best_rate(double (*work)(void))
{
    double best = 0;
    for (int i = 0; i < REPETITIONS; ++i) {
        const double begin_ns = now_ns();
        const double done = work();
        const double rate = done / (now_ns() - begin_ns);
        best = rate > best ? rate : best;
    }
    return best;
}

int main(void)
{
#ifdef INSTRUCTION
    printf("{\"instruction\": \"%s\", \"macs_per_ns\": %.1f, ", INSTRUCTION, best_rate(multiply_adds));
#else
    printf("{\"instruction\": null, \"macs_per_ns\": null, ");
#endif
    printf("\"load_bytes\": %d, \"l1_bytes_per_ns\": %.1f}\n", LOAD_BYTES, best_rate(loads));
    return 0;
}
