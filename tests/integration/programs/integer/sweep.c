/* sweep COUNT SEED: scaled_accumulator on COUNT random pairs against the multiplication of this machine.
 *
 * Standard output: how many differ, and how many products were of each kind: zero, subnormal, normal, infinite.
 * Standard error: the first that differs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scaled.h"

enum { ZERO, SUBNORMAL, NORMAL, INFINITE, KINDS };

static uint64_t state;

/* xorshift64* */
static uint64_t draw(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1dull;
}

/* Of all lengths alike: of long ones many are halves between two float32, products by short ones often are. */
static int32_t some_accumulator(void)
{
    const uint64_t random = draw();
    const uint32_t bits = (uint32_t)random >> (random >> 32 & 31);
    return (int32_t)(random >> 63 ? 0u - bits : bits);
}

/* Finite; half of them where products become subnormal, or infinite. */
static uint32_t some_multiplier(void)
{
    const uint64_t random = draw();
    uint32_t biased = (uint32_t)(random >> 32) % 255, fraction = (uint32_t)random & 0x7fffff;
    if (random >> 62 == 0) {
        biased = random >> 61 ? 0 : (uint32_t)(random >> 40) % 24;
        fraction >>= (random >> 32) % 24;
    }
    if (random >> 62 == 1)
        biased = 254 - (uint32_t)(random >> 40) % 32;
    if (random >> 60 & 1)
        fraction &= 0x7fffffu << (random >> 56 & 15) & 0x7fffff;
    return ((uint32_t)random & 0x80000000u) | biased << 23 | fraction;
}

static uint32_t by_machine(int32_t acc, uint32_t bits)
{
    float m;
    memcpy(&m, &bits, sizeof m);
    const float y = (float)acc * m;
    memcpy(&bits, &y, sizeof bits);
    return bits;
}

static int kind(uint32_t bits)
{
    const uint32_t biased = bits >> 23 & 255;
    if (biased == 255)
        return INFINITE;
    if (biased)
        return NORMAL;
    return bits << 1 ? SUBNORMAL : ZERO;
}

int main(int argc, char **argv)
{
    uint64_t differing = 0, of_kind[KINDS] = {0};
    const uint64_t count = strtoull(argv[argc - 2], NULL, 10);
    state = strtoull(argv[argc - 1], NULL, 10);
    for (uint64_t i = 0; i < count; ++i) {
        const int32_t acc = some_accumulator();
        const uint32_t m = some_multiplier(), expected = by_machine(acc, m), found = scaled_accumulator(acc, m);
        of_kind[kind(expected)] += 1;
        if (expected != found && !differing++)
            fprintf(stderr, "%" PRId32 " * %08" PRIx32 ": %08" PRIx32 ", not %08" PRIx32 "\n", acc, m, found, expected);
    }
    printf("%" PRIu64, differing);
    for (int i = 0; i < KINDS; ++i)
        printf(" %" PRIu64, of_kind[i]);
    return 0;
}
