#include "litert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

enum { ALIGNMENT = 64, FLIP = 0x80 }; /* that LiteRT wants of memory */

static void check(int status, const char *function, const char *what)
{
    if (status)
        fail(EXIT_SYSTEM, "%s (%s): status %d of LiteRT (%s): see what LiteRT has said above", function, what, status,
             LiteRtGetStatusString(status));
}

/* Calls a function that returns a status; exits with its name if it fails. */
#define CALL(function, what, ...) check(function(__VA_ARGS__), #function, what)

static size_t width(const struct litert_array *array)
{
    return array->channels * array->positions;
}

/* Zeroed memory as LiteRT wants it. */
static unsigned char *aligned(size_t bytes)
{
    const size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    unsigned char *memory = aligned_alloc(ALIGNMENT, whole ? whole : ALIGNMENT);
    if (!memory)
        fail(EXIT_SYSTEM, "no memory for %zu bytes", whole);
    return memset(memory, 0, whole ? whole : ALIGNMENT);
}

static void open_array(struct litert_array *array, size_t block)
{
    const size_t bytes = width(array) * array->element;
    array->memory = aligned(bytes);
    if (block)
        array->kept = allocate(block, bytes);
    CALL(LiteRtCreateTensorBufferFromHostMemory, array->name, &array->type, array->memory, bytes, NULL, &array->buffer);
}

static void open_launch(const struct litert_item *item, struct litert_launch *launch, size_t block)
{
    CALL(LiteRtCreateModelFromBuffer, launch->name, launch->file, launch->bytes, &launch->model);
    CALL(LiteRtCreateCompiledModel, launch->name, item->environment, launch->model, item->options, &launch->compiled);
    launch->input_buffers = allocate(launch->input_count, sizeof *launch->input_buffers);
    launch->output_buffers = allocate(launch->output_count, sizeof *launch->output_buffers);
    for (size_t i = 0; i < launch->input_count; ++i) {
        open_array(&launch->inputs[i], 0);
        launch->input_buffers[i] = launch->inputs[i].buffer;
    }
    for (size_t i = 0; i < launch->output_count; ++i) {
        open_array(&launch->outputs[i], block);
        launch->output_buffers[i] = launch->outputs[i].buffer;
    }
}

void litert_open(struct litert_item *item, const struct options *options)
{
    litert_handle opaque, cpu;
    CALL(LiteRtCreateEnvironment, item->name, 0, NULL, &item->environment);
    CALL(LiteRtCreateOptions, item->name, &item->options);
    CALL(LiteRtSetOptionsHardwareAccelerators, item->name, item->options, LITERT_CPU);
    CALL(LiteRtCreateCpuOptions, item->name, &opaque);
    CALL(LiteRtFindCpuOptions, item->name, opaque, &cpu);
    CALL(LiteRtSetCpuOptionsNumThread, item->name, cpu, 1);
    if (item->sets_flags)
        CALL(LiteRtSetCpuOptionsXNNPackFlags, item->name, cpu, item->xnnpack_flags);
    CALL(LiteRtAddOpaqueOptions, item->name, item->options, opaque);
    size_t whole = 0;
    for (size_t i = 0; i < item->launch_count; ++i) {
        bool accelerated;
        open_launch(item, item->launches[i], options->block);
        CALL(LiteRtCompiledModelIsFullyAccelerated, item->name, item->launches[i]->compiled, &accelerated);
        whole += accelerated;
    }
    snprintf(item->device, sizeof item->device, "LiteRT 2.1.2, %s, %zu of %zu launches by XNNPACK alone", item->kernels,
             whole, item->launch_count);
}

static void close_arrays(struct litert_array *arrays, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        LiteRtDestroyTensorBuffer(arrays[i].buffer);
        free(arrays[i].memory);
        free(arrays[i].kept);
    }
}

void litert_close(struct litert_item *item)
{
    for (size_t i = 0; i < item->launch_count; ++i) {
        struct litert_launch *launch = item->launches[i];
        close_arrays(launch->inputs, launch->input_count);
        close_arrays(launch->outputs, launch->output_count);
        free(launch->input_buffers);
        free(launch->output_buffers);
        LiteRtDestroyCompiledModel(launch->compiled);
        LiteRtDestroyModel(launch->model);
    }
    LiteRtDestroyOptions(item->options);
    LiteRtDestroyEnvironment(item->environment);
}

/* stored[position][channel] = given[channel][position], bytes of an element each. */
static void store(const struct litert_array *array, const unsigned char *given, unsigned char *stored)
{
    for (size_t c = 0; c < array->channels; ++c)
        for (size_t p = 0; p < array->positions; ++p)
            memcpy(&stored[(p * array->channels + c) * array->element],
                   &given[(c * array->positions + p) * array->element], array->element);
    if (array->flipped)
        for (size_t i = 0; i < width(array); ++i)
            stored[i] ^= FLIP;
}

static void fetch(const struct litert_array *array, const unsigned char *stored, unsigned char *given)
{
    for (size_t c = 0; c < array->channels; ++c)
        for (size_t p = 0; p < array->positions; ++p)
            memcpy(&given[(c * array->positions + p) * array->element],
                   &stored[(p * array->channels + c) * array->element], array->element);
    if (array->flipped)
        for (size_t i = 0; i < width(array); ++i)
            given[i] ^= FLIP;
}

void litert_run(struct litert_launch *launch, const void *const *sources, size_t vectors)
{
    for (size_t v = 0; v < vectors; ++v) {
        for (size_t i = 0; i < launch->input_count; ++i) {
            const struct litert_array *array = &launch->inputs[i];
            store(array, (const unsigned char *)sources[i] + v * width(array) * array->element, array->memory);
        }
        CALL(LiteRtRunCompiledModel, launch->name, launch->compiled, 0, launch->input_count, launch->input_buffers,
             launch->output_count, launch->output_buffers);
        for (size_t i = 0; i < launch->output_count; ++i) {
            const struct litert_array *array = &launch->outputs[i];
            const size_t bytes = width(array) * array->element;
            memcpy(array->kept + v * bytes, array->memory, bytes);
        }
    }
}

void litert_get(const struct litert_launch *launch, size_t output, void *to, size_t vectors)
{
    const struct litert_array *array = &launch->outputs[output];
    const size_t bytes = width(array) * array->element;
    for (size_t v = 0; v < vectors; ++v)
        fetch(array, array->kept + v * bytes, (unsigned char *)to + v * bytes);
}

const char *litert_device(const struct litert_item *item)
{
    return item->device;
}
