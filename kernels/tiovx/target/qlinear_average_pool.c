/* QLinearAveragePool (com.microsoft), vector by vector, in integers alone; windows.h has the order of the tiles:
 *
 *     s = sum of float32((x - zx) * sx) over the values of a window, row by row, each sum rounded    rounded_sum.h
 *     y = saturate(round_half_even(float32(float32(float32(s / count) / sy) + zy)))                  by thresholds.h
 *
 * y rises with s: for each count there are thresholds of s, as ordered numbers.  Outside the image is the code of 0,
 * which changes no sum.
 */
#include "windows.h"

#include "rounded_sum.h"
#include "thresholds.h"

static uint32_t scratch_bytes(const struct head *constants)
{
    return windows_bytes(windows_of(constants));
}

static ONE_CODE void pool(const struct head *constants, const struct panel *panel, uint8_t *result)
{
    const uint32_t size = window_size(panel->windows);
    const int64_t *terms = part_of(constants, TERMS);
    const uint32_t *rows = part_of(constants, ROWS);
    const int32_t *table = part_of(constants, TABLE);
    int64_t sums[LANES] = {0};
    for (uint32_t k = 0; k < size; ++k) {
        uint8_t room[LANES];
        const uint8_t *codes = values_of(panel, k, room);
        for (uint32_t lane = 0; lane < LANES; ++lane)
            sums[lane] = rounded_sum(sums[lane] + terms[codes[lane]]);
    }
    for (uint32_t lane = 0; lane < panel->lanes; ++lane) {
        const int32_t sum = ordered_float(sum_bits(sums[lane], panel->windows->exponent));
        const int32_t *thresholds = &table[rows[panel->position + lane] * THRESHOLDS];
        result[lane] = (uint8_t)(constants->low + threshold_count(thresholds, sum));
    }
}

static void compute_panel(const struct work *work, const struct panel *panel, uint32_t v)
{
    pool(work->constants, panel, row(&work->result, v) + panel->group * positions_of(panel->windows) + panel->position);
}

static void compute(const struct work *work)
{
    for (uint32_t v = 0; v < work->vectors; ++v)
        for_each_panel(work, v, 1, compute_panel);
}

const struct operation harness_qlinear_average_pool = {scratch_bytes, code_bytes, code_bytes, compute};
