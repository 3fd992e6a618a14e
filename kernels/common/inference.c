/* The program that every board runs: reads vectors, runs the static schedule of items, writes dumps and times.
 * For the proof it shows its constants and runs single stages, see probe.h.
 *
 * Standard output carries JSON lines only: with --version one handshake line, otherwise one line at the end,
 * whose absence is a failed execution.  Messages go to standard error.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "clock.h"
#include "fail.h"
#include "network.h"
#include "npy.h"
#include "options.h"
#include "probe.h"
#include "record.h"
#include "schedule.h"
#include "steady.h"

enum { PROTOCOL = 5 }; /* raised when the command line, the files or the JSON lines change their meaning */

/* How much was done. */
struct counts {
    size_t vectors;
    size_t blocks;
    size_t samples; /* recorded executions of a block */
    struct steadiness steadiness;
    struct disturbances disturbances; /* during these */
    uint64_t elapsed_ns;              /* from the begin of the first to the end of the last */
};

/* The vectors that pass through the network: a file's, in blocks. */
struct input {
    FILE *file;
    const char *path;
    size_t left;    /* vectors that have not been read */
    size_t blocks;  /* that have been read, the last of them into network.input */
    size_t vectors; /* of that block */
};

static void print_handshake(void)
{
    printf("{\"protocol\": %d, \"bundle\": \"%s\", \"model\": \"%s\", \"compiler\": \"%s\"}\n", PROTOCOL, BUNDLE_HASH,
           network.model, __VERSION__);
}

static void print_counts(struct counts counts)
{
    const struct disturbances disturbances = counts.disturbances;
    printf("{\"done\": true, \"bundle\": \"%s\", \"vectors\": %zu, \"blocks\": %zu, \"samples\": %zu, ", BUNDLE_HASH,
           counts.vectors, counts.blocks, counts.samples);
    printf("\"elapsed_ns\": %" PRIu64 ", ", counts.elapsed_ns);
    printf("\"memory_locked\": %s, \"dma_latency_held\": %s, ", counts.steadiness.memory_locked ? "true" : "false",
           counts.steadiness.dma_latency_held ? "true" : "false");
    printf("\"voluntary_switches\": %ld, \"involuntary_switches\": %ld, \"minor_faults\": %ld, \"major_faults\": %ld}\n",
           disturbances.voluntary_switches, disturbances.involuntary_switches, disturbances.minor_faults,
           disturbances.major_faults);
}

static struct disturbances difference(struct disturbances begin, struct disturbances end)
{
    return (struct disturbances){
        end.voluntary_switches - begin.voluntary_switches, end.involuntary_switches - begin.involuntary_switches,
        end.minor_faults - begin.minor_faults, end.major_faults - begin.major_faults};
}

static void load_block(struct input *input, size_t capacity)
{
    input->vectors = input->left < capacity ? input->left : capacity;
    input->left -= input->vectors;
    input->blocks += 1;
    npy_read(input->file, input->path, network.input, input->vectors * network.input_width * sizeof *network.input);
}

/* The first block as often as it takes to warm up, then every block as often as it is to be repeated.
 *
 * Counts what disturbed the latter, and how long they took with all that lies between them. */
static void run_executions(const struct options *options, struct input *input, struct counts *counts)
{
    const size_t executions = counts->samples ? options->warmup + counts->samples : 0;
    struct disturbances begin = steady_disturbances();
    uint64_t begin_ns = clock_ns(clock_read());
    for (size_t index = 0; index < executions; ++index) {
        if (index == options->warmup) {
            begin = steady_disturbances();
            begin_ns = clock_ns(clock_read());
        }
        const size_t block = index < options->warmup ? 0 : (index - options->warmup) / options->repeat;
        if (block == input->blocks)
            load_block(input, options->block);
        schedule_run_tick(input->vectors);
        record_tick();
    }
    for (size_t stage = 1; stage < network.depth; ++stage) {
        schedule_run_tick(0);
        record_tick();
    }
    counts->elapsed_ns = clock_ns(clock_read()) - begin_ns;
    counts->disturbances = difference(begin, steady_disturbances());
}

static struct counts run_all(const struct options *options)
{
    struct counts counts = {0};
    struct input input = {.path = options->vectors};
    input.file = npy_open_rows(options->vectors, "<f4", network.input_width, &counts.vectors);
    input.left = counts.vectors;
    counts.blocks = (counts.vectors + options->block - 1) / options->block;
    counts.samples = counts.blocks * options->repeat;
    record_open(options, counts.vectors, counts.samples);
    schedule_start(options);
    counts.steadiness = steady_begin(options); /* with all memory there: a limit refuses it, but stops no thread */
    run_executions(options, &input, &counts);
    schedule_stop();
    record_close();
    fclose(input.file);
    return counts;
}

static void print_probed(struct probed probed)
{
    printf("{\"done\": true, \"bundle\": \"%s\", \"vectors\": %zu, \"rows\": %zu}\n", BUNDLE_HASH, probed.vectors,
           probed.rows);
}

static void print_readings(struct probed probed)
{
    printf("{\"done\": true, \"bundle\": \"%s\", \"readings\": %zu, \"resolution_ns\": %.6g}\n", BUNDLE_HASH, probed.rows,
           clock_resolution_ns());
}

/* A text of the driver's, of which nothing may end the string. */
static void print_text(const char *text)
{
    for (; *text; ++text)
        putchar(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? '?' : *text);
}

/* What each item runs on that does not run on the processor. */
static void print_devices(void)
{
    const char *separator = "";
    printf("{\"done\": true, \"bundle\": \"%s\", \"devices\": {", BUNDLE_HASH);
    for (size_t i = 0; i < network.item_count; ++i) {
        const struct item *item = &network.items[i];
        if (!item->device)
            continue;
        printf("%s\"%s\": \"", separator, item->name);
        print_text(item->device());
        printf("\"");
        separator = ", ";
    }
    printf("}}\n");
}

static void run_as_asked(const struct options *options)
{
    if (options->version)
        print_handshake();
    else if (options->devices) {
        probe_devices(options);
        print_devices();
    } else if (options->tables)
        print_probed(probe_tables(options));
    else if (options->readings)
        print_readings(probe_readings(options));
    else if (options->sweep)
        print_probed(probe_sweep(options));
    else if (options->stage)
        print_probed(probe_stage(options));
    else
        print_counts(run_all(options));
}

int main(int argc, char **argv)
{
    const struct options options = parse_options(argc, argv);
    run_as_asked(&options);
    if (fflush(stdout) != 0)
        fail_errno(EXIT_IO, "cannot write", "standard output");
    return 0;
}
