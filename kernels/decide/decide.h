/* Decisions of a quantised dense network for all input codes of a box.
 *
 * A layer computes, as QGemm does (kernels/c/qgemm.h):
 *
 *     acc[n] = offset[n] + sum_k a[k] * weights[k][n]                                     int32
 *     y[n]   = min(max(round_half_even(float32(acc[n]) * multiplier[n]) + zero_point, low), high)
 *     score  = float32(acc[n]) * multiplier[n]                                       last layer, float scores
 *
 * with codes a, y from 0 to 255.  The host moves int8 codes by 128 and folds zero points into weights and offset.
 * Multipliers are positive, so that every step is monotone in acc.  Refused are networks whose acc can leave int32 for
 * any a[k] from 0 to 255, and multipliers from 2^96 on.
 */
#ifndef DECIDE_H
#define DECIDE_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

enum { DECIDE_AXES = 8, DECIDE_LAYERS = 64, DECIDE_WIDTH = 512, DECIDE_SCORES = 64, DECIDE_SAMPLES = 8192 };

typedef struct {
    int32_t depth, width;
    int32_t padded;            /* the width, rounded up to a multiple of 64 */
    const int16_t *weights;    /* (depth, padded), |weight| <= 255 */
    const int32_t *offset;     /* (padded,) */
    const float *multiplier;   /* (padded,), above 0 */
    int32_t zero_point, low, high;
} DecideLayer;

/* Score `left` is greater than score `right` (or the constant, if right is -1), or equal unless `strict`; if `negated`,
 * the contrary.  Scores that are codes are compared as numbers from 0 to 255. */
typedef struct {
    int32_t decision, left, right, strict, negated;
    float constant;
} DecideComparison;

enum { DECIDE_FIRST, DECIDE_LAST, DECIDE_ALL };

/* A code vector gives a set of decisions, bit 1 << decision each, at most eight.
 *
 * Without comparisons: the index of the greatest (or least) score; of equal ones the first, the last, or all.
 * With comparisons: every decision whose comparisons all hold; the bit 1 << decisions if none does. */
typedef struct {
    int32_t greatest, ties;
    int32_t decisions, comparisons;
    const DecideComparison *comparison;
} DecideRule;

typedef struct {
    int32_t layers;
    int32_t float_scores;      /* the last layer has float32 scores; otherwise codes */
    const DecideLayer *layer;
    DecideRule rule;
} DecideNetwork;

/* Codes of a box: axis k from low[k] to low[k] + extent[k] - 1. */
typedef struct {
    int32_t low[DECIDE_AXES], extent[DECIDE_AXES];
} DecideBox;

/* Layout of decisions: code c of axis k belongs to segment[k][c]; regions[sum_k stride[k] * segment[k][c_k]]. */
typedef struct {
    const uint16_t *segment[DECIDE_AXES];   /* (256,) each */
    int64_t stride[DECIDE_AXES];
    uint8_t *regions;
} DecideRegions;

#ifndef __CUDACC_RTC__ /* functions of the host */

/* Adds the decisions of all codes of the box to the regions; codes are processed in batches of batch[k] codes along
 * axis k, at most DECIDE_SAMPLES together.  Returns the number of codes; 0 if memory is lacking or a limit is exceeded.
 * Each thread may run its own call; two calls at the same time need regions of their own. */
uint64_t decide_box(const DecideNetwork *network, const DecideBox *box, const int32_t *batch, DecideRegions *regions);

/* Returns whether the memory suffices and no limit is exceeded. */
int32_t decide_fits(const DecideNetwork *network, const DecideBox *box, const int32_t *batch);

/* Finds the first code vector of the box, in batch order, whose set has a decision of `wanted`; returns 1 and the
 * codes, or 0; -1 if memory is lacking or a limit is exceeded. */
int32_t decide_find(const DecideNetwork *network, const DecideBox *box, const int32_t *batch, uint8_t wanted,
                    uint8_t *codes);

/* The name of the kernel: "AVX512-VNNI", "AVX2", "NEON", "NEON dot product", "portable". */
const char *decide_kernel(void);

/* Computes these decisions one vector after the other, without batches, bounds or SIMD: (count, axes) codes, sets
 * (count,).  For networks that decide_box does not refuse. */
void decide_each(const DecideNetwork *network, const uint8_t *codes, uint64_t count, uint8_t *sets);

#endif

#endif
