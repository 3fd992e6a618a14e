/* The program that every board runs: reads vectors, runs the static schedule of items, writes dumps and times.
 * For the proof it shows its constants and runs single stages, see probe.h.
 *
 * Standard output carries JSON lines only: with --version one handshake line, otherwise one line at the end,
 * whose absence is a failed execution.  Messages go to standard error.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "blocks.h"
#include "clock.h"
#include "fail.h"
#include "fp_environment.h"
#include "network.h"
#include "npy.h"
#include "options.h"
#include "probe.h"
#include "record.h"
#include "schedule.h"
#include "realtime.h"

enum { PROTOCOL = 7 }; /* raised when the command line, the files or the JSON lines change their meaning */

/* Counts of the completed work. */
struct counts {
    size_t vectors;
    size_t blocks;
    size_t samples; /* recorded executions of a block */
    size_t overlaps; /* executions in which two items worked at the same time; only with --jitter-ns */
    struct steadiness steadiness;
    struct disturbances disturbances; /* during these */
    long peak_memory_kib;             /* resident, of the whole process; -1: not known */
    uint64_t elapsed_ns;              /* from the begin of the first to the end of the last */
};

/* The vectors that pass through the network: a file's, in blocks, again from the first until there were enough. */
struct input {
    FILE *file;
    const char *path;
    long first;     /* where the vectors begin in the file */
    size_t count;
    size_t left;    /* vectors that have not been read */
    struct random random;
    size_t blocks;  /* that have been read, the last of them into the inputs of the network */
    size_t vectors; /* of that block */
    size_t passed;  /* blocks of the passes that --executions asks for; those of its windows follow */
};

static void print_handshake(void)
{
    printf("{\"protocol\": %d, \"bundle\": \"%s\", \"model\": \"%s\", \"compiler\": \"%s\"}\n", PROTOCOL, BUNDLE_HASH,
           network.model, __VERSION__);
}

/* A text of a driver or a model, of which nothing may end the string. */
static void print_text(const char *text)
{
    for (; *text; ++text)
        putchar(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? '?' : *text);
}

/* Prints a fault that the program detected in itself. */
static void print_fault(const char *text)
{
    printf("\"fault\": \"");
    print_text(text);
    printf("\", ");
}

/* Prints the environment of every item's thread; schedule_stop has been called. */
static void print_fp_environment(void)
{
    printf("\"fp_environment\": [");
    for (size_t i = 0; i < network.item_count; ++i) {
        const struct fp_values values = schedule_fp_values(i);
        printf("%s{\"item\": \"%s\", \"register\": \"" FP_REGISTER "\", \"before\": \"%#" PRIx64 "\", \"after\": \"%#" PRIx64 "\"}",
               i ? ", " : "", network.items[i].name, values.before, values.after);
    }
    printf("]");
}

static void print_counts(struct counts counts)
{
    const struct disturbances disturbances = counts.disturbances;
    printf("{\"done\": true, \"bundle\": \"%s\", \"vectors\": %zu, \"blocks\": %zu, \"samples\": %zu, ", BUNDLE_HASH,
           counts.vectors, counts.blocks, counts.samples);
    printf("\"overlaps\": %zu, ", counts.overlaps);
    print_fault(record_fault());
    print_fp_environment();
    printf(", \"elapsed_ns\": %" PRIu64 ", ", counts.elapsed_ns);
    printf("\"memory_locked\": %s, \"dma_latency_held\": %s, ", counts.steadiness.memory_locked ? "true" : "false",
           counts.steadiness.dma_latency_held ? "true" : "false");
    printf("\"voluntary_switches\": %ld, \"involuntary_switches\": %ld, \"minor_faults\": %ld, \"major_faults\": %ld, ",
           disturbances.voluntary_switches, disturbances.involuntary_switches, disturbances.minor_faults,
           disturbances.major_faults);
    printf("\"peak_memory_kib\": %ld}\n", counts.peak_memory_kib);
}

static struct disturbances difference(struct disturbances begin, struct disturbances end)
{
    return (struct disturbances){
        end.voluntary_switches - begin.voluntary_switches, end.involuntary_switches - begin.involuntary_switches,
        end.minor_faults - begin.minor_faults, end.major_faults - begin.major_faults};
}

/* Returns the number of blocks: the sizes are drawn from `random`, a copy. */
static size_t count_blocks(const struct options *options, struct random random, size_t vectors)
{
    size_t blocks = 0;
    for (size_t left = vectors; vectors && (left || blocks < options->executions); ++blocks) {
        left = left ? left : vectors;
        left -= next_block(options, &random, left);
    }
    return blocks;
}

/* A file of vectors has the values of the only input, or rows of bytes with the values of each input in turn. */
static FILE *open_vectors(const char *path, size_t *count)
{
    if (network.input_count == 1)
        return npy_open_rows(path, network.inputs->descr, network.inputs->width, count);
    size_t bytes = 0;
    for (size_t i = 0; i < network.input_count; ++i)
        bytes += network.inputs[i].width * network.inputs[i].element_size;
    return npy_open_rows(path, "|u1", bytes, count);
}

static void read_values(const struct input *from, const struct network_input *input, size_t first, size_t vectors)
{
    const size_t row = input->width * input->element_size;
    npy_read(from->file, from->path, (unsigned char *)input->values + first * row, vectors * row);
}

static void load_block(struct input *input, const struct options *options)
{
    if (input->left == 0) {
        if (fseek(input->file, input->first, SEEK_SET) != 0)
            fail_errno(EXIT_IO, "cannot read again", input->path);
        input->left = input->count;
    }
    input->vectors = next_block(options, &input->random, input->left);
    input->left -= input->vectors;
    input->blocks += 1;
    const size_t at_once = network.input_count == 1 ? input->vectors : 1;
    for (size_t first = 0; first < input->vectors; first += at_once)
        for (size_t i = 0; i < network.input_count; ++i)
            read_values(input, &network.inputs[i], first, at_once);
}

/* Ends the executions that are under way. */
static void drain(void)
{
    for (size_t stage = 1; stage < network.depth; ++stage) {
        schedule_run_tick(0);
        record_tick();
    }
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
        if (options->window && block >= input->passed && (block - input->passed) % options->window == 0) {
            drain();
            schedule_continue_from(options->window_first[(block - input->passed) / options->window]);
        }
        if (block == input->blocks)
            load_block(input, options);
        schedule_run_tick(input->vectors);
        record_tick();
        counts->overlaps += options->jitter_ns && schedule_overlapped();
    }
    drain();
    counts->elapsed_ns = clock_ns(clock_read()) - begin_ns;
    counts->disturbances = difference(begin, steady_disturbances());
}

static struct counts run_all(const struct options *options)
{
    struct counts counts = {0};
    struct input input = {.path = options->vectors};
    input.file = open_vectors(options->vectors, &counts.vectors);
    input.first = ftell(input.file);
    input.count = input.left = counts.vectors;
    input.random = random_from(options->block_seed, 0);
    input.passed = count_blocks(options, input.random, counts.vectors);
    counts.blocks = input.passed + (input.passed ? options->window * options->window_count : 0);
    counts.samples = counts.blocks * options->repeat;
    record_open(options, counts.vectors, counts.samples);
    schedule_start(options);
    counts.steadiness = steady_begin(options); /* with all memory there: a limit refuses it, but stops no thread */
    run_executions(options, &input, &counts);
    schedule_stop();
    record_close();
    fclose(input.file);
    counts.peak_memory_kib = steady_peak_memory_kib();
    return counts;
}

static void print_probed(const struct probed *probed)
{
    printf("{\"done\": true, \"bundle\": \"%s\", \"vectors\": %zu, \"rows\": %zu, \"executions\": %" PRIu64 ", ", BUNDLE_HASH,
           probed->vectors, probed->rows, probed->executions);
    print_fault(probed->fault);
    print_fp_environment();
    printf("}\n");
}

static void print_readings(size_t readings)
{
    printf("{\"done\": true, \"bundle\": \"%s\", \"readings\": %zu, \"resolution_ns\": %.6g}\n", BUNDLE_HASH, readings,
           clock_resolution_ns());
}

/* Prints the device of each item that does not run on the processor. */
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

/* Asks parts of the program, on the threads of their items. */
static void probe(const struct options *options, probe_function *ask)
{
    schedule_start(options);
    const struct probed probed = ask(options);
    schedule_stop();
    print_probed(&probed);
}

static void run_as_asked(const struct options *options)
{
    if (options->version)
        print_handshake();
    else if (options->devices) {
        probe_devices(options);
        print_devices();
    } else if (options->readings)
        print_readings(probe_readings(options));
    else if (options->task)
        probe(options, probe_task);
    else if (options->sweep)
        probe(options, probe_sweep);
    else if (options->stage)
        probe(options, probe_stage);
    else if (options->tables)
        probe(options, probe_tables);
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
