/* What the generated network.c tells the board program: layers, items, schedule.  All tables are constant. */
#ifndef NETWORK_H
#define NETWORK_H

#include <stddef.h>

/* One operator of the model and the buffer that it writes, (block capacity, width). */
struct layer {
    const char *name;             /* the stem of its dump: <index>_<name>.npy */
    const char *descr;            /* NumPy's name of the element type, e.g. "|u1" */
    size_t width;                 /* elements per vector */
    size_t element_size;          /* bytes */
    const void *output;           /* written by this layer's item alone */
    void (*forward)(size_t vectors);
};

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
};

extern const struct network network;

#endif
