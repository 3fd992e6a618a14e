#define _GNU_SOURCE
#include "clock.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fail.h"

static enum quantity measured; /* constant once threads run */
static _Thread_local int counter;

static const uint64_t EVENTS[] = {[READ_INSTRUCTIONS] = PERF_COUNT_HW_INSTRUCTIONS, [READ_CYCLES] = PERF_COUNT_HW_CPU_CYCLES};
static const char *const NAMES[] = {[READ_INSTRUCTIONS] = "instructions", [READ_CYCLES] = "cycles"};

void meter_choose(enum quantity quantity)
{
    measured = quantity;
}

void meter_open(void)
{
    if (measured != READ_INSTRUCTIONS && measured != READ_CYCLES)
        return;
    struct perf_event_attr event = {
        .type = PERF_TYPE_HARDWARE, .size = sizeof event, .config = EVENTS[measured], .pinned = 1,
        .exclude_kernel = 1, .exclude_hv = 1};
    counter = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);
    if (counter < 0)
        fail_errno(EXIT_SYSTEM, "this processor or kernel does not count", NAMES[measured]);
}

static uint64_t usage_ns(void)
{
    struct timespec whole;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &whole);
    if (measured == READ_CPU)
        return (uint64_t)whole.tv_sec * 1000000000u + (uint64_t)whole.tv_nsec;
    struct rusage usage; /* which Linux brings up to date for that clock, and else at its ticks alone */
    getrusage(RUSAGE_THREAD, &usage);
    const struct timeval *time = measured == READ_USER ? &usage.ru_utime : &usage.ru_stime;
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_usec * 1000u;
}

uint64_t meter_read(void)
{
    if (measured == READ_TIME)
        return clock_read();
    if (measured == READ_CPU || measured == READ_USER || measured == READ_SYSTEM)
        return usage_ns();
    uint64_t count;
    errno = EBUSY; /* of a pinned counter whose turn another has taken there is nothing to read */
    if (read(counter, &count, sizeof count) != sizeof count)
        fail_errno(EXIT_SYSTEM, "cannot count", NAMES[measured]);
    return count;
}

uint64_t meter_difference(uint64_t begin, uint64_t end)
{
    if (end < begin)
        fail(EXIT_SYSTEM, "the %s went backwards, from %" PRIu64 " to %" PRIu64,
             measured == READ_TIME ? "clock" : "counter", begin, end);
    return measured == READ_TIME ? clock_ns(end) - clock_ns(begin) : end - begin;
}
