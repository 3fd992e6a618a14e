/* Add (ONNX), float32, one vector: the sum of two terms, or of a term and a constant.
 *
 *     y[n] = a[n] + b[n]                 one addition, rounded to nearest, half to even
 *
 * A term is rounded to float32 before it is added: it comes from memory, and no multiplication that made it may be
 * fused with the addition (compile with -ffp-contract=off).  A sum of more terms is a chain of Adds, each of which
 * rounds, in the order of the model.
 */
#ifndef ADD_H
#define ADD_H

#include <stddef.h>

static inline void add_float32(size_t width, const float *restrict a, const float *restrict b, float *restrict y)
{
    for (size_t n = 0; n < width; ++n)
        y[n] = a[n] + b[n];
}

#endif
