/* The decisions of single code vectors, with the functions that compute QGemm on boards (kernels/c/qgemm.h): a second
 * way to the results of decide.c, without any code of it. */
#include "../c/qgemm.h"

#include <string.h>

#include "decide.h"

enum { VECTORS = 64 }; /* that share the weights of QGEMM_ROWS outputs */

/* acc[r] = offset[n + r] + sum_k a[k] * weights[k][n + r] */
static void accumulate_rows(const DecideLayer *layer, int32_t n, int32_t rows, int32_t vectors,
                            uint8_t (*a)[DECIDE_WIDTH], int32_t (*acc)[QGEMM_ROWS])
{
    int8_t b[QGEMM_ROWS * DECIDE_WIDTH];
    int fit = 1;
    for (int32_t r = 0; r < rows; ++r)
        for (int32_t k = 0; k < layer->depth; ++k) {
            const int16_t weight = layer->weights[k * layer->padded + n + r];
            b[r * layer->depth + k] = (int8_t)weight;
            fit &= (int8_t)weight == weight;
        }
    for (int32_t v = 0; v < vectors; ++v) {
        if (fit)
            qgemm_dot_uint8((size_t)rows, (size_t)layer->depth, a[v], b, acc[v]);
        else
            for (int32_t r = 0; r < rows; ++r) {
                acc[v][r] = 0;
                for (int32_t k = 0; k < layer->depth; ++k)
                    acc[v][r] += a[v][k] * layer->weights[k * layer->padded + n + r];
            }
        for (int32_t r = 0; r < rows; ++r)
            acc[v][r] = (int32_t)((uint32_t)acc[v][r] + (uint32_t)layer->offset[n + r]);
    }
}

static uint8_t set_of_best(const DecideRule *rule, int32_t count, const float *scores)
{
    int32_t set = 1, best = 0;
    for (int32_t n = 1; n < count; ++n) {
        const int better = rule->greatest ? scores[n] > scores[best] : scores[n] < scores[best];
        const int level = scores[n] == scores[best];
        if (level && rule->ties == DECIDE_ALL)
            set |= 1 << n;
        if (better || (level && rule->ties == DECIDE_LAST)) {
            best = n;
            set = 1 << n;
        }
    }
    return (uint8_t)set;
}

static uint8_t set_that_holds(const DecideRule *rule, const float *scores)
{
    int32_t set = 0;
    for (int32_t d = 0; d < rule->decisions; ++d) {
        int all = 1;
        for (int32_t i = 0; i < rule->comparisons; ++i) {
            const DecideComparison *comparison = &rule->comparison[i];
            const float left = scores[comparison->left];
            const float right = comparison->right < 0 ? comparison->constant : scores[comparison->right];
            const int holds = left > right || (left == right && !comparison->strict);
            if (comparison->decision == d && holds == (comparison->negated != 0))
                all = 0;
        }
        set |= all << d;
    }
    return (uint8_t)(set ? set : 1 << rule->decisions);
}

static void decide_block(const DecideNetwork *network, int32_t vectors, const uint8_t *codes, uint8_t *sets)
{
    uint8_t values[2][VECTORS][DECIDE_WIDTH];
    float scores[VECTORS][DECIDE_SCORES] = {{0}};
    const int32_t axes = network->layer[0].depth;
    for (int32_t v = 0; v < vectors; ++v)
        memcpy(values[0][v], &codes[v * axes], (size_t)axes);
    for (int32_t l = 0; l < network->layers; ++l) {
        const DecideLayer *layer = &network->layer[l];
        for (int32_t n = 0; n < layer->width; n += QGEMM_ROWS) {
            const int32_t rows = layer->width - n < QGEMM_ROWS ? layer->width - n : QGEMM_ROWS;
            int32_t acc[VECTORS][QGEMM_ROWS];
            accumulate_rows(layer, n, rows, vectors, values[l % 2], acc);
            for (int32_t v = 0; v < vectors; ++v) {
                uint8_t *y = &values[1 - l % 2][v][n];
                if (l == network->layers - 1 && network->float_scores) {
                    scale_accumulator((size_t)rows, acc[v], &layer->multiplier[n], &scores[v][n]);
                    continue;
                }
                requantize_uint8((size_t)rows, acc[v], &layer->multiplier[n], layer->zero_point, y);
                for (int32_t r = 0; r < rows; ++r) {
                    y[r] = y[r] < layer->low ? (uint8_t)layer->low : y[r] > layer->high ? (uint8_t)layer->high : y[r];
                    if (l == network->layers - 1)
                        scores[v][n + r] = y[r];
                }
            }
        }
    }
    for (int32_t v = 0; v < vectors; ++v)
        sets[v] = network->rule.comparisons
                      ? set_that_holds(&network->rule, scores[v])
                      : set_of_best(&network->rule, network->layer[network->layers - 1].width, scores[v]);
}

void decide_each(const DecideNetwork *network, const uint8_t *codes, uint64_t count, uint8_t *sets)
{
    for (uint64_t first = 0; first < count; first += VECTORS) {
        const uint64_t rest = count - first;
        const int32_t vectors = rest < VECTORS ? (int32_t)rest : VECTORS;
        decide_block(network, vectors, &codes[first * (uint64_t)network->layer[0].depth], &sets[first]);
    }
}
