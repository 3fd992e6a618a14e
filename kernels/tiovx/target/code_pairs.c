/* QLinearAdd and QLinearMul (com.microsoft): a function of two codes at the same place.
 *
 *     y[n] = codes[a[n]][b[n]]          codes (256, 256), from the lowest on
 *
 * The float32 arithmetic of the specification has 65,536 inputs; the host computes their outputs.  b is the second
 * source, or a constant; if it is the first term that is constant, the host has exchanged the axes of the table.
 */
#include "callbacks.h"

enum { CODE_COUNT = 256 };

static ONE_CODE void look_up(const struct head *constants, const uint8_t *a, const uint8_t *b, uint8_t *y)
{
    const uint8_t *codes = part_of(constants, CODES);
    const uint8_t flip = (uint8_t)constants->flip;
    for (uint32_t n = 0; n < constants->width; ++n)
        y[n] = codes[(a[n] ^ flip) * CODE_COUNT + (b[n] ^ flip)];
}

static void compute(const struct work *work)
{
    for (uint32_t v = 0; v < work->vectors; ++v) {
        const uint8_t *a = row(&work->sources[0], v);
        const uint8_t *b = work->source_count > 1 ? row(&work->sources[1], v) : part_of(work->constants, OPERAND);
        look_up(work->constants, a, b, row(&work->result, v));
    }
}

const struct operation harness_code_pairs = {no_scratch_bytes, code_bytes, code_bytes, compute};
