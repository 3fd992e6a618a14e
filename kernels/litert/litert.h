/* An item that LiteRT computes: a TFLite file for each launch, run by libLiteRt.so on the item's own core.
 *
 * A launch computes tasks that stand side by side in the item's schedule.  All their activations are outputs of its
 * file, one vector at a time: each vector is copied into the file's inputs, the file is run, its outputs are kept until
 * the tasks fetch them.  Images lie with the channels last in the file, and codes of uint8 less 128.
 */
#ifndef LITERT_H
#define LITERT_H

#include <stddef.h>

#include "options.h"
#include "runtime.h"

/* An activation that the file reads or writes. */
struct litert_array {
    const char *name;
    struct litert_type type;
    size_t element;             /* bytes */
    size_t channels, positions; /* the order in the file: the channels of a position side by side; 1 channel: ONNX's */
    bool flipped;               /* codes of uint8 are stored less 128: bit 7 changes */
    unsigned char *memory;      /* of one vector, as the file has it */
    unsigned char *kept;        /* of a block of vectors, for outputs */
    litert_handle buffer;
};

struct litert_launch {
    const char *name;
    const unsigned char *file;
    size_t bytes;
    struct litert_array *inputs, *outputs;
    size_t input_count, output_count;
    litert_handle model, compiled;
    litert_handle *input_buffers, *output_buffers;
};

struct litert_item {
    const char *name;
    struct litert_launch *const *launches;
    size_t launch_count;
    bool sets_flags;
    uint32_t xnnpack_flags; /* where they are set */
    const char *kernels; /* that compute, in words */
    litert_handle environment, options;
    char device[96];
};

/* Opens all files; exits with what to do otherwise. */
void litert_open(struct litert_item *item, const struct options *options);
void litert_close(struct litert_item *item);

/* Computes a block; `sources` are the activations in the order of the inputs. */
void litert_run(struct litert_launch *launch, const void *const *sources, size_t vectors);

/* Copies an output of the block that was computed last. */
void litert_get(const struct litert_launch *launch, size_t output, void *to, size_t vectors);

/* Names the library and its kernels. */
const char *litert_device(const struct litert_item *item);

#endif
