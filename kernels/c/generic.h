/* The operators with sizes that are known when they run: one machine code of each, for all layers.
 *
 * The first shape of ACETONE (De Albuquerque Silva et al., ECRTS 2022, section 3.2): little code, but the analysis of
 * execution times has to know which sizes each call has.
 */
#ifndef GENERIC_H
#define GENERIC_H

#include "arg_extremum.h"
#include "conv_transpose.h"
#include "lookup.h"
#include "network.h"
#include "qgemm.h"
#include "qlinear_softmax.h"

/* A network need not have every operator. */
#define GENERIC static ONE_CODE __attribute__((unused))

#define DEFINE_GENERIC_CODES(TYPE)                                                                     \
    GENERIC void generic_qgemm_accumulate_##TYPE(size_t depth, size_t width, const TYPE##_t *a, const int8_t *b, \
                                                 const int32_t *zb, const uint32_t *offset, int32_t *acc) \
    {                                                                                                  \
        qgemm_accumulate_##TYPE(depth, width, a, b, zb, offset, acc);                                  \
    }                                                                                                  \
    GENERIC void generic_requantize_##TYPE(size_t width, const int32_t *acc, const float *m, int32_t zy, TYPE##_t *y) \
    {                                                                                                  \
        requantize_##TYPE(width, acc, m, zy, y);                                                       \
    }                                                                                                  \
    GENERIC void generic_lookup_##TYPE(size_t width, const TYPE##_t *x, const TYPE##_t *table, TYPE##_t *y) \
    {                                                                                                  \
        lookup_##TYPE(width, x, table, y);                                                             \
    }                                                                                                  \
    GENERIC void generic_qlinear_softmax_##TYPE(size_t width, const TYPE##_t *x, const float *table, float inverse, \
                                                int32_t zy, TYPE##_t *y)                               \
    {                                                                                                  \
        qlinear_softmax_##TYPE(width, x, table, inverse, zy, y);                                       \
    }

DEFINE_GENERIC_CODES(uint8)
DEFINE_GENERIC_CODES(int8)

GENERIC void generic_scale_accumulator(size_t width, const int32_t *acc, const float *m, float *y)
{
    scale_accumulator(width, acc, m, y);
}

GENERIC void generic_conv_transpose_float32(const struct window *v, size_t groups, size_t inputs, size_t width,
                                            const float *x, const float *w, const float *bias, float *y)
{
    conv_transpose_float32(v, groups, inputs, width, x, w, bias, y);
}

#define DEFINE_GENERIC_ARG_EXTREMUM(NAME, TYPE)                                                        \
    GENERIC int64_t generic_arg_extremum_##NAME(size_t width, const TYPE *x, bool largest, bool last)  \
    {                                                                                                  \
        return arg_extremum_##NAME(width, x, largest, last);                                           \
    }

DEFINE_GENERIC_ARG_EXTREMUM(uint8, uint8_t)
DEFINE_GENERIC_ARG_EXTREMUM(int8, int8_t)
DEFINE_GENERIC_ARG_EXTREMUM(float32, float)

#endif
