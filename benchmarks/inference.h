/* The generated networks that are timed; all compute the same. */
#ifndef INFERENCE_H
#define INFERENCE_H

#include "network.h"

extern const struct network *const networks[];
extern const size_t network_count;

#endif
