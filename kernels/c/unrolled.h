/* Constants of code that has no tables, computed by that code itself: for the proof, once, in init.
 *
 *     start[n]    = acc[n] if all codes are 0           int32
 *     terms[n][k] = the summand of code 1 of input k    int32
 */
#ifndef UNROLLED_H
#define UNROLLED_H

#include <stddef.h>
#include <stdint.h>

#define READ_STATEMENTS(ACCUMULATE, INPUT, DEPTH, WIDTH, START, TERMS)                                 \
    do {                                                                                               \
        INPUT codes[DEPTH] = {0};                                                                      \
        int32_t acc[WIDTH];                                                                            \
        ACCUMULATE(codes, START);                                                                      \
        for (size_t k = 0; k < DEPTH; ++k) {                                                           \
            codes[k] = 1;                                                                              \
            ACCUMULATE(codes, acc);                                                                    \
            codes[k] = 0;                                                                              \
            for (size_t n = 0; n < WIDTH; ++n)                                                         \
                TERMS[n][k] = (int32_t)((uint32_t)acc[n] - (uint32_t)START[n]);                        \
        }                                                                                              \
    } while (0)

#endif
