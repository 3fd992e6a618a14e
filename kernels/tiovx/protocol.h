/* What the program on the A72 and the kernels on a target agree on; raise KERNELS_VERSION when that changes.
 *
 * Both kernels take the same parameters, one vector of an activation to a row:
 *
 *     CONSTANTS   user data object   one layer's, as below
 *     VECTORS     scalar, uint32     rows that count; the tensors may hold more
 *     SOURCE      tensor             (width, rows)
 *     RESULT      tensor             (width, rows), written
 *
 * A control command has the same, and computes a part of what the kernel does; COMMAND_IDENTIFY has one user data
 * object, which it fills with a struct identity.
 */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stdint.h>

enum { KERNELS_VERSION = 1 };

#define MODULE "harness"
#define KERNEL_QUANTIZE_LINEAR "org.harness.quantize_linear"
#define KERNEL_QGEMM "org.harness.qgemm"
#define TYPE_CONSTANTS "harness_constants"
#define TYPE_IDENTITY "harness_identity"

enum parameter { CONSTANTS, VECTORS, SOURCE, RESULT, PARAMETERS };

/* What is asked of a kernel: everything by its process callback, the rest by control commands. */
enum command { WHOLE, COMMAND_COMPUTE, COMMAND_ACCUMULATE, COMMAND_FINISH, COMMAND_IDENTIFY };

/* The kernels that answer: version, and which sources they were made of. */
struct identity {
    uint32_t version;
    char sources[60]; /* hexadecimal digits, then zeros */
};

/* A layer's constants: the head, then the parts that it has, each from the next multiple of ALIGNMENT bytes on. */
enum part {
    OFFSET,      /* int32 (width): acc[n] without its sums over a */
    ZERO_POINTS, /* int32 (width) of the weights; absent where all are 0 */
    TABLE,       /* int32, thresholds.h: of QuantizeLinear (1, THRESHOLDS), of QGemm (width, THRESHOLDS) */
    MULTIPLIER,  /* float32 (width), as bits, of a layer with a float32 output; see scaled.h */
    WEIGHTS,     /* int8, in the order of dot4.h */
    PARTS
};

enum { ALIGNMENT = 64 };

/* All fields are 32 bits wide, and in this order in the generated tables. */
struct head {
    uint32_t version;      /* KERNELS_VERSION */
    uint32_t depth, width; /* elements of a source's row, and of a result's */
    uint32_t flip;         /* 0x80 makes int8 codes of the source uint8 ones, 128 more; 0 leaves uint8 */
    uint32_t low;          /* the code below all thresholds, QMIN, as a byte */
    uint32_t bytes[PARTS]; /* of each part; 0: it is absent */
};

/* Where a part begins; of PARTS, where everything ends. */
static inline uint32_t part_start(const struct head *head, unsigned part)
{
    uint32_t start = ALIGNMENT; /* the head is smaller */
    for (unsigned before = 0; before < part; ++before)
        start += (head->bytes[before] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return start;
}

#endif
