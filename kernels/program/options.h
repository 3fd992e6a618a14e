/* The command line of the board program. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"

enum dump { DUMP_ALL, DUMP_LAST, DUMP_NONE };
enum generator { GENERATE_RANDOM, GENERATE_PAIRS }; /* generate.h */
enum time_scope { TIME_NONE, TIME_NETWORK, TIME_ITEM, TIME_LAYER };

enum { MOST_WINDOWS = 64 };

struct options {
    bool version;        /* print the handshake line and end */
    bool devices;        /* tell what the items run on and end */
    bool tables;         /* write the constants and end */
    const char *stage;   /* pass the vectors through this stage alone; NULL: through the network */
    const char *task;    /* pass them through the launch of this task alone, as the schedule does; NULL: no */
    size_t sweep;        /* vectors of a sweep through the stage; 0: those of the file */
    size_t readings;     /* take so many one behind the other, write their differences and end; 0: none */
    const char *vectors; /* .npy (vectors, input width): float32, of a stage as it reads them, of a launch bytes */
    size_t generated;    /* vectors that the program makes itself; 0: those of the file */
    enum generator generator;
    uint64_t generator_seed; /* or which arrangement of the pairs */
    const char *out;     /* an existing folder */
    enum dump dump;
    enum time_scope time;
    enum quantity quantity; /* what `time` is of */
    bool trace;
    size_t block;   /* vectors of an execution, or the most of one */
    bool random_block;   /* draw how many: from 1 to `block` */
    uint64_t block_seed;
    size_t executions;   /* pass all vectors again until there were so many; 0: once */
    size_t window;       /* then so many executions with the numbers from each of these on */
    size_t window_count;
    uint64_t window_first[MOST_WINDOWS];
    size_t every_size;     /* of a launch: then executions of each number of vectors from 1 to this; 0: none */
    uint64_t size_vectors; /* so many vectors of each number, at least one execution */
    size_t warmup;  /* executions of the first block that are not recorded */
    size_t repeat;  /* recorded executions of every block */
    int fifo;       /* SCHED_FIFO priority of the item threads, 0: leave as it is */
    bool lock_memory;       /* no page of the program may be taken from it */
    long dma_latency_us;    /* the longest wake-up from sleep that the processor may take; -1: as it is */
    int *core;      /* per item: the core that it is pinned to, -1: any */
    long *delay_us; /* per item: sleep before every task, for exploring interleavings */
    long random_delay_us; /* of all items: sleep up to so long before every step */
    long jitter_ns;       /* of all items: spin up to so long before every step */
    uint64_t random_seed; /* of both */
};

/* Exits with a message that lists the valid choices. */
struct options parse_options(int argc, char **argv);

#endif
