/* The tasks of generated networks of the same layers, timed one by one and in turns; see kernels.py.
 *
 * usage: kernels VECTORS CORE
 *
 * All compute every vector first; a byte that differs ends the program before anything is timed.  Prints a line for
 * each network: the least nanoseconds of each of its tasks.
 */
#include "timing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inference.h"
#include "npy.h"
#include "options.h"

enum { MOST_NETWORKS = 4, MOST_TASKS = 16, ROUNDS = 40 };

static uint64_t least_ns[MOST_NETWORKS][MOST_TASKS];

static void run(size_t number, const float *vector)
{
    const struct network *generated = networks[number];
    memcpy(generated->input, vector, generated->input_width * sizeof *vector);
    for (size_t i = 0; i < generated->task_count; ++i) {
        const uint64_t begin_ns = now_ns();
        generated->tasks[i].forward(1, 0);
        const uint64_t time_ns = now_ns() - begin_ns;
        if (time_ns < least_ns[number][i])
            least_ns[number][i] = time_ns;
    }
}

static void require_equal(size_t vector)
{
    for (size_t n = 1; n < network_count; ++n)
        for (size_t i = 0; i < networks[0]->layer_count; ++i) {
            const struct layer *one = &networks[0]->layers[i], *other = &networks[n]->layers[i];
            if (memcmp(one->tasks->buffer, other->tasks->buffer, one->width * one->element_size) != 0)
                fail(EXIT_SYSTEM, "vector %zu: layer %s of network %zu differs; nothing was timed", vector, one->name, n);
        }
}

int main(int argc, char **argv)
{
    if (argc != 3 || network_count > MOST_NETWORKS || networks[0]->task_count > MOST_TASKS)
        fail(EXIT_USAGE, "expected VECTORS CORE, and at most %d networks of %d tasks", MOST_NETWORKS, MOST_TASKS);
    pin(argv[2]);
    const size_t width = networks[0]->inputs->width;
    size_t count;
    FILE *file = npy_open_rows(argv[1], "<f4", width, &count);
    float *vectors = allocate(count * width, sizeof *vectors);
    npy_read(file, argv[1], vectors, count * width * sizeof *vectors);
    fclose(file);
    for (size_t n = 0; n < network_count; ++n)
        for (size_t i = 0; i < networks[n]->item_count; ++i)
            networks[n]->items[i].init(&(struct options){.block = networks[n]->block_capacity});
    for (size_t vector = 0; vector < count; ++vector) {
        for (size_t n = 0; n < network_count; ++n)
            run(n, &vectors[vector * width]);
        require_equal(vector);
    }
    memset(least_ns, 0xff, sizeof least_ns);
    for (size_t round = 0; round < ROUNDS * network_count; ++round)
        for (size_t vector = 0; vector < count; ++vector)
            run(round % network_count, &vectors[vector * width]);
    for (size_t n = 0; n < network_count; ++n) {
        for (size_t i = 0; i < networks[n]->task_count; ++i)
            printf("%" PRIu64 " ", least_ns[n][i]);
        printf("\n");
    }
    return 0;
}
