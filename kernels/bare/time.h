/* The clock of the host that emulates this processor; its times are not those of the processor. */
#ifndef TIME_H
#define TIME_H

struct timespec {
    long long tv_sec;
    long tv_nsec;
};

enum { CLOCK_MONOTONIC = 1, CLOCK_MONOTONIC_RAW = 4 }; /* one and the same here */

int clock_gettime(int clock, struct timespec *time);
int clock_getres(int clock, struct timespec *time);

#endif
