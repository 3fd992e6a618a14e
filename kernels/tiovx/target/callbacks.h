/* Common parts of all kernels: parameters, buffers and their coherence, memory of an instance, identity. */
#ifndef CALLBACKS_H
#define CALLBACKS_H

#include <string.h>

#include <VX/vx.h>
#include <TI/tivx.h>
#include <TI/tivx_target_kernel.h>

#include "protocol.h"

/* One piece of machine code, whichever callback runs it: neither inlined nor cloned, as in the board program. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__C7000__)
#define ONE_CODE __attribute__((noipa))
#else
#define ONE_CODE __attribute__((noinline))
#endif

/* The mapped buffer of a tensor: `stride` bytes from row to row. */
struct rows {
    uint8_t *first;
    uint32_t stride;
};

static inline uint8_t *row(const struct rows *rows, uint32_t v)
{
    return rows->first + (size_t)v * rows->stride;
}

/* One question to a kernel, everything mapped. */
struct work {
    enum command command;
    const struct head *constants;
    uint32_t vectors;
    struct rows sources[SOURCES], result;
    uint32_t widths[SOURCES]; /* elements of a source's row */
    uint32_t source_count;
    uint8_t *scratch; /* of the instance */
};

/* The properties that distinguish a kernel. */
struct operation {
    uint32_t (*scratch_bytes)(const struct head *constants);
    /* Bytes of an element of source and result for a command; 0: no such command. */
    uint32_t (*source_bytes)(const struct head *constants, enum command command);
    uint32_t (*result_bytes)(const struct head *constants, enum command command);
    void (*compute)(const struct work *work);
};

/* The callbacks of TIOVX; their context is the struct operation. */
vx_status harness_create(tivx_target_kernel_instance kernel, tivx_obj_desc_t *parameters[], uint16_t count,
                         void *operation);
vx_status harness_delete(tivx_target_kernel_instance kernel, tivx_obj_desc_t *parameters[], uint16_t count,
                         void *operation);
vx_status harness_process(tivx_target_kernel_instance kernel, tivx_obj_desc_t *parameters[], uint16_t count,
                          void *operation);
vx_status harness_control(tivx_target_kernel_instance kernel, uint32_t command, tivx_obj_desc_t *references[],
                          uint16_t count, void *operation);

static inline const void *part_of(const struct head *constants, enum part part)
{
    return constants->bytes[part] ? (const uint8_t *)constants + part_start(constants, part) : (const uint8_t *)0;
}

static inline uint32_t rounded_up(uint32_t value, uint32_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* For kernels without scratch memory: an instance without memory would look like one that was never created. */
static inline uint32_t no_scratch_bytes(const struct head *constants)
{
    (void)constants;
    return ALIGNMENT;
}

/* The elements of a kernel between codes, which has one stage. */
static inline uint32_t code_bytes(const struct head *constants, enum command command)
{
    (void)constants;
    return command == WHOLE || command == COMMAND_COMPUTE;
}

/* The elements of a contraction's source and result: codes, sums between its stages, float32 as MULTIPLIER says. */
static inline uint32_t summand_bytes(const struct head *constants, enum command command)
{
    static const uint32_t bytes[] = {[WHOLE] = 1, [COMMAND_ACCUMULATE] = 1, [COMMAND_FINISH] = sizeof(int32_t)};
    (void)constants;
    return command < sizeof bytes / sizeof *bytes ? bytes[command] : 0;
}

/* The stages of a contraction, vector by vector; its sums stand at the begin of the scratch. */
static inline void contract(const struct work *work,
                            void (*accumulate)(const struct head *constants, const uint8_t *codes, int32_t *acc),
                            void (*finish)(const struct head *constants, const int32_t *acc, uint8_t *result))
{
    const struct head *constants = work->constants;
    int32_t *sums = (int32_t *)(void *)work->scratch;
    for (uint32_t v = 0; v < work->vectors; ++v) {
        const uint8_t *source = row(&work->sources[0], v);
        uint8_t *result = row(&work->result, v);
        if (work->command != COMMAND_FINISH)
            accumulate(constants, source, sums);
        else
            memcpy(sums, source, constants->width * sizeof *sums);
        if (work->command != COMMAND_ACCUMULATE)
            finish(constants, sums, result);
        else
            memcpy(result, sums, constants->width * sizeof *sums);
    }
}

static inline uint32_t contraction_bytes(const struct head *constants, enum command command)
{
    return command == COMMAND_ACCUMULATE || constants->bytes[MULTIPLIER] ? sizeof(int32_t) : 1;
}

extern const struct operation harness_quantize_linear, harness_qgemm, harness_qlinear_conv, harness_max_pool,
    harness_qlinear_global_average_pool, harness_qlinear_average_pool, harness_code_pairs, harness_codes;

#endif
