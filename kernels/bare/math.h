/* The functions of math.h that kernels call, each exact as IEEE 754 has it. */
#ifndef MATH_H
#define MATH_H

#define INFINITY __builtin_inff()

/* The nearest whole number, of two the even one. */
float rintf(float x);

/* An instruction of every floating-point unit: the compiler calls no function (-fno-math-errno). */
static inline float sqrtf(float x)
{
    return __builtin_sqrtf(x);
}

#endif
