/* Runs the engine of kernels/decide for the jobs of a file, each in as many threads as are asked for, all at once:
 *
 *     decide_job FILE THREADS
 *
 * A job is a row of int32 (floats by their bits), as tests/support/programs/decide_jobs.py writes it.  On stdout, for each job:
 * codes processed (uint64), regions (uint8), decide_find (int32), its codes (8 uint8), decide_each of all codes of the box
 * (uint8).  Ends with 1 if two threads disagree. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decide.h"

typedef struct {
    const int32_t *at;
    uint8_t *result;
    size_t size;
} Job;

static int32_t next(Job *job)
{
    return *job->at++;
}

static const void *next_words(Job *job, size_t count)
{
    const void *words = job->at;
    job->at += count;
    return words;
}

static void add(Job *job, const void *from, size_t size)
{
    job->result = realloc(job->result, job->size + size + 1);
    memcpy(job->result + job->size, from, size);
    job->size += size;
}

static const int16_t *next_weights(Job *job, size_t count)
{
    int16_t *weights = malloc(sizeof *weights * count);
    for (size_t i = 0; i < count; ++i)
        weights[i] = (int16_t)next(job);
    return weights;
}

static void read_network(Job *job, DecideNetwork *network, DecideLayer *layers)
{
    *network = (DecideNetwork){.layers = next(job), .float_scores = next(job), .layer = layers};
    network->rule.greatest = next(job);
    network->rule.ties = next(job);
    network->rule.decisions = next(job);
    network->rule.comparisons = next(job);
    network->rule.comparison = next_words(job, 6 * (size_t)network->rule.comparisons);
    for (int32_t l = 0; l < network->layers; ++l) {
        DecideLayer *layer = &layers[l];
        layer->depth = next(job);
        layer->width = next(job);
        layer->padded = next(job);
        layer->zero_point = next(job);
        layer->low = next(job);
        layer->high = next(job);
        layer->weights = next_weights(job, (size_t)layer->depth * (size_t)layer->padded);
        layer->offset = next_words(job, (size_t)layer->padded);
        layer->multiplier = next_words(job, (size_t)layer->padded);
    }
}

static void each(Job *job, const DecideNetwork *network, const DecideBox *box, size_t count)
{
    const int32_t axes = network->layer[0].depth;
    uint8_t *codes = malloc(count * (size_t)axes), *sets = calloc(count, 1);
    for (size_t i = 0; i < count; ++i) {
        size_t rest = i;
        for (int32_t k = axes - 1; k >= 0; --k) {
            codes[i * (size_t)axes + (size_t)k] = (uint8_t)(box->low[k] + (int32_t)(rest % (size_t)box->extent[k]));
            rest /= (size_t)box->extent[k];
        }
    }
    decide_each(network, codes, count, sets);
    add(job, sets, count);
    free(codes);
    free(sets);
}

static void run_one(Job *job)
{
    DecideLayer layers[DECIDE_LAYERS];
    DecideNetwork network;
    DecideBox box;
    DecideRegions regions;
    uint16_t segments[DECIDE_AXES][256];
    read_network(job, &network, layers);
    memcpy(&box, next_words(job, 2 * DECIDE_AXES), sizeof box);
    const int32_t *batch = next_words(job, DECIDE_AXES);
    for (int32_t k = 0; k < DECIDE_AXES; ++k) {
        regions.segment[k] = segments[k];
        for (int32_t code = 0; code < 256; ++code)
            segments[k][code] = (uint16_t)next(job);
    }
    for (int32_t k = 0; k < DECIDE_AXES; ++k)
        regions.stride[k] = next(job);
    const int32_t size = next(job), wanted = next(job);
    regions.regions = calloc((size_t)size, 1);
    const uint64_t count = decide_box(&network, &box, batch, &regions);
    uint8_t codes[DECIDE_AXES] = {0};
    const int32_t found = decide_find(&network, &box, batch, (uint8_t)wanted, codes);
    add(job, &count, sizeof count);
    add(job, regions.regions, (size_t)size);
    add(job, &found, sizeof found);
    add(job, codes, sizeof codes);
    if (count)
        each(job, &network, &box, count);
    free(regions.regions);
    for (int32_t l = 0; l < network.layers; ++l)
        free((void *)(uintptr_t)layers[l].weights);
}

static const int32_t *end;

static void *run(void *job)
{
    while (((Job *)job)->at < end)
        run_one(job);
    return NULL;
}

int main(int count, char **words)
{
    enum { THREADS = 16 };
    static int32_t jobs[1 << 24];
    FILE *file = count == 3 ? fopen(words[1], "rb") : NULL;
    if (!file)
        return 2;
    end = jobs + fread(jobs, sizeof *jobs, sizeof jobs / sizeof *jobs, file);
    fclose(file);
    pthread_t thread[THREADS];
    Job job[THREADS];
    const int threads = atoi(words[2]) < THREADS ? atoi(words[2]) : THREADS;
    for (int t = 0; t < threads; ++t) {
        job[t] = (Job){.at = jobs};
        if (pthread_create(&thread[t], NULL, run, &job[t]))
            return 3;
    }
    for (int t = 0; t < threads; ++t)
        pthread_join(thread[t], NULL);
    for (int t = 1; t < threads; ++t)
        if (job[t].size != job[0].size || memcmp(job[t].result, job[0].result, job[0].size) != 0)
            return 1;
    return fwrite(job[0].result, 1, job[0].size, stdout) == job[0].size ? 0 : 3;
}
