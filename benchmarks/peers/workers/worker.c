/* The main program of a contender written in C: commands on standard input, one line of answer each.
 *
 * usage: worker VECTORS VERSION COMPUTES [ARGUMENT...]
 *
 * The protocol is that of benchmarks/README.md, Peers.
 */
#include "worker.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fail.h"
#include "npy.h"

enum { CALLS_LIMIT = 1 << 20 };

static struct contender contender;
static float *vectors; /* (vector_count, contender.input_width) */
static size_t vector_count, next_vector;
static float *copied;
static uint64_t time_ns[CALLS_LIMIT];

/* All that a call is but the inference: what an empty call costs. */
static void run_nothing(const float *vector)
{
    memcpy(copied, vector, contender.input_width * sizeof *vector);
    __asm__ volatile("" ::: "memory");
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static const float *take_vector(void)
{
    const float *vector = &vectors[next_vector * contender.input_width];
    next_vector = (next_vector + 1) % vector_count;
    return vector;
}

static void time_calls(void (*run)(const float *), size_t calls)
{
    const size_t warmup = (calls + 1) / 2; /* another contender had the caches and the branch predictors */
    for (size_t i = 0; i < warmup; ++i)
        run(take_vector());
    for (size_t i = 0; i < calls; ++i) {
        const float *vector = take_vector();
        const uint64_t begin_ns = now_ns();
        run(vector);
        time_ns[i] = now_ns() - begin_ns;
    }
}

static void answer_times(void (*run)(const float *), size_t calls)
{
    if (calls > CALLS_LIMIT)
        fail(EXIT_USAGE, "%zu calls, but a block has at most %d", calls, CALLS_LIMIT);
    time_calls(run, calls);
    for (size_t i = 0; i < calls; ++i)
        printf("%llu ", (unsigned long long)time_ns[i]);
    printf("\n");
}

static void write_outputs(const char *path)
{
    FILE *file = npy_create(path, "<f4", vector_count, contender.output_width);
    for (size_t i = 0; i < vector_count; ++i) {
        contender.run(&vectors[i * contender.input_width]);
        npy_write(file, path, contender.output, contender.output_width * sizeof *contender.output);
    }
    npy_close_written(file, path);
    printf("%s\n", path);
}

static void obey(const char *command)
{
    char path[4096];
    size_t calls;
    if (sscanf(command, "outputs %4095[^\n]", path) == 1)
        write_outputs(path);
    else if (sscanf(command, "go %zu", &calls) == 1)
        answer_times(contender.run, calls);
    else if (sscanf(command, "empty %zu", &calls) == 1)
        answer_times(run_nothing, calls);
    else
        fail(EXIT_USAGE, "expected outputs PATH, go CALLS or empty CALLS, not %s", command);
    fflush(stdout);
}

static void read_vectors(const char *path)
{
    FILE *file = npy_open_rows(path, "<f4", contender.input_width, &vector_count);
    vectors = allocate(vector_count * contender.input_width, sizeof *vectors);
    npy_read(file, path, vectors, vector_count * contender.input_width * sizeof *vectors);
    fclose(file);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        fail(EXIT_USAGE, "expected VECTORS VERSION COMPUTES [ARGUMENT...]");
    contender = contender_open(&argv[4]);
    read_vectors(argv[1]);
    copied = allocate(contender.input_width, sizeof *copied);
    printf("{\"version\": \"%s\", \"computes\": \"%s\"}\n", argv[2], argv[3]);
    fflush(stdout);
    char command[4200];
    while (fgets(command, sizeof command, stdin))
        obey(command);
    return 0;
}
