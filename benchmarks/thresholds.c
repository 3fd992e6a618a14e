/* The two searches of kernels/c/integer/thresholds.h over many sums; see thresholds.py. */
#include <stddef.h>
#include <time.h>

#include "thresholds.h"

/* `stride` 0: one table for all sums, as at 16 positions of a convolution; THRESHOLDS: one for each, as in QGemm. */
static void one_by_one(size_t count, size_t stride, const int32_t *t, const int32_t *x, uint8_t *y)
{
    for (size_t n = 0; n < count; ++n)
        y[n] = (uint8_t)threshold_count(&t[n % SEARCHES * stride], x[n]);
}

static void side_by_side(size_t count, size_t stride, const int32_t *t, const int32_t *x, uint8_t *y)
{
    for (size_t n = 0; n < count; n += SEARCHES)
        threshold_codes(t, (uint32_t)stride, SEARCHES, &x[n], 0, &y[n]);
}

/* The time in ns of one of `calls` searches of all sums. */
double time_of(int both, size_t calls, size_t count, size_t stride, const int32_t *t, const int32_t *x, uint8_t *y)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (size_t call = 0; call < calls; ++call) {
        (both ? side_by_side : one_by_one)(count, stride, t, x, y);
        __asm__ volatile("" ::: "memory");
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)calls;
}
