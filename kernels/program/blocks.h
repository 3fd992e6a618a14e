/* The number of vectors of the next execution. */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "options.h"
#include "random.h"

/* Return --block, or with --random-block a number from 1 to it, small ones as often as large ones: the number of
 * binary digits is drawn first.  Never more than are left. */
static inline size_t next_block(const struct options *options, struct random *random, size_t left)
{
    size_t size = options->block;
    if (options->random_block) {
        uint64_t digits = 0;
        while (options->block >> digits > 1)
            ++digits;
        const uint64_t most = (UINT64_C(2) << random_up_to(random, digits)) - 1;
        size = 1 + (size_t)random_up_to(random, (most < options->block ? most : options->block) - 1);
    }
    return size < left ? size : left;
}

#endif
