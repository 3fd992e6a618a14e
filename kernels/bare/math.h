/* The functions of math.h that kernels call, each exact as IEEE 754 has it. */
#ifndef MATH_H
#define MATH_H

#include "board.h" /* written from the board's profile */

#define INFINITY __builtin_inff()

/* The nearest whole number, of two the even one: an instruction of floating-point units from FPv5 on (VRINTX). */
#ifdef FPV5
static inline float rintf(float x)
{
    return __builtin_rintf(x);
}
#else
float rintf(float x);
#endif

/* An instruction of every floating-point unit: the compiler calls no function (-fno-math-errno). */
static inline float sqrtf(float x)
{
    return __builtin_sqrtf(x);
}

#endif
