/* Nothing disturbs a program that has the processor to itself. */
#include "realtime.h"

struct steadiness steady_begin(const struct options *options)
{
    (void)options;
    return (struct steadiness){false, false};
}

struct disturbances steady_disturbances(void)
{
    return (struct disturbances){0, 0, 0, 0};
}

long steady_peak_memory_kib(void)
{
    return -1;
}

void steady_move(int core, int fifo)
{
    (void)core, (void)fifo;
}
