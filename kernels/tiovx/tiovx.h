/* An item's part on another core of the TDA4VM, under TIOVX: its graphs, its memory, its answers to the proof.
 *
 * A launch computes tasks that stand side by side in the item's schedule: it is one OpenVX graph, a node for each task,
 * whose tensors hold a block of vectors, a row for each.  At each execution the sources are copied into tensors, the
 * graph is processed, what others read is copied out.  All memory is allocated by tiovx_open, through TIOVX, so that
 * the core can reach it.
 */
#ifndef TIOVX_H
#define TIOVX_H

#include <stdbool.h>
#include <stddef.h>

#include <TI/tivx.h>

#include "options.h"
#include "protocol.h"
#include "watchdog.h"

/* An activation, or what a stage reads or writes. */
struct tiovx_array {
    const char *name;
    vx_enum type;
    size_t element;     /* bytes */
    size_t width;       /* elements of a vector */
    bool wanted;        /* by others than the launch: it is copied out whatever is dumped */
    bool copied;        /* is it; known after tiovx_open */
    vx_tensor tensor;
};

/* A part of a layer's constants; after tiovx_open `values` are what the core reads, fetched from there. */
struct tiovx_part {
    void *values;
    size_t bytes; /* 0: the layer has none */
};

/* A layer. */
struct tiovx_node {
    const char *name;
    const char *kernel;
    struct head *head;
    const struct tiovx_part *parts; /* PARTS of them */
    size_t sources[SOURCES], source_count, result; /* indices of arrays */
    vx_user_data_object constants;
    vx_node node;
};

struct tiovx_launch {
    const char *name;
    struct tiovx_array *arrays;
    size_t array_count;
    struct tiovx_node *nodes;
    size_t node_count;
    struct tiovx_item *item;
    vx_scalar vectors;
    vx_graph graph;
};

/* A stage: what a kernel of a launch does of its layer when it is asked by a command. */
struct tiovx_stage {
    struct tiovx_launch *launch;
    size_t node;
    enum command command;
    struct tiovx_array sources[SOURCES], result; /* what it reads, side by side, and what it writes */
    size_t source_count;
    size_t rows;                /* of their tensors; 0: there are none yet */
    struct tiovx_stage *next;   /* of those that have been asked */
};

struct tiovx_item {
    struct watch watch;  /* knows item, core and time-out of one execution */
    struct tiovx_launch *const *launches;
    size_t launch_count;
    struct tiovx_stage *asked; /* the stages that have tensors */
    struct tiovx_item *next;   /* of those that are open */
    const char *out;     /* the folder for the times of its nodes; NULL: nobody asks for times */
    char device[128];    /* what it runs on, in words */
};

/* The kernels as part of the program, for the core that it runs on itself; the generated code defines them. */
struct tiovx_kernels {
    int (*add)(const char *core);
    int (*remove)(void);
};
extern const struct tiovx_kernels tiovx_own_kernels; /* NULLs where no item is there */

/* Starts TIOVX if no item has, makes the graphs, asks the core for its kernels; exits with what to do otherwise. */
void tiovx_open(struct tiovx_item *item, const struct options *options);
void tiovx_release(struct tiovx_item *item);

/* Reads the item's tables again from where the core reads them. */
void tiovx_fetch_tables(const struct tiovx_item *item);

/* From the host's memory to the launch's, and back; nothing is done for an array that is not copied. */
void tiovx_put(struct tiovx_launch *launch, size_t array, const void *from, size_t vectors);
void tiovx_get(struct tiovx_launch *launch, size_t array, void *to, size_t vectors);

/* Computes; returns when the results are there. */
void tiovx_run(struct tiovx_launch *launch, size_t vectors);

/* Passes vectors through a stage. */
void tiovx_apply(struct tiovx_stage *stage, size_t vectors, const void *inputs, void *outputs);

/* Description of the device: TIOVX, the core, its kernels. */
const char *tiovx_device(const struct tiovx_item *item);

#endif
