/* The static schedule: one thread an item, barriers exactly where the plan put them.
 *
 * A block of vectors passes through four phases: the main thread fills network.input; all items are
 * released at once; every item walks through its steps, crossing the barriers of the plan; all items meet the
 * main thread again, which may then read every buffer.  No branch depends on data.
 */
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include <stdint.h>

#include "network.h"
#include "options.h"

/* When a step of an item ran, on the clock of TIME_SOURCE. */
struct interval {
    uint64_t begin_ns;
    uint64_t end_ns;
};

/* Initialises the items and starts their threads; the last place that allocates memory. */
void schedule_start(const struct options *options);

/* Executes one block; returns when all items have finished it. */
void schedule_run_block(size_t vectors);

/* The intervals of the last block, one for each step of `item`; only with --time or --trace. */
const struct interval *schedule_intervals(size_t item);

/* Ends the threads and closes the items. */
void schedule_stop(void);

#endif
