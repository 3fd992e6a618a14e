/* The sums of products of QGemm, four products to a lane, sixteen lanes at once:
 *
 *     dot[n] = sum_k a[k] * b[n][k]          a uint8, b int8, dot int32
 *
 * Layout of b, in bytes: groups of LANES outputs, in a group quads of QUAD inputs, in a quad
 *
 *     b[16 g + lane][4 q + i]  at  ((g * quads + q) * 16 + lane) * 4 + i
 *
 * which is the order of the C7x's VDOTP4SUBW: byte 4 * lane + i of its operands makes part of lane `lane` of its
 * result.  A quad of inputs is the same for all lanes.  What is beyond the last input or output is 0.
 *
 * The lanes add at most 4 * 128 * 255 to a sum at a time; the host refuses a network whose sums could leave int32.
 */
#ifndef DOT4_H
#define DOT4_H

#include <stddef.h>
#include <stdint.h>

enum { LANES = 16, QUAD = 4 };

#ifdef __C7000__

#include <c7x.h>

/* For TI's cl7x, in C or C++: little endian, its default, and vectors of 512 bits (C7100, C7120).
 *
 * From TI's SPRUIG8 and the compiler's c7x.h: __C7000__ is predefined; a scalar cast to a vector is all of its
 * elements; vectors are laid out like arrays, and their operators work element by element; __as_uchar64 keeps the bits;
 * pointers to vectors, dereferenced, load and store; int16 = __vdotp4subw_vvv(char64, uchar64) is VDOTP4SUBW.
 * That its lane n adds the products of bytes 4 n to 4 n + 3 follows from __dotp4_ext, the same instruction by its other
 * name, which is declared for 4 bytes to 1 sum, 8 to 2, up to 64 to 16.  Which of the four bytes comes first does not
 * matter, as long as both operands have the same order.
 * Not confirmed, for want of the compiler and of a C7x: that this compiles as it stands, and the lanes on silicon.
 *
 * b and dot begin at multiples of 64 bytes, and a at one of 4.
 */
static inline void dot_products(size_t groups, size_t quads, const uint8_t *a, const int8_t *b, int32_t *dot)
{
    for (size_t g = 0; g < groups; ++g) {
        int16 sum = (int16)(0);
        for (size_t q = 0; q < quads; ++q) {
            const int32_t quad = ((const int32_t *)a)[q];
            const char64 weights = *(const char64 *)&b[(g * quads + q) * LANES * QUAD];
            sum += __vdotp4subw_vvv(weights, __as_uchar64((int16)(quad)));
        }
        *(int16 *)&dot[g * LANES] = sum;
    }
}

/* See below; panel and dot begin at multiples of 64 bytes, and b at one of 4. */
static inline void dot_positions(size_t quads, const uint8_t *panel, const int8_t *b, int32_t *dot)
{
    int16 sum = (int16)(0);
    for (size_t q = 0; q < quads; ++q) {
        const int32_t quad = ((const int32_t *)b)[q];
        sum += __vdotp4subw_vvv(__as_char64((int16)(quad)), *(const uchar64 *)&panel[q * LANES * QUAD]);
    }
    *(int16 *)dot = sum;
}

#else

/* As above. */
static inline void dot_products(size_t groups, size_t quads, const uint8_t *a, const int8_t *b, int32_t *dot)
{
    for (size_t g = 0; g < groups; ++g) {
        int32_t sum[LANES] = {0};
        for (size_t q = 0; q < quads; ++q) {
            const int8_t *weights = &b[(g * quads + q) * LANES * QUAD];
            for (size_t lane = 0; lane < LANES; ++lane)
                for (size_t i = 0; i < QUAD; ++i)
                    sum[lane] += a[q * QUAD + i] * weights[lane * QUAD + i];
        }
        for (size_t lane = 0; lane < LANES; ++lane)
            dot[g * LANES + lane] = sum[lane];
    }
}

/* The other way round: one output, at LANES positions side by side, whose quads of inputs stand as those of weights do,
 *
 *     dot[lane] = sum_k panel[lane][k] * b[k]          panel[lane][4 q + i]  at  (q * 16 + lane) * 4 + i
 */
static inline void dot_positions(size_t quads, const uint8_t *panel, const int8_t *b, int32_t *dot)
{
    int32_t sum[LANES] = {0};
    for (size_t q = 0; q < quads; ++q)
        for (size_t lane = 0; lane < LANES; ++lane)
            for (size_t i = 0; i < QUAD; ++i)
                sum[lane] += panel[(q * LANES + lane) * QUAD + i] * b[q * QUAD + i];
    for (size_t lane = 0; lane < LANES; ++lane)
        dot[lane] = sum[lane];
}

#endif

#endif
