/* QuantizeLinear (ONNX), float32 -> uint8 or int8, one scale for the tensor, without floating point:
 *
 *     q = saturate(round_half_even(x / scale) + zero_point)          by the thresholds of all float32, see thresholds.h
 */
#include "callbacks.h"
#include "thresholds.h"

static ONE_CODE void quantize(const struct head *constants, const uint32_t *x, uint8_t *q)
{
    const int32_t *table = part_of(constants, TABLE);
    for (uint32_t i = 0; i < constants->width; i += SEARCHES) {
        const uint32_t lanes = constants->width - i < SEARCHES ? constants->width - i : SEARCHES;
        int32_t numbers[SEARCHES];
        for (uint32_t lane = 0; lane < lanes; ++lane)
            numbers[lane] = ordered_float(x[i + lane]);
        threshold_codes(table, 0, lanes, numbers, constants->low, &q[i]);
    }
}

static void compute(const struct work *work)
{
    for (uint32_t v = 0; v < work->vectors; ++v) {
        const uint8_t *source = row(&work->sources[0], v);
        quantize(work->constants, (const uint32_t *)(const void *)source, row(&work->result, v));
    }
}

static uint32_t source_bytes(const struct head *constants, enum command command)
{
    (void)constants;
    return command == WHOLE || command == COMMAND_COMPUTE ? sizeof(uint32_t) : 0;
}

static uint32_t result_bytes(const struct head *constants, enum command command)
{
    (void)constants, (void)command;
    return 1;
}

const struct operation harness_quantize_linear = {no_scratch_bytes, source_bytes, result_bytes, compute};
