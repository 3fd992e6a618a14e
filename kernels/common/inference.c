/* The program that every board runs: reads vectors, runs the static schedule of items, writes dumps and times.
 * For the proof it shows its constants and runs single stages, see probe.h.
 *
 * Standard output carries JSON lines only: with --version one handshake line, otherwise one line at the end,
 * whose absence is a failed execution.  Messages go to standard error.
 */
#include <stdio.h>

#include "fail.h"
#include "network.h"
#include "npy.h"
#include "options.h"
#include "probe.h"
#include "record.h"
#include "schedule.h"

enum { PROTOCOL = 2 }; /* raised when the command line, the files or the JSON lines change their meaning */

/* How much was done. */
struct counts {
    size_t vectors;
    size_t blocks;
    size_t samples; /* recorded executions of a block */
};

static void print_handshake(void)
{
    printf("{\"protocol\": %d, \"bundle\": \"%s\", \"model\": \"%s\", \"compiler\": \"%s\"}\n", PROTOCOL, BUNDLE_HASH,
           network.model, __VERSION__);
}

static void print_counts(struct counts counts)
{
    printf("{\"done\": true, \"bundle\": \"%s\", \"vectors\": %zu, \"blocks\": %zu, \"samples\": %zu}\n", BUNDLE_HASH,
           counts.vectors, counts.blocks, counts.samples);
}

static void run_recorded(const struct options *options, size_t block, size_t vectors)
{
    for (size_t repetition = 0; repetition < options->repeat; ++repetition) {
        schedule_run_block(vectors);
        if (options->time != TIME_NONE)
            record_times(options->time);
        if (options->trace)
            record_trace(block, repetition);
    }
    record_dumps(vectors);
}

static struct counts run_all(const struct options *options)
{
    struct counts counts = {0};
    FILE *vectors = npy_open_rows(options->vectors, "<f4", network.input_width, &counts.vectors);
    counts.blocks = (counts.vectors + options->block - 1) / options->block;
    counts.samples = counts.blocks * options->repeat;
    record_open(options, counts.vectors, counts.samples);
    schedule_start(options);
    for (size_t block = 0; block < counts.blocks; ++block) {
        const size_t left = counts.vectors - block * options->block;
        const size_t size = left < options->block ? left : options->block;
        npy_read(vectors, options->vectors, network.input, size * network.input_width * sizeof *network.input);
        for (size_t i = 0; block == 0 && i < options->warmup; ++i)
            schedule_run_block(size);
        run_recorded(options, block, size);
    }
    schedule_stop();
    record_close();
    fclose(vectors);
    return counts;
}

static void print_probed(struct probed probed)
{
    printf("{\"done\": true, \"bundle\": \"%s\", \"vectors\": %zu, \"rows\": %zu}\n", BUNDLE_HASH, probed.vectors,
           probed.rows);
}

static void run_as_asked(const struct options *options)
{
    if (options->version)
        print_handshake();
    else if (options->tables)
        print_probed(probe_tables(options));
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
