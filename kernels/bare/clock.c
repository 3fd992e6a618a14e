#include "clock.h"

#include <inttypes.h>

#include "fail.h"
#include "host.h"

enum { NS_PER_S = 1000000000 };

static struct timespec time_of(uint64_t ticks)
{
    const uint64_t frequency = host_frequency();
    return (struct timespec){(long long)(ticks / frequency), (long)(ticks % frequency * NS_PER_S / frequency)};
}

int clock_gettime(int clock, struct timespec *time)
{
    (void)clock;
    *time = time_of(host_elapsed());
    return 0;
}

int clock_getres(int clock, struct timespec *time)
{
    (void)clock;
    *time = time_of(1);
    return 0;
}

void meter_choose(enum quantity quantity)
{
    if (quantity != READ_TIME)
        fail(EXIT_USAGE, "--count: an emulated processor without an operating system has no counters");
}

void meter_open(void)
{
}

uint64_t meter_read(void)
{
    return clock_read();
}

uint64_t meter_difference(uint64_t begin, uint64_t end)
{
    if (end < begin)
        fail(EXIT_SYSTEM, "the clock went backwards, from %" PRIu64 " to %" PRIu64, begin, end);
    return end - begin;
}
