/* All layers of a network for as many vectors as the argument says, one after the other, on codes of all sizes. */
#include <stdlib.h>

#include "network.h"
#include "options.h"

int main(int argc, char **argv)
{
    for (size_t i = 0; i < network.item_count; ++i)
        network.items[i].init(&(struct options){.block = network.block_capacity});
    for (long v = 0; argc == 2 && v < atol(argv[1]); ++v) {
        for (size_t i = 0; i < network.inputs->width; ++i)
            ((float *)network.inputs->values)[i] = (float)((v * 7 + (long)i * 13) % 64 - 32) / 16;
        for (size_t i = 0; i < network.task_count; ++i)
            network.tasks[i].forward(1, 0);
    }
    return 0;
}
