/* The launches of the schedule, one by one: probe_task of probe.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "buffers.h"
#include "fail.h"
#include "generate.h"
#include "network.h"
#include "npy.h"
#include "output_path.h"
#include "probe.h"
#include "schedule.h"
#include "vectors.h"

/* An output that is written to a file, and kept for the executions that must give the same. */
struct recorded {
    struct buffer buffer;
    struct path path;
    FILE *file;
    unsigned char *kept;   /* NULL: there is one pass only */
    unsigned char *former; /* what the execution before has given */
};

/* Content of an output before it is written. */
enum fill { FILL_PATTERN, FILL_ZERO, FILL_ONES, FILL_RANDOM, FILL_FORMER, FILLS };

struct trial {
    const struct options *options;
    const struct launch *launch;
    struct vectors vectors;
    struct random random;
    struct buffer *sources;
    struct recorded *outputs;
    size_t output_count;
    unsigned char *rows; /* of an execution, as they were read */
    struct execution execution;
    uint64_t done;       /* executions */
    size_t first;        /* vector of the execution; those behind the last one are the first ones again */
    bool again;
    struct probed probed;
};

/* Returns the value of a byte that nothing may read or write. */
static unsigned char pattern(size_t at)
{
    return (unsigned char)(0x5a + 37 * at);
}

static void fill_pattern(const struct buffer *buffer, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; ++i)
        buffer->bytes[i] = pattern(i);
}

static bool has_pattern(const struct buffer *buffer, size_t first, size_t count)
{
    unsigned char different = 0;
    for (size_t i = first; i < first + count; ++i)
        different |= buffer->bytes[i] ^ pattern(i);
    return different == 0;
}

static size_t whole(const struct buffer *buffer)
{
    return buffer->copies * network.block_capacity * buffer->row;
}

/* Returns the first row of an execution. */
static size_t begin_of(const struct buffer *buffer, struct execution execution)
{
    return (size_t)(execution.index % buffer->copies) * network.block_capacity * buffer->row;
}

static void note_fault(struct trial *trial, const char *what, const char *buffer)
{
    if (!trial->probed.fault[0])
        snprintf(trial->probed.fault, sizeof trial->probed.fault, "execution %" PRIu64 ", of %zu vectors from vector %zu on, %s %.100s",
                 trial->execution.index, trial->execution.vectors, trial->first, what, buffer);
}

/* Gives the sources their vectors, or after the execution compares them and takes them away again. */
static void put_sources(struct trial *trial)
{
    const unsigned char *from = trial->rows;
    for (size_t v = 0; v < trial->execution.vectors; ++v)
        for (size_t i = 0; i < trial->launch->source_count; from += trial->sources[i++].row) {
            const struct buffer *source = &trial->sources[i];
            memcpy(source->bytes + begin_of(source, trial->execution) + v * source->row, from, source->row);
        }
}

static void take_sources(struct trial *trial)
{
    const unsigned char *expected = trial->rows;
    for (size_t v = 0; v < trial->execution.vectors; ++v)
        for (size_t i = 0; i < trial->launch->source_count; expected += trial->sources[i++].row) {
            const struct buffer *source = &trial->sources[i];
            const size_t at = begin_of(source, trial->execution) + v * source->row;
            if (memcmp(source->bytes + at, expected, source->row) != 0)
                note_fault(trial, "changes its input", source->name);
            fill_pattern(source, at, source->row);
        }
}

static void require_untouched(struct trial *trial)
{
    for (size_t i = 0; i < trial->output_count; ++i) {
        const struct buffer *buffer = &trial->outputs[i].buffer;
        if (!has_pattern(buffer, begin_of(buffer, trial->execution), trial->execution.vectors * buffer->row))
            note_fault(trial, "finds that one before has written beyond its vectors in", buffer->name);
    }
}

/* A task that reads its output before it writes it gives another one for one of these values. */
static void fill_output(const struct trial *trial, const struct recorded *output)
{
    unsigned char *rows = output->buffer.bytes + begin_of(&output->buffer, trial->execution);
    const size_t bytes = trial->execution.vectors * output->buffer.row;
    switch ((enum fill)(trial->done % FILLS)) {
    case FILL_ZERO: memset(rows, 0, bytes); break;
    case FILL_ONES: memset(rows, 0xff, bytes); break;
    case FILL_RANDOM: generate_random(rows, 0, bytes, trial->done); break;
    case FILL_FORMER: memcpy(rows, output->former, bytes); break;
    default: break;
    }
}

/* Returns whether the vectors of the execution have the outputs of the first pass. */
static bool is_as_before(const struct trial *trial, const struct recorded *output, const unsigned char *made)
{
    const size_t row = output->buffer.row, count = trial->vectors.count;
    for (size_t done = 0, next; done < trial->execution.vectors; done = next) {
        const size_t first = (trial->first + done) % count;
        next = done + count - first < trial->execution.vectors ? done + count - first : trial->execution.vectors;
        if (memcmp(output->kept + first * row, made + done * row, (next - done) * row) != 0)
            return false;
    }
    return true;
}

static void take_output(struct trial *trial, struct recorded *output)
{
    const struct buffer *buffer = &output->buffer;
    const size_t at = begin_of(buffer, trial->execution), bytes = trial->execution.vectors * buffer->row;
    const unsigned char *made = buffer->bytes + at;
    if (!trial->again)
        npy_write(output->file, output->path.text, made, bytes);
    if (output->kept && !trial->again)
        memcpy(output->kept + trial->first * buffer->row, made, bytes);
    else if (output->kept && !is_as_before(trial, output, made))
        note_fault(trial, "gives other outputs than before in", buffer->name);
    memcpy(output->former, made, bytes);
    fill_pattern(buffer, at, bytes);
}

static void read_vectors(struct trial *trial)
{
    for (size_t done = 0, next; done < trial->execution.vectors; done = next) {
        if (trial->vectors.next == trial->vectors.count)
            vectors_seek(&trial->vectors, 0);
        const size_t left = trial->vectors.count - trial->vectors.next;
        next = done + left < trial->execution.vectors ? done + left : trial->execution.vectors;
        vectors_read(&trial->vectors, trial->rows + done * trial->vectors.row, next - done);
    }
}

static void execute(struct trial *trial)
{
    read_vectors(trial);
    require_untouched(trial);
    put_sources(trial);
    for (size_t i = 0; i < trial->output_count; ++i)
        fill_output(trial, &trial->outputs[i]);
    for (size_t i = 0; i < trial->launch->task_count; ++i)
        network.tasks[trial->launch->tasks[i].task].forward(trial->execution.vectors, trial->execution.index);
    if (network.items[trial->launch->item].finish)
        network.items[trial->launch->item].finish(trial->execution.vectors);
    take_sources(trial);
    for (size_t i = 0; i < trial->output_count; ++i)
        take_output(trial, &trial->outputs[i]);
    trial->first = (trial->first + trial->execution.vectors) % trial->vectors.count;
    ++trial->execution.index;
    ++trial->done;
}

/* The next block of a pass over all vectors. */
static void execute_block(struct trial *trial)
{
    trial->execution.vectors = next_block(trial->options, &trial->random, trial->vectors.count - trial->first);
    execute(trial);
    trial->again |= trial->first == 0;
}

/* Blocks of `size` vectors until so many have passed, from vector `size` on: other rows hold them than in a pass. */
static void execute_size(struct trial *trial, size_t size)
{
    trial->first = size % trial->vectors.count;
    vectors_seek(&trial->vectors, trial->first);
    size_t passed = 0;
    do {
        trial->execution.vectors = size;
        execute(trial);
        passed += size;
    } while (passed < trial->options->size_vectors && !trial->probed.fault[0]);
}

/* Returns whether a pass is in progress, or another one must begin. */
static bool is_to_pass(const struct trial *trial)
{
    return trial->first != 0 || !trial->again || trial->done < trial->options->executions;
}

static void execute_all(struct trial *trial)
{
    const struct options *options = trial->options;
    while (is_to_pass(trial) && !trial->probed.fault[0])
        execute_block(trial);
    for (size_t i = 0; i < options->window_count; ++i) {
        trial->execution.index = options->window_first[i];
        for (size_t n = 0; n < options->window && !trial->probed.fault[0]; ++n)
            execute_block(trial);
    }
    for (size_t size = 1; size <= options->every_size && !trial->probed.fault[0]; ++size)
        execute_size(trial, size);
}

/* Every buffer of the program, but for those that the launch writes and nobody asks for. */
static void each_buffer(struct trial *trial, void (*act)(struct trial *trial, const struct buffer *buffer))
{
    for (size_t i = 0; i < network.input_count; ++i) {
        const struct buffer input = buffer_of(network.task_count + i);
        act(trial, &input);
    }
    for (size_t i = 0; i < network.task_count; ++i) {
        const struct buffer buffer = buffer_of(i);
        bool made = false;
        for (size_t t = 0; t < trial->launch->task_count; ++t)
            made |= trial->launch->tasks[t].task == i && !trial->launch->tasks[t].wanted;
        if (!made || trial->options->dump == DUMP_ALL)
            act(trial, &buffer);
    }
}

static void mark(struct trial *trial, const struct buffer *buffer)
{
    (void)trial;
    fill_pattern(buffer, 0, whole(buffer));
}

static void require_mark(struct trial *trial, const struct buffer *buffer)
{
    if (!has_pattern(buffer, 0, whole(buffer)))
        note_fault(trial, "or one before it has written where it has nothing to write, in the buffer of", buffer->name);
}

static void run(void *argument)
{
    struct trial *trial = argument;
    each_buffer(trial, mark);
    if (trial->vectors.count)
        execute_all(trial);
    each_buffer(trial, require_mark);
    trial->probed.vectors = trial->probed.rows = trial->vectors.count;
    trial->probed.executions = trial->done;
}

static const struct launch *find_launch(const char *name)
{
    for (size_t i = 0; i < network.launch_count; ++i)
        if (strcmp(network.tasks[network.launches[i].tasks->task].name, name) == 0)
            return &network.launches[i];
    fail(EXIT_USAGE, "--task %s: no launch of this network begins with such a task", name);
}

static size_t open_sources(struct trial *trial)
{
    size_t row = 0;
    trial->sources = allocate(trial->launch->source_count, sizeof *trial->sources);
    for (size_t i = 0; i < trial->launch->source_count; ++i) {
        trial->sources[i] = buffer_of(trial->launch->sources[i]);
        row += trial->sources[i].row;
    }
    return row;
}

static void open_output(struct trial *trial, size_t task)
{
    struct recorded *output = &trial->outputs[trial->output_count++];
    const struct task *of = &network.tasks[task];
    output->buffer = buffer_of(task);
    output->path = output_path(trial->options, of->name);
    output->file = npy_create(output->path.text, network.layers[of->layer].descr, trial->vectors.count, of->width);
    output->former = allocate(network.block_capacity, output->buffer.row);
    if (trial->options->executions || trial->options->every_size)
        output->kept = allocate(trial->vectors.count, output->buffer.row);
}

static void open_trial(struct trial *trial)
{
    const size_t row = open_sources(trial);
    trial->vectors = vectors_open(trial->options, "|u1", row, 1);
    trial->rows = allocate(network.block_capacity, row);
    trial->outputs = allocate(trial->launch->task_count, sizeof *trial->outputs);
    for (size_t i = 0; i < trial->launch->task_count; ++i)
        if (trial->launch->tasks[i].wanted || trial->options->dump == DUMP_ALL)
            open_output(trial, trial->launch->tasks[i].task);
}

static void close_trial(struct trial *trial)
{
    vectors_close(&trial->vectors);
    for (size_t i = 0; i < trial->output_count; ++i) {
        npy_close_written(trial->outputs[i].file, trial->outputs[i].path.text);
        free(trial->outputs[i].kept);
        free(trial->outputs[i].former);
    }
    free(trial->outputs);
    free(trial->sources);
    free(trial->rows);
}

static void reread_tables(void *item)
{
    ((const struct item *)item)->reread();
}

/* On the threads of the items: what a driver knows may belong to one. */
static void write_tables(const struct options *options)
{
    for (size_t i = 0; i < network.item_count; ++i)
        if (network.items[i].reread)
            schedule_call(i, reread_tables, (void *)&network.items[i]);
    probe_tables(options);
}

struct probed probe_task(const struct options *options)
{
    struct trial trial = {.options = options, .launch = find_launch(options->task)};
    trial.random = random_from(options->block_seed, 0);
    open_trial(&trial);
    schedule_call(trial.launch->item, run, &trial);
    close_trial(&trial);
    if (options->tables)
        write_tables(options);
    return trial.probed;
}
