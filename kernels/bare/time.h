/* The clock of host.h: with semihosting that of the host, whose times are not those of the processor; else SysTick. */
#ifndef TIME_H
#define TIME_H

struct timespec {
    long long tv_sec;
    long tv_nsec;
};

enum { CLOCK_MONOTONIC = 1, CLOCK_MONOTONIC_RAW = 4, SYSTICK = 5 }; /* one and the same here */

int clock_gettime(int clock, struct timespec *time);
int clock_getres(int clock, struct timespec *time);

#endif
