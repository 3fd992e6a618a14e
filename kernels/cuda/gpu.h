/* An item's part on the GPU: its memory, its launches, its answers to the proof.
 *
 * A launch computes tasks that stand side by side in the item's schedule: their sources are copied to the GPU, kernels
 * run, what others read is copied back.  All of it is one CUDA graph, made by gpu_open for the block of the run and
 * replayed at each execution; a block with fewer vectors, the last of a file, takes the same steps one by one.
 * All memory is allocated by gpu_open.
 *
 * Every item has its own stream.  What launches of GPU items exchange stays in the memory of the GPU; events order it:
 *
 *     stream of the writer   wait(reader.ended)  writer  record(writer.ended)
 *     stream of the reader                                 wait(writer.ended)  reader  record(reader.ended)
 *
 * The reader waits for the writer of this execution, the writer for the readers of the execution before, which then
 * have read what it overwrites.  The hand-overs of the schedule order the calls of the threads, so that each wait finds
 * the record that it is meant for.  A launch without results for the processor does not wait for the GPU, unless each
 * step is timed or traced: gpu_finish does so when the block ends.
 */
#ifndef GPU_H
#define GPU_H

#include <stdbool.h>
#include <stddef.h>

#include "driver.h"
#include "options.h"
#include "part.h"

/* The role of an activation in a launch. */
enum gpu_role {
    GPU_SOURCE,     /* copied to the GPU before the kernels */
    GPU_RESULT,     /* copied back: the processor reads it */
    GPU_HANDED,     /* only launches on the GPU read it, there; copied back only for dumps of all layers and the proof */
    GPU_TAKEN,      /* what another launch has left on the GPU; copied to it only for the proof, which gives it */
    GPU_JOINED,     /* made of taken ones by a kernel; never copied */
    GPU_BETWEEN,    /* of two kernels; copied back only for dumps of all layers */
    GPU_WITHIN,     /* of one kernel, which writes it to memory only for dumps of all layers */
};

/* Memory that several launches use: one writes it, the others take it. */
struct gpu_shared {
    size_t users; /* arrays that are open */
    CUdeviceptr device;
};

struct gpu_array {
    enum gpu_role role;
    size_t bytes;          /* of a vector */
    struct gpu_shared *shared; /* NULL: no other launch uses its memory */
    CUdeviceptr device;    /* 0: nobody asks for it */
    void *pinned;          /* the same in memory of the host that the GPU can reach; NULL: it is not copied */
};

struct gpu_kernel {
    const char *name;
    size_t outputs; /* of a vector, a thread each; 0: blocks of threads carry vectors, see fused.cuh */
    const size_t *arguments; /* indices of arrays; before them it takes the number of vectors, behind them the part
                              * that is asked for, what is given for it, what is made, and of which layer */
    size_t argument_count;
    unsigned threads;   /* of a block */
    size_t tile_words;  /* of shared memory, four bytes each, for each vector that a block has room for */
    size_t other_words; /* of a block */
    CUfunction function;
};

/* Times of a launch by the GPU's own events, copies included, warm-ups excluded. */
struct gpu_times {
    bool wanted;
    size_t warmup; /* executions that are still to be left out */
    CUevent begin, end;
    uint64_t executions, sum_ns, least_ns, greatest_ns;
};

struct gpu_launch {
    const char *name;
    struct gpu_array *arrays;
    size_t array_count;
    struct gpu_kernel *kernels;
    size_t kernel_count;
    struct gpu_launch *const *awaited; /* of other items: those that write what it takes, and that take what it writes;
                                        * NULL behind the last; NULL: there are none */
    CUstream stream;
    CUevent ended; /* recorded behind each execution, where others await it */
    bool waits;    /* for the GPU: its results are read when gpu_run returns */
    bool ran;
    size_t block; /* vectors of the graph */
    CUgraphExec graph;
    struct gpu_times times;
};

/* A constant in the GPU's memory, and its copy for the proof, read back by gpu_open. */
struct gpu_table {
    const char *name;
    void *values;
    size_t bytes;
};

/* A stage: what a kernel of a launch does of one of its layers. */
struct gpu_stage {
    struct gpu_launch *launch;
    size_t kernel; /* of the launch */
    unsigned layer; /* of the kernel */
    enum part part;
    struct gpu_array arrays[2]; /* inputs and outputs */
};

struct gpu_item {
    const char *name;
    struct gpu_launch *const *launches;
    size_t launch_count;
    const struct gpu_table *tables;
    size_t table_count;
    CUstream stream;
    const char *out; /* the folder for times_<item>.jsonl; NULL: no times are wanted */
};

/* Code for one kind of GPU, as the compiler left it. */
struct gpu_image {
    int arch; /* 72 for sm_72; of PTX the oldest that can run it */
    bool ptx;
    const void *begin;
};

/* The generated code defines these. */
extern const struct gpu_image gpu_images[]; /* PTX last */
extern const size_t gpu_image_count;
extern const unsigned gpu_wait;    /* CU_CTX_SCHED_... */
extern const unsigned gpu_carried; /* the most vectors to a block of threads, a power of two */

/* Opens the GPU if no item has yet, tests that it computes the specification, allocates, makes the graphs. */
void gpu_open(struct gpu_item *item, const struct options *options);
void gpu_release(struct gpu_item *item);

/* Reads the item's tables again from the GPU. */
void gpu_fetch_tables(const struct gpu_item *item);

/* From the host's memory to the launch's, and back; nothing is done for an array that is not copied, and nothing is got
 * of a launch that never ran. */
void gpu_put(struct gpu_launch *launch, size_t array, const void *from, size_t vectors);
void gpu_get(const struct gpu_launch *launch, size_t array, void *to, size_t vectors);

/* Computes; returns when the results are there, or without any for the processor at once. */
void gpu_run(struct gpu_launch *launch, size_t vectors);

/* Returns when all launches of the item have ended: those that have no results for the processor can be got then. */
void gpu_finish(const struct gpu_item *item);

/* Passes vectors through a stage. */
void gpu_apply(struct gpu_stage *stage, size_t vectors, const void *inputs, void *outputs);

/* Description of the device: the GPU, its driver, the loaded code. */
const char *gpu_device(void);

#endif
