/* MaxPool and GlobalMaxPool (ONNX) of codes or float32, one image x (channels, height, width):
 *
 *     y[c][p] = x_1, then for each further value of the window x_k > y ? x_k : y
 *
 * Values outside the image are never chosen; every window has one inside.  The first of equal values stays, which
 * decides the sign of a float32 zero; the chain begins at the lowest value, which every x_1 replaces or equals.
 */
#ifndef MAX_POOL_H
#define MAX_POOL_H

#include <math.h>
#include <stdint.h>

#include "pool.h"

#define LARGER(LARGEST, VALUE) ((VALUE) > (LARGEST) ? (VALUE) : (LARGEST))

DEFINE_POOL(max_pool_uint8, uint8_t, 0, LARGER)
DEFINE_POOL(max_pool_int8, int8_t, -128, LARGER)
DEFINE_POOL(max_pool_float32, float, -INFINITY, LARGER)

#endif
