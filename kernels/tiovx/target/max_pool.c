/* MaxPool (ONNX) of codes, vector by vector; windows.h has the order of the tiles:
 *
 *     y[c][p] = the largest value of the window at position p of channel c
 *
 * Codes are compared as uint8: int8 ones have been made 128 more.  Outside the image is the lowest code, which a window
 * gives only if it has no other.
 */
#include "windows.h"

static uint32_t scratch_bytes(const struct head *constants)
{
    return windows_bytes(windows_of(constants));
}

static ONE_CODE void pool(const struct head *constants, const struct panel *panel, uint8_t *result)
{
    const uint32_t size = window_size(panel->windows);
    uint8_t largest[LANES] = {0};
    for (uint32_t k = 0; k < size; ++k) {
        uint8_t room[LANES];
        const uint8_t *codes = values_of(panel, k, room);
        for (uint32_t lane = 0; lane < LANES; ++lane)
            largest[lane] = codes[lane] > largest[lane] ? codes[lane] : largest[lane];
    }
    for (uint32_t lane = 0; lane < panel->lanes; ++lane)
        result[lane] = largest[lane] ^ (uint8_t)constants->flip;
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

const struct operation harness_max_pool = {scratch_bytes, code_bytes, code_bytes, compute};
