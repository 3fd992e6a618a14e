/* What is asked of parts of the program: for the proof its constants, and its stages with inputs of the host's choice;
 * for the measurement what a reading costs.
 *
 * A stage is the code that the schedule runs, called by the main thread on the core of the stage's item.
 */
#ifndef PROBE_H
#define PROBE_H

#include "options.h"

/* How much was done: vectors passed through (or tables written), rows written. */
struct probed {
    size_t vectors;
    size_t rows;
};

/* Opens all items, so that each can tell what it runs on. */
void probe_devices(const struct options *options);

/* Writes every table to DIR/<name>.npy, after the items' init. */
struct probed probe_tables(const struct options *options);

/* Passes the vectors of --vectors through the stage, writes its outputs to DIR/<stage>.npy. */
struct probed probe_stage(const struct options *options);

/* Passes `--sweep COUNT` vectors through a stage of 4-byte inputs: the single one of --vectors, and after it ever
 * that of before with each value's bits, read as uint32, raised by one.
 *
 * Outputs of one byte are written to DIR/<stage>.npy as steps, uint32 (steps, 3): column, number of the vector, and
 * output, for the first vector and wherever a column's output is not that of the vector before; in the order of the
 * vectors.  They tell every output.  Where they become too many for a monotone stage the sweep ends early, and the
 * vectors returned are fewer than COUNT.
 * Other outputs are written as they are.
 */
struct probed probe_sweep(const struct options *options);

/* Takes 1 + `--readings N` readings one behind the other as item 0 would, on its core, with its priority; writes what
 * lies between each and the next to DIR/readings.npy, uint64 (N, 1), in ns or events.
 */
struct probed probe_readings(const struct options *options);

#endif
