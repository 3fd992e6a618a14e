/* One inference, timed call by call: the generated network.c against ONNX Runtime, alternately, on one core.
 *
 * usage: inference LIBRARY MODEL INPUT-NAME OUTPUT-NAME VECTORS CORE PASSES FOLDER
 *
 * Both first compute every vector; a bit that differs ends the program before anything is timed.  Writes one
 * FOLDER/<contender>.npy each: uint32 nanoseconds, one row a call.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fail.h"
#include "network.h"
#include "options.h"
#include "npy.h"
#include "onnxruntime.h"

/* Calls of one contender before the next one's turn: enough to have its code and constants in the caches again. */
enum { SLICE = 512 };

struct contender {
    const char *name;
    void (*run)(const float *vector);
    uint32_t *time_ns;
};

static float *vectors; /* (vector_count, network.input_width) */
static size_t vector_count;
static float *runtime_input, *runtime_output;

static void run_nothing(const float *vector)
{
    (void)vector;
}

static void run_generated(const float *vector)
{
    memcpy(network.input, vector, network.input_width * sizeof *vector);
    for (size_t i = 0; i < network.task_count; ++i)
        network.tasks[i].forward(1, 0);
}

static void run_onnxruntime(const float *vector)
{
    memcpy(runtime_input, vector, network.input_width * sizeof *vector);
    runtime_run();
}

/* The clock alone is a contender, because every time contains two readings of it. */
static struct contender contenders[] = {
    {"clock", run_nothing, NULL},
    {"generated", run_generated, NULL},
    {"onnxruntime", run_onnxruntime, NULL},
};

enum { CONTENDERS = sizeof contenders / sizeof *contenders };

static void pin(const char *core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(core), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail_errno(EXIT_SYSTEM, "cannot pin to core", core);
}

static void read_vectors(const char *path)
{
    FILE *file = npy_open_rows(path, "<f4", network.input_width, &vector_count);
    vectors = allocate(vector_count * network.input_width, sizeof *vectors);
    npy_read(file, path, vectors, vector_count * network.input_width * sizeof *vectors);
    fclose(file);
}

static void prepare(char **argument)
{
    const size_t output_width = network.layers[network.layer_count - 1].width;
    runtime_input = allocate(network.input_width, sizeof *runtime_input);
    runtime_output = allocate(output_width, sizeof *runtime_output);
    const struct runtime_model model = {
        .library = argument[0],
        .path = argument[1],
        .input_name = argument[2],
        .output_name = argument[3],
        .input_width = network.input_width,
        .output_width = output_width,
    };
    runtime_open(&model, runtime_input, runtime_output);
    for (size_t i = 0; i < network.item_count; ++i)
        network.items[i].init(&(struct options){.block = network.block_capacity});
}

static void require_equal_outputs(void)
{
    const struct layer *last = &network.layers[network.layer_count - 1];
    for (size_t i = 0; i < vector_count; ++i) {
        run_generated(&vectors[i * network.input_width]);
        run_onnxruntime(&vectors[i * network.input_width]);
        if (memcmp(last->tasks->buffer, runtime_output, last->width * sizeof *runtime_output) != 0)
            fail(EXIT_SYSTEM, "vector %zu: the outputs differ; nothing was timed", i);
    }
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void time_slice(const struct contender *contender, size_t first, size_t count, uint32_t *time_ns)
{
    for (size_t i = 0; i < count; ++i) {
        const float *vector = &vectors[(first + i) * network.input_width];
        const uint64_t begin_ns = now_ns();
        contender->run(vector);
        time_ns[i] = (uint32_t)(now_ns() - begin_ns);
    }
}

static void time_pass(size_t pass)
{
    for (size_t first = 0; first < vector_count; first += SLICE) {
        const size_t left = vector_count - first;
        for (size_t i = 0; i < CONTENDERS; ++i)
            time_slice(&contenders[i], first, left < SLICE ? left : SLICE,
                       &contenders[i].time_ns[pass * vector_count + first]);
    }
}

static void write_times(const struct contender *contender, const char *folder, size_t calls)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.npy", folder, contender->name) >= (int)sizeof path)
        fail(EXIT_USAGE, "%s: the path is too long", folder);
    FILE *file = npy_create(path, "<u4", calls, 1);
    npy_write(file, path, contender->time_ns, calls * sizeof *contender->time_ns);
    npy_close_written(file, path);
}

int main(int argc, char **argv)
{
    if (argc != 9)
        fail(EXIT_USAGE, "expected LIBRARY MODEL INPUT-NAME OUTPUT-NAME VECTORS CORE PASSES FOLDER");
    pin(argv[6]); /* before ONNX Runtime looks at the cores */
    read_vectors(argv[5]);
    prepare(&argv[1]);
    require_equal_outputs();
    const size_t passes = strtoul(argv[7], NULL, 10);
    for (size_t i = 0; i < CONTENDERS; ++i)
        contenders[i].time_ns = allocate(passes * vector_count, sizeof *contenders[i].time_ns);
    for (size_t pass = 0; pass < passes; ++pass)
        time_pass(pass);
    for (size_t i = 0; i < CONTENDERS; ++i)
        write_times(&contenders[i], argv[8], passes * vector_count);
    return 0;
}
