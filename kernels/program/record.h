/* Output files of a run: dumps, times, trace.  All files are opened before the first block. */
#ifndef RECORD_H
#define RECORD_H

#include "options.h"

/* Creates DIR/<index>_<layer>.npy, DIR/time.npy, DIR/trace.jsonl, as the options ask. */
void record_open(const struct options *options, size_t vectors, size_t samples);

/* Writes what the last tick has brought of executions that are no warm-ups.
 *
 * Of the last repetition of a block every layer's activations; of every execution that has ended one row of durations
 * in ns, or of events: the network's, or each item's (sum of its layers), or each layer's (sum of its tasks); of every
 * step of every item one line of the trace.
 */
void record_tick(void);

/* Description of the first difference when all vectors were passed again; empty: none. */
const char *record_fault(void);

void record_close(void);

#endif
