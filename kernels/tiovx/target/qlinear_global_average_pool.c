/* QLinearGlobalAveragePool (com.microsoft), vector by vector, in integers alone:
 *
 *     acc[c] = sum_p (x[c][p] - zx) = offset[c] + sum_p x[c][p]                          int32, offset from the host
 *     y[c]   = saturate(round_half_even(float32(acc[c]) * m) + zy)                       uint8, int8: by thresholds.h
 *
 * int8 codes are taken as uint8 ones, 128 more, as in qgemm.c.  The table of thresholds serves all channels.
 */
#include "callbacks.h"
#include "thresholds.h"

static uint32_t scratch_bytes(const struct head *constants)
{
    return constants->width * (uint32_t)sizeof(int32_t);
}

static ONE_CODE void accumulate(const struct head *constants, const uint8_t *codes, int32_t *acc)
{
    const uint32_t *offset = part_of(constants, OFFSET);
    const uint32_t positions = constants->depth / constants->width;
    const uint8_t flip = (uint8_t)constants->flip;
    for (uint32_t c = 0; c < constants->width; ++c) {
        uint32_t sum = offset[c];
        for (uint32_t p = 0; p < positions; ++p)
            sum += (uint8_t)(codes[c * positions + p] ^ flip);
        acc[c] = (int32_t)sum;
    }
}

static ONE_CODE void finish(const struct head *constants, const int32_t *acc, uint8_t *result)
{
    const int32_t *table = part_of(constants, TABLE);
    for (uint32_t c = 0; c < constants->width; c += SEARCHES) {
        const uint32_t lanes = constants->width - c < SEARCHES ? constants->width - c : SEARCHES;
        threshold_codes(table, 0, lanes, &acc[c], constants->low, &result[c]);
    }
}

static void compute(const struct work *work)
{
    contract(work, accumulate, finish);
}

const struct operation harness_qlinear_global_average_pool = {scratch_bytes, summand_bytes, contraction_bytes, compute};
