/* One contender of the comparison with its peers: what worker.c times. */
#ifndef WORKER_H
#define WORKER_H

#include <stddef.h>

struct contender {
    size_t input_width, output_width;
    void (*run)(const float *vector); /* one inference of a copy of this vector */
    const float *output;              /* where `run` leaves its result */
};

/* Makes the contender ready; `arguments`, of which the last is NULL, are its own.  Exits with a message on failure. */
struct contender contender_open(char **arguments);

#endif
