/* Reproducible random numbers (splitmix64 of Steele, Lea and Flood, 2014): number i of a seed is a function of both
 * alone, so that a host computes the same ones.
 */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/* A sequence of random numbers: the value before the next one. */
struct random {
    uint64_t state;
};

static inline uint64_t random_mixed(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* Return number `index` of the sequence of `seed`. */
static inline uint64_t random_at(uint64_t seed, uint64_t index)
{
    return random_mixed(seed + (index + 1) * UINT64_C(0x9E3779B97F4A7C15));
}

/* Return a sequence of its own for each seed and each stream. */
static inline struct random random_from(uint64_t seed, uint64_t stream)
{
    return (struct random){random_mixed(random_mixed(seed) + stream)};
}

/* Return a number from 0 to `limit`. */
static inline uint64_t random_up_to(struct random *random, uint64_t limit)
{
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    return random_mixed(random->state) % (limit + 1);
}

#endif
