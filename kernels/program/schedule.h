/* The static schedule: one thread an item, barriers and flags exactly where the plan put them.
 *
 * An execution is the passage of a block of vectors through the network.  A tick passes through four phases: the main
 * thread fills the inputs; all items are released at once; every item walks through its steps; all items meet the
 * main thread again, which may then read every buffer.  In a pipeline a step of stage s works on the execution that
 * began s ticks ago; without one a tick is an execution.  No branch depends on data.
 *
 * The questions of the proof run on the same threads: see schedule_call.
 */
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "network.h"
#include "options.h"

/* Readings before and after a step of an item (clock.h); NOT_BEGUN and 0 where it was not read. */
struct interval {
    uint64_t begin;
    uint64_t end;
};

#define NOT_BEGUN UINT64_MAX

/* One passage of a block through the network; with no vectors it is none. */
struct execution {
    uint64_t index; /* warm-ups included; it does not restart where size_t has 32 bits */
    size_t vectors;
};

/* The floating-point control register of an item's thread when it started, and before it ended. */
struct fp_values {
    uint64_t before, after;
};

/* Initialises the items and starts their threads; the last place that allocates memory. */
void schedule_start(const struct options *options);

/* Starts the next execution, or none with 0 vectors; returns when every stage has done its part of its execution. */
void schedule_run_tick(size_t vectors);

/* The next execution has this number, and none is under way. */
void schedule_continue_from(uint64_t execution);

/* Calls `function` on the thread of an item, instead of the item's steps; returns when it has returned. */
void schedule_call(size_t item, void (*function)(void *argument), void *argument);

/* Returns the execution that a stage computed in the last tick. */
struct execution schedule_execution(size_t stage);

/* The stage of a step. */
size_t schedule_stage(const struct step *step);

/* The intervals of the last tick, one for each step of `item`; only with --time, --trace or --jitter-ns.
 *
 * To time the network as a whole, an item reads the clock before the first of its tasks and after the last alone. */
const struct interval *schedule_intervals(size_t item);

/* Returns whether tasks of two items overlapped in time in the last tick; only with --trace or --jitter-ns. */
bool schedule_overlapped(void);

/* Ends the threads and closes the items. */
void schedule_stop(void);

/* After schedule_stop: what the floating-point environment of an item's thread was. */
struct fp_values schedule_fp_values(size_t item);

#endif
