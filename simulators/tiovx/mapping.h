/* Buffers as kernels use them: what a callback may map, and touch. */
#ifndef MAPPING_H
#define MAPPING_H

#include "request.h"

/* All buffers that a request refers to must be unmapped when its callback has returned. */
void mapping_check_closed(const struct request *request);

/* Explains an access that was refused, if it was to a buffer: ends the process then. */
void mapping_explain(const uint8_t *address);

#endif
