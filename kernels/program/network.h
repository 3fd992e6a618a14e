/* Interface of the generated network.c: layers, items, schedule.  All tables are constant. */
#ifndef NETWORK_H
#define NETWORK_H

#include <stddef.h>
#include <stdint.h>

struct options;

/* The code between its inputs and outputs is one piece of machine code, which the schedule and the proof both call:
 * it is neither inlined, nor is there a copy for known arguments. */
#if defined(__clang__)
#define ONE_CODE __attribute__((noinline))
#else
#define ONE_CODE __attribute__((noipa))
#endif

/* Some columns of a layer, or all of them, computed by one item: the same ones of each of `runs` runs of the layer's
 * columns, such as the rows of every channel.
 *
 * The buffer has `copies` of (block capacity, width) elements, one behind the other: execution e writes copy
 * e % copies.  Nobody else writes it.
 */
struct task {
    const char *name;
    size_t width;         /* columns */
    size_t runs;          /* into which they are divided evenly, one behind the other */
    void *buffer;
    size_t copies;
    size_t stage;         /* of the pipeline: at tick t it works on execution t - stage */
    size_t layer;         /* into network.layers */
    void (*forward)(size_t vectors, uint64_t execution);
};

/* One operator of the model; its activations are those of its tasks, side by side in every run. */
struct layer {
    const char *name;             /* the stem of its dump: <index>_<name>.npy */
    const char *descr;            /* NumPy's name of the element type, e.g. "|u1" */
    size_t width;                 /* elements per vector */
    size_t element_size;          /* bytes */
    const struct task *tasks;
    size_t task_count;
};

/* An input of the network. */
struct network_input {
    const char *name;
    const char *descr;            /* as of a layer */
    size_t width;                 /* elements per vector */
    size_t element_size;          /* bytes */
    void *values;                 /* (block capacity, width), written by the main thread between ticks */
};

/* Tasks that their item computes together, one behind the other: on an accelerator the forward of the first computes
 * all, otherwise there is one task.  The proof gives a launch its sources and reads its outputs. */
struct launch {
    size_t item;
    const size_t *sources; /* tasks whose buffers it reads and does not write; from task_count on: inputs of the network */
    size_t source_count;
    const struct launched {
        size_t task;
        int wanted;        /* whether something outside the launch reads its buffer: it is written in every mode */
    } *tasks;              /* in the order of the item's schedule */
    size_t task_count;
};

/* A constant as the code reads it, (rows, columns) in C order; one that is computed is so after its item's init. */
struct table {
    const char *name;   /* unique: the stem of its file */
    const char *descr;  /* as above */
    size_t rows, columns;
    size_t element_size;
    const void *values;
};

/* A part of a layer that the proof calls by itself: the very code that `forward` runs. */
struct stage {
    const char *name;         /* unique: the stem of its file */
    size_t item;              /* of the layer */
    const char *input_descr;
    size_t input_width, input_size;   /* elements per vector, bytes per element */
    const char *output_descr;
    size_t output_width, output_size;
    void (*apply)(size_t vectors, const void *inputs, void *outputs); /* at most the block capacity */
};

/* Copies a vector, and fills up to `padded` bytes with zeros: for stages whose vectors are padded. */
void copy_padded(void *to, const void *from, size_t bytes, size_t padded);

/* The `apply` of a stage whose code NAME takes one vector.  It only calls: the proof checks that it reads and writes no
 * vector itself, so that what it answers is what the stage has computed.
 */
#define DEFINE_STAGE(NAME, INPUT, INPUT_WIDTH, OUTPUT, OUTPUT_WIDTH)                                   \
    static void NAME##_stage(size_t vectors, const void *inputs, void *outputs)                        \
    {                                                                                                  \
        const INPUT *in = inputs;                                                                      \
        OUTPUT *out = outputs;                                                                         \
        for (size_t v = 0; v < vectors; ++v)                                                           \
            NAME(&in[v * (size_t)(INPUT_WIDTH)], &out[v * (size_t)(OUTPUT_WIDTH)]);                    \
    }

struct step {
    enum { STEP_TASK, STEP_RAISE, STEP_WAIT, STEP_MEET } kind;
    size_t index; /* into network.tasks or network.hand_overs */
};

/* The part of the model given to one processing element; it runs as one thread. */
struct item {
    const char *name;
    const char *target;
    void (*init)(const struct options *options);
    void (*close)(void);
    void (*finish)(size_t vectors); /* of the execution: behind the last step, waits for what tasks have left to a device
                                     * and fetches it; NULL: they wait for it themselves */
    void (*reread)(void);        /* reads its tables again from where the code reads them; NULL: it reads them itself */
    const char *(*device)(void); /* what it runs on, in words, once it is open; NULL: on the processor */
    const struct step *steps;
    size_t step_count;
};

/* A synchronisation that orders a task of one item before tasks of others, once per execution; none in a pipeline.
 *
 * All parties wait at a barrier; a flag is set by its writer, and the readers wait for it.
 */
struct hand_over {
    const char *name;
    unsigned parties;
};

struct network {
    const char *model;
    size_t block_capacity; /* vectors that every buffer holds */
    const struct network_input *inputs;
    size_t input_count;
    size_t depth;          /* of the pipeline: stages, 1 if there is none */
    const struct layer *layers;
    size_t layer_count;
    const struct task *tasks; /* of all layers, in their order */
    size_t task_count;
    const struct item *items;
    size_t item_count;
    const struct hand_over *hand_overs;
    size_t hand_over_count;
    const struct table *tables;
    size_t table_count;
    const struct stage *stages;
    size_t stage_count;
    const struct launch *launches;
    size_t launch_count;
};

extern const struct network network;

#endif
