/* Operators that are a function of one code (QLinearLeakyRelu, QLinearSigmoid, an input of QLinearConcat), one vector:
 *
 *     y[n] = table[x[n] - QMIN]
 */
#ifndef LOOKUP_H
#define LOOKUP_H

#include <stddef.h>

#include "saturate.h"

#define DEFINE_LOOKUP(TYPE, QMIN)                                                                      \
    static inline void lookup_##TYPE(size_t width, const TYPE##_t *restrict x, const TYPE##_t *restrict table, \
                                     TYPE##_t *restrict y)                                             \
    {                                                                                                  \
        for (size_t n = 0; n < width; ++n) {                                                           \
            size_t place = (size_t)(x[n] - (QMIN));                                                    \
            NOT_KNOWN(place); /* or gcc gathers entries in vectors, by code that no proof follows */   \
            y[n] = table[place];                                                                       \
        }                                                                                              \
    }

DEFINE_LOOKUP(uint8, 0)
DEFINE_LOOKUP(int8, -128)

#endif
