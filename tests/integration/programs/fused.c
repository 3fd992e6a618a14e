/* The fused multiply-add of fused.h against fmaf of the C library: random numbers, cancellation, and sums that lie so
 * near the middle of two float32 that a double does not tell on which side. */
#include <math.h>
#include <stdio.h>

#include "fused.h"

enum { CASES = 300000 };

static uint32_t random_bits(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static float number(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return isfinite(value) ? value : 1.5f;
}

static int differ(float a, float b, float c)
{
    const float found = fused(a, b, c), right = fmaf(a, b, c);
    return isfinite(right) && memcmp(&found, &right, sizeof found) != 0;
}

int main(void)
{
    int wrong = 0;
    for (int i = 0; i < CASES; ++i) {
        const float any[] = {number(random_bits()), number(random_bits()), number(random_bits())};
        const float a = number((random_bits() & 0x80ffffff) | 0x3f000000), b = number((random_bits() & 0x80ffffff) | 0x3f000000);
        const float near = 1 + ldexpf(1, -12), tiny = ldexpf(number((random_bits() & 0x807fffff) | 0x3f800000), -70);
        wrong += differ(any[0], any[1], any[2]) + differ(a, b, -(a * b)) + differ(a, b, number(random_bits()));
        wrong += differ(near, ldexpf(near, i % 60 - 30), ldexpf(tiny, i % 60 - 30));
    }
    printf("%d of %d\n", wrong, 4 * CASES);
    return wrong != 0;
}
