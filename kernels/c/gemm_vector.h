/* Gemm and MatMul, float32, FLOAT_PANEL outputs at once:
 *
 *     y[n] = bias[n] + 0
 *     y[n] = y[n] + a[k] * w[k][n]       for k = 0 to K - 1
 *
 * w is packed into panels of FLOAT_PANEL outputs, filled up with zeros as the bias is:
 *
 *     w[k][16 p + lane]  at  (p * K + k) * 16 + lane
 */
#ifndef GEMM_VECTOR_H
#define GEMM_VECTOR_H

#include "float_lanes.h"

enum { FLOAT_PANELS = FLOAT_SUMS * FLOAT_LANES / FLOAT_PANEL < 8 ? FLOAT_SUMS * FLOAT_LANES / FLOAT_PANEL : 8,
       PARTS_OF_PANEL = FLOAT_PANEL / FLOAT_LANES };

/* At most FLOAT_PANELS panels; of the last one `rest` outputs. */
WITH_LITERALS void gemm_vector_panels(size_t panels, size_t depth, const float *restrict a, const float *restrict w,
                                      const float *restrict bias, size_t rest, float *restrict y)
{
    float_lanes sums[FLOAT_PANELS * PARTS_OF_PANEL];
    UNROLLED for (size_t i = 0; i < panels * PARTS_OF_PANEL; ++i)
        sums[i] = float_lanes_load(&bias[i * FLOAT_LANES]) + float_lanes_spread(0.0f);
    for (size_t k = 0; k < depth; ++k) {
        const float_lanes each = float_lanes_spread(a[k]);
        UNROLLED for (size_t p = 0; p < panels; ++p)
            UNROLLED for (size_t i = 0; i < PARTS_OF_PANEL; ++i)
                sums[p * PARTS_OF_PANEL + i] += each * float_lanes_load(&w[(p * depth + k) * FLOAT_PANEL + i * FLOAT_LANES]);
    }
    UNROLLED for (size_t i = 0; i < (panels - 1) * PARTS_OF_PANEL; ++i)
        float_lanes_store(sums[i], &y[i * FLOAT_LANES]);
    float last[FLOAT_PANEL];
    UNROLLED for (size_t i = 0; i < PARTS_OF_PANEL; ++i)
        float_lanes_store(sums[(panels - 1) * PARTS_OF_PANEL + i], &last[i * FLOAT_LANES]);
    (void)memcpy(&y[(panels - 1) * FLOAT_PANEL], last, rest * sizeof *y);
}

WITH_LITERALS void gemm_vector_float32(size_t depth, size_t width, const float *restrict a, const float *restrict w,
                                       const float *restrict bias, float *restrict y)
{
    const size_t panels = (width + FLOAT_PANEL - 1) / FLOAT_PANEL, whole = (panels - 1) / FLOAT_PANELS * FLOAT_PANELS;
    for (size_t p = 0; p < whole; p += FLOAT_PANELS)
        gemm_vector_panels(FLOAT_PANELS, depth, a, &w[p * depth * FLOAT_PANEL], &bias[p * FLOAT_PANEL], FLOAT_PANEL,
                           &y[p * FLOAT_PANEL]);
    const size_t rest = width - (panels - 1) * FLOAT_PANEL;
    const float *of_rest = &w[whole * depth * FLOAT_PANEL];
    UNROLLED for (size_t left = 1; left <= FLOAT_PANELS; ++left)
        if (panels - whole == left)
            gemm_vector_panels(left, depth, a, of_rest, &bias[whole * FLOAT_PANEL], rest, &y[whole * FLOAT_PANEL]);
}

#endif
