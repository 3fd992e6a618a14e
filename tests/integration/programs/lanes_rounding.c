/* lanes_round and lanes_scale against the formulas of saturate.h and qgemm.h, with every float that could trip them. */
#include <stdio.h>

#include "qgemm.h"
#include "qgemm_vector.h"

static const int32_t sums[] = {0,        1,         -1,        3,         -5,         127,       16777217, -16777219,
                               33554434, INT32_MAX, INT32_MIN, 123456789, -987654321, INT32_MAX - 64, 255,  -128};
static const uint32_t multipliers[] = {
    0x00000000, 0x80000000, 0x00000001, 0x007fffff, 0x00800000, 0x3f000000, 0xbf000000, 0x3f800000, 0x3eaaaaab,
    0x33800000, 0x4b000000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x3727c5ac,
};
static const int32_t zero_points[] = {-128, -3, 0, 77, 127, 128, 255};

enum { SUMS = sizeof sums / sizeof *sums, MULTIPLIERS = sizeof multipliers / sizeof *multipliers };
enum { ZERO_POINTS = sizeof zero_points / sizeof *zero_points };

static int differ(const int32_t *acc, const float *m, int32_t zy)
{
    uint8_t u[LANES], right_u[LANES];
    int8_t s[LANES], right_s[LANES];
    float y[LANES], right_y[LANES];
    lanes_round(acc, lanes_load_factors(m), 0, 255, zy, u);
    lanes_round(acc, lanes_load_factors(m), -128, 127, zy, s);
    lanes_scale(acc, m, y);
    requantize_uint8(LANES, acc, m, zy, right_u);
    requantize_int8(LANES, acc, m, zy, right_s);
    scale_accumulator(LANES, acc, m, right_y);
    int wrong = memcmp(u, right_u, sizeof u) != 0 || memcmp(s, right_s, sizeof s) != 0;
    for (int lane = 0; lane < LANES; ++lane) /* one NaN is like another */
        wrong |= memcmp(&y[lane], &right_y[lane], sizeof *y) != 0 && (y[lane] == y[lane] || right_y[lane] == right_y[lane]);
    return wrong;
}

int main(void)
{
    int wrong = 0, tried = 0;
    for (int z = 0; z < ZERO_POINTS; ++z)
        for (int first = 0; first < SUMS; ++first)
            for (int other = 0; other < MULTIPLIERS; ++other, ++tried) {
                int32_t acc[LANES];
                float m[LANES];
                for (int lane = 0; lane < LANES; ++lane) {
                    acc[lane] = sums[(first + lane) % SUMS];
                    memcpy(&m[lane], &multipliers[(other + 3 * lane) % MULTIPLIERS], sizeof *m);
                }
                wrong += differ(acc, m, zero_points[z]);
            }
    printf("%d of %d\n", wrong, tried);
    return wrong != 0;
}
