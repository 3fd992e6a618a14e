/* Queries to parts of the program: for the proof its constants, its stages and its launches with inputs of the
 * host's choice; for the measurement the cost of a reading.
 *
 * A stage is the code that the schedule runs; a launch is run with the buffers that the schedule uses, too.  A stage on
 * the processor reads and writes the buffers that the schedule passes to it, or an array on the stack of its thread.
 * Both are called on the thread of their item, with its core and its priority, and their outputs hold zeros, ones,
 * random bytes and former outputs before they are written.
 */
#ifndef PROBE_H
#define PROBE_H

#include "options.h"

/* Counts of completed work: vectors passed through (or tables written), rows written, executions of a launch; and the
 * fault that the program detected in itself, as text. */
struct probed {
    size_t vectors;
    size_t rows;
    uint64_t executions;
    char fault[256];
};

/* A question to a program whose schedule has been started. */
typedef struct probed probe_function(const struct options *options);

/* Opens all items, so that each can tell what it runs on; before the schedule is started. */
void probe_devices(const struct options *options);

/* Writes every table to DIR/<name>.npy, after the items' init. */
probe_function probe_tables;

/* Passes the vectors of --vectors, or generated ones, through the stage, writes its outputs to DIR/<stage>.npy. */
probe_function probe_stage;

/* Passes vectors through the launch that --task begins, by the functions that the schedule calls, in its buffers.
 *
 * A vector is a row of bytes: those of each source of the launch, one behind the other.  Each task that is dumped, with
 * --dump last each that something outside the launch reads, writes its output to DIR/<task>.npy.  With --executions
 * the vectors pass again until there were so many executions, and each output must be the one of the first time.  With
 * `--windows EXECUTIONS:FIRST,...` so many more executions follow from each number FIRST on, and with
 * `--every-size N:VECTORS` one of each number of vectors from 1 to N, or several with at least VECTORS together.
 * Every buffer of the program holds a pattern wherever this execution has nothing to read or write: a change of the
 * pattern, or of a source, is a fault.  With --tables all tables are read again at the end, and written.
 */
probe_function probe_task;

/* Passes `--sweep COUNT` vectors through a stage of 4-byte inputs: the single one of --vectors, and after it ever
 * that of before with each value's bits, read as uint32, raised by one.
 *
 * Outputs of one byte are written to DIR/<stage>.npy as steps, uint32 (steps, 3): column, number of the vector, and
 * output, for the first vector and wherever a column's output is not that of the vector before; in the order of the
 * vectors.  They tell every output.  Where they become too many for a monotone stage the sweep ends early, and the
 * vectors returned are fewer than COUNT.
 * Other outputs are written as they are.
 */
probe_function probe_sweep;

/* Takes 1 + `--readings N` readings one behind the other as item 0 would, on its core, with its priority; writes what
 * lies between each and the next to DIR/readings.npy, uint64 (N, 1), in ns or events.
 */
size_t probe_readings(const struct options *options);

#endif
