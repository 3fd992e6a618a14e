/* Arguments of the kernel of decide.cu.  All pointers are to the GPU's memory, also those within structs. */
#ifndef DECIDE_GPU_H
#define DECIDE_GPU_H

#include "decide.h"

enum { DECIDE_GPU_THREADS = 256, DECIDE_GPU_SAMPLES = 2048 };

typedef struct {
    DecideNetwork network;
    DecideBox box;
    DecideRegions regions;           /* a multiple of four bytes */
    int32_t axes, shape[DECIDE_AXES]; /* codes of a batch along each axis, at most DECIDE_GPU_SAMPLES together */
    uint64_t batches;                 /* of the box */
    const int32_t *planes;            /* (layers,): 1 where all weights fit int8, otherwise 3 */
    unsigned long long *count;        /* samples are added */
} DecideGpuJob;

#endif
