/* QLinearConv (ONNX), vector by vector, in integers alone; windows.h has the order of the tiles:
 *
 *     acc[n][p] = bias[n] + sum_k (a[p][k] - za) * (b[n][k] - zb)                        int32
 *     y[n][p]   = saturate(round_half_even(float32(acc[n][p]) * m[n]) + zy)              uint8, int8: by thresholds.h
 *
 * a[p][k] is value k of the window at position p, za outside the image.  As in qgemm.c, with the same codes and weights:
 *
 *     offset[n] = bias[n] - za * sum_k (b[n][k] - zb)                                    from the host
 *     acc[n][p] = offset[n] + sum_k a[p][k] * b[n][k] - zb * sum_k a[p][k]
 *
 * LANES positions are computed side by side, so that they share quads of weights, and a table of thresholds.
 */
#include "windows.h"

#include "thresholds.h"

/* The scratch behind that of the windows: a panel of codes in the order of dot4.h, then sums (outputs, LANES). */
static uint32_t quads_of(const struct windows *w)
{
    return rounded_up(window_size(w), QUAD) / QUAD;
}

static uint32_t panel_bytes(const struct windows *w)
{
    return quads_of(w) * QUAD * LANES;
}

static uint32_t scratch_bytes(const struct head *constants)
{
    const struct windows *w = windows_of(constants);
    return windows_bytes(w) + panel_bytes(w) + w->outputs * LANES * (uint32_t)sizeof(int32_t);
}

/* The codes of all windows in the order of dot4.h, zeros behind them. */
static void gather(const struct panel *panel, uint8_t *a)
{
    static const uint8_t none[LANES];
    const uint32_t size = window_size(panel->windows);
    uint8_t room[QUAD][LANES];
    for (uint32_t k = 0; k < size; k += QUAD, a += QUAD * LANES) {
        const uint8_t *codes[QUAD];
        for (uint32_t i = 0; i < QUAD; ++i)
            codes[i] = k + i < size ? values_of(panel, k + i, room[i]) : none;
        for (uint32_t lane = 0; lane < LANES; ++lane)
            for (uint32_t i = 0; i < QUAD; ++i)
                a[lane * QUAD + i] = codes[i][lane];
    }
}

static void add_codes(const uint8_t *a, uint32_t quads, uint32_t *sums)
{
    memset(sums, 0, LANES * sizeof *sums);
    for (uint32_t q = 0; q < quads; ++q)
        for (uint32_t lane = 0; lane < LANES; ++lane)
            for (uint32_t i = 0; i < QUAD; ++i)
                sums[lane] += a[(q * LANES + lane) * QUAD + i];
}

/* acc (outputs, LANES) of the group. */
static ONE_CODE void accumulate(const struct head *constants, const struct panel *panel, uint8_t *a, int32_t *acc)
{
    const struct windows *w = panel->windows;
    const uint32_t quads = quads_of(w), first = panel->group * w->outputs;
    const uint32_t *offset = part_of(constants, OFFSET);
    const int32_t *zb = part_of(constants, ZERO_POINTS);
    const int8_t *weights = part_of(constants, WEIGHTS);
    uint32_t sums[LANES];
    gather(panel, a);
    if (zb)
        add_codes(a, quads, sums);
    for (uint32_t n = 0; n < w->outputs; ++n, acc += LANES) {
        dot_positions(quads, a, &weights[(first + n) * quads * QUAD], acc);
        for (uint32_t lane = 0; lane < LANES; ++lane) {
            const uint32_t correction = zb ? (uint32_t)zb[first + n] * sums[lane] : 0;
            acc[lane] = (int32_t)(offset[first + n] + (uint32_t)acc[lane] - correction);
        }
    }
}

/* To `result`, where the first window of the group's first channel has its place. */
static ONE_CODE void finish(const struct head *constants, const struct panel *panel, const int32_t *acc, uint8_t *result)
{
    const struct windows *w = panel->windows;
    const int32_t *table = (const int32_t *)part_of(constants, TABLE) + panel->group * w->outputs * THRESHOLDS;
    for (uint32_t n = 0; n < w->outputs; ++n)
        threshold_codes(&table[n * THRESHOLDS], 0, panel->lanes, &acc[n * LANES], constants->low,
                        &result[n * positions_of(w)]);
}

static void compute_panel(const struct work *work, const struct panel *panel, uint32_t v)
{
    const struct windows *w = panel->windows;
    const uint32_t at = panel->group * w->outputs * positions_of(w) + panel->position;
    uint8_t *a = work->scratch + windows_bytes(w), *result = row(&work->result, v);
    int32_t *acc = (int32_t *)(void *)(a + panel_bytes(w));
    const uint8_t *source = row(&work->sources[0], v);
    if (work->command != COMMAND_FINISH)
        accumulate(work->constants, panel, a, acc);
    else
        for (uint32_t n = 0; n < w->outputs; ++n)
            memcpy(&acc[n * LANES], &source[(at + n * positions_of(w)) * sizeof *acc], panel->lanes * sizeof *acc);
    if (work->command != COMMAND_ACCUMULATE)
        finish(work->constants, panel, acc, &result[at]);
    else
        for (uint32_t n = 0; n < w->outputs; ++n)
            memcpy(&result[(at + n * positions_of(w)) * sizeof *acc], &acc[n * LANES], panel->lanes * sizeof *acc);
}

static void compute(const struct work *work)
{
    for (uint32_t v = 0; v < work->vectors; ++v)
        for_each_panel(work, v, work->command != COMMAND_FINISH, compute_panel);
}

const struct operation harness_qlinear_conv = {scratch_bytes, summand_bytes, contraction_bytes, compute};
