/* DequantizeLinear (ONNX), uint8 or int8 -> float32, one scale for the tensor:
 *
 *     y = float32(q - zero_point) * scale
 */
#ifndef DEQUANTIZE_LINEAR_H
#define DEQUANTIZE_LINEAR_H

#include <stddef.h>
#include <stdint.h>

#define DEFINE_DEQUANTIZE_LINEAR(TYPE)                                                                 \
    static inline void dequantize_linear_##TYPE(size_t width, const TYPE##_t *restrict q, float scale, \
                                                int32_t zero_point, float *restrict y)                 \
    {                                                                                                  \
        for (size_t i = 0; i < width; ++i)                                                             \
            y[i] = (float)(q[i] - zero_point) * scale;                                                 \
    }

DEFINE_DEQUANTIZE_LINEAR(uint8)
DEFINE_DEQUANTIZE_LINEAR(int8)

#endif
