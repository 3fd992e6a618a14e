/* AveragePool as in average_pool.h, with the sums of pool_vector.h. */
#ifndef AVERAGE_POOL_VECTOR_H
#define AVERAGE_POOL_VECTOR_H

#include "average_pool.h"
#include "pool_vector.h"

DEFINE_POOL_VECTOR(average_pool_sum, float, 0.0f, ADDED)

#endif
