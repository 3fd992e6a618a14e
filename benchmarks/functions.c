/* The functions of definitions and of libm, over arrays; see functions.py. */
#include <math.h>
#include <stddef.h>
#include <time.h>

#include "definitions.h" /* made by functions.py */

#define EACH(NAME, VALUE)                                                                              \
    static void NAME(size_t width, const float *restrict x, float *restrict y)                         \
    {                                                                                                  \
        for (size_t n = 0; n < width; ++n)                                                             \
            y[n] = VALUE;                                                                              \
    }

EACH(libm_exp, expf(x[n]))
EACH(libm_tanh, tanhf(x[n]))
EACH(libm_logistic, 1.0f / (1.0f + expf(-x[n])))

static void one_softmax(size_t width, const float *restrict x, float *restrict y)
{
    (void)width;
    softmax_stages(x, y);
}

static void libm_softmax(size_t width, const float *restrict x, float *restrict y)
{
    float highest = x[0], sum = 0.0f;
    for (size_t n = 1; n < width; ++n)
        highest = x[n] > highest ? x[n] : highest;
    for (size_t n = 0; n < width; ++n)
        sum += y[n] = expf(x[n] - highest);
    for (size_t n = 0; n < width; ++n)
        y[n] = y[n] / sum;
}

typedef void function(size_t width, const float *restrict x, float *restrict y);
static function *const FUNCTIONS[] = {exponential_values, hyperbolic_tangent_values, logistic_values, one_softmax,
                                      libm_exp,           libm_tanh,                 libm_logistic,   libm_softmax};

/* The time in ns of one of `calls` calls of a function. */
double time_of(int number, size_t calls, size_t width, const float *x, float *y)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (size_t call = 0; call < calls; ++call) {
        FUNCTIONS[number](width, x, y);
        __asm__ volatile("" ::: "memory");
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)calls;
}
