/* Ours: the generated network.c of a bundle, its tasks called in their order. */
#include <string.h>

#include "fail.h"
#include "network.h"
#include "options.h"
#include "worker.h"

static void run(const float *vector)
{
    memcpy(network.inputs->values, vector, network.inputs->width * sizeof *vector);
    for (size_t i = 0; i < network.task_count; ++i)
        network.tasks[i].forward(1, 0);
}

struct contender contender_open(char **arguments)
{
    if (arguments[0])
        fail(EXIT_USAGE, "generated code takes no arguments");
    for (size_t i = 0; i < network.item_count; ++i)
        network.items[i].init(&(struct options){.block = network.block_capacity});
    const struct layer *last = &network.layers[network.layer_count - 1];
    return (struct contender){network.inputs->width, last->width, run, last->tasks->buffer};
}
