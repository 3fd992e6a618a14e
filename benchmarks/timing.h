/* The clock and the core of the benchmarks; include it first, as it asks for GNU's extensions. */
#ifndef TIMING_H
#define TIMING_H

#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "fail.h"

static inline void pin(const char *core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(core), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail_errno(EXIT_SYSTEM, "cannot pin to core", core);
}

static inline uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#endif
