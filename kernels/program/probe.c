#include "probe.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "clock.h"
#include "fail.h"
#include "generate.h"
#include "network.h"
#include "npy.h"
#include "output_path.h"
#include "realtime.h"
#include "schedule.h"
#include "vectors.h"

/* A monotone stage changes each output less than 1024 times in a sweep, which wraps around once. */
enum { STEP_FIELDS = 3, STEP_LIMIT = 4000000, STEPS_A_COLUMN = 1024 };

/* A block of vectors before and behind a stage, where the schedule has them if it is known: a stage that looks at its
 * addresses cannot tell the one from the other. */
struct block {
    const struct stage *stage;
    size_t input_row, output_row; /* bytes of a vector */
    size_t size;                  /* vectors */
    unsigned char *inputs, *outputs;
    unsigned char *own_inputs, *own_outputs;  /* of them, what was allocated */
    size_t input_on_stack, output_on_stack;   /* bytes of a vector that forward has on its stack; 0: it has not */
    unsigned char *fill;                      /* what the outputs are before they are written */
    size_t done;                              /* blocks */
};

/* A query to execute on the thread of an item. */
struct question {
    const struct options *options;
    const struct stage *stage;
    struct probed probed;
};

void probe_devices(const struct options *options)
{
    for (size_t i = 0; i < network.item_count; ++i)
        network.items[i].init(options);
    for (size_t i = 0; i < network.item_count; ++i)
        network.items[i].close();
}

struct probed probe_tables(const struct options *options)
{
    for (size_t i = 0; i < network.table_count; ++i) {
        const struct table *table = &network.tables[i];
        const struct path path = output_path(options, table->name);
        FILE *file = npy_create(path.text, table->descr, table->rows, table->columns);
        npy_write(file, path.text, table->values, table->rows * table->columns * table->element_size);
        npy_close_written(file, path.text);
    }
    return (struct probed){.vectors = network.table_count, .rows = network.table_count};
}

static const struct stage *find_stage(const char *name)
{
    for (size_t i = 0; i < network.stage_count; ++i)
        if (strcmp(network.stages[i].name, name) == 0)
            return &network.stages[i];
    fail(EXIT_USAGE, "--stage %s: this network has no such stage", name);
}

size_t probe_readings(const struct options *options)
{
    uint64_t *readings = allocate(options->readings + 1, sizeof *readings);
    steady_move(options->core[0], options->fifo);
    meter_choose(options->quantity);
    meter_open();
    for (size_t i = 0; i <= options->readings; ++i)
        readings[i] = meter_read();
    for (size_t i = 0; i < options->readings; ++i)
        readings[i] = meter_difference(readings[i], readings[i + 1]);
    const struct path path = output_path(options, "readings");
    FILE *file = npy_create(path.text, "<u8", options->readings, 1);
    npy_write(file, path.text, readings, options->readings * sizeof *readings);
    npy_close_written(file, path.text);
    free(readings);
    return options->readings;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The launch whose only task the stage is a part of; NULL where a device has the task's memory. */
static const struct launch *launch_of(const struct stage *stage)
{
    const struct launch *found = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < network.launch_count; ++i) {
        const char *name = network.tasks[network.launches[i].tasks->task].name;
        const size_t length = strlen(name);
        if (length > longest && strncmp(stage->name, name, length) == 0 && stage->name[length] == '_') {
            found = &network.launches[i];
            longest = length;
        }
    }
    return network.items[stage->item].device ? NULL : found;
}

static bool is_part(const struct stage *stage, const struct task *task, const char *part)
{
    return strcmp(stage->name + strlen(task->name), part) == 0;
}

/* Has the stage read from the first buffer that its task reads, if its elements are of that type. */
static void place_inputs(struct block *block, const struct launch *launch)
{
    const struct buffer source = buffer_of(launch->sources[0]);
    const size_t vectors = source.row * network.block_capacity / block->input_row;
    if (vectors == 0 || strcmp(source.descr, block->stage->input_descr) != 0)
        return;
    block->inputs = source.bytes;
    block->size = smaller(block->size, vectors);
}

/* Has the stage write into the buffer of its task, if its outputs are those of the task. */
static void place_outputs(struct block *block, const struct task *task)
{
    const struct layer *layer = &network.layers[task->layer];
    if (task->width == block->stage->output_width && strcmp(layer->descr, block->stage->output_descr) == 0)
        block->outputs = task->buffer;
}

/* Zeros, ones or random bytes in every vector. */
static void make_fill(struct block *block)
{
    const size_t row = block->output_row;
    block->fill = allocate(block->size, row);
    generate_random(block->fill, 0, block->size * row, 0);
    for (size_t v = 0; v < block->size; ++v)
        if (v % 3 != 2)
            memset(block->fill + v * row, v % 3 ? 0xff : 0, row);
}

static struct block prepare(const struct options *options, const struct stage *stage)
{
    struct block block = {.stage = stage, .size = options->block};
    const struct launch *launch = launch_of(stage);
    block.input_row = stage->input_width * stage->input_size;
    block.output_row = stage->output_width * stage->output_size;
    if (launch) {
        const struct task *task = &network.tasks[launch->tasks->task];
        block.input_on_stack = is_part(stage, task, "_finish") ? block.input_row : 0;
        block.output_on_stack = is_part(stage, task, "_accumulate") ? block.output_row : 0;
        if (!block.input_on_stack)
            place_inputs(&block, launch);
        if (!block.output_on_stack)
            place_outputs(&block, task);
    }
    if (!block.inputs)
        block.inputs = block.own_inputs = allocate(block.size, block.input_row);
    if (!block.outputs)
        block.outputs = block.own_outputs = allocate(block.size, block.output_row);
    make_fill(&block);
    return block;
}

static void finish(struct block *block)
{
    free(block->own_inputs);
    free(block->own_outputs);
    free(block->fill);
}

/* One vector after the other, by way of an array that is aligned as that of forward. */
static void apply_on_stack(const struct block *block, size_t vectors)
{
    const bool input = block->input_on_stack != 0;
    unsigned char array[block->input_on_stack + block->output_on_stack] __attribute__((aligned(64)));
    for (size_t v = 0; v < vectors; ++v) {
        unsigned char *in = block->inputs + v * block->input_row, *out = block->outputs + v * block->output_row;
        memcpy(array, input ? in : out, sizeof array);
        block->stage->apply(1, input ? array : in, input ? out : array);
        if (!input)
            memcpy(out, array, sizeof array);
    }
}

/* The outputs hold the fill before, and in every fourth block what the one before has given. */
static void apply(struct block *block, size_t vectors)
{
    if (block->done++ % 4 != 3)
        memcpy(block->outputs, block->fill, vectors * block->output_row);
    if (block->input_on_stack || block->output_on_stack)
        apply_on_stack(block, vectors);
    else
        block->stage->apply(vectors, block->inputs, block->outputs);
}

/* Has `answer` run on the thread of the stage's item. */
static struct probed ask_stage(const struct options *options, void (*answer)(void *question))
{
    struct question question = {.options = options, .stage = find_stage(options->stage)};
    schedule_call(question.stage->item, answer, &question);
    return question.probed;
}

static void pass_vectors(void *argument)
{
    struct question *question = argument;
    const struct options *options = question->options;
    const struct stage *stage = question->stage;
    struct block block = prepare(options, stage);
    struct vectors from = vectors_open(options, stage->input_descr, stage->input_width, stage->input_size);
    const struct path path = output_path(options, stage->name);
    FILE *to = npy_create(path.text, stage->output_descr, from.count, stage->output_width);
    for (size_t done = 0; done < from.count; done += block.size) {
        const size_t size = smaller(from.count - done, block.size);
        vectors_read(&from, block.inputs, size);
        apply(&block, size);
        npy_write(to, path.text, block.outputs, size * block.output_row);
    }
    vectors_close(&from);
    npy_close_written(to, path.text);
    finish(&block);
    question->probed = (struct probed){.vectors = from.count, .rows = from.count};
}

struct probed probe_stage(const struct options *options)
{
    return ask_stage(options, pass_vectors);
}

/* The vectors from number `first` on, of a sweep that begins with `start`. */
static void fill(struct block *block, const uint32_t *start, uint32_t first, size_t vectors)
{
    const size_t width = block->stage->input_width;
    uint32_t *inputs = (uint32_t *)(void *)block->inputs;
    for (size_t v = 0; v < vectors; ++v)
        for (size_t n = 0; n < width; ++n)
            inputs[v * width + n] = start[n] + first + (uint32_t)v;
}

/* The steps of a sweep on their way to the file; `before` is the outputs of the vector before. */
struct steps {
    FILE *file;
    const char *path;
    unsigned char *before;
    size_t count;
};

static void write_steps(struct steps *steps, const unsigned char *outputs, size_t width, uint32_t vector)
{
    for (size_t n = 0; n < width; ++n) {
        if (vector != 0 && outputs[n] == steps->before[n])
            continue;
        const uint32_t step[STEP_FIELDS] = {(uint32_t)n, vector, outputs[n]};
        npy_write(steps->file, steps->path, step, sizeof step);
        ++steps->count;
    }
    memcpy(steps->before, outputs, width);
}

static void find_steps(struct steps *steps, const struct block *block, uint32_t first, size_t vectors)
{
    const size_t width = block->output_row;
    for (size_t v = 0; v < vectors; ++v) {
        const unsigned char *outputs = &block->outputs[v * width];
        if (first + v == 0 || memcmp(outputs, steps->before, width) != 0)
            write_steps(steps, outputs, width, (uint32_t)(first + v));
    }
}

static void read_start(const struct options *options, const struct stage *stage, uint32_t *start)
{
    size_t rows;
    FILE *file = npy_open_rows(options->vectors, stage->input_descr, stage->input_width, &rows);
    if (rows != 1 || stage->input_size != sizeof *start)
        fail(EXIT_USAGE, "--sweep: expected one vector of 4-byte values in %s", options->vectors);
    npy_read(file, options->vectors, start, stage->input_width * sizeof *start);
    fclose(file);
}

static struct probed sweep_steps(const struct options *options, struct block *block, const uint32_t *start,
                                 const char *path)
{
    struct steps steps = {npy_create(path, "<u4", 0, STEP_FIELDS), path, allocate(1, block->output_row), 0};
    const size_t limit = STEP_LIMIT + STEPS_A_COLUMN * block->output_row;
    size_t done = 0;
    while (done < options->sweep && steps.count < limit) {
        const size_t size = smaller(options->sweep - done, block->size);
        fill(block, start, (uint32_t)done, size);
        apply(block, size);
        find_steps(&steps, block, (uint32_t)done, size);
        done += size;
    }
    npy_set_rows(steps.file, path, "<u4", steps.count, STEP_FIELDS);
    npy_close_written(steps.file, path);
    free(steps.before);
    return (struct probed){.vectors = done, .rows = steps.count};
}

static struct probed sweep_values(const struct options *options, struct block *block, const uint32_t *start,
                                  const char *path)
{
    const struct stage *stage = block->stage;
    FILE *file = npy_create(path, stage->output_descr, options->sweep, stage->output_width);
    for (size_t done = 0; done < options->sweep; done += block->size) {
        const size_t size = smaller(options->sweep - done, block->size);
        fill(block, start, (uint32_t)done, size);
        apply(block, size);
        npy_write(file, path, block->outputs, size * block->output_row);
    }
    npy_close_written(file, path);
    return (struct probed){.vectors = options->sweep, .rows = options->sweep};
}

static void sweep(void *argument)
{
    struct question *question = argument;
    const struct options *options = question->options;
    struct block block = prepare(options, question->stage);
    uint32_t *start = allocate(block.stage->input_width, sizeof *start);
    read_start(options, block.stage, start);
    const struct path path = output_path(options, block.stage->name);
    question->probed = block.stage->output_size == 1 ? sweep_steps(options, &block, start, path.text)
                                                     : sweep_values(options, &block, start, path.text);
    free(start);
    finish(&block);
}

struct probed probe_sweep(const struct options *options)
{
    return ask_stage(options, sweep);
}
