/* Protocol between the program on the A72 and the kernels on a target; increment KERNELS_VERSION when it changes.
 *
 * All kernels take the same parameters, one vector of an activation to a row:
 *
 *     CONSTANTS   user data object   one layer's, as below
 *     VECTORS     scalar, uint32     rows that count; the tensors may hold more
 *     SOURCE      tensor             (width, rows)
 *     RESULT      tensor             (width, rows), written
 *     from PARAMETERS on             the other sources of a kernel with several, as SOURCE
 *
 * A control command has the same, and computes a part of what the kernel does; COMMAND_IDENTIFY has one user data
 * object, which it fills with a struct identity.
 */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stdint.h>

enum { KERNELS_VERSION = 2 };

#define MODULE "harness"
#define KERNEL_QUANTIZE_LINEAR "org.harness.quantize_linear"
#define KERNEL_QGEMM "org.harness.qgemm"
#define KERNEL_QLINEAR_CONV "org.harness.qlinear_conv"
#define KERNEL_QLINEAR_GLOBAL_AVERAGE_POOL "org.harness.qlinear_global_average_pool"
#define KERNEL_QLINEAR_AVERAGE_POOL "org.harness.qlinear_average_pool"
#define KERNEL_MAX_POOL "org.harness.max_pool"
/* A kernel of TIOVX has a fixed number of parameters: the last digit is that of the sources. */
#define KERNEL_CODE_PAIRS_1 "org.harness.code_pairs_1"
#define KERNEL_CODE_PAIRS_2 "org.harness.code_pairs_2"
#define KERNEL_CODES_1 "org.harness.codes_1"
#define KERNEL_CODES_2 "org.harness.codes_2"
#define KERNEL_CODES_3 "org.harness.codes_3"
#define KERNEL_CODES_4 "org.harness.codes_4"
#define TYPE_CONSTANTS "harness_constants"
#define TYPE_IDENTITY "harness_identity"

enum parameter { CONSTANTS, VECTORS, SOURCE, RESULT, PARAMETERS };

enum { SOURCES = 4, MOST_PARAMETERS = PARAMETERS + SOURCES - 1 }; /* of one kernel */

static inline unsigned source_parameter(unsigned source)
{
    return source ? PARAMETERS + source - 1 : SOURCE;
}

static inline unsigned parameter_count(unsigned sources)
{
    return PARAMETERS + sources - 1;
}

/* Commands to a kernel: the whole layer by its process callback, the others by control commands. */
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
    TABLE,       /* int32 (rows, THRESHOLDS), thresholds.h; which value has which row is up to the kernel */
    MULTIPLIER,  /* float32 (width), as bits, of a layer with a float32 output; see scaled.h */
    WEIGHTS,     /* int8, in the order of dot4.h; of QLinearConv (channels, values of a window in whole quads) */
    WINDOW,      /* uint32, struct windows of target/windows.h */
    CODES,       /* uint8 (rows, 256): the code that becomes of each, from the lowest on */
    OPERAND,     /* uint8 (width): the second code of each pair, if it is constant */
    TERMS,       /* int64 (256): what each code adds to a mean, rounded_sum.h */
    ROWS,        /* uint32 (positions): the row of TABLE for each window's mean */
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

/* Returns the offset of a part; for PARTS, the end of all. */
static inline uint32_t part_start(const struct head *head, unsigned part)
{
    uint32_t start = ALIGNMENT; /* the head is smaller */
    for (unsigned before = 0; before < part; ++before)
        start += (head->bytes[before] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return start;
}

#endif
