#include "record.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "fail.h"
#include "network.h"
#include "npy.h"
#include "schedule.h"

enum { PATH_SIZE = 4096 };

/* An output file and its name for messages. */
struct output {
    FILE *file;
    char path[PATH_SIZE];
    unsigned char *kept; /* what it has got, if all vectors are passed again: nothing may change; NULL: they are not */
    size_t at, bytes;    /* of `kept`: where the next vector is, and all of it */
    bool again;
};

/* Record of an execution in progress. */
struct row {
    uint64_t begin, end;
    uint64_t *parts; /* ns or events: of the network, of each item, or of each layer */
};

static struct output *dumps; /* one a layer; no file where it is not dumped */
static struct output times, trace;
static struct row *rows;     /* (depth) */
static size_t columns;       /* of time.npy */
static size_t warmup, repeat, block;
static enum time_scope scope;
static char fault[256];    /* what has changed between two passes; empty: nothing */
static bool first_to_last; /* the network's time is that from its first task to its last; or else the sum of all tasks */

static void name_output(struct output *output, const char *folder, const char *name)
{
    if (snprintf(output->path, sizeof output->path, "%s/%s", folder, name) >= (int)sizeof output->path)
        fail(EXIT_USAGE, "--out %s: the path is too long", folder);
}

static void open_dump(size_t index, const char *folder, size_t vectors, bool keep)
{
    const struct layer *layer = &network.layers[index];
    char name[256];
    snprintf(name, sizeof name, "%02zu_%s.npy", index, layer->name);
    name_output(&dumps[index], folder, name);
    dumps[index].file = npy_create(dumps[index].path, layer->descr, vectors, layer->width);
    dumps[index].bytes = vectors * layer->width * layer->element_size;
    if (keep)
        dumps[index].kept = allocate(dumps[index].bytes, 1);
}

static size_t time_columns(void)
{
    return scope == TIME_LAYER ? network.layer_count : scope == TIME_ITEM ? network.item_count : 1;
}

static void open_times(const struct options *options, size_t samples)
{
    columns = time_columns();
    rows = allocate(network.depth, sizeof *rows);
    for (size_t i = 0; i < network.depth; ++i)
        rows[i].parts = allocate(columns, sizeof *rows[i].parts);
    name_output(&times, options->out, "time.npy");
    times.file = npy_create(times.path, "<u8", samples, columns);
}

static void open_trace(const struct options *options)
{
    static char buffer[BUFSIZ]; /* or else the first line, which is written after init, would allocate one */
    name_output(&trace, options->out, "trace.jsonl");
    trace.file = fopen(trace.path, "w");
    if (!trace.file)
        fail_errno(EXIT_IO, "cannot create", trace.path);
    setvbuf(trace.file, buffer, _IOFBF, sizeof buffer);
}

void record_open(const struct options *options, size_t vectors, size_t samples)
{
    warmup = options->warmup;
    repeat = options->repeat;
    block = options->block;
    scope = options->time;
    first_to_last = scope == TIME_NETWORK && options->quantity == READ_TIME;
    dumps = allocate(network.layer_count, sizeof *dumps);
    for (size_t i = 0; i < network.layer_count; ++i)
        if (options->dump == DUMP_ALL || (options->dump == DUMP_LAST && i == network.layer_count - 1))
            open_dump(i, options->out, vectors, options->executions != 0);
    if (scope != TIME_NONE)
        open_times(options, samples);
    if (options->trace)
        open_trace(options);
}

static bool is_recorded(struct execution execution)
{
    return execution.vectors != 0 && execution.index >= warmup;
}

static bool is_last_repetition(struct execution execution)
{
    return (execution.index - warmup) % repeat == repeat - 1;
}

static const char *copy_of(const struct task *task, size_t element_size, uint64_t execution)
{
    const size_t bytes = network.block_capacity * task->width * element_size;
    return (const char *)task->buffer + execution % task->copies * bytes;
}

static void note_change(const struct layer *layer, const struct output *dump, struct execution execution)
{
    if (!fault[0])
        snprintf(fault, sizeof fault, "layer %.100s: execution %" PRIu64 " changes its output of vector %zu", layer->name,
                 execution.index, dump->at / (layer->width * layer->element_size));
}

/* The first pass is written; each pass after it is compared with it. */
static void put(const struct layer *layer, struct output *dump, struct execution execution, const char *data,
                size_t bytes)
{
    if (!dump->again)
        npy_write(dump->file, dump->path, data, bytes);
    if (!dump->kept)
        return;
    if (!dump->again)
        memcpy(dump->kept + dump->at, data, bytes);
    else if (memcmp(dump->kept + dump->at, data, bytes) != 0)
        note_change(layer, dump, execution);
    dump->at = (dump->at + bytes) % dump->bytes;
    dump->again |= dump->at == 0;
}

/* The columns of all tasks side by side in every run, one vector behind the other. */
static void put_merged(const struct layer *layer, struct output *dump, struct execution execution)
{
    const size_t runs = layer->tasks->runs; /* the same of all its tasks */
    for (size_t run = 0; run < execution.vectors * runs; ++run)
        for (size_t i = 0; i < layer->task_count; ++i) {
            const struct task *task = &layer->tasks[i];
            const size_t bytes = task->width / runs * layer->element_size;
            put(layer, dump, execution, copy_of(task, layer->element_size, execution.index) + run * bytes, bytes);
        }
}

static void record_dump(const struct layer *layer, struct output *dump)
{
    const struct execution execution = schedule_execution(layer->tasks->stage); /* the same of all its tasks */
    if (!is_recorded(execution) || !is_last_repetition(execution))
        return;
    if (layer->task_count > 1)
        put_merged(layer, dump, execution);
    else
        put(layer, dump, execution, copy_of(layer->tasks, layer->element_size, execution.index),
            execution.vectors * layer->width * layer->element_size);
}

static struct row *row_of(struct execution execution)
{
    return &rows[execution.index % network.depth];
}

static void begin_row(void)
{
    const struct execution begun = schedule_execution(0);
    row_of(begun)->begin = NOT_BEGUN;
    row_of(begun)->end = 0;
    for (size_t i = 0; i < columns; ++i)
        row_of(begun)->parts[i] = 0;
}

static size_t part_of(size_t item, const struct step *step)
{
    return scope == TIME_LAYER ? network.tasks[step->index].layer : scope == TIME_ITEM ? item : 0;
}

static void time_step(size_t item, const struct step *step, struct interval interval)
{
    const struct execution execution = schedule_execution(schedule_stage(step));
    if (step->kind != STEP_TASK || !is_recorded(execution))
        return;
    struct row *row = row_of(execution);
    row->begin = interval.begin < row->begin ? interval.begin : row->begin;
    row->end = interval.end > row->end ? interval.end : row->end;
    if (!first_to_last)
        row->parts[part_of(item, step)] += meter_difference(interval.begin, interval.end);
}

/* The network's time is that from the begin of its first task to the end of its last, all hand-overs included. */
static void end_row(void)
{
    const struct execution ended = schedule_execution(network.depth - 1);
    if (!is_recorded(ended))
        return;
    struct row *row = row_of(ended);
    if (first_to_last)
        row->parts[0] = meter_difference(row->begin, row->end);
    npy_write(times.file, times.path, row->parts, columns * sizeof *row->parts);
}

static void trace_step(size_t item, const struct step *step, struct interval interval)
{
    static const char *const KINDS[] = {
        [STEP_TASK] = "layer", [STEP_RAISE] = "flag", [STEP_WAIT] = "flag", [STEP_MEET] = "barrier"};
    const bool task = step->kind == STEP_TASK;
    const char *name = task ? network.tasks[step->index].name : network.hand_overs[step->index].name;
    const struct execution execution = schedule_execution(schedule_stage(step));
    const uint64_t index = execution.index - warmup;
    if (is_recorded(execution) &&
        fprintf(trace.file,
                "{\"execution\": %" PRIu64 ", \"vector\": %" PRIu64 ", \"item\": \"%s\", \"%s\": \"%s\", \"begin_ns\": %" PRIu64
                ", \"end_ns\": %" PRIu64 "}\n",
                index, index / repeat * block, network.items[item].name, KINDS[step->kind], name,
                clock_ns(interval.begin), clock_ns(interval.end)) < 0)
        fail_errno(EXIT_IO, "cannot write", trace.path);
}

static void each_step(void (*record)(size_t item, const struct step *step, struct interval interval))
{
    for (size_t i = 0; i < network.item_count; ++i)
        for (size_t s = 0; s < network.items[i].step_count; ++s)
            record(i, &network.items[i].steps[s], schedule_intervals(i)[s]);
}

void record_tick(void)
{
    for (size_t i = 0; i < network.layer_count; ++i)
        if (dumps[i].file)
            record_dump(&network.layers[i], &dumps[i]);
    if (times.file) {
        begin_row();
        each_step(time_step);
        end_row();
    }
    if (trace.file)
        each_step(trace_step);
}

const char *record_fault(void)
{
    return fault;
}

void record_close(void)
{
    for (size_t i = 0; i < network.layer_count; ++i)
        if (dumps[i].file)
            npy_close_written(dumps[i].file, dumps[i].path);
    if (times.file)
        npy_close_written(times.file, times.path);
    if (trace.file)
        npy_close_written(trace.file, trace.path);
}
