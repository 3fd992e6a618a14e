/* What the generated network.c tells the board program: layers, items, schedule.  All tables are constant. */
#ifndef NETWORK_H
#define NETWORK_H

#include <stddef.h>

/* The code between its inputs and outputs is one piece of machine code, which the schedule and the proof both call:
 * it is neither inlined, nor is there a copy for known arguments. */
#if defined(__clang__)
#define ONE_CODE __attribute__((noinline))
#else
#define ONE_CODE __attribute__((noipa))
#endif

/* One operator of the model and the buffer that it writes, (block capacity, width). */
struct layer {
    const char *name;             /* the stem of its dump: <index>_<name>.npy */
    const char *descr;            /* NumPy's name of the element type, e.g. "|u1" */
    size_t width;                 /* elements per vector */
    size_t element_size;          /* bytes */
    const void *output;           /* written by this layer's item alone */
    void (*forward)(size_t vectors);
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

/* The `apply` of a stage whose code NAME takes one vector. */
#define DEFINE_STAGE(NAME, INPUT, INPUT_WIDTH, OUTPUT, OUTPUT_WIDTH)                                   \
    static void NAME##_stage(size_t vectors, const void *inputs, void *outputs)                        \
    {                                                                                                  \
        const INPUT *in = inputs;                                                                      \
        OUTPUT *out = outputs;                                                                         \
        for (size_t v = 0; v < vectors; ++v)                                                           \
            NAME(&in[v * INPUT_WIDTH], &out[v * OUTPUT_WIDTH]);                                        \
    }

/* As above, of a layer with two sources: a vector of the stage is one of the first, then one of the second. */
#define DEFINE_STAGE_OF_TWO(NAME, INPUT, INPUT_WIDTH, OUTPUT, OUTPUT_WIDTH)                            \
    static void NAME##_stage(size_t vectors, const void *inputs, void *outputs)                        \
    {                                                                                                  \
        const INPUT *in = inputs;                                                                      \
        OUTPUT *out = outputs;                                                                         \
        for (size_t v = 0; v < vectors; ++v)                                                           \
            NAME(&in[2 * v * INPUT_WIDTH], &in[(2 * v + 1) * INPUT_WIDTH], &out[v * OUTPUT_WIDTH]);    \
    }

struct step {
    enum { STEP_LAYER, STEP_BARRIER } kind;
    size_t index; /* into network.layers or network.barriers */
};

/* The part of the model given to one processing element; it runs as one thread. */
struct item {
    const char *name;
    const char *target;
    void (*init)(void);
    void (*close)(void);
    const struct step *steps;
    size_t step_count;
};

/* A hand-over between the items that cross it. */
struct barrier {
    const char *name;
    unsigned parties;
};

struct network {
    const char *model;
    size_t block_capacity; /* vectors that every buffer holds */
    size_t input_width;
    float *input;          /* (block capacity, input_width), written by the main thread between blocks */
    const struct layer *layers;
    size_t layer_count;
    const struct item *items;
    size_t item_count;
    const struct barrier *barriers;
    size_t barrier_count;
    const struct table *tables;
    size_t table_count;
    const struct stage *stages;
    size_t stage_count;
};

extern const struct network network;

#endif
