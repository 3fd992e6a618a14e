#include "perf.h"

#include <time.h>

uint64_t now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_nsec / 1000u;
}

void perf_reset(vx_perf_t *perf)
{
    *perf = (vx_perf_t){.min = UINT64_MAX};
}

void perf_add(vx_perf_t *perf, uint64_t begin_us, uint64_t end_us)
{
    perf->beg = begin_us * 1000u;
    perf->end = end_us * 1000u;
    perf->tmp = perf->end - perf->beg;
    perf->sum += perf->tmp;
    perf->num += 1;
    perf->avg = perf->sum / perf->num;
    perf->min = perf->tmp < perf->min ? perf->tmp : perf->min;
    perf->max = perf->tmp > perf->max ? perf->tmp : perf->max;
}
