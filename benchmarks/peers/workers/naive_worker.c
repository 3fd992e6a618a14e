/* The yardstick: the model in C as one writes it down, loop by loop and without a thought of the processor.
 *
 * acc[n] = bias[n] + sum_k (a[k] - za) * b[k][n];  y[n] = clamp(rint(float(acc[n]) * m)) + zy, in kernels/c/qgemm.h's
 * letters.  naive.h, generated beside the network, has the constants: LAYERS, WIDTH_LIMIT and the tables below.
 */
#include <math.h>
#include <stdint.h>

#include "fail.h"
#include "naive.h"
#include "worker.h"

static uint8_t codes[2][WIDTH_LIMIT];
static float scores[WIDTH_LIMIT];

static uint8_t to_code(float value, int zero_point)
{
    const float code = rintf(value) + (float)zero_point;
    return code < 0 ? 0 : code > 255 ? 255 : (uint8_t)code;
}

static void qgemm(const struct naive_layer *layer, const uint8_t *a, uint8_t *y)
{
    for (int n = 0; n < layer->width; ++n) {
        int32_t acc = layer->bias[n];
        for (int k = 0; k < layer->depth; ++k)
            acc += (a[k] - layer->a_zero_point) * layer->weights[k * layer->width + n];
        y[n] = to_code((float)acc * layer->multiplier, layer->y_zero_point);
    }
}

static void run(const float *vector)
{
    for (int k = 0; k < layers[0].depth; ++k)
        codes[0][k] = to_code(vector[k] / input_scale, layers[0].a_zero_point);
    for (int i = 0; i < LAYERS; ++i)
        qgemm(&layers[i], codes[i % 2], codes[(i + 1) % 2]);
    const struct naive_layer *last = &layers[LAYERS - 1];
    for (int n = 0; n < last->width; ++n)
        scores[n] = (float)(codes[LAYERS % 2][n] - last->y_zero_point) * output_scale;
}

struct contender contender_open(char **arguments)
{
    if (arguments[0])
        fail(EXIT_USAGE, "the naive code takes no arguments");
    return (struct contender){(size_t)layers[0].depth, (size_t)layers[LAYERS - 1].width, run, scores};
}
