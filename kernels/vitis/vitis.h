/* An item's part in the fabric: its kernels, what goes there and comes back, its answers to the proof.
 *
 * A launch computes tasks that stand side by side in the item's schedule: it is one kernel (layer.hpp).  At each
 * execution the sources become records of words, a record a vector; what others read is taken out of the records that
 * the kernel makes.  The accumulators of a layer with a float32 output are scaled here.
 */
#ifndef VITIS_H
#define VITIS_H

#include <stdbool.h>
#include <stddef.h>

#include "fabric.h"
#include "options.h"

/* The elements of a buffer of the program, each a word in the fabric. */
enum vitis_type { VITIS_UINT8, VITIS_INT8, VITIS_INT32, VITIS_SCALED };

enum { VITIS_ABSENT = -1 };

/* An activation of a launch, or what a stage reads or writes. */
struct vitis_array {
    const char *name;
    enum vitis_type type;
    size_t width;            /* elements of a vector */
    size_t channels;         /* in the fabric those of a position stand side by side: FOR_EACH_WORD */
    const float *multiplier; /* (width) of an array that is scaled: float32 = float32(word) * multiplier */
    long at, full_at;        /* where it begins in a record, and in one of everything; VITIS_ABSENT: it is not there */
};

/* Words that a kernel tells of its constants go to `values`. */
struct vitis_table {
    int32_t *values;
    size_t words;
};

struct vitis_layer {
    const char *name;
    const struct vitis_table *tables; /* in the order in which they are told */
    size_t table_count;
};

struct vitis_item;

struct vitis_launch {
    const char *kernel;
    const struct vitis_array *arrays;  /* the sources, then the outputs of the tasks */
    size_t array_count;
    const struct vitis_layer *layers;
    size_t layer_count;
    size_t given_width;                /* words of a record */
    size_t made_width, full_width;     /* and of one that is made, and that of everything */
    size_t most_given, most_made;      /* words a vector of any launch or stage */
    struct vitis_item *item;
    struct fabric *fabric;
    bool everything;                   /* is dumped */
    size_t warmup;                     /* executions that are still to be left out of the times */
    struct vitis_statistics {
        uint64_t executions;
        struct vitis_statistic {
            uint64_t sum_ns, least_ns, greatest_ns;
        } to_device, kernel, from_device;
    } times;
};

/* A stage of the proof: a part of one of the layers, whose inputs `given` stand side by side. */
struct vitis_stage {
    struct vitis_launch *launch;
    enum part part;
    size_t layer;
    const struct vitis_array *given;
    size_t given_count, given_width;
    struct vitis_array made;
};

struct vitis_item {
    const char *name;
    struct vitis_launch *const *launches;
    size_t launch_count;
    const char *out;  /* the folder for its times; NULL: nobody asks for times */
    char device[160]; /* what it runs on, in words */
};

/* The digest of the sources that the kernels must be made of, from the generated code. */
extern const uint32_t vitis_identity[IDENTITY_WORDS];

/* Opens the kernels, asks who they are, and for their constants. */
void vitis_open(struct vitis_item *item, const struct options *options);
void vitis_release(struct vitis_item *item);

/* Asks the item's kernels for their constants again. */
void vitis_fetch_tables(const struct vitis_item *item);

/* From the program's buffers to the launch's, and back; an array that is not there is left alone. */
void vitis_put(struct vitis_launch *launch, size_t array, const void *from, size_t vectors);
void vitis_run(struct vitis_launch *launch, size_t vectors);
void vitis_get(const struct vitis_launch *launch, size_t array, void *to, size_t vectors);

/* Passes vectors through a stage. */
void vitis_apply(const struct vitis_stage *stage, size_t vectors, const void *inputs, void *outputs);

const char *vitis_device(const struct vitis_item *item);

#endif
