/* What a run leaves behind: dumps, times, trace.  All files are opened before the first block. */
#ifndef RECORD_H
#define RECORD_H

#include "options.h"

/* Creates DIR/<index>_<layer>.npy, DIR/time.npy, DIR/trace.jsonl, as the options ask. */
void record_open(const struct options *options, size_t vectors, size_t samples);

/* Appends every dumped layer's buffer. */
void record_dumps(size_t vectors);

/* Appends one row of durations in ns: the network, or each item (sum of its layers), or each layer. */
void record_times(enum time_scope scope);

/* Appends one line for every step of every item. */
void record_trace(size_t block, size_t repetition);

void record_close(void);

#endif
