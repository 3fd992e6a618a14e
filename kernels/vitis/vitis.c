#include "vitis.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device_times.h"
#include "fail.h"
#include "qgemm.h"
#include "stdout_redirect.h"

enum { LEAST_BLOCK = 1 };

/* Runs DO for each element i of the buffer of a vector and its word w in the fabric:
 *
 *     element c * positions + p   is   word p * channels + c
 */
#define FOR_EACH_WORD(ARRAY, DO)                                                                                       \
    do {                                                                                                               \
        const size_t channels = (ARRAY)->channels, positions = (ARRAY)->width / channels;                              \
        size_t i = 0;                                                                                                  \
        for (size_t c = 0; c < channels; ++c)                                                                          \
            for (size_t p = 0; p < positions; ++p, ++i) {                                                              \
                const size_t w = p * channels + c;                                                                     \
                DO;                                                                                                    \
            }                                                                                                          \
    } while (0)

/* The words of `width` elements, from number `first` on. */
static void to_words(const struct vitis_array *array, const void *from, size_t first, int32_t *words)
{
    switch (array->type) {
    case VITIS_UINT8: FOR_EACH_WORD(array, words[w] = ((const uint8_t *)from)[first + i]); break;
    case VITIS_INT8: FOR_EACH_WORD(array, words[w] = ((const int8_t *)from)[first + i]); break;
    case VITIS_INT32:
    case VITIS_SCALED: FOR_EACH_WORD(array, words[w] = ((const int32_t *)from)[first + i]); break;
    }
}

/* A kernel that computes right makes only codes. */
static int32_t code_of(const struct vitis_array *array, int32_t word, int32_t low)
{
    if (word < low || word > low + 255)
        fail(EXIT_SYSTEM, "the kernel in the fabric has made %" PRId32 " of %s, which is no code: it is not the one of "
                          "this bundle, or its timing is not met", word, array->name);
    return word;
}

static void from_words(const struct vitis_array *array, const int32_t *words, void *to, size_t vector)
{
    const size_t first = vector * array->width;
    switch (array->type) {
    case VITIS_UINT8: FOR_EACH_WORD(array, ((uint8_t *)to)[first + i] = (uint8_t)code_of(array, words[w], 0)); break;
    case VITIS_INT8: FOR_EACH_WORD(array, ((int8_t *)to)[first + i] = (int8_t)code_of(array, words[w], INT8_MIN)); break;
    case VITIS_INT32: FOR_EACH_WORD(array, ((int32_t *)to)[first + i] = words[w]); break;
    case VITIS_SCALED: scale_accumulator(array->width, words, array->multiplier, (float *)to + first); break;
    }
}

static size_t made_width(const struct vitis_launch *launch)
{
    return launch->everything ? launch->full_width : launch->made_width;
}

void vitis_put(struct vitis_launch *launch, size_t array, const void *from, size_t vectors)
{
    const struct vitis_array *source = &launch->arrays[array];
    int32_t *given = fabric_given(launch->fabric);
    for (size_t v = 0; v < vectors; ++v)
        to_words(source, from, v * source->width, &given[v * launch->given_width + (size_t)source->at]);
}

void vitis_get(const struct vitis_launch *launch, size_t array, void *to, size_t vectors)
{
    const struct vitis_array *output = &launch->arrays[array];
    const long at = launch->everything ? output->full_at : output->at;
    const int32_t *made = fabric_made(launch->fabric);
    for (size_t v = 0; at != VITIS_ABSENT && v < vectors; ++v)
        from_words(output, &made[v * made_width(launch) + (size_t)at], to, v);
}

static void note(struct vitis_statistic *statistic, uint64_t executions, uint64_t duration_ns)
{
    statistic->sum_ns += duration_ns;
    if (executions == 1 || duration_ns < statistic->least_ns)
        statistic->least_ns = duration_ns;
    if (duration_ns > statistic->greatest_ns)
        statistic->greatest_ns = duration_ns;
}

void vitis_run(struct vitis_launch *launch, size_t vectors)
{
    const struct question asked = {
        .vectors = (uint32_t)vectors,
        .everything = launch->everything,
        .part = WHOLE,
        .layer = NO_LAYER,
        .given_width = (uint32_t)launch->given_width,
        .made_width = (uint32_t)made_width(launch),
    };
    if (vectors == 0)
        return;
    const struct fabric_times took = fabric_ask(launch->fabric, &asked);
    struct vitis_statistics *times = &launch->times;
    if (launch->warmup) {
        --launch->warmup;
        return;
    }
    ++times->executions;
    note(&times->to_device, times->executions, took.to_device_ns);
    note(&times->kernel, times->executions, took.kernel_ns);
    note(&times->from_device, times->executions, took.from_device_ns);
}

void vitis_apply(const struct vitis_stage *stage, size_t vectors, const void *inputs, void *outputs)
{
    struct fabric *fabric = stage->launch->fabric;
    const struct question asked = {
        .vectors = (uint32_t)vectors,
        .part = stage->part,
        .layer = (uint32_t)stage->layer,
        .given_width = (uint32_t)stage->given_width,
        .made_width = (uint32_t)stage->made.width,
    };
    if (vectors == 0)
        return;
    size_t first = 0;
    for (size_t v = 0; v < vectors; ++v)
        for (size_t i = 0; i < stage->given_count; first += stage->given[i].width, ++i)
            to_words(&stage->given[i], inputs, first, &fabric_given(fabric)[first]);
    fabric_ask(fabric, &asked);
    for (size_t v = 0; v < vectors; ++v)
        from_words(&stage->made, &fabric_made(fabric)[v * stage->made.width], outputs, v);
}

static size_t told_words(const struct vitis_layer *layer)
{
    size_t words = 0;
    for (size_t i = 0; i < layer->table_count; ++i)
        words += layer->tables[i].words;
    return words;
}

/* The words for a block of vectors of this width. */
static size_t words_of(const struct vitis_launch *launch, size_t width, size_t block)
{
    if (width > UINT32_MAX / block)
        fail(EXIT_USAGE, "--block %zu: %s moves %zu words a vector, together more than 2^32: use a smaller --block",
             block, launch->kernel, width);
    return width * block > IDENTITY_WORDS ? width * block : IDENTITY_WORDS;
}

/* The words of everything that the kernel can return. */
static size_t made_words_of(const struct vitis_launch *launch, size_t block)
{
    size_t words = words_of(launch, launch->most_made, block);
    for (size_t i = 0; i < launch->layer_count; ++i)
        if (told_words(&launch->layers[i]) > words)
            words = told_words(&launch->layers[i]);
    return words;
}

/* Kernels that are not those of the bundle may compute anything. */
static void check_identity(const struct vitis_launch *launch)
{
    const struct question asked = {
        .vectors = 1, .part = IDENTITY, .layer = NO_LAYER, .given_width = IDENTITY_WORDS, .made_width = IDENTITY_WORDS};
    const int32_t *told = fabric_made(launch->fabric);
    memset(fabric_given(launch->fabric), 0, IDENTITY_WORDS * sizeof *told);
    fabric_ask(launch->fabric, &asked);
    if (memcmp(told, vitis_identity, IDENTITY_WORDS * sizeof *told) != 0)
        fail(EXIT_SYSTEM, "%s in the fabric was made of other sources (%08" PRIx32 "...) than this bundle (%08" PRIx32
                          "...): build and load the application anew: harness firmware", launch->kernel,
             (uint32_t)told[0], vitis_identity[0]);
}

/* They are what the kernel computes with, and nothing else. */
static void fetch_tables(const struct vitis_launch *launch, size_t number)
{
    const struct vitis_layer *layer = &launch->layers[number];
    const struct question asked = {
        .vectors = 1, .part = TABLES, .layer = (uint32_t)number, .made_width = (uint32_t)told_words(layer)};
    const int32_t *told = fabric_made(launch->fabric);
    if (layer->table_count == 0)
        return;
    fabric_ask(launch->fabric, &asked);
    for (size_t i = 0; i < layer->table_count; ++i) {
        memcpy(layer->tables[i].values, told, layer->tables[i].words * sizeof *told);
        told += layer->tables[i].words;
    }
}

static void open_launch(struct vitis_launch *launch, const struct options *options)
{
    const size_t given_words = words_of(launch, launch->most_given, options->block);
    launch->everything = options->dump == DUMP_ALL;
    launch->warmup = options->warmup;
    launch->times = (struct vitis_statistics){0};
    launch->fabric = fabric_open(launch->kernel, given_words, made_words_of(launch, options->block));
    check_identity(launch);
}

void vitis_fetch_tables(const struct vitis_item *item)
{
    for (size_t i = 0; i < item->launch_count; ++i)
        for (size_t layer = 0; layer < item->launches[i]->layer_count; ++layer)
            fetch_tables(item->launches[i], layer);
}

void vitis_open(struct vitis_item *item, const struct options *options)
{
    item->out = options->time == TIME_NONE ? NULL : options->out;
    quiet_begin();
    for (size_t i = 0; i < item->launch_count; ++i)
        open_launch(item->launches[i], options);
    vitis_fetch_tables(item);
    snprintf(item->device, sizeof item->device, "%.80s, kernels %08" PRIx32 "%08" PRIx32 ", xclbin %.36s",
             fabric_name(), vitis_identity[0], vitis_identity[1], fabric_xclbin());
}

static void write_statistic(const char *kind, const char *kernel, uint64_t executions,
                            const struct vitis_statistic *times)
{
    const uint64_t average_ns = executions ? times->sum_ns / executions : 0;
    device_times_write(kind, kernel, executions, average_ns, times->least_ns, times->greatest_ns);
}

static void write_times(const struct vitis_item *item)
{
    device_times_open(item->out, item->name);
    for (size_t i = 0; i < item->launch_count; ++i) {
        const struct vitis_launch *launch = item->launches[i];
        const struct vitis_statistics *times = &launch->times;
        write_statistic("to_device", launch->kernel, times->executions, &times->to_device);
        write_statistic("kernel", launch->kernel, times->executions, &times->kernel);
        write_statistic("from_device", launch->kernel, times->executions, &times->from_device);
    }
    device_times_close();
}

void vitis_release(struct vitis_item *item)
{
    if (item->out)
        write_times(item);
    for (size_t i = 0; i < item->launch_count; ++i)
        fabric_close(item->launches[i]->fabric);
    quiet_end();
}

const char *vitis_device(const struct vitis_item *item)
{
    return item->device[0] ? item->device : "no kernel opened";
}
