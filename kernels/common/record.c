#include "record.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "fail.h"
#include "network.h"
#include "npy.h"
#include "schedule.h"

enum { PATH_SIZE = 4096 };

/* An output file and its name for messages. */
struct output {
    FILE *file;
    char path[PATH_SIZE];
};

static struct output *dumps; /* one a layer; no file where it is not dumped */
static struct output times, trace;
static uint64_t *row_ns;     /* one row of time.npy */
static size_t columns;

static void name_output(struct output *output, const char *folder, const char *name)
{
    if (snprintf(output->path, sizeof output->path, "%s/%s", folder, name) >= (int)sizeof output->path)
        fail(EXIT_USAGE, "--out %s: the path is too long", folder);
}

static void open_dump(size_t index, const char *folder, size_t vectors)
{
    const struct layer *layer = &network.layers[index];
    char name[256];
    snprintf(name, sizeof name, "%02zu_%s.npy", index, layer->name);
    name_output(&dumps[index], folder, name);
    dumps[index].file = npy_create(dumps[index].path, layer->descr, vectors, layer->width);
}

static size_t time_columns(enum time_scope scope)
{
    return scope == TIME_LAYER ? network.layer_count : scope == TIME_ITEM ? network.item_count : 1;
}

static void open_times(const struct options *options, size_t samples)
{
    columns = time_columns(options->time);
    row_ns = allocate(columns, sizeof *row_ns);
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
    dumps = allocate(network.layer_count, sizeof *dumps);
    for (size_t i = 0; i < network.layer_count; ++i)
        if (options->dump == DUMP_ALL || (options->dump == DUMP_LAST && i == network.layer_count - 1))
            open_dump(i, options->out, vectors);
    if (options->time != TIME_NONE)
        open_times(options, samples);
    if (options->trace)
        open_trace(options);
}

void record_dumps(size_t vectors)
{
    for (size_t i = 0; i < network.layer_count; ++i) {
        const struct layer *layer = &network.layers[i];
        if (dumps[i].file)
            npy_write(dumps[i].file, dumps[i].path, layer->output, vectors * layer->width * layer->element_size);
    }
}

/* From the begin of the first layer to the end of the last, all hand-overs included. */
static void time_network(void)
{
    uint64_t begin_ns = UINT64_MAX, end_ns = 0;
    for (size_t i = 0; i < network.item_count; ++i)
        for (size_t s = 0; s < network.items[i].step_count; ++s) {
            const struct interval interval = schedule_intervals(i)[s];
            if (network.items[i].steps[s].kind != STEP_LAYER)
                continue;
            begin_ns = interval.begin_ns < begin_ns ? interval.begin_ns : begin_ns;
            end_ns = interval.end_ns > end_ns ? interval.end_ns : end_ns;
        }
    row_ns[0] = end_ns - begin_ns;
}

static void time_parts(enum time_scope scope)
{
    for (size_t i = 0; i < columns; ++i)
        row_ns[i] = 0;
    for (size_t i = 0; i < network.item_count; ++i)
        for (size_t s = 0; s < network.items[i].step_count; ++s) {
            const struct step *step = &network.items[i].steps[s];
            const struct interval interval = schedule_intervals(i)[s];
            if (step->kind == STEP_LAYER)
                row_ns[scope == TIME_ITEM ? i : step->index] += interval.end_ns - interval.begin_ns;
        }
}

void record_times(enum time_scope scope)
{
    if (scope == TIME_NETWORK)
        time_network();
    else
        time_parts(scope);
    npy_write(times.file, times.path, row_ns, columns * sizeof *row_ns);
}

static void trace_step(const struct item *item, const struct step *step, struct interval interval, size_t block,
                       size_t repetition)
{
    const int layer = step->kind == STEP_LAYER;
    const char *name = layer ? network.layers[step->index].name : network.barriers[step->index].name;
    if (fprintf(trace.file,
                "{\"block\": %zu, \"repetition\": %zu, \"item\": \"%s\", \"%s\": \"%s\", \"begin_ns\": %" PRIu64
                ", \"end_ns\": %" PRIu64 "}\n",
                block, repetition, item->name, layer ? "layer" : "barrier", name, interval.begin_ns,
                interval.end_ns) < 0)
        fail_errno(EXIT_IO, "cannot write", trace.path);
}

void record_trace(size_t block, size_t repetition)
{
    for (size_t i = 0; i < network.item_count; ++i)
        for (size_t s = 0; s < network.items[i].step_count; ++s)
            trace_step(&network.items[i], &network.items[i].steps[s], schedule_intervals(i)[s], block, repetition);
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
