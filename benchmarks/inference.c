/* One inference, timed call by call: generated networks against ONNX Runtime, alternately, on one core.
 *
 * usage: inference LIBRARY MODEL INPUT-NAME OUTPUT-NAME VECTORS CORE PASSES FOLDER
 *
 * All first compute every vector; a bit that differs ends the program before anything is timed.  Writes one
 * FOLDER/<contender>.npy each: uint32 nanoseconds, one row a call.  A network is called network_<number>.
 */
#include "timing.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inference.h"
#include "options.h"
#include "npy.h"
#include "onnxruntime.h"

/* Calls of one contender before the next one's turn: enough to have its code and constants in the caches again. */
enum { SLICE = 512 };

/* What it runs is a generated network, or something else that has none. */
struct contender {
    char name[32];
    void (*run)(const struct network *generated, const float *vector);
    const struct network *generated;
    uint32_t *time_ns;
};

static float *vectors; /* (vector_count, input_width) */
static size_t input_width, output_width;
static size_t vector_count;
static float *runtime_input, *runtime_output;

static void run_nothing(const struct network *none, const float *vector)
{
    (void)none;
    (void)vector;
}

static void run_generated(const struct network *generated, const float *vector)
{
    memcpy(generated->inputs->values, vector, input_width * sizeof *vector);
    for (size_t i = 0; i < generated->task_count; ++i)
        generated->tasks[i].forward(1, 0);
}

static void run_onnxruntime(const struct network *none, const float *vector)
{
    (void)none;
    memcpy(runtime_input, vector, input_width * sizeof *vector);
    runtime_run();
}

enum { OTHERS = 2, MOST_CONTENDERS = 16 };

/* The clock alone is a contender, because every time contains two readings of it. */
static struct contender contenders[MOST_CONTENDERS] = {
    {"clock", run_nothing, NULL, NULL},
    {"onnxruntime", run_onnxruntime, NULL, NULL},
};
static size_t contender_count = OTHERS;

static void enter_networks(void)
{
    for (size_t i = 0; i < network_count && contender_count < MOST_CONTENDERS; ++i) {
        struct contender *entered = &contenders[contender_count++];
        snprintf(entered->name, sizeof entered->name, "network_%zu", i);
        entered->run = run_generated;
        entered->generated = networks[i];
    }
}

static void read_vectors(const char *path)
{
    FILE *file = npy_open_rows(path, "<f4", input_width, &vector_count);
    vectors = allocate(vector_count * input_width, sizeof *vectors);
    npy_read(file, path, vectors, vector_count * input_width * sizeof *vectors);
    fclose(file);
}

static const struct layer *last_layer(const struct network *generated)
{
    return &generated->layers[generated->layer_count - 1];
}

static void prepare(char **argument)
{
    runtime_input = allocate(input_width, sizeof *runtime_input);
    runtime_output = allocate(output_width, sizeof *runtime_output);
    const struct runtime_model model = {
        .library = argument[0],
        .path = argument[1],
        .input_name = argument[2],
        .output_name = argument[3],
        .input_width = input_width,
        .output_width = output_width,
    };
    runtime_open(&model, runtime_input, runtime_output);
    for (size_t n = 0; n < network_count; ++n)
        for (size_t i = 0; i < networks[n]->item_count; ++i)
            networks[n]->items[i].init(&(struct options){.block = networks[n]->block_capacity});
}

static void require_equal_outputs(void)
{
    for (size_t i = 0; i < vector_count; ++i) {
        const float *vector = &vectors[i * input_width];
        run_onnxruntime(NULL, vector);
        for (size_t n = 0; n < network_count; ++n) {
            run_generated(networks[n], vector);
            if (memcmp(last_layer(networks[n])->tasks->buffer, runtime_output, output_width * sizeof(float)) != 0)
                fail(EXIT_SYSTEM, "vector %zu: the outputs of network_%zu differ; nothing was timed", i, n);
        }
    }
}

static void time_slice(const struct contender *contender, size_t first, size_t count, uint32_t *time_ns)
{
    for (size_t i = 0; i < count; ++i) {
        const float *vector = &vectors[(first + i) * input_width];
        const uint64_t begin_ns = now_ns();
        contender->run(contender->generated, vector);
        time_ns[i] = (uint32_t)(now_ns() - begin_ns);
    }
}

static void time_pass(size_t pass)
{
    for (size_t first = 0; first < vector_count; first += SLICE) {
        const size_t left = vector_count - first;
        for (size_t i = 0; i < contender_count; ++i)
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
    input_width = networks[0]->inputs->width;
    output_width = last_layer(networks[0])->width;
    enter_networks();
    read_vectors(argv[5]);
    prepare(&argv[1]);
    require_equal_outputs();
    const size_t passes = strtoul(argv[7], NULL, 10);
    for (size_t i = 0; i < contender_count; ++i)
        contenders[i].time_ns = allocate(passes * vector_count, sizeof *contenders[i].time_ns);
    for (size_t pass = 0; pass < passes; ++pass)
        time_pass(pass);
    for (size_t i = 0; i < contender_count; ++i)
        write_times(&contenders[i], argv[8], passes * vector_count);
    return 0;
}
