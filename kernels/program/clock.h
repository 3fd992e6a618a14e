/* The quantity read before and after a step: the clock TIME_SOURCE, or a counter of the processor.
 *
 * Readings of a clock are converted to nanoseconds after the measurement: a division would disturb it.
 * CNTVCT is the generic timer of Armv8-A, read directly; the barrier before it keeps readings in order.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define CNTVCT (-1)

#if TIME_SOURCE == CNTVCT
#ifndef __aarch64__
#error "time_source: CNTVCT is a counter of Armv8-A; the others are CLOCK_MONOTONIC_RAW and CLOCK_MONOTONIC"
#endif

static inline uint64_t clock_read(void)
{
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
}

static inline uint64_t clock_frequency(void)
{
    uint64_t ticks_per_s;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(ticks_per_s));
    return ticks_per_s;
}

static inline uint64_t clock_ns(uint64_t reading)
{
    const uint64_t frequency = clock_frequency();
    return reading / frequency * 1000000000u + reading % frequency * 1000000000u / frequency;
}

/* Resolution of the clock by its own statement. */
static inline double clock_resolution_ns(void)
{
    return 1e9 / (double)clock_frequency();
}

#else

static inline uint64_t clock_read(void)
{
    struct timespec time;
    clock_gettime(TIME_SOURCE, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline uint64_t clock_ns(uint64_t reading)
{
    return reading;
}

static inline double clock_resolution_ns(void)
{
    struct timespec time;
    clock_getres(TIME_SOURCE, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

#endif

/* The quantity of a reading: the clock, a counter of the calling thread in user space, or the processor time of
 * this thread in ns: all of it, in user space, or in the kernel.  Linux divides all of it by the states that it finds at
 * its ticks, those of the readings included: user and system time are those of steps that are long against both. */
enum quantity { READ_TIME, READ_INSTRUCTIONS, READ_CYCLES, READ_CPU, READ_USER, READ_SYSTEM };

/* Selects the quantity that all threads read; call it before they start. */
void meter_choose(enum quantity quantity);

/* Opens the counter of the calling thread, if it needs one.  Exits with a message where the system has none. */
void meter_open(void);

/* A reading of what the calling thread has opened. */
uint64_t meter_read(void);

/* Returns the difference of two readings, in ns or in events.  Exits with a message if the later one is less. */
uint64_t meter_difference(uint64_t begin, uint64_t end);

#endif
