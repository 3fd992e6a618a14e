/* Several float32 sums at once, in the vector registers of the processor.
 *
 * The compiler's vector types compute lane by lane: each lane is one IEEE 754 operation, so the instructions do not
 * matter for the bits.  A product and a sum stay two operations (-ffp-contract=off).
 *
 * FLOAT_SUMS registers hold sums; FLOAT_CHANNELS channels share a load of FLOAT_TILE positions in a convolution.
 */
#ifndef FLOAT_LANES_H
#define FLOAT_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lanes.h"

#if defined(__AVX512F__) && !defined(LANES_PORTABLE)
enum { FLOAT_LANES = 16, FLOAT_SUMS = 24, FLOAT_CHANNELS = 12, FLOAT_VECTORS = 2 };
#elif defined(__AVX__) && !defined(LANES_PORTABLE)
enum { FLOAT_LANES = 8, FLOAT_SUMS = 12, FLOAT_CHANNELS = 4, FLOAT_VECTORS = 2 };
#elif defined(__aarch64__) && !defined(LANES_PORTABLE)
enum { FLOAT_LANES = 4, FLOAT_SUMS = 24, FLOAT_CHANNELS = 4, FLOAT_VECTORS = 4 };
#else
enum { FLOAT_LANES = 4, FLOAT_SUMS = 8, FLOAT_CHANNELS = 4, FLOAT_VECTORS = 2 };
#endif

enum { FLOAT_PANEL = 16, FLOAT_TILE = FLOAT_LANES * FLOAT_VECTORS, MOST_FLOAT_TILE = 32 };

_Static_assert(FLOAT_CHANNELS % QUAD == 0, "a tile begins with a group of QUAD channels");

typedef float float_lanes __attribute__((vector_size(4 * FLOAT_LANES)));

static inline float_lanes float_lanes_load(const float *from)
{
    float_lanes lanes;
    (void)memcpy(&lanes, from, sizeof lanes);
    return lanes;
}

static inline void float_lanes_store(float_lanes lanes, float *to)
{
    (void)memcpy(to, &lanes, sizeof lanes);
}

/* A value less +0 is the value itself, -0 too; 0 less a value would not be. */
static inline float_lanes float_lanes_spread(float value)
{
    return value - (float_lanes){0};
}

#endif
