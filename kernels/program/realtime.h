/* Reduces interference by the operating system during a measurement, and counts what remained. */
#ifndef STEADY_H
#define STEADY_H

#include <stdbool.h>

#include "options.h"

/* Effects of --lock-memory and --dma-latency; a refusal by the system is printed on standard error, without failure. */
struct steadiness {
    bool memory_locked;
    bool dma_latency_held; /* until the program ends */
};

/* Counts of all threads since the program began. */
struct disturbances {
    long voluntary_switches, involuntary_switches; /* of a thread that waits; of one that is made to */
    long minor_faults, major_faults;               /* of pages that memory holds; that a disk does */
};

struct steadiness steady_begin(const struct options *options);

struct disturbances steady_disturbances(void);

/* The most memory that the program has had resident, KiB; -1 where the system does not say. */
long steady_peak_memory_kib(void);

/* Moves the calling thread to a core, unless it is -1, and gives it a SCHED_FIFO priority, unless it is 0; exits with a
 * message where the system refuses. */
void steady_move(int core, int fifo);

#endif
