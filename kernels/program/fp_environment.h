/* The floating-point environment of a thread: the register that holds its rounding mode and how it treats subnormal
 * numbers.
 *
 * The specification rounds to nearest, ties to even, and keeps subnormal numbers.  Every thread that computes
 * activations checks this, because a library may set the register of one thread and not of another.
 */
#ifndef FP_ENVIRONMENT_H
#define FP_ENVIRONMENT_H

#include <stdint.h>

#if defined(__x86_64__)
#define FP_REGISTER "MXCSR"
#elif defined(__aarch64__)
#define FP_REGISTER "FPCR"
#elif defined(__ARM_FEATURE_MVE)
#define FP_REGISTER "FPSCR_MVE" /* FPSCR, in which vector instructions have a field, LTPSIZE: 4 outside of their loops */
#elif defined(__ARM_FP)
#define FP_REGISTER "FPSCR"
#else
#error "add the floating-point control register of this architecture to fp_environment.h"
#endif

/* Return the control register of the calling thread, with the sticky exception flags that it may contain. */
static inline uint64_t fp_environment_read(void)
{
#if defined(__x86_64__)
    uint32_t value;
    __asm__ volatile("stmxcsr %0" : "=m"(value));
    return value;
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
#else
    uint32_t value;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(value));
    return value;
#endif
}

/* Return whether `value` means: round to nearest even, keep subnormal numbers, no trap, NaN as IEEE 754 says. */
static inline int fp_environment_is_standard(uint64_t value)
{
#if defined(__x86_64__)
    return (value & ~UINT64_C(0x3f)) == 0x1f80; /* without the exception flags */
#elif defined(__aarch64__)
    return value == 0;
#elif defined(__ARM_FEATURE_MVE)
    return (value & ~UINT64_C(0xf800009f)) == 0x40000;
#else
    return (value & ~UINT64_C(0xf800009f)) == 0; /* without the flags of comparisons and exceptions */
#endif
}

#endif
