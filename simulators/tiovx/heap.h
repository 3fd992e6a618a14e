/* Memory of kernels' instances: it ends where a page does, pages before and behind it are closed. */
#ifndef HEAP_H
#define HEAP_H

#include <stdint.h>

/* Checks the allocations of an instance: its context is one of them, with its size; no other is left. */
void heap_check_context(const void *instance, const void *context, uint32_t bytes);
void heap_check_freed(const void *instance);

/* Explains an access that was refused, if it was to such memory: ends the process then. */
void heap_explain(const uint8_t *address);

#endif
