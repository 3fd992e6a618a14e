/* Times as TIOVX gives them: nanoseconds, of which it knows whole microseconds. */
#ifndef PERF_H
#define PERF_H

#include <VX/vx.h>

uint64_t now_us(void);

/* Nothing measured yet, and one more measurement. */
void perf_reset(vx_perf_t *perf);
void perf_add(vx_perf_t *perf, uint64_t begin_us, uint64_t end_us);

#endif
