/* QGemm (com.microsoft), vector by vector, in integers alone:
 *
 *     acc[n] = bias[n] + sum_k (a[k] - za) * (b[n][k] - zb[n])                  int32
 *     y[n]   = saturate(round_half_even(float32(acc[n]) * m[n]) + zy)           uint8, int8: by thresholds.h
 *     y[n]   = float32(acc[n]) * m[n]                                           float32: by scaled.h
 *
 * The sum is computed in three parts that add up to it, modulo 2^32; int8 codes of a are taken as uint8 ones, 128 more,
 * which the host has put into za, as it has put uint8 weights, 128 less, into b and zb:
 *
 *     offset[n] = bias[n] - za * sum_k (b[n][k] - zb[n])                        from the host
 *     acc[n]    = offset[n] + sum_k a[k] * b[n][k] - zb[n] * sum_k a[k]
 */
#include "callbacks.h"
#include "dot4.h"
#include "scaled.h"
#include "thresholds.h"

/* The scratch holds a vector of sums, then one of inputs, both filled up. */
static uint32_t sums_bytes(const struct head *constants)
{
    return rounded_up(constants->width, LANES) * (uint32_t)sizeof(int32_t);
}

static uint32_t scratch_bytes(const struct head *constants)
{
    return sums_bytes(constants) + rounded_up(constants->depth, ALIGNMENT);
}

/* The codes of a vector as uint8, zeros behind them; their sum. */
static uint32_t unsigned_codes(const struct head *constants, const uint8_t *codes, uint8_t *a)
{
    const uint8_t flip = (uint8_t)constants->flip;
    uint32_t sum = 0;
    for (uint32_t k = 0; k < constants->depth; ++k) {
        a[k] = codes[k] ^ flip;
        sum += a[k];
    }
    memset(&a[constants->depth], 0, rounded_up(constants->depth, QUAD) - constants->depth);
    return sum;
}

/* `acc` has room for whole groups of LANES, and behind them for the inputs. */
static ONE_CODE void accumulate(const struct head *constants, const uint8_t *codes, int32_t *acc)
{
    uint8_t *a = (uint8_t *)acc + sums_bytes(constants);
    const uint32_t *offset = part_of(constants, OFFSET);
    const int32_t *zb = part_of(constants, ZERO_POINTS);
    const uint32_t sum_a = unsigned_codes(constants, codes, a);
    const uint32_t quads = rounded_up(constants->depth, QUAD) / QUAD;
    dot_products(rounded_up(constants->width, LANES) / LANES, quads, a, part_of(constants, WEIGHTS), acc);
    for (uint32_t n = 0; n < constants->width; ++n) {
        const uint32_t correction = zb ? (uint32_t)zb[n] * sum_a : 0;
        acc[n] = (int32_t)(offset[n] + (uint32_t)acc[n] - correction);
    }
}

static ONE_CODE void finish(const struct head *constants, const int32_t *acc, uint8_t *result)
{
    const int32_t *table = part_of(constants, TABLE);
    const uint32_t *m = part_of(constants, MULTIPLIER);
    for (uint32_t n = 0; m && n < constants->width; ++n)
        ((uint32_t *)(void *)result)[n] = scaled_accumulator(acc[n], m[n]);
    for (uint32_t n = 0; table && n < constants->width; n += SEARCHES) {
        const uint32_t lanes = constants->width - n < SEARCHES ? constants->width - n : SEARCHES;
        threshold_codes(&table[n * THRESHOLDS], THRESHOLDS, lanes, &acc[n], constants->low, &result[n]);
    }
}

static void compute(const struct work *work)
{
    contract(work, accumulate, finish);
}

const struct operation harness_qgemm = {scratch_bytes, summand_bytes, contraction_bytes, compute};
