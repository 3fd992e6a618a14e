/* QLinearConcat (com.microsoft), and Flatten and others that keep all codes: the sources one after the other.
 *
 *     y[start of source i + n] = codes[i][x[i][n]]          codes (sources, 256), from the lowest on
 *
 * Without codes the values are copied, as by Concat (ONNX) along the first axis.
 */
#include <string.h>

#include "callbacks.h"

enum { CODE_COUNT = 256 };

static ONE_CODE void look_up(const struct head *constants, uint32_t source, uint32_t width, const uint8_t *x, uint8_t *y)
{
    const uint8_t *codes = part_of(constants, CODES);
    const uint8_t flip = (uint8_t)constants->flip;
    if (!codes)
        memcpy(y, x, width);
    for (uint32_t n = 0; codes && n < width; ++n)
        y[n] = codes[source * CODE_COUNT + (x[n] ^ flip)];
}

static void compute(const struct work *work)
{
    for (uint32_t v = 0; v < work->vectors; ++v) {
        uint8_t *y = row(&work->result, v);
        for (uint32_t i = 0; i < work->source_count; ++i) {
            look_up(work->constants, i, work->widths[i], row(&work->sources[i], v), y);
            y += work->widths[i];
        }
    }
}

const struct operation harness_codes = {no_scratch_bytes, code_bytes, code_bytes, compute};
