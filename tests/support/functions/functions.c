/* The functions of definitions, and exp of kernels/c/elementary.h, for consecutive bit patterns of float32.
 *
 *     functions NAME values FIRST COUNT STEP    writes the results for FIRST, FIRST + STEP, ... to stdout, as they are
 *     functions NAME errors FIRST COUNT         prints a JSON line of numbers; FIRST to the last are of one sign
 *
 * The errors are those of finite results, in ulp: the distance of the two float32 around the exact value.  The reference is
 * the C library in double precision, and in long double where that is near the middle of two float32.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "definitions.h" /* made by __init__.py */
#include "elementary.h"

enum { BLOCK = 1 << 14 };
static const double NEAR_THE_MIDDLE = 0x1p-20; /* in ulp */

struct function {
    const char *name;
    void (*values)(size_t width, const float *restrict x, float *restrict y);
    double (*exact)(double x);
    long double (*closer)(long double x);
};

static void exp_values(size_t width, const float *restrict x, float *restrict y)
{
    float bound = EXP_BOUND;
    NOT_KNOWN(bound);
    for (size_t i = 0; i < width; ++i)
        y[i] = exp_of(x[i], bound);
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static long double logisticl(long double x)
{
    return 1 / (1 + expl(-x));
}

static const struct function FUNCTIONS[] = {
    {"exp", exp_values, exp, expl},
    {"exponential", exponential_values, exp, expl},
    {"exponential_minus_one", exponential_minus_one_values, expm1, expm1l},
    {"hyperbolic_tangent", hyperbolic_tangent_values, tanh, tanhl},
    {"logistic", logistic_values, logistic, logisticl},
    {"logarithm", logarithm_values, log, logl},
    {"logarithm_of_one_plus", logarithm_of_one_plus_values, log1p, log1pl},
    {"error_function", error_function_values, erf, erfl},
    {"sine", sine_values, sin, sinl},
    {"cosine", cosine_values, cos, cosl},
    {"tangent", tangent_values, tan, tanl},
    {"arctangent", arctangent_values, atan, atanl},
    {"arcsine", arcsine_values, asin, asinl},
    {"arccosine", arccosine_values, acos, acosl},
    {"hyperbolic_sine", hyperbolic_sine_values, sinh, sinhl},
    {"hyperbolic_cosine", hyperbolic_cosine_values, cosh, coshl},
    {"inverse_hyperbolic_sine", inverse_hyperbolic_sine_values, asinh, asinhl},
    {"inverse_hyperbolic_cosine", inverse_hyperbolic_cosine_values, acosh, acoshl},
    {"inverse_hyperbolic_tangent", inverse_hyperbolic_tangent_values, atanh, atanhl},
};

static void patterns(uint64_t first, uint64_t step, float *x)
{
    for (size_t i = 0; i < BLOCK; ++i)
        x[i] = float_of_bits((uint32_t)(first + i * step));
}

static double ulp_of(double exact)
{
    const int exponent = exact == 0 ? -126 : ilogb(exact);
    return ldexp(1, (exponent < -126 ? -126 : exponent) - 23);
}

/* float32 nearest to f(x), by long double if the double `exact` does not decide it. */
static float nearest(const struct function *f, float x, double exact)
{
    const double units = fabs(exact) / ulp_of(exact), place = units - floor(units);
    return fabs(place - 0.5) < NEAR_THE_MIDDLE ? (float)f->closer(x) : (float)exact;
}

static void errors(const struct function *f, uint64_t first, uint64_t count)
{
    static float x[BLOCK], y[BLOCK];
    double worst = 0;
    float at = 0, before = NAN;
    uint64_t compared = 0, not_nearest = 0, other_infinity = 0, rises = 0, falls = 0;
    for (uint64_t start = first; start < first + count; start += BLOCK) {
        patterns(start, 1, x);
        f->values(BLOCK, x, y);
        for (size_t i = 0; i < BLOCK; ++i) {
            if (isnan(x[i]))
                continue;
            const double exact = f->exact(x[i]);
            const float right = nearest(f, x[i], exact);
            ++compared;
            not_nearest += y[i] != right || signbit(y[i]) != signbit(right);
            other_infinity += isinf(y[i]) != isinf(right);
            rises += y[i] > before;
            falls += y[i] < before;
            before = y[i];
            const double error = isinf(right) || isinf(y[i]) ? 0 : fabs(y[i] - exact) / ulp_of(exact);
            if (error > worst) {
                worst = error;
                at = x[i];
            }
        }
    }
    printf("{\"worst_ulp\": %.17g, \"at\": \"%a\", \"compared\": %" PRIu64 ", \"not_nearest\": %" PRIu64
           ", \"other_infinity\": %" PRIu64 ", \"rises\": %" PRIu64 ", \"falls\": %" PRIu64 "}\n",
           worst, at, compared, not_nearest, other_infinity, rises, falls);
}

static void values(const struct function *f, uint64_t first, uint64_t count, uint64_t step)
{
    static float x[BLOCK], y[BLOCK];
    for (uint64_t done = 0; done < count; done += BLOCK) {
        const uint64_t left = count - done;
        patterns(first + done * step, step, x);
        f->values(BLOCK, x, y);
        if (fwrite(y, sizeof *y, left < BLOCK ? left : BLOCK, stdout) == 0)
            exit(1);
    }
}

int main(int argc, char **argv)
{
    const struct function *f = FUNCTIONS;
    const struct function *const end = f + sizeof FUNCTIONS / sizeof *FUNCTIONS;
    if (argc < 5)
        return 2;
    while (f < end && strcmp(f->name, argv[1]) != 0)
        ++f;
    if (f == end)
        return 2;
    const uint64_t first = strtoull(argv[3], NULL, 0), count = strtoull(argv[4], NULL, 0);
    if (argc > 5)
        values(f, first, count, strtoull(argv[5], NULL, 0));
    else
        errors(f, first, count);
    return 0;
}
